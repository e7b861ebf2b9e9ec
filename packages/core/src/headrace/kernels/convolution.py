"""NumPy kernels of the convolutions: patches of the images as rows of a matrix, multiplied by BLAS.

Copying all patches at once would take taps * taps times the memory of the images, so they are made for some images at
a time. On two cores, for 64 images of 14 x 14 x 32 and 64 filters of 5 x 5, this takes 10 ms; a product per tap of the
filter, which needs no copies of patches, takes 17 ms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.lib.stride_tricks import as_strided

from headrace.graph.operation import Operation
from headrace.interfaces import OpContext
from headrace.kernels.accumulation import column_sums, stored, widened
from headrace.kernels.registry import register_kernel
from headrace.ops.convolution import check_gradient_shape, convolution_shape, depthwise_shape, full_sizes
from headrace.ops.window import Plane, Window, given_sizes
from headrace.types import Array, Shape

__all__ = ["convolve", "convolve_depthwise"]

PATCH_BYTES = 32 << 20
"""The most memory for patches at a time, unless those of one image need more."""


def _last(window: Window, images: Array) -> Array:
    """An image tensor with its channels last, as a view."""
    return images.transpose(window.to_channels_last) if window.channels_first else images


def _sizes(window: Window, images: Shape) -> tuple[int, ...]:
    """The known sizes of an image tensor, channels last."""
    return Shape(window.sizes(images)).as_tuple()


def _result(op: OpContext, window: Window, result: Array, out: Array | None) -> Array:
    """A result with channels last, in the data format and dtype of the output."""
    if window.channels_first:
        result = np.ascontiguousarray(result.transpose(0, 3, 1, 2))
    return stored(result, op.outputs[0].dtype.array_type, out)


def _plane(window: Window, images: Array, filters: tuple[int, ...]) -> Plane:
    return window.plane(images.shape[1], images.shape[2], (filters[0], filters[1]))


def _workspace(op: Operation) -> int:
    """What a convolution allocates: patches of some images, their padded images, and what is added up beside `out`."""
    images, filters, made = (op.inputs[index].shape.as_tuple() for index in (0, 1, -1))
    if op.type == "Conv2D":
        made = op.outputs[0].shape.as_tuple()
    elif op.type == "Conv2DBackpropInput":
        images = op.outputs[0].shape.as_tuple()
    else:
        filters = op.outputs[0].shape.as_tuple()
    window = Window.of_convolution(op)
    images, made = _sizes(window, Shape(images)), _sizes(window, Shape(made))
    rows, columns = window.plane(images[1], images[2], (filters[0], filters[1]))
    item = max(op.outputs[0].dtype.size, 4)
    each = rows.outputs * columns.outputs * math.prod(filters[:3]) * item
    padded = rows.span * columns.span * filters[2] * item
    block = min(images[0], max(1, PATCH_BYTES // max(1, each)))
    if op.type == "Conv2DBackpropInput":
        return block * (each + padded) + (math.prod(images) + 2 * math.prod(filters)) * item
    is_padded = (rows.span, columns.span) != images[1:3]
    return block * each + is_padded * images[0] * padded + 2 * math.prod(filters) * item


@register_kernel("Conv2D", takes_out=True, workspace=_workspace)
def _conv2d(op: OpContext, images: Array, filters: Array, out: Array | None = None) -> Array:
    shape = convolution_shape(op, Shape(images.shape), Shape(filters.shape))
    window = Window.of_convolution(op)
    x, w = widened(_last(window, images)), widened(filters)
    direct = out is not None and not window.channels_first and out.dtype == x.dtype
    y = out if direct and out is not None else np.empty(_sizes(window, shape), x.dtype)
    plane = _plane(window, x, w.shape)
    for inputs, outputs in _groups(x, w):
        _convolve(x[..., inputs], w[..., outputs], plane, y[..., outputs])
    return y if direct else _result(op, window, y, out)


def convolve(window: Window, images: Array, filters: Array, shape: tuple[int, ...]) -> Array:
    """Correlate images with filters, both with their channels last and of one floating dtype.

    Args:
      window: strides, dilations and padding.
      images: `[batch, rows, columns, in]`.
      filters: `[taps, taps, in / groups, out]`.
      shape: of the result, `[batch, rows', columns', out]`.
    """
    result = np.empty(shape, images.dtype)
    plane = _plane(window, images, filters.shape)
    for inputs, outputs in _groups(images, filters):
        _convolve(images[..., inputs], filters[..., outputs], plane, result[..., outputs])
    return result


@register_kernel("Conv2DBackpropInput", takes_out=True, workspace=_workspace)
def _conv2d_backprop_input(
    op: OpContext, sizes: Array, filters: Array, gradient: Array, out: Array | None = None
) -> Array:
    given = Shape(given_sizes(sizes, "input_sizes"))
    shape = full_sizes(op, given, Shape(filters.shape), Shape(gradient.shape))
    check_gradient_shape(convolution_shape(op, shape, Shape(filters.shape)), Shape(gradient.shape))
    window = Window.of_convolution(op)
    w, g = widened(filters), widened(_last(window, gradient))
    dx = np.zeros(_sizes(window, shape), g.dtype)
    plane = _plane(window, dx, w.shape)
    for inputs, outputs in _groups(dx, w):
        _add_images_gradient(w[..., outputs], g[..., outputs], plane, dx[..., inputs])
    return _result(op, window, dx, out)


@register_kernel("Conv2DBackpropFilter", takes_out=True, workspace=_workspace)
def _conv2d_backprop_filter(
    op: OpContext, images: Array, sizes: Array, gradient: Array, out: Array | None = None
) -> Array:
    shape = given_sizes(sizes, "filter_sizes")
    check_gradient_shape(convolution_shape(op, Shape(images.shape), Shape(shape)), Shape(gradient.shape))
    window = Window.of_convolution(op)
    x, g = widened(_last(window, images)), widened(_last(window, gradient))
    dw = np.zeros(shape, g.dtype)
    plane = _plane(window, x, shape)
    for inputs, outputs in _groups(x, dw):
        _add_filter_gradient(x[..., inputs], g[..., outputs], plane, dw[..., outputs])
    return stored(dw, op.outputs[0].dtype.array_type, out)


def _groups(images: Array, filters: Array) -> Iterator[tuple[slice, slice]]:
    """For each group of channels its inputs and outputs."""
    depth, outputs = filters.shape[2:]
    count = images.shape[3] // depth
    for group in range(count):
        yield slice(group * depth, (group + 1) * depth), slice(group * outputs // count, (group + 1) * outputs // count)


def _reaching(filters: Array, plane: Plane) -> Array:
    """The taps of the filter that read inputs."""
    rows, columns = plane[0].reach, plane[1].reach
    return filters[rows.start : rows.stop, columns.start : columns.stop]


def _convolve(x: Array, w: Array, plane: Plane, y: Array) -> None:
    """x: `[n, h, w, c]`, w: `[taps, taps, c, f]`, y: `[n, i, j, f]`, written."""
    taps = _reaching(w, plane)
    if not taps.size or not y.size:
        y[...] = 0
        return
    matrix = np.ascontiguousarray(taps).reshape(-1, w.shape[3])
    for images, patches in _patches(x, plane):
        target = y[images]
        if target.flags.c_contiguous:
            np.matmul(patches, matrix, out=target.reshape(-1, w.shape[3]))
        else:
            target[...] = np.matmul(patches, matrix).reshape(target.shape)
        del patches  # else they live until those of the next images are made


def _add_filter_gradient(x: Array, g: Array, plane: Plane, dw: Array) -> None:
    """dw += patches' g; g: `[n, i, j, f]`."""
    taps = _reaching(dw, plane)
    if not taps.size or not g.size:
        return
    for images, patches in _patches(x, plane):
        rows = np.ascontiguousarray(g[images]).reshape(-1, g.shape[3])
        taps += np.matmul(patches.T, rows).reshape(taps.shape)
        del patches  # see `_convolve`


