"""Run all comparisons and record them in docs/oracle.md: `python -m oracle [--graphs N] [--no-cases] [--json FILE]`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from importlib import metadata
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from oracle import cases, graphs, queues

DOCUMENT = Path(__file__).resolve().parent.parent.parent / "docs" / "oracle.md"
HEADER = """# Compared with TensorFlow

Written by `nox -s oracle`, which installs TensorFlow in an environment of its own; it is no part of the default tests.

"""


def versions() -> str:
    """Return the versions of what was compared."""
    names = ("headrace", "tensorflow-cpu", "numpy", "protobuf")
    return ", ".join(f"{name} {metadata.version(name)}" for name in names) + f", Python {sys.version.split()[0]}"


def _plain(text: str) -> str:
    """Return an error's text so that it can stand in a code span."""
    return text.replace("`", "'").strip()


def document(result: cases.Result, found: dict[str, list[graphs.Difference]], count: int) -> str:
    """Return the record as a document."""
    lines = [f"Versions: {versions()}.", "", "## Operation cases", "", "| outcome | cases |", "|---|---|"]
    lines += [f"| {outcome} | {number} |" for outcome, number in sorted(result.counts.items())]
    lines += [
        "",
        "## Random graphs, values and gradients; random steps",
        "",
        "| what | number | equal |",
        "|---|---|---|",
    ]
    lines += [f"| {direction} | {count} | {count - len(differences)} |" for direction, differences in found.items()]
    lines += ["", "## Differences", ""]
    differences = [f"- `{case}`: `{_plain(what)}`" for case, what in result.differences]
    differences += [f"- graph {d.seed}, {d.direction}: {d.what}" for group in found.values() for d in group]
    lines += differences or ["None."]
    lines += ["", "## Deliberate deviations", "", "Where TensorFlow is wrong by its own definition.", ""]
    lines += [f"- `{case}`: {why}" for case, why in result.deviations] or ["None."]
    lines += ["", "## Computed here only", "", "What TensorFlow refuses with the same inputs.", ""]
    lines += [f"- `{case}`: `{_plain(what)}`" for case, what in result.extensions] or ["None."]
    return HEADER + "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Compare, record, and return 1 if something that should be equal differs."""
    parser = argparse.ArgumentParser(prog="nox -s oracle --", description="Compare with TensorFlow")
    parser.add_argument("--graphs", type=int, default=500, help="random graphs in each direction")
    parser.add_argument("--no-cases", action="store_true", help="compare no operation cases, and record nothing")
    parser.add_argument("--json", type=Path, help="write how many were equal to this file")
    parser.add_argument("--no-record", action="store_true", help="print the record instead of writing docs/oracle.md")
    chosen = parser.parse_args(arguments)
    result = cases.Result() if chosen.no_cases else cases.compare()
    found = {direction: graphs.compare(direction, chosen.graphs) for direction in graphs.DIRECTIONS}
    found[queues.DIRECTION] = queues.compare(chosen.graphs)
    text = document(result, found, chosen.graphs)
    if chosen.no_record or chosen.no_cases:
        print(text)
    else:
        DOCUMENT.write_text(text)
        print(f"recorded in {DOCUMENT}")
    print(", ".join(f"{number} {outcome}" for outcome, number in sorted(result.counts.items())))
    for direction, differences in found.items():
        print(f"{direction}: {chosen.graphs - len(differences)} of {chosen.graphs} equal")
    if chosen.json is not None:
        equal = {direction: chosen.graphs - len(differences) for direction, differences in found.items()}
        chosen.json.write_text(json.dumps({"cases": result.counts, "graphs": equal}, indent=2) + "\n")
    return 1 if result.differences or any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
