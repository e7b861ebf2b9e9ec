"""Pooling: the largest or the mean value of each window of an image, and the gradients."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.attr import AttrSpec, AttrValue
from headrace.graph.op_def import HasAttrs, InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.convolution import Padding, four, padding_attrs
from headrace.ops.window import DATA_FORMAT, PADDING, Window
from headrace.types import Shape, float32, int32, int64

__all__ = ["ChannelsLast", "avg_pool2d", "check_pooled", "max_pool2d", "max_pool2d_with_argmax", "pooled_shape"]

_SIZES = {"ksize": attr.list_of(attr.int(), minimum=4), "strides": attr.list_of(attr.int(), minimum=4)}
_WITHOUT_PADS: dict[str, AttrSpec] = {
    **_SIZES,
    "padding": attr.string(allowed=["SAME", "VALID"]),
    "data_format": DATA_FORMAT,
}
_WITH_PADS: dict[str, AttrSpec] = {
    **_SIZES,
    "padding": PADDING,
    "explicit_paddings": attr.list_of(attr.int(), ()),
    "data_format": DATA_FORMAT,
}
_ORDERED_FLOAT = AttrSpec("type", default=float32, allowed=attr.ordered.allowed)
_MAX_GRADIENT = {"orig_input": "T", "orig_output": "T", "grad": "T"}


def pooled_shape(op: HasAttrs, images: Shape, pads: Sequence[int] = ()) -> Shape:
    """The shape of a pooling's output; parts may be unknown.

    Args:
      op: the operation, for its attributes.
      images: `[batch, rows, columns, channels]` in the data format.
      pads: the attribute `explicit_paddings`, where the operation has one.
    """
    window, taps = Window.of_pooling(op, pads)
    batch, rows, columns, channels = window.sizes(images)
    return window.shape(batch, window.outputs(rows, taps[0], 0), window.outputs(columns, taps[1], 1), channels)


def check_pooled(wanted: Shape, given: Shape, what: str) -> None:
    """Raise ShapeError unless a tensor has the shape of the pooling's output."""
    if not wanted.is_compatible_with(given):
        raise ShapeError(
            f"{what} does not fit the pooling",
            expected=str(wanted),
            got=str(given),
            hint="give this op the ksize, strides, padding and data_format of the forward pooling",
        )


@register_op("MaxPool", inputs={"input": "T"}, outputs={"output": "T"}, attrs={"T": _ORDERED_FLOAT, **_WITH_PADS})
def _max_pool_shape(op: InferenceContext) -> list[Shape]:
    """The largest value of each window; NaN if there is one in it."""
    return [pooled_shape(op, op.inputs[0].shape, op.attr("explicit_paddings"))]


@register_op("MaxPoolGrad", inputs=_MAX_GRADIENT, outputs={"output": "T"}, attrs={**_WITH_PADS, "T": _ORDERED_FLOAT})
def _max_pool_grad_shape(op: InferenceContext) -> list[Shape]:
    """The gradient of MaxPool: each window's gradient goes to its first largest value."""
    images, pooled, gradient = (item.shape for item in op.inputs)
    wanted = pooled_shape(op, images, op.attr("explicit_paddings"))
    check_pooled(wanted, pooled, "orig_output")
    check_pooled(wanted, gradient, "grad")
    return [images.with_rank(4)]


@register_op(
    "MaxPoolGradGrad", inputs=_MAX_GRADIENT, outputs={"output": "T"}, attrs={**_WITHOUT_PADS, "T": attr.ordered}
)
def _max_pool_grad_grad_shape(op: InferenceContext) -> list[Shape]:
    """The gradient of MaxPoolGrad by its gradient.

    `grad` has the shape of the images; what stands there at each window's first largest value comes out.
    """
    images, pooled, gradient = (item.shape for item in op.inputs)
    wanted = pooled_shape(op, images)
    check_pooled(wanted, pooled, "orig_output")
    if not images.is_compatible_with(gradient):
        raise ShapeError(
            "grad does not fit the images",
            expected=str(images),
            got=str(gradient),
            hint="pass the gradient by MaxPoolGrad's output, not by the pooled images",
        )
    return [wanted.merge(pooled)]


_ARGMAX: dict[str, AttrSpec] = {
    **_SIZES,
    "padding": attr.string(allowed=["SAME", "VALID"]),
    "include_batch_in_index": attr.bool(False),
    "T": attr.ordered,
}


class ChannelsLast:
    """An operation that has no attribute for the data format, seen as one that has.

    Args:
      op: the operation.
    """

    def __init__(self, op: HasAttrs) -> None:
        self._op = op

    def attr(self, name: str) -> AttrValue:
        """The value of an attribute."""
        return "NHWC" if name == "data_format" else self._op.attr(name)


@register_op(
    "MaxPoolWithArgmax",
    inputs={"input": "T"},
    outputs={"output": "T", "argmax": "Targmax"},
    attrs={**_ARGMAX, "Targmax": AttrSpec("type", default=int64, allowed=(int32, int64))},
)
def _max_pool_with_argmax_shape(op: InferenceContext) -> list[Shape]:
    """The largest value of each window, and the place of the first such: (row * columns + column) * channels + channel.

    With `include_batch_in_index` the images before it count too.
    """
    return [pooled_shape(ChannelsLast(op), op.inputs[0].shape)] * 2


def _argmax_gradient(op: InferenceContext, gradient: Shape) -> None:
    pooled = pooled_shape(ChannelsLast(op), op.inputs[0].shape)
    check_pooled(pooled, gradient, "grad")
    check_pooled(pooled, op.inputs[2].shape, "argmax")


