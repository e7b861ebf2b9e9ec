"""Changes of parts of a variable, and counters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr


def _after(op_type: str, start: Any, indices: Any, updates: Any, **attrs: Any) -> Any:
    with hr.Graph().as_default() as graph:
        variable = hr.Variable(start)
        change = hr.apply_op(op_type, variable.handle, np.asarray(indices), np.asarray(updates, start.dtype), **attrs)
    session = hr.Session(graph)
    session.run(change)
    return session.run(variable).tolist()


_TABLE = np.array([[1, 2], [3, 4], [5, 6]], np.float32)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("Mul", [[20, 80], [3, 4], [-5, 12]]),
        ("Div", [[1 / 20, 2 / 40], [3, 4], [-5, 3]]),
        ("Min", [[1, 2], [3, 4], [-1, 2]]),
        ("Max", [[10, 10], [3, 4], [5, 6]]),
    ],
)
def test_repeated_rows_count_each_time(op: str, expected: Any) -> None:
    after = _after(f"ResourceScatter{op}", _TABLE, [0, 2, 0], [[10, 10], [-1, 2], [2, 4]])
    np.testing.assert_allclose(after, expected, rtol=1e-6)


def test_a_scalar_goes_to_every_row_and_an_index_may_be_a_matrix() -> None:
    assert _after("ResourceScatterMul", _TABLE, [[0, 1]], 2) == [[2, 4], [6, 8], [5, 6]]
    assert _after("ResourceScatterMax", _TABLE, 1, 9) == [[1, 2], [9, 9], [5, 6]]
    assert _after("ResourceScatterMin", _TABLE, np.zeros(0, int), np.zeros((0, 2))) == _TABLE.tolist()


def test_integers_are_divided_towards_zero() -> None:
    start = np.array([7, -7, 5], np.int32)
    assert _after("ResourceScatterDiv", start, [0, 1, 2, 0], [2, 2, -3, -2]) == [-1, -3, -1]
    with pytest.raises(hr.errors.InvalidArgumentError, match="divided by zero"):
        _after("ResourceScatterDiv", start, [0], [0])


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("NdUpdate", [[9, 2], [3, 7], [5, 6]]),
        ("NdAdd", [[10, 2], [3, 19], [5, 6]]),
        ("NdSub", [[-8, 2], [3, -11], [5, 6]]),
    ],
)
def test_elements_at_indices(op: str, expected: Any) -> None:
    start = np.asfortranarray(_TABLE)  # its rows are no contiguous memory
    assert _after(f"ResourceScatter{op}", start, [[1, 1], [0, 0], [1, 1]], [8, 9, 7]) == expected


def test_indices_may_speak_of_rows_or_of_the_whole() -> None:
    assert _after("ResourceScatterNdUpdate", _TABLE, [[2], [0]], [[7, 7], [8, 8]]) == [[8, 8], [3, 4], [7, 7]]
    whole = np.stack([_TABLE, _TABLE * 2])
    assert _after("ResourceScatterNdAdd", _TABLE, np.zeros((2, 0), int), whole) == (_TABLE * 4).tolist()
    assert _after("ResourceScatterNdUpdate", _TABLE, np.zeros((2, 0), int), whole) == (_TABLE * 2).tolist()
    assert _after("ResourceScatterNdUpdate", _TABLE, [[5], [0]], [[7, 7], [8, 8]], bad_indices_policy="IGNORE") == [
        [8, 8], [3, 4], [5, 6],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("op", "indices", "updates", "text"),
    [
        ("ResourceScatterMul", [3], [[1, 1]], "index is out of range"),
        ("ResourceScatterMul", [-1], [[1, 1]], "index is out of range"),
        ("ResourceScatterMul", [0], [[1]], "updates do not fit"),
        ("ResourceScatterNdAdd", [[3]], [[1, 1]], "index is out of range"),
        ("ResourceScatterNdAdd", [[0]], [[1]], "updates do not fit"),
        ("ResourceScatterNdAdd", [[0, 0, 0]], [1], "more axes"),
        ("ResourceScatterNdAdd", 0, [1], "last axis"),
    ],
)
@pytest.mark.parametrize("known", [True, False], ids=["when built", "when run"])
def test_wrong_inputs_are_refused(op: str, indices: Any, updates: Any, text: str, known: bool) -> None:
    values = [np.asarray(indices), np.asarray(updates, np.float32)]
    with hr.Graph().as_default() as graph:
        variable = hr.Variable(_TABLE)
        holders = [hr.placeholder(hr.as_dtype(v.dtype), v.shape if known else None) for v in values]

    def run() -> None:
        change = hr.apply_op(op, variable.handle, *holders)
        hr.Session(graph).run(change, feeds=dict(zip(holders, values, strict=True)))

    with pytest.raises(hr.errors.InvalidArgumentError, match=text):
        run()


def test_scalar_and_wrongly_typed_variables_are_refused() -> None:
    with hr.Graph().as_default():
        scalar = hr.Variable(1.0)
        with pytest.raises(hr.errors.ShapeError, match="no rows"):
            hr.apply_op("ResourceScatterMul", scalar.handle, [0], np.ones(1, np.float32))
        with pytest.raises(hr.errors.DTypeError, match="another dtype"):
            hr.apply_op("ResourceScatterMul", scalar.handle, [0], np.ones(1))


def test_counter_ends_at_its_limit() -> None:
    with hr.Graph().as_default() as graph:
        counter = hr.Variable(np.int64(0))
        count = hr.apply_op("ResourceCountUpTo", counter.handle, limit=3, T=hr.int64)
    session = hr.Session(graph)
    assert [int(session.run(count)) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(hr.errors.OutOfRangeError, match="reached its limit"):
        session.run(count)
    assert session.run(counter) == 3


@pytest.mark.parametrize(
    ("op", "start", "inputs", "text"),
    [
        ("ResourceScatterMul", np.float32(1), [[0], np.ones(1, np.float32)], "a scalar variable has no rows"),
        ("ResourceScatterMul", _TABLE, [[0], np.ones((1, 3), np.float32)], "the updates do not fit the variable"),
        ("ResourceCountUpTo", np.zeros(1, np.int64), [], "only a scalar can count"),
    ],
)
def test_a_variable_of_unknown_shape_is_looked_at_in_the_step(op: str, start: Any, inputs: Any, text: str) -> None:
    attrs: dict[str, Any] = {"limit": 3, "T": hr.int64} if op == "ResourceCountUpTo" else {}
    with hr.Graph().as_default() as graph:
        variable = hr.Variable(start, shape=hr.Shape(None))
        change = hr.apply_op(op, variable.handle, *inputs, **attrs)
    session = hr.Session(graph)
    with pytest.raises(hr.errors.ShapeError, match=text):
        session.run(change)
    np.testing.assert_array_equal(session.run(variable), start)
