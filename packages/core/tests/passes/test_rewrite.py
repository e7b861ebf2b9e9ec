"""Rewrite: what a copy of an operation takes over, and what is refused although the operation was checked before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import headrace as hr
from headrace.errors import GraphError
from headrace.passes.rewrite import copy_op, rewrite
from headrace.types import Shape


def placeholder(graph: hr.Graph, *shape: int | None) -> hr.Tensor:
    with graph.as_default():
        return hr.placeholder(hr.float32, shape)


@pytest.fixture
def doubled() -> hr.Operation:
    graph = hr.Graph()
    x = placeholder(graph, 2, 3)
    with graph.as_default(), hr.device("GPU:1"):
        return (x + x).op


def test_a_copy_is_equal_but_for_its_graph(doubled: hr.Operation) -> None:
    copy = rewrite(doubled.graph, lambda op, inputs, graph: None).operation(doubled.name)
    assert copy is not doubled
    for item in ("name", "type", "attrs", "op_def", "device", "colocation", "source"):
        assert getattr(copy, item) is getattr(doubled, item) or getattr(copy, item) == getattr(doubled, item)
    assert [tensor.op.graph for tensor in (*copy.inputs, *copy.outputs)] == [copy.graph] * 3
    assert (copy.outputs[0].shape, copy.outputs[0].dtype) == (Shape((2, 3)), hr.float32)


def test_two_copies_have_two_names_and_can_be_found_by_them(doubled: hr.Operation) -> None:
    graph = hr.Graph(extend=True)
    x = placeholder(graph, 2, 3)
    copies = [copy_op(doubled, [x, x], graph) for _ in range(2)]
    assert len({copy.name for copy in copies}) == 2
    assert [graph.operation(copy.name) for copy in copies] == copies
    assert [copy.index for copy in copies] == [graph.version - 2, graph.version - 1]


def test_shapes_are_inferred_again_on_other_inputs(doubled: hr.Operation) -> None:
    graph = hr.Graph(extend=True)
    x = placeholder(graph, 5, 3)
    assert copy_op(doubled, [x, x], graph).outputs[0].shape == Shape((5, 3))


def reversed_sizes(graph: hr.Graph) -> hr.Graph:
    """A pass that gives constants of two sizes the other way round."""

    def rule(op: hr.Operation, inputs: Sequence[hr.Tensor], new: hr.Graph) -> Sequence[hr.Tensor] | None:
        if op.type != "Const" or op.outputs[0].shape.as_tuple() != (2,):
            return None
        attrs = {**op.attrs, "value": op.attrs["value"][::-1].copy()}
        return new.create_op("Const", (), attrs, name=f"{op.name}/", source=op.source).outputs

    return rewrite(graph, rule)


@pytest.mark.parametrize("backend", ["numpy", "auto"])
@pytest.mark.parametrize("joined", [False, True])
def test_shapes_that_follow_from_a_changed_constant_are_inferred_again(backend: str, joined: bool) -> None:
    """Also those that follow from what is made of it; native code took the shape that it had before."""
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [12])
        sizes = hr.constant([2, 3])
        y = hr.reshape(x, hr.concat([sizes, hr.constant([-1])], axis=0) if joined else sizes * hr.constant([1, 2]))
        z = hr.sum(y * 1.0, axis=0)
    with hr.Session(graph, config=hr.config(backend=backend, passes=[reversed_sizes])) as session:
        found = session.run([y, z], {x: np.arange(12, dtype=np.float32)})
    assert [value.shape for value in found] == ([(3, 2, 2), (2, 2)] if joined else [(6, 2), (2,)])


def test_a_constant_of_the_same_value_changes_nothing() -> None:
    """Shapes that the user has declared beyond what is inferred stay."""
    with hr.Graph().as_default() as graph:
        sizes = hr.constant([2, 3])
        y = hr.reshape(hr.placeholder(hr.float32, [6]), sizes)

    def copied(op: hr.Operation, inputs: Sequence[hr.Tensor], new: hr.Graph) -> Sequence[hr.Tensor] | None:
        return new.create_op("Const", (), {**op.attrs}, name=f"{op.name}/").outputs if op.type == "Const" else None

    assert rewrite(graph, copied).tensor(y.name).shape is y.shape


def test_effects_of_a_copy_are_ordered_where_the_graph_orders_them() -> None:
    """The graph of a traced function keeps effects in the order of the program, those of copies as well."""
    graph = hr.Graph()
    with graph.as_default():
        v = hr.Variable(1.0, name="v")
        assign = v.assign(2.0)
    assert assign is not None

    @hr.function
    def twice() -> hr.Tensor:
        first = v.assign_add(1.0)
        assert first is not None
        copy = copy_op(first, first.inputs, first.graph)
        assert copy.control_inputs
        return v.read()

    with graph.as_default(), hr.control_dependencies([assign]):
        result = twice()
    with hr.Session(graph) as session:
        assert session.run(result) == 4


def test_a_copy_belongs_to_the_scope_it_is_made_in(doubled: hr.Operation) -> None:
    graph = hr.Graph(extend=True)
    x = placeholder(graph, 2, 3)
    with graph.as_default():
        first = hr.constant(1.0).op
        with hr.control_dependencies([first]):
            assert copy_op(doubled, [x, x], graph).control_inputs == (first,)


def test_inputs_of_another_graph_are_refused(doubled: hr.Operation) -> None:
    graph = hr.Graph(extend=True)
    x = placeholder(graph, 2, 3)
    with pytest.raises(GraphError, match="belongs to another graph"):
        copy_op(doubled, doubled.inputs, graph)
    with pytest.raises(GraphError, match="belongs to another graph") as refused:
        copy_op(doubled, [x, x], graph, [doubled])
    assert "created at test_rewrite.py" in str(refused.value)
    with pytest.raises(GraphError, match="an input is not a tensor"):
        copy_op(doubled, [x, 1.0], graph)  # type: ignore[list-item]
    assert graph.version == 1


def test_a_finalized_graph_takes_no_copies(doubled: hr.Operation) -> None:
    graph = hr.Graph(extend=True)
    x = placeholder(graph, 2, 3)
    graph.finalize()
    with pytest.raises(GraphError, match="the graph is finalized"):
        copy_op(doubled, [x, x], graph)


def test_a_graph_that_grows_in_a_loop_is_noticed_by_copies_too(doubled: hr.Operation) -> None:
    graph = hr.Graph()
    x = placeholder(graph, 2, 3)

    def grow() -> None:
        for _ in range(100):
            copy_op(doubled, [x, x], graph)
            graph.note_plan()

    with pytest.raises(GraphError, match="grows while it is being run"):
        grow()
