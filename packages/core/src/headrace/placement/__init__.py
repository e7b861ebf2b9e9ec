"""Placement: the device of each operation of a bounded graph, and the part of the graph that each device gets."""
