"""Convolutions of volumes: images with an axis of depth or time, and the two operations that their gradient needs."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import AttrError, InvalidArgumentError, ShapeError, UnimplementedError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.attr import AttrSpec
from headrace.graph.op_def import HasAttrs, InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.convolution import check_gradient_shape
from headrace.ops.window import WindowAxis
from headrace.types import Shape

__all__ = ["conv3d", "five", "inner_sizes", "to_channels_last", "volume_axes", "volume_outputs", "volume_shape"]

_WINDOW: dict[str, AttrSpec] = {
    "T": attr.floating,
    "strides": attr.list_of(attr.int(), minimum=5),
    "padding": attr.string(allowed=["SAME", "VALID"]),
    "data_format": attr.string("NDHWC", allowed=["NDHWC", "NCDHW"]),
    "dilations": attr.list_of(attr.int(), (1, 1, 1, 1, 1)),
}


def to_channels_last(op: HasAttrs) -> tuple[int, ...]:
    """The permutation of axes that brings volumes to NDHWC."""
    return (0, 2, 3, 4, 1) if op.attr("data_format") == "NCDHW" else (0, 1, 2, 3, 4)


def inner_sizes(op: HasAttrs, name: str) -> tuple[int, ...]:
    """Of five numbers, one per axis, those of depth, rows and columns."""
    values = op.attr(name)
    if len(values) != 5 or min(values) < 1:
        raise AttrError(
            f"attr '{name}' is not right",
            expected="five positive integers, one per axis",
            got=str(list(values)),
            hint=f"in hr.nn one number stands for depth, rows and columns, such as {name}=2",
        )
    batch, *inner, channels = (values[axis] for axis in to_channels_last(op))
    if (batch, channels) != (1, 1):
        raise UnimplementedError(
            f"attr '{name}' reaches over volumes or channels",
            expected="1 for these two axes",
            got=str(list(values)),
            hint="NCDHW has depth, rows and columns last; x[::2] skips volumes",
        )
    return tuple(inner)


def volume_axes(
    op: HasAttrs, sizes: Sequence[int], taps: Sequence[int], dilations: Sequence[int] = (1, 1, 1)
) -> list[WindowAxis]:
    """The three axes along which the window slides.

    Args:
      op: the operation, for its attributes.
      sizes: depth, rows and columns of the volumes.
      taps: those of the window.
      dilations: inputs from one tap to the next.
    """
    axes = []
    given = zip(sizes, taps, inner_sizes(op, "strides"), dilations, strict=True)
    for size, count, stride, dilation in given:
        outputs = volume_outputs(op, size, count, stride, dilation) or 0
        before = max(0, (outputs - 1) * stride + (count - 1) * dilation + 1 - size) // 2
        axes.append(WindowAxis(size, count, stride, dilation, before if op.attr("padding") == "SAME" else 0, outputs))
    return axes


def volume_outputs(op: HasAttrs, size: int | None, taps: int | None, stride: int, dilation: int = 1) -> int | None:
    """The size of the output along one axis.

    Args:
      op: the operation, for its padding.
      size: of the volumes.
      taps: elements of the window.
      stride: inputs from one output to the next.
      dilation: inputs from one tap to the next.
    Raises:
      ShapeError: the window is larger than the volumes.
    """
    if size is None:
        return None
    if op.attr("padding") == "SAME":
        return -(-size // stride)
    if taps is None:
        return None
    reach = (taps - 1) * dilation + 1
    if size < reach:
        raise ShapeError(
            "the window does not fit into the volume",
            expected=f"at least {reach} inputs for {taps} taps with dilation {dilation}",
            got=str(size),
            hint="padding='SAME' pads as needed; otherwise take a smaller window or larger volumes",
        )
    return (size - reach) // stride + 1


def volume_shape(op: HasAttrs, volumes: Shape, filters: Shape) -> Shape:
    """The shape of the convolution's output; parts may be unknown.

    Args:
      op: the operation, for its attributes.
      volumes: `[batch, depth, rows, columns, in]` in the data format.
      filters: `[taps, taps, taps, in / groups, out]`.
    Raises:
      InvalidArgumentError: a filter without elements, or channels that the filter does not divide.
    """
    order = to_channels_last(op)
    known = volumes.with_rank(5)
    batch, *sizes, channels = (known[axis] for axis in order)
    *taps, depth, outputs = filters.with_rank(5)
    if 0 in (*taps, depth, outputs):
        raise InvalidArgumentError(
            "the filter has no elements",
            expected="five positive sizes",
            got=str(filters),
            hint="look where the filter is made, for a layer of 0 units or an empty slice",
        )
    if channels is not None and depth is not None:
        groups = channels // depth
        if not groups or channels % depth or (outputs is not None and outputs % groups):
            raise InvalidArgumentError(
                "the filter does not fit the channels of the volumes",
                expected="channels that are a multiple of the filter's fourth size, and outputs for each group",
                got=f"volumes {volumes}, filter {filters}",
                hint="filters are [depth, rows, columns, channels, outputs]; check data_format too",
            )
    moves = zip(sizes, taps, inner_sizes(op, "strides"), inner_sizes(op, "dilations"), strict=True)
    last = [batch, *(volume_outputs(op, *given) for given in moves), outputs]
    return Shape([last[order.index(axis)] for axis in range(5)])


@register_op("Conv3D", inputs={"input": "T", "filter": "T"}, outputs={"output": "T"}, attrs=_WINDOW)
def _conv3d_shape(op: InferenceContext) -> list[Shape]:
    """The correlation of volumes with filters, as Conv2D with one more axis in front of the rows."""
    return [volume_shape(op, op.inputs[0].shape, op.inputs[1].shape)]


@register_op(
    "Conv3DBackpropInputV2",
    inputs={"input_sizes": "Tshape", "filter": "T", "out_backprop": "T"},
    outputs={"output": "T"},
    attrs={**_WINDOW, "Tshape": attr.index_type},
)
def _conv3d_backprop_input_shape(op: InferenceContext) -> list[Shape]:
    """The gradient of Conv3D by its volumes, whose shape is `input_sizes`; also called a transposed convolution."""
    volumes = op.constant_shape(0).with_rank(5)
    check_gradient_shape(volume_shape(op, volumes, op.inputs[1].shape), op.inputs[2].shape)
    return [volumes]


@register_op(
    "Conv3DBackpropFilterV2",
    inputs={"input": "T", "filter_sizes": "int32", "out_backprop": "T"},
    outputs={"output": "T"},
    attrs=_WINDOW,
)
def _conv3d_backprop_filter_shape(op: InferenceContext) -> list[Shape]:
    """The gradient of Conv3D by its filter, whose shape is `filter_sizes`."""
    filters = op.constant_shape(1).with_rank(5)
    check_gradient_shape(volume_shape(op, op.inputs[0].shape, filters), op.inputs[2].shape)
    return [filters]


def conv3d(
    x: TensorLike,
    filters: TensorLike,
    strides: int | Sequence[int] = 1,
    padding: str = "VALID",
    dilations: int | Sequence[int] = 1,
    data_format: str = "NDHWC",
    *,
    name: str | None = None,
) -> Tensor:
    """Correlate volumes with filters, as `conv2d` does with images.

    Args:
      x: floating `[batch, depth, rows, columns, in]`, or `[batch, in, depth, rows, columns]` with `"NCDHW"`.
      filters: the same dtype `[taps, taps, taps, in / groups, out]`.
      strides: inputs from one output to the next: one number, or one for each of depth, rows and columns.
      padding: `"VALID"` or `"SAME"`.
      dilations: inputs from one tap to the next.
      data_format: `"NDHWC"` or `"NCDHW"`.
      name: the operation's name.
    Returns:
      `[batch, depth', rows', columns', out]` in the data format.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.nn.conv3d(hr.ones([1, 2, 2, 2, 1]), hr.ones([2, 2, 2, 1, 1]))
      >>> print(hr.Session(graph).run(y))
      [[[[[8.]]]]]
    """
    result: Tensor = apply_op(
        "Conv3D",
        x,
        filters,
        strides=five(strides, data_format),
        padding=padding,
        dilations=five(dilations, data_format),
        data_format=data_format,
        name=name,
    )
    return result


def five(values: int | Sequence[int], data_format: str) -> list[int]:
    """One number, or one for each of depth, rows and columns, as one for each axis."""
    inner = [values] * 3 if isinstance(values, int) else list(values)
    return [1, 1, *inner] if data_format == "NCDHW" else [1, *inner, 1]
