"""Gradients whose values are a rule of ours (ties, zeros), unknown shapes, complex numbers and second derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_gradient


def gradient_of(function: Callable[..., Any], *points: Any, dtype: hr.DType = hr.float64) -> Any:
    """The gradients of a function of constants."""
    graph = hr.Graph()
    with graph.as_default():
        inputs = [hr.constant(point, dtype) for point in points]
        found = hr.gradients(function(*inputs), inputs)
    return hr.Session(graph).run(found)


@pytest.mark.parametrize("second", [1.0, 3.0])
def test_g05_maximum_gives_ties_to_its_first_input(second: float) -> None:
    expected = (1.0, 0.0) if second == 1.0 else (0.0, 1.0)
    assert gradient_of(hr.maximum, 1.0, second) == list(expected)


def test_minimum_gives_ties_to_its_first_input() -> None:
    assert gradient_of(hr.minimum, 1.0, 1.0) == [1.0, 0.0]


def test_a_clipped_bound_gets_the_gradient_of_what_it_replaced() -> None:
    x, low, high = gradient_of(lambda x, a, b: hr.sum(hr.clip(x, a, b)), [-2.0, 0.5, 3.0, 4.0], 0.0, 1.0)
    np.testing.assert_array_equal(x, [0, 1, 0, 0])
    assert (low, high) == (1.0, 2.0)


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0])
def test_powers_of_zero_have_finite_slopes(exponent: float) -> None:
    x, y = gradient_of(hr.pow, 0.0, exponent)
    assert x == {0.0: 0.0, 1.0: 1.0, 2.0: 0.0}[exponent]
    assert y == 0.0


def test_slope_of_a_power_with_a_changing_exponent_is_zero_at_exponent_zero() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x, y = hr.constant(0.0, hr.float64), hr.placeholder(hr.float64, [])
        found = hr.gradients(hr.pow(x, y), [x])
    assert hr.Session(graph).run(found, feeds={y: np.float64(0)}) == [0.0]


def test_safe_division_has_no_nan_in_its_gradient() -> None:
    x, y = gradient_of(lambda x, y: hr.sum(hr.divide_no_nan(x, y)), [1.0, 6.0], [0.0, 2.0])
    np.testing.assert_array_equal(x, [0, 0.5])
    np.testing.assert_array_equal(y, [0, -1.5])


def test_where_masks_the_gradient_of_the_unused_side() -> None:
    (x,) = gradient_of(lambda x: hr.sum(hr.where(x > 0, hr.log(hr.where(x > 0, x, 1.0)), 0.0)), [0.0, 2.0])
    np.testing.assert_array_equal(x, [0, 0.5])


def test_slope_of_abs_at_zero_is_zero() -> None:
    assert gradient_of(hr.abs, 0.0) == [0.0]


def test_steps_stop_the_gradient_with_a_reason() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.constant(1.5)
        y = hr.floor(x)
        assert hr.gradients(y, [x]) == [None]
        assert "derivative is zero" in hr.explain_gradient(y, x)


SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 3), (3,)),
    ((3,), (2, 3)),
    ((2, 1), (1, 3)),
    ((2, 1, 3), (4, 1)),
    ((), (2, 2)),
    ((1,), (1, 1)),
    ((2, 3), (2, 3)),
    ((0, 3), (3,)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES)
@pytest.mark.parametrize("known", ["ranks", "nothing", "first axis unknown"])
def test_gradients_of_broadcast_operands_do_not_need_static_shapes(left: Any, right: Any, known: str) -> None:
    def declared(shape: tuple[int, ...]) -> hr.Shape:
        if known == "nothing":
            return hr.Shape()
        return hr.Shape([None] * len(shape) if known == "ranks" else [None, *shape[1:]][: len(shape)])

    graph = hr.Graph()
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=left), rng.normal(size=right)
    with graph.as_default():
        x, y = hr.placeholder(hr.float64, declared(left)), hr.placeholder(hr.float64, declared(right))
        found = hr.gradients(x * y, [x, y])
    dx, dy = hr.Session(graph).run(found, feeds={x: a, y: b})
    shape = np.broadcast_shapes(left, right)
    np.testing.assert_allclose(dx, summed_to(np.broadcast_to(b, shape), left), rtol=1e-12)
    np.testing.assert_allclose(dy, summed_to(np.broadcast_to(a, shape), right), rtol=1e-12)


def summed_to(values: Any, shape: tuple[int, ...]) -> Any:
    """Sum over the axes along which an array of `shape` is repeated."""
    missing = values.ndim - len(shape)
    total = values.sum(tuple(range(missing)))
    return total.sum(tuple(axis for axis, size in enumerate(shape) if size == 1), keepdims=True).reshape(shape)


def test_a_bias_gradient_is_one_sum() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x, bias = hr.placeholder(hr.float32, [None, 10]), hr.placeholder(hr.float32, [10])
        before = len(graph.operations)
        hr.gradients(x + bias, [bias])
    added = [op.type for op in graph.operations[before:]]
    assert "BroadcastGradientArgs" not in added
    assert added.count("Sum") == 1


def test_g09_second_derivative_of_sigmoid() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.constant(0.5, hr.float64)
        (first,) = hr.gradients(hr.sigmoid(x), [x])
        (second,) = hr.gradients(first, [x])
    assert hr.Session(graph).run(second) == pytest.approx(-0.0575568, abs=1e-7)


COMPLEX_UNARY = [
    *("Neg", "Square", "Sqrt", "Rsqrt", "Reciprocal", "Inv", "Exp", "Expm1", "Log", "Log1p", "Sin", "Cos", "Tan"),
    *("Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Tanh", "Sigmoid", "Conj"),
]
COMPLEX_BINARY = [
    "AddV2",
    "Sub",
    "Mul",
    "RealDiv",
    "Pow",
    "SquaredDifference",
    "MulNoNan",
    "DivNoNan",
    "Xlogy",
    "Xdivy",
]
PARTS = [[0.3, 0.7], [0.4, -0.6], [0.9, 1.2], [0.5, -0.8]]


def in_parts(op_type: str) -> Callable[[Sequence[hr.Tensor]], Sequence[hr.Tensor]]:
    """The operation as a function of real and imaginary parts, whose derivatives central differences can check."""

    def build(parts: Sequence[hr.Tensor]) -> Sequence[hr.Tensor]:
        inputs = [hr.complex(parts[index], parts[index + 1]) for index in range(0, len(parts), 2)]
        result = hr.apply_op(op_type, *inputs)
        return [hr.real(result), hr.imag(result)] if result.dtype.is_complex else [result]

    return build


@pytest.mark.parametrize("op_type", COMPLEX_UNARY)
def test_complex_gradients_of_one_input(op_type: str) -> None:
    check_gradient(in_parts(op_type), PARTS[:2])


@pytest.mark.parametrize("op_type", COMPLEX_BINARY)
def test_complex_gradients_of_two_inputs(op_type: str) -> None:
    check_gradient(in_parts(op_type), PARTS)


@pytest.mark.parametrize("op_type", ["ComplexAbs", "Angle"])
def test_complex_gradients_of_parts(op_type: str) -> None:
    def build(parts: Sequence[hr.Tensor]) -> Sequence[hr.Tensor]:
        return [hr.apply_op(op_type, hr.complex(parts[0], parts[1]), Tout=hr.float64)]

    check_gradient(build, PARTS[:2])


@pytest.mark.parametrize("op_type", ["ComplexAbs", "Angle"])
def test_complex_zero_has_gradient_zero(op_type: str) -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.constant([0j], hr.complex128)
        found = hr.gradients(hr.apply_op(op_type, x, Tout=hr.float64), [x])
    assert hr.Session(graph).run(found)[0] == [0]
