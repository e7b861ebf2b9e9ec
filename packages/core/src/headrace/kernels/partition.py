"""NumPy kernels of Part and Stitch."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.kernels.state import check_indices
from headrace.ops.partition import check_partitions, stitched_rows
from headrace.ops.shapes import checked_sizes
from headrace.types import Array, Shape, string


@register_kernel("DynamicPartition")
def _dynamic_partition(op: OpContext, data: Array, partitions: Array) -> list[Array]:
    data, partitions = np.asarray(data), np.asarray(partitions)
    check_partitions(Shape(data.shape), Shape(partitions.shape))
    check_indices(partitions, op.attr("num_partitions"))
    rows = data.reshape(partitions.size, *data.shape[partitions.ndim :])
    flat = partitions.reshape(-1)
    return [rows[flat == index] for index in range(op.attr("num_partitions"))]


@register_kernel("DynamicStitch")
def _dynamic_stitch(op: OpContext, indices: list[Array], data: list[Array]) -> Array:
    places: list[Any] = [np.asarray(item) for item in indices]
    values: list[Any] = [np.asarray(item) for item in data]
    sizes = checked_sizes([stitched_rows(places), *values[0].shape[places[0].ndim :]])
    merged = np.full(sizes, b"" if op.attr("T") is string else 0, values[0].dtype)
    for place, value in zip(places, values, strict=True):
        flat = place.reshape(-1)
        _, positions = np.unique(flat[::-1], return_index=True)
        last = flat.size - 1 - positions
        merged[flat[last]] = value.reshape(flat.size, *sizes[1:])[last]
    return merged
