"""Gradient rules of the scaling family: linear in the images. Scale and translation get none, as in TensorFlow."""

from __future__ import annotations

from headrace.grad.registry import register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor
from headrace.types import float32


def _attrs(op: Operation) -> dict[str, object]:
    return {name: op.attrs[name] for name in ("kernel_type", "antialias")}


@register_gradient("ScaleAndTranslate")
def _scale(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Each pixel gets the gradients of those it went into, by its weights."""
    images, _, scale, translation = op.inputs
    single = apply_op("Cast", images, DstT=float32)
    back = apply_op("ScaleAndTranslateGrad", g, single, scale, translation, name=None, **_attrs(op))
    return [apply_op("Cast", back, DstT=images.dtype), None, None, None]


@register_gradient("ScaleAndTranslateGrad")
def _scale_gradient(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The transpose of the transpose."""
    grads, _, scale, translation = op.inputs
    size = apply_op("StridedSlice", apply_op("Shape", grads), [1], [3], [1])
    return [apply_op("ScaleAndTranslate", g, size, scale, translation, name=None, **_attrs(op)), None, None, None]
