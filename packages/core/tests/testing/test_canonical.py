"""The canonical form tells graphs apart by what they compute and in which order, and by nothing else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import headrace as hr
from headrace.passes.prune import prune
from headrace.testing.canonical import canonical_form


def _form(build: Callable[[hr.Tensor, hr.Tensor], hr.Tensor]) -> str:
    with hr.Graph().as_default() as graph:
        x, y = hr.placeholder(hr.float32, [2], name="x"), hr.placeholder(hr.float32, [2], name="y")
        result = build(x, y)
    return canonical_form(prune(graph, [result], [], [x, y]))


def _loop(x: hr.Tensor, y: hr.Tensor, **options: bool) -> hr.Tensor:
    result: hr.Tensor = hr.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s * y), (0, x), **options)[1]
    return result


def _effects(x: hr.Tensor, y: hr.Tensor, *, ordered: bool = True) -> hr.Tensor:
    variable = hr.Variable(np.zeros(2, np.float32), name="v")
    with hr.control_dependencies([variable.assign(x)] if ordered else []):
        return variable.read() + y


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda x, y: x + y * 2.0, lambda x, y: hr.add(x, hr.identity(hr.multiply(y, 2.0, name="m")), name="n")),
        (lambda x, y: (x * x) - (y * y), lambda x, y: _late(x, y)),
        (
            lambda x, y: hr.cond(hr.all(x > 0), lambda: x + y, lambda: y),
            lambda x, y: hr.cond(hr.all(x > 0), lambda: hr.identity(x) + y, lambda: hr.identity(y), name="other"),
        ),
        (
            lambda x, y: hr.switch_case(1, [lambda: x, lambda: y, lambda: x + y]),
            lambda x, y: hr.cond(hr.equal(1, 0), lambda: x, lambda: hr.cond(hr.equal(1, 1), lambda: y, lambda: x + y)),
        ),
        (_loop, lambda x, y: hr.while_loop(lambda s, i: i < 3, lambda s, i: (s * y, i + 1), (x, 0))[0]),
    ],
    ids=["names and identities", "order of creation", "branches", "choice", "order of loop variables"],
)
def test_what_is_the_same_has_one_form(
    one: Callable[[hr.Tensor, hr.Tensor], hr.Tensor], other: Callable[[hr.Tensor, hr.Tensor], hr.Tensor]
) -> None:
    assert _form(one) == _form(other)


def _late(x: hr.Tensor, y: hr.Tensor) -> hr.Tensor:
    second = y * y
    return (x * x) - second


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda x, y: x - y, lambda x, y: y - x),
        (lambda x, y: x + 1.0, lambda x, y: x + 2.0),
        (lambda x, y: hr.sum(x), lambda x, y: hr.sum(x, keepdims=True)),
        (lambda x, y: (x * x) + (x * x), lambda x, y: (lambda s: s + s)(x * x)),
        (
            lambda x, y: hr.cond(hr.all(x > 0), lambda: x, lambda: y),
            lambda x, y: hr.cond(hr.all(x > 0), lambda: y, lambda: x),
        ),
        (
            lambda x, y: hr.cond(hr.all(x > 0), lambda: x * y, lambda: y),
            lambda x, y: (lambda product: hr.cond(hr.all(x > 0), lambda: product, lambda: y))(x * y),
        ),
        (_loop, lambda x, y: _loop(y, x)),
        (_loop, lambda x, y: _loop(x, y, recompute=True)),
        (_effects, lambda x, y: _effects(x, y, ordered=False)),
    ],
    ids=["inputs", "constants", "attributes", "sharing", "branches", "place", "variables", "options", "waiting"],
)
def test_what_differs_in_one_place_has_another_form(
    one: Callable[[hr.Tensor, hr.Tensor], hr.Tensor], other: Callable[[hr.Tensor, hr.Tensor], hr.Tensor]
) -> None:
    assert _form(one) != _form(other)
