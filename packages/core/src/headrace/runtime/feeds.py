"""Feeds: checked and converted before any kernel runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from headrace.errors import FeedError, HeadraceError
from headrace.graph.apply import as_array
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.types import Array, DType, Shape, as_dtype, string

__all__ = ["check_fed_once", "check_feed_names", "check_feed_shape", "feed_converter", "feed_tensor", "flat_feeds"]


def flat_feeds(feeds: Mapping[Any, Any] | None) -> Mapping[Any, Any] | None:
    """Feeds with one key for each tensor: a tuple of tensors, as a sparse tensor is one, is fed as its parts.

    Raises:
      FeedError: such a tuple gets a value of another number of parts.
    """
    if not isinstance(feeds, Mapping) or not any(isinstance(key, tuple) for key in feeds):
        return feeds
    flat: dict[Any, Any] = {}
    for key, value in feeds.items():
        parts = key if isinstance(key, tuple) else (key,)
        for part in parts:
            if part in flat:
                raise FeedError(
                    f"'{part}' is fed twice",
                    expected="one value",
                    got=f"alone and as a part of {key}",
                    hint="feed the parts alone or the whole, not both",
                )
        if parts is not key:
            flat[key] = value
            continue
        if not isinstance(value, (list, tuple)) or len(value) != len(key):
            raise FeedError(
                "the value does not have the parts that are fed",
                expected=f"{len(key)} values, one for each of {', '.join(map(str, key))}",
                got=f"a {type(value).__name__}",
                hint="pass a tuple or list with one value for each part of the key",
            )
        flat.update(zip(key, value, strict=True))
    return flat


def feed_tensor(graph: Graph, key: Any) -> Tensor:
    """The tensor that a feed key names.

    Args:
      graph: the session's graph.
      key: a Tensor, the name of one, or a Variable.
    Raises:
      FeedError: the key is none of these, belongs to another graph, or cannot be fed.
    """
    tensor = graph.tensor(key) if isinstance(key, str) else getattr(key, "value", key)
    if isinstance(tensor, Operation):
        tensor = tensor.outputs[0] if len(tensor.outputs) == 1 else None
    if not isinstance(tensor, Tensor):
        raise FeedError(
            "this cannot be fed",
            expected="a tensor, or the name of one",
            got=repr(key),
            hint="feed the tensor that hr.placeholder returned",
        )
    if tensor.graph is not graph:
        raise FeedError(
            f"'{tensor.name}' is fed, but belongs to another graph",
            where=tensor.op.location,
            expected="a tensor of the session's graph",
            got=f"one of {tensor.graph}",
            hint="feed the session's graph",
        )
    if tensor.dtype.kind in ("resource", "variant", "opaque"):
        raise FeedError(
            f"'{tensor.name}' cannot be fed",
            where=tensor.op.location,
            expected="a tensor of numbers or strings",
            got=str(tensor.spec),
            hint="assign to the variable instead: session.write_variables({name: value})",
        )
    return tensor


def feed_converter(tensor: Tensor) -> Callable[[Any], Array]:
    """A function that turns a fed value into an array of the tensor's dtype.

    An array of the right dtype passes as it is, without a copy. Python values take the dtype if they fit. Arrays of
    another dtype are converted where that loses no more than rounding: a wider or narrower float, an integer within
    bounds.
    """
    wanted = tensor.dtype.array_type
    ndarray = np.ndarray
    is_string = tensor.dtype is string

    def convert(value: Any) -> Array:
        if type(value) is ndarray and value.dtype == wanted and not is_string:
            return value
        return _convert(tensor, value)

    return convert


def _convert(tensor: Tensor, value: Any) -> Array:
    if isinstance(value, Tensor):
        raise _feed_error(
            tensor, "a symbolic tensor", hint="feed a NumPy array; session.run gives the value of a tensor"
        )
    try:
        if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind not in "SUO":
            return _convert_array(tensor, value)
        return as_array(value, tensor.dtype)
    except HeadraceError as error:
        if isinstance(error, FeedError):
            raise
        raise _feed_error(tensor, error.got or repr(type(value)), hint=error.hint) from error


def _convert_array(tensor: Tensor, value: Array | np.generic) -> Array:
    given, dtype = as_dtype(value.dtype), tensor.dtype
    array = np.asarray(value)
    if given is dtype:
        return array.astype(dtype.array_type, copy=False)  # only the byte order can differ
    floats = given.is_floating and (dtype.is_floating or dtype.is_complex)
    if floats or (given.is_complex and dtype.is_complex) or _integer_fits(array, given, dtype):
        return array.astype(dtype.array_type)
    raise _feed_error(tensor, f"{given}{list(array.shape)}", hint=f"array.astype(np.{dtype})")


def _integer_fits(array: Array, given: DType, dtype: DType) -> bool:
    if not (given.is_integer and dtype.is_integer):
        return False
    if not array.size:
        return True
    bounds = np.iinfo(dtype.array_type)
    return bounds.min <= int(array.min()) and int(array.max()) <= bounds.max


def check_feed_shape(tensor: Tensor, shape: tuple[int, ...]) -> None:
    """Raise FeedError unless a value of `shape` may be fed for `tensor`."""
    if not tensor.shape.is_compatible_with(Shape(shape)):
        raise _feed_error(
            tensor, f"{tensor.dtype}{list(shape)}", hint="compare the shape with the declaration of the placeholder"
        )


def _feed_error(tensor: Tensor, got: str, *, hint: str | None) -> FeedError:
    return FeedError(
        f"the value fed for '{tensor.op.name if tensor.index == 0 else tensor.name}' does not fit",
        where=tensor.op.location,
        expected=str(tensor.spec),
        got=got,
        hint=hint,
    )


def check_fed_once(feeds: Sequence[Tensor]) -> None:
    """Raise FeedError if a tensor is fed twice, perhaps once by its name."""
    for tensor in feeds:
        if feeds.count(tensor) > 1:
            raise FeedError(
                f"'{tensor.name}' is fed twice",
                where=tensor.op.location,
                expected="one value",
                got=f"{feeds.count(tensor)} values",
                hint="remove one of them: a tensor and its name are the same key",
            )


def check_feed_names(feeds: Mapping[Any, Any]) -> None:
    """Raise FeedError unless feeds are given as a mapping."""
    if not isinstance(feeds, Mapping):
        raise FeedError(
            "feeds are not a mapping",
            expected="{placeholder: value}",
            got=type(feeds).__name__,
            hint="session.run(y, feeds={x: value})",
        )
