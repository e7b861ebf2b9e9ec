"""Attributes: the compile-time parameters of an operation, their kinds and their checks.

Users meet this module as `hr.attr` when they register an operation: `attrs=dict(T=hr.attr.floating,
axis=hr.attr.int(0))`.
"""

from __future__ import annotations

import builtins
import mmap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace import types
from headrace.errors import AttrError, DTypeError, HeadraceError
from headrace.types import DType, DTypeLike, as_dtype, as_shape

__all__ = [
    "REQUIRED",
    "AttrSpec",
    "FunctionName",
    "RawAttr",
    "any_type",
    "bool",
    "complexes",
    "float",
    "floating",
    "floating_or_complex",
    "function",
    "index_type",
    "int",
    "integers",
    "list_of",
    "numeric",
    "ordered",
    "shape",
    "string",
    "tensor",
    "type",
]

AttrValue = Any
"""int, float, bool, str, bytes, DType, Shape, np.ndarray, FunctionName, or a tuple of one of these."""


class _Required:
    def __repr__(self) -> str:
        return "required"


REQUIRED = _Required()
"""The default of an attribute that must be given."""


@dataclass(frozen=True, slots=True)
class FunctionName:
    """The value of an attribute that names a function of the graph's library, with that function's own attributes.

    Attributes:
      name: the function's name in the library.
      attrs: its attributes.
    """

    name: str
    attrs: Mapping[str, AttrValue] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class RawAttr:
    """An attribute that this program does not know, kept as the bytes it came in, to be written out again.

    Attributes:
      serialized: the bytes of an `AttrValue` message.
    """

    serialized: bytes


@dataclass(frozen=True, slots=True)
class AttrSpec:
    """What values one attribute of an operation may take.

    Attributes:
      kind: int, float, bool, string, type, shape, tensor or function.
      is_list: the value is a tuple of such values.
      default: the value if none is given, or `REQUIRED`.
      allowed: the permitted values (dtypes or strings), or None for all.
      minimum: the least value of an int, the least length of a list, or None.
      recent: TensorFlow added it to the type after the version that our graph files are written for, so files leave it
        out where it has its default: an older TensorFlow would refuse to read it.
    """

    kind: str
    is_list: builtins.bool = False
    default: AttrValue = REQUIRED
    allowed: tuple[AttrValue, ...] | None = None
    minimum: builtins.int | None = None
    recent: builtins.bool = False

    def normalize(self, value: AttrValue, name: str) -> AttrValue:
        """Convert a given value to its canonical form.

        Raises:
          AttrError: the value is of another kind, or not among the allowed ones.
        """
        if not self.is_list:
            return self._normalize_one(value, name)
        if isinstance(value, (builtins.str, bytes)) or not isinstance(value, Iterable):
            raise self._wrong(name, value)
        values = tuple(self._normalize_one(item, name) for item in value)
        if self.minimum is not None and len(values) < self.minimum:
            raise AttrError(
                f"attr '{name}' is too short",
                expected=f"at least {self.minimum} items",
                got=f"{len(values)}",
                hint=f"add {self.minimum - len(values)} more",
            )
        return values

    def _normalize_one(self, value: AttrValue, name: str) -> AttrValue:
        try:
            converted = _CONVERTERS[self.kind](value)
        except (TypeError, ValueError, HeadraceError) as error:
            raise self._wrong(name, value) from error
        if self.allowed is not None and converted not in self.allowed:
            raise self._wrong(name, value)
        if self.minimum is not None and not self.is_list and converted < self.minimum:
            raise self._wrong(name, value)
        return converted

    def _wrong(self, name: str, value: AttrValue) -> AttrError:
        return AttrError(
            f"attr '{name}' has a wrong value",
            expected=str(self),
            got=f"{value!r}",
            hint=f"give {name} a value of that kind; `headrace ops TYPE` shows what the attrs of an operation mean",
        )

    def __str__(self) -> str:
        text = f"list of {self.kind}" if self.is_list else self.kind
        if self.allowed is not None:
            text += " in {" + ", ".join(str(value) for value in self.allowed) + "}"
        if self.minimum is not None:
            text += f" of at least {self.minimum} items" if self.is_list else f" >= {self.minimum}"
        return text if self.default is REQUIRED else f"{text}, default {_shown(self.default)}"


