"""Stock TensorBoard, with either of its loaders, serves what we wrote: asked through its HTTP interface."""

from __future__ import annotations

import io
import json
import math
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import wave
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

import headrace as hr
from headrace_viz import EventWriter, SummaryWriter, summary
from headrace_viz.histograms import histogram_rows
from headrace_viz.proto.event_pb2 import Summary
from headrace_viz.records import frame, read_records
from headrace_viz.tensors import array_of
from headrace_viz.values import pr_curve

pytest.importorskip("tensorboard")
pytestmark = pytest.mark.slow

TAGS = ["loss", "train/accuracy", "loss: (a) %", "损失", "t" * 300]
TORN_STEPS = 6
SAMPLES = "scalars=10000,images=100,text=100"
NUMBERS = np.random.default_rng(1)
WEIGHTS = NUMBERS.normal(size=100).astype(np.float32)
PICTURES = NUMBERS.integers(0, 200, [2, 3, 4, 5], np.uint8)
TONE = np.sin(np.arange(100) / 5).astype(np.float32)
LABELS, GUESSES = NUMBERS.integers(0, 2, 50), NUMBERS.random(50)
VERTICES = NUMBERS.normal(size=[1, 3, 3]).astype(np.float32)
COLORS, FACES = np.full([1, 3, 3], 200), np.array([[[0, 1, 2]]])


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

    def bytes(self, path: str, **query: str) -> bytes:
        """The answer to a GET request, unread; the path may end in a query of its own."""
        mark = "&" if "?" in path else "?"
        with urllib.request.urlopen(
            f"{self.url}data/{path}{mark}{urllib.parse.urlencode(query)}", timeout=30
        ) as answer:
            return bytes(answer.read())

    def when_loaded(self, path: str, run: str, tag: str, count: int, **query: str) -> list[Any]:
        """The answer about a tag, once the server has loaded so many points of it."""
        deadline = time.monotonic() + 20
        while True:
            try:
                answer = self.get(path, run=run, tag=tag, **query)
            except urllib.error.HTTPError:  # the run or the tag is not known yet
                answer = []
            if len(answer) >= count or time.monotonic() > deadline:
                assert len(answer) == count, (path, run, tag, answer)
                return list(answer)
            time.sleep(0.05)

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
    trace = hr.Trace()
    with hr.Session(graph) as session:
        feeds = {"x:0": np.ones([2, 3], np.float32)}
        session.run("product:0", feeds=feeds, trace=trace)
        optimised = session.optimized_graph("product:0", feeds)
    with EventWriter(logdir / "graph") as writer:
        writer.graph(graph)
        writer.graph(optimised, tag="optimised")
        writer.run_metadata(trace, "step 1")
    _write_step_graphs(logdir / "two devices")
    _write_killed_run(logdir / "killed")
    _write_kinds(logdir / "kinds")
    return _write_torn_runs(logdir)


def _write_step_graphs(logdir: Path) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 3], name="x")
        with hr.device("CPU:0"):
            product = hr.matmul(x, x, transpose_b=True, name="layer/product")
        with hr.device("CPU:1"):
            y = hr.cond(hr.sum(product) > 0, lambda: hr.exp(product, name="grown"), lambda: product, name="chosen")
    trace, feeds = hr.Trace(), {x: np.ones([2, 3], np.float32)}
    with (
        hr.Session(graph, config=hr.config(virtual_devices={"CPU": 2})) as session,
        SummaryWriter(str(logdir)) as writer,
    ):
        session.run(y, feeds=feeds, trace=trace)
        writer.add_step_graphs(session, y, feeds, trace=trace)


