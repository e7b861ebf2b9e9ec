"""NumPy kernels of the math family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel, register_ufunc
from headrace.types import Array, string

__all__ = ["check_divisor", "in_order", "ordered", "truncated_quotient", "zero_where"]

_INTEGERS = {"T": attr.integers.allowed or ()}
_COMPLEX = {"T": attr.complexes.allowed or ()}
BinaryFunction = Callable[..., Any]


def ordered(x: Any) -> Any:
    """x without gaps in memory, transposed or not.

    NumPy computes some functions by other instructions where elements are not neighbours, with another last digit; what
    a kernel gives must not depend on that.
    """
    return x if x.flags.forc else np.ascontiguousarray(x)


def in_order(ufunc: np.ufunc) -> BinaryFunction:
    """A universal function of one or two inputs, to be registered in its place, that takes them `ordered`."""

    def unary(x: Array, out: Any = None) -> Any:
        return ufunc(ordered(x), out)

    def binary(x: Array, y: Array, out: Any = None) -> Any:
        return ufunc(ordered(x), ordered(y), out)

    return unary if ufunc.nin == 1 else binary


for _name, _ufunc in {
    "AddV2": np.add,
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "RealDiv": np.divide,
    "Div": np.divide,
    "FloorMod": np.remainder,
    "TruncateMod": np.fmod,
    "Mod": np.fmod,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "Neg": np.negative,
    "Abs": np.absolute,
    "Sign": np.sign,
    "Square": np.square,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Rint": np.rint,
    "Round": np.rint,
    "IsNan": np.isnan,
    "IsInf": np.isinf,
    "IsFinite": np.isfinite,
}.items():
    register_ufunc(_name, _ufunc)


_power = in_order(np.power)


def _float_power(x: Any, y: Any, out: Any = None) -> Any:
    """A square is one multiplication, ten times as fast as a power and never less exact."""
    return np.square(x, out=out) if y.ndim == 0 and y == 2 else _power(x, y, out=out)


register_ufunc("Pow", _float_power)
register_ufunc("Pow", _power, dtypes=_COMPLEX)
for _name, _ufunc in {
    "Mul": np.multiply,
    "RealDiv": np.divide,
    "Div": np.divide,
    "Square": np.square,
    "Sign": np.sign,
}.items():
    register_ufunc(_name, in_order(_ufunc), dtypes=_COMPLEX)


@register_kernel("Add", dtypes={"T": [string]})
def _join(op: OpContext, x: Array, y: Array) -> Array:
    result = np.empty(np.broadcast_shapes(np.shape(x), np.shape(y)), object)
    result[...] = np.add(x, y)
    return result


@register_kernel("Round", dtypes=_INTEGERS, aliases=[0])
def _round_integer(op: OpContext, x: Array) -> Array:
    return x


def check_divisor(y: Array) -> None:
    """Integers have no infinity to give, and NumPy's answer, 0, would hide the mistake."""
    if not np.all(y):
        raise InvalidArgumentError(
            "division by zero",
            expected="integer divisors that are not 0",
            got="a divisor of 0",
            hint="replace the zeros with hr.where, or divide floats, which gives inf or NaN",
        )


def _integer_division(op_type: str, function: BinaryFunction) -> None:
    def kernel(op: OpContext, x: Array, y: Array, out: Any = None) -> Any:
        check_divisor(y)
        result: Any = function(x, y, out=out)
        return result

    register_kernel(op_type, dtypes=_INTEGERS, takes_out=True, in_place=True)(kernel)


def truncated_quotient(x: Any, y: Any, out: Any = None) -> Any:
    """x / y of integers rounded towards zero: one more than the floor where that is negative and not exact."""
    quotient = np.floor_divide(x, y)
    inexact = (np.remainder(x, y) != 0) & ((x < 0) != (y < 0))
    result: Any = np.add(quotient, inexact, out=out, dtype=np.asarray(x).dtype, casting="unsafe")
    return result


_integer_division("FloorDiv", np.floor_divide)
_integer_division("FloorMod", np.remainder)
_integer_division("TruncateMod", np.fmod)
_integer_division("Mod", np.fmod)
for _name in ("TruncateDiv", "Div", "RealDiv"):
    _integer_division(_name, truncated_quotient)


def _rounded_division(op_type: str, rounding: BinaryFunction) -> None:
    """NumPy's own floor_divide of floats goes by the remainder: 1 // 0.1 is 9 there, and 10 here as in TensorFlow."""

    def kernel(op: OpContext, x: Array, y: Array, out: Any = None) -> Any:
        quotient = np.divide(x, y, out=out)
        result: Any = rounding(quotient, out=out)
        return result

    register_kernel(op_type, takes_out=True, in_place=True)(kernel)


_rounded_division("FloorDiv", np.floor)
_rounded_division("TruncateDiv", np.trunc)


@register_kernel("Pow", dtypes=_INTEGERS, takes_out=True, in_place=True)
def _integer_power(op: OpContext, x: Array, y: Array, out: Any = None) -> Any:
    if np.any(np.less(y, 0)):
        raise InvalidArgumentError(
            "an integer cannot be raised to a negative integer power",
            expected="exponents >= 0",
            got=f"the exponent {int(np.min(y))}",
            hint="cast the base to a floating dtype",
        )
    return np.power(x, y, out=out)


@register_kernel("MulNoNan", takes_out=True, in_place=True)
def _mul_no_nan(op: OpContext, x: Array, y: Array, out: Any = None) -> Any:
    return zero_where(np.equal(y, 0), np.multiply, x, y, out)


@register_kernel("DivNoNan", takes_out=True, in_place=True)
def _div_no_nan(op: OpContext, x: Array, y: Array, out: Any = None) -> Any:
    return zero_where(np.equal(y, 0), np.divide, x, y, out)


def zero_where(zero: Array, function: BinaryFunction, x: Array, y: Array, out: Array | None) -> Array:
    """function(x, y), and 0 where `zero` is true; the mask is made by the caller, before `out` overwrites an input."""
    result = np.asarray(function(ordered(x), ordered(y), out=out))
    np.copyto(result, 0, where=zero)
    return result


@register_kernel("SquaredDifference", takes_out=True, in_place=True)
def _squared_difference(op: OpContext, x: Array, y: Array, out: Any = None) -> Any:
    difference = np.subtract(ordered(x), ordered(y), out=out)
    conjugate = np.conjugate(difference) if np.iscomplexobj(difference) else difference
    return np.multiply(difference, conjugate, out=out)


@register_kernel("AccumulateNV2", takes_out=True)
@register_kernel("AddN", takes_out=True)
def _add_n(op: OpContext, inputs: Sequence[Array], out: Any = None) -> Any:
    if len(inputs) == 1:
        return np.positive(inputs[0], out=out)
    total = np.add(inputs[0], inputs[1], out=out)
    for item in inputs[2:]:
        total = np.add(total, item, out=out)
    return total


@register_kernel("ClipByValue", takes_out=True)
def _clip(op: OpContext, t: Array, low: Array, high: Array, out: Any = None) -> Any:
    if np.broadcast_shapes(np.shape(t), np.shape(low), np.shape(high)) != np.shape(t):
        raise ShapeError(
            "the bounds do not fit the tensor they clip",
            expected=f"a scalar or a shape that broadcasts to {list(np.shape(t))}",
            got=f"{list(np.shape(low))} and {list(np.shape(high))}",
            hint="hr.minimum and hr.maximum broadcast both ways",
        )
    return np.maximum(np.minimum(t, high, out=out), low, out=out)
