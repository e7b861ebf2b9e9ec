"""The curves as PNG files."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

from headrace.errors import NotFoundError
from headrace_viz import EventWriter
from headrace_viz.report import load_runs
from headrace_viz.report.plots import write_plots


def test_each_curve_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for run in ("one", "two"):
        with EventWriter(tmp_path / run) as writer:
            for number in range(5):
                writer.scalar("loss/total$", math.nan if number == 2 else number, number)
            writer.scalar("loss_total", 1.0, 1)
            writer.scalar("…", 1.0, 1)
    paths = write_plots(load_runs([tmp_path / "one", tmp_path / "two"]), tmp_path / "plots")
    assert [path.name for path in paths] == ["loss_total.png", "loss_total_2.png", "curve.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)


def test_without_matplotlib_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(NotFoundError, match=r"matplotlib(.|\n)*pip install headrace-viz\[plots\]"):
        write_plots([], tmp_path)
