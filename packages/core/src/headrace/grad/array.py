"""Gradient rules of the array family."""
