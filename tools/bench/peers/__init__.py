"""The workloads in each framework: `build(work, weights, data, options)` gives a step that returns its value.

A value is in hand when the step returns: a number, or an array of NumPy or one that NumPy reads without a copy.
"""
