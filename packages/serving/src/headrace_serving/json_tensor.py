"""Tensors as JSON, both ways, by TensorFlow Serving's rules.

The element type comes from the signature, never from the document. A tensor's shape is read off the first element at
each level; every other list must agree. Nothing is coerced: numbers are not strings, true is not 1, 1.0 is no integer.
"""

from __future__ import annotations

import base64
import binascii
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import orjson

import headrace as hr
from headrace_serving.errors import BadRequestError, UnsupportedError
from headrace_serving.json_value import JsonValue, NumberArray, json_type, show
from headrace_serving.model import Array, type_name

_MAX_RANK = 32
_BYTES_SUFFIX = "_bytes"
JSON_TYPES: dict[str, frozenset[type]] = {
    **dict.fromkeys(["float32", "float64"], frozenset([int, float])),
    **dict.fromkeys(["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"], frozenset([int])),
    "bool": frozenset([bool]),
    "string": frozenset([str, dict]),
}
"""What the JSON parser may give for an element of each dtype. TensorFlow Serving has no JSON for the others."""
OPEN_JSON_TYPES = JSON_TYPES | {"uint16": JSON_TYPES["int32"], "string": frozenset([str])}
"""The same for the Open Inference Protocol, whose BYTES are plain strings in JSON."""


def tensor_from_json(value: JsonValue, dtype: hr.DType) -> Array:
    """Return the tensor that a scalar or nested lists stand for.

    Args:
      value: nested lists whose elements are numbers, true and false, strings, or `{"b64": ...}` for strings.
      dtype: the element type that the signature asks for.
    Returns:
      an array of that dtype; strings are an object array of bytes. Numbers beyond float32 become infinities.
    Raises:
      BadRequestError: ragged lists, elements of the wrong type, integers beyond the dtype, or bad base64.
      UnsupportedError: the dtype has no JSON form.
    """
    shape, elements = flatten(value)
    allowed = JSON_TYPES.get(dtype.name)
    if allowed is None:
        first = show(elements[0]) if len(elements) else "[]"
        raise UnsupportedError(f"Conversion of JSON Value: {first} to type: {type_name(dtype)}")
    return array_from_elements(elements, dtype, allowed).reshape(shape)


def array_from_elements(
    elements: Sequence[JsonValue] | NumberArray, dtype: hr.DType, allowed: frozenset[type]
) -> Array:
    """Return the vector of some elements.

    Args:
      elements: what the JSON parser gave.
      dtype: the element type that the signature asks for.
      allowed: which types the elements may have.
    Raises:
      BadRequestError: an element has another type, or cannot be a value of the dtype.
    """
    if isinstance(elements, np.ndarray):
        return _converted(elements, dtype, allowed)
    if not allowed.issuperset(map(type, elements)):
        raise _type_error(next(element for element in elements if type(element) not in allowed), dtype)
    return _array(elements, dtype)


def is_base64_object(value: JsonValue) -> bool:
    """Return whether a value is a string in base64, which counts as a value and not as an object of named inputs."""
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("b64"), str)


def flatten(value: JsonValue) -> tuple[list[int], Sequence[JsonValue] | NumberArray]:
    """Return the shape of nested lists and their elements in C order.

    Raises:
      BadRequestError: the lists are ragged, or nested too deeply.
    """
    if isinstance(value, np.ndarray):
        return list(value.shape), value.reshape(-1)
    shape: list[int] = []
    probe: JsonValue = value
    while isinstance(probe, list):
        shape.append(len(probe))
        if not probe:
            break
        probe = probe[0]
    rank = len(shape)
    if rank > _MAX_RANK:
        raise BadRequestError(f"Encountered list at unexpected level: {_MAX_RANK} expected < {_MAX_RANK}")
    elements: list[JsonValue] = [value]
    for level, size in enumerate(shape):
        for element in elements:
            if not isinstance(element, list):
                raise BadRequestError(
                    f"JSON Value: {show(element)} found at incorrect level: {level + 1} in the JSON DOM. "
                    f"Expected at level: {rank}"
                )
            if len(element) != size:
                raise BadRequestError(
                    f"Encountered list at unexpected size: {len(element)} at level: {level} expected size: {size}"
                )
        elements = list(itertools.chain.from_iterable(elements))  # type: ignore[arg-type]  # all are lists by now
    if list in map(type, elements):
        raise BadRequestError(f"Encountered list at unexpected level: {rank} expected < {rank}")
    return shape, elements


def _array(elements: Sequence[JsonValue], dtype: hr.DType) -> Array:
    if dtype.name == "string":
        strings = np.empty(len(elements), object)
        strings[:] = [string_from_json(element) for element in elements]
        return strings
    if dtype.is_floating:
        with np.errstate(over="ignore"):
            return np.array(elements, np.float64).astype(dtype.array_type)
    try:
        return np.array(elements, dtype.array_type)
    except OverflowError as error:
        limits = np.iinfo(dtype.name)
        beyond = (number for number in elements if isinstance(number, int) and not limits.min <= number <= limits.max)
        raise _type_error(next(beyond), dtype) from error