def _write_killed_run(logdir: Path) -> None:
    """Kill a writer at work, and go on from a checkpoint at step 50."""
    program = """
import sys, headrace_viz
writer = headrace_viz.EventWriter(sys.argv[1], purge_step=0)
for step in range(10**9):
    writer.scalar("loss", step, step)
    if step % 100 == 0:
        writer.flush()
        print(step, flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program, str(logdir)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.readline()
        process.kill()
    with EventWriter(logdir, purge_step=50) as writer:
        for step in range(50, 80):
            writer.scalar("loss", 1000 + step, step)


def _write_kinds(logdir: Path) -> None:
    """Something of every kind, by the methods of PyTorch's class."""
    with SummaryWriter(logdir) as writer:
        for step in (1, 2):
            writer.add_scalars("group", {"a": step, "b": step / 2}, step)
            writer.add_histogram("weights", WEIGHTS, step)
            writer.add_images("digits", PICTURES + np.uint8(step), step)
            writer.add_text("note", f"**step** {step}", step)
        writer.add_histogram_raw("raw", 0, 2, 3, 3, 3, [1, 2], [1, 2], 1)
        writer.add_video("film", PICTURES[np.newaxis], 1)
        writer.add_text("table", [["a", "b"], ["c", "<script>"]], 1)
        writer.add_audio("tone", TONE, 1, sample_rate=8000)
        writer.add_pr_curve("pr", LABELS, GUESSES, 1, num_thresholds=11)
        writer.add_mesh("mesh", VERTICES, COLORS, FACES, {"lights": []}, 1)
        writer.add_custom_scalars({"category": {"chart": ["Multiline", ["group"]], "m": ["Margin", ["a", "b", "c"]]}})
        writer.add_embedding(VERTICES[0], ["p", "q", "r"], global_step=1, tag="points")
        for number, rate in enumerate((0.5, 0.25)):
            writer.add_hparams({"rate": rate, "bias": True, "kind": "x"}, {"accuracy": rate / 2}, run_name=f"s{number}")
    with hr.Graph().as_default() as graph:
        merged = summary.merge(
            [
                summary.scalar("op scalar", 0.25),
                summary.histogram("op weights", [1.0, 2.0]),
                summary.image("op digit", PICTURES.transpose(0, 2, 3, 1), max_images=1),
                summary.text("op note", "**op**"),
            ]
        )
    with EventWriter(logdir) as ops, hr.Session(graph) as session:
        ops.summary(session.run(merged), 3)


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
    options = [
        "--load_fast",
        request.param,
        "--samples_per_plugin",
        "scalars=10000,images=100,text=100",
        "--reload_interval",
        "1",
    ]
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


def test_a_killed_and_resumed_run_is_one_clean_curve(board: TensorBoard) -> None:
    board.check_points("killed", "loss", [(step, float(step if step < 50 else 1000 + step)) for step in range(80)])


def test_torn_files_show_exactly_their_whole_records(board: TensorBoard) -> None:
    for run, count in board.torn.items():
        board.check_points(run, "loss", [(step, step / 4) for step in range(count)])


def test_groups_of_scalars(board: TensorBoard) -> None:
    board.check_points("kinds/group_a", "group", [(1, 1.0), (2, 2.0)])
    board.check_points("kinds/group_b", "group", [(1, 0.5), (2, 1.0)])


def test_histograms_and_distributions(board: TensorBoard) -> None:
    points = board.when_loaded("plugin/histograms/histograms", "kinds", "weights", 2)
    assert [step for _, step, _ in points] == [1, 2]
    for _, _, rows in points:
        np.testing.assert_array_equal(rows, histogram_rows(WEIGHTS))
    ((_, _, rows),) = board.when_loaded("plugin/histograms/histograms", "kinds", "raw", 1)
    assert rows == [[0, 1, 1], [1, 2, 2]]
    (_, (_, _, shares)) = board.when_loaded("plugin/distributions/distributions", "kinds", "weights", 2)
    assert shares[0][1] == pytest.approx(WEIGHTS.min())
    assert shares[-1][1] == pytest.approx(WEIGHTS.max())


def _pixels(data: bytes) -> np.ndarray:
    image = pytest.importorskip("PIL.Image").open(io.BytesIO(data))
    return np.asarray(image)


def test_images(board: TensorBoard) -> None:
    for sample in (0, 1):
        points = board.when_loaded("plugin/images/images", "kinds", "digits", 2, sample=str(sample))
        for point, step in zip(points, (1, 2), strict=True):
            assert (point["step"], point.get("width", 5), point.get("height", 4)) == (step, 5, 4)
            data = board.bytes("plugin/images/individualImage?" + point["query"])
            np.testing.assert_array_equal(_pixels(data), (PICTURES[sample] + np.uint8(step)).transpose(1, 2, 0))


def test_films(board: TensorBoard) -> None:
    (point,) = board.when_loaded("plugin/images/images", "kinds", "film", 1, sample="0")
    data = board.bytes("plugin/images/individualImage?" + point["query"])
    assert data[:4] == b"\x89PNG"
    assert b"acTL" in data  # animated
    np.testing.assert_array_equal(_pixels(data), PICTURES[0].transpose(1, 2, 0))


def test_text(board: TensorBoard) -> None:
    points = board.when_loaded("plugin/text/text", "kinds", "note", 2)
    assert [(point["step"], point["text"]) for point in points] == [
        (step, f"<p><strong>step</strong> {step}</p>") for step in (1, 2)
    ]
    (table,) = board.when_loaded("plugin/text/text", "kinds", "table", 1)
    assert re.findall(r"<p>(\w)</p>", table["text"]) == ["a", "b", "c"]
    assert "<script>" not in table["text"]


