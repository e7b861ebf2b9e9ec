"""NumPy kernels of normalisation.

Images become a matrix with one column per channel; statistics of float32 are summed in float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.accumulation import column_sums, stored, widened
from headrace.kernels.registry import register_kernel
from headrace.ops.normalization import channel_axis
from headrace.types import Array, Shape

__all__: list[str] = []


@dataclass(frozen=True, slots=True)
class _Layout:
    """How images `shape` become a matrix `[pixels, channels]` and back."""

    shape: tuple[int, ...]
    axis: int

    @classmethod
    def of(cls, op: OpContext, images: Array) -> _Layout:
        return cls(images.shape, channel_axis(op.attr("data_format"), images.ndim))

    @property
    def channels(self) -> int:
        return self.shape[self.axis]

    def rows(self, images: Array) -> Array:
        return widened(np.moveaxis(images, self.axis, -1)).reshape(-1, self.channels)

    def images(self, rows: Array) -> Array:
        last = (*self.shape[: self.axis], *self.shape[self.axis + 1 :], self.channels)
        return np.moveaxis(rows.reshape(last), -1, self.axis)


@register_kernel("FusedBatchNormV3")
def _fused_batch_norm(
    op: OpContext, x: Array, scale: Array, offset: Array, mean: Array, variance: Array
) -> tuple[Array, ...]:
    layout = _Layout.of(op, x)
    rows = layout.rows(x)
    factor, training = op.attr("exponential_avg_factor"), op.attr("is_training")
    gamma, beta = widened(scale), widened(offset)
    running = None
    if not training or factor != 1.0:
        running = widened(mean), widened(variance)
    if not rows.size:
        return _without_pixels(x, scale.dtype, layout.channels)
    if training or running is None:
        used = _moments(rows, gamma.dtype)
        new = _moved(running, used, factor, len(rows))
    else:
        used = new = running
    centred = rows - used[0].astype(rows.dtype)
    centred *= (gamma / np.sqrt(used[1] + op.attr("epsilon"))).astype(rows.dtype)
    centred += beta.astype(rows.dtype)
    y = np.ascontiguousarray(layout.images(centred)).astype(x.dtype, copy=False)
    statistics = (np.array(item, scale.dtype) for item in (*new, *used))
    return (y, *statistics, np.zeros(0, scale.dtype))


@register_kernel("FusedBatchNorm")
@register_kernel("FusedBatchNormV2")
def _fused_batch_norm_before(op: OpContext, *inputs: Array) -> tuple[Array, ...]:
    """The earlier versions lack the last output, which is empty."""
    return _fused_batch_norm(op, *inputs)[:5]


def _without_pixels(x: Array, dtype: np.dtype[np.generic], channels: int) -> tuple[Array, ...]:
    """The statistics of no pixel are not numbers, as in TensorFlow."""
    undefined = np.full(channels, np.nan).astype(dtype)
    zeros = np.zeros(channels, dtype)
    return x.copy(), undefined, undefined.copy(), zeros, zeros.copy(), np.zeros(0, dtype)


def _moments(rows: Array, dtype: np.dtype[np.generic]) -> tuple[Array, Array]:
    """Mean and variance of each column; the variance from the deviations, so that a large mean costs no digits."""
    mean = column_sums(rows) / len(rows)
    variance = column_sums(np.square(rows - mean)) / len(rows)
    return mean.astype(dtype), variance.astype(dtype)


def _moved(
    running: tuple[Array, Array] | None, batch: tuple[Array, Array], factor: float, count: int
) -> tuple[Array, Array]:
    mean, variance = batch
    variance = variance * variance.dtype.type(count / max(count - 1, 1))
    if running is None:
        return mean, variance
    keep, take = mean.dtype.type(1 - factor), mean.dtype.type(factor)
    return keep * running[0] + take * mean, keep * running[1] + take * variance


@register_kernel("FusedBatchNormGrad")
@register_kernel("FusedBatchNormGradV2")
@register_kernel("FusedBatchNormGradV3")
def _fused_batch_norm_grad(
    op: OpContext, gradient: Array, x: Array, scale: Array, mean: Array, variance: Array, unused: Array | None = None
) -> tuple[Array, ...]:
    layout = _Layout.of(op, x)
    rows, g = layout.rows(x), layout.rows(gradient)
    gamma = widened(scale)
    centre, spread = widened(mean), widened(variance)
    inverse = 1 / np.sqrt(spread + op.attr("epsilon"))
    normal = (rows - centre.astype(rows.dtype)) * inverse.astype(rows.dtype)
    offset_gradient = column_sums(g)
    scale_gradient = column_sums(g * normal)
    slope = (gamma * inverse).astype(rows.dtype)
    if op.attr("is_training") and len(rows):
        count = len(rows)
        normal *= (scale_gradient / count).astype(rows.dtype)
        normal += (offset_gradient / count).astype(rows.dtype)
        dx = (g - normal) * slope
    else:
        dx = g * slope
    return (
        np.ascontiguousarray(layout.images(dx)).astype(x.dtype, copy=False),
        scale_gradient.astype(scale.dtype),
        offset_gradient.astype(scale.dtype),
        np.zeros((), scale.dtype),
        np.zeros((), scale.dtype),
    )


def _neighbour_sums(values: Array, radius: int) -> Array:
    """The sum over the channels at most `radius` away from each; channels are last."""
    channels = values.shape[-1]
    sums = values.copy()
    for distance in range(1, min(radius, channels - 1) + 1):
        sums[..., distance:] += values[..., :-distance]
        sums[..., :-distance] += values[..., distance:]
    return sums


def _norm(op: OpContext, x: Array) -> Array:
    squares = _neighbour_sums(np.square(x), op.attr("depth_radius"))
    return np.asarray(squares * x.dtype.type(op.attr("alpha")) + x.dtype.type(op.attr("bias")))


@register_kernel("LRN", takes_out=True)
def _lrn(op: OpContext, images: Array, out: Array | None = None) -> Array:
    x = widened(images)
    return stored(x * _norm(op, x) ** x.dtype.type(-op.attr("beta")), images.dtype, out)


@register_kernel("LRNGrad", takes_out=True)
def _lrn_grad(op: OpContext, gradient: Array, images: Array, outputs: Array, out: Array | None = None) -> Array:
    """dx = g N**-beta - 2 alpha beta x sum(g y / N) over the neighbours, N the base of the power."""
    g, x, y = widened(gradient), widened(images), widened(outputs)
    norm = _norm(op, x)
    shared = _neighbour_sums(g * y / norm, op.attr("depth_radius"))
    own = g * norm ** x.dtype.type(-op.attr("beta"))
    return stored(own - x.dtype.type(2 * op.attr("alpha") * op.attr("beta")) * x * shared, images.dtype, out)


def _normal_rows(op: OpContext, x: Array) -> tuple[Array, Array]:
    """The rows with mean 0 and variance 1, in the dtype to compute in, and the inverse deviations `[..., 1]`."""
    wide = widened(x)
    centred = wide - _row_means(wide)
    variance = _row_means(np.square(centred))
    inverse = 1 / np.sqrt(variance + wide.dtype.type(op.attr("epsilon")))
    return centred * inverse, inverse


@register_kernel("LayerNorm", takes_out=True)
def _layer_norm(op: OpContext, x: Array, scale: Array, offset: Array, out: Array | None = None) -> Array:
    _check_features(x, scale, offset)
    normal, _ = _normal_rows(op, x)
    return stored(normal * widened(scale) + widened(offset), x.dtype, out)


@register_kernel("LayerNormGrad")
def _layer_norm_grad(op: OpContext, gradient: Array, x: Array, scale: Array) -> tuple[Array, Array, Array]:
    """dx = r (g s - mean(g s) - n mean(g s n)) with the normal rows n, scale s and inverse deviation r."""
    Shape(gradient.shape).merge(Shape(x.shape))
    _check_features(x, scale)
    (normal, inverse), g = _normal_rows(op, x), widened(gradient)
    scaled = g * widened(scale)
    shared = _row_means(scaled) + normal * _row_means(scaled * normal)
    rows = (-1, x.shape[-1]) if x.size else (0, x.shape[-1])
    by_scale, by_offset = column_sums((g * normal).reshape(rows)), column_sums(g.reshape(rows))
    return (
        stored((scaled - shared) * inverse, x.dtype, None),
        stored(by_scale, x.dtype, None),
        stored(by_offset, x.dtype, None),
    )


def _row_means(rows: Array) -> Array:
    """The mean of each row, 0 if it has no elements: `[..., 1]`."""
    return np.asarray(rows.sum(axis=-1, keepdims=True) / max(rows.shape[-1], 1))


def _check_features(x: Array, *vectors: Array) -> None:
    for vector in vectors:
        Shape(vector.shape).merge(Shape(x.shape[-1:]))
