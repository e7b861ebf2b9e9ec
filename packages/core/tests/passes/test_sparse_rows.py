"""Sparse rows: the same updates, in shapes that are known before the step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import headrace as hr
from headrace.passes import optimize, prune, sparse_rows

TABLE = np.arange(20, dtype=np.float32).reshape(5, 4)
INTERNAL = {"_FirstRows", "_GatherRows", "_ScatterRows"}


def step(
    make: Callable[[], hr.optim.Optimizer], count: int | None = 6
) -> tuple[hr.Graph, hr.Tensor, hr.Operation, hr.Variable]:
    """A graph that looks rows up and updates them."""
    with hr.Graph().as_default() as graph:
        variable = hr.Variable(TABLE)
        ids = hr.placeholder("int32", [count])
        rows = hr.gather(variable, ids)
        return graph, ids, make().minimize(hr.sum(rows * rows)), variable


def types_after(graph: hr.Graph, fetches: list[hr.Tensor], ids: hr.Tensor) -> set[str]:
    """The types of operations after the pass; what is run for its effect is fetched by what waits for it."""
    bounded = optimize(prune(graph, fetches, [], [ids], [ids.shape]), hr.config())
    return {op.type for op in sparse_rows(bounded).operations}


def fetched(train: hr.Operation) -> hr.Tensor:
    with hr.control_dependencies([train]):
        return hr.identity(hr.constant(1.0))


@pytest.mark.parametrize("make", [lambda: hr.optim.SGD(0.1), lambda: hr.optim.Adam(0.1)])
def test_updates_are_the_same_on_numpy(make: Callable[[], hr.optim.Optimizer]) -> None:
    results = []
    for passes in (hr.config().passes, (*hr.config().passes, sparse_rows)):
        graph, ids, train, variable = step(make)
        with hr.Session(graph, config=hr.config(backend="numpy", passes=passes, verify=True)) as session:
            for given in ([1, 1, 4, 0, 1, 4], [2, 2, 2, 2, 2, 2]):
                session.run(train, {ids: np.array(given, np.int32)})
            results.append(session.run(variable.value))
    np.testing.assert_allclose(results[1], results[0], rtol=1e-6)


def test_nothing_of_unknown_size_is_left() -> None:
    graph, ids, train, _ = step(lambda: hr.optim.Momentum(0.1, momentum=0.9))
    with graph.as_default():
        done = fetched(train)
    bounded = sparse_rows(optimize(prune(graph, [done], [], [ids], [ids.shape]), hr.config()))
    assert {op.type for op in bounded.operations} >= INTERNAL
    assert all(output.shape.is_fully_defined for op in bounded.operations for output in op.outputs)


def test_rows_whose_number_somebody_needs_stay_as_they_are() -> None:
    with hr.Graph().as_default() as graph:
        variable, ids = hr.Variable(TABLE), hr.placeholder("int32", [6])
        summed = hr.optim.add_repeated_rows(hr.IndexedSlices(hr.ones([6, 4]), ids, hr.constant([5, 4])))
        done = fetched(variable.rows(summed.indices).assign_sub(summed.values))
    assert types_after(graph, [done], ids) >= {"_FirstRows", "_ScatterRows"}
    assert not types_after(graph, [done, mean_of(graph, summed.values)], ids) & INTERNAL
    assert not types_after(graph, [done, summed.indices], ids) & INTERNAL


def test_what_is_as_long_as_the_rows_are_many_is_not_the_same_for_each_of_them() -> None:
    """Of a vector's rows a factor of three is for three rows, even where a matrix with longer rows is changed too."""
    values = []
    for passes in (hr.config().passes, (*hr.config().passes, sparse_rows)):
        with hr.Graph().as_default() as graph:
            matrix, vector, ids = hr.Variable(TABLE), hr.Variable(TABLE[:, 0]), hr.placeholder("int32", [6])
            summed = hr.optim.add_repeated_rows(hr.IndexedSlices(hr.ones([6, 4]), ids, hr.constant([5, 4])))
            kept = matrix.rows(summed.indices).assign_sub(summed.values)
            factors = hr.gather(vector, summed.indices) * hr.constant([1.0, 2.0, 3.0])
            changed = vector.rows(summed.indices).assign_sub(factors)
            with hr.control_dependencies([kept, changed]):
                done = hr.identity(hr.constant(1.0))
        with hr.Session(graph, config=hr.config(backend="numpy", passes=passes)) as session:
            session.run(done, {ids: np.array([1, 1, 4, 0, 1, 4], np.int32)})
            values.append(session.run([matrix.value, vector.value]))
    for found, wanted in zip(values[1], values[0], strict=True):
        np.testing.assert_array_equal(found, wanted)


def mean_of(graph: hr.Graph, tensor: hr.Tensor) -> hr.Tensor:
    with graph.as_default():
        return hr.mean(tensor)


def test_lookups_of_unknown_number_stay_as_they_are() -> None:
    graph, ids, train, _ = step(lambda: hr.optim.SGD(0.1), None)
    with graph.as_default():
        done = fetched(train)
    assert not types_after(graph, [done], ids) & INTERNAL


@pytest.mark.parametrize("wrong", [5, -1])
def test_wrong_rows_are_refused_by_whoever_finds_the_first_ones(wrong: int) -> None:
    with hr.Graph().as_default() as graph:
        variable, ids = hr.Variable(TABLE), hr.placeholder("int32", [2])
        slices = hr.IndexedSlices(hr.ones([2, 4]), ids, hr.constant([5, 4]))
        train = hr.optim.SGD(1.0).apply_gradients([(slices, variable)])
    passes = (*hr.config().passes, sparse_rows)
    with hr.Session(graph, config=hr.config(backend="numpy", passes=passes)) as session:
        with pytest.raises(hr.errors.OutOfRangeError, match="0 <= index < 5"):
            session.run(train, {ids: np.array([1, wrong], np.int32)})
        np.testing.assert_array_equal(session.run(variable.value), TABLE)


def test_shapes_of_variables_are_constants() -> None:
    with hr.Graph().as_default() as graph:
        variable, ids = hr.Variable(TABLE), hr.placeholder("int32", [6])
        rows = hr.gather(variable, ids)
        (slices,) = hr.gradients(hr.sum(rows * rows), [variable])
        values = hr.convert_to_tensor(slices.values)
    bounded = optimize(prune(graph, [values], [], [ids], [ids.shape]), hr.config())
    assert "VariableShape" not in {op.type for op in bounded.operations}
    assert all(output.shape.is_fully_defined for op in bounded.operations for output in op.outputs)