def test_audio(board: TensorBoard) -> None:
    (point,) = board.when_loaded("plugin/audio/audio", "kinds", "tone", 1, sample="0")
    with wave.open(io.BytesIO(board.bytes("plugin/audio/individualAudio?" + point["query"]))) as sound:
        assert (sound.getframerate(), sound.getnframes()) == (8000, 100)
        heard = np.frombuffer(sound.readframes(100), "<i2")
    np.testing.assert_allclose(heard / 32767, TONE, atol=1 / 32767)


def test_curves_of_precision_and_recall(board: TensorBoard) -> None:
    deadline = time.monotonic() + 20
    while not (found := _or_empty(lambda: board.get("plugin/pr_curves/pr_curves", run="kinds", tag="pr"))):
        assert time.monotonic() < deadline
    ((point,),) = found.values()
    expected = array_of(pr_curve("pr", LABELS, GUESSES, thresholds=11).tensor)
    names = ("true_positives", "false_positives", "true_negatives", "false_negatives", "precision", "recall")
    for name, row in zip(names, expected, strict=True):
        # A curve ends where nothing is above the threshold.
        np.testing.assert_allclose(point[name], row[: len(point[name])], rtol=1e-6, err_msg=name)
    assert point["step"] == 1
    assert len(point["thresholds"]) >= 10


