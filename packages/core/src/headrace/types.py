"""Element types, shapes and promotion: the vocabulary that every other module speaks.

They stand in one module, long as it is, because each package imports its vocabulary from one place, and promotion is a
table over the element types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from headrace.errors import DTypeError, InvalidArgumentError, ShapeError

__all__ = [
    "Array",
    "DType",
    "DTypeLike",
    "Scalar",
    "Shape",
    "ShapeLike",
    "TensorSpec",
    "as_dtype",
    "as_shape",
    "bfloat16",
    "bool",
    "broadcast_shapes",
    "complex64",
    "complex128",
    "dtype_of_number",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "promote_types",
    "promote_with_scalar",
    "qint8",
    "qint16",
    "qint32",
    "quint8",
    "quint16",
    "resource",
    "string",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "variant",
]

_bool = bool  # the builtin; this module defines the dtype of the same name below

Array = NDArray[Any]
"""A concrete value: a NumPy array of any element type (strings are object arrays of `bytes`)."""

Scalar = _bool | int | float | complex
"""A Python number: weakly typed, it takes the dtype of the tensor it meets."""


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type. One object per type, compared by identity.

    Attributes:
      name: the NumPy-style name, e.g. `"float32"`.
      number: TensorFlow's number of the type in `DataType`, used in every file and wire format.
      kind: one of bool, uint, int, float, complex, quantized, string, resource, variant, opaque.
      numpy: the NumPy dtype that holds values; object for strings, handles and variants; None for opaque types,
        which pass through graphs untouched but cannot be computed with.
    """

    name: str
    number: int
    kind: str
    numpy: np.dtype[Any] | None

    @property
    def size(self) -> int:
        """Bytes of one element; 0 where elements have no fixed size."""
        return 0 if self.numpy is None or self.numpy.kind == "O" else self.numpy.itemsize

    @property
    def is_floating(self) -> _bool:
        """True for the float types, bfloat16 included."""
        return self.kind == "float"

    @property
    def is_complex(self) -> _bool:
        """True for complex64 and complex128."""
        return self.kind == "complex"

    @property
    def is_integer(self) -> _bool:
        """True for signed and unsigned integers, not for bool."""
        return self.kind in ("int", "uint")

    @property
    def is_differentiable(self) -> _bool:
        """True where a derivative with respect to such a value makes sense."""
        return self.kind in ("float", "complex")

    @property
    def array_type(self) -> np.dtype[Any]:
        """The NumPy dtype of values; raises DTypeError for opaque types."""
        if self.numpy is None:
            raise DTypeError(
                f"dtype {self.name} has no values in this program",
                expected="a dtype with a NumPy array type",
                got=f"hr.{self.name}",
                hint="cast it where it is produced",
            )
        return self.numpy

    def __repr__(self) -> str:
        return f"hr.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return as_dtype, (self.name,)


def _numpy_dtype(kind: type) -> np.dtype[Any]:
    return np.dtype(kind)


float32 = DType("float32", 1, "float", _numpy_dtype(np.float32))
float64 = DType("float64", 2, "float", _numpy_dtype(np.float64))
int32 = DType("int32", 3, "int", _numpy_dtype(np.int32))
uint8 = DType("uint8", 4, "uint", _numpy_dtype(np.uint8))
int16 = DType("int16", 5, "int", _numpy_dtype(np.int16))
int8 = DType("int8", 6, "int", _numpy_dtype(np.int8))
string = DType("string", 7, "string", _numpy_dtype(object))
complex64 = DType("complex64", 8, "complex", _numpy_dtype(np.complex64))
int64 = DType("int64", 9, "int", _numpy_dtype(np.int64))
bool = DType("bool", 10, "bool", _numpy_dtype(np.bool_))
bfloat16 = DType("bfloat16", 14, "float", _numpy_dtype(ml_dtypes.bfloat16))
uint16 = DType("uint16", 17, "uint", _numpy_dtype(np.uint16))
complex128 = DType("complex128", 18, "complex", _numpy_dtype(np.complex128))
float16 = DType("float16", 19, "float", _numpy_dtype(np.float16))
resource = DType("resource", 20, "resource", _numpy_dtype(object))
variant = DType("variant", 21, "variant", _numpy_dtype(object))
uint32 = DType("uint32", 22, "uint", _numpy_dtype(np.uint32))
uint64 = DType("uint64", 23, "uint", _numpy_dtype(np.uint64))

