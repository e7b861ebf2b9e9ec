"""NumPy kernels of the operations that call functions: the body of each is a compiled segment of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.types import Array

__all__ = ["is_true"]


def is_true(value: Array) -> bool:
    """What a predicate says: a scalar unless it is zero or empty text, another tensor if it has elements."""
    return bool(value) if value.ndim == 0 else value.size > 0


@register_kernel("If", aliases=[0, 1])  # a branch may return what chose it, if it captures that
@register_kernel("StatelessIf", aliases=[0, 1])
def _if(op: OpContext, predicate: Array, inputs: Sequence[Any]) -> Sequence[Any]:
    branch = op.attr("then_branch" if is_true(predicate) else "else_branch")
    return op.functions.compiled(branch.name, inputs)(inputs)


@register_kernel("Case", aliases=[0, 1])
@register_kernel("StatelessCase", aliases=[0, 1])
def _case(op: OpContext, branch_index: Array, inputs: Sequence[Any]) -> Sequence[Any]:
    branches, number = op.attr("branches"), int(branch_index)
    branch = branches[number if 0 <= number < len(branches) else -1]
    return op.functions.compiled(branch.name, inputs)(inputs)


@register_kernel("PartitionedCall", aliases=[0])
@register_kernel("StatefulPartitionedCall", aliases=[0])
def _call(op: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    return op.functions.compiled(op.attr("f").name, inputs)(inputs)


@register_kernel("While", aliases=[0])
@register_kernel("StatelessWhile", aliases=[0])
def _while(op: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    functions, check = op.functions, op.step.check
    condition, body = op.attr("cond").name, op.attr("body").name
    keeps_shapes = all(spec.shape.is_fully_defined for spec in op.outputs)
    values = inputs
    shapes: list[Any] | None = None
    iteration = 0
    try:
        (predicate,) = functions.compiled(condition, values)(values)
        while is_true(predicate):
            if shapes is None or not keeps_shapes:
                now = [getattr(value, "shape", None) for value in values]
                if now != shapes:  # asking for a compiled body costs a microsecond
                    advance = functions.compiled(body, values, then=condition)
                    shapes = now
            check()
            results = advance(values)
            values, predicate = results[:-1], results[-1]
            iteration += 1
    except Exception as error:
        error.add_note(f"in iteration {iteration} of {op.type} '{op.name}'")
        raise
    return values