def _or_empty(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except urllib.error.HTTPError:
        return {}


def test_meshes(board: TensorBoard) -> None:
    points = board.when_loaded("plugin/mesh/meshes", "kinds", "mesh", 3, sample="0")
    assert {point["step"] for point in points} == {1}
    for part, array in (("VERTEX", VERTICES), ("COLOR", COLORS), ("FACE", FACES)):
        query = dict(run="kinds", tag="mesh", sample="0", step="1", content_type=part)
        data = board.bytes("plugin/mesh/data", **query)
        dtype = {"VERTEX": "<f4", "COLOR": "u1", "FACE": "<i4"}[part]
        np.testing.assert_array_equal(np.frombuffer(data, dtype).reshape(array[0].shape), array[0].astype(dtype))


def test_layouts_of_charts(board: TensorBoard) -> None:
    deadline = time.monotonic() + 20
    while not (layout := board.get("plugin/custom_scalars/layout")):
        assert time.monotonic() < deadline
    (category,) = layout["category"]
    assert [chart["title"] for chart in category["chart"]] == ["chart", "m"]
    assert category["chart"][0]["multiline"]["tag"] == ["group"]
    answer = board.get("plugin/custom_scalars/scalars", run="kinds/group_a", tag="group")
    assert [point[1:] for point in answer["tag_to_events"]["group"]] == [[1, 1.0], [2, 2.0]]


def test_hyperparameters(board: TensorBoard) -> None:
    board.check_points("kinds/s1", "accuracy", [(0, 0.125)])
    deadline = time.monotonic() + 20
    while True:
        experiment = _or_empty(lambda: board.get("plugin/hparams/experiment", request="{}"))
        infos = {info["name"]: info["type"] for info in experiment.get("hparamInfos", [])}
        if infos or time.monotonic() > deadline:
            break
    assert infos == {"rate": "DATA_TYPE_FLOAT64", "bias": "DATA_TYPE_BOOL", "kind": "DATA_TYPE_STRING"}
    columns = [{"metric": info["name"]} for info in experiment["metricInfos"]]
    request = {"experimentName": "", "allowedStatuses": ["STATUS_SUCCESS"], "colParams": columns, "sliceSize": 10}
    groups = board.get("plugin/hparams/session_groups", request=json.dumps(request))["sessionGroups"]
    found = {
        group["hparams"]["rate"]: [
            value["value"] for value in group["metricValues"] if value["name"].get("tag") == "accuracy"
        ]
        for group in groups
    }
    assert found == {0.5: [0.25], 0.25: [0.125]}


def test_embeddings(board: TensorBoard) -> None:
    path = "plugin/projector"
    deadline = time.monotonic() + 20
    while "kinds" not in (runs := _or_empty(lambda: board.get(f"{path}/runs"))):
        assert time.monotonic() < deadline, runs
    (embedding,) = board.get(f"{path}/info", run="kinds")["embeddings"]
    name = embedding["tensorName"]
    assert (name, embedding["tensorShape"]) == ("points:00001", [3, 3])
    data = np.frombuffer(board.bytes(f"{path}/tensor", run="kinds", name=name, num_rows="10"), "<f4")
    np.testing.assert_array_equal(data.reshape(3, 3), VERTICES[0])
    assert board.text(f"{path}/metadata", run="kinds", name=name, num_rows="10").split() == ["p", "q", "r"]


def test_a_tagged_graph_and_what_a_step_took(board: TensorBoard) -> None:
    deadline = time.monotonic() + 20
    while not (graphs := board.get("plugin/graphs/info").get("graph", {}).get("tags", {})) and (
        time.monotonic() < deadline
    ):
        pass
    assert graphs["optimised"]["op_graph"]
    options = dict(run="graph", limit_attr_size="1024", large_attrs_key="_too_large_attrs", conceptual="false")
    text = board.text("plugin/graphs/graph", tag="optimised", **options)
    names = set(re.findall(r'^  name: "(.*)"$', text, re.MULTILINE))
    assert names == {"argument_0", "layer/w", "product", "result_0"}
    assert re.findall(r"size: (\d+)", text.partition('name: "product"')[2]) == ["2", "1000"]  # shapes are known now
    metadata = board.text("plugin/graphs/run_metadata", run="graph", tag="step 1")
    config = pytest.importorskip("tensorboard.compat.proto.config_pb2")
    (device,) = text_format.Parse(metadata, config.RunMetadata()).step_stats.dev_stats
    (node,) = device.node_stats
    assert (node.node_name, node.all_end_rel_micros >= 1) == ("product", True)


def _served_graph(board: TensorBoard, run: str, tag: str) -> Any:
    graph_pb2 = pytest.importorskip("tensorboard.compat.proto.graph_pb2")
    options = dict(limit_attr_size="1024", large_attrs_key="_too_large_attrs", conceptual="false")
    return text_format.Parse(board.text("plugin/graphs/graph", run=run, tag=tag, **options), graph_pb2.GraphDef())


def test_the_graphs_of_a_step_on_two_devices_with_its_functions(board: TensorBoard) -> None:
    deadline = time.monotonic() + 20
    while len(tags := board.get("plugin/graphs/info").get("two devices", {}).get("tags", {})) < 3 and (
        time.monotonic() < deadline
    ):
        pass
    assert {tag: (found["op_graph"], found["profile"]) for tag, found in tags.items()} == {
        "step/built": (True, False),
        "step/optimised": (True, True),
        "step/divided": (True, True),
    }
    graphs = {tag: _served_graph(board, "two devices", tag) for tag in tags}
    nodes = {tag: {node.name: node for node in graph.node} for tag, graph in graphs.items()}
    # Functions: what calls one names it, its nodes have shapes, and nothing was too large.
    chosen = nodes["step/built"]["chosen"]
    functions = {function.signature.name: function for function in graphs["step/built"].library.function}
    (grown,) = [n for n in functions[chosen.attr["then_branch"].func.name].node_def if n.name == "grown"]
    assert len(grown.attr["_output_shapes"].list.shape) == 1
    # Placed: each operation has the device on which it ran.
    devices = {name: node.device[-5:] for name, node in nodes["step/optimised"].items()}
    assert (devices["layer/product"], devices["chosen"]) == ("CPU:0", "CPU:1")
    # Divided: a scope for each device, and the transfer between them.
    divided = nodes["step/divided"]
    assert {"CPU_0/layer/product", "CPU_1/chosen"} < set(divided)
    (receive,) = [node for node in divided.values() if node.op == "_Recv"]
    assert (receive.name[:5], divided[receive.input[0]].op, receive.input[0][:5]) == ("CPU_1", "_Send", "CPU_0")
    config = pytest.importorskip("tensorboard.compat.proto.config_pb2")
    for tag in ("step/optimised", "step/divided"):
        text = board.text("plugin/graphs/run_metadata", run="two devices", tag=tag)
        stats = text_format.Parse(text, config.RunMetadata()).step_stats.dev_stats
        timed = {node.node_name for device in stats for node in device.node_stats}
        transfers = {name for name in timed if name.endswith(("/send", "/recv"))}
        assert timed - set(nodes[tag]) == (set() if tag == "step/divided" else transfers)
        assert any(name.endswith("layer/product") for name in timed)


def test_summaries_of_operations_of_every_kind(board: TensorBoard) -> None:
    board.check_points("kinds", "op scalar", [(3, 0.25)])
    ((_, step, rows),) = board.when_loaded("plugin/histograms/histograms", "kinds", "op weights", 1)
    assert (step, sum(count for _, _, count in rows)) == (3, 2)
    (image,) = board.when_loaded("plugin/images/images", "kinds", "op digit/image", 1, sample="0")
    data = board.bytes("plugin/images/individualImage?" + image["query"])
    np.testing.assert_array_equal(_pixels(data), PICTURES[0].transpose(1, 2, 0))
    (note,) = board.when_loaded("plugin/text/text", "kinds", "op note", 1)
    assert note["text"] == "<p><strong>op</strong></p>"
