"""Narrowing: functions take and give only what is used, and contain what only they need.

- A loop loses the variables that neither its condition, its effects nor a live output depends on. A variable that it
  does not change is the same after it as before, and a constant one becomes a constant inside.
- A branch loses the inputs that no function reads and the outputs that nobody reads. Constants go inside; so does what
  is computed for one branch alone, so that it is computed only if that branch is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from headrace.graph.attr import AttrValue, FunctionName
from headrace.graph.extensions import needed_operations
from headrace.graph.frames import has_tokens
from headrace.graph.function_library import FunctionLibrary
from headrace.graph.functions import Body
from headrace.graph.graph import Graph
from headrace.graph.handle_spec import handle_attrs
from headrace.graph.operation import Operation, Tensor, origin
from headrace.passes.rewrite import copy_op, drop_dead, is_pure

__all__ = ["narrow"]

_LOOPS = frozenset({"While", "StatelessWhile"})
_BRANCHES = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})


def narrow(graph: Graph) -> Graph:
    """Let loops and branches take, keep and give only what is used."""
    if has_tokens(graph) or not any(op.type in _LOOPS | _BRANCHES for op in graph.operations):
        return graph
    return drop_dead(_Narrowing(graph).run())


class _Narrowing:
    """One run of the pass. Mutable, used once."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._result = Graph(seed=graph.seed, extend=True, functions=FunctionLibrary(graph.functions))
        self._readers: dict[Tensor, list[Operation]] = {}
        for op in graph.operations:
            for tensor in op.inputs:
                self._readers.setdefault(tensor, []).append(op)
        self._awaited = {item for op in graph.operations for item in op.control_inputs}
        self._tensors: dict[Tensor, Tensor] = {}
        self._operations: dict[Operation, Operation] = {}

    def run(self) -> Graph:
        """The narrowed graph."""
        sunk = {op: self._sunk(op) for op in reversed(self._graph.operations) if op.type in _BRANCHES}
        for op in self._graph.operations:
            if op.type in _LOOPS:
                self._loop(op)
            elif op.type in _BRANCHES:
                self._branch(op, sunk[op])
            else:
                self._copy(op)
        return self._result

    def _copy(self, op: Operation) -> None:
        inputs = [self._tensors[tensor] for tensor in op.inputs]
        self._replace(op, copy_op(op, inputs, self._result, self._controls(op)), range(len(op.outputs)))

    def _controls(self, op: Operation) -> list[Operation]:
        return [self._operations[item] for item in op.control_inputs]

    def _replace(self, op: Operation, copied: Operation, outputs: Sequence[int]) -> None:
        """Let the outputs of `copied` stand for those outputs of `op`."""
        self._operations[op] = copied
        self._tensors.update(
            (op.outputs[number], tensor) for number, tensor in zip(outputs, copied.outputs, strict=True)
        )

    def _is_read(self, tensor: Tensor) -> bool:
        return tensor in self._readers

    def _loop(self, op: Operation) -> None:
        condition, body = op.bodies
        count = len(op.inputs)
        same = {j for j in range(count) if _is_argument(body.results[j], j)}
        read = {j for j in range(count) if j not in same and self._is_read(op.outputs[j])}
        kept = _closure(read | _arguments_of(condition, condition.results) | _arguments_of(body, ()), body)
        inside = {j: op.inputs[j].op for j in kept & same if op.inputs[j].op.type == "Const"}
        order = [j for j in range(count) if j in kept and j not in inside]
        if len(order) == count or not order:
            self._copy(op)
        else:
            self._narrow_loop(op, order, inside, same)
        for j in same:
            self._tensors[op.outputs[j]] = self._tensors[op.inputs[j]]  # also after no iteration at all

    def _narrow_loop(
        self, op: Operation, order: Sequence[int], inside: Mapping[int, Operation], same: Collection[int]
    ) -> None:
        condition, body = op.bodies
        constants = {j: _constant(source) for j, source in inside.items()}
        functions = {
            "cond": self._rebuilt(condition, order, constants, condition.results),
            "body": self._rebuilt(body, order, constants, [body.results[j] for j in order]),
        }
        attrs: dict[str, AttrValue] = {"T": tuple(op.inputs[j].dtype for j in order), **_names(functions)}
        copied = self._create(op, [op.inputs[j] for j in order], order, attrs)
        changed = [(number, j) for number, j in enumerate(order) if j not in same]
        self._operations[op] = copied
        self._tensors.update((op.outputs[j], copied.outputs[number]) for number, j in changed)

    def _branch(self, op: Operation, sunk: Sequence[Collection[Operation]]) -> None:
        bodies = op.bodies
        inputs = op.inputs[1:]
        results = [i for i, output in enumerate(op.outputs) if self._is_read(output)]
        used = [_arguments_of(body, [body.results[i] for i in results]) for body in bodies]
        within: set[Operation] = set().union(*sunk)
        outside = [
            j
            for j, tensor in enumerate(inputs)
            if any(j in reads for reads in used) and tensor.op.type != "Const" and tensor.op not in within
        ]
        new = [
            tensor
            for tensor in dict.fromkeys(item for part in sunk for source in part for item in source.inputs)
            if tensor.op not in within and tensor.op.type != "Const"
        ]
        if len(outside) == len(inputs) and len(results) == len(op.outputs) and not within:
            self._copy(op)
            return
        places: dict[Tensor, int] = {}
        for tensor in (*(inputs[j] for j in outside), *new):
            places.setdefault(tensor, len(places))
        functions: list[Body] = []
        for body, part in zip(bodies, sunk, strict=True):
            rebuilt = body.successor(self._result.functions.unique_name(f"{body.name}_narrow"), self._result.functions)
            tensors = {
                tensor: rebuilt.add_argument(number, self._tensors[tensor].spec, like=tensor)
                for tensor, number in places.items()
            }
            for source in part:
                _copy_into(source, rebuilt, tensors)
            for j in sorted(used[len(functions)]):
                if inputs[j].op.type == "Const":
                    _copy_into(inputs[j].op, rebuilt, tensors)
            arguments = {body.arguments[j]: tensors[tensor] for j, tensor in enumerate(inputs) if tensor in tensors}
            wanted = [body.results[i] for i in results]
            rebuilt.include(body, wanted, arguments, may_not_run=True)
            functions.append(rebuilt.complete([arguments[result] for result in wanted]))
        taken = list(places)
        names = tuple(FunctionName(body.name) for body in functions)
        attrs: dict[str, AttrValue] = {
            "Tin": tuple(tensor.dtype for tensor in taken),
            "Tout": tuple(op.outputs[i].dtype for i in results),
            **({"branches": names} if "branches" in op.attrs else {"then_branch": names[0], "else_branch": names[1]}),
        }
        self._replace(op, self._create(op, [op.inputs[0], *taken], results, attrs), results)

    def _create(
        self, op: Operation, inputs: Sequence[Tensor], outputs: Sequence[int], attrs: Mapping[str, AttrValue]
    ) -> Operation:
        """The operation on fewer inputs, giving fewer outputs."""
        kept = {name: value for name, value in op.attrs.items() if not name.startswith("_") or name == "_target"}
        kept |= attrs
        if op.attrs["output_shapes"]:
            kept["output_shapes"] = tuple(op.attrs["output_shapes"][i] for i in outputs)
        kept |= handle_attrs([op.outputs[i] for i in outputs])
        copied = copy_op(op, [self._tensors[tensor] for tensor in inputs], self._result, self._controls(op), kept)
        for number, i in enumerate(outputs):
            copied.outputs[number].shape = op.outputs[i].shape
        return copied

    def _rebuilt(
        self,
        body: Body,
        order: Sequence[int],
        inside: Mapping[int, Callable[[Body], Tensor]],
        results: Sequence[Tensor],
    ) -> Body:
        """A function of some of the arguments, with constants in the place of others."""
        rebuilt = body.successor(self._result.functions.unique_name(f"{body.name}_narrow"), self._result.functions)
        tensors = {
            body.arguments[j]: rebuilt.add_argument(number, body.arguments[j].spec, like=body.arguments[j])
            for number, j in enumerate(order)
        }
        tensors |= {body.arguments[j]: make(rebuilt) for j, make in inside.items()}
        rebuilt.include(body, results, tensors, may_not_run=True)
        return rebuilt.complete([tensors[result] for result in results])

    def _sunk(self, op: Operation) -> list[list[Operation]]:
        """For each branch the operations that nothing but this branch needs, in order."""
        used = [_arguments_of(body, body.results) for body in op.bodies]
        alone = [{j for j in reads if not any(j in other for other in used if other is not reads)} for reads in used]
        sunk: list[list[Operation]] = [[] for _ in used]
        owner: dict[Operation, int] = {}
        for candidate in reversed(self._graph.operations[: op.index]):
            branch = self._owner(candidate, op, alone, owner)
            if branch is not None:
                owner[candidate] = branch
                sunk[branch].insert(0, candidate)
        return sunk

    def _owner(
        self, candidate: Operation, op: Operation, alone: Sequence[Collection[int]], owner: Mapping[Operation, int]
    ) -> int | None:
        """The branch of `op` that alone needs an operation, or None."""
        if not is_pure(candidate) or candidate.type == "Const" or candidate in self._awaited:
            return None
        branches: set[int | None] = set()
        for output in candidate.outputs:
            for reader in self._readers.get(output, ()):
                if reader is not op:
                    branches.add(owner.get(reader))
                    continue
                places = [j for j, tensor in enumerate(op.inputs) if tensor is output]
                found = [number for number, mine in enumerate(alone) if all(j - 1 in mine for j in places)]
                branches.add(found[0] if found else None)
        return branches.pop() if len(branches) == 1 else None