# Integers that stand for real numbers in a range, which operations carry beside them. A field in the NumPy dtype keeps
# them apart from plain integers; `array.view` sees the integers themselves.
qint8 = DType("qint8", 11, "quantized", np.dtype([("qint8", np.int8)]))
quint8 = DType("quint8", 12, "quantized", np.dtype([("quint8", np.uint8)]))
qint32 = DType("qint32", 13, "quantized", np.dtype([("qint32", np.int32)]))
qint16 = DType("qint16", 15, "quantized", np.dtype([("qint16", np.int16)]))
quint16 = DType("quint16", 16, "quantized", np.dtype([("quint16", np.uint16)]))
QUANTIZED = (qint8, quint8, qint32, qint16, quint16)

# Types of TensorFlow that pass through graph files unchanged. `invalid` is the dtype of an unknown operation's output.
_OPAQUE = {
    "invalid": 0, "float8_e5m2": 24,
    "float8_e4m3fn": 25, "float8_e4m3fnuz": 26, "float8_e4m3b11fnuz": 27, "float8_e5m2fnuz": 28, "int4": 29,
    "uint4": 30, "int2": 31, "uint2": 32,
}  # fmt: skip

COMPUTABLE = (
    bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64, complex64,
    complex128,
)  # fmt: skip
_ALL = (
    *COMPUTABLE,
    *QUANTIZED,
    string,
    resource,
    variant,
    *(DType(name, number, "opaque", None) for name, number in _OPAQUE.items()),
)
_BY_NAME = {dtype.name: dtype for dtype in _ALL} | {"half": float16, "double": float64, "float": float32}
_BY_NUMBER = {dtype.number: dtype for dtype in _ALL}
_BY_NUMPY: dict[np.dtype[Any], DType] = {dtype.array_type: dtype for dtype in (*COMPUTABLE, *QUANTIZED)}
_BY_PYTHON: dict[type, DType] = {
    _bool: bool, int: int32, float: float32, complex: complex64, str: string, bytes: string,
}  # fmt: skip

REFERENCE_OFFSET = 100
"""TensorFlow 1 marks a reference to a buffer of type t by the number t + 100."""

DTypeLike = DType | np.dtype[Any] | type | str | int


