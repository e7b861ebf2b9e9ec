"""L-BFGS, compared with the two-loop recursion written in NumPy."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import headrace as hr
from headrace.errors import DTypeError, InvalidArgumentError

Array = npt.NDArray[Any]
MATRIX = np.array([[3.0, 0.5, 0.0], [0.5, 2.0, -0.4], [0.0, -0.4, 1.0]])
TARGET = np.array([1.0, -2.0, 0.5])
START = np.array([4.0, 3.0, -2.0])


def gradient(x: Array) -> Array:
    """Of x'Ax / 2 - b'x + sum(x^4) / 40: not quadratic, so that the history matters."""
    return np.asarray(MATRIX @ x - TARGET + x**3 / 10)


def reference(steps: int, history: int, rate: float) -> list[Array]:
    """Nocedal and Wright, algorithms 7.4 and 7.5, without a line search."""
    x, pairs, scale = START.copy(), deque[tuple[Array, Array]](maxlen=history), 1.0
    last: tuple[Array, Array] | None = None
    path = []
    for step in range(steps):
        g = gradient(x)
        if last is not None:
            s, y = last[0], g - last[1]
            if s @ y > 1e-10:
                pairs.append((s, y))
                scale = float(s @ y / (y @ y))
        q, shares = g.copy(), []
        for s, y in reversed(pairs):
            shares.append(s @ q / (s @ y))
            q -= shares[-1] * y
        q *= scale
        for s, y in pairs:
            q += s * (shares.pop() - y @ q / (s @ y))
        change = -q * (rate * min(1.0, 1 / np.abs(g).sum()) if step == 0 else rate)
        x = x + change
        last = (change, g)
        path.append(x)
    return path


@pytest.mark.parametrize("history", [1, 3, 10])
def test_A77_lbfgs_follows_the_recursion_over_all_variables_at_once(history: int) -> None:
    graph = hr.Graph()
    with graph.as_default():
        a, b = hr.Variable(START[:1], name="a"), hr.Variable(START[1:].reshape(2, 1), name="b")
        x = hr.concat([a.value, hr.reshape(b, [-1])], axis=0)
        product = hr.reshape(hr.constant(MATRIX) @ hr.reshape(x, [3, 1]), [3])
        loss = 0.5 * hr.sum(x * product) - hr.sum(x * TARGET) + hr.sum(hr.square(hr.square(x))) / 40.0
        train = hr.optim.LBFGS(0.7, history).minimize(loss)
    with hr.Session(graph) as session:
        for expected in reference(50, history, 0.7):
            session.run(train)
            got = np.concatenate([np.ravel(value) for value in session.run([a, b])])
            np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-9)


def test_lbfgs_reaches_the_minimum_in_a_function() -> None:
    w = hr.Variable(START.copy(), name="w")
    optimizer = hr.optim.LBFGS()

    @hr.function
    def step() -> Any:
        residual = hr.reshape(hr.constant(MATRIX) @ hr.reshape(w, [3, 1]), [3]) - TARGET
        loss = hr.sum(hr.square(residual))
        optimizer.minimize(loss, [w])
        return loss

    for _ in range(30):
        step()
    np.testing.assert_allclose(w.numpy(), np.linalg.solve(MATRIX, TARGET), atol=1e-6)


def test_lbfgs_adds_up_sparse_gradients() -> None:
    graph = hr.Graph()
    with graph.as_default():
        w = hr.Variable([[1.0], [1.0], [1.0]])
        grad = hr.IndexedSlices(hr.constant([[0.25], [0.25]]), hr.constant([1, 1]), hr.constant([3, 1]))
        train = hr.optim.LBFGS(0.5).apply_gradients([(grad, w)])
    with hr.Session(graph) as session:
        session.run(train)
        assert session.run(w).tolist() == [[1.0], [0.75], [1.0]]


def test_lbfgs_needs_a_history() -> None:
    with pytest.raises(InvalidArgumentError, match="cannot work without a history"):
        hr.optim.LBFGS(history=0)


def test_lbfgs_needs_one_dtype_and_known_shapes() -> None:
    with hr.Graph().as_default():
        a, b = hr.Variable([1.0], name="a"), hr.Variable(np.ones(1), name="b")
        with pytest.raises(DTypeError, match="'b' has another dtype\n.*float32 as 'a'\n.*float64"):
            hr.optim.LBFGS().apply_gradients([(hr.constant([1.0]), a), (hr.constant(np.ones(1)), b)])
        open_shape = hr.Variable(hr.placeholder(hr.float32, [None]), name="open")
        with pytest.raises(InvalidArgumentError, match="keep state for variable 'open'"):
            hr.optim.LBFGS().apply_gradients([(hr.constant([1.0]), open_shape)])
        half = hr.Variable(np.ones(1, np.float16), name="half")
        with pytest.raises(DTypeError, match=r"L-BFGS cannot optimise variable 'half'\n.*float32 or float64"):
            hr.optim.LBFGS().apply_gradients([(hr.constant(np.ones(1, np.float16)), half)])
