"""The gradient rule of Einstein sums: another Einstein sum for each input."""

from __future__ import annotations

from headrace.grad.broadcast import conjugate, sum_to_operand
from headrace.grad.registry import register_gradient
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.operation import Operation, Tensor
from headrace.ops.einsum import ELLIPSIS, Equation, Subscript, contract
from headrace.types import broadcast_shapes


@register_gradient("Einsum")
def _einsum(op: Operation, g: Tensor) -> list[Tensor]:
    """The gradient by an input is the Einstein sum of g and the other inputs to that input's labels."""
    equation = Equation.parse(op.attr("equation"))
    return [_by_input(op, g, equation, index) for index in range(len(op.inputs))]


def _by_input(op: Operation, g: Tensor, equation: Equation, index: int) -> Tensor:
    """Labels that only this input has were summed over: a vector of ones brings them back.

    The ellipsis is brought to the front, where its axes are repeated if they were summed over, and summed over if they
    were broadcast.
    """
    x, labels = op.inputs[index], equation.inputs[index]
    leading = _leading(labels)
    target = x if leading == labels else contract([x], Equation((labels,), leading))
    tensors, subscripts = [g], [equation.output]
    for position, other in enumerate(op.inputs):
        if position != index:
            tensors.append(conjugate(other))
            subscripts.append(equation.inputs[position])
    known = {label for subscript in subscripts for label in subscript}
    for label in dict.fromkeys(label for label in labels if label not in known and label != ELLIPSIS):
        tensors.append(_ones(x, labels, label))
        subscripts.append((label,))
    has_ellipsis = ELLIPSIS in known
    result = leading if has_ellipsis else tuple(label for label in leading if label != ELLIPSIS)
    gradient = contract(tensors, Equation(tuple(subscripts), result))
    if ELLIPSIS in leading and ELLIPSIS not in equation.output:
        gradient = _repeated(gradient, target)
    if ELLIPSIS in leading and has_ellipsis:
        gradient = sum_to_operand(gradient, target, gradient)
    return gradient if leading == labels else contract([gradient], Equation((leading,), labels))


def _leading(labels: Subscript) -> Subscript:
    if ELLIPSIS not in labels:
        return labels
    return (ELLIPSIS, *(label for label in labels if label != ELLIPSIS))


def _repeated(gradient: Tensor, target: Tensor) -> Tensor:
    """The gradient along axes of an ellipsis that was summed over, of which the other inputs may have less."""
    if gradient.shape.is_fully_defined and target.shape.is_fully_defined:
        shape: TensorLike = list(broadcast_shapes(gradient.shape, target.shape).as_tuple())
    else:
        shape = apply_op("BroadcastArgs", apply_op("Shape", gradient), apply_op("Shape", target))
    result: Tensor = apply_op("BroadcastTo", gradient, shape)
    return result


def _ones(x: Tensor, labels: Subscript, label: str) -> Tensor:
    """A vector of ones as long as the axis of a label; axes after an ellipsis are counted from the last."""
    axis = labels.index(label)
    position = axis - len(labels) if ELLIPSIS in labels[:axis] else axis
    size: Tensor = apply_op("GatherV2", apply_op("Shape", x), [_counted(x, position)], 0)
    one: Tensor = apply_op("Cast", 1.0, DstT=x.dtype)
    result: Tensor = apply_op("BroadcastTo", one, size)
    return result


def _counted(x: Tensor, position: int) -> int:
    return position if position >= 0 else position + len(x.shape)