def as_dtype(value: DTypeLike) -> DType:
    """Convert a NumPy dtype, Python type, name or `DataType` number to a `DType`.

    Raises:
      DTypeError: nothing of that name is known.

    Example:
      >>> import headrace as hr, numpy as np
      >>> hr.as_dtype(np.float32) is hr.float32
      True
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, int) and not isinstance(value, _bool):
        number = value - REFERENCE_OFFSET if value > REFERENCE_OFFSET else value
        found = _BY_NUMBER.get(number)
    elif isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    elif isinstance(value, type) and value in _BY_PYTHON:
        return _BY_PYTHON[value]
    else:
        found = _numpy_to_dtype(value)
    if found is None:
        names = ", ".join(name for name in _BY_NAME if name not in _OPAQUE)
        raise DTypeError(
            f"no dtype is known as {value!r}",
            expected=f"one of: {names}",
            got=repr(value),
            hint="give the dtype itself, e.g. hr.float32, or np.asarray(value).dtype of a value",
        )
    return found


def _numpy_to_dtype(value: object) -> DType | None:
    if value is None:  # NumPy would take it for float64
        return None
    try:
        converted = np.dtype(value)  # type: ignore[call-overload]  # any object may be asked
    except (TypeError, ValueError):  # the latter of objects with an attribute `dtype`, such as tensors
        return None
    if converted.kind in "SUO":
        return string
    return _BY_NUMPY.get(converted.newbyteorder("="))


class Shape:
    """A static shape: unknown rank, or a tuple of dimensions of which each is a size or None where unknown.

    Immutable and hashable. Two shapes are equal if they state exactly the same.

    Args:
      dims: None for unknown rank, or a sequence of sizes; -1 and None mean an unknown size.

    Example:
      >>> import headrace as hr
      >>> hr.Shape([None, 3]).is_compatible_with(hr.Shape([7, 3]))
      True
    """

    __slots__ = ("_dims",)

    def __init__(self, dims: Iterable[SupportsIndex | None] | None = None) -> None:
        self._dims: tuple[int | None, ...] | None = None if dims is None else tuple(_dimension(size) for size in dims)

    @property
    def dims(self) -> tuple[int | None, ...] | None:
        """The dimensions, or None if the rank is unknown."""
        return self._dims

    @property
    def rank(self) -> int | None:
        """The number of dimensions, or None."""
        return None if self._dims is None else len(self._dims)

    @property
    def is_fully_defined(self) -> _bool:
        """True if every size is known."""
        return self._dims is not None and None not in self._dims

    @property
    def num_elements(self) -> int | None:
        """The number of elements, or None if it is not known."""
        if self._dims is None:
            return None
        total = 1
        for size in self._dims:
            if size is None:
                return None
            total *= size
        return total

    def as_tuple(self) -> tuple[int, ...]:
        """The sizes as plain integers; raises ShapeError unless fully defined."""
        if self._dims is None or None in self._dims:
            raise self._not_known()
        return self._dims  # type: ignore[return-value]  # without None, as looked at above

    def _not_known(self) -> ShapeError:
        return ShapeError(
            "the shape is not known yet",
            expected="a fully defined shape",
            got=str(self),
            hint="take hr.shape(x), which the step computes, or declare every size of the placeholder",
        )

    def merge(self, other: Shape) -> Shape:
        """The shape that states what either states; raises ShapeError if they contradict each other."""
        if self._dims is None:
            return other
        if other._dims is None:
            return self
        if not self.is_compatible_with(other):
            raise ShapeError(
                "two shapes contradict each other",
                expected=str(self),
                got=str(other),
                hint="correct the wrong one, or leave its sizes open with None",
            )
        return Shape(a if a is not None else b for a, b in zip(self._dims, other._dims, strict=True))

    def is_compatible_with(self, other: Shape) -> _bool:
        """True if some concrete shape satisfies both."""
        if self._dims is None or other._dims is None:
            return True
        if len(self._dims) != len(other._dims):
            return False
        return all(a is None or b is None or a == b for a, b in zip(self._dims, other._dims, strict=True))

    def relax(self, other: Shape) -> Shape:
        """The strongest statement that is true of both shapes."""
        if self._dims is None or other._dims is None or len(self._dims) != len(other._dims):
            return Shape()
        return Shape(a if a == b else None for a, b in zip(self._dims, other._dims, strict=True))

    def with_rank(self, rank: int) -> Shape:
        """This shape if its rank is `rank`, or all-unknown dimensions of that rank; raises ShapeError otherwise."""
        if self._dims is None:
            return Shape([None] * rank)
        if len(self._dims) != rank:
            raise ShapeError(
                "the rank is wrong",
                expected=f"rank {rank}",
                got=f"{self} of rank {len(self._dims)}",
                hint="hr.reshape it, or add or drop axes with hr.expand_dims and hr.squeeze",
            )
        return self

    def __iter__(self) -> Iterator[int | None]:
        if self._dims is None:
            raise ShapeError(
                "a shape of unknown rank has no dimensions to walk over",
                expected="a known rank",
                got=str(self),
                hint="test `shape.rank` first",
            )
        return iter(self._dims)

    def __len__(self) -> int:
        if self._dims is None:
            raise ShapeError(
                "a shape of unknown rank has no length",
                expected="a known rank",
                got=str(self),
                hint="test `shape.rank` first",
            )
        return len(self._dims)

    def __getitem__(self, index: int) -> int | None:
        """The size of one dimension; None where it or the rank is unknown."""
        return None if self._dims is None else self._dims[index]

    def __add__(self, other: Shape) -> Shape:
        """The dimensions of both, one after the other."""
        if self._dims is None or other._dims is None:
            return Shape()
        return Shape(self._dims + other._dims)

    def __eq__(self, other: object) -> _bool:
        if isinstance(other, Shape):
            return self._dims == other._dims
        if isinstance(other, (tuple, list)):
            return self._dims == tuple(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._dims)

    def __bool__(self) -> _bool:
        return True

    def __str__(self) -> str:
        if self._dims is None:
            return "<unknown>"
        return "[" + ", ".join("?" if size is None else str(size) for size in self._dims) + "]"

    def __repr__(self) -> str:
        return f"Shape({None if self._dims is None else list(self._dims)})"


ShapeLike = Shape | Iterable[SupportsIndex | None] | int | None

_MAX_DIMENSION = 2**63 - 1


def _dimension(size: SupportsIndex | None) -> int | None:
    if size is None:
        return None
    try:
        value = size.__index__()
    except AttributeError:
        raise ShapeError(
            "a dimension must be an integer or None",
            expected="int or None",
            got=repr(size),
            hint="int(size) for a number; a size inside a tensor is not known here, so give None",
        ) from None
    if value == -1:
        return None
    if value < 0 or value > _MAX_DIMENSION:
        raise ShapeError(
            "a dimension is out of range",
            expected="0 <= size < 2**63, or None",
            got=str(value),
            hint="give None for a size that only the step knows",
        )
    return value


def as_shape(value: ShapeLike) -> Shape:
    """Convert a list, tuple, integer or None (unknown rank) to a `Shape`."""
    if isinstance(value, Shape):
        return value
    if isinstance(value, (int, np.integer)):
        return Shape([int(value)])
    return Shape(value)


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """The static type of a value.

    Attributes:
      dtype: the element type.
      shape: the static shape.
    """

    dtype: DType
    shape: Shape

    def __str__(self) -> str:
        return f"{self.dtype}{self.shape}"


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape that the given ones broadcast to, by NumPy's rule; unknown sizes stay unknown.

    Raises:
      ShapeError: two known sizes differ and neither is 1.

    Example:
      >>> import headrace as hr
      >>> print(hr.broadcast_shapes(hr.Shape([None, 1]), hr.Shape([3])))
      [?, 3]
    """
    if any(shape.dims is None for shape in shapes):
        return Shape()
    all_dims = [shape.dims or () for shape in shapes]
    rank = max((len(dims) for dims in all_dims), default=0)
    columns = [[dims[axis - rank] if axis - rank >= -len(dims) else 1 for dims in all_dims] for axis in range(rank)]
    try:
        return Shape(_broadcast_sizes(sizes) for sizes in columns)
    except ValueError:
        raise ShapeError(
            "the shapes do not broadcast together",
            expected="equal sizes, or 1, from the last axis on",
            got=" and ".join(str(shape) for shape in shapes),
            hint="reshape one of them, or add an axis with hr.expand_dims",
        ) from None


