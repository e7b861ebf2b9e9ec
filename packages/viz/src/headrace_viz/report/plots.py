"""The curves as PNG files, for those without a browser; needs matplotlib."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from headrace_viz.extras import load_extra
from headrace_viz.report.runs import Run


def write_plots(runs: Sequence[Run], folder: Path) -> list[Path]:
    """Draw each curve of some runs into a PNG file.

    Args:
      runs: at least one.
      folder: where to; made if it is missing.
    Returns:
      the files, one for each tag.
    Raises:
      NotFoundError: matplotlib is not installed.
      OSError: a file cannot be written.
    """
    figures = load_extra("matplotlib.figure", "plots")
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for tag in sorted({tag for run in runs for tag in run.curves}):
        figure = figures.Figure(figsize=(7, 4), dpi=110, layout="constrained")
        axes = figure.add_subplot()
        for run in runs:
            if tag in run.curves:
                curve = run.curves[tag]
                marker = "o" if len(curve.steps) == 1 else ""
                axes.plot(curve.steps, curve.values, label=run.name, linewidth=1.2, marker=marker)
        # A tag may hold dollar signs, which would begin a formula.
        axes.set_title(tag.replace("$", r"\$"))
        axes.set_xlabel("step")
        axes.grid(alpha=0.3)
        if len(runs) > 1:
            axes.legend()
        path = _free_name(folder, tag, written)
        figure.savefig(path)
        written.append(path)
    return written


def _free_name(folder: Path, tag: str, taken: Sequence[Path]) -> Path:
    stem = re.sub(r"[^A-Za-z0-9_.-]+", "_", tag).strip("._")[:100] or "curve"
    path, number = folder / f"{stem}.png", 1
    while path in taken:
        number += 1
        path = folder / f"{stem}_{number}.png"
    return path
