"""The same models in each framework: `build(kind, weights, data, threads)` gives a step that returns its loss."""
