"""Recurrent networks over sequences of different lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_gradient

_LENGTHS = [3, 9, 1]
_RNG = np.random.default_rng(0)
_X = _RNG.normal(size=(3, 9, 2))
_W, _R = _RNG.normal(size=(2, 4)), _RNG.normal(size=(4, 4))


def _cell(w: Any, r: Any) -> Callable[[Any, Any], tuple[Any, Any]]:
    def cell(x: Any, state: Any) -> tuple[Any, Any]:
        after = hr.tanh(x @ w + state @ r)
        return after * 2, after

    return cell


def _by_hand(lengths: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    outputs, states = np.zeros((3, 9, 4)), np.zeros((3, 4))
    for row, length in enumerate(lengths):
        for time in range(length):
            states[row] = np.tanh(_X[row, time] @ _W + states[row] @ _R)
            outputs[row, time] = states[row] * 2
    return outputs, states


@pytest.mark.parametrize("lengths", [_LENGTHS, [9, 9, 9], [0, 2, 0], [0, 0, 0], None], ids=str)
@pytest.mark.parametrize("time_major", [False, True])
def test_A68_each_sequence_ends_at_its_length(lengths: Sequence[int] | None, time_major: bool) -> None:
    x = _X.transpose(1, 0, 2) if time_major else _X
    with hr.Graph().as_default() as graph:
        fed = hr.placeholder(hr.float64, x.shape)
        outputs, state = hr.nn.rnn(
            _cell(_W, _R), fed, initial_state=np.zeros((3, 4)), sequence_length=lengths, time_major=time_major
        )
    assert outputs.shape == ([9, 3, 4] if time_major else [3, 9, 4])
    assert state.shape == [3, 4]
    found, last = hr.Session(graph).run([outputs, state], feeds={fed: x})
    expected, states = _by_hand([9, 9, 9] if lengths is None else lengths)
    np.testing.assert_allclose(found.transpose(1, 0, 2) if time_major else found, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(last, states, rtol=1e-12, atol=1e-14)


def test_A68_sizes_may_be_known_in_the_step_only() -> None:
    with hr.Graph().as_default() as graph:
        x, lengths = hr.placeholder(hr.float64, [None, None, 2]), hr.placeholder(hr.int64, [None])
        start = hr.zeros(hr.stack([hr.shape(x)[0], 4]), hr.float64)
        outputs, state = hr.nn.rnn(_cell(_W, _R), x, initial_state=start, sequence_length=lengths)
    session = hr.Session(graph)
    for given, count in ((_LENGTHS, 9), ([2, 1, 2], 5)):
        found, last = session.run([outputs, state], feeds={x: _X[:, :count], lengths: given})
        expected, states = _by_hand(given)
        np.testing.assert_allclose(found, expected[:, :count], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(last, states, rtol=1e-12, atol=1e-14)


def test_A68_the_cell_computes_the_sum_of_the_lengths_and_no_more() -> None:
    seen: list[int] = []

    def count(x: np.ndarray) -> np.ndarray:
        seen.append(len(x))
        return x

    def cell(x: Any, state: Any) -> tuple[Any, Any]:
        looked_at = hr.py_function(count, [x], hr.float64)
        looked_at.set_shape(x.shape)
        return looked_at, state + hr.sum(looked_at, axis=1)

    with hr.Graph().as_default() as graph:
        outputs, _ = hr.nn.rnn(cell, _X, initial_state=np.zeros(3), sequence_length=_LENGTHS)
    hr.Session(graph).run(outputs)
    assert seen == [3, 2, 2, 1, 1, 1, 1, 1, 1]
    assert sum(seen) == sum(_LENGTHS)


@pytest.mark.parametrize("recompute", [False, True])
def test_A68_gradients_to_second_order(recompute: bool) -> None:
    def build(inputs: Sequence[hr.Tensor]) -> list[hr.Tensor]:
        x, w, r, start = inputs
        outputs, state = hr.nn.rnn(_cell(w, r), x, initial_state=start, sequence_length=[2, 3, 1], recompute=recompute)
        return [outputs, state]

    check_gradient(build, [_X[:, :4] / 2, _W[:, :2] / 2, _R[:2, :2] / 2, _RNG.normal(size=(3, 2))])


def test_inputs_states_and_outputs_may_be_nested() -> None:
    def cell(x: Any, state: Any) -> tuple[Any, Any]:
        total, count = state["total"] + x["a"] * x["b"], state["count"] + 1
        return (total, {"count": count}), {"total": total, "count": count}

    a, b = np.arange(6.0).reshape(2, 3), np.ones((2, 3)) * 2
    with hr.Graph().as_default() as graph:
        start = {"total": hr.zeros([2], hr.float64), "count": hr.zeros([2], hr.int32)}
        (totals, counts), last = hr.nn.rnn(cell, {"a": a, "b": b}, initial_state=start, sequence_length=[1, 3])
    found = hr.Session(graph).run([totals, counts["count"], last])
    np.testing.assert_array_equal(found[0], [[0, 0, 0], [6, 14, 24]])
    np.testing.assert_array_equal(found[1], [[1, 0, 0], [1, 2, 3]])
    np.testing.assert_array_equal(found[2]["total"], [0, 24])
    np.testing.assert_array_equal(found[2]["count"], [1, 3])


def test_what_does_not_fit_is_refused_where_it_is_written() -> None:
    with hr.Graph().as_default():
        cell, start = _cell(_W, _R), np.zeros((3, 4))
        with pytest.raises(hr.errors.ShapeError, match="one length for each sequence"):
            hr.nn.rnn(cell, _X, initial_state=start, sequence_length=[1, 2])
        with pytest.raises(hr.errors.ShapeError, match="inputs and states of rnn differ in size"):
            hr.nn.rnn(cell, _X, initial_state=start, time_major=True)
        with pytest.raises(hr.errors.InvalidArgumentError, match="the cell of rnn returns no pair"):
            hr.nn.rnn(lambda x, state: state, _X, initial_state=start)
        with pytest.raises(hr.errors.InvalidArgumentError, match="the cell of rnn returns another structure"):
            hr.nn.rnn(lambda x, state: (state, [state]), _X, initial_state=start)
        with pytest.raises(hr.errors.InvalidArgumentError, match="rnn has no inputs"):
            hr.nn.rnn(cell, (), initial_state=start)
        with pytest.raises(hr.errors.ShapeError, match="rnn needs more axes"):
            hr.nn.rnn(cell, np.zeros(3), initial_state=start)
