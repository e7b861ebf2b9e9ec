"""Gradient rules of optionals: the gradient of an optional is an optional of gradients."""

from __future__ import annotations

from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor
from headrace.types import variant

no_gradient("OptionalNone", "it holds no value")
no_gradient("OptionalHasValue", "its output is a truth value")


@register_gradient("OptionalFromValue")
def _from_value(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Each component gets the gradient that stands in its place."""
    dtypes, shapes = [tensor.dtype for tensor in op.inputs], [tensor.shape for tensor in op.inputs]
    parts = apply_op("OptionalGetValue", g, output_types=dtypes, output_shapes=shapes)
    return [part if part.dtype.is_differentiable or part.dtype is variant else None for part in parts]


@register_gradient("OptionalGetValue")
def _get_value(op: Operation, *gs: Tensor | None) -> list[Tensor]:
    """The gradients of the components, zeros for those to which nothing came."""
    parts = [apply_op("ZerosLike", output) if g is None else g for g, output in zip(gs, op.outputs, strict=True)]
    return [apply_op("OptionalFromValue", parts)]