def _shown(value: AttrValue) -> str:
    """0.2, not the nearest double to the nearest 32-bit number."""
    return str(np.float32(value)) if isinstance(value, builtins.float) else str(value)


def _to_int(value: AttrValue) -> builtins.int:
    if isinstance(value, builtins.bool) or not hasattr(value, "__index__"):
        raise TypeError("not an integer")
    number: builtins.int = value.__index__()
    if not -(2**63) <= number < 2**63:
        raise ValueError("does not fit 64 bits")
    return number


def _to_float(value: AttrValue) -> builtins.float:
    """A number of 32 bits, as graph files hold it: a graph then computes the same before it is written and after."""
    if isinstance(value, (builtins.str, bytes, builtins.bool)):
        raise TypeError("not a number")
    number = builtins.float(value)
    with np.errstate(over="ignore"):
        single = builtins.float(np.float32(number))
    if np.isinf(single) and not np.isinf(number):
        raise ValueError("does not fit 32 bits")
    return single


def _to_bool(value: AttrValue) -> builtins.bool:
    if not isinstance(value, (builtins.bool, np.bool_)):
        raise TypeError("not a bool")
    return builtins.bool(value)


def _to_string(value: AttrValue) -> str | bytes:
    """Text stays text; bytes that are not UTF-8 stay bytes, since TensorFlow's string attributes are bytes."""
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return value
    if not isinstance(value, str):
        raise TypeError("not a string")
    return value


def _to_tensor(value: AttrValue) -> types.Array:
    """A private read-only array; one that nobody can write to is taken as it is."""
    array = np.asarray(value)
    if array.dtype.kind in "SU":
        raise TypeError("string tensors are object arrays of bytes")
    if not _is_frozen(array):
        array = array.copy()
        array.flags.writeable = False
    return array


def _is_frozen(array: types.Array) -> builtins.bool:
    """True if neither the array nor what it is a view of can be written to (bytes and read-only maps never can)."""
    if array.flags.writeable:
        return False
    if isinstance(array.base, np.ndarray):
        return _is_frozen(array.base)
    base: object = array.base
    return base is None or isinstance(base, (bytes, mmap.mmap))


def _to_function(value: AttrValue) -> FunctionName:
    if isinstance(value, FunctionName):
        return value
    if isinstance(value, str):
        return FunctionName(value)
    raise TypeError("not a function name")


def _to_dtype(value: AttrValue) -> DType:
    if isinstance(value, str) and value.isidentifier() is False:
        raise DTypeError(
            f"no dtype is named {value!r}",
            expected="the name of a dtype",
            got=repr(value),
            hint="give the dtype itself, e.g. hr.float32",
        )
    return as_dtype(value)


_CONVERTERS: dict[str, Any] = {
    "int": _to_int,
    "float": _to_float,
    "bool": _to_bool,
    "string": _to_string,
    "type": _to_dtype,
    "shape": as_shape,
    "tensor": _to_tensor,
    "function": _to_function,
}


_COMPARED_BYTES = 1 << 16


def spec_of(value: AttrValue, name: str) -> AttrSpec:
    """The kind of an annotation, an attribute that no signature describes.

    Raises:
      AttrError: graph files cannot hold such a value.
    """
    for kind, accepted in _PYTHON_TYPES.items():
        if isinstance(value, accepted):
            return AttrSpec(kind)
    if isinstance(value, tuple):
        specs = {spec_of(item, name) for item in value} or {AttrSpec("string")}
        if len(specs) == 1 and not next(iter(specs)).is_list:
            return list_of(specs.pop())
    raise AttrError(
        f"attr '{name}' has a wrong value",
        expected="a " + ", ".join(_PYTHON_TYPES),
        got=repr(value),
        hint="give structured data as text, e.g. json.dumps(value)",
    )


_PYTHON_TYPES: dict[str, Any] = {
    "bool": builtins.bool, "int": builtins.int, "float": builtins.float, "string": (builtins.str, bytes), "type": DType,
    "shape": types.Shape, "tensor": np.ndarray, "function": FunctionName,
}  # fmt: skip


