"""Gradients of Einstein sums whose ellipsis is summed over and broadcast."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_gradient

EQUATIONS = [
    ("...i,...i->i", (3, 2), (1, 2)),
    ("...i,...i->i", (1, 2), (3, 2)),
    ("...i,...i->i", (3, 1, 2), (4, 2)),
    ("...i,...i->i", (3, 2), (2,)),
    ("...ij,...jk->ik", (3, 2, 2), (1, 2, 4)),
    ("i...,...i->i", (2, 3, 1), (1, 4, 2)),
]


@pytest.mark.parametrize(("equation", "left", "right"), EQUATIONS)
def test_an_ellipsis_that_is_summed_over_may_be_broadcast(
    equation: str, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    check_gradient(lambda xs: [hr.einsum(equation, *xs)], [rng.normal(size=left), rng.normal(size=right)])


def test_so_it_may_where_shapes_are_not_known() -> None:
    a, b = np.arange(6.0).reshape(3, 2), np.array([[1.0, 10.0]])
    with hr.Graph().as_default() as graph:
        x, y = hr.placeholder(hr.float64, [None, None]), hr.placeholder(hr.float64, [None, None])
        total = hr.einsum("...i,...i->i", x, y)
        slopes = hr.gradients(total, [x, y])
    value, (dx, dy) = hr.Session(graph).run((total, slopes), feeds={x: a, y: b})
    np.testing.assert_array_equal(value, (a * b).sum(axis=0))
    np.testing.assert_array_equal(dx, np.broadcast_to(b, (3, 2)))
    np.testing.assert_array_equal(dy, a.sum(axis=0, keepdims=True))
