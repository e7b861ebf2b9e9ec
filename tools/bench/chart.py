"""A chart of results: for each workload the median step of every framework as a multiple of ours, with quartiles."""

from __future__ import annotations

import importlib
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["draw"]

COLOURS = {
    "headrace": "#1f5a96",
    "torch": "#d9603b",
    "jax": "#7a5195",
    "tensorflow": "#e8a33d",
    "onnxruntime": "#6b7280",
}


def draw(results: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Write a PNG.

    Args:
      results: what `Result.as_json` gives, or what the file of `--json` holds.
      file: where to.
    """
    pyplot = _pyplot()
    peers = list(dict.fromkeys(peer for result in results for peer in result["seconds"]))
    height = 0.9 + 0.26 * sum(len(result["seconds"]) + 1 for result in results)
    figure, axes = pyplot.subplots(figsize=(9, height), layout="constrained")
    ticks, names, y, right = [], [], 0.0, 1.0
    for result in results:
        ours = result["median"].get("headrace", math.nan)
        first = y
        for peer, seconds in result["seconds"].items():
            low, middle, high = _quartiles(seconds)
            times = middle / ours
            whiskers = [[(middle - low) / ours], [(high - middle) / ours]]
            colour = COLOURS.get(peer.split("-")[0], "#9ca3af")
            axes.barh(y, times, color=colour, height=0.85, xerr=whiskers, error_kw={"lw": 0.8, "capsize": 2})
            axes.annotate(f" {_time(middle)}", (high / ours, y), va="center", fontsize=7)
            right = max(right, times)
            y += 1
        floor = result["floor"]
        if floor:
            axes.plot([floor / ours] * 2, [first - 0.6, y - 0.4], color="black", lw=1.2, ls=":")
        ticks.append((first + y - 1) / 2)
        names.append(result["work"])
        y += 1
    axes.axvline(1.0, color=COLOURS["headrace"], lw=0.8)
    axes.set_yticks(ticks, names)
    axes.set_xscale("log")
    axes.set_xlim(right=right * 2)
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.set_xlabel("time of a step, as a multiple of Headrace's (dotted: the floor of the machine)")
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=COLOURS.get(peer.split("-")[0], "#9ca3af")) for peer in peers]
    figure.legend(handles, peers, loc="outside upper center", ncols=len(peers), frameon=False, fontsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(file, dpi=150)
    pyplot.close(figure)


def _pyplot() -> Any:
    """Only the environment of the benchmarks has matplotlib; it has no types that mypy could check."""
    importlib.import_module("matplotlib").use("agg")
    return importlib.import_module("matplotlib.pyplot")


def _quartiles(seconds: Sequence[float]) -> tuple[float, float, float]:
    if len(seconds) < 2:
        return (seconds[0],) * 3
    low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return low, middle, high


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
