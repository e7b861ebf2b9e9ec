"""Soon: gradients are used up when they are there. Sums are added up, and variables updated, as early as can be.

A graph is built in the order in which a program reads: all gradients first, then an update for each variable. Run in
that order, all gradients are alive at once. Here an update moves up to where the last thing that it needs is there,
with the operations that only lead to it; and a sum of many gradients becomes one that each is added to when it is made.

Nothing is computed otherwise: sums are added in the order of their inputs, as before, and an operation that reads or
writes a variable stays on its side of every other one that writes it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from headrace.graph.frames import has_tokens
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.passes.cost import arithmetic, tensor_bytes
from headrace.passes.recompute import most_alive
from headrace.passes.rewrite import copy_op

__all__ = ["soon"]

MOST_UPDATES = 4
"""Updates that one operation may lead to and still move with them: an optimiser has a few for each variable."""

SMALL = 4096
"""Bytes of outputs up to which it does not matter how long they live."""

LEAST = 1 << 16
"""A graph in which fewer bytes are alive at once stays in its order."""

MOST_COMPARED = 32
"""Updates that could come next of which the one with the least left to do is looked for; of more, the first comes."""


def soon(graph: Graph) -> Graph:
    """The same operations in an order in which gradients live shorter; for what runs in the order of the graph.

    Args:
      graph: a bounded graph; it is not changed.
    Returns:
      `graph` itself where there is nothing to move.
    """
    if has_tokens(graph) or any(op.blocks for op in graph.operations):
        return graph
    graph = _in_turn(graph)
    updates = [op for op in graph.operations if _is_update(op)]
    if len(updates) < 2 or not all(_handle_of(op) for op in graph.operations if _takes_handle(op)):
        return graph
    alive = most_alive(graph)
    if alive < LEAST:
        return graph
    order = _Order(graph.operations, updates).run()
    if order == list(graph.operations):
        return graph
    moved = _copied(order, graph)
    return moved if most_alive(moved) < alive else graph  # an update may fall where most else is alive


def _in_turn(graph: Graph) -> Graph:
    """Sums of three and more become sums of two, each after the later one of its inputs."""
    uses: dict[Tensor, int] = {}
    for op in graph.operations:
        for tensor in op.inputs:
            uses[tensor] = uses.get(tensor, 0) + 1
    sums: dict[Operation, list[Operation]] = {}  # the input after which a part can be added -> sums to go on with
    for op in graph.operations:
        if op.type == "AddN" and len(op.inputs) > 2 and op.outputs[0].dtype.kind != "variant":
            makers = [tensor.op for tensor in op.inputs]
            ascending = all(a.index < b.index for a, b in itertools.pairwise(makers))
            if ascending and all(uses[tensor] == 1 for tensor in op.inputs) and not op.control_inputs:
                for maker in makers[1:]:
                    sums.setdefault(maker, []).append(op)
    if not sums:
        return graph
    result = Graph(seed=graph.seed, extend=True, functions=graph.functions)
    tensors: dict[Tensor, Tensor] = {}
    copies: dict[Operation, Operation] = {}
    totals: dict[Operation, Tensor] = {}
    added: dict[Operation, int] = {}
    for op in graph.operations:
        if op in totals:
            tensors[op.outputs[0]], copies[op] = totals[op], totals[op].op
        else:
            inputs = [tensors[tensor] for tensor in op.inputs]
            copies[op] = copy_op(op, inputs, result, [copies[item] for item in op.control_inputs])
            tensors.update(zip(op.outputs, copies[op].outputs, strict=True))
        for total in sums.get(op, ()):  # of a sum too, which may be a part of another one
            position = added[total] = added.get(total, 0) + 1
            last = position == len(total.inputs) - 1
            before = totals.get(total, tensors[total.inputs[0]])
            made = result.create_op(
                "AddV2",
                (before, tensors[total.inputs[position]]),
                {"T": total.outputs[0].dtype},
                name=f"{total.name}{'' if last else f'/{position}'}/",
                device=total.device,
                colocation=total.colocation,
                source=total.source,
            )
            totals[total] = made.outputs[0]
    return result


def _takes_handle(op: Operation) -> bool:
    return any(tensor.dtype.kind == "resource" for tensor in op.inputs)


def _is_update(op: Operation) -> bool:
    return op.has_effect and _takes_handle(op) and op.type not in ("_Arg", "_Retval")


def _handle_of(op: Operation) -> list[tuple[object, ...]]:
    """The variables that an operation takes by handle; empty where one of them is not known by name."""
    makers = [tensor.op for tensor in op.inputs if tensor.dtype.kind == "resource"]
    if any(maker.type != "VarHandleOp" for maker in makers) or op.op_def.function_attrs:
        return []
    return [(maker.attrs["container"], maker.attrs["shared_name"] or maker.name) for maker in makers]


class _Order:
    """The new order while it is made. Mutable, used once."""

    def __init__(self, operations: Sequence[Operation], updates: Sequence[Operation]) -> None:
        self._operations = operations
        self._updates = updates
        self._before = _dependencies(operations)
        self._moves = self._movable()
        self._work = {op: arithmetic(op) for op in operations}
        self._done: dict[Operation, None] = {}
        self._needed: dict[Operation, list[Operation]] = {}  # update -> what moves with it
        self._missing: dict[Operation, int] = {}  # update -> how much else it waits for
        self._waiting: dict[Operation, list[Operation]] = {}  # operation -> updates that wait for it
        for update in updates:
            self._prepare(update)

    def _movable(self) -> set[Operation]:
        """Operations that lead to a few updates and to nothing else, and small ones, such as learning rates."""
        numbers = {op: 1 << number for number, op in enumerate(self._updates)}
        other = 1 << len(self._updates)
        reach = dict.fromkeys(self._operations, 0)
        movable: set[Operation] = set()
        for op in reversed(self._operations):
            if op in numbers:
                movable.add(op)
                through = numbers[op]
            else:
                is_root = op.has_effect or "_target" in op.attrs or op.type in ("_Arg", "_Retval")
                through = reach[op] = reach[op] | (other if is_root else 0)
                few = not through & other and 0 < through.bit_count() <= MOST_UPDATES
                if few or (not is_root and sum(map(tensor_bytes, op.outputs)) <= SMALL):
                    movable.add(op)
            for source in self._before[op]:
                reach[source] |= through
        return movable

    def _prepare(self, update: Operation) -> None:
        needed: dict[Operation, None] = {update: None}
        others: dict[Operation, None] = {}
        stack = [update]
        while stack:
            for source in self._before[stack.pop()]:
                if source in self._moves and source not in needed:
                    needed[source] = None
                    stack.append(source)
                elif source not in self._moves:
                    others[source] = None
        self._needed[update] = sorted(needed, key=lambda op: op.index)
        self._missing[update] = len(others)
        for source in others:
            self._waiting.setdefault(source, []).append(update)

    def run(self) -> list[Operation]:
        """Go through the operations, and do each update as soon as the others that it waits for are done."""
        ready = [op for op in self._updates if not self._missing[op]]
        for op in self._operations:
            while ready:
                update = min(ready, key=self._left) if len(ready) <= MOST_COMPARED else ready[0]
                ready.remove(update)
                self._emit(self._needed[update], ready)
            self._emit([op], ready)
        return list(self._done)

    def _left(self, update: Operation) -> tuple[float, int]:
        """How much arithmetic is left to do for an update: the next product comes after all updates by the last one."""
        return sum(self._work[op] for op in self._needed[update] if op not in self._done), update.index

    def _emit(self, operations: Sequence[Operation], ready: list[Operation]) -> None:
        for op in operations:
            if op in self._done:
                continue
            self._done[op] = None
            for update in self._waiting.get(op, ()):
                self._missing[update] -= 1
                if not self._missing[update]:
                    ready.append(update)


def _dependencies(operations: Sequence[Operation]) -> dict[Operation, list[Operation]]:
    """For each operation those that must run before: what it reads and waits for, and who used its variables."""
    before: dict[Operation, list[Operation]] = {}
    writer: dict[tuple[object, ...], Operation] = {}
    readers: dict[tuple[object, ...], list[Operation]] = {}
    read_from: dict[Tensor, tuple[object, ...]] = {}
    for op in operations:
        sources = [*(tensor.op for tensor in op.inputs), *op.control_inputs]
        for tensor in op.inputs:
            if tensor in read_from:  # a variable is updated in place once nobody needs the value that was read
                readers.setdefault(read_from[tensor], []).append(op)
        for variable in _handle_of(op) if _takes_handle(op) else ():
            if variable in writer:
                sources.append(writer[variable])
            if op.op_def.reads_only:
                readers.setdefault(variable, []).append(op)
                read_from.update(dict.fromkeys(op.outputs, variable))
            else:
                sources += [reader for reader in readers.pop(variable, ()) if reader is not op]
                writer[variable] = op
        before[op] = list(dict.fromkeys(sources))
    return before


def _copied(order: Sequence[Operation], graph: Graph) -> Graph:
    result = Graph(seed=graph.seed, extend=True, functions=graph.functions)
    copies: dict[Operation, Operation] = {}
    for op in order:
        inputs = [copies[tensor.op].outputs[tensor.index] for tensor in op.inputs]
        copies[op] = copy_op(op, inputs, result, [copies[item] for item in op.control_inputs])
    return result