def _broadcast_sizes(sizes: Sequence[int | None]) -> int | None:
    known = {size for size in sizes if size is not None and size != 1}
    if len(known) > 1:
        raise ValueError("sizes differ")
    if known:
        return known.pop()
    return None if None in sizes else 1


# Promotion. The table is that of the array API standard
# (https://data-apis.org/array-api/latest/API_specification/type_promotion.html), extended where the standard leaves the
# result open: bfloat16 meets float16 in float32; a floating or complex type wins over an integer or bool; an integer
# wins over bool. `hr.config(strict_promotion=True)` refuses the extensions.
_BITS = {8: 0, 16: 1, 32: 2, 64: 3}
_SIGNED = (int8, int16, int32, int64)
_KIND_ORDER = {"bool": 0, "uint": 1, "int": 1, "float": 2, "complex": 3}


def promote_types(a: DType, b: DType, *, strict: _bool = False) -> DType:
    """The dtype in which values of dtypes `a` and `b` meet.

    Args:
      a: one element type.
      b: the other.
      strict: refuse everything that the array API standard leaves undefined (kinds that differ).
    Raises:
      DTypeError: there is no such dtype (for instance uint64 with int64, or string with a number).
    Source: array API standard, section "Type Promotion Rules".

    Example:
      >>> import headrace as hr
      >>> hr.promote_types(hr.int8, hr.uint8)
      hr.int16
    """
    if a is b:
        return a
    kinds = (a.kind, b.kind)
    if any(kind not in _KIND_ORDER for kind in kinds) or (strict and _mixes_kinds(a, b)):
        raise _no_promotion(a, b)
    if a.is_integer and b.is_integer:
        return _promote_integers(a, b)
    if _KIND_ORDER[a.kind] != _KIND_ORDER[b.kind]:
        high, low = (a, b) if _KIND_ORDER[a.kind] > _KIND_ORDER[b.kind] else (b, a)
        if high is complex64 and low is float64:
            return complex128
        return high
    if a.is_complex:
        return complex128
    if {a, b} == {bfloat16, float16}:
        return float32
    return a if a.size > b.size else b


