"""NumPy kernels of pooling: one pass over the images per tap of the window, none per pixel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from headrace.errors import OutOfRangeError
from headrace.interfaces import OpContext
from headrace.kernels.accumulation import stored, widened
from headrace.kernels.registry import register_kernel
from headrace.ops.pooling import ChannelsLast, check_pooled, pooled_shape
from headrace.ops.window import Plane, Window, WindowAxis, given_sizes
from headrace.types import Array, Shape

__all__ = ["bits_of", "first_hits", "lowest", "window_counts", "window_parts"]

Place = tuple[slice, ...]


def _window(op: OpContext, images: Sequence[int], pads: Sequence[int] = ()) -> tuple[Window, Plane]:
    window, taps = Window.of_pooling(op, pads)
    _, rows, columns, _ = (images[axis] for axis in window.to_channels_last)
    return window, window.plane(rows, columns, taps)


def _last(window: Window, images: Array) -> Array:
    """An image tensor with its channels last, as a view: no kernel here needs them to be neighbours in memory."""
    return images.transpose(window.to_channels_last)


def window_parts(axes: Sequence[WindowAxis]) -> Iterator[tuple[Place, Place]]:
    """For each tap of the window, in order, the outputs and the inputs that meet under it; channels are last."""
    for taps in product(*(list(axis.slices()) for axis in axes)):
        yield (slice(None), *(outputs for _, outputs, _ in taps)), (slice(None), *(inputs for _, _, inputs in taps))


@register_kernel("MaxPool", takes_out=True)
def _max_pool(op: OpContext, images: Array, out: Array | None = None) -> Array:
    pads = op.attr("explicit_paddings")
    shape = pooled_shape(op, Shape(images.shape), pads).as_tuple()
    window, plane = _window(op, images.shape, pads)
    result = np.empty(shape, images.dtype) if out is None else out
    x, y = _last(window, images), _last(window, result)
    y[...] = lowest(images.dtype)
    for outputs, inputs in window_parts(plane):
        np.maximum(y[outputs], x[inputs], out=y[outputs])
    return result


def lowest(dtype: np.dtype[np.generic]) -> float | int:
    """What every value of a dtype is at least as large as."""
    return int(np.iinfo(dtype.name).min) if dtype.kind in "iu" else -np.inf


def first_hits(plane: Sequence[WindowAxis], x: Array, y: Array) -> Iterator[tuple[Place, Place, Array]]:
    """For each tap its outputs, its inputs, and where it holds the window's first largest value.

    A NaN makes the window's value NaN, so it is what the window gives.
    """
    free = np.ones(y.shape, np.bool_)
    has_nan = y.dtype.kind not in "iu" and bool(np.isnan(y).any())
    for outputs, inputs in window_parts(plane):
        values = x[inputs]
        hit = values == y[outputs]
        if has_nan:
            hit |= np.isnan(values)
        hit &= free[outputs]
        free[outputs] ^= hit
        yield outputs, inputs, hit


def bits_of(values: Array) -> Array:
    """The same memory seen as integers: multiplied by a mask, they let no infinity or NaN through where it is false."""
    return values.view(np.dtype(f"u{values.dtype.itemsize}"))


@register_kernel("MaxPoolGrad", takes_out=True)
def _max_pool_grad(op: OpContext, images: Array, pooled: Array, gradient: Array, out: Array | None = None) -> Array:
    pads = op.attr("explicit_paddings")
    wanted = pooled_shape(op, Shape(images.shape), pads)
    check_pooled(wanted, Shape(pooled.shape), "orig_output")
    check_pooled(wanted, Shape(gradient.shape), "grad")
    window, plane = _window(op, images.shape, pads)
    g = widened(_last(window, gradient))
    apart = all(axis.stride >= axis.taps for axis in plane)
    direct = apart and g.dtype == images.dtype and out is not None
    result = out if direct and out is not None else np.empty(images.shape, g.dtype)
    result[...] = 0
    dx = _last(window, result)
    for outputs, inputs, hit in first_hits(plane, _last(window, images), _last(window, pooled)):
        if apart:
            np.multiply(bits_of(g)[outputs], hit, out=bits_of(dx)[inputs])
        else:
            dx[inputs] += (bits_of(g)[outputs] * hit).view(g.dtype)
    return result if direct else stored(result, images.dtype, out)


@register_kernel("MaxPoolGradGrad", takes_out=True)
def _max_pool_grad_grad(
    op: OpContext, images: Array, pooled: Array, gradient: Array, out: Array | None = None
) -> Array:
    check_pooled(pooled_shape(op, Shape(images.shape)), Shape(pooled.shape), "orig_output")
    check_pooled(Shape(images.shape), Shape(gradient.shape), "grad")
    window, plane = _window(op, images.shape)
    result = np.zeros(pooled.shape, images.dtype)
    g, y = bits_of(_last(window, np.ascontiguousarray(gradient))), bits_of(_last(window, result))
    for outputs, inputs, hit in first_hits(plane, _last(window, images), _last(window, pooled)):
        y[outputs] |= g[inputs] * hit
    return stored(result, images.dtype, out)


@register_kernel("MaxPoolWithArgmax")
def _max_pool_with_argmax(op: OpContext, images: Array) -> tuple[Array, Array]:
    plain = ChannelsLast(op)
    shape = pooled_shape(plain, Shape(images.shape)).as_tuple()
    window, taps = Window.of_pooling(plain)
    plane = window.plane(images.shape[1], images.shape[2], taps)
    values = np.full(shape, lowest(images.dtype), images.dtype)
    for outputs, inputs in window_parts(plane):
        np.maximum(values[outputs], images[inputs], out=values[outputs])
    numbers = np.arange(images.size, dtype=np.int64).reshape(images.shape)
    if not op.attr("include_batch_in_index"):
        numbers %= max(images[:1].size, 1)
    places = np.zeros(shape, np.int64)
    for outputs, inputs, hit in first_hits(plane, images, values):
        np.copyto(places[outputs], numbers[inputs], where=hit)
    return values, places.astype(op.attr("Targmax").array_type)


def _places(op: OpContext, images: Array, argmax: Array) -> Array:
    """The places as positions in all images, flattened."""
    wanted = pooled_shape(ChannelsLast(op), Shape(images.shape))
    check_pooled(wanted, Shape(argmax.shape), "argmax")
    places = argmax.astype(np.int64)
    each = images[:1].size
    if not op.attr("include_batch_in_index"):
        places = places + (np.arange(len(images)) * each).reshape(-1, 1, 1, 1)
    if places.size and (int(places.min()) < 0 or int(places.max()) >= images.size):
        raise OutOfRangeError(
            "a place is not in the images",
            expected=f"0 <= argmax < {images.size if op.attr('include_batch_in_index') else each}",
            got=str(argmax.reshape(-1)[:8].tolist()),
            hint="pass the second output of MaxPoolWithArgmax on the same images",
        )
    return places


@register_kernel("MaxPoolGradWithArgmax")
def _max_pool_grad_with_argmax(op: OpContext, images: Array, gradient: Array, argmax: Array) -> Array:
    places = _places(op, images, argmax)
    check_pooled(Shape(argmax.shape), Shape(gradient.shape), "grad")
    result = np.zeros(images.size, widened(gradient).dtype)
    np.add.at(result, places.reshape(-1), widened(gradient).reshape(-1))
    return stored(result.reshape(images.shape), images.dtype, None)


@register_kernel("MaxPoolGradGradWithArgmax")
def _max_pool_grad_grad_with_argmax(op: OpContext, images: Array, gradient: Array, argmax: Array) -> Array:
    check_pooled(Shape(images.shape), Shape(gradient.shape), "grad")
    return np.asarray(gradient.reshape(-1)[_places(op, images, argmax)])


def window_counts(axes: Sequence[WindowAxis], dtype: np.dtype[np.generic]) -> Array:
    """How many inputs each window covers: `[outputs of each axis..., 1]`."""
    total = np.ones(())
    for axis in axes:
        counts = np.zeros(axis.outputs)
        for _, outputs, _ in axis.slices():
            counts[outputs] += 1
        total = np.multiply.outer(total, counts)
    return total[..., None].astype(dtype)


@register_kernel("AvgPool", takes_out=True)
def _avg_pool(op: OpContext, images: Array, out: Array | None = None) -> Array:
    shape = pooled_shape(op, Shape(images.shape)).as_tuple()
    window, plane = _window(op, images.shape)
    x = widened(images)
    result = np.zeros(shape, x.dtype)
    x, y = _last(window, x), _last(window, result)
    for outputs, inputs in window_parts(plane):
        y[outputs] += x[inputs]
    y /= window_counts(plane, y.dtype)
    return stored(result, images.dtype, out)


@register_kernel("AvgPoolGrad", takes_out=True)
def _avg_pool_grad(op: OpContext, sizes: Array, gradient: Array, out: Array | None = None) -> Array:
    shape = given_sizes(sizes, "orig_input_shape")
    check_pooled(pooled_shape(op, Shape(shape)), Shape(gradient.shape), "grad")
    window, plane = _window(op, shape)
    g = widened(gradient)
    result = np.zeros(shape, g.dtype)
    share = _last(window, g) / window_counts(plane, g.dtype)
    dx = _last(window, result)
    for outputs, inputs in window_parts(plane):
        dx[inputs] += share[outputs]
    return stored(result, gradient.dtype, out)