def without_repeats(array: types.Array) -> types.Array:
    """The elements that really take memory: a constant of a graph file may repeat one by stride, 2**40 times."""
    parts = (
        slice(None) if stride or not size else slice(1) for size, stride in zip(array.shape, array.strides, strict=True)
    )
    return array[(*parts, ...)]  # the dots keep a scalar of strings an array


def attr_key(value: AttrValue) -> AttrValue:
    """A hashable stand-in for an attribute value: equal keys mean equal values, bit for bit.

    Large arrays are told apart by identity, while they live: comparing gigabytes to save one copy does not pay.
    """
    if isinstance(value, np.ndarray) and value.nbytes > _COMPARED_BYTES:
        return (value.dtype.str, value.shape, id(value))
    if isinstance(value, np.ndarray):
        content = tuple(value.reshape(-1).tolist()) if value.dtype == object else value.tobytes()
        return (value.dtype.str, value.shape, content)
    if isinstance(value, tuple):
        return tuple(attr_key(item) for item in value)
    if isinstance(value, FunctionName):
        return (value.name, tuple(sorted((key, attr_key(item)) for key, item in value.attrs.items())))
    if isinstance(value, builtins.float):
        return value.hex()  # NaN equals itself and 0.0 differs from -0.0
    return value


def int(default: AttrValue = REQUIRED, *, minimum: builtins.int | None = None) -> AttrSpec:
    """A 64-bit integer attribute."""
    return AttrSpec("int", default=default, minimum=minimum)


def float(default: AttrValue = REQUIRED) -> AttrSpec:
    """A floating point attribute, rounded to 32 bits."""
    return AttrSpec("float", default=default if default is REQUIRED else _to_float(default))


def bool(default: AttrValue = REQUIRED, *, recent: builtins.bool = False) -> AttrSpec:
    """A boolean attribute; for `recent` see `AttrSpec`."""
    return AttrSpec("bool", default=default, recent=recent)


def string(default: AttrValue = REQUIRED, *, allowed: Iterable[str] | None = None) -> AttrSpec:
    """A string attribute, optionally one of a few words."""
    return AttrSpec("string", default=default, allowed=None if allowed is None else tuple(allowed))


def shape(default: AttrValue = REQUIRED) -> AttrSpec:
    """A shape attribute, possibly with unknown parts."""
    return AttrSpec("shape", default=default)


def tensor(default: AttrValue = REQUIRED) -> AttrSpec:
    """A constant array as an attribute."""
    return AttrSpec("tensor", default=default)


def function(default: AttrValue = REQUIRED) -> AttrSpec:
    """The name of a function in the graph's library."""
    return AttrSpec("function", default=default)


def type(*allowed: DTypeLike, default: AttrValue = REQUIRED) -> AttrSpec:
    """A dtype attribute, one of `allowed`, or any dtype if none is named."""
    permitted = tuple(as_dtype(item) for item in allowed) or None
    return AttrSpec("type", default=default if default is REQUIRED else as_dtype(default), allowed=permitted)


def list_of(spec: AttrSpec, default: AttrValue = REQUIRED, *, minimum: builtins.int | None = None) -> AttrSpec:
    """A list of values that each satisfy `spec`."""
    given = default if default is REQUIRED else tuple(default)
    return AttrSpec(spec.kind, is_list=True, default=given, allowed=spec.allowed, minimum=minimum)


_FLOATS = (types.bfloat16, types.float16, types.float32, types.float64)
_COMPLEXES = (types.complex64, types.complex128)
_INTEGERS = tuple(dtype for dtype in types.COMPUTABLE if dtype.is_integer)

any_type = type()
floating = type(*_FLOATS)
complexes = type(*_COMPLEXES)
floating_or_complex = type(*_FLOATS, *_COMPLEXES)
integers = type(*_INTEGERS)
numeric = type(*_FLOATS, *_COMPLEXES, *_INTEGERS)
ordered = type(*_FLOATS, *_INTEGERS)
index_type = type(types.int32, types.int64, default=types.int32)
