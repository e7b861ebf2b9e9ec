"""map_fn, scan, foldl and foldr: equal to the same loop in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as hr

_runs: list[float] = []


@hr.register_op("CountedStep", inputs={"x": "T"}, outputs={"y": "T"})
def _counted_shape(op):
    """The input; each run is counted."""
    return [op.inputs[0].shape]


@hr.register_kernel("CountedStep", aliases=[0])
def _counted(op, x):
    _runs.append(float(x[0]))
    return x


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_A67_map_fn_equals_a_numpy_loop_also_of_unknown_length(rows: int) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float64, [None, 3])
        n = hr.placeholder(hr.int32, [None])
        y = hr.map_fn(lambda pair: {"product": pair[0] * 2.0, "count": pair[1] + 1}, (x, n))
    assert y["product"].shape == hr.Shape([None, 3])
    values = np.arange(rows * 3, dtype=np.float64).reshape(rows, 3)
    result = hr.Session(graph).run(y, feeds={x: values, n: np.arange(rows)})
    np.testing.assert_array_equal(result["product"], values * 2)
    np.testing.assert_array_equal(result["count"], np.arange(rows) + 1)


@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize("reverse", [False, True])
def test_A67_scan_equals_a_numpy_loop(rows: int, reverse: bool) -> None:
    values = np.linspace(1.0, 2.0, rows * 2).reshape(rows, 2)
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float64, [None, 2])
        start = hr.placeholder(hr.float64, [2])
        ys, last = hr.scan(lambda carry, row: (carry * row, carry + row), x, start, reverse=reverse)
    given, carried = hr.Session(graph).run([ys, last], feeds={x: values, start: [0.5, 1.5]})
    carry = np.array([0.5, 1.5])
    expected = np.zeros((rows, 2))
    for index in reversed(range(rows)) if reverse else range(rows):
        expected[index] = carry * values[index]
        carry = carry + values[index]
    np.testing.assert_array_equal(given, expected)
    np.testing.assert_array_equal(carried, carry)


def test_A67_folds_go_through_the_rows_from_left_and_right() -> None:
    values = np.array([[1.0, 2.0], [3.0, 5.0], [7.0, 11.0]])
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float64, [None, 2])
        left = hr.foldl(lambda so_far, row: so_far / row, x)
        right = hr.foldr(lambda so_far, row: so_far / row, x)
        started = hr.foldl(lambda so_far, row: so_far + hr.sum(row), x, init=hr.constant(0.5, hr.float64))
    results = hr.Session(graph).run([left, right, started], feeds={x: values})
    np.testing.assert_array_equal(results[0], values[0] / values[1] / values[2])
    np.testing.assert_array_equal(results[1], values[2] / values[1] / values[0])
    assert results[2] == 29.5
    assert hr.Session(graph).run(started, feeds={x: np.zeros((0, 2))}) == 0.5


def test_A68_sequences_of_different_lengths_cost_the_steps_that_they_need() -> None:
    """The states freeze where a sequence ends; nothing is unrolled, and steps beyond the longest do not run."""
    lengths = np.array([3, 9, 1], np.int32)
    values = np.arange(3 * 12, dtype=np.float64).reshape(12, 3)
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float64, [None, 3])
        n = hr.placeholder(hr.int32, [3])

        def step(t: hr.Tensor, state: hr.Tensor) -> tuple[hr.Tensor, hr.Tensor]:
            changed = hr.apply_op("CountedStep", state + x[t])
            return t + 1, hr.where(t < n, changed, state)

        _, state = hr.while_loop(lambda t, state: t < hr.max(n), step, (0, hr.zeros([3], hr.float64)))
    _runs.clear()
    result = hr.Session(graph).run(state, feeds={x: values, n: lengths})
    np.testing.assert_array_equal(result, [values[:length, b].sum() for b, length in enumerate(lengths)])
    assert len(_runs) == 9


def test_rows_may_be_of_several_dtypes_and_ranks() -> None:
    with hr.Graph().as_default() as graph:
        names = hr.constant([b"a", b"b"])
        numbers = hr.constant([[1, 2], [3, 4]])
        joined = hr.map_fn(
            lambda row: hr.strings.join([row["name"], hr.strings.as_string(hr.sum(row["numbers"]))]),
            {"name": names, "numbers": numbers},
        )
    assert hr.Session(graph).run(joined).tolist() == [b"a3", b"b7"]


@pytest.mark.parametrize(
    ("build", "kind", "message"),
    [
        (lambda: hr.map_fn(lambda x: x, hr.constant(1.0)), "ShapeError", "has no rows to loop over"),
        (lambda: hr.map_fn(hr.zeros([2]), hr.zeros([2])), "InvalidArgumentError", "function of map_fn is no function"),
        (
            lambda: hr.scan(3, hr.zeros([2]), 0.0),
            "InvalidArgumentError",
            "is no function(.|\n)*lambda carry, row: value",
        ),
        (lambda: hr.foldr(None, hr.zeros([2])), "InvalidArgumentError", "function of a fold is no function"),
        (lambda: hr.map_fn(lambda x: x, ()), "InvalidArgumentError", "nothing to loop over"),
        (
            lambda: hr.map_fn(lambda pair: pair[0], (hr.zeros([2]), hr.zeros([3]))),
            "ShapeError",
            "different numbers of rows",
        ),
        (lambda: hr.scan(lambda c, x: c, hr.zeros([2]), hr.zeros([])), "InvalidArgumentError", "returns no pair"),
        (
            lambda: hr.scan(lambda c, x: (x, (c, c)), hr.zeros([2]), hr.zeros([])),
            "InvalidArgumentError",
            "the carried value returns another structure",
        ),
        (
            lambda: hr.foldl(lambda c, x: hr.stack([c, x]), hr.zeros([2])),
            "ShapeError",
            "loop variable 0 changes its shape",
        ),
    ],
)
def test_wrong_loops_over_rows_are_refused(build: Callable[[], Any], kind: str, message: str) -> None:
    with hr.Graph().as_default(), pytest.raises(getattr(hr.errors, kind), match=message):
        build()
