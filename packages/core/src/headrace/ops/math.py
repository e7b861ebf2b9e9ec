"""Element-wise mathematics, comparisons and reductions."""

from __future__ import annotations

from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.graph.operators import overload_operator
from headrace.ops.promotion import promoted
from headrace.types import Shape, broadcast_shapes

__all__ = ["add", "multiply"]


def _binary_shape(op: InferenceContext) -> list[Shape]:
    return [broadcast_shapes(op.inputs[0].shape, op.inputs[1].shape)]


@register_op("AddV2", inputs={"x": "T", "y": "T"}, outputs={"z": "T"}, attrs={"T": attr.numeric}, commutative=True)
def _add_shape(op: InferenceContext) -> list[Shape]:
    """x + y, broadcast."""
    return _binary_shape(op)


@register_op("Mul", inputs={"x": "T", "y": "T"}, outputs={"z": "T"}, attrs={"T": attr.numeric}, commutative=True)
def _mul_shape(op: InferenceContext) -> list[Shape]:
    """x * y, broadcast."""
    return _binary_shape(op)


@overload_operator("add")
def add(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """x + y, element by element.

    Args:
      x: numeric, any shape.
      y: numeric, a shape that broadcasts with that of `x`.
      name: the operation's name.
    Returns:
      The promoted dtype and the broadcast shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.add([1.0, 2.0], 3)
      >>> print(hr.Session(graph).run(z))
      [4. 5.]
    """
    result: Tensor = apply_op("AddV2", *promoted(x, y), name=name)
    return result


@overload_operator("multiply")
def multiply(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """x * y, element by element; see `add`."""
    result: Tensor = apply_op("Mul", *promoted(x, y), name=name)
    return result
