"""Graphs, operations and tensors: how they are made, checked, printed, written and read."""
