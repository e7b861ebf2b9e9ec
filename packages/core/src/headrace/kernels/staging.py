"""Kernels of the staging family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.errors import DTypeError, InvalidArgumentError
from headrace.interfaces import OpContext
from headrace.kernels.element_type import ElementType
from headrace.kernels.registry import register_kernel
from headrace.kernels.staging_buffer import KeyedStagingBuffer, StagingBuffer
from headrace.ops.shapes import scalar_of
from headrace.types import Array, as_dtype

__all__: list[str] = []


def _bounds(op: OpContext) -> tuple[str, int, int]:
    return op.attr("shared_name") or op.name, op.attr("capacity"), op.attr("memory_limit")


def _area(op: OpContext) -> StagingBuffer:
    name, capacity, limit = _bounds(op)
    area: StagingBuffer = op.resources.lookup_or_create(
        (StagingBuffer, op.attr("container"), name), lambda: StagingBuffer(name, capacity, limit)
    )
    return area


def _checked(op: OpContext, name: str, values: Sequence[Any]) -> tuple[Any, ...]:
    """The values, if they have the dtypes that the operation states."""
    stated = tuple(op.attr("dtypes"))
    found = tuple(as_dtype(value.dtype) for value in values)
    if found != stated:
        raise DTypeError(
            f"the components in staging area '{name}' have other dtypes",
            expected=", ".join(map(str, found)),
            got=", ".join(map(str, stated)),
            hint="take as many and of those dtypes as were put in",
        )
    return tuple(values)


@register_kernel("Stage")
def _stage(op: OpContext, values: Sequence[Any]) -> None:
    _area(op).put(ElementType(op.attr("dtypes")).element(values), op.step)


@register_kernel("Unstage")
def _unstage(op: OpContext) -> tuple[Any, ...]:
    area = _area(op)
    return _checked(op, area.name, area.get(op.step))


@register_kernel("StagePeek")
def _peek(op: OpContext, index: Array) -> tuple[Any, ...]:
    area, place = _area(op), scalar_of(index, "index")
    if place < 0:
        raise InvalidArgumentError(
            "the place in a staging area is negative", expected="at least 0", got=str(place), hint="count from 0"
        )
    return _copies(_checked(op, area.name, area.peek(place, op.step)))


def _copies(values: Sequence[Any]) -> tuple[Any, ...]:
    """What stays in the staging area must not be what others hold."""
    return tuple(np.array(value, dtype=value.dtype) for value in values)


@register_kernel("StageSize")
def _size(op: OpContext) -> Array:
    return np.array(_area(op).size, np.int32)


@register_kernel("StageClear")
def _clear(op: OpContext) -> None:
    _area(op).clear()


def _keyed(op: OpContext) -> KeyedStagingBuffer:
    name, capacity, limit = _bounds(op)
    ordered = op.type.startswith("Ordered")
    area: KeyedStagingBuffer = op.resources.lookup_or_create(
        (KeyedStagingBuffer, op.attr("container"), name, ordered),
        lambda: KeyedStagingBuffer(name, capacity, limit, ordered=ordered),
    )
    return area


for _prefix in ("", "Ordered"):

    @register_kernel(f"{_prefix}MapStage")
    def _map_stage(op: OpContext, key: Array, indices: Array, values: Sequence[Any]) -> None:
        area, places = _keyed(op), np.asarray(indices).tolist()
        if len(set(places)) != len(places) or len(places) != len(values):
            raise InvalidArgumentError(
                f"the components for staging area '{area.name}' are not told apart",
                expected=f"{len(values)} different indices",
                got=str(places),
                hint="give each value the position of its component",
            )
        element = ElementType(op.attr("fake_dtypes")).element(values)
        parts = dict(zip(places, element, strict=True))
        area.put(scalar_of(key, "key"), parts, len(op.attr("dtypes")), op.step)

    @register_kernel(f"{_prefix}MapUnstage")
    def _map_unstage(op: OpContext, key: Array, indices: Array) -> tuple[Any, ...]:
        area = _keyed(op)
        _, parts = area.get(scalar_of(key, "key"), np.asarray(indices).tolist(), op.step)
        return _checked(op, area.name, parts)

    @register_kernel(f"{_prefix}MapUnstageNoKey")
    def _map_unstage_no_key(op: OpContext, indices: Array) -> tuple[Any, ...]:
        area = _keyed(op)
        key, parts = area.get(None, np.asarray(indices).tolist(), op.step)
        return np.array(key, np.int64), *_checked(op, area.name, parts)

    @register_kernel(f"{_prefix}MapPeek")
    def _map_peek(op: OpContext, key: Array, indices: Array) -> tuple[Any, ...]:
        area = _keyed(op)
        parts = area.peek(scalar_of(key, "key"), np.asarray(indices).tolist(), op.step)
        return _copies(_checked(op, area.name, parts))

    @register_kernel(f"{_prefix}MapSize")
    def _map_size(op: OpContext) -> Array:
        return np.array(_keyed(op).size, np.int32)

    @register_kernel(f"{_prefix}MapIncompleteSize")
    def _map_incomplete_size(op: OpContext) -> Array:
        return np.array(_keyed(op).incomplete_size, np.int32)

    @register_kernel(f"{_prefix}MapClear")
    def _map_clear(op: OpContext) -> None:
        _keyed(op).clear()