def _add_images_gradient(w: Array, g: Array, plane: Plane, dx: Array) -> None:
    """dx += g w', each product added to the inputs that its patch came from."""
    taps = _reaching(w, plane)
    if not taps.size or not g.size:
        return
    rows, columns = plane
    matrix = np.ascontiguousarray(np.ascontiguousarray(taps).reshape(-1, w.shape[3]).T)
    for images in _blocks(len(g), rows.outputs * columns.outputs * matrix.shape[1] * g.itemsize):
        part = np.matmul(np.ascontiguousarray(g[images]).reshape(-1, g.shape[3]), matrix)
        part = part.reshape(-1, rows.outputs, columns.outputs, *taps.shape[:3])
        span = np.zeros((len(part), rows.span, columns.span, dx.shape[3]), g.dtype)
        for a, b in np.ndindex(taps.shape[:2]):
            i, j = a * rows.dilation, b * columns.dilation
            below = slice(i, i + (rows.outputs - 1) * rows.stride + 1, rows.stride)
            right = slice(j, j + (columns.outputs - 1) * columns.stride + 1, columns.stride)
            span[:, below, right] += part[:, :, :, a, b]
        (from_rows, to_rows), (from_columns, to_columns) = rows.inside, columns.inside
        dx[images, to_rows, to_columns] += span[:, from_rows, from_columns]
        del part, span  # see `_convolve`


