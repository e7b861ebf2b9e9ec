"""NumPy kernels of the convolutions of volumes: one matrix product for each tap of the filter and group of channels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.accumulation import stored, widened
from headrace.kernels.registry import register_kernel
from headrace.ops.convolution import check_gradient_shape
from headrace.ops.volume import inner_sizes, to_channels_last, volume_axes, volume_shape
from headrace.ops.window import given_sizes
from headrace.types import Array, Shape

__all__: list[str] = []

Place = tuple[slice | int, ...]


def _last(op: OpContext, volumes: Array) -> Array:
    return volumes.transpose(to_channels_last(op))


def _parts(
    op: OpContext, sizes: Sequence[int], filters: Sequence[int], channels: int
) -> Iterator[tuple[Place, Place, Place]]:
    """Yield the places of inputs, filter and outputs that meet, for each tap and each group of channels."""
    axes = volume_axes(op, sizes, filters[:3], inner_sizes(op, "dilations"))
    depth, outputs = filters[3:]
    groups = channels // depth
    share = outputs // groups
    for taps in product(*(list(axis.slices()) for axis in axes)):
        for group in range(groups):
            given = slice(group * depth, (group + 1) * depth)
            made = slice(group * share, (group + 1) * share)
            yield (
                (slice(None), *(inputs for _, _, inputs in taps), given),
                (*(tap for tap, _, _ in taps), slice(None), made),
                (slice(None), *(results for _, results, _ in taps), made),
            )


@register_kernel("Conv3D")
def _conv3d(op: OpContext, volumes: Array, filters: Array) -> Array:
    shape = volume_shape(op, Shape(volumes.shape), Shape(filters.shape)).as_tuple()
    x, w = widened(_last(op, volumes)), widened(filters)
    result = np.zeros(shape, x.dtype)
    y = _last(op, result)
    for inputs, taps, outputs in _parts(op, x.shape[1:4], w.shape, x.shape[4]):
        y[outputs] += x[inputs] @ w[taps]
    return stored(result, op.outputs[0].dtype.array_type, None)


@register_kernel("Conv3DBackpropInputV2")
def _conv3d_backprop_input(op: OpContext, sizes: Array, filters: Array, gradient: Array) -> Array:
    shape = given_sizes(sizes, "input_sizes")
    check_gradient_shape(volume_shape(op, Shape(shape), Shape(filters.shape)), Shape(gradient.shape))
    w, g = widened(filters), widened(_last(op, gradient))
    result = np.zeros(shape, g.dtype)
    dx = _last(op, result)
    for inputs, taps, outputs in _parts(op, dx.shape[1:4], w.shape, dx.shape[4]):
        dx[inputs] += g[outputs] @ w[taps].T
    return stored(result, op.outputs[0].dtype.array_type, None)


@register_kernel("Conv3DBackpropFilterV2")
def _conv3d_backprop_filter(op: OpContext, volumes: Array, sizes: Array, gradient: Array) -> Array:
    shape = given_sizes(sizes, "filter_sizes")
    check_gradient_shape(volume_shape(op, Shape(volumes.shape), Shape(shape)), Shape(gradient.shape))
    x, g = widened(_last(op, volumes)), widened(_last(op, gradient))
    dw = np.zeros(shape, g.dtype)
    for inputs, taps, outputs in _parts(op, x.shape[1:4], shape, x.shape[4]):
        rows = x[inputs]
        dw[taps] += rows.reshape(-1, rows.shape[-1]).T @ g[outputs].reshape(-1, dw[taps].shape[-1])
    return stored(dw, op.outputs[0].dtype.array_type, None)
