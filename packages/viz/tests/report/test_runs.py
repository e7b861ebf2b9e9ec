"""What is read from the folders of runs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from headrace.errors import NotFoundError
from headrace_viz import EventWriter, SummaryWriter
from headrace_viz.profiling.xspace import to_xspace
from headrace_viz.report import load_runs

from ..profiling.timelines import step, timeline


def _scalars(folder: Path, **values: float) -> Path:
    with EventWriter(folder) as writer:
        for tag, value in values.items():
            writer.scalar(tag, value, 1)
    return folder


def _profile(run: Path, name: str = "here-1") -> None:
    folder = run / "plugins" / "profile" / "session"
    folder.mkdir(parents=True)
    (folder / f"{name}.xplane.pb").write_bytes(to_xspace(timeline(step(1, 1_000_100))).SerializeToString())


def test_everything_of_a_run_is_read(tmp_path: Path) -> None:
    with hr.Graph().as_default() as graph:
        hr.placeholder(hr.float32, [], name="x")
    with EventWriter(tmp_path) as events:
        events.graph(graph)
    with SummaryWriter(str(tmp_path)) as writer:
        for number in (3, 1, 2):
            writer.add_scalar("loss", number / 2, number)
        writer.add_scalar("loss", math.nan, 4)
        writer.add_histogram("weights", np.arange(10.0), 2)
        writer.add_text("note", "first", 0)
        writer.add_text("note", "last", 1)
    _profile(tmp_path)
    (run,) = load_runs([tmp_path])
    assert run.name == tmp_path.name
    np.testing.assert_array_equal(run.curves["loss"].steps, [1, 2, 3, 4])
    np.testing.assert_array_equal(run.curves["loss"].values, [0.5, 1.0, 1.5, math.nan])
    assert [found.step for found in run.histograms["weights"]] == [2]
    assert run.histograms["weights"][0].rows[:, 2].sum() == 10
    assert run.texts == {"note": "last"}
    assert run.graph_def is not None
    assert len(run.profiles) == 1
    assert (run.last_step, run.damages, len(run.files)) == (4, (), 2)


def test_runs_in_a_folder_and_folders_of_runs_are_named_apart(tmp_path: Path) -> None:
    for first in ("a", "b"):
        for second in ("train", "validation"):
            _scalars(tmp_path / first / second, loss=1.0)
    assert [run.name for run in load_runs([tmp_path / "a"])] == ["train", "validation"]
    names = [run.name for run in load_runs([tmp_path / "a", tmp_path / "b", tmp_path / "a"])]
    assert names == ["a/train", "a/validation", "b/train", "b/validation"]
    names = [run.name for run in load_runs([tmp_path / "a" / "train", tmp_path / "b" / "train"])]
    assert names == ["a/train", "b/train"]


def test_runs_are_in_the_order_in_which_people_count(tmp_path: Path) -> None:
    for name in ("rate=16.4", "rate=131", "rate=0.5", "rate=2", "other"):
        _scalars(tmp_path / name, loss=1.0)
    names = [run.name for run in load_runs([tmp_path])]
    assert names == ["other", "rate=0.5", "rate=2", "rate=16.4", "rate=131"]


def test_a_folder_of_profiles_alone_is_a_run(tmp_path: Path) -> None:
    _profile(tmp_path / "worker")
    (run,) = load_runs([tmp_path])
    assert (run.name, len(run.profiles), run.curves, run.last_step) == ("worker", 1, {}, None)


def test_a_folder_without_anything_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no event files(.|\n)*try:"):
        load_runs([tmp_path])


def test_damage_is_passed_over_and_noted(tmp_path: Path) -> None:
    _scalars(tmp_path, first=1.0, second=2.0)
    (path,) = tmp_path.iterdir()
    data = bytearray(path.read_bytes())
    data[-20] ^= 1  # in the last record
    path.write_bytes(data)
    _profile(tmp_path)
    (profile,) = tmp_path.rglob("*.xplane.pb")
    profile.write_bytes(b"\xff\xff")
    (run,) = load_runs([tmp_path])
    assert list(run.curves) == ["first"]
    assert len(run.damages) == 2
    assert run.profiles == ()
