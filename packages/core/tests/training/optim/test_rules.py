"""Every optimiser follows its formula, written in NumPy from the papers: dense and sparse, in graphs and functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import headrace as hr

Array = npt.NDArray[Any]
STEPS = 50


@dataclass(frozen=True)
class Rule:
    """An optimiser and its formula: `change(state, g, w, t)` gives what update t subtracts from w."""

    make: Callable[[], hr.optim.Optimizer]
    change: Callable[[dict[str, Any], Array, Array, int], Array]


def mean(state: dict[str, Any], name: str, value: Array, decay: float) -> Any:
    state[name] = decay * state.get(name, np.zeros_like(value)) + (1 - decay) * value
    return state[name]


def momentum(state: dict[str, Any], g: Array, nesterov: bool) -> Any:
    state["m"] = 0.9 * state.get("m", np.zeros_like(g)) + g
    return g + 0.9 * state["m"] if nesterov else state["m"]


def adagrad(state: dict[str, Any], g: Array) -> Any:
    state["a"] = state.get("a", np.full_like(g, 0.1)) + g**2
    return g / (np.sqrt(state["a"]) + 1e-10)


def adadelta(state: dict[str, Any], g: Array) -> Any:
    squares = mean(state, "squares", g**2, 0.95)
    change = np.sqrt(state.get("changes", np.zeros_like(g)) + 1e-6) / np.sqrt(squares + 1e-6) * g
    mean(state, "changes", change**2, 0.95)
    return change


def rmsprop(state: dict[str, Any], g: Array, centered: bool, mu: float) -> Any:
    spread = mean(state, "squares", g**2, 0.9)
    if centered:
        spread = np.maximum(spread - mean(state, "mean", g, 0.9) ** 2, 0)
    state["m"] = mu * state.get("m", np.zeros_like(g)) + g / np.sqrt(spread + 1e-10)
    return state["m"]


def adam(state: dict[str, Any], g: Array, t: int) -> Any:
    first = mean(state, "m", g, 0.9) / (1 - 0.9**t)
    second = mean(state, "v", g**2, 0.999) / (1 - 0.999**t)
    return first / (np.sqrt(second) + 1e-8)


def adam_epsilon_hat(state: dict[str, Any], g: Array, t: int) -> Any:
    first, second = mean(state, "m", g, 0.9), mean(state, "v", g**2, 0.999)
    return np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * first / (np.sqrt(second) + 1e-3)


RULES = {
    "SGD": Rule(lambda: hr.optim.SGD(0.1), lambda s, g, w, t: 0.1 * g),
    "Momentum": Rule(lambda: hr.optim.Momentum(0.1, momentum=0.9), lambda s, g, w, t: 0.1 * momentum(s, g, False)),
    "Nesterov": Rule(lambda: hr.optim.Momentum(0.1, 0.9, nesterov=True), lambda s, g, w, t: 0.1 * momentum(s, g, True)),
    "Adagrad": Rule(lambda: hr.optim.Adagrad(0.1), lambda s, g, w, t: 0.1 * adagrad(s, g)),
    "Adadelta": Rule(lambda: hr.optim.Adadelta(), lambda s, g, w, t: adadelta(s, g)),
    "RMSProp": Rule(lambda: hr.optim.RMSProp(0.01), lambda s, g, w, t: 0.01 * rmsprop(s, g, False, 0.0)),
    "RMSProp centred": Rule(
        lambda: hr.optim.RMSProp(0.01, momentum=0.5, centered=True), lambda s, g, w, t: 0.01 * rmsprop(s, g, True, 0.5)
    ),
    "Adam": Rule(lambda: hr.optim.Adam(0.01), lambda s, g, w, t: 0.01 * adam(s, g, t)),
    "Adam epsilon hat": Rule(
        lambda: hr.optim.Adam(0.01, epsilon=1e-3, epsilon_hat=True), lambda s, g, w, t: 0.01 * adam_epsilon_hat(s, g, t)
    ),
    "AdamW": Rule(
        lambda: hr.optim.AdamW(0.01, weight_decay=0.1), lambda s, g, w, t: 0.01 * adam(s, g, t) + 0.01 * 0.1 * w
    ),
}
START = np.array([[1.0, -2.0], [0.5, 3.0], [0.0, 1e-3]])


def gradients_of_run() -> list[Array]:
    """Gradients of changing size and sign, with an element that is 0 for a while."""
    numbers = np.random.default_rng(7)
    grads = [numbers.normal(size=START.shape) * 10.0 ** numbers.integers(-2, 2) for _ in range(STEPS)]
    for grad in grads[:10]:
        grad[2, 1] = 0.0
    return grads


def reference(rule: Rule, start: Array, grads: list[Array]) -> Array:
    state: dict[str, Any] = {}
    value = start.astype(np.float64)
    for t, grad in enumerate(grads, 1):
        value = value - rule.change(state, grad.astype(np.float64), value, t)
    return value


def run_in_graph(optimizer: hr.optim.Optimizer, start: Array, grads: list[Array]) -> Array:
    graph = hr.Graph()
    with graph.as_default():
        w = hr.Variable(start, name="w")
        grad = hr.placeholder(w.dtype, start.shape)
        train = optimizer.apply_gradients([(grad, w)])
    with hr.Session(graph) as session:
        step = session.make_callable(train, [grad])
        for value in grads:
            step(value.astype(start.dtype))
        return np.asarray(session.run(w))


def run_in_function(optimizer: hr.optim.Optimizer, start: Array, grads: list[Array]) -> Array:
    w = hr.Variable(start, name="w")

    @hr.function
    def step(grad: Any) -> None:
        optimizer.apply_gradients([(grad, w)])

    for value in grads:
        step(value.astype(start.dtype))
    return np.asarray(w.numpy())


@pytest.mark.parametrize("name", RULES)
def test_A77_fifty_steps_follow_the_formula(name: str) -> None:
    grads = gradients_of_run()
    got = run_in_graph(RULES[name].make(), START, grads)
    np.testing.assert_allclose(got, reference(RULES[name], START, grads), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", RULES)
def test_A77_float32_stays_within_a_millionth(name: str) -> None:
    start = START.astype(np.float32)
    grads = [grad.astype(np.float32) for grad in gradients_of_run()]
    got = run_in_graph(RULES[name].make(), start, grads)
    assert got.dtype == np.float32
    wanted = reference(RULES[name], start, grads)
    scale = np.abs(wanted - START).max() + np.abs(START).max()
    assert np.abs(got - wanted).max() <= 1e-6 * scale


@pytest.mark.parametrize("name", RULES)
def test_graphs_and_functions_give_the_same_bits(name: str) -> None:
    grads = gradients_of_run()
    start = START.astype(np.float32)
    in_graph = run_in_graph(RULES[name].make(), start, grads)
    in_function = run_in_function(RULES[name].make(), start, grads)
    assert in_graph.tobytes() == in_function.tobytes()


@pytest.mark.parametrize("name", RULES)
def test_A82_sparse_gradients_touch_only_their_rows(name: str) -> None:
    numbers = np.random.default_rng(3)
    table = numbers.normal(size=(6, 2)).astype(np.float32)
    optimizer = RULES[name].make()
    graph = hr.Graph()
    with graph.as_default():
        w = hr.Variable(table, name="table")
        values, indices = hr.placeholder(hr.float32, [None, 2]), hr.placeholder(hr.int32, [None])
        train = optimizer.apply_gradients([(hr.IndexedSlices(values, indices, hr.constant([6, 2])), w)])
    touched = {1: [], 4: []}  # type: dict[int, list[Array]]
    with hr.Session(graph) as session:
        before = session.read_variables()
        for _ in range(5):
            rows = numbers.normal(size=(4, 2)).astype(np.float32)
            session.run(train, feeds={values: rows, indices: [4, 1, 4, 4]})
            touched[1].append(rows[1])
            touched[4].append(rows[[0, 2, 3]].sum(axis=0))
        after = session.read_variables()
    for variable, value in after.items():
        if np.ndim(value):
            rest = [0, 2, 3, 5]
            assert value[rest].tobytes() == before[variable][rest].tobytes(), variable
    for row, grads in touched.items():
        np.testing.assert_allclose(after["table"][row], reference(RULES[name], table[row], grads), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name", RULES)
def test_slots_are_variables_under_the_name_of_theirs(name: str) -> None:
    optimizer = RULES[name].make()
    graph = hr.Graph()
    with graph.as_default(), hr.name_scope("model"):
        w = hr.Variable([1.0, 2.0], name="w")
        optimizer.minimize(hr.sum(w * w))
    slots = optimizer.slots_of(w)
    assert {slot.name for slot in slots.values()} == {f"model/w/{name}" for name in optimizer.slots(w)}
    assert not any(slot.trainable for slot in slots.values())
    assert graph.variables[0] is w
    assert next(v.name for v in graph.variables if not v.trainable) == f"{type(optimizer).__name__}/step"


@pytest.mark.parametrize("name", RULES)
def test_every_optimiser_makes_a_quadratic_smaller(name: str) -> None:
    optimizer = RULES[name].make()
    graph = hr.Graph()
    with graph.as_default():
        w = hr.Variable([3.0, -4.0, 0.5])
        loss = hr.sum(hr.square(w - [1.0, 1.0, 1.0]))
        train = optimizer.minimize(loss)
    with hr.Session(graph) as session:
        first = session.run(loss)
        for _ in range(100):
            session.run(train)
        assert session.run(loss) < first


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("dtype", [hr.float16, hr.bfloat16])
def test_slots_have_the_dtype_of_their_variable(name: str, dtype: hr.DType) -> None:
    optimizer = RULES[name].make()
    graph = hr.Graph()
    with graph.as_default():
        w = hr.Variable([1.0, -2.0], dtype=dtype)
        train = optimizer.minimize(hr.sum(w * w))
    assert {slot.dtype for slot in optimizer.slots_of(w).values()} <= {dtype}
    with hr.Session(graph) as session:
        for _ in range(3):
            session.run(train)
        value = session.run(w).astype(np.float32)
    assert np.isfinite(value).all()
    assert (np.abs(value) <= [1.0, 2.0]).all()
