"""Loops: a region of the loop IR as a function with explicit vectors."""
