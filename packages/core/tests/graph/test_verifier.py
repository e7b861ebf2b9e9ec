"""The rules that every graph obeys."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.graph.verifier import verify, verify_bounded


def _graph() -> tuple[hr.Graph, hr.Tensor]:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.constant(1.0, name="x")
        y = hr.add(x, x, name="y")
    return graph, y


def test_a_sound_graph_passes() -> None:
    verify(_graph()[0], stage="test")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda graph, op: setattr(op, "name", "x"), "names are unique"),
        (lambda graph, op: setattr(op, "inputs", (op.outputs[0],) * 2), "edges go forward"),
        (lambda graph, op: setattr(op, "inputs", (_graph()[1],) * 2), "edges stay inside"),
        (lambda graph, op: setattr(op, "inputs", op.inputs[:1]), "inputs follow the signature"),
        (lambda graph, op: setattr(op.outputs[0], "dtype", hr.int32), "outputs follow the signature"),
    ],
)
def test_a_damaged_graph_is_named_with_its_stage_and_rule(damage, message: str) -> None:
    graph, y = _graph()
    damage(graph, y.op)
    with pytest.raises(hr.errors.GraphError, match=f"after test breaks a rule(.|\n)*{message}"):
        verify(graph, stage="test")


def test_a_bounded_graph_has_its_own_rules() -> None:
    graph = hr.Graph()
    with graph.as_default():
        hr.placeholder(hr.float32, [], name="x")
    with pytest.raises(hr.errors.GraphError, match="every placeholder that is needed is fed"):
        verify_bounded(graph, stage="test")
    graph = hr.Graph()
    for _ in range(2):
        graph.create_op("_Arg", (), {"T": hr.float32, "index": 0})
    with pytest.raises(hr.errors.GraphError, match="each _Arg has its own index"):
        verify_bounded(graph, stage="test")
