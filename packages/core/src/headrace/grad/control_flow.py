"""Gradients of the control flow family: branches and loops of primitives are differentiated in structured form."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import GradientError, HeadraceError
from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.extensions import needed_operations
from headrace.graph.frames import has_tokens
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.ops.raising import raise_control_flow

__all__ = ["differentiable_form"]


def differentiable_form(graph: Graph, targets: Sequence[Tensor]) -> None:
    """Let operations in structured form stand for the primitives that some tensors depend on, where that can be done.

    Every later step runs them in the place of the primitives, so that effects happen once. So all primitives of the
    graph are raised, or else those that the tensors depend on, with the other results of their loops.
    """
    if not has_tokens(graph):
        return
    needed, _ = needed_operations(targets, (), ())
    if not any(op.type in ("Switch", "Enter") for op in needed):
        return
    ends = [op.outputs[0] for op in graph.operations if op.type == "Exit" and op.inputs[0].op in needed]
    closed, _ = needed_operations([*targets, *ends], (), ())
    for operations in (graph.operations, closed):
        try:
            raised = raise_control_flow(graph, operations)
        except HeadraceError:  # if the walk comes to a primitive, its rule says why
            continue
        graph.extensions.update(raised.standing)
        graph.raised.update(raised.standing.values())
        return


def _refuse(op: Operation, *gradients: Tensor) -> Sequence[Tensor]:
    why = "it lies inside a branch or loop, and only what comes out of it is differentiated"
    try:
        operations, _ = needed_operations(op.outputs, (), ())
        raise_control_flow(op.graph, operations)
    except HeadraceError as error:
        why = error.what
    raise GradientError(
        f"differentiation reached the primitive '{op.name}': {why}",
        where=op.location,
        expected="branches and loops that have a structured form, If and While",
        got=f"{op.type} '{op.name}'",
        hint="build it with hr.cond or hr.while_loop",
    )


for _type in ("Switch", "Merge", "Enter", "Exit", "NextIteration"):
    register_gradient(_type)(_refuse)
no_gradient("LoopCond", "it gives a truth value")
no_gradient("Abort", "it has no output")
