"""The command line: `python -m measure AREA [--quick] [--json FILE]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from measure import checkpoint, core, cpu, execution, serving, viz
from measure.report import Row, report

AREAS: dict[str, Callable[[bool], Iterator[Row]]] = {
    "checkpoint": checkpoint.rows,
    "core": core.rows,
    "cpu": cpu.rows,
    "execution": execution.rows,
    "serving": serving.rows,
    "viz": viz.rows,
}


def main(arguments: list[str]) -> int:
    """Measure one area and return 1 if a row falls short."""
    parser = argparse.ArgumentParser(prog="nox -s measure --", description="Measure what an area must hold")
    parser.add_argument("area", choices=sorted(AREAS))
    parser.add_argument("--quick", action="store_true", help="fewer rounds, this checkout instead of a fresh clone")
    parser.add_argument("--json", type=Path, help="write the rows to this file too")
    chosen = parser.parse_args(arguments)
    return report(AREAS[chosen.area](chosen.quick), chosen.json)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
