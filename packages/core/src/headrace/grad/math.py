"""Gradient rules of the math family."""
