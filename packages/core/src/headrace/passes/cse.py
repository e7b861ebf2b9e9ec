"""Common subexpression elimination: two pure operations with equal type, attributes and inputs become one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from headrace.graph.attr import attr_key
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.passes.rewrite import copy_op, is_pure, rewrite_live

__all__ = ["cse"]


def cse(graph: Graph) -> Graph:
    """Merge equal pure operations.

    Stateful ones, random numbers among them, and those with control inputs are never merged. The inputs of commutative
    operations are compared in either order.
    """
    seen: dict[Hashable, Sequence[Tensor]] = {}

    def merge(op: Operation, inputs: Sequence[Tensor], target: Graph) -> Sequence[Tensor] | None:
        if not is_pure(op):
            return None
        key = _key(op, inputs)
        known = seen.get(key)
        if known is None:
            known = seen[key] = copy_op(op, inputs, target).outputs
        return known

    return rewrite_live(graph, merge)


def _key(op: Operation, inputs: Sequence[Tensor]) -> Hashable:
    sources = [(tensor.op.index, tensor.index) for tensor in inputs]
    if op.op_def.commutative:
        sources.sort()
    attrs = tuple(sorted((name, attr_key(value)) for name, value in op.attrs.items() if not name.startswith("_")))
    return (op.type, op.device, op.colocation, attrs, tuple(sources))