def _names(functions: Mapping[str, Body]) -> dict[str, AttrValue]:
    return {name: FunctionName(body.name) for name, body in functions.items()}


def _constant(source: Operation) -> Callable[[Body], Tensor]:
    return lambda body: _copy_into(source, body, {})


def _copy_into(op: Operation, body: Body, tensors: dict[Tensor, Tensor]) -> Tensor:
    """Copy an operation of the graph around into a function; constants that it reads come along."""
    for tensor in op.inputs:
        if tensor not in tensors:
            _copy_into(tensor.op, body, tensors)
    copied = copy_op(op, [tensors[tensor] for tensor in op.inputs], body)
    tensors.update(zip(op.outputs, copied.outputs, strict=True))
    return copied.outputs[0]


def _is_argument(tensor: Tensor, number: int) -> bool:
    source = origin(tensor)
    return source.type == "_Arg" and source.attrs["index"] == number


def _arguments_of(body: Body, results: Sequence[Tensor]) -> set[int]:
    """The arguments that some results, or an effect of the function, depend on."""
    effects = [op for op in body.operations if op.has_effect]
    operations, _ = needed_operations(results, effects, ())
    return {op.attrs["index"] for op in operations if op.type == "_Arg"}


def _closure(start: Collection[int], body: Body) -> set[int]:
    """The loop variables that some of them depend on, over any number of iterations."""
    found: set[int] = set()
    waiting = set(start)
    while waiting:
        found |= waiting
        waiting = _arguments_of(body, [body.results[j] for j in waiting]) - found
    return found
