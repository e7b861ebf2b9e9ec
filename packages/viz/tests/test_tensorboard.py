"""Stock TensorBoard, with either of its loaders, serves what we wrote: asked through its HTTP interface."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace_viz import EventWriter
from headrace_viz.proto.event_pb2 import Summary
from headrace_viz.records import frame, read_records

pytest.importorskip("tensorboard")
pytestmark = pytest.mark.slow

TAGS = ["loss", "train/accuracy", "loss: (a) %", "损失", "t" * 300]
TORN_STEPS = 6


@dataclass(frozen=True)
class TensorBoard:
    """A running server and how many whole points each torn run has."""

    url: str
    torn: dict[str, int]

    def get(self, path: str, **query: str) -> Any:
        """The answer to a GET request, read as JSON."""
        with urllib.request.urlopen(f"{self.url}data/{path}?{urllib.parse.urlencode(query)}", timeout=30) as answer:
            return json.load(answer)

    def text(self, path: str, **query: str) -> str:
        """The answer to a GET request as it is."""
        with urllib.request.urlopen(f"{self.url}data/{path}?{urllib.parse.urlencode(query)}", timeout=30) as answer:
            return str(answer.read().decode())

    def check_points(self, run: str, tag: str, expected: list[tuple[int, Any]]) -> None:
        """Check step and value of every point of a curve, once the server has loaded the run."""
        deadline = time.monotonic() + 20
        while True:
            try:
                answer = self.get("plugin/scalars/scalars", run=run, tag=tag)
            except urllib.error.HTTPError:  # the run is not known yet
                answer = []
            points = [(step, value) for _, step, value in answer]
            if points == expected or time.monotonic() > deadline:
                assert points == expected, run
                return


def _write_runs(logdir: Path) -> dict[str, int]:
    with EventWriter(logdir / "plain") as writer:
        for step in range(20):
            writer.scalars(dict.fromkeys(TAGS, step / 7), step)
        for step, value in enumerate([math.nan, math.inf, -math.inf, 1.5]):
            writer.scalar("not finite", value, step)
        for step in range(3):
            summary = Summary(value=[Summary.Value(tag="old form", simple_value=step)])
            writer.summary(summary.SerializeToString(), step)
    with EventWriter(logdir / "resumed") as writer:
        for step in range(10):
            writer.scalar("loss", step, step)
    with EventWriter(logdir / "resumed", purge_step=5) as writer:
        for step in range(5, 8):
            writer.scalar("loss", 100 + step, step)
    for value in (1, 2):
        with EventWriter(logdir / "two files") as writer:
            writer.scalar("loss", value, value)
    with hr.Graph().as_default() as graph:
        with hr.name_scope("layer"):
            w = hr.constant(np.ones([3, 1000], np.float32), name="w")
        hr.apply_op("MatMul", hr.placeholder(hr.float32, [None, 3], name="x"), w, name="product")
    with EventWriter(logdir / "graph") as writer:
        writer.graph(graph)
    return _write_torn_runs(logdir)


def _write_torn_runs(logdir: Path) -> dict[str, int]:
    with EventWriter(logdir / "whole") as writer:
        for step in range(TORN_STEPS):
            writer.scalar("loss", step / 4, step)
    image = writer.path.read_bytes()
    ends = np.cumsum([len(frame(data)) for data in read_records(writer.path)])
    torn = {}
    for size in range(int(ends[-4]), len(image)):
        run = f"torn at {size}"
        (logdir / run).mkdir()
        (logdir / run / writer.path.name).write_bytes(image[:size])
        torn[run] = int((ends <= size).sum()) - 1
    return torn


@pytest.fixture(name="board", scope="module", params=["true", "false"], ids=["fast loader", "python loader"])
def _board(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TensorBoard]:
    logdir = tmp_path_factory.mktemp("logs")
    torn = _write_runs(logdir)
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(logdir), "--host", "127.0.0.1", "--port", "0"]
    options = ["--load_fast", request.param, "--samples_per_plugin", "scalars=10000", "--reload_interval", "1"]
    with subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            url = next(found[0] for line in process.stderr if (found := re.search(r"http://127.0.0.1:\d+/", line)))
            yield TensorBoard(url, torn)
        finally:
            process.kill()


@pytest.mark.parametrize("tag", TAGS)
def test_B07_scalars(board: TensorBoard, tag: str) -> None:
    board.check_points("plain", tag, [(step, float(np.float32(step / 7))) for step in range(20)])


def test_B05_values_that_are_not_finite(board: TensorBoard) -> None:
    board.check_points("plain", "not finite", [(0, "NaN"), (1, "Infinity"), (2, "-Infinity"), (3, 1.5)])


def test_summaries_of_operations(board: TensorBoard) -> None:
    board.check_points("plain", "old form", [(0, 0.0), (1, 1.0), (2, 2.0)])


def test_the_graph_is_served_as_text(board: TensorBoard) -> None:
    runs = board.get("plugin/graphs/info")
    assert runs["graph"]["run_graph"]
    text = board.text("plugin/graphs/graph", run="graph", limit_attr_size="1024", large_attrs_key="_too_large_attrs")
    nodes = re.findall(r'^node \{\n  name: "(.*)"\n  op: "(.*)"\n((?:  input: .*\n)*)', text, re.MULTILINE)
    assert {(name, op, tuple(re.findall(r'"(.*)"', inputs))) for name, op, inputs in nodes} == {
        ("layer/w", "Const", ()),
        ("x", "Placeholder", ()),
        ("product", "MatMul", ("x", "layer/w")),
    }
    assert "_too_large_attrs" not in text


def test_B01_two_writers_of_one_run(board: TensorBoard) -> None:
    board.check_points("two files", "loss", [(1, 1.0), (2, 2.0)])


def test_a_resumed_run_is_one_clean_curve(board: TensorBoard) -> None:
    values = [0, 1, 2, 3, 4, 105, 106, 107]
    board.check_points("resumed", "loss", [(step, float(value)) for step, value in enumerate(values)])


def test_torn_files_show_exactly_their_whole_records(board: TensorBoard) -> None:
    for run, count in board.torn.items():
        board.check_points(run, "loss", [(step, step / 4) for step in range(count)])
