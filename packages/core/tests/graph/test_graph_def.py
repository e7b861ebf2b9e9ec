"""GraphDef: what is written is read back, unknown things survive, and damaged files give errors."""

from __future__ import annotations

import contextlib
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.graph.attr import FunctionName
from headrace.graph.proto.graph_pb2 import GraphDef
from headrace.graph.proto.node_pb2 import NodeDef
from headrace.graph.proto.tensor_pb2 import TensorProto, TensorShapeProto
from headrace.graph.tensor_proto import decode_tensor, encode_tensor


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


def test_unknown_operations_and_attributes_round_trip_and_fail_only_when_run_by_name() -> None:
    proto = GraphDef()
    source = proto.node.add(name="odd", op="SomebodyElsesOp")
    source.attr["mode"].s = b"fast"
    source.attr["sizes"].list.i.extend([1, 2])
    proto.node.add(name="after", op="SomebodyElsesOp", input=["odd:2", "^odd"])
    known = proto.node.add(name="c", op="Const")
    known.attr["dtype"].type = 1
    known.attr["value"].tensor.CopyFrom(encode_tensor(np.array(5.0, np.float32)))
    known.attr["newer_attr"].i = 7
    graph = hr.import_graph_def(proto)
    written = hr.to_graph_def(graph)
    for before, after in zip(proto.node, written.node, strict=True):
        assert before.attr == after.attr
        assert list(before.input) == list(after.input)
    session = hr.Session(graph)
    assert session.run("c:0") == 5.0
    with pytest.raises(hr.errors.NotFoundError, match="SomebodyElsesOp.*no kernel|SomebodyElsesOp has no kernel"):
        session.run("after:0")


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


def test_attributes_that_older_versions_of_tensorflow_do_not_know_are_left_out_where_they_change_nothing() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.constant([[1.0]])
        hr.matmul(x, x, name="product")
        hr.apply_op("MatMul", x, x, grad_a=True, name="marked")
    nodes = {node.name: node for node in hr.to_graph_def(graph).node}
    assert "grad_a" not in nodes["product"].attr
    assert nodes["marked"].attr["grad_a"].b
    assert hr.format_graph(hr.import_graph_def(hr.to_graph_def(graph))) == hr.format_graph(graph)


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


@pytest.mark.parametrize(
    "array",
    [
        np.array(3, np.int8),
        np.zeros((2, 0, 3), np.uint16),
        np.arange(6, dtype=np.float32)[::2],
        np.array([1.5, np.nan, -0.0], ml_dtypes.bfloat16),
        np.array([1 + 2j], np.complex128),
        np.array([[b"", b"\x00\xff"], [b"a\x00", "ü".encode()]], object),
        np.array([True, False]),
        np.array([2**64 - 1], np.uint64),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_tensor_round_trips_bit_for_bit(array: np.ndarray) -> None:
    decoded = decode_tensor(TensorProto.FromString(encode_tensor(array).SerializeToString()))
    assert decoded.dtype == array.dtype
    assert decoded.shape == array.shape
    if array.dtype == object:
        assert decoded.tolist() == array.tolist()
    else:
        assert decoded.tobytes() == array.tobytes()


def test_one_listed_value_stands_for_all_elements_without_taking_memory() -> None:
    proto = TensorProto(dtype=1, tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=2**40)]), float_val=[2.5])
    value = decode_tensor(proto)
    assert value.shape == (2**40,)
    assert value.strides == (0,)
    assert value[12345] == 2.5


