"""What is known of a tensor's value while the graph is built."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.graph.shape_value import constant_value, constant_value_as_shape


@pytest.fixture(autouse=True)
def graph():
    graph = hr.Graph()
    with graph.as_default():
        yield graph


def _x() -> hr.Tensor:
    return hr.placeholder(hr.float32, [None, 3, 4])


def test_constants_are_known_whatever_their_dtype() -> None:
    assert constant_value(hr.constant([1.5, 2.5])).tolist() == [1.5, 2.5]
    assert constant_value(_x()) is None
    assert constant_value_as_shape(hr.placeholder(hr.int32, [2])) == [None, None]
    assert constant_value_as_shape(hr.placeholder(hr.int32, [None])) == hr.Shape()


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda: hr.shape(_x()), [None, 3, 4]),
        (lambda: hr.shape(_x())[1:], [3, 4]),
        (lambda: hr.shape(_x())[::-1], [4, 3, None]),
        (lambda: hr.stack([hr.shape(_x())[0], 7]), [None, 7]),
        (lambda: hr.concat([hr.shape(_x())[1:], [5]], axis=0), [3, 4, 5]),
        (lambda: hr.shape(_x()) * 2, [None, 6, 8]),
        (lambda: hr.add(hr.shape(_x()), [1, 2, 3]), [None, 5, 7]),
        (lambda: hr.shape(_x()) // 2, [None, 1, 2]),
        (lambda: hr.gather(hr.shape(_x()), [2, 1]), [4, 3]),
        (lambda: hr.expand_dims(hr.rank(_x()), 0), [3]),
        (lambda: hr.astype(hr.shape(_x()), hr.int64), [None, 3, 4]),
        (lambda: hr.reshape(hr.shape(_x())[1], [1]), [3]),
        (lambda: hr.maximum(hr.shape(_x()), 4), [None, 4, 4]),
        (lambda: hr.identity(hr.constant([-1, 2])), [None, 2]),
    ],
)
def test_shapes_computed_from_shapes_are_known_in_part(build, expected: list[int | None]) -> None:
    assert constant_value_as_shape(build()) == expected


def test_product_of_a_known_shape_is_known() -> None:
    assert constant_value(hr.prod(hr.shape(hr.placeholder(hr.float32, [3, 4])))).item() == 12


def test_long_chains_are_not_followed_to_the_end() -> None:
    x = hr.shape(_x())
    for _ in range(1000):
        x = x + 1
    assert constant_value_as_shape(x) == [None, None, None]


def test_values_that_come_out_have_the_tensors_dtype() -> None:
    assert constant_value(hr.shape(hr.constant(np.zeros((2, 3))), dtype=hr.int64)).dtype == np.int64


def test_a_value_used_twice_at_each_of_many_steps_is_asked_for_once() -> None:
    """Asked for at each use, 60 doublings would take 2**24 visits."""
    size = hr.shape(_x())[1]
    for _ in range(20):
        size = size + size
    known = hr.reshape(_x(), [size, -1])
    for _ in range(40):
        size = hr.maximum(size + size, size)
    assert known.shape == [3 << 20, None]
    assert hr.reshape(_x(), [size, -1]).shape == [None, None]


def test_arithmetic_that_leaves_the_dtype_is_not_foretold() -> None:
    """What int32 wraps around must not become the size that exact arithmetic gives."""
    size = hr.constant(2**30)
    doubled = size + size
    assert constant_value(doubled) is None
    assert hr.reshape(hr.placeholder(hr.float32, [None]), hr.stack([doubled * 2, -1])).shape == [None, None]
