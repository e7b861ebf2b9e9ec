"""Print how long modules, classes and functions are: `size.py packages/core/src packages/viz/src`.

The habits: a module has 80 to 250 lines and past 600 wants a seam; the median function has at most 10 lines and nine of
ten at most 30; a class has at most 12 public methods. Generated modules are left out.
"""

from __future__ import annotations

import ast
import statistics
import sys
from pathlib import Path


def function_lengths(tree: ast.Module) -> list[int]:
    """Return the number of lines of each function's body, docstrings not counted."""
    lengths = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            lengths.append((body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 1)
    return lengths


def widest_class(tree: ast.Module) -> int:
    """Return the largest number of public methods of one class."""
    counts = [0]
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            counts.append(sum(isinstance(d, ast.FunctionDef) and not d.name.startswith("_") for d in node.body))
    return max(counts)


def percentile(values: list[int], share: float) -> int:
    """Return the value that `share` of the values do not exceed."""
    return sorted(values)[max(0, round(share * len(values)) - 1)] if values else 0


def main(folders: list[str]) -> None:
    """Print one row per module and one per folder."""
    print(f"{'lines':>6} {'functions':>9} {'median':>6} {'p90':>4} {'methods':>7}  module")
    for folder in map(Path, folders):
        total, every = 0, []
        for path in sorted(folder.rglob("*.py")):
            if path.name.endswith("_pb2.py"):
                continue
            text = path.read_text()
            tree = ast.parse(text)
            lines, lengths = len(text.splitlines()), function_lengths(tree)
            total += lines
            every += lengths
            median = statistics.median(lengths) if lengths else 0
            mark = " (long)" if lines > 600 else ""
            print(
                f"{lines:6} {len(lengths):9} {median:6.0f} {percentile(lengths, 0.9):4} {widest_class(tree):7}  "
                f"{path.relative_to(folder)}{mark}"
            )
        median = statistics.median(every) if every else 0
        print(f"{total:6} {len(every):9} {median:6.0f} {percentile(every, 0.9):4} {'':7}  {folder} in all\n")


if __name__ == "__main__":
    main(sys.argv[1:])
