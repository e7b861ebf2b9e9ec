"""Optionals: values of dtype variant that hold tensors, or nothing.

TensorFlow keeps in them what the gradient of a branch needs: a branch that was not taken gives none.

Source: TensorFlow's operations of the same names.
"""

from __future__ import annotations

from typing import Any

from headrace.errors import ShapeError
from headrace.graph import attr
from headrace.graph.op_def import InferenceContext, register_op
from headrace.ops.shapes import check_scalar
from headrace.types import Shape

_TYPES = attr.list_of(attr.type(), minimum=1)
_OPTIONAL: dict[str, str] = {"optional": "variant"}
_SCALAR = Shape([])


@register_op("OptionalNone", outputs=_OPTIONAL)
def _none_shape(op: InferenceContext) -> list[Shape]:
    """An optional that holds nothing."""
    return [_SCALAR]


@register_op(
    "OptionalFromValue",
    inputs={"components": "Toutput_types"},
    outputs=_OPTIONAL,
    attrs={"Toutput_types": _TYPES},
)
def _from_value_shape(op: InferenceContext) -> list[Shape]:
    """An optional that holds tensors."""
    return [_SCALAR]


@register_op("OptionalHasValue", inputs=_OPTIONAL, outputs={"has_value": "bool"})
def _has_value_shape(op: InferenceContext) -> list[Shape]:
    """True if an optional holds tensors."""
    check_scalar(op.inputs[0].shape, "an optional")
    return [_SCALAR]


@register_op(
    "OptionalGetValue",
    inputs=_OPTIONAL,
    outputs={"components": "output_types"},
    attrs={"output_types": _TYPES, "output_shapes": attr.list_of(attr.shape(), minimum=1)},
)
def _get_value_shape(op: InferenceContext) -> list[Shape]:
    """The tensors that an optional holds; it is an error if it holds none."""
    check_scalar(op.inputs[0].shape, "an optional")
    types: Any = op.attr("output_types")
    shapes: list[Shape] = list(op.attr("output_shapes"))
    if len(types) != len(shapes):
        raise ShapeError(
            "output_types and output_shapes differ in number",
            expected=f"{len(types)} shapes",
            got=str(len(shapes)),
            hint="give a shape for each component; hr.Shape() says nothing about it",
        )
    return shapes
