"""NumPy kernels of the pooling of volumes: those of images with one more axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.accumulation import stored, widened
from headrace.kernels.pooling import bits_of, first_hits, lowest, window_counts, window_parts
from headrace.kernels.registry import register_kernel
from headrace.ops.pooling import check_pooled
from headrace.ops.volume import inner_sizes, to_channels_last, volume_axes
from headrace.ops.volume_pooling import pooled_volume_shape
from headrace.ops.window import WindowAxis, given_sizes
from headrace.types import Array, Shape

__all__: list[str] = []


def _last(op: OpContext, volumes: Array) -> Array:
    return volumes.transpose(to_channels_last(op))


def _axes(op: OpContext, shape: Sequence[int]) -> list[WindowAxis]:
    order = to_channels_last(op)
    return volume_axes(op, [shape[axis] for axis in order[1:4]], inner_sizes(op, "ksize"))


@register_kernel("MaxPool3D")
def _max_pool3d(op: OpContext, volumes: Array) -> Array:
    result = np.full(pooled_volume_shape(op, Shape(volumes.shape)).as_tuple(), lowest(volumes.dtype), volumes.dtype)
    x, y = _last(op, volumes), _last(op, result)
    for outputs, inputs in window_parts(_axes(op, volumes.shape)):
        np.maximum(y[outputs], x[inputs], out=y[outputs])
    return result


@register_kernel("MaxPool3DGrad")
def _max_pool3d_grad(op: OpContext, volumes: Array, pooled: Array, gradient: Array) -> Array:
    wanted = pooled_volume_shape(op, Shape(volumes.shape))
    check_pooled(wanted, Shape(pooled.shape), "orig_output")
    check_pooled(wanted, Shape(gradient.shape), "grad")
    g = widened(_last(op, gradient))
    result = np.zeros(volumes.shape, g.dtype)
    dx = _last(op, result)
    for outputs, inputs, hit in first_hits(_axes(op, volumes.shape), _last(op, volumes), _last(op, pooled)):
        dx[inputs] += np.where(hit, g[outputs], g.dtype.type(0))
    return stored(result, gradient.dtype, None)


@register_kernel("MaxPool3DGradGrad")
def _max_pool3d_grad_grad(op: OpContext, volumes: Array, pooled: Array, gradient: Array) -> Array:
    check_pooled(pooled_volume_shape(op, Shape(volumes.shape)), Shape(pooled.shape), "orig_output")
    check_pooled(Shape(volumes.shape), Shape(gradient.shape), "grad")
    result = np.zeros(pooled.shape, volumes.dtype)
    g, y = bits_of(_last(op, np.ascontiguousarray(gradient))), bits_of(_last(op, result))
    for outputs, inputs, hit in first_hits(_axes(op, volumes.shape), _last(op, volumes), _last(op, pooled)):
        y[outputs] |= g[inputs] * hit
    return result


@register_kernel("AvgPool3D")
def _avg_pool3d(op: OpContext, volumes: Array) -> Array:
    axes = _axes(op, volumes.shape)
    x = widened(_last(op, volumes))
    result = np.zeros(pooled_volume_shape(op, Shape(volumes.shape)).as_tuple(), x.dtype)
    y = _last(op, result)
    for outputs, inputs in window_parts(axes):
        y[outputs] += x[inputs]
    y /= window_counts(axes, y.dtype)
    return stored(result, volumes.dtype, None)


@register_kernel("AvgPool3DGrad")
def _avg_pool3d_grad(op: OpContext, sizes: Array, gradient: Array) -> Array:
    shape = given_sizes(sizes, "orig_input_shape")
    check_pooled(pooled_volume_shape(op, Shape(shape)), Shape(gradient.shape), "grad")
    axes = _axes(op, shape)
    g = widened(_last(op, gradient))
    share = g / window_counts(axes, g.dtype)
    result = np.zeros(shape, g.dtype)
    dx = _last(op, result)
    for outputs, inputs in window_parts(axes):
        dx[inputs] += share[outputs]
    return stored(result, gradient.dtype, None)
