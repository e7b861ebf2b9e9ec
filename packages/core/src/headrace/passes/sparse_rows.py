"""Sparse rows: updates of the rows that a step has used, in shapes that are known when the plan is made.

An optimiser adds up the gradients of rows that were looked up more than once: `Unique` gives the different ones, and
how many these are only shows in the step; so do the sizes of all that follows. Here each of the n looked up rows keeps
its place: where it came first, its sum is; elsewhere stands that there is no row, and what is computed there is not
used. The sums and what becomes of each row are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.graph.frames import has_tokens
from headrace.graph.graph import Graph
from headrace.graph.handle_spec import variable_spec
from headrace.graph.operation import Operation, Tensor
from headrace.passes.rewrite import copy_op

__all__ = ["sparse_rows"]

_ELEMENTWISE = frozenset(
    {
        "Abs", "Add", "AddV2", "Cast", "Div", "DivNoNan", "Exp", "Identity", "Log", "Maximum", "Minimum", "Mul", "Neg",
        "Pow", "RealDiv", "Rsqrt", "Sign", "Sqrt", "Square", "SquaredDifference", "Sub",
    }
)  # fmt: skip
"""What may be computed of rows that are not there."""
_CHANGES = {"ResourceScatterAdd": "add", "ResourceScatterSub": "sub", "ResourceScatterUpdate": "copy"}


def sparse_rows(graph: Graph) -> Graph:
    """Updates of different rows of variables as updates of as many rows as were looked up, some of which are none.

    Args:
      graph: a bounded graph, folded; it is not changed.
    Returns:
      `graph` itself where there is nothing to do.
    """
    if has_tokens(graph) or not any(op.type == "Unique" for op in graph.operations):
        return graph
    found = [_Rows(op) for op in graph.operations if op.type == "Unique" and op.inputs[0].shape.is_fully_defined]
    found = [rows for rows in found if rows.spread(graph)]
    return _rewritten(graph, found) if found else graph


@dataclass(slots=True)
class _Rows:
    """What follows from one `Unique`. Mutable while it is found.

    Attributes:
      unique: the operation.
      counts: tensors that are the number of different rows.
      padded: tensors with one row for each of them.
      bound: below what the rows must be: the fewest rows of a variable that they belong to.
    """

    unique: Operation
    counts: set[Tensor] = field(default_factory=set)
    padded: set[Tensor] = field(default_factory=set)
    bound: int | None = None

    @property
    def size(self) -> int:
        """How many rows are looked up."""
        return self.unique.inputs[0].shape.as_tuple()[0]

    def spread(self, graph: Graph) -> bool:
        """Follow the rows; False where one of those who read them needs to know how many there are."""
        different, number = self.unique.outputs
        if different.dtype.name not in ("int32", "int64"):
            return False
        for op in graph.operations[self.unique.index + 1 :]:
            touched = {different, number, *self.counts, *self.padded}.intersection(op.inputs)
            if touched and not self._takes(op):
                return False
        return self.bound is not None

    def _takes(self, op: Operation) -> bool:
        different, number = self.unique.outputs
        inputs = op.inputs
        if op.type == "Size" and inputs[0] is different:
            self.counts.add(op.outputs[0])
            return True
        if op.type == "UnsortedSegmentSum":
            data = inputs[0]
            fits = inputs[1] is number and inputs[2] in self.counts and data.shape.is_fully_defined
            return fits and not {data} & self._own() and self._add(op)
        if op.type == "ResourceGather":
            return inputs[1] is different and not op.attrs["batch_dims"] and self._belongs(op) and self._add(op)
        if op.type in _CHANGES:
            of_rows = inputs[1] is different and inputs[2] in self.padded and inputs[2].shape.rank is not None
            return of_rows and self._belongs(op)
        return op.type in _ELEMENTWISE and self._is_by_row(inputs) and self._add(op)

    def _own(self) -> set[Tensor]:
        return {*self.unique.outputs, *self.counts, *self.padded}

    def _add(self, op: Operation) -> bool:
        self.padded.add(op.outputs[0])
        return op.outputs[0].shape.rank is not None

    def _is_by_row(self, inputs: Sequence[Tensor]) -> bool:
        """True for padded rows of one rank, and beside them only what is the same for every row."""
        ranks = {tensor.shape.rank for tensor in inputs if tensor in self.padded}
        others = [tensor.shape for tensor in inputs if tensor not in self.padded]
        if len(ranks) != 1 or self._own().intersection(inputs) - self.padded:
            return False
        (rank,) = ranks
        return rank is not None and all(
            shape.is_fully_defined
            and (len(shape.as_tuple()) < rank or (len(shape.as_tuple()) == rank and shape.as_tuple()[0] == 1))
            for shape in others
        )

    def _belongs(self, op: Operation) -> bool:
        spec = variable_spec(op.inputs[0])
        if spec is None or not spec.shape.is_fully_defined or not spec.shape.rank:
            return False
        rows = spec.shape.as_tuple()[0]
        self.bound = rows if self.bound is None else min(self.bound, rows)
        return True


def _rewritten(graph: Graph, found: Sequence[_Rows]) -> Graph:
    result = Graph(seed=graph.seed, extend=True, functions=graph.functions)
    tensors: dict[Tensor, Tensor] = {}
    operations: dict[Operation, Operation] = {}
    uniques = {rows.unique: rows for rows in found}
    of_different = {rows.unique.outputs[0] for rows in found}
    counts = {tensor: rows for rows in found for tensor in rows.counts}
    padded = {tensor for rows in found for tensor in rows.padded}
    for op in graph.operations:
        inputs = [tensors[tensor] for tensor in op.inputs]
        controls = [operations[item] for item in op.control_inputs]
        kind, attrs, given = op.type, dict(op.attrs), inputs
        if op in uniques:
            kind, attrs["bound"] = "_FirstRows", uniques[op].bound
        elif op.outputs and op.outputs[0] in counts:
            count = np.asarray(counts[op.outputs[0]].size, op.outputs[0].dtype.array_type)
            kind, attrs, given = "Const", {"value": count, "dtype": op.outputs[0].dtype}, []
        elif len(op.inputs) > 1 and op.inputs[1] in of_different:
            kind = "_GatherRows" if op.type == "ResourceGather" else "_ScatterRows"
            attrs = {"dtype": op.attrs["dtype"], "Tindices": op.attrs["Tindices"]}
            attrs |= {"how": _CHANGES[op.type]} if op.type in _CHANGES else {}
            attrs |= {"_target": op.attrs["_target"]} if "_target" in op.attrs else {}
        if kind != op.type:
            made = result.create_op(
                kind, given, attrs, name=f"{op.name}/", control_inputs=controls, device=op.device, source=op.source
            )
        else:
            made = copy_op(op, inputs, result, controls, trusted=not padded.intersection(op.outputs))
        operations[op] = made
        tensors.update(zip(op.outputs, made.outputs, strict=True))
    return result