@pytest.mark.parametrize(
    "proto",
    [
        TensorProto(dtype=1, tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=2)]), tensor_content=b"abc"),
        TensorProto(dtype=1, tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=-5)])),
        TensorProto(dtype=1, tensor_shape=TensorShapeProto(unknown_rank=True)),
        TensorProto(dtype=1, tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]), float_val=[1, 2]),
        TensorProto(dtype=4, tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]), int_val=[300]),
        TensorProto(dtype=8, tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]), scomplex_val=[1]),
        TensorProto(dtype=19, tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]), half_val=[-1]),
        TensorProto(dtype=7, tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]), tensor_content=b"x"),
        TensorProto(dtype=20, tensor_shape=TensorShapeProto()),
        TensorProto(
            dtype=1,
            tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=2**32), TensorShapeProto.Dim(size=2**32)]),
        ),
        TensorProto(dtype=1, tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=2**40)]), float_val=[1, 2]),
    ],
)
def test_damaged_tensor_is_refused(proto: TensorProto) -> None:
    with pytest.raises(hr.errors.DataLossError, match="damaged"):
        decode_tensor(proto)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([("a", "Identity", ["b"]), ("b", "Identity", ["a"])], "has a cycle"),
        ([("a", "NoOp", []), ("a", "NoOp", [])], "two operations are named 'a'"),
        ([("a", "NoOp", ["^missing"])], "reads '\\^missing', which does not exist"),
        ([("a", "NoOp", []), ("b", "SomeOp", ["a:3"])], "reads 'a:3', which does not exist"),
    ],
)
def test_malformed_graph_is_refused(nodes: list[tuple[str, str, list[str]]], message: str) -> None:
    proto = GraphDef()
    for name, op, inputs in nodes:
        node = proto.node.add(name=name, op=op, input=inputs)
        if op == "Identity":
            node.attr["T"].type = 1
    with pytest.raises(hr.errors.GraphError, match=message):
        hr.import_graph_def(proto)


def test_error_of_an_imported_operation_names_it_and_the_file() -> None:
    proto = GraphDef()
    proto.node.add(name="broken", op="Const")
    with pytest.raises(hr.errors.AttrError, match="attr 'value' is missing") as caught:
        hr.import_graph_def(proto)
    assert any("importing Const 'broken'" in note for note in caught.value.__notes__)


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


def test_reference_variables_of_tensorflow_1_become_handles() -> None:
    proto = GraphDef()
    variable = proto.node.add(name="v", op="VariableV2")
    variable.attr["dtype"].type = 1
    variable.attr["shape"].shape.SetInParent()
    one = proto.node.add(name="one", op="Const")
    one.attr["dtype"].type = 1
    one.attr["value"].tensor.CopyFrom(encode_tensor(np.array(1.0, np.float32)))
    for name, op, inputs in (
        ("init", "Assign", ["v", "one"]),
        ("count", "AssignAdd", ["v", "one"]),
        ("after", "Identity", ["count"]),
        ("read", "Identity", ["v"]),
    ):
        node = proto.node.add(name=name, op=op, input=inputs)
        node.attr["T"].type = 1
    session = hr.Session(hr.import_graph_def(proto))
    with pytest.raises(hr.errors.FailedPreconditionError, match="variables without a value: 'v'"):
        session.run("read:0")
    session.run("init")
    assert session.run("after:0") == 2.0
    assert session.run("read:0") == 2.0


def test_optimizer_updates_on_reference_variables_become_those_on_handles() -> None:
    proto = GraphDef()
    for name, number in (("v", 2.0), ("slot", 1.0), ("rate", 0.5), ("mu", 0.5)):
        constant = proto.node.add(name=f"{name}_value", op="Const")
        constant.attr["dtype"].type = 1
        constant.attr["value"].tensor.CopyFrom(encode_tensor(np.array(number, np.float32)))
    for name in ("v", "slot"):
        variable = proto.node.add(name=name, op="VariableV2")
        variable.attr["dtype"].type = 1
        variable.attr["shape"].shape.SetInParent()
        proto.node.add(name=f"init_{name}", op="Assign", input=[name, f"{name}_value"]).attr["T"].type = 1
    update = proto.node.add(name="train", op="ApplyMomentum", input=["v", "init_slot", "rate_value", "v", "mu_value"])
    update.attr["T"].type = 1
    update.attr["use_nesterov"].b = True
    proto.node.add(name="after", op="Identity", input=["train"]).attr["T"].type = 1
    graph = hr.import_graph_def(proto)
    assert graph.operation("train").type == "ResourceApplyMomentum"
    assert graph.operation("train").attrs["use_nesterov"]
    session = hr.Session(graph)
    session.run(["init_v", "init_slot"])
    assert session.run("after:0") == 2 - 0.5 * (2 + 0.5 * 2.5)  # the slot is assigned before, as its reference says


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


