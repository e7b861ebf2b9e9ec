"""Random programs with branches, loops and loops over rows, nested in each other.

Each is built twice: with `hr.cond`, `hr.while_loop` and their kin, and with Python's own `if` and `for`, which need the
values and therefore unroll the program into a plain graph. Values, gradients and second derivatives must agree, with
and without passes, after a round trip through a graph file, and scattered over three devices.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_graph_placed

PROGRAMS = 20
WIDTH = 3

Value = Any  # a tensor in one reading of a program, an array in the other


@dataclass(frozen=True)
class Reading:
    """How a program is read: into control flow of the graph, or step by step in Python beside the values."""

    is_true: Callable[[Any], bool] | None = None

    def choose(self, pred: Any, left: Callable[[], Any], right: Callable[[], Any]) -> Any:
        if self.is_true is None:
            return hr.cond(pred, left, right)
        return left() if self.is_true(pred) else right()

    def repeat(self, count: int, body: Callable[[Any], Any], start: Any, *, recompute: bool) -> Any:
        if self.is_true is None:
            return hr.while_loop(
                lambda i, *state: i < count,
                lambda i, *state: (i + 1, *body(state)),
                (0, *start),
                recompute=recompute,
            )[1:]
        for _ in range(count):
            start = body(start)
        return start

    def scan(self, body: Callable[[Any, Any], Any], rows: Any, start: Any, *, reverse: bool) -> Any:
        if self.is_true is None:
            return hr.scan(body, rows, start, reverse=reverse)
        given: list[Any] = []
        for index in reversed(range(WIDTH)) if reverse else range(WIDTH):
            y, start = body(start, rows[index])
            given.append(y)
        return hr.stack(given[::-1] if reverse else given), start


def _program(rng: np.random.Generator) -> Callable[[Reading, Any, Any], Any]:
    """A random function of two vectors that gives a vector; which one is decided here, whatever it is read into."""

    def expression(depth: int) -> Callable[[Reading, Any, Any], Any]:
        kind = rng.choice(["unary", "binary", "branch", "loop", "scan"] if depth else ["leaf"])
        if kind == "leaf":
            return [lambda r, x, y: x, lambda r, x, y: y][rng.integers(2)]
        inner, other = expression(max(depth - 1, 0)), expression(max(depth - 1, 0))
        if kind == "unary":
            unary = [hr.sin, hr.tanh, lambda v: v * 0.7 + 0.1, lambda v: hr.concat([v[1:], v[:1]], axis=0)][
                rng.integers(4)
            ]
            return lambda r, x, y: unary(inner(r, x, y))
        if kind == "binary":
            binary = [lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - 0.5 * b][rng.integers(3)]
            return lambda r, x, y: binary(inner(r, x, y), other(r, x, y))
        if kind == "branch":
            limit = float(rng.normal() * 0.5)
            return lambda r, x, y: r.choose(hr.sum(x) > limit, lambda: inner(r, x, y), lambda: other(r, y, x))
        if kind == "loop":
            count, recompute = int(rng.integers(4)), bool(rng.integers(2))
            return lambda r, x, y: r.repeat(
                count, lambda s: (inner(r, s[0], y) * 0.9, other(r, s[1], s[0])), (x, x * y), recompute=recompute
            )[rng_choice]
        reverse = bool(rng.integers(2))
        return lambda r, x, y: r.scan(
            lambda carry, row: (hr.sum(inner(r, carry, y)) * row, hr.tanh(other(r, carry, y) + row)),
            x,
            y,
            reverse=reverse,
        )[rng_choice]

    rng_choice = int(rng.integers(2))
    return expression(3)


def _derivatives(result: hr.Tensor, x: hr.Tensor, y: hr.Tensor) -> list[hr.Tensor]:
    """The result, its gradients, and the gradients of their sum of squares; zeros where there is no path."""

    def dense(gradients: list[Any]) -> list[hr.Tensor]:
        return [hr.zeros([WIDTH], hr.float64) if g is None else g for g in gradients]

    total = hr.sum(result * hr.constant([0.3, -0.7, 1.1], hr.float64))
    first = dense(hr.gradients(total, [x, y]))
    second = dense(hr.gradients(hr.sum(hr.square(first[0])) + hr.sum(first[0] * first[1]), [x, y]))
    return [result, *first, *second]


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_A74_A75_D16_random_programs_agree_with_the_same_program_unrolled(seed: int) -> None:
    program = _program(np.random.default_rng(seed))
    values = np.random.default_rng(1000 + seed).normal(size=(2, WIDTH))
    with hr.Graph().as_default() as graph:
        x, y = (hr.placeholder(hr.float64, [WIDTH], name=name) for name in "xy")
        fetches = _derivatives(program(Reading(), x, y), x, y)
        named = [hr.identity(tensor, name=f"fetch_{index}") for index, tensor in enumerate(fetches)]
    feeds = {"x:0": values[0], "y:0": values[1]}
    with hr.Graph(extend=True).as_default() as plain:
        u, v = (hr.placeholder(hr.float64, [WIDTH]) for _ in "xy")
        session = hr.Session(plain)
        reading = Reading(lambda pred: bool(session.run(pred, feeds={u: values[0], v: values[1]})))
        unrolled = _derivatives(program(reading, u, v), u, v)
    expected = session.run(unrolled, feeds={u: values[0], v: values[1]})
    names = [tensor.name for tensor in named]
    runs = {
        "as it is": hr.Session(graph, config=hr.config(passes=[])).run(names, feeds=feeds),
        "with passes": hr.Session(graph, config=hr.config(verify=True)).run(names, feeds=feeds),
        "from a file": hr.Session(hr.import_graph_def(hr.to_graph_def(graph))).run(names, feeds=feeds),
    }
    for way, found in runs.items():
        for index, (value, wanted) in enumerate(zip(found, expected, strict=True)):
            np.testing.assert_allclose(value, wanted, rtol=1e-9, atol=1e-11, err_msg=f"fetch {index} {way}")


@pytest.mark.parametrize("seed", range(8))
def test_A55_random_programs_and_their_derivatives_give_the_same_bits_over_three_devices(seed: int) -> None:
    program = _program(np.random.default_rng(seed))
    values = np.random.default_rng(1000 + seed).normal(size=(2, WIDTH))
    generator = random.Random(seed)
    with hr.Graph().as_default() as graph, hr.device(lambda op: f"CPU:{generator.randrange(3)}"):
        x, y = (hr.placeholder(hr.float64, [WIDTH]) for _ in "xy")
        fetches = _derivatives(program(Reading(), x, y), x, y)
    check_graph_placed(graph, fetches, {x: values[0], y: values[1]}, what=f"program {seed}")
