"""Gradient rules of the projection family. Transforms get none, as in TensorFlow.

TensorFlow's gradient for images looks at the output gradient through the inverse transform, which is right for moves by
whole pixels only; this one sends each gradient back to the pixels that were read, by the weights they were read with.
"""

from __future__ import annotations

from headrace.grad.registry import register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor


def _attrs(op: Operation) -> dict[str, str]:
    return {name: op.attrs[name] for name in ("interpolation", "fill_mode")}


def _size(images: Tensor) -> Tensor:
    size: Tensor = apply_op("StridedSlice", apply_op("Shape", images), [1], [3], [1])
    return size


@register_gradient("ImageProjectiveTransformV2")
@register_gradient("ImageProjectiveTransformV3")
def _transform(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Each pixel that was read gets the gradient of those that it went into."""
    images, transforms, *rest = op.inputs
    back = apply_op("ImageProjectiveTransformGrad", g, transforms, _size(images), name=None, **_attrs(op))
    return [back, None, *[None] * len(rest)]


@register_gradient("ImageProjectiveTransformGrad")
def _transform_gradient(op: Operation, g: Tensor) -> list[Tensor | None]:
    """It is linear: its gradient is the transform itself, without what fills."""
    grads, transforms, _ = op.inputs
    seen = apply_op("ImageProjectiveTransformV2", g, transforms, _size(grads), name=None, **_attrs(op))
    return [seen, None, None]
