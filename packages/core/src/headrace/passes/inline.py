"""Inlining: calls of functions, and branches whose choice is known, become the operations of the function."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.graph.extensions import needed_operations, standing_for
from headrace.graph.frames import forward_inputs
from headrace.graph.functions import Body
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.graph.shape_value import constant_value
from headrace.kernels.functional import is_true
from headrace.passes.rewrite import close_loops, copy_op
from headrace.types import resource

__all__ = ["inline"]

GROWTH = 20_000
"""Operations by which inlining may make a graph larger beyond four times its size; then calls stay calls.

Functions that call another one twice each double the graph at every level: forty of them would be 2^40 operations.
"""

_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_IFS = frozenset({"If", "StatelessIf"})
_CASES = frozenset({"Case", "StatelessCase"})


def inline(graph: Graph) -> Graph:
    """Replace calls, and branches with a constant predicate, by what they call, also where that calls something.

    Functions that draw random numbers stay functions: their stream is kept under their name, whoever calls them.
    """
    largest = 4 * len(graph.operations) + GROWTH
    while any(_called(op, op.inputs) is not None for op in graph.operations):
        inlined = _inlined_once(graph, largest)
        if inlined is None:
            break
        graph = inlined
    return graph


def _inlined_once(graph: Graph, largest: int) -> Graph | None:
    """The graph with the calls replaced that it has now, or None if that needs more than `largest` operations."""
    result = Graph(seed=graph.seed, extend=True, functions=graph.functions)
    tensors: dict[Tensor, Tensor] = {}
    copies: dict[Operation, Operation] = {}
    awaited: dict[Operation, tuple[Operation, ...]] = {}
    for op in graph.operations:
        inputs = [tensors[tensor] for tensor in forward_inputs(op)]
        controls = list(dict.fromkeys(item for source in op.control_inputs for item in awaited[source]))
        body = _called(op, op.inputs)
        if body is None:
            copies[op] = copy_op(op, inputs, result, controls)
            outputs: Sequence[Tensor] = copies[op].outputs
            awaited[op] = (copies[op],)
        else:
            if result.version > largest:  # it counts the operations, at no cost
                return None
            outputs, stateful = _splice(body, inputs[len(inputs) - len(body.arguments) :], result, controls, op)
            awaited[op] = tuple(stateful) or tuple(controls)
        tensors.update(zip(op.outputs, outputs, strict=True))
    close_loops(copies, tensors)
    return result


def _called(op: Operation, inputs: Sequence[Tensor]) -> Body | None:
    """The function that an operation is known to call and that may take its place, or None."""
    if op.type in _CALLS:
        body = op.bodies[0]
    elif op.type in _IFS or op.type in _CASES:
        chosen = constant_value(inputs[0])
        if chosen is None:
            return None
        bodies = op.bodies
        if op.type in _IFS:
            body = bodies[0 if is_true(chosen) else 1]
        else:
            body = bodies[int(chosen) if 0 <= int(chosen) < len(bodies) else -1]
    else:
        return None
    return None if any(_has_stream(item) for item in body.operations) else body


def _has_stream(op: Operation) -> bool:
    """True for what keeps state under its own name, such as random numbers do."""
    return op.is_stateful and not op.op_def.function_attrs and not any(item.dtype is resource for item in op.inputs)


def _splice(
    body: Body, arguments: Sequence[Tensor], graph: Graph, controls: Sequence[Operation], call: Operation
) -> tuple[list[Tensor], list[Operation]]:
    """Copy a function to where it is called.

    Returns:
      What stands for its results, and the copies of its stateful operations, which wait for what the call waited for.
    """
    tensors = {body.arguments[index]: argument for index, argument in enumerate(arguments)}
    effects = [op for op in body.operations if op.has_effect]
    operations, replaced = needed_operations(body.results, effects, set(tensors))
    copies: dict[Operation, Operation] = {}
    for op in operations:
        inputs = [tensors[standing_for(tensor, replaced)] for tensor in op.inputs]
        inner = [copies[replaced.get(item, item)] for item in op.control_inputs]
        copies[op] = copy_op(op, inputs, graph, [*inner, *(controls if op.is_stateful else ())], prefix=f"{call.name}/")
        tensors.update(zip(op.outputs, copies[op].outputs, strict=True))
    results = [tensors[standing_for(result, replaced)] for result in body.results]
    return results, [copies[op] for op in operations if op.is_stateful]
