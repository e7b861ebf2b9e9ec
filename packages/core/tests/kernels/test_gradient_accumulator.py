"""Gradient accumulators: means and sums, late gradients, who waits; against a plain model."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import DeadlineExceededError, InvalidArgumentError, ShapeError
from headrace.kernels.gradient_accumulator import (
    DenseSum,
    DroppedGradient,
    GradientAccumulator,
    SparseGradient,
    SparseSum,
)
from headrace.testing.threads import Call, until


class Impatient:
    """A step that gives up instead of waiting."""

    def wait(self, condition: threading.Condition, ready: Callable[[], bool], describe: Callable[[], str]) -> None:
        if not ready():
            raise DeadlineExceededError(describe())


class Patient(Impatient):
    """A step that waits, and can be told to give up."""

    condition: threading.Condition | None = None
    given_up = False

    def wait(self, condition: threading.Condition, ready: Callable[[], bool], describe: Callable[[], str]) -> None:
        self.condition = condition
        condition.wait_for(lambda: ready() or self.given_up, timeout=30)
        super().wait(condition, ready, describe)


def dense(*, mean: bool = True) -> GradientAccumulator:
    return GradientAccumulator("a", DenseSum(hr.float64, hr.Shape([])), mean=mean)


def value(number: float) -> np.ndarray:
    return np.array(number, np.float64)


ACTIONS = st.one_of(
    st.tuples(st.just("add"), st.integers(-5, 5), st.integers(0, 6)),
    st.tuples(st.just("take"), st.integers(1, 4), st.just(0)),
    st.tuples(st.just("step"), st.integers(0, 6), st.just(0)),
)


@pytest.mark.parametrize("mean", [True, False])
@given(actions=st.lists(ACTIONS, max_size=30))
def test_it_gives_the_mean_of_what_was_not_late(mean: bool, actions) -> None:
    accumulator = dense(mean=mean)
    kept: list[int] = []
    step = dropped = 0
    for action, argument, local_step in actions:
        if action == "add":
            accumulator.add(value(argument), local_step)
            if local_step >= step:
                kept.append(argument)
            else:
                dropped += 1
        elif action == "step":
            accumulator.set_step(argument)
            step = argument
        elif len(kept) >= argument:
            assert accumulator.take(argument, Impatient()) == pytest.approx(np.mean(kept) if mean else sum(kept))
            kept, step = [], step + 1
        else:
            with pytest.raises(DeadlineExceededError, match=f"holds {len(kept)} gradients"):
                accumulator.take(argument, Impatient())
        assert (accumulator.count, accumulator.step, accumulator.dropped) == (len(kept), step, dropped)


def test_who_waits_is_served_in_order_and_who_gives_up_makes_way() -> None:
    accumulator = dense()
    first_step = Patient()
    first = Call(lambda: accumulator.take(3, first_step))
    until(lambda: accumulator.waiting == 1)
    second = Call(lambda: accumulator.take(1, Patient()))
    until(lambda: accumulator.waiting == 2)
    accumulator.add(value(5), 0)
    assert accumulator.waiting == 2  # the first wants more, and the second waits behind it
    assert first_step.condition is not None
    with first_step.condition:
        first_step.given_up = True
        first_step.condition.notify_all()
    with pytest.raises(DeadlineExceededError, match="waiting to take: 2, for 3, 1 gradients"):
        first.result()
    assert second.result() == 5


def test_D13_a_late_gradient_is_counted_and_shown_with_its_staleness(caplog) -> None:
    accumulator = dense()
    seen: list[DroppedGradient] = []
    accumulator.observe(seen.append)
    accumulator.set_step(7)
    with caplog.at_level(logging.INFO):
        accumulator.add(value(1), 4)
    assert seen == [DroppedGradient("a", 4, 7)]
    assert seen[0].staleness == 3
    assert accumulator.dropped == 1
    assert "accumulator 'a' at step 7 dropped a gradient of step 4" in caplog.text
    accumulator.set_step(5)
    assert "goes back from step 7 to step 5" in caplog.text


def test_a_gradient_that_does_not_fit_changes_nothing() -> None:
    accumulator = GradientAccumulator("a", DenseSum(hr.float32, hr.Shape([None])), mean=True)
    accumulator.add(np.ones(2, np.float32), 0)
    with pytest.raises(ShapeError, match=r"does not fit the accumulator(.|\n)*\[2\](.|\n)*\[3\]"):
        accumulator.add(np.ones(3, np.float32), 0)
    with pytest.raises(ShapeError, match="does not fit the accumulator"):
        accumulator.add(np.float32(1), 0)
    assert accumulator.take(1, Impatient()).tolist() == [1, 1]
    accumulator.add(np.ones(3, np.float32), 1)  # another shape is right once it is empty
    with pytest.raises(InvalidArgumentError, match="to wait for is not positive"):
        accumulator.take(0, Impatient())


GRADIENTS = st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(-9, 9)), max_size=6), min_size=1, max_size=5)


@pytest.mark.parametrize("mean", [True, False])
@given(gradients=GRADIENTS)
def test_rows_are_added_up_by_index(mean: bool, gradients) -> None:
    accumulator = GradientAccumulator("a", SparseSum(hr.float64, hr.Shape([None, 2])), mean=mean)
    total, counts = np.zeros((5, 2)), np.zeros((5, 1))
    for rows in gradients:
        indices = np.array([row for row, _ in rows], np.int64)
        values = np.array([[number, 2.0 * number] for _, number in rows]).reshape(-1, 2)
        accumulator.add(SparseGradient(indices, values, np.zeros(0, np.int64)), 0)
        np.add.at(total, indices, values)
        counts[np.unique(indices)] += 1
    taken = accumulator.take(len(gradients), Impatient())
    expected = np.flatnonzero(counts)
    assert taken.indices.tolist() == expected.tolist()
    np.testing.assert_allclose(taken.values, total[expected] / (counts[expected] if mean else 1))
    assert taken.shape.tolist() == [-1, 2]


@pytest.mark.parametrize(
    ("indices", "values", "shape", "error", "message"),
    [
        ([0], [[1, 1, 1]], [], ShapeError, "rows of the gradient do not fit"),
        ([0, 1], [[1, 1]], [], ShapeError, "rows of the gradient do not fit"),
        ([[0]], [[1, 1]], [], ShapeError, "rows of the gradient do not fit"),
        ([0], 3, [], ShapeError, "rows of the gradient do not fit"),
        ([0], [[1, 1]], [4, 2], ShapeError, "shape of the whole gradient does not fit"),
        ([0], [[1, 1]], [3, 3], ShapeError, "shape of the whole gradient does not fit"),
        ([3], [[1, 1]], [], InvalidArgumentError, "index of the gradient is out of range"),
        ([-1], [[1, 1]], [3, 2], InvalidArgumentError, "index of the gradient is out of range"),
    ],
)
def test_rows_that_do_not_fit_change_nothing(indices, values, shape, error, message) -> None:
    accumulator = GradientAccumulator("a", SparseSum(hr.float32, hr.Shape([3, 2])), mean=True)
    gradient = SparseGradient(np.array(indices), np.array(values, np.float32), np.array(shape, np.int64))
    with pytest.raises(error, match=message):
        accumulator.add(gradient, 0)
    assert accumulator.count == 0


def test_rows_of_an_unknown_shape_are_like_the_first_ones() -> None:
    accumulator = GradientAccumulator("a", SparseSum(hr.float32, hr.Shape()), mean=False)
    no_shape = np.zeros(0, np.int64)
    accumulator.add(SparseGradient(np.array([2, 0]), np.ones((2, 3), np.float32), no_shape), 0)
    with pytest.raises(ShapeError, match="rows of the gradient do not fit"):
        accumulator.add(SparseGradient(np.array([2]), np.ones((1, 2), np.float32), no_shape), 0)
    with pytest.raises(InvalidArgumentError, match="expected: 0 <= index\n"):
        accumulator.add(SparseGradient(np.array([-2]), np.ones((1, 3), np.float32), no_shape), 0)
    accumulator.add(SparseGradient(np.zeros(0, np.int64), np.ones((0, 3), np.float32), no_shape), 0)
    taken = accumulator.take(2, Impatient())
    assert taken.indices.tolist() == [0, 2]
    assert taken.shape.tolist() == [-1, 3]
