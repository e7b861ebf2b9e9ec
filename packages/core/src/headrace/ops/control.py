"""Operations that move values without changing them: identity, grouping, and the edges of bounded graphs."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Operation, Tensor
from headrace.graph.scopes import control_dependencies, current_graph
from headrace.types import Shape

__all__ = ["group", "identity", "stop_gradient"]


@register_op("NoOp")
def _no_op_shape(op: InferenceContext) -> list[Shape]:
    """Nothing; it serves as an end point of control edges."""
    return []


@register_op("Identity", inputs={"input": "T"}, outputs={"output": "T"})
def _identity_shape(op: InferenceContext) -> list[Shape]:
    """The input, unchanged."""
    return [op.inputs[0].shape]


@register_op("StopGradient", inputs={"input": "T"}, outputs={"output": "T"})
def _stop_gradient_shape(op: InferenceContext) -> list[Shape]:
    """The input, unchanged, taken as a constant by differentiation."""
    return [op.inputs[0].shape]


@register_op("PreventGradient", inputs={"input": "T"}, outputs={"output": "T"}, attrs={"message": attr.string("")})
def _prevent_gradient_shape(op: InferenceContext) -> list[Shape]:
    """The input, unchanged; differentiating through it is an error."""
    return [op.inputs[0].shape]


@register_op(
    "_Arg",
    outputs={"output": "T"},
    attrs={"T": attr.any_type, "index": attr.int(minimum=0), "shape": attr.shape(Shape())},
)
def _arg_shape(op: InferenceContext) -> list[Shape]:
    """Argument number `index` of a bounded graph."""
    shape: Shape = op.attr("shape")
    return [shape]


@register_op("_Retval", inputs={"input": "T"}, attrs={"index": attr.int(minimum=0)})
def _retval_shape(op: InferenceContext) -> list[Shape]:
    """Result number `index` of a bounded graph."""
    return []


def identity(x: TensorLike, *, name: str | None = None) -> Tensor:
    """A tensor with the value of `x`, as an operation of its own.

    Args:
      x: any dtype and shape.
      name: the operation's name.
    Returns:
      The same dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     print(hr.identity([1, 2], name="copy").name)
      copy:0
    """
    result: Tensor = apply_op("Identity", x, name=name)
    return result


def stop_gradient(x: TensorLike, *, name: str | None = None) -> Tensor:
    """A tensor with the value of `x` that differentiation takes as a constant.

    Args:
      x: any dtype and shape.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     x = hr.constant(3.0)
      ...     hr.gradients(hr.stop_gradient(x), [x])
      [None]
    """
    result: Tensor = apply_op("StopGradient", x, name=name)
    return result


def group(operations: Sequence[Operation | Tensor], *, name: str | None = None) -> Operation:
    """One operation that runs after all the given ones.

    Args:
      operations: operations or tensors of the graph.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     both = hr.group([hr.constant(1.0), hr.constant(2.0)], name="both")
      >>> both.type
      'NoOp'
    """
    with control_dependencies(list(operations)):
        return current_graph().create_op("NoOp", name=name)
