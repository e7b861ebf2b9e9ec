"""Pooling of volumes: the largest or the mean value of each window, and the gradients."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.attr import AttrSpec
from headrace.graph.op_def import HasAttrs, InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.pooling import check_pooled
from headrace.ops.volume import five, inner_sizes, to_channels_last, volume_outputs
from headrace.types import Shape, float32

__all__ = ["avg_pool3d", "max_pool3d", "pooled_volume_shape"]

_WINDOW: dict[str, AttrSpec] = {
    "ksize": attr.list_of(attr.int(), minimum=5),
    "strides": attr.list_of(attr.int(), minimum=5),
    "padding": attr.string(allowed=["SAME", "VALID"]),
    "data_format": attr.string("NDHWC", allowed=["NDHWC", "NCDHW"]),
}
_FLOAT = AttrSpec("type", default=float32, allowed=attr.floating.allowed)


def pooled_volume_shape(op: HasAttrs, volumes: Shape) -> Shape:
    """The shape of a pooling's output; parts may be unknown.

    Args:
      op: the operation, for its attributes.
      volumes: `[batch, depth, rows, columns, channels]` in the data format.
    """
    order = to_channels_last(op)
    known = volumes.with_rank(5)
    batch, *sizes, channels = (known[axis] for axis in order)
    windows = zip(sizes, inner_sizes(op, "ksize"), inner_sizes(op, "strides"), strict=True)
    last = [batch, *(volume_outputs(op, size, taps, stride) for size, taps, stride in windows), channels]
    return Shape([last[order.index(axis)] for axis in range(5)])


@register_op("MaxPool3D", inputs={"input": "T"}, outputs={"output": "T"}, attrs={**_WINDOW, "T": attr.floating})
def _max_pool3d_shape(op: InferenceContext) -> list[Shape]:
    """The largest value of each window; NaN if there is one in it."""
    return [pooled_volume_shape(op, op.inputs[0].shape)]


@register_op(
    "MaxPool3DGrad",
    inputs={"orig_input": "TInput", "orig_output": "TInput", "grad": "T"},
    outputs={"output": "T"},
    attrs={**_WINDOW, "T": _FLOAT, "TInput": _FLOAT},
)
def _max_pool3d_grad_shape(op: InferenceContext) -> list[Shape]:
    """The gradient of MaxPool3D: each window's gradient goes to its first largest value."""
    volumes, pooled, gradient = (item.shape for item in op.inputs)
    wanted = pooled_volume_shape(op, volumes)
    check_pooled(wanted, pooled, "orig_output")
    check_pooled(wanted, gradient, "grad")
    return [volumes.with_rank(5)]


@register_op(
    "MaxPool3DGradGrad",
    inputs={"orig_input": "T", "orig_output": "T", "grad": "T"},
    outputs={"output": "T"},
    attrs={**_WINDOW, "T": attr.ordered},
)
def _max_pool3d_grad_grad_shape(op: InferenceContext) -> list[Shape]:
    """The gradient of MaxPool3DGrad by its gradient: what stands at each window's first largest value."""
    volumes, pooled, gradient = (item.shape for item in op.inputs)
    wanted = pooled_volume_shape(op, volumes)
    check_pooled(wanted, pooled, "orig_output")
    if not volumes.is_compatible_with(gradient):
        raise ShapeError(
            "grad does not fit the volumes",
            expected=str(volumes),
            got=str(gradient),
            hint="pass the gradient by MaxPool3DGrad's output, not by the pooled volumes",
        )
    return [wanted.merge(pooled)]


@register_op("AvgPool3D", inputs={"input": "T"}, outputs={"output": "T"}, attrs={**_WINDOW, "T": attr.floating})
def _avg_pool3d_shape(op: InferenceContext) -> list[Shape]:
    """The mean of each window; padding does not count."""
    return [pooled_volume_shape(op, op.inputs[0].shape)]


@register_op(
    "AvgPool3DGrad",
    inputs={"orig_input_shape": "int32", "grad": "T"},
    outputs={"output": "T"},
    attrs={**_WINDOW, "T": attr.floating},
)
def _avg_pool3d_grad_shape(op: InferenceContext) -> list[Shape]:
    """The gradient of AvgPool3D: each window's gradient in equal parts to its inputs."""
    volumes = op.constant_shape(0).with_rank(5)
    check_pooled(pooled_volume_shape(op, volumes), op.inputs[1].shape, "grad")
    return [volumes]


def max_pool3d(
    x: TensorLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    padding: str = "VALID",
    data_format: str = "NDHWC",
    *,
    name: str | None = None,
) -> Tensor:
    """The largest value of each window of volumes, as `max_pool2d` does with images.

    Args:
      x: floating `[batch, depth, rows, columns, channels]`, or `[batch, channels, depth, rows, columns]` with
        `"NCDHW"`.
      ksize: elements of the window: one number, or one for each of depth, rows and columns.
      strides: inputs from one output to the next; those of the window by default.
      padding: `"VALID"` or `"SAME"`.
      data_format: `"NDHWC"` or `"NCDHW"`.
      name: the operation's name.
    Returns:
      `[batch, depth', rows', columns', channels]` in the data format.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.nn.max_pool3d(hr.reshape(hr.arange(8.0), [1, 2, 2, 2, 1]), 2)
      >>> print(hr.Session(graph).run(y))
      [[[[[7.]]]]]
    """
    return _pooled("MaxPool3D", x, ksize, strides, padding, data_format, name)


def avg_pool3d(
    x: TensorLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    padding: str = "VALID",
    data_format: str = "NDHWC",
    *,
    name: str | None = None,
) -> Tensor:
    """The mean of each window of volumes; padding does not count.

    Args:
      x: floating `[batch, depth, rows, columns, channels]`, or `[batch, channels, depth, rows, columns]` with
        `"NCDHW"`.
      ksize: elements of the window: one number, or one for each of depth, rows and columns.
      strides: inputs from one output to the next; those of the window by default.
      padding: `"VALID"` or `"SAME"`.
      data_format: `"NDHWC"` or `"NCDHW"`.
      name: the operation's name.
    Returns:
      `[batch, depth', rows', columns', channels]` in the data format.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.nn.avg_pool3d(hr.reshape(hr.arange(8.0), [1, 2, 2, 2, 1]), 2)
      >>> print(hr.Session(graph).run(y))
      [[[[[3.5]]]]]
    """
    return _pooled("AvgPool3D", x, ksize, strides, padding, data_format, name)


def _pooled(
    op_type: str,
    x: TensorLike,
    ksize: int | Sequence[int],
    strides: int | Sequence[int] | None,
    padding: str,
    data_format: str,
    name: str | None,
) -> Tensor:
    result: Tensor = apply_op(
        op_type,
        x,
        ksize=five(ksize, data_format),
        strides=five(ksize if strides is None else strides, data_format),
        padding=padding,
        data_format=data_format,
        name=name,
    )
    return result
