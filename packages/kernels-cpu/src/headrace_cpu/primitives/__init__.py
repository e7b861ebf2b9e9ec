"""Primitives: what code of our own computes as a whole, and the choice between that and a library."""