def _converted(numbers: NumberArray, dtype: hr.DType, allowed: frozenset[type]) -> Array:
    kind = float if numbers.dtype.kind == "f" else int
    if kind not in allowed:
        raise _type_error(numbers[:1].tolist()[0], dtype)
    if dtype.is_floating:
        with np.errstate(over="ignore"):
            return numbers.astype(np.float64, copy=False).astype(dtype.array_type)
    limits = np.iinfo(dtype.name)
    if numbers.min() < limits.min or numbers.max() > limits.max:
        raise _type_error(int(numbers.max()), dtype)
    return numbers.astype(dtype.array_type)


def string_from_json(value: JsonValue) -> bytes:
    """Return the bytes of a string, or of base64 in an object.

    Raises:
      BadRequestError: it is neither, bad base64, or has no UTF-8.
    """
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise BadRequestError(f"JSON Value: {show(value)} has a surrogate without its other half") from error
    if not (isinstance(value, dict) and is_base64_object(value)):
        raise BadRequestError(f"JSON Value: {show(value)} not formatted correctly for base64 data")
    try:
        return base64.b64decode(str(value["b64"]), validate=True)
    except (binascii.Error, ValueError) as error:  # ValueError: characters beyond ASCII
        raise BadRequestError("Unable to base64 decode") from error


def _type_error(value: JsonValue, dtype: hr.DType) -> BadRequestError:
    return BadRequestError(
        f"JSON Value: {show(value)} Type: {json_type(value)} is not of expected type: {type_name(dtype)}"
    )


def tensor_to_json(
    alias: str, tensor: Array, json_types: Mapping[str, frozenset[type]] = JSON_TYPES, *, strict: bool = False
) -> object:
    """Return what `orjson.dumps(..., option=OPT_SERIALIZE_NUMPY)` writes as the tensor.

    Floats have the fewest digits that give the same value of their own type again. NaN and infinities become the bare
    tokens `NaN`, `Infinity`, `-Infinity`, which orjson itself would turn into null.

    Args:
      alias: name of the output; strings of one whose name ends in `_bytes` are written in base64.
      tensor: any shape.
      json_types: the dtypes that have a JSON form.
      strict: leave null where values are not finite.
    Raises:
      BadRequestError: the dtype has no JSON form, or a string is not UTF-8 and the output not marked as bytes.
    """
    dtype = hr.as_dtype(tensor.dtype)
    if dtype.name not in json_types:
        raise _unwritable(dtype)
    if dtype.name == "string":
        write = _base64_object if alias.endswith(_BYTES_SUFFIX) else _text
        return _map_nested(write, tensor)
    if dtype.is_floating and not strict and not np.isfinite(tensor).all():
        return orjson.Fragment(_with_tokens(tensor))
    return _plain(tensor)


def _plain(tensor: Array) -> object:
    return np.ascontiguousarray(tensor) if tensor.ndim else tensor[()]


def _with_tokens(tensor: Array) -> bytes:
    """Return a float tensor as JSON in which each `null` that orjson writes is the token of the value that it hides."""
    text = orjson.dumps(_plain(tensor), option=orjson.OPT_SERIALIZE_NUMPY)
    hidden = tensor[~np.isfinite(tensor)].tolist()
    tokens = [b"NaN" if number != number else b"Infinity" if number > 0 else b"-Infinity" for number in hidden]
    first, *rest = text.split(b"null")
    return first + b"".join(itertools.chain.from_iterable(zip(tokens, rest, strict=True)))


def _map_nested(write: Callable[[bytes], object], tensor: Array) -> object:
    written = np.empty(tensor.size, object)
    written[:] = [write(element) for element in tensor.ravel().tolist()]
    return written.reshape(tensor.shape).tolist()


def _base64_object(value: bytes) -> object:
    return {"b64": base64.b64encode(value).decode()}


def _text(value: bytes) -> object:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise BadRequestError(
            "Failed to write JSON value for tensor type: string",
            expected="UTF-8",
            got=f"{value!r:.60}",
            hint=f"export the output under a name that ends in {_BYTES_SUFFIX}, which is answered in base64",
        ) from error


def _unwritable(dtype: hr.DType) -> BadRequestError:
    return BadRequestError(f"Failed to write JSON value for tensor type: {type_name(dtype)}")


def dump_json(document: object) -> bytes:
    """Return a document as JSON; its tensors are given as `tensor_to_json` has them."""
    return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)


def shape_text(shape: Iterable[int]) -> str:
    """Return a shape as error texts have it: `[2,3]`."""
    return "[" + ",".join(map(str, shape)) + "]"
