"""StackV2 and its family: stacks in which loops of TensorFlow 1 keep what their gradients need.

A `StackV2` operation makes a new stack each time it runs, so a stack belongs to one step. Loops made here keep such
values in lists, which are values themselves.

Source: TensorFlow's operations of the same names.
"""

from __future__ import annotations

from headrace.graph import attr
from headrace.graph.op_def import InferenceContext, register_op
from headrace.ops.shapes import check_scalar
from headrace.types import Shape

_SCALAR = Shape([])


@register_op(
    "StackV2",
    inputs={"max_size": "int32"},
    outputs={"handle": "resource"},
    attrs={"elem_type": attr.any_type, "stack_name": attr.string("")},
    stateful=True,
)
def _stack_shape(op: InferenceContext) -> list[Shape]:
    """A new, empty stack of at most `max_size` elements, or of any number if that is negative."""
    check_scalar(op.inputs[0].shape, "max_size")
    return [_SCALAR]


@register_op(
    "StackPushV2",
    inputs={"handle": "resource", "elem": "T"},
    outputs={"output": "T"},
    attrs={"swap_memory": attr.bool(False)},
    stateful=True,
)
def _push_shape(op: InferenceContext) -> list[Shape]:
    """Puts an element on top of a stack, and gives it."""
    return [op.inputs[1].shape]


@register_op(
    "StackPopV2",
    inputs={"handle": "resource"},
    outputs={"elem": "elem_type"},
    attrs={"elem_type": attr.any_type},
    stateful=True,
)
def _pop_shape(op: InferenceContext) -> list[Shape]:
    """Takes the element on top of a stack."""
    return [Shape()]


@register_op("StackCloseV2", inputs={"handle": "resource"}, stateful=True)
def _close_shape(op: InferenceContext) -> list[Shape]:
    """Forgets the elements of a stack; using it afterwards is an error."""
    return []