def _mixes_kinds(a: DType, b: DType) -> _bool:
    numeric = {"uint": "int", "complex": "float"}
    return numeric.get(a.kind, a.kind) != numeric.get(b.kind, b.kind)


def _promote_integers(a: DType, b: DType) -> DType:
    if a.kind == b.kind:
        return a if a.size > b.size else b
    unsigned, signed = (a, b) if a.kind == "uint" else (b, a)
    if signed.size > unsigned.size:
        return signed
    if unsigned is uint64:
        raise _no_promotion(a, b)
    return _SIGNED[_BITS[unsigned.size * 8] + 1]


def _no_promotion(a: DType, b: DType) -> DTypeError:
    return DTypeError(
        f"{a} and {b} have no common dtype",
        expected="two dtypes that the promotion table joins (docs/promotion.md)",
        got=f"{a} and {b}",
        hint=f"convert one of them first, for instance hr.astype(x, hr.{a.name if a.kind in _KIND_ORDER else b.name})",
    )


def dtype_of_number(value: Scalar) -> DType:
    """The dtype of a Python number where nothing else decides: bool, int32 or wider, float32, complex64."""
    if isinstance(value, int) and not isinstance(value, _bool) and not -(2**31) <= value < 2**31:
        return int64 if value < 2**63 else uint64
    return _BY_PYTHON[type(value)]


def promote_with_scalar(dtype: DType, value: Scalar) -> DType:
    """The dtype in which a tensor of `dtype` meets a Python number, which is weak: it adapts to the tensor's kind.

    A number of a higher kind lifts the tensor to the default dtype of that kind: int32 with 0.5 gives float32, float64
    with 1j gives complex128.

    Raises:
      DTypeError: `dtype` is not numeric.
      InvalidArgumentError: the integer does not fit the dtype.
    """
    if dtype.kind not in _KIND_ORDER:
        raise _no_promotion(dtype, dtype_of_number(value))
    number = dtype_of_number(value)
    if _KIND_ORDER[number.kind] <= _KIND_ORDER[dtype.kind]:
        if dtype.is_integer and isinstance(value, int):
            bounds = np.iinfo(dtype.array_type)
            if not bounds.min <= value <= bounds.max:
                raise InvalidArgumentError(
                    f"the number {value} does not fit {dtype}",
                    expected=f"{bounds.min} <= number <= {bounds.max}",
                    got=str(value),
                    hint="cast the tensor to a wider dtype first",
                )
        return dtype
    if number.is_complex and dtype is float64:
        return complex128
    return number
