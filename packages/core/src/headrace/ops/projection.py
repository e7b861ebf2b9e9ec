"""Projection: images turned, moved, scaled and seen at an angle, as layers that vary training images do it.

A transform of eight numbers `a` says where a pixel of the result comes from: `(x, y)` from
`((a0 x + a1 y + a2) / k, (a3 x + a4 y + a5) / k)` with `k = a6 x + a7 y + 1`.
"""

from __future__ import annotations

from headrace.errors import ShapeError
from headrace.graph import attr
from headrace.graph.op_def import InferenceContext, register_op
from headrace.ops.image import check_sampled, sampled_size
from headrace.ops.shapes import check_scalar
from headrace.types import Shape, bfloat16, float16, float32, float64, int32, int64, uint8

__all__ = ["check_transforms"]

_ATTRS = {
    "interpolation": attr.string(allowed=["NEAREST", "BILINEAR"]),
    "fill_mode": attr.string("CONSTANT", allowed=["CONSTANT", "REFLECT", "WRAP", "NEAREST"]),
}
_PIXEL = attr.type(uint8, int32, int64, float16, bfloat16, float32, float64)
_INPUTS = {"images": "dtype", "transforms": "float32", "output_shape": "int32"}


def check_transforms(images: Shape, transforms: Shape) -> None:
    """Raise ShapeError unless there is a transform for each image, or one for all."""
    count, eight = transforms.with_rank(2)
    batch = images.with_rank(4)[0]
    if eight not in (None, 8) or (None not in (count, batch) and count not in (1, batch)):
        raise ShapeError(
            "the transforms do not fit the images",
            expected=f"[1 or {'batch' if batch is None else batch}, 8]",
            got=str(transforms),
            hint="each transform is a row of eight numbers; the identity is [1, 0, 0, 0, 1, 0, 0, 0]",
        )


def _transformed(op: InferenceContext) -> list[Shape]:
    images, known = op.inputs[0].shape, op.constant(2)
    check_transforms(images, op.inputs[1].shape)
    rows, columns = (None, None) if known is None else sampled_size(known)
    batch, _, _, channels = check_sampled(images, None, None)
    return [Shape([batch, rows, columns, channels])]


@register_op(
    "ImageProjectiveTransformV2",
    inputs=_INPUTS,
    outputs={"transformed_images": "dtype"},
    attrs={"dtype": _PIXEL, **_ATTRS},
)
def _second_shape(op: InferenceContext) -> list[Shape]:
    """`ImageProjectiveTransformV3` that fills with 0."""
    return _transformed(op)


@register_op(
    "ImageProjectiveTransformV3",
    inputs={**_INPUTS, "fill_value": "float32"},
    outputs={"transformed_images": "dtype"},
    attrs={"dtype": _PIXEL, **_ATTRS},
)
def _third_shape(op: InferenceContext) -> list[Shape]:
    """Images seen through projective transforms; what comes from outside of them is filled as `fill_mode` says."""
    check_scalar(op.inputs[3].shape, "fill_value")
    return _transformed(op)


@register_op(
    "ImageProjectiveTransformGrad",
    inputs={"grads": "dtype", "transforms": "float32", "image_shape": "int32"},
    outputs={"output": "dtype"},
    attrs={"dtype": attr.floating, **_ATTRS},
)
def _gradient_shape(op: InferenceContext) -> list[Shape]:
    """The gradient of `ImageProjectiveTransformV3` by its images, `image_shape` `[rows, columns]` in size."""
    return _transformed(op)
