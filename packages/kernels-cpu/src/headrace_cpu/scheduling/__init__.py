"""Scheduling: what computes each operation of a segment, and in which order."""
