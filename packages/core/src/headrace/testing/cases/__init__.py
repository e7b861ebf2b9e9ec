"""The operation cases, one module per family; each has a list `CASES`."""
