"""Convolutions of images, plain and depthwise, and the two operations of each that its gradient needs.

Each of the three is linear in its two tensors, and differentiating one of them gives the other two.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.attr import AttrSpec
from headrace.graph.op_def import HasAttrs, InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.window import DATA_FORMAT, PADDING, Window
from headrace.types import Shape, bfloat16, float16, float32, float64, int32

__all__ = [
    "Padding",
    "check_gradient_shape",
    "conv2d",
    "convolution_shape",
    "depthwise_conv2d",
    "depthwise_shape",
    "four",
    "full_sizes",
    "padding_attrs",
]

_FLOATS = (float16, bfloat16, float32, float64)
_INTEGERS_TOO = attr.type(*_FLOATS, int32)
_WINDOW: dict[str, AttrSpec] = {
    "strides": attr.list_of(attr.int()),
    "padding": PADDING,
    "explicit_paddings": attr.list_of(attr.int(), ()),
    "data_format": DATA_FORMAT,
    "dilations": attr.list_of(attr.int(), (1, 1, 1, 1)),
}
_CUDNN = {"use_cudnn_on_gpu": attr.bool(True)}
_FOR_INPUT = {"input_sizes": "int32", "filter": "T", "out_backprop": "T"}
_FOR_FILTER = {"input": "T", "filter_sizes": "int32", "out_backprop": "T"}


def convolution_shape(op: HasAttrs, images: Shape, filters: Shape) -> Shape:
    """The shape of a convolution's output; parts may be unknown.

    Args:
      op: the operation, for its attributes.
      images: `[batch, rows, columns, in]` in the data format.
      filters: `[taps, taps, in / groups, out]`.
    Raises:
      InvalidArgumentError: a filter without elements, or channels that the filter does not divide.
    """
    window = Window.of_convolution(op)
    batch, rows, columns, channels = window.sizes(images)
    height, width, depth, outputs = _filter_sizes(filters)
    if channels is not None and depth is not None:
        if channels == 0 or channels % depth:
            raise InvalidArgumentError(
                "the filter does not fit the channels of the images",
                expected="channels that are a multiple of the filter's third size",
                got=f"images {images}, filter {filters}",
                hint="filters are [rows, columns, channels, outputs]; check data_format too",
            )
        if outputs is not None and outputs % (channels // depth):
            raise InvalidArgumentError(
                "the groups of a convolution share its outputs unevenly",
                expected=f"outputs that are a multiple of {channels // depth} groups",
                got=f"images {images}, filter {filters}",
                hint="add or drop filters, or let each see all channels, which makes one group",
            )
    return window.shape(batch, window.outputs(rows, height, 0), window.outputs(columns, width, 1), outputs)


def depthwise_shape(op: HasAttrs, images: Shape, filters: Shape) -> Shape:
    """The shape of a depthwise convolution's output; parts may be unknown.

    Args:
      op: the operation, for its attributes.
      images: `[batch, rows, columns, in]` in the data format.
      filters: `[taps, taps, in, multiplier]`.

    Raises:
      InvalidArgumentError: a filter without elements, or one for another number of channels.
    """
    window = Window.of_convolution(op)
    batch, rows, columns, channels = window.sizes(images)
    height, width, depth, multiplier = _filter_sizes(filters)
    if channels is not None and depth is not None and channels != depth:
        raise InvalidArgumentError(
            "the filter is for another number of channels",
            expected=f"{channels}",
            got=f"{depth} in filter {filters}",
            hint="filters are [rows, columns, channels, multiplier]; check data_format too",
        )
    known = channels if channels is not None else depth
    outputs = None if known is None or multiplier is None else known * multiplier
    return window.shape(batch, window.outputs(rows, height, 0), window.outputs(columns, width, 1), outputs)


def _filter_sizes(filters: Shape) -> Sequence[int | None]:
    sizes = list(filters.with_rank(4))
    if 0 in sizes:
        raise InvalidArgumentError(
            "the filter has no elements",
            expected="four positive sizes",
            got=str(filters),
            hint="look where the filter is made, for a layer of 0 units or an empty slice",
        )
    return sizes


def full_sizes(op: HasAttrs, sizes: Shape, filters: Shape, gradient: Shape) -> Shape:
    """The shape of the images that `input_sizes` stands for: it may give rows and columns only."""
    if sizes.rank != 2:
        return sizes.with_rank(4)
    window = Window.of_convolution(op)
    return window.shape(window.sizes(gradient)[0], sizes[0], sizes[1], filters.with_rank(4)[2])


def check_gradient_shape(wanted: Shape, gradient: Shape) -> None:
    """Raise ShapeError unless a gradient has the shape of the output it belongs to."""
    if not wanted.is_compatible_with(gradient):
        raise ShapeError(
            "the gradient does not fit the output",
            expected=str(wanted),
            got=str(gradient),
            hint="hr.gradients passes gradients of the right shape; hr.reshape one made by hand",
        )


@register_op(
    "Conv2D",
    inputs={"input": "T", "filter": "T"},
    outputs={"output": "T"},
    attrs={"T": _INTEGERS_TOO, **_CUDNN, **_WINDOW},
)
def _conv2d_shape(op: InferenceContext) -> list[Shape]:
    """The correlation of images with filters.

    y[n, i, j, f] is the sum over a, b, c of x[n, i * s + a * d, j * s + b * d, c] * w[a, b, c, f], with stride s and
    dilation d, after padding.
    """
    return [convolution_shape(op, op.inputs[0].shape, op.inputs[1].shape)]


@register_op(
    "Conv2DBackpropInput", inputs=_FOR_INPUT, outputs={"output": "T"}, attrs={"T": _INTEGERS_TOO, **_CUDNN, **_WINDOW}
)
def _conv2d_backprop_input_shape(op: InferenceContext) -> list[Shape]:
    """The gradient of Conv2D by its images, whose shape is `input_sizes`; also called a transposed convolution."""
    filters, gradient = op.inputs[1].shape, op.inputs[2].shape
    images = full_sizes(op, op.constant_shape(0), filters, gradient)
    check_gradient_shape(convolution_shape(op, images, filters), gradient)
    return [images]


@register_op(
    "Conv2DBackpropFilter", inputs=_FOR_FILTER, outputs={"output": "T"}, attrs={"T": attr.floating, **_CUDNN, **_WINDOW}
)
def _conv2d_backprop_filter_shape(op: InferenceContext) -> list[Shape]:
    """The gradient of Conv2D by its filter, whose shape is `filter_sizes`."""
    filters = op.constant_shape(1).with_rank(4)
    check_gradient_shape(convolution_shape(op, op.inputs[0].shape, filters), op.inputs[2].shape)
    return [filters]


@register_op(
    "DepthwiseConv2dNative",
    inputs={"input": "T", "filter": "T"},
    outputs={"output": "T"},
    attrs={"T": attr.floating, **_WINDOW},
)
def _depthwise_shape(op: InferenceContext) -> list[Shape]:
    """A convolution of each channel by filters of its own: output c * multiplier + m comes from channel c alone."""
    return [depthwise_shape(op, op.inputs[0].shape, op.inputs[1].shape)]


@register_op(
    "DepthwiseConv2dNativeBackpropInput",
    inputs=_FOR_INPUT,
    outputs={"output": "T"},
    attrs={"T": attr.floating, **_WINDOW},
)
def _depthwise_backprop_input_shape(op: InferenceContext) -> list[Shape]:
    """The gradient of DepthwiseConv2dNative by its images, whose shape is `input_sizes`."""
    images = op.constant_shape(0).with_rank(4)
    check_gradient_shape(depthwise_shape(op, images, op.inputs[1].shape), op.inputs[2].shape)
    return [images]


@register_op(
    "DepthwiseConv2dNativeBackpropFilter",
    inputs=_FOR_FILTER,
    outputs={"output": "T"},
    attrs={"T": attr.floating, **_WINDOW},
)
def _depthwise_backprop_filter_shape(op: InferenceContext) -> list[Shape]:
    """The gradient of DepthwiseConv2dNative by its filter, whose shape is `filter_sizes`."""
    filters = op.constant_shape(1).with_rank(4)
    check_gradient_shape(depthwise_shape(op, op.inputs[0].shape, filters), op.inputs[2].shape)
    return [filters]


Padding = str | Sequence[Sequence[int]]
"""`"SAME"`, `"VALID"`, or the padding before and after rows and columns: `[[top, bottom], [left, right]]`."""


def four(values: int | Sequence[int], data_format: str) -> list[int]:
    """A number, or one for rows and one for columns, as the attribute with one per axis; four are taken as they are.

    Raises:
      InvalidArgumentError: there are neither one, two nor four.
    """
    given = [values, values] if isinstance(values, int) else list(values)
    if len(given) == 2:
        return [1, 1, *given] if data_format == "NCHW" else [1, *given, 1]
    if len(given) != 4:
        raise InvalidArgumentError(
            "a window is described by one number, one for rows and one for columns, or one per axis",
            expected="1, 2 or 4 numbers",
            got=str(given),
            hint="2 is a square, [2, 1] rows and columns, [1, 2, 1, 1] a window in the order NHWC",
        )
    return given


def padding_attrs(padding: Padding, data_format: str) -> dict[str, object]:
    """The attributes of a padding that was given as a word or as numbers."""
    if isinstance(padding, str):
        return {"padding": padding}
    pairs = [list(pair) for pair in padding]
    if len(pairs) == 2:
        pairs = [[0, 0], [0, 0], *pairs] if data_format == "NCHW" else [[0, 0], *pairs, [0, 0]]
    return {"padding": "EXPLICIT", "explicit_paddings": [size for pair in pairs for size in pair]}


def conv2d(
    x: TensorLike,
    filters: TensorLike,
    strides: int | Sequence[int] = 1,
    padding: Padding = "SAME",
    dilations: int | Sequence[int] = 1,
    data_format: str = "NHWC",
    *,
    name: str | None = None,
) -> Tensor:
    """The correlation of images with filters.

    Args:
      x: floating or int32 `[batch, rows, columns, in]`, or `[batch, in, rows, columns]` with `"NCHW"`.
      filters: the same dtype `[taps, taps, in / groups, out]`; with fewer channels than the images it is a grouped
        convolution.
      strides: inputs from one output to the next: one number, or one for rows and one for columns.
      padding: `"SAME"` (`ceil(size / stride)` outputs), `"VALID"` (no padding) or
        `[[top, bottom], [left, right]]`.
      dilations: inputs from one tap of the filter to the next, like `strides`.
      data_format: `"NHWC"` or `"NCHW"`.
      name: the operation's name.
    Returns:
      `[batch, rows', columns', out]` in the data format.
    Raises:
      InvalidArgumentError: a filter without elements, or channels it does not divide; a stride that is not positive.
      ShapeError: a rank is not 4, or the window does not fit into the input.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     x = hr.placeholder(hr.float32, [None, 28, 28, 1])
      ...     y = hr.nn.conv2d(x, hr.random.normal([5, 5, 1, 32], seed=1), strides=2)
      >>> print(y.shape)
      [?, 14, 14, 32]
    """
    result: Tensor = apply_op(
        "Conv2D",
        x,
        filters,
        strides=four(strides, data_format),
        dilations=four(dilations, data_format),
        data_format=data_format,
        **padding_attrs(padding, data_format),
        name=name,
    )
    return result


def depthwise_conv2d(
    x: TensorLike,
    filters: TensorLike,
    strides: int | Sequence[int] = 1,
    padding: Padding = "SAME",
    dilations: int | Sequence[int] = 1,
    data_format: str = "NHWC",
    *,
    name: str | None = None,
) -> Tensor:
    """A convolution of each channel by filters of its own; arguments as in `conv2d`.

    Args:
      x: floating `[batch, rows, columns, channels]`, or `[batch, channels, rows, columns]` with `"NCHW"`.
      filters: the same dtype `[taps, taps, channels, multiplier]`.
      strides: see `conv2d`.
      padding: see `conv2d`.
      dilations: see `conv2d`.
      data_format: `"NHWC"` or `"NCHW"`.
      name: the operation's name.
    Returns:
      `[batch, rows', columns', channels * multiplier]` in the data format.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     x, w = hr.constant(1.0, shape=[1, 4, 4, 3]), hr.constant(1.0, shape=[2, 2, 3, 2])
      ...     y = hr.nn.depthwise_conv2d(x, w, padding="VALID")
      >>> print(y.shape)
      [1, 3, 3, 6]
    """
    result: Tensor = apply_op(
        "DepthwiseConv2dNative",
        x,
        filters,
        strides=four(strides, data_format),
        dilations=four(dilations, data_format),
        data_format=data_format,
        **padding_attrs(padding, data_format),
        name=name,
    )
    return result
