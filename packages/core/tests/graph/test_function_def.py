"""Functions in graph files: written and read back, called by name, damaged, merged and leading back to themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format

import headrace as hr
from headrace.graph.attr import FunctionName
from headrace.graph.proto.graph_pb2 import GraphDef


def _graph() -> hr.Graph:
    """A graph with a variable, a branch in a loop, lists and their gradients."""
    with hr.Graph().as_default() as graph:
        w = hr.Variable(np.array([0.5, 1.5], np.float32), name="w")
        x = hr.placeholder(hr.float32, [2], name="x")
        n = hr.placeholder(hr.int32, [], name="n")

        def body(i: hr.Tensor, s: hr.Tensor) -> tuple[hr.Tensor, hr.Tensor]:
            return i + 1, hr.cond(hr.equal(i % 2, 0), lambda: hr.sin(s) * w, lambda: s + x)

        y = hr.while_loop(lambda i, s: i < n, body, (0, x))[1]
        hr.identity(y, name="y")
        total = hr.scan(lambda carry, row: (carry * row, carry + row), x, hr.zeros([]))[0]
        dx, dw = hr.gradients(hr.sum(y) + hr.sum(total), [x, w])
        hr.identity(dx, name="dx")
        hr.identity(dw, name="dw")
    return graph


_FETCHES = ["y:0", "dx:0", "dw:0"]
_FEEDS = {"x:0": np.array([0.3, 0.6], np.float32), "n:0": 5}


def _values(graph: hr.Graph) -> list[np.ndarray]:
    session = hr.Session(graph)
    session.write_variables({"w": np.array([0.5, 1.5], np.float32)})
    return session.run(_FETCHES, feeds=_FEEDS)


@pytest.mark.parametrize("suffix", [".pb", ".pbtxt"])
def test_functions_are_written_and_read_back(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"graph{suffix}"
    hr.export_graph_def(_graph(), path)
    again = hr.import_graph_def(path)
    for expected, found in zip(_values(_graph()), _values(again), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert hr.to_graph_def(again) == hr.to_graph_def(hr.import_graph_def(hr.to_graph_def(again)))


def test_an_extended_operation_is_written_once_under_its_own_name() -> None:
    proto = hr.to_graph_def(_graph())
    loops = [node for node in proto.node if node.name == "while"]
    assert len(loops) == 1
    assert len(loops[0].attr["T"].list.type) > 5
    assert not any(node.name == "while_1" for node in proto.node)


def test_functions_that_nobody_needs_may_hold_what_is_not_known_and_stay_as_they_are() -> None:
    proto = GraphDef()
    function = proto.library.function.add()
    function.signature.name = "odd"
    function.signature.input_arg.add(name="a", type=1)
    function.signature.output_arg.add(name="b", type=1)
    function.node_def.add(name="n", op="SomebodyElsesOp", input=["a"])
    function.ret["b"] = "n:out:0"
    function.attr["_note"].s = b"kept"
    call = proto.node.add(name="call", op="PartitionedCall", input=["x"])
    call.attr["Tin"].list.type.append(1)
    call.attr["Tout"].list.type.append(1)
    call.attr["f"].func.name = "odd"
    proto.node.add(name="x", op="Placeholder").attr["dtype"].type = 1
    graph = hr.import_graph_def(proto)
    assert hr.to_graph_def(graph).library == proto.library
    with pytest.raises(hr.errors.UnknownOpError, match="SomebodyElsesOp"):
        hr.Session(graph).run("call:0", feeds={"x:0": 1.0})


def _one_function(**ret: str) -> GraphDef:
    proto = GraphDef()
    function = proto.library.function.add()
    function.signature.name = "f"
    function.signature.input_arg.add(name="a", type=1)
    for name, edge in ret.items():
        function.signature.output_arg.add(name=name, type=1)
        function.ret[name] = edge
    function.node_def.add(name="double", op="AddV2", input=["a", "a"]).attr["T"].type = 1
    return proto


def test_a_function_called_by_its_name_as_if_it_were_a_type() -> None:
    proto = _one_function(twice="double:z:0", same="a")
    proto.node.add(name="x", op="Placeholder").attr["dtype"].type = 1
    proto.node.add(name="call", op="f", input=["x"])
    graph = hr.import_graph_def(proto)
    assert graph.operation("call").type == "PartitionedCall"
    assert graph.operation("call").attrs["f"] == FunctionName("f")
    assert hr.Session(graph).run(["call:0", "call:1"], feeds={"x:0": 4.0}) == [8.0, 4.0]


@pytest.mark.parametrize(
    ("ret", "kind", "message"),
    [
        ({"b": "nothing:z:0"}, "GraphError", "function 'f' reads 'nothing:z:0', which does not exist"),
        ({"b": "double:w:0"}, "DataLossError", "function 'f' reads 'double:w:0'(.|\n)*expected: z"),
    ],
)
def test_a_damaged_function_is_told_when_it_is_needed(ret: dict[str, str], kind: str, message: str) -> None:
    graph = hr.import_graph_def(_one_function(**ret))
    with pytest.raises(getattr(hr.errors, kind), match=message):
        graph.functions["f"]


def test_a_template_is_refused() -> None:
    proto = _one_function(b="double:z:0")
    proto.library.function[0].signature.input_arg[0].type_attr = "T"
    with pytest.raises(hr.errors.UnimplementedError, match="function 'f' is a template"):
        hr.import_graph_def(proto).functions["f"]


def test_a_function_that_calls_itself_is_refused() -> None:
    proto = _one_function(b="again:output:0")
    again = proto.library.function[0].node_def.add(name="again", op="PartitionedCall", input=["a"])
    again.attr["Tin"].list.type.append(1)
    again.attr["Tout"].list.type.append(1)
    again.attr["f"].func.name = "f"
    with pytest.raises(hr.errors.UnimplementedError, match="function 'f' calls itself"):
        hr.import_graph_def(proto).functions["f"]


def test_a_recursion_in_a_branch_is_refused_by_the_step_that_needs_it() -> None:
    # TensorFlow 2.21 ends its process on such a graph
    proto = _one_function(b="choose:output:0")
    again = proto.library.function[0].node_def.add(name="choose", op="StatelessIf", input=["zero:y:0", "a"])
    proto.library.function[0].node_def.add(name="zero", op="ZerosLike", input=["a"]).attr["T"].type = 1
    again.attr["Tcond"].type = 1
    again.attr["then_branch"].func.name = "g"
    again.attr["else_branch"].func.name = "g"
    branch = proto.library.function.add()
    branch.CopyFrom(_one_function(b="again:output:0").library.function[0])
    branch.signature.name = "g"
    call = branch.node_def.add(name="again", op="PartitionedCall", input=["a"])
    call.attr["f"].func.name = "f"
    for node in (again, call):
        node.attr["Tin"].list.type.append(1)
        node.attr["Tout"].list.type.append(1)
    proto.node.add(name="x", op="Placeholder").attr["dtype"].type = 1
    proto.node.add(name="call", op="f", input=["x"])
    proto.node.add(name="other", op="Neg", input=["x"]).attr["T"].type = 1
    session = hr.Session(hr.import_graph_def(proto))
    assert session.run("other:0", feeds={"x:0": 2.0}) == -2
    with pytest.raises(hr.errors.UnimplementedError, match=r"calls itself(.|\n)*f -> g -> f(.|\n)*as a loop"):
        session.run("call:0", feeds={"x:0": 2.0})


def test_a_graph_that_could_not_be_imported_brings_no_functions() -> None:
    proto = _one_function(b="double:z:0")
    proto.node.add(name="x", op="Neg", input=["missing"])
    graph = hr.Graph()
    with pytest.raises(hr.errors.GraphError, match="missing"):
        hr.import_graph_def(proto, graph=graph)
    assert "f" not in graph.functions


def test_the_same_function_from_two_files_is_kept_once_and_another_of_its_name_is_refused() -> None:
    graph = _graph()
    hr.import_graph_def(hr.to_graph_def(_graph()), graph=graph, name="again")
    assert len(list(graph.functions)) == len(list(_graph().functions))
    other = GraphDef()
    other.library.function.add().signature.name = "while_body"
    with pytest.raises(hr.errors.GraphError, match="two functions are named 'while_body'"):
        hr.import_graph_def(other, graph=graph)


def _calls(name: str, callees: list[str]) -> GraphDef:
    """A function that calls others, one after the other, on its argument."""
    proto = GraphDef()
    function = proto.library.function.add()
    function.signature.name = name
    function.signature.input_arg.add(name="a", type=1)
    function.signature.output_arg.add(name="b", type=1)
    edge = "a"
    for number, callee in enumerate(callees):
        call = function.node_def.add(name=f"call{number}", op="PartitionedCall", input=[edge])
        call.attr["Tin"].list.type.append(1)
        call.attr["Tout"].list.type.append(1)
        call.attr["f"].func.name = callee
        edge = f"call{number}:output:0"
    function.ret["b"] = edge
    return proto


def test_functions_that_call_each_other_deeper_than_pythons_stack_are_refused() -> None:
    proto = GraphDef()
    for number in range(1000):
        proto.MergeFrom(_calls(f"f{number}", [f"f{number + 1}"] if number < 999 else []))
    graph = hr.import_graph_def(proto)
    with pytest.raises(hr.errors.UnimplementedError, match="functions that 'f0' calls go too deep"):
        graph.functions["f0"]


def test_functions_that_double_at_each_level_are_not_all_inlined() -> None:
    """Sixteen such levels are 65,536 copies, forty more than any memory holds; what is left as calls gives the same."""
    proto = GraphDef()
    for level in range(16):
        proto.MergeFrom(_calls(f"f{level}", [f"f{level + 1}"] * 2))
    proto.MergeFrom(_one_function(b="same:output:0"))
    last = proto.library.function[-1]
    last.signature.name = "f16"
    last.node_def[0].CopyFrom(_one_function().library.function[0].node_def[0])
    last.ret["b"] = "double:z:0"
    proto.node.add(name="x", op="Placeholder").attr["dtype"].type = 1
    proto.node.add(name="call", op="f0", input=["x"])
    session = hr.Session(hr.import_graph_def(proto))
    optimized = session.optimized_graph("call:0", feeds={"x:0": 0.0})
    assert len(optimized.operations) < 30_000
    assert "PartitionedCall" in {op.type for op in optimized.operations}


def test_gradients_of_functions_in_graphs_of_tensorflow_1() -> None:
    """`slope` is the gradient of a function, `ruled_slope` of one for which the file names another as its gradient."""
    graph = hr.import_graph_def(Path(__file__).parent / "tensorflow_v1" / "symbolic_gradient.pbtxt")
    feeds = {"x:0": np.array([0.1, 0.2, 0.3], np.float32), "y:0": np.array([1, 2, 3], np.float32)}
    x = feeds["x:0"].astype(np.float64)
    expected = [np.cos(x) * [1, 2, 3] + 2, np.sin(x), [7, 7, 7]]
    for read in (graph, hr.import_graph_def(hr.to_graph_def(graph))):
        for found, wanted in zip(hr.Session(read).run(["dx:0", "dy:0", "dr:0"], feeds), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-6)
    with graph.as_default():
        (second,) = hr.gradients(graph.tensor("dx:0"), [graph.tensor("x:0")])
    np.testing.assert_allclose(hr.Session(graph).run(second, feeds), -np.sin(x) * [1, 2, 3], rtol=1e-6)


def test_the_gradient_of_a_function_that_has_none_fails_where_a_step_needs_it() -> None:
    text = (Path(__file__).parent / "tensorflow_v1" / "symbolic_gradient.pbtxt").read_text()
    graph = hr.import_graph_def(text_format.Parse(text.replace('op: "Sin"', 'op: "NobodyKnows"'), GraphDef()))
    feeds = {"x:0": [0.1, 0.2, 0.3]}
    assert hr.Session(graph).run("dr:0", feeds).tolist() == [7, 7, 7]
    with pytest.raises(hr.errors.HeadraceError, match="NobodyKnows"):
        hr.Session(graph).run("dx:0", {**feeds, "y:0": [1, 2, 3]})


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
