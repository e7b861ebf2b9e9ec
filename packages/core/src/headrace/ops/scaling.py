"""Scaling: images of another size, each pixel a weighted sum of those around its place, as many as a filter reaches."""

from __future__ import annotations

from headrace.errors import InvalidArgumentError
from headrace.graph import attr
from headrace.graph.op_def import InferenceContext, register_op
from headrace.ops.image import check_sampled, sampled_size
from headrace.types import Array, Shape, float32

__all__ = ["FILTERS", "positive_scale"]

FILTERS = ("lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic")
_ATTRS = {"kernel_type": attr.string("lanczos3", allowed=FILTERS), "antialias": attr.bool(True)}
_PAIR = Shape([2])


def _check_pairs(op: InferenceContext) -> None:
    for index, name in ((2, "scale"), (3, "translation")):
        if not op.inputs[index].shape.is_compatible_with(_PAIR):
            raise InvalidArgumentError(
                f"'{name}' of {op.type} is no pair",
                expected="two numbers, for rows and for columns",
                got=f"shape {op.inputs[index].shape}",
                hint="the same number twice keeps what is round, round",
            )
    known = op.constant(2)
    if known is not None:
        positive_scale(known)


def positive_scale(scale: Array) -> tuple[float, float]:
    """The factors for rows and columns.

    Raises:
      InvalidArgumentError: one is not positive.
    """
    rows, columns = (float(item) for item in scale)
    if not (rows > 0 and columns > 0):
        raise InvalidArgumentError(
            "an image is scaled by nothing",
            expected="two factors > 0",
            got=f"{rows} and {columns}",
            hint="hr.reverse turns an image round",
        )
    return rows, columns


@register_op(
    "ScaleAndTranslate",
    inputs={"images": "T", "size": "int32", "scale": "float32", "translation": "float32"},
    outputs={"resized_images": "float32"},
    attrs={"T": attr.ordered, **_ATTRS},
)
def _scale_shape(op: InferenceContext) -> list[Shape]:
    """Images scaled by factors for rows and columns and then moved by pixels, cut or filled with 0 to `size`."""
    _check_pairs(op)
    known = op.constant(1)
    rows, columns = (None, None) if known is None else sampled_size(known)
    return [check_sampled(op.inputs[0].shape, rows, columns)]


@register_op(
    "ScaleAndTranslateGrad",
    inputs={"grads": "T", "original_image": "T", "scale": "float32", "translation": "float32"},
    outputs={"output": "T"},
    attrs={"T": attr.type(float32), **_ATTRS},
)
def _scale_gradient_shape(op: InferenceContext) -> list[Shape]:
    """The gradient of `ScaleAndTranslate` by its images."""
    _check_pairs(op)
    op.inputs[0].shape.with_rank(4)
    return [op.inputs[1].shape.with_rank(4)]
