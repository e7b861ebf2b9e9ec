"""From the graph of one step to its memory and its code."""
