"""From graph to graph: the part that a step needs, with less work and the same numbers."""
