"""Frozen graphs: one file that gives what the model gave."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import headrace as hr
from headrace.errors import FeedError, GraphError, InvalidArgumentError, NotFoundError
from headrace.graph.proto.graph_pb2 import GraphDef
from headrace_checkpoint import frozen_graph
from headrace_checkpoint.commands import checkpoint
from headrace_checkpoint.frozen_graph import freeze
from headrace_checkpoint.inference_passes import LEVELS
from headrace_checkpoint.saved_model import load_model, save_model

DATA = Path(__file__).parent / "data"
LOOP: dict[str, Any] = json.loads((DATA / "answers.json").read_text())["loop"]
X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


class Line:
    """y = tanh(x @ w + b), with a training operation beside it."""

    def __init__(self) -> None:
        self.graph = hr.Graph(seed=1)
        with self.graph.as_default():
            self.x = hr.placeholder(hr.float32, [None, 3], name="x")
            self.w = hr.Variable(np.arange(6, dtype=np.float32).reshape(3, 2), name="w")
            b = hr.Variable(np.ones(2, np.float32), name="b")
            self.hidden = hr.add(self.x @ self.w, b, name="hidden")
            self.y = hr.tanh(self.hidden, name="y")
            self.train: Any = self.w.assign_add(np.ones((3, 2), np.float32))


@pytest.fixture
def line() -> Line:
    return Line()


def nodes(path: str | os.PathLike[str]) -> dict[str, str]:
    return {node.name: node.op for node in GraphDef.FromString(Path(path).read_bytes()).node}


@pytest.mark.parametrize("level", LEVELS)
def test_C35_every_level_gives_equal_outputs(line: Line, level: str, tmp_path: Path) -> None:
    with hr.Session(line.graph) as session:
        session.run(line.train)
        expected = session.run([line.y, line.hidden], feeds={line.x: X})
        frozen = freeze(session, tmp_path / "g.pb", [line.y, "hidden:0"], level=level)
    assert (frozen.inputs, frozen.outputs) == (("x:0",), ("y:0", "hidden:0"))
    assert frozen.operations == len(nodes(frozen.path))
    assert set(nodes(frozen.path).values()).isdisjoint({"VarHandleOp", "ReadVariableOp", "_Arg", "_Retval"})
    with hr.Session(hr.import_graph_def(frozen.path)) as session:
        found = session.run(list(frozen.outputs), feeds={"x:0": X})
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        session.run(list(frozen.outputs), feeds={"x:0": X[:1]})  # any batch: the sizes of the feeds stay open


@pytest.mark.parametrize("level", LEVELS)
def test_C35_a_model_of_tensorflow_with_functions_freezes(level: str, tmp_path: Path) -> None:
    with load_model(DATA / "tf221_loop") as model:
        frozen = freeze(model, tmp_path / "g.pb", level=level)
    assert frozen.inputs == ("serving_default_n:0", "serving_default_x:0")
    with hr.Session(hr.import_graph_def(frozen.path)) as session:
        (found,) = session.run(
            list(frozen.outputs), feeds=dict(zip(frozen.inputs, (LOOP["n"], LOOP["x"]), strict=True))
        )
    assert found.tolist() == LOOP["y"]


@pytest.mark.parametrize("level", LEVELS)
def test_C35_a_model_of_tensorflow_1_with_loops_of_primitives_freezes(level: str, tmp_path: Path) -> None:
    answer = json.loads((DATA / "answers.json").read_text())["builder"]
    with load_model(DATA / "tf221_builder") as model:
        frozen = freeze(model, tmp_path / "g.pb", level=level)
    assert ("Enter" in nodes(frozen.path).values()) == (level == "none")
    with hr.Session(hr.import_graph_def(frozen.path)) as session:
        assert session.run(frozen.outputs[0], feeds={frozen.inputs[0]: answer["x"]}).tolist() == answer["y"]


def test_variables_of_the_process_freeze(tmp_path: Path) -> None:
    w = hr.Variable(np.array([3.0, 4.0], np.float32), name="frozen_w")
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [None, 2], name="x")
        y = hr.multiply(x, w, name="y")
    with hr.Session(graph) as session:
        freeze(session, tmp_path / "g.pb", [y])
    w.assign(np.zeros(2, np.float32))
    with hr.Session(hr.import_graph_def(tmp_path / "g.pb")) as session:
        assert session.run("y:0", feeds={"x:0": [[1.0, 1.0]]}).tolist() == [[3, 4]]


def test_layers_freeze_with_their_normalisation_folded(tmp_path: Path) -> None:
    model = hr.layers.Sequential(
        [hr.layers.Conv2D(4, 3), hr.layers.BatchNorm(), hr.layers.Flatten(), hr.layers.Dropout(0.5), hr.layers.Dense(3)]
    )
    graph = hr.Graph(seed=1)
    with graph.as_default():
        x = hr.placeholder(hr.float32, [None, 8, 8, 3], name="x")
        y = hr.identity(model(x), name="y")
    value = np.random.default_rng(0).standard_normal((2, 8, 8, 3)).astype(np.float32)
    with hr.Session(graph) as session:
        expected = session.run(y, feeds={x: value})
        frozen = freeze(session, tmp_path / "g.pb", [y], level="extended")
    types = [kind for kind in nodes(frozen.path).values() if kind != "Const"]
    assert types[:3] == ["Placeholder", "Conv2D", "AddV2"]
    assert {"Mul", "Sub", "Rsqrt"}.isdisjoint(types)
    with hr.Session(hr.import_graph_def(frozen.path)) as session:
        np.testing.assert_allclose(session.run("y:0", feeds={"x:0": value}), expected, rtol=1e-5, atol=1e-5)


def test_higher_levels_have_fewer_operations(tmp_path: Path) -> None:
    with load_model(DATA / "tf221_loop") as model:
        counts = [freeze(model, tmp_path / "g.pb", level=level).operations for level in ("basic", "extended", "all")]
    assert counts[0] >= counts[1] > counts[2]


def test_folded_batch_normalisation(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [None, 5, 5, 2], name="x")
        w = hr.Variable(rng.standard_normal((3, 3, 2, 4)).astype(np.float32))
        parameters = [hr.Variable(rng.uniform(0.5, 2, 4).astype(np.float32)) for _ in range(4)]
        convolved = hr.apply_op("Conv2D", x, w, strides=[1, 1, 1, 1], padding="SAME")
        y = hr.apply_op("FusedBatchNormV3", convolved, *parameters, is_training=False)[0]
    value = rng.standard_normal((2, 5, 5, 2)).astype(np.float32)
    with hr.Session(graph) as session:
        expected = session.run(y, feeds={x: value})
        frozen = freeze(session, tmp_path / "g.pb", [y], level="extended")
    assert sorted(nodes(frozen.path).values()) == ["AddV2", "Const", "Const", "Conv2D", "Placeholder"]
    with hr.Session(hr.import_graph_def(frozen.path)) as session:
        np.testing.assert_allclose(session.run(frozen.outputs[0], feeds={"x:0": value}), expected, rtol=1e-5, atol=1e-5)


def test_inputs_may_be_inside_the_graph_and_outputs_may_be_inputs(line: Line, tmp_path: Path) -> None:
    with hr.Session(line.graph) as session:
        frozen = freeze(session, tmp_path / "g.pb", [line.y, line.hidden], inputs=["hidden:0"])
    assert nodes(frozen.path) == {"hidden": "Placeholder", "y": "Tanh"}
    assert (frozen.inputs, frozen.outputs) == (("hidden:0",), ("y:0", "hidden:0"))


def test_outputs_that_another_operation_gives_keep_their_name(tmp_path: Path) -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [None], name="x")
        tanh = hr.tanh(x, name="tanh")
        same, twin = hr.identity(tanh, name="same"), hr.tanh(x, name="twin")
        known = hr.add(1.0, 2.0, name="known")
        first, second = hr.split(hr.constant([1.0, 2.0], name="both"), 2, name="parts")
    with hr.Session(graph) as session:
        frozen = freeze(session, tmp_path / "g.pb", [same, twin, tanh, known, first, second, same])
    expected = ("same:0", "twin:0", "tanh:0", "known:0", "parts:0", "parts_1:0", "same:0")
    assert frozen.outputs == expected
    with hr.Session(hr.import_graph_def(frozen.path)) as session:
        found = session.run(list(frozen.outputs), feeds={"x:0": [0.0]})
    assert [item.tolist() for item in found] == [[0], [0], [0], 3, [1], [2], [0]]


def test_tables_are_filled_by_operations_that_are_kept(tmp_path: Path) -> None:
    graph = hr.Graph()
    with graph.as_default():
        table = hr.HashTable(["a", "b"], [1, 2], default=0)
        words = hr.placeholder(hr.string, [None], name="words")
        numbers = hr.identity(table.lookup(words), name="numbers")
    with hr.Session(graph) as session:
        frozen = freeze(session, tmp_path / "g.pb", [numbers], initializers=[table.initializer])
    with hr.Session(hr.import_graph_def(frozen.path)) as session:
        session.run(session.graph.operation(table.initializer.name))
        assert session.run("numbers:0", feeds={"words:0": np.array([b"b", b"c"], object)}).tolist() == [2, 0]


def test_an_existing_file_is_replaced_whole(line: Line, tmp_path: Path) -> None:
    (tmp_path / "g.pb").write_bytes(b"something else")
    with hr.Session(line.graph) as session:
        first = freeze(session, tmp_path / "g.pb", [line.y]).path.read_bytes()
        assert freeze(session, tmp_path / "g.pb", [line.y]).path.read_bytes() == first
    assert [file.name for file in tmp_path.iterdir()] == ["g.pb"]


def test_what_cannot_be_frozen(line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "g.pb"
    with hr.Session(line.graph) as session:
        with pytest.raises(InvalidArgumentError, match=r"no such level[^$]*none, basic, extended, all[^$]*'most'"):
            freeze(session, path, [line.y], level="most")
        with pytest.raises(InvalidArgumentError, match="a session has no signature"):
            freeze(session, path)
        with pytest.raises(InvalidArgumentError, match="there is nothing to freeze"):
            freeze(session, path, [])
        with pytest.raises(NotFoundError, match="absent"):
            freeze(session, path, ["absent:0"])
        with pytest.raises(GraphError, match=r"'y:0' is not in the session's graph"):
            freeze(session, path, [Line().y])
        with pytest.raises(FeedError, match=r"placeholder 'x' needs a value") as caught:
            freeze(session, path, [line.y], inputs=[line.w.value])
        assert "must name every placeholder" in caught.value.__notes__[0]
        with line.graph.as_default(), hr.control_dependencies([line.train]):
            updated = hr.identity(line.y)
        with pytest.raises(GraphError, match="does something else than read a variable"):
            freeze(session, path, [updated])
        monkeypatch.setattr(frozen_graph, "MAX_BYTES", 10)
        with pytest.raises(InvalidArgumentError, match=r"too large for one file[^$]*at most 10 bytes[^$]*save_model"):
            freeze(session, path, [line.y])
    assert list(tmp_path.iterdir()) == []


def test_the_command(line: Line, tmp_path: Path) -> None:
    with hr.Session(line.graph) as session:
        signatures = {
            "serving_default": hr.Signature({"x": line.x}, {"y": line.y}),
            "h": hr.Signature({"x": line.x}, {"h": line.hidden}),
        }
        model = save_model(tmp_path / "m", session, signatures)
    target = tmp_path / "g.pb"
    result = CliRunner().invoke(checkpoint, ["freeze", str(model), str(target)])
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[1:] == ["  feed   x:0", "  fetch  y:0"]
    result = CliRunner().invoke(
        checkpoint, ["freeze", str(model), str(target), "--signature", "h", "--level", "all", "--json"]
    )
    assert json.loads(result.output) == {"inputs": ["x:0"], "outputs": ["hidden:0"], "operations": len(nodes(target))}
    result = CliRunner().invoke(checkpoint, ["freeze", str(model), str(target), "--signature", "absent"])
    assert isinstance(result.exception, NotFoundError)
