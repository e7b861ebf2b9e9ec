"""NumPy kernels of the elementary family; error and gamma functions are computed in `kernels/special.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.graph import attr
from headrace.interfaces import OpContext
from headrace.kernels.accumulation import in_blocks
from headrace.kernels.math import check_divisor, in_order, ordered, truncated_quotient, zero_where
from headrace.kernels.registry import register_kernel, register_ufunc
from headrace.types import Array

_INTEGERS = {"T": attr.integers.allowed or ()}

for _name, _ufunc in {
    "Sqrt": np.sqrt,
    "Exp": np.exp,
    "Expm1": np.expm1,
    "Log": np.log,
    "Log1p": np.log1p,
    "Sin": np.sin,
    "Cos": np.cos,
    "Tan": np.tan,
    "Asin": np.arcsin,
    "Acos": np.arccos,
    "Atan": np.arctan,
    "Sinh": np.sinh,
    "Cosh": np.cosh,
    "Tanh": np.tanh,
    "Asinh": np.arcsinh,
    "Acosh": np.arccosh,
    "Atanh": np.arctanh,
    "Atan2": np.arctan2,
}.items():
    register_ufunc(_name, in_order(_ufunc))


def _like(x: Array, number: float) -> Any:
    """A number of x's own dtype: bfloat16 would be lifted to float32 by a Python float."""
    return np.asarray(x).dtype.type(number)


@register_kernel("Reciprocal", takes_out=True, in_place=True)
@register_kernel("Inv", takes_out=True, in_place=True)
def _reciprocal(op: OpContext, x: Array, out: Any = None) -> Any:
    return np.divide(_like(x, 1), ordered(x), out=out)


@register_kernel("Reciprocal", dtypes=_INTEGERS, takes_out=True, in_place=True)
@register_kernel("Inv", dtypes=_INTEGERS, takes_out=True, in_place=True)
def _integer_reciprocal(op: OpContext, x: Array, out: Any = None) -> Any:
    check_divisor(x)
    return truncated_quotient(np.ones_like(x), x, out)


@register_kernel("Rsqrt", takes_out=True, in_place=True)
def _rsqrt(op: OpContext, x: Array, out: Any = None) -> Any:
    root = np.sqrt(ordered(x), out=out)
    return np.divide(_like(x, 1), root, out=out)


@register_kernel("Sigmoid", takes_out=True)
def _sigmoid(op: OpContext, x: Array, out: Any = None) -> Any:
    if np.iscomplexobj(x):
        x, one = ordered(x), _like(x, 1)
        return np.divide(one, one + np.exp(np.negative(x)), out=out)
    return in_blocks(_bounded_sigmoid, x.dtype, out, np.asarray(x))


def _bounded_sigmoid(x: Array) -> Array:
    """exp is taken of -|x| only, so nothing overflows: 1 / (1 + e) where x >= 0, e / (1 + e) elsewhere."""
    one = _like(x, 1)
    decay = np.exp(np.negative(np.absolute(x)))
    return np.asarray(np.divide(np.where(np.less(x, 0), decay, one), one + decay))


@register_kernel("Xlogy", takes_out=True)
def _xlogy(op: OpContext, x: Array, y: Array, out: Any = None) -> Any:
    return zero_where(np.equal(x, 0), np.multiply, x, np.log(ordered(y)), out)


@register_kernel("Xdivy", takes_out=True, in_place=True)
def _xdivy(op: OpContext, x: Array, y: Array, out: Any = None) -> Any:
    return zero_where(np.equal(x, 0), np.divide, x, y, out)


@register_kernel("TanhGrad", takes_out=True)
def _tanh_grad(op: OpContext, y: Array, dy: Array, out: Any = None) -> Any:
    """dy * (1 - y * y), each step into the output, so that it needs no other memory; so do those below."""
    y, dy = ordered(y), ordered(dy)
    slope = np.subtract(_like(y, 1), np.multiply(y, y, out=out), out=out)
    return np.multiply(dy, slope, out=out)


@register_kernel("SigmoidGrad", takes_out=True)
def _sigmoid_grad(op: OpContext, y: Array, dy: Array, out: Any = None) -> Any:
    y, dy = ordered(y), ordered(dy)
    slope = np.multiply(np.subtract(_like(y, 1), y, out=out), y, out=out)
    return np.multiply(dy, slope, out=out)


def _slope_inputs(y: Array, dy: Array) -> tuple[Any, Any]:
    """In TensorFlow these operations take the conjugate of y themselves, whereas TanhGrad and SigmoidGrad get it so."""
    return np.conjugate(ordered(y)) if np.iscomplexobj(y) else y, ordered(dy)


@register_kernel("SqrtGrad", takes_out=True)
def _sqrt_grad(op: OpContext, y: Array, dy: Array, out: Any = None) -> Any:
    y, dy = _slope_inputs(y, dy)
    return np.divide(np.multiply(dy, _like(y, 0.5), out=out), y, out=out)


@register_kernel("RsqrtGrad", takes_out=True)
def _rsqrt_grad(op: OpContext, y: Array, dy: Array, out: Any = None) -> Any:
    y, dy = _slope_inputs(y, dy)
    slope = np.multiply(np.multiply(y, y, out=out), y, out=out)
    return np.multiply(np.multiply(dy, slope, out=out), _like(y, -0.5), out=out)


@register_kernel("ReciprocalGrad", takes_out=True)
@register_kernel("InvGrad", takes_out=True)
def _reciprocal_grad(op: OpContext, y: Array, dy: Array, out: Any = None) -> Any:
    y, dy = _slope_inputs(y, dy)
    return np.multiply(np.negative(np.multiply(y, y, out=out), out=out), dy, out=out)
