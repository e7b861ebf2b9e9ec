"""Kernels of the examples family."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from headrace.errors import InvalidArgumentError
from headrace.graph.proto.example_pb2 import Example
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.ops.examples import check_batch
from headrace.types import Array, DType, Shape, string

__all__: list[str] = []

_LISTS = {"float32": "float_list", "int64": "int64_list", "string": "bytes_list"}

Row = Any
"""The values of one feature in one example, or None where the example lacks it."""


class _Batch:
    """Parsed examples, and what errors call them."""

    def __init__(self, serialized: Sequence[bytes], names: Sequence[bytes]) -> None:
        if names and len(names) != len(serialized):
            raise InvalidArgumentError(
                "examples and their names differ in number",
                expected=f"{len(serialized)} names, or none",
                got=str(len(names)),
                hint="leave the names out",
            )
        self.names = names
        self.features = [self._parsed(data, place) for place, data in enumerate(serialized)]

    def called(self, place: int) -> str:
        return f"example {place}" + (f" '{self.names[place].decode('utf-8', 'replace')}'" if self.names else "")

    def _parsed(self, data: bytes, place: int) -> Any:
        try:
            return Example.FromString(data).features.feature
        except DecodeError as error:
            raise InvalidArgumentError(
                "the bytes are no example",
                expected="a serialised Example message",
                got=f"{len(data)} bytes in {self.called(place)}",
                hint="read records with a reader that takes the frame of each off",
            ) from error

    def rows(self, key: bytes, dtype: DType) -> list[Row]:
        """The values of a feature in each example."""
        name = key.decode("utf-8", "replace")
        return [self._row(place, name, dtype) for place in range(len(self.features))]

    def _row(self, place: int, name: str, dtype: DType) -> Row:
        feature = self.features[place].get(name)
        kind = None if feature is None else feature.WhichOneof("kind")
        if kind is None:
            return None
        if kind != _LISTS[dtype.name]:
            raise InvalidArgumentError(
                f"feature '{name}' has another dtype",
                expected=str(dtype),
                got=f"{kind} in {self.called(place)}",
                hint="float_list is float32, int64_list int64, bytes_list string",
            )
        return getattr(feature, kind).value


def _array(values: Any, dtype: DType) -> Array:
    result = np.empty(len(values), dtype.array_type)
    result[:] = values
    return result


def _sparse(batch: _Batch, key: bytes, dtype: DType, alone: bool) -> tuple[Array, Array, Array]:
    rows = [row if row is not None else () for row in batch.rows(key, dtype)]
    lengths = [len(row) for row in rows]
    columns = np.concatenate([np.arange(length) for length in lengths]) if rows else np.zeros(0)
    values = _array([value for row in rows for value in row], dtype)
    most = max(lengths, default=0)
    if alone:
        return columns.astype(np.int64).reshape(-1, 1), values, np.array([most], np.int64)
    numbers = np.repeat(np.arange(len(rows)), lengths)
    indices = np.stack([numbers, columns], axis=1).astype(np.int64).reshape(-1, 2)
    return indices, values, np.array([len(rows), most], np.int64)


def _dense(batch: _Batch, key: bytes, dtype: DType, shape: Shape, default: Array, alone: bool) -> Array:
    rows = batch.rows(key, dtype)
    sizes = shape.dims or ()
    varies = bool(sizes) and sizes[0] is None
    inner = [int(size or 0) for size in (sizes[1:] if varies else sizes)]
    each = math.prod(inner)
    longest = 0
    for place, row in enumerate(rows):
        if row is None:
            _check_default(batch, place, key, shape, default, varies)
        elif len(row) % max(each, 1) if varies else len(row) != each:
            raise InvalidArgumentError(
                f"feature '{key.decode('utf-8', 'replace')}' has another number of values",
                expected=f"{'a multiple of ' if varies else ''}{each}, for shape {shape}",
                got=f"{len(row)} in {batch.called(place)}",
                hint="a feature whose number of values varies is a VarLenFeature",
            )
        longest = max(longest, len(row) // max(each, 1) if row is not None else 0)
    whole = [longest, *inner] if varies else inner
    fill = default.reshape(-1)[0] if default.size and varies else b"" if dtype is string else 0
    result = np.full([len(rows), *whole], fill, dtype.array_type)
    for place, row in enumerate(rows):
        if row is not None:
            flat = result[place].reshape(-1)
            flat[: len(row)] = _array(row, dtype)
            result[place] = flat.reshape(result[place].shape)
        elif not varies:
            result[place] = default
    return np.asarray(result[0]) if alone else result


def _check_default(batch: _Batch, place: int, key: bytes, shape: Shape, default: Array, varies: bool) -> None:
    name = key.decode("utf-8", "replace")
    if varies:
        return
    if not default.size and shape.num_elements != 0:
        raise InvalidArgumentError(
            f"feature '{name}' must be there",
            expected="a value in every example",
            got=f"none in {batch.called(place)}",
            hint="give it a default",
        )
    if not Shape(default.shape).is_compatible_with(shape):
        raise InvalidArgumentError(
            f"the default of feature '{name}' has another shape",
            expected=str(shape),
            got=str(list(default.shape)),
            hint="give one value for each that an example has",
        )


def _ragged(batch: _Batch, key: bytes, dtype: DType, split: DType, alone: bool) -> tuple[Array, Array]:
    rows = [row if row is not None else () for row in batch.rows(key, dtype)]
    values = _array([value for row in rows for value in row], dtype)
    ends = np.cumsum([0, *(len(row) for row in rows)])
    return values, (np.zeros(0, np.int64) if alone else ends).astype(split.array_type)


def _parse(
    op: OpContext, batch: _Batch, sparse_keys: Sequence[bytes], dense_keys: Sequence[bytes], defaults: Any, alone: bool
) -> list[Any]:
    """The outputs that all operations of the family have, one list for each argument of the signature."""
    kinds = op.attr("sparse_types"), op.attr("Tdense")
    _check_count("sparse", sparse_keys, kinds[0])
    _check_count("dense", dense_keys, kinds[1])
    found = [_sparse(batch, key, kind, alone) for key, kind in zip(sparse_keys, kinds[0], strict=True)]
    dense = [
        _dense(batch, key, kind, shape, np.asarray(default), alone)
        for key, kind, shape, default in zip(dense_keys, kinds[1], op.attr("dense_shapes"), defaults, strict=True)
    ]
    return [item for part in range(3) for item in [parts[part] for parts in found]] + dense


def _check_count(what: str, keys: Sequence[bytes], kinds: Sequence[DType]) -> None:
    if len(keys) != len(kinds):
        raise InvalidArgumentError(
            f"each {what} feature has one dtype",
            expected=f"{len(kinds)} keys",
            got=str(len(keys)),
            hint="give as many keys as dtypes",
        )


def _items(keys: Array) -> list[bytes]:
    flat: list[bytes] = np.reshape(keys, -1).tolist()
    return flat


@register_kernel("ParseExample")
def _parse_example(
    op: OpContext,
    serialized: Array,
    names: Array,
    sparse_keys: list[Array],
    dense_keys: list[Array],
    dense_defaults: list[Array],
) -> list[Any]:
    batch = _Batch(_items(serialized), _items(names))
    keys = [[np.asarray(key).item() for key in given] for given in (sparse_keys, dense_keys)]
    return _parse(op, batch, keys[0], keys[1], dense_defaults, alone=False)


@register_kernel("ParseExampleV2")
def _parse_example_v2(
    op: OpContext,
    serialized: Array,
    names: Array,
    sparse_keys: Array,
    dense_keys: Array,
    ragged_keys: Array,
    dense_defaults: list[Array],
) -> list[Any]:
    check_batch(Shape(np.shape(serialized)))
    alone = np.ndim(serialized) == 0
    batch = _Batch(_items(serialized), _items(names))
    outputs = _parse(op, batch, _items(sparse_keys), _items(dense_keys), dense_defaults, alone)
    keys = _items(ragged_keys)
    _check_count("ragged", keys, op.attr("ragged_value_types"))
    _check_count("ragged", keys, op.attr("ragged_split_types"))
    kinds = zip(keys, op.attr("ragged_value_types"), op.attr("ragged_split_types"), strict=True)
    ragged = [_ragged(batch, key, kind, split, alone) for key, kind, split in kinds]
    return [*outputs, *(values for values, _ in ragged), *(splits for _, splits in ragged)]


@register_kernel("ParseSingleExample")
def _parse_single_example(op: OpContext, serialized: Array, dense_defaults: list[Array]) -> list[Any]:
    keys = [
        [key if isinstance(key, bytes) else key.encode() for key in op.attr(name)]
        for name in ("sparse_keys", "dense_keys")
    ]
    return _parse(op, _Batch(_items(serialized), []), keys[0], keys[1], dense_defaults, alone=True)