def test_annotations_of_every_kind_are_written() -> None:
    notes = {
        "_bool": True, "_int": 3, "_float": 1.5, "_text": "a", "_type": hr.int32, "_shape": hr.Shape([2, None]),
        "_tensor": np.arange(3), "_function": FunctionName("f", {"T": hr.int32}), "_list": (1, 2), "_none": (),
    }  # fmt: skip
    graph = hr.Graph()
    graph.create_op("NoOp", (), notes)
    written = hr.to_graph_def(graph)
    assert set(written.node[0].attr) == set(notes)
    assert written.node[0].attr["_function"].func.attr["T"].type == hr.int32.number
    assert hr.to_graph_def(hr.import_graph_def(written)) == written


def test_libraries_of_two_imports_are_merged() -> None:
    def library(*names: str, op: str = "NoOp") -> GraphDef:
        proto = GraphDef()
        for name in names:
            function = proto.library.function.add()
            function.signature.name = name
            function.node_def.add(name="n", op=op)
        return proto

    graph = hr.import_graph_def(library("f", "g"))
    hr.import_graph_def(library("g", "h"), graph=graph)
    assert [item.signature.name for item in hr.to_graph_def(graph).library.function] == ["f", "g", "h"]
    with pytest.raises(hr.errors.GraphError, match="two functions are named 'h'"):
        hr.import_graph_def(library("h", op="Exp"), graph=graph)


@pytest.mark.parametrize(
    "node",
    [
        NodeDef(name="a", op="Assign"),
        NodeDef(name="a", op="ScatterAdd", input=["v"]),
        NodeDef(name="a", op="Assign", input=["v"]),
        NodeDef(name="a", op="VariableV2"),
        NodeDef(name="a", op="VariableV2", input=["v"]),
    ],
    ids=str,
)
def test_incomplete_operations_on_reference_variables_are_kept_or_refused(node: NodeDef) -> None:
    proto = GraphDef()
    variable = proto.node.add(name="v", op="VariableV2")
    variable.attr["dtype"].type = hr.float32.number
    variable.attr["shape"].shape.dim.add(size=2)
    proto.node.add().CopyFrom(node)
    if node.op == "Assign" and not node.input:
        assert hr.import_graph_def(proto).operation("a").type == "Assign"  # as unknown as any other type
        return
    with pytest.raises(hr.errors.HeadraceError) as caught:
        hr.import_graph_def(proto)
    assert any("while importing" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("sizes", [[0, 2**62, 2**62], [2**62], [1] * 70], ids=["beside an empty one", "many", "rank"])
def test_sizes_that_no_array_can_have_are_refused(sizes: list[int]) -> None:
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes])
    with pytest.raises(hr.errors.DataLossError, match="at most 64 dimensions and"):
        decode_tensor(TensorProto(dtype=hr.float32.number, tensor_shape=shape))


@pytest.mark.parametrize(("op", "attr"), [("Unpack", "num"), ("Split", "num_split"), ("Pack", "N")])
def test_a_number_of_tensors_that_no_graph_has_is_refused_before_memory_is_taken(op: str, attr: str) -> None:
    proto = GraphDef()
    node = proto.node.add(name="x", op="Const")
    node.attr["dtype"].type = hr.int32.number
    node.attr["value"].tensor.CopyFrom(encode_tensor(np.zeros((), np.int32)))
    many = proto.node.add(name="many", op=op, input=["x", "x"][: 1 + (op == "Split")])
    many.attr["T"].type = hr.int32.number
    many.attr[attr].i = 2**40
    with pytest.raises(hr.errors.AttrError, match=f"attr '{attr}' is too large"):
        hr.import_graph_def(proto)


def test_a_constant_key_that_is_no_text_is_refused() -> None:
    proto = GraphDef()
    proto.node.add(name="x", op="Const").attr["_headrace_constant"].s = b"\xff"
    with pytest.raises(hr.errors.DataLossError, match="value of constant 'x' is missing"):
        hr.import_graph_def(proto)


@pytest.mark.parametrize("stated", [hr.int32, hr.string, hr.variant, hr.resource], ids=str)
def test_a_constant_that_states_another_dtype_than_its_values_is_refused(stated: hr.DType) -> None:
    proto = GraphDef()
    node = proto.node.add(name="lie", op="Const")
    node.attr["dtype"].type = stated.number
    node.attr["value"].tensor.CopyFrom(encode_tensor(np.ones(2, np.float32)))
    with pytest.raises(hr.errors.DTypeError, match=f"value has another dtype(.|\n)*'lie'(.|\n)*{stated}(.|\n)*float32"):
        hr.import_graph_def(proto)


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