def _blocks(count: int, bytes_each: int) -> Iterator[slice]:
    """Runs of images of which the patches fit into `PATCH_BYTES`."""
    length = max(1, PATCH_BYTES // max(1, bytes_each))
    for start in range(0, count, length):
        yield slice(start, min(start + length, count))


def _patches(x: Array, plane: Plane) -> Iterator[tuple[slice, Array]]:
    """Yield some images at a time, and what the window reads of them: `[images * i * j, taps * taps * c]`."""
    rows, columns = plane
    span = _span(x, plane)
    n, i, j, c = span.strides
    shape = (len(x), rows.outputs, columns.outputs, len(rows.reach), len(columns.reach), x.shape[3])
    strides = (n, i * rows.stride, j * columns.stride, i * rows.dilation, j * columns.dilation, c)
    windows = as_strided(span, shape, strides, writeable=False)
    width = shape[3] * shape[4] * shape[5]
    for images in _blocks(len(x), rows.outputs * columns.outputs * width * x.itemsize):
        yield images, np.ascontiguousarray(windows[images]).reshape(-1, width)


def _span(x: Array, plane: Plane) -> Array:
    """The part of the padded images that the window reads."""
    rows, columns = plane
    (to_rows, from_rows), (to_columns, from_columns) = rows.inside, columns.inside
    part = x[:, from_rows, from_columns]
    if part.shape[1:3] == (rows.span, columns.span):
        return part
    span = np.zeros((len(x), rows.span, columns.span, x.shape[3]), x.dtype)
    span[:, to_rows, to_columns] = part
    return span


Tap = Callable[[int, int, Array, Array], None]


def _each_tap(plane: Plane, outer: Array, inner: Array, visit: Tap) -> None:
    """Call `visit(a, b, outputs, inputs)` with the parts of two image tensors that meet under tap (a, b)."""
    for a, outputs_i, inputs_i in plane[0].slices():
        for b, outputs_j, inputs_j in plane[1].slices():
            visit(a, b, outer[:, outputs_i, outputs_j], inner[:, inputs_i, inputs_j])


@register_kernel("DepthwiseConv2dNative", takes_out=True)
def _depthwise(op: OpContext, images: Array, filters: Array, out: Array | None = None) -> Array:
    shape = depthwise_shape(op, Shape(images.shape), Shape(filters.shape))
    window = Window.of_convolution(op)
    y = convolve_depthwise(window, widened(_last(window, images)), widened(filters), _sizes(window, shape))
    return _result(op, window, y, out)


def convolve_depthwise(window: Window, images: Array, filters: Array, shape: tuple[int, ...]) -> Array:
    """Correlate each channel of images with filters of its own, all of one floating dtype.

    Args:
      window: strides, dilations and padding.
      images: `[batch, rows, columns, in]`.
      filters: `[taps, taps, in, multiplier]`.
      shape: of the result, `[batch, rows', columns', in * multiplier]`.
    """
    result = np.zeros(shape, images.dtype)

    def add(a: int, b: int, outputs: Array, inputs: Array) -> None:
        outputs += inputs[..., None] * filters[a, b]

    _each_tap(_plane(window, images, filters.shape), result.reshape(*shape[:3], *filters.shape[2:]), images, add)
    return result


@register_kernel("DepthwiseConv2dNativeBackpropInput", takes_out=True)
def _depthwise_backprop_input(
    op: OpContext, sizes: Array, filters: Array, gradient: Array, out: Array | None = None
) -> Array:
    shape = Shape(given_sizes(sizes, "input_sizes"))
    check_gradient_shape(depthwise_shape(op, shape, Shape(filters.shape)), Shape(gradient.shape))
    window = Window.of_convolution(op)
    w, g = widened(filters), widened(_last(window, gradient))
    dx = np.zeros(_sizes(window, shape), g.dtype)

    def add(a: int, b: int, outputs: Array, inputs: Array) -> None:
        for multiple in range(w.shape[3]):
            inputs += outputs[..., multiple] * w[a, b, :, multiple]

    _each_tap(_plane(window, dx, w.shape), g.reshape(*g.shape[:3], *w.shape[2:]), dx, add)
    return _result(op, window, dx, out)


@register_kernel("DepthwiseConv2dNativeBackpropFilter", takes_out=True)
def _depthwise_backprop_filter(
    op: OpContext, images: Array, sizes: Array, gradient: Array, out: Array | None = None
) -> Array:
    shape = given_sizes(sizes, "filter_sizes")
    check_gradient_shape(depthwise_shape(op, Shape(images.shape), Shape(shape)), Shape(gradient.shape))
    window = Window.of_convolution(op)
    x, g = widened(_last(window, images)), widened(_last(window, gradient))
    dw = np.zeros(shape, g.dtype)

    def add(a: int, b: int, outputs: Array, inputs: Array) -> None:
        products = inputs[..., None] * outputs
        dw[a, b] = column_sums(products.reshape(-1, dw.shape[2] * dw.shape[3])).reshape(dw.shape[2:])

    _each_tap(_plane(window, x, shape), g.reshape(*g.shape[:3], *shape[2:]), x, add)
    return stored(dw, op.outputs[0].dtype.array_type, out)
