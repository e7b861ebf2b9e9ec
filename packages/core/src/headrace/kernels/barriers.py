"""Kernels of the barriers family."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.errors import DTypeError, InvalidArgumentError
from headrace.interfaces import OpContext
from headrace.kernels.element_type import ElementType
from headrace.kernels.keyed_barrier import KeyedBarrier
from headrace.kernels.registry import register_kernel
from headrace.ops.queues import checked_count
from headrace.types import Array, Shape, int64, string

__all__: list[str] = []


class Barrier(KeyedBarrier):
    """The barrier behind a handle: elements of one type. Mutable and thread-safe.

    Args:
      name: its name.
      element: what its elements are made of: index, key, components.
    """

    def __init__(self, name: str, element: ElementType) -> None:
        super().__init__(name, len(element.dtypes) - 2)
        self.element = element


@register_kernel("Barrier", binds_once=True)
def _barrier(op: OpContext) -> Barrier:
    name = op.attr("shared_name") or op.name
    dtypes, shapes = op.attr("component_types"), op.attr("shapes")
    element = ElementType((int64, string, *dtypes), (Shape([]), Shape([]), *shapes))
    found: Barrier = op.resources.lookup_or_create(
        (Barrier, op.attr("container"), name), lambda: Barrier(name, element)
    )
    if found.element != element:
        raise InvalidArgumentError(
            f"barrier '{name}' exists with other components",
            expected=str(found.element),
            got=str(element),
            hint="make both the same, or give one of them another shared_name",
        )
    return found


@register_kernel("BarrierInsertMany")
def _insert(op: OpContext, barrier: Barrier, keys: Array, values: Any) -> None:
    position = op.attr("component_index")
    rows: list[Any] = []
    if 0 <= position < barrier.width:
        kind = barrier.element.component(position + 2)
        if op.attr("T") is not kind.dtypes[0]:
            raise DTypeError(
                f"component {position} of barrier '{barrier.name}' has another dtype",
                expected=str(kind.dtypes[0]),
                got=str(op.attr("T")),
                hint="hr.astype the values",
            )
        rows = [row for (row,) in kind.elements([values])]
    barrier.insert(position, np.asarray(keys).tolist(), rows, op.step)


@register_kernel("BarrierTakeMany")
def _take(op: OpContext, barrier: Barrier, num_elements: Array) -> tuple[Array, ...]:
    element = barrier.element
    element.check_dtypes((int64, string, *op.attr("component_types")), f"barrier '{barrier.name}'")
    count = checked_count(num_elements)
    return element.batch(barrier.take(count, op.step, allow_fewer=op.attr("allow_small_batch")))


@register_kernel("BarrierClose")
def _close(op: OpContext, barrier: Barrier) -> None:
    barrier.close(cancel_pending=op.attr("cancel_pending_enqueues"))


@register_kernel("BarrierReadySize")
def _ready_size(op: OpContext, barrier: Barrier) -> Array:
    return np.array(barrier.ready_size, np.int32)


@register_kernel("BarrierIncompleteSize")
def _incomplete_size(op: OpContext, barrier: Barrier) -> Array:
    return np.array(barrier.incomplete_size, np.int32)