@register_op(
    "MaxPoolGradWithArgmax",
    inputs={"input": "T", "grad": "T", "argmax": "Targmax"},
    outputs={"output": "T"},
    attrs={**_ARGMAX, "Targmax": attr.type(int32, int64)},
)
def _max_pool_grad_with_argmax_shape(op: InferenceContext) -> list[Shape]:
    """The gradient of MaxPoolWithArgmax: each window's gradient at the value that it took."""
    _argmax_gradient(op, op.inputs[1].shape)
    return [op.inputs[0].shape]


@register_op(
    "MaxPoolGradGradWithArgmax",
    inputs={"input": "T", "grad": "T", "argmax": "Targmax"},
    outputs={"output": "T"},
    attrs={**_ARGMAX, "Targmax": attr.type(int32, int64)},
)
def _max_pool_grad_grad_with_argmax_shape(op: InferenceContext) -> list[Shape]:
    """For each window what `grad` has at the place of the value that it took."""
    _argmax_gradient(op, Shape())
    op.inputs[0].shape.merge(op.inputs[1].shape)
    return [op.inputs[2].shape]


@register_op("AvgPool", inputs={"value": "T"}, outputs={"output": "T"}, attrs={**_WITHOUT_PADS, "T": attr.floating})
def _avg_pool_shape(op: InferenceContext) -> list[Shape]:
    """The mean of each window; padding does not count."""
    return [pooled_shape(op, op.inputs[0].shape)]


@register_op(
    "AvgPoolGrad",
    inputs={"orig_input_shape": "int32", "grad": "T"},
    outputs={"output": "T"},
    attrs={**_WITHOUT_PADS, "T": attr.floating},
)
def _avg_pool_grad_shape(op: InferenceContext) -> list[Shape]:
    """The gradient of AvgPool: each window's gradient in equal parts to its inputs."""
    images = op.constant_shape(0).with_rank(4)
    check_pooled(pooled_shape(op, images), op.inputs[1].shape, "grad")
    return [images]


def max_pool2d(
    x: TensorLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    padding: Padding = "VALID",
    data_format: str = "NHWC",
    *,
    name: str | None = None,
) -> Tensor:
    """The largest value of each window of an image.

    Args:
      x: an ordered dtype `[batch, rows, columns, channels]`, or `[batch, channels, rows, columns]` with `"NCHW"`.
      ksize: the window: one number, or one for rows and one for columns.
      strides: inputs from one window to the next; by default the window's size, so that windows do not overlap.
      padding: `"VALID"`, `"SAME"` or `[[top, bottom], [left, right]]`; padding is never the largest.
      data_format: `"NHWC"` or `"NCHW"`.
      name: the operation's name.
    Returns:
      The same dtype `[batch, rows', columns', channels]` in the data format. The gradient of a window goes to the first
      of its largest values.
    Raises:
      InvalidArgumentError: a window or stride that is not positive, or a padding as large as the window.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.nn.max_pool2d([[[[1.0], [5.0]], [[3.0], [2.0]]]], 2)
      >>> print(hr.Session(graph).run(y))
      [[[[5.]]]]
    """
    result: Tensor = apply_op(
        "MaxPool",
        x,
        ksize=four(ksize, data_format),
        strides=four(ksize if strides is None else strides, data_format),
        data_format=data_format,
        **padding_attrs(padding, data_format),
        name=name,
    )
    return result


def max_pool2d_with_argmax(
    x: TensorLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    padding: str = "VALID",
    *,
    include_batch_in_index: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The largest value of each window of an image, and where it is.

    Args:
      x: an ordered dtype `[batch, rows, columns, channels]`.
      ksize: see `max_pool2d`.
      strides: see `max_pool2d`.
      padding: `"VALID"` or `"SAME"`.
      include_batch_in_index: count from the first image instead of from each.
      name: the operation's name.
    Returns:
      The values `[batch, rows', columns', channels]`, and int64 of the same shape: the first place of each in its
      flattened image.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y, place = hr.nn.max_pool2d_with_argmax([[[[1.0], [5.0]], [[3.0], [2.0]]]], 2)
      >>> print(hr.Session(graph).run(place))
      [[[[1]]]]
    """
    values, places = apply_op(
        "MaxPoolWithArgmax",
        x,
        ksize=four(ksize, "NHWC"),
        strides=four(ksize if strides is None else strides, "NHWC"),
        padding=padding,
        include_batch_in_index=include_batch_in_index,
        name=name,
    )
    return values, places


def avg_pool2d(
    x: TensorLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    padding: str = "VALID",
    data_format: str = "NHWC",
    *,
    name: str | None = None,
) -> Tensor:
    """The mean of each window of an image; arguments as in `max_pool2d`.

    Args:
      x: floating `[batch, rows, columns, channels]`, or `[batch, channels, rows, columns]` with `"NCHW"`.
      ksize: see `max_pool2d`.
      strides: see `max_pool2d`.
      padding: `"VALID"` or `"SAME"`; padding does not count.
      data_format: `"NHWC"` or `"NCHW"`.
      name: the operation's name.
    Returns:
      The same dtype `[batch, rows', columns', channels]` in the data format.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.nn.avg_pool2d([[[[1.0], [5.0]], [[3.0], [2.0]]]], 2)
      >>> print(hr.Session(graph).run(y))
      [[[[2.75]]]]
    """
    result: Tensor = apply_op(
        "AvgPool",
        x,
        ksize=four(ksize, data_format),
        strides=four(ksize if strides is None else strides, data_format),
        data_format=data_format,
        padding=padding,
        name=name,
    )
    return result
