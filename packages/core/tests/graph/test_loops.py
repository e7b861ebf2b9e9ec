"""Loops of primitives as graphs: what closes one, which are well formed, and how they are printed, written and read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.graph.frames import Frames

TENSORFLOW = Path(__file__).parent / "tensorflow_v1"


def _loop(limit: int = 3, **attrs: Any) -> tuple[hr.Operation, hr.Tensor, hr.Tensor]:
    """while i < limit: i = i + 1, with its head, the value in the body and the result; not closed yet."""
    enter = hr.apply_op("Enter", hr.constant(0), frame_name="loop", **attrs)
    i, _ = hr.apply_op("Merge", [enter])
    more = hr.apply_op("LoopCond", i < limit)
    done, body = hr.apply_op("Switch", i, more)
    return i.op, body, hr.apply_op("Exit", done)


def test_a_closed_loop_prints_and_survives_the_file() -> None:
    with hr.Graph().as_default() as graph:
        head, body, result = _loop()
        graph.close_loop(head, hr.apply_op("NextIteration", body + 1))
    assert "Merge: int32[], int32[] = Merge(Enter, NextIteration, N=2)" in hr.format_graph(graph)
    again = hr.import_graph_def(hr.to_graph_def(graph))
    assert hr.format_graph(again) == hr.format_graph(graph)
    assert hr.Session(again).run(result.name) == 3


def test_frames_say_where_operations_run() -> None:
    with hr.Graph().as_default() as graph:
        head, body, result = _loop(parallel_iterations=4)
        graph.close_loop(head, hr.apply_op("NextIteration", body + 1))
        after = result + 1
    frames = Frames(graph)
    loop = frames[head]
    assert (loop.name, loop.parallel_iterations, loop.parent) == ("loop", 4, frames.root)
    assert frames[result.op] is loop
    assert frames.after(result.op) is frames[after.op] is frames.root
    assert frames.root.is_around(loop)
    assert not loop.is_around(frames.root)
    assert list(frames) == [frames.root, loop]


def test_only_a_merge_of_an_enter_can_be_closed_and_only_once() -> None:
    with hr.Graph().as_default() as graph:
        head, body, _ = _loop()
        back = hr.apply_op("NextIteration", body + 1)
        with pytest.raises(hr.errors.GraphError, match=r"cannot close a loop at 'Less'(.|\n)*got: +Less"):
            graph.close_loop(graph.operation("Less"), back)
        with pytest.raises(hr.errors.GraphError, match=r"cannot close a loop(.|\n)*the output of a NextIteration"):
            graph.close_loop(head, body)
        graph.close_loop(head, back)
        with pytest.raises(
            hr.errors.GraphError, match=r"no back edge yet(.|\n)*a Merge of Enter 'Enter', NextIteration"
        ):
            graph.close_loop(head, back)


def test_a_loop_is_closed_inside_one_graph() -> None:
    with hr.Graph().as_default() as graph:
        head, _, _ = _loop()
    with hr.Graph().as_default():
        _, body, _ = _loop()
        back = hr.apply_op("NextIteration", body + 1)
    with pytest.raises(hr.errors.GraphError, match=r"operations of this graph(.|\n)*one of another graph"):
        graph.close_loop(head, back)


def test_a_loop_variable_keeps_its_dtype_and_what_is_known_of_its_shape() -> None:
    with hr.Graph().as_default() as graph:
        head, body, _ = _loop()
        with pytest.raises(hr.errors.DTypeError, match=r"'Merge:0' changes its dtype(.|\n)*float32"):
            graph.close_loop(head, hr.apply_op("NextIteration", hr.astype(body, hr.float32)))
        with pytest.raises(hr.errors.ShapeError, match=r"'Merge:0' changes its static shape(.|\n)*int32\[1\]"):
            graph.close_loop(head, hr.apply_op("NextIteration", hr.expand_dims(body, 0)))


def test_a_loop_variable_whose_shape_is_left_open_may_grow() -> None:
    with hr.Graph().as_default() as graph:
        head, body, result = _loop(2)
        attrs = {"frame_name": "loop"}
        start = hr.placeholder_with_default(hr.constant([1]), [None])
        rows = hr.apply_op("Merge", [hr.apply_op("Enter", start, name="rows", **attrs)])[0]
        done, more = hr.apply_op("Switch", rows, graph.tensor("LoopCond:0"))
        graph.close_loop(rows.op, hr.apply_op("NextIteration", hr.concat([more, more], 0)))
        graph.close_loop(head, hr.apply_op("NextIteration", body + 1))
        grown = hr.apply_op("Exit", done)
    assert hr.Session(graph).run([grown, result]) == [pytest.approx([1, 1, 1, 1]), 2]
    again = hr.import_graph_def(hr.to_graph_def(graph))
    assert again.tensor(rows.name).shape == hr.Shape([None])
    assert list(hr.Session(again).run(grown.name)) == [1, 1, 1, 1]


def test_a_graph_file_whose_loop_variable_changes_its_shape_is_read_with_the_shape_open() -> None:
    with hr.Graph().as_default() as graph:
        head, body, _ = _loop(2)
        start = hr.placeholder_with_default(hr.constant([1]), [None], name="start")
        rows = hr.apply_op("Merge", [hr.apply_op("Enter", start, name="rows", frame_name="loop")])[0]
        done, more = hr.apply_op("Switch", rows, graph.tensor("LoopCond:0"))
        graph.close_loop(rows.op, hr.apply_op("NextIteration", hr.concat([more, more], 0)))
        graph.close_loop(head, hr.apply_op("NextIteration", body + 1))
        grown = hr.apply_op("Exit", done)
    again = hr.Graph()
    with again.as_default():
        fixed = hr.constant([7])
    hr.import_graph_def(hr.to_graph_def(graph), graph=again, name="copy", input_map={"start:0": fixed})
    assert again.tensor(f"copy/{rows.name}").shape == hr.Shape()
    assert list(hr.Session(again).run(f"copy/{grown.name}")) == [7, 7, 7, 7]


def test_a65_an_edge_across_the_border_of_a_loop_is_named() -> None:
    with hr.Graph().as_default() as graph:
        outside = hr.placeholder(hr.int32, [], name="outside")
        head, body, result = _loop()
        graph.close_loop(head, hr.apply_op("NextIteration", hr.add(body, outside, name="sum")))
    with pytest.raises(
        hr.errors.GraphError,
        match=r"edge from 'outside:0' to 'sum' crosses(.|\n)*one from loop .loop. and one from the outside of all",
    ):
        hr.Session(graph).run(result, feeds={outside: 1})


def test_a65_a_value_of_the_body_is_read_by_exit_alone() -> None:
    with hr.Graph().as_default() as graph:
        head, body, result = _loop()
        graph.close_loop(head, hr.apply_op("NextIteration", body + 1))
        leaked = hr.add(result, body, name="leak")
    with pytest.raises(hr.errors.GraphError, match="edge from 'Exit:0' to 'leak' crosses"):
        hr.Session(graph).run(leaked)


def test_a65_a_loop_that_was_not_closed_is_refused() -> None:
    with hr.Graph().as_default() as graph:
        _, _, result = _loop()
    with pytest.raises(hr.errors.GraphError, match=r"around 'Merge' is not well formed(.|\n)*graph.close_loop adds it"):
        hr.Session(graph).run(result)


def test_a65_a_loop_that_a_constant_opens_from_outside_is_explained() -> None:
    with hr.Graph().as_default() as graph:
        head, body, result = _loop()
        enters = [hr.apply_op("Enter", value, frame_name="inner") for value in (hr.constant(0), body)]
        hr.add(*enters, name="sum")
        graph.close_loop(head, hr.apply_op("NextIteration", hr.apply_op("Exit", graph.tensor("sum:0"))))
    with pytest.raises(
        hr.errors.GraphError,
        match=r"'sum' reads 'Enter_2:0' from another loop(.|\n)*from the outside of all loops and from loop 'loop'",
    ):
        hr.Session(graph).run(result)


@pytest.mark.parametrize("type_name", ["Exit", "NextIteration"])
def test_a65_what_leaves_or_turns_a_loop_is_inside_one(type_name: str) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.int32, [])
        on = hr.apply_op("Switch", x, hr.constant(True))[1]
        result = hr.apply_op(type_name, on, name="stray")
    with pytest.raises(
        hr.errors.GraphError, match=rf"around 'stray' is not well formed(.|\n)*{type_name} inside a loop"
    ):
        hr.Session(graph).run(result, feeds={x: 1})


def test_a65_next_iteration_is_read_by_the_head_of_its_loop_alone() -> None:
    with hr.Graph().as_default() as graph:
        head, body, result = _loop()
        back = hr.apply_op("NextIteration", body + 1)
        graph.close_loop(head, back)
        wrong = hr.apply_op("Exit", hr.add(back, 1, name="early"))
    with pytest.raises(
        hr.errors.GraphError, match=r"around 'early'(.|\n)*read by the Merge at the head of its loop alone"
    ):
        hr.Session(graph).run([result, wrong])


def test_a65_a_head_has_one_enter_and_one_next_iteration() -> None:
    with hr.Graph().as_default() as graph:
        enters = [hr.apply_op("Enter", hr.constant(0), frame_name="loop") for _ in range(2)]
        i, _ = hr.apply_op("Merge", enters)
        done, body = hr.apply_op("Switch", i, hr.apply_op("LoopCond", i < 3))
        graph.close_loop(i.op, hr.apply_op("NextIteration", body + 1))
        result = hr.apply_op("Exit", done)
    with pytest.raises(
        hr.errors.GraphError,
        match=r"one Enter and one NextIteration(.|\n)*'Enter:0' of Enter, 'Enter_1:0' of Enter, 'Next",
    ):
        hr.Session(graph).run(result)


def test_other_cycles_are_refused_when_a_file_is_read() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.int32, [], name="x")
        hr.apply_op("Merge", [x, hr.identity(x, name="y")], name="m")
    proto = hr.to_graph_def(graph)
    next(node for node in proto.node if node.name == "y").input[0] = "m:0"
    with pytest.raises(hr.errors.GraphError, match=r"has a cycle(.|\n)*but for a NextIteration"):
        hr.import_graph_def(proto)


def _session(name: str, form: str) -> hr.Session:
    passes = ["raising"] if form == "structured" else []
    return hr.Session(hr.import_graph_def(TENSORFLOW / f"{name}.pbtxt"), config=hr.config(passes=passes))


FORMS = pytest.mark.parametrize("form", ["tokens", "structured"])


@FORMS
def test_a_loop_of_tensorflow_1_runs(form: str) -> None:
    session = _session("loop", form)
    assert session.graph.tensor("while/Merge_1:0").shape == hr.Shape([2])
    assert session.run("y:0", feeds={"n:0": 3, "x:0": [1.0, 1.0]}).tolist() == [12.0, 32.0]
    assert session.run("y:0", feeds={"n:0": 0, "x:0": [1.0, 1.0]}).tolist() == [1.0, 1.0]


@FORMS
def test_nested_conds_of_tensorflow_1_run(form: str) -> None:
    session = _session("cond", form)
    found = [session.run("y:0", feeds={"p:0": p, "x:0": x}) for p in (True, False) for x in (3.0, -3.0)]
    assert found == [6.0, -6.0, 4.0, 7.0]


@FORMS
def test_a_cond_in_a_loop_in_a_loop_of_tensorflow_1_runs(form: str) -> None:
    session = _session("nested", form)
    for n in range(8):
        expected = 0
        for i in range(n):
            for j in range(i):
                expected = expected + j if j % 2 == 0 else expected - 1
        assert session.run("s:0", feeds={"n:0": n}) == expected


@FORMS
def test_an_assignment_in_a_cond_of_tensorflow_1_happens_only_there(form: str) -> None:
    session = _session("refvar", form)
    session.run("v/Assign")
    found = [float(session.run("y:0", feeds={"p:0": p})) for p in (True, False, True, True, False)]
    assert found == [1.0, 10.0, 2.0, 3.0, 30.0]


@FORMS
def test_a_gradient_loop_of_tensorflow_1_runs(form: str) -> None:
    derivative, value = _session("grad", form).run(["dx:0", "y:0"], feeds={"n:0": 3, "x:0": 1.5})
    np.testing.assert_allclose([derivative, value], [15 * 1.5**14, 1.5**15], rtol=1e-6)


@pytest.mark.parametrize("name", ["loop", "cond", "nested", "grad"])
def test_graphs_of_tensorflow_1_survive_a_round_trip(name: str) -> None:
    graph = hr.import_graph_def(TENSORFLOW / f"{name}.pbtxt")
    assert hr.format_graph(hr.import_graph_def(hr.to_graph_def(graph))) == hr.format_graph(graph)
