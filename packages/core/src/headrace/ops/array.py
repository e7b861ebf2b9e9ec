"""Operations that create, shape, slice and join tensors."""

from __future__ import annotations

from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.graph.scopes import current_graph
from headrace.types import DTypeLike, Shape, ShapeLike, as_dtype, as_shape

__all__ = ["cast", "placeholder"]


@register_op("Const", outputs={"output": "dtype"}, attrs={"value": attr.tensor(), "dtype": attr.any_type})
def _const_shape(op: InferenceContext) -> list[Shape]:
    """A constant; its value is an attribute."""
    return [Shape(op.attr("value").shape)]


@register_op("Placeholder", outputs={"output": "dtype"}, attrs={"dtype": attr.any_type, "shape": attr.shape(Shape())})
def _placeholder_shape(op: InferenceContext) -> list[Shape]:
    """A tensor that has no value of its own: it must be fed."""
    shape: Shape = op.attr("shape")
    return [shape]


@register_op(
    "Cast",
    inputs={"x": "SrcT"},
    outputs={"y": "DstT"},
    attrs={"SrcT": attr.any_type, "DstT": attr.any_type, "Truncate": attr.bool(False)},
)
def _cast_shape(op: InferenceContext) -> list[Shape]:
    """The values converted to another element type."""
    return [op.inputs[0].shape]


def placeholder(dtype: DTypeLike, shape: ShapeLike = None, *, name: str | None = None) -> Tensor:
    """A tensor that each step feeds with a value.

    Args:
      dtype: the element type.
      shape: the static shape; None as a whole or as a size means unknown.
      name: the name by which errors call it.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     print(hr.placeholder(hr.float32, [None, 3], name="x").spec)
      float32[?, 3]
    """
    attrs = {"dtype": as_dtype(dtype), "shape": as_shape(shape)}
    return current_graph().create_op("Placeholder", (), attrs, name=name).outputs[0]


def cast(x: TensorLike, dtype: DTypeLike, *, name: str | None = None) -> Tensor:
    """`x` with its elements converted to `dtype`.

    Args:
      x: any numeric or bool dtype, any shape.
      dtype: the new element type. Floats become integers by truncation towards zero; NaN, infinities and numbers beyond
        the integer's range become its lowest value.
      name: the operation's name.
    Returns:
      The same shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.cast([1.7, -1.7], hr.int32)
      >>> print(hr.Session(graph).run(y))
      [ 1 -1]
    """
    result: Tensor = apply_op("Cast", x, DstT=as_dtype(dtype), name=name)
    return result
