"""From a bounded graph to what runs it: one segment where that is enough, else a step graph with compiled parts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.config import Config
from headrace.errors import HeadraceError
from headrace.graph.frames import MAY_BE_DEAD, TOKEN_TYPES, has_tokens
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation
from headrace.interfaces import Backend, Compiled, Functions, OpHook, Resources
from headrace.kernels.context import context_of, group_inputs
from headrace.kernels.registry import find_kernel
from headrace.passes.lower import lower
from headrace.plan.nested import NestedPlans, compile_segment
from headrace.plan.program import is_handle
from headrace.plan.segments import cut, in_order_of_waits
from headrace.plan.step_graph import StepGraph

__all__ = ["Execute", "StepPlan", "compile_step", "may_wait"]


@dataclass(frozen=True, slots=True)
class StepPlan:
    """A step graph with its segments compiled.

    Attributes:
      graph: the step graph.
      compiled: for each of its nodes the callable, or None where there is nothing to compute.
      copied: the results whose memory may be that of something else.
      handles: the results that are no arrays.
    """

    graph: StepGraph
    compiled: Sequence[Compiled | None]
    copied: frozenset[int]
    handles: frozenset[int]


Execute = Callable[[StepPlan], Compiled]
"""Makes a callable of a step graph: what the stage after this one knows how to do (`runtime.executor`)."""


def may_wait(graph: Graph) -> bool:
    """True if a step of a bounded graph may wait, or may be a loop without end."""
    return has_tokens(graph) or any(op.blocks for op in graph.operations)


def compile_step(graph: Graph, backend: Backend, resources: Resources, config: Config, execute: Execute) -> Compiled:
    """Compile a bounded graph: as one segment if it can be one, else as a step graph.

    Args:
      graph: the graph.
      backend: compiles segments.
      resources: where stateful operations find their state.
      config: which passes run on the functions that operations call.
      execute: makes a callable of a step graph.
    Raises:
      GraphError: a loop is not well formed.
      NotFoundError: an operation has no kernel.
    """
    graph = lower(graph, _comes_apart)
    functions = NestedPlans(graph.functions, backend, resources, config)
    ordered = in_order_of_waits(graph) if may_wait(graph) else graph
    if ordered is not None:
        return compile_segment(backend, ordered, resources, functions, config)
    steps = cut(graph)
    compiled: list[Compiled | None] = []
    for node in steps.nodes:
        if node.graph is None:
            compiled.append(None)
        elif node.passes_dead or MAY_BE_DEAD in node.operations[0].attrs:
            compiled.append(_Single(node.operations[0], resources, functions))
        else:
            compiled.append(compile_segment(backend, node.graph, resources, functions, config))
    results = {op.attrs["index"]: op.inputs[0] for op in graph.operations if op.type == "_Retval"}
    passed_on = TOKEN_TYPES | {"_Arg", "Const"}
    return execute(
        StepPlan(
            steps,
            compiled,
            copied=frozenset(number for number, tensor in results.items() if tensor.op.type in passed_on),
            handles=frozenset(number for number, tensor in results.items() if is_handle(tensor.dtype)),
        )
    )


def _comes_apart(op: Operation) -> bool:
    """True if a branch or loop cannot run as one: operations in it wait for each other, or its values may be dead."""
    return any(
        has_tokens(body)
        or (op.blocks and in_order_of_waits(body) is None)
        or any(_comes_apart(inner) for inner in body.operations if inner.op_def.function_attrs)
        for body in op.bodies
    )


class _Single:
    """One operation, run by its kernel alone, dead inputs and outputs included (see `interfaces.Compiled`)."""

    def __init__(self, op: Operation, resources: Resources, functions: Functions) -> None:
        self._op = op
        kernel = find_kernel(op.type, op.attrs)
        self._function = functools.partial(kernel.function, context_of(op, resources, functions))

    @property
    def operations(self) -> Sequence[Operation]:
        """The operation."""
        return (self._op,)

    def __call__(self, arguments: Sequence[Any], /) -> Sequence[Any]:
        """Run it."""
        try:
            result = self._function(*group_inputs(self._op, arguments))
        except HeadraceError as error:
            error.at(self._op.location)
            raise
        return (result,) if len(self._op.outputs) == 1 else tuple(result or ())

    def run_with_hook(self, arguments: Sequence[Any], hook: OpHook, /) -> Sequence[Any]:
        """Run it after the hook."""
        hook(0)
        return self(arguments)
