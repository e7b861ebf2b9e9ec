"""The primitives of dynamic control flow (paper, section 3.4): branches and loops made of tokens.

A `Switch` sends its input one of two ways and a *dead* token the other; what reads a dead token gives dead tokens; a
`Merge` passes on the first live one. A loop is a *frame*: `Enter` brings a value in, `NextIteration` to the next
iteration, `Exit` out, and a `Merge` at its head takes the value of `Enter` first and that of `NextIteration` from then
on (`Graph.close_loop` adds this back edge). They have no kernels: the executor moves the tokens (`runtime.step_state`).
Most users want the structured form instead: `hr.cond`, `hr.while_loop`.
"""

from __future__ import annotations

from headrace.graph import attr
from headrace.graph.op_def import InferenceContext, register_op
from headrace.types import Shape

__all__: list[str] = []


@register_op(
    "Switch",
    inputs={"data": "T", "pred": "bool"},
    outputs={"output_false": "T", "output_true": "T"},
)
def _switch_shape(op: InferenceContext) -> list[Shape]:
    """Data, at the output that pred chooses; the other output is dead."""
    op.inputs[1].shape.merge(Shape([]))
    return [op.inputs[0].shape, op.inputs[0].shape]


@register_op(
    "Merge",
    inputs={"inputs": "N*T"},
    outputs={"output": "T", "value_index": "int32"},
    attrs={"N": attr.int(minimum=1)},
)
def _merge_shape(op: InferenceContext) -> list[Shape]:
    """The first live input that arrives, and which one it was; dead if all are."""
    shape = op.inputs[0].shape
    for other in op.inputs[1:]:
        shape = shape.relax(other.shape)
    return [shape, Shape([])]


_FRAME = {
    "frame_name": attr.string(),
    "is_constant": attr.bool(False),
    "parallel_iterations": attr.int(10, minimum=1),
}


@register_op("Enter", inputs={"data": "T"}, outputs={"output": "T"}, attrs=_FRAME)
def _enter_shape(op: InferenceContext) -> list[Shape]:
    """Data, in the first iteration of the frame `frame_name`, or in every iteration if it is constant there."""
    return [op.inputs[0].shape]


@register_op("Exit", inputs={"data": "T"}, outputs={"output": "T"})
def _exit_shape(op: InferenceContext) -> list[Shape]:
    """Data, outside the frame, from the one iteration in which it is alive."""
    return [op.inputs[0].shape]


@register_op("NextIteration", inputs={"data": "T"}, outputs={"output": "T"})
def _next_iteration_shape(op: InferenceContext) -> list[Shape]:
    """Data, in the next iteration of the frame."""
    return [op.inputs[0].shape]


@register_op("LoopCond", inputs={"input": "bool"}, outputs={"output": "bool"})
def _loop_cond_shape(op: InferenceContext) -> list[Shape]:
    """The input, marked as what decides whether the loop goes on."""
    return [op.inputs[0].shape.merge(Shape([]))]


@register_op("Abort", attrs={"error_msg": attr.string(""), "exit_without_error": attr.bool(False)}, stateful=True)
def _abort_shape(op: InferenceContext) -> list[Shape]:
    """Ends the step with an error where it runs, or does nothing if it is to exit without one."""
    return []
