"""GraphDef: what is written is read back, unknown things survive, and damaged files give errors."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.graph.proto.graph_pb2 import GraphDef


def _example_graph() -> hr.Graph:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [None, 3], name="x")
        with hr.name_scope("layer"), hr.device("/job:ps/task:1"):
            y = hr.multiply(x, np.array([1, 2, 3], np.float32), name="scaled")
        with hr.control_dependencies([y]), hr.colocate_with(y):
            hr.add(y, 1.0, name="result")
    return graph


def test_what_some_operations_need_is_written_without_what_gradients_of_it_read() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [], name="x")
        y = hr.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s * x), (hr.constant(0), x), name="loop")[1]
        before = hr.to_graph_def(graph, [y.op])
        (slope,) = hr.gradients(y, [x])
    assert [node.name for node in before.node if node.op == y.op.type] == [y.op.name]

    def loops(roots: list[hr.Operation] | None) -> list[tuple[str, int]]:
        nodes = hr.to_graph_def(graph, roots).node
        return [(node.name, len(node.attr["T"].list.type)) for node in nodes if node.op == y.op.type]

    assert [node.SerializeToString() for node in hr.to_graph_def(graph, [y.op]).node] == [
        node.SerializeToString() for node in before.node
    ]
    assert loops([slope.op]) == loops(None)
    assert loops(None)[0][0] == y.op.name
    assert loops(None)[0][1] > loops([y.op])[0][1]
    copy = hr.import_graph_def(hr.to_graph_def(graph, [slope.op, y.op]))
    assert hr.Session(copy).run([y.name, slope.name], feeds={"x:0": 2.0}) == [16, 32]


def test_graph_round_trips_with_names_devices_control_edges_and_colocation() -> None:
    graph = _example_graph()
    copy = hr.import_graph_def(hr.to_graph_def(graph).SerializeToString())
    assert hr.format_graph(copy) == hr.format_graph(graph)
    result = copy.operation("result")
    assert [item.name for item in result.control_inputs] == ["layer/scaled"]
    assert result.colocation == ("layer/scaled",)
    with hr.Session(copy, config=hr.config(soft_placement=True)) as session:
        value = session.run("result:0", feeds={"x:0": np.ones((2, 3))})
    np.testing.assert_array_equal(value, [[2, 3, 4]] * 2)


def test_serialised_form_is_deterministic() -> None:
    first, second = (hr.to_graph_def(_example_graph()).SerializeToString(deterministic=True) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("suffix", [".pb", ".pbtxt"])
def test_file_round_trips(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"graph{suffix}"
    hr.export_graph_def(_example_graph(), path)
    assert hr.format_graph(hr.import_graph_def(path)) == hr.format_graph(_example_graph())


def test_A30_constants_beside_the_graph_are_stored_once_and_load_again(tmp_path: Path) -> None:
    table = np.arange(1000, dtype=np.float64).reshape(10, 100)
    graph = hr.Graph()
    with graph.as_default():
        hr.constant(table, name="a")
        hr.constant(table.copy(), name="b")
        hr.constant(table.astype(np.complex128), name="c")
    path = tmp_path / "graph.pb"
    hr.export_graph_def(graph, path, constants="beside")
    assert path.stat().st_size < 1000
    assert (tmp_path / "graph.pb.constants").stat().st_size < table.nbytes * 3 + 1000
    values = hr.Session(hr.import_graph_def(path)).run(["a:0", "b:0", "c:0"])
    for value in values[:2]:
        np.testing.assert_array_equal(value, table)
    np.testing.assert_array_equal(values[2], table.astype(np.complex128))


def test_missing_constants_file_is_named(tmp_path: Path) -> None:
    graph = hr.Graph()
    with graph.as_default():
        hr.constant(np.zeros(1000), name="table")
    path = tmp_path / "graph.pb"
    hr.export_graph_def(graph, path, constants="beside")
    (tmp_path / "graph.pb.constants").unlink()
    with pytest.raises(hr.errors.DataLossError, match="value of constant 'table' is missing"):
        hr.import_graph_def(path)


def test_export_refuses_an_unknown_way_to_store_constants(tmp_path: Path) -> None:
    with pytest.raises(hr.errors.InvalidArgumentError, match="constants is wrong"):
        hr.export_graph_def(hr.Graph(), tmp_path / "g.pb", constants="somewhere")


def test_file_that_is_not_there_and_bytes_that_are_no_graph(tmp_path: Path) -> None:
    with pytest.raises(hr.errors.NotFoundError, match="there is no graph file"):
        hr.import_graph_def(tmp_path / "nothing.pb")
    with pytest.raises(hr.errors.DataLossError, match="not a GraphDef"):
        hr.import_graph_def(b"\x0a\xff\xff")
    text = tmp_path / "broken.pbtxt"
    text.write_text("node {")
    with pytest.raises(hr.errors.DataLossError, match="text form"):
        hr.import_graph_def(text)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(position=st.integers(0, 10_000), value=st.integers(0, 255), cut=st.integers(0, 10_000))
def test_damaged_graph_bytes_give_a_typed_error_or_a_graph(position: int, value: int, cut: int) -> None:
    content = bytearray(hr.to_graph_def(_example_graph()).SerializeToString())
    content[position % len(content)] = value
    for mutant in (bytes(content), bytes(content[: cut % len(content)])):
        with contextlib.suppress(hr.errors.HeadraceError):
            hr.import_graph_def(mutant)


def test_input_map_and_prefix() -> None:
    graph = hr.Graph()
    with graph.as_default():
        ones = hr.constant(np.ones((1, 3), np.float32))
    hr.import_graph_def(hr.to_graph_def(_example_graph()), graph=graph, name="copy", input_map={"x": ones})
    with hr.Session(graph, config=hr.config(soft_placement=True)) as session:
        np.testing.assert_array_equal(session.run("copy/result:0"), [[2, 3, 4]])


def test_a_failing_import_leaves_the_graph_as_it_was() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.constant(1.0, name="x")
    proto = GraphDef()
    first, second = proto.node.add(name="a", op="NoOp"), proto.node.add(name="b", op="Exp", input=["^a"])
    before = hr.to_graph_def(graph)
    with pytest.raises(hr.errors.AttrError, match="attr 'T' is missing"):
        hr.import_graph_def(proto, graph=graph)
    second.op = "NoOp"
    with pytest.raises(hr.errors.GraphError, match="input_map names 'A'(.|\n)*one of"):
        hr.import_graph_def(proto, graph=graph, input_map={"A": x})
    assert hr.to_graph_def(graph) == before
    assert [op.name for op in hr.import_graph_def(proto, graph=graph).operations] == ["x", first.name, second.name]


def test_errors_of_an_imported_graph_name_its_file_and_the_node_there(tmp_path: Path) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None], name="x")
        hr.reshape(x, [2, 2], name="square")
    path = tmp_path / "model.pb"
    hr.export_graph_def(graph, path)
    read = hr.import_graph_def(path, name="inner")
    with pytest.raises(hr.errors.HeadraceError, match=rf"{path}, node 'square'"):
        hr.Session(read).run("inner/square:0", feeds={"inner/x:0": [1.0]})
    labelled = hr.import_graph_def(hr.to_graph_def(graph), label="models/7")
    assert str(labelled.operation("square").source) == "models/7, node 'square'"
