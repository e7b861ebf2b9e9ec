"""Measure what the areas of the project must hold: `nox -s measure -- AREA [--quick] [--json FILE]`.

One module per area yields the rows; `report` prints them; `environments` makes the fresh environments they need.
"""
