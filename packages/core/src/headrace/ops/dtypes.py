"""Questions about element types: limits, kinds, promotion; and the conversion from one to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from headrace.errors import DTypeError, InvalidArgumentError, known_names
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.operation import Tensor
from headrace.ops.promotion import common_dtype
from headrace.types import DType, DTypeLike, as_dtype, complex64, complex128, float32, float64, promote_types

__all__ = ["FloatLimits", "IntegerLimits", "astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]


@dataclass(frozen=True, slots=True)
class FloatLimits:
    """The limits of a floating dtype.

    Attributes:
      bits: the size of a number.
      eps: the distance from 1 to the next larger number.
      max: the largest finite number.
      min: the lowest finite number.
      smallest_normal: the smallest positive number of full precision.
      dtype: the floating dtype; of a complex one that of its parts.
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class IntegerLimits:
    """The limits of an integer dtype.

    Attributes:
      bits: the size of a number.
      max: the largest number.
      min: the lowest number.
      dtype: the integer dtype.
    """

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: DTypeLike | Tensor) -> FloatLimits:
    """The limits of a floating or complex dtype.

    Args:
      type: a dtype, or a tensor that has it.
    Raises:
      DTypeError: it is not floating.

    Example:
      >>> import headrace as hr
      >>> hr.finfo(hr.float16).max
      65504.0
    """
    dtype = {complex64: float32, complex128: float64}.get(_dtype_of(type), _dtype_of(type))
    if not dtype.is_floating:
        raise DTypeError(
            "finfo describes floating dtypes", expected="a floating dtype", got=str(dtype), hint="hr.iinfo"
        )
    limits: Any = ml_dtypes.finfo(dtype.array_type)  # type: ignore[no-untyped-call]  # ml_dtypes has no stubs
    return FloatLimits(
        bits=int(limits.bits),
        eps=float(limits.eps),
        max=float(limits.max),
        min=float(limits.min),
        smallest_normal=float(limits.smallest_normal),
        dtype=dtype,
    )


def iinfo(type: DTypeLike | Tensor) -> IntegerLimits:
    """The limits of an integer dtype.

    Args:
      type: a dtype, or a tensor that has it.
    Raises:
      DTypeError: it is not an integer dtype.

    Example:
      >>> import headrace as hr
      >>> hr.iinfo(hr.int8).min
      -128
    """
    dtype = _dtype_of(type)
    if not dtype.is_integer:
        raise DTypeError("iinfo describes integer dtypes", expected="an integer dtype", got=str(dtype), hint="hr.finfo")
    limits = np.iinfo(dtype.array_type)
    return IntegerLimits(bits=int(limits.bits), max=int(limits.max), min=int(limits.min), dtype=dtype)


_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int",),
    "unsigned integer": ("uint",),
    "integral": ("int", "uint"),
    "real floating": ("float",),
    "complex floating": ("complex",),
    "numeric": ("int", "uint", "float", "complex"),
}


def isdtype(dtype: DTypeLike, kind: DTypeLike | tuple[DTypeLike, ...]) -> bool:
    """True if a dtype is of a kind.

    Args:
      dtype: the dtype.
      kind: a dtype, one of the words bool, signed integer, unsigned integer, integral, real floating, complex floating
        and numeric, or a tuple of these, of which one must fit.
    Raises:
      InvalidArgumentError: the kind is not known.

    Example:
      >>> import headrace as hr
      >>> hr.isdtype(hr.bfloat16, ("integral", "real floating"))
      True
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, item) for item in kind)
    if not isinstance(kind, str):
        return as_dtype(dtype) is as_dtype(kind)
    if kind not in _KINDS:
        raise InvalidArgumentError(
            f"there is no kind '{kind}' of dtypes",
            expected=known_names(kind, _KINDS),
            got=kind,
            hint="use a tuple for several kinds, or a dtype such as hr.float32 to compare dtypes",
        )
    return as_dtype(dtype).kind in _KINDS[kind]


def can_cast(from_: DTypeLike | Tensor, to: DTypeLike) -> bool:
    """True if promotion may take a dtype to another: `to` is where the two meet.

    Args:
      from_: a dtype, or a tensor that has it.
      to: the dtype to reach.

    Example:
      >>> import headrace as hr
      >>> hr.can_cast(hr.int8, hr.int16), hr.can_cast(hr.int16, hr.int8)
      (True, False)
    """
    target = as_dtype(to)
    try:
        return promote_types(_dtype_of(from_), target) is target
    except DTypeError:
        return False


def result_type(*operands: TensorLike) -> DType:
    """The dtype in which operands meet, as in `hr.add`.

    Args:
      *operands: dtypes, tensors, arrays and Python numbers; the last are weak: they take the dtype beside them.
    Raises:
      DTypeError: there is none, or `hr.config(strict_promotion=True)` forbids it.

    Example:
      >>> import headrace as hr
      >>> hr.result_type(hr.int8, hr.uint8, 5)
      hr.int16
    """
    return common_dtype(
        [_Typed(as_dtype(item)) if isinstance(item, (DType, np.dtype, type)) else item for item in operands]
    )


@dataclass(frozen=True, slots=True)
class _Typed:
    """Stands for an operand of a dtype in promotion."""

    dtype: DType


def _dtype_of(given: Any) -> DType:
    typed = hasattr(given, "dtype") and not isinstance(given, type)  # NumPy's scalar classes have the attribute too
    return as_dtype(given.dtype if typed else given)


def astype(x: TensorLike, dtype: DTypeLike, *, copy: bool = True, name: str | None = None) -> Tensor:
    """`x` with elements of another type.

    Floats become integers by truncation towards zero. What does not fit has one defined value on every backend: int32
    and int64 take their lowest value for NaN, infinities and numbers beyond their range; int8, int16, uint8 and uint16
    keep the low bits of the int32 result, uint32 and uint64 those of the int64 result (uint64 converts up to 2**64
    exactly). Anything but zero is true.

    Args:
      x: numeric or bool, any shape.
      dtype: the new element type.
      copy: makes no difference: a tensor is a value, which nothing can change.
      name: the operation's name.
    Returns:
      The same shape; `x` itself if it has the dtype.
    Raises:
      DTypeError: complex numbers would lose their imaginary part.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.astype([1.7, -1.7], hr.int32)
      >>> print(hr.Session(graph).run(y))
      [ 1 -1]
    """
    tensor, wanted = convert_to_tensor(x), as_dtype(dtype)
    if tensor.dtype is wanted:
        return tensor
    if tensor.dtype.is_complex and not (wanted.is_complex or wanted.kind == "bool"):
        raise DTypeError(
            "complex numbers have no order of real ones",
            where=tensor.op.location,
            expected="a complex dtype or bool",
            got=f"{tensor.dtype} to {wanted}",
            hint="hr.real, hr.imag or hr.abs",
        )
    result: Tensor = apply_op("Cast", tensor, DstT=wanted, name=name)
    return result
