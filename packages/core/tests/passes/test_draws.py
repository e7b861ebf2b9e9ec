"""Draws: the same numbers, as functions of a state that is looked at once."""

from __future__ import annotations

import numpy as np

import headrace as hr
from headrace.passes import draws, optimize, prune


def bounded(graph: hr.Graph, *fetches: hr.Tensor) -> hr.Graph:
    return optimize(prune(graph, list(fetches), [], []), hr.config())


def test_numbers_are_a_function_of_key_and_counter() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.random.uniform([3, 5], seed=1, name="x")
    changed = draws(bounded(graph, x))
    (look,) = (op for op in changed.operations if op.type == "_NextRandom")
    (numbers,) = (op for op in changed.operations if op.type == "StatelessRandomUniformV2")
    assert look.name == next(op.name for op in graph.operations if op.type == "RandomUniform")
    assert look.attrs["count"] == 15
    assert list(numbers.inputs[1:3]) == list(look.outputs)
    assert numbers.outputs[0].shape == x.shape


def test_graphs_without_draws_stay_themselves() -> None:
    with hr.Graph().as_default() as graph:
        y = hr.constant(1.0) + 2.0
    given = bounded(graph, y)
    assert draws(given) is given


def test_draws_that_wait_for_others_stay_as_they_are() -> None:
    with hr.Graph().as_default() as graph:
        v = hr.Variable(1.0)
        with hr.control_dependencies([v.assign_add(1.0)]):
            x = hr.random.uniform([2], seed=1)
    given = bounded(graph, x)
    assert draws(given) is given


def test_the_stream_is_the_one_of_the_operation_and_moves_as_far() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.random.uniform([7], seed=1)
    with hr.Session(graph, config=hr.config(backend="numpy")) as session:
        wanted = [session.run(x) for _ in range(3)]
    passes = (*hr.config().passes, draws)
    with hr.Session(graph, config=hr.config(backend="numpy", passes=passes)) as session:
        found = [session.run(x) for _ in range(3)]
    np.testing.assert_array_equal(found, wanted)
