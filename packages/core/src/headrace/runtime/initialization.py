"""Initial values: variables get theirs on first use, in the order of their dependencies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from headrace.errors import FailedPreconditionError, GraphError
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor, origin
from headrace.runtime.resources import ResourceManager, VariableBuffer

__all__ = ["buffer_of", "initialize_variables"]

TOGETHER_BYTES = 1 << 22
"""Bytes of variables whose initial values are computed in one step."""
_NEEDS_NO_VALUE = frozenset({"AssignVariableOp", "VarIsInitializedOp", "DestroyResourceOp", "RestoreV2"})
"""What may be done with the handle of a variable that has no value yet."""

_PASSES_ON = frozenset({"Identity", "_Retval"})
"""What does nothing with a handle but hand it on."""


def initialize_variables(
    graph: Graph,
    fetches: Sequence[Tensor],
    targets: Sequence[Operation],
    feeds: Sequence[Tensor],
    resources: ResourceManager,
    run: Callable[[Sequence[Operation]], None],
) -> None:
    """Give every variable that a step reads its initial value, unless it has one.

    A variable without an initializer to which the step itself assigns is left alone: its edges say which comes first.

    Args:
      graph: the graph.
      fetches: what the step returns.
      targets: what the step runs.
      feeds: what the step feeds.
      resources: where the variables live.
      run: runs initializers as a step of their own.
    Raises:
      FailedPreconditionError: variables without a value have no initializer; the text names all of them.
      GraphError: initial values depend on each other in a circle.
    """
    initializers = {handle: variable.initializer for variable, handle in graph.handles.items()}
    roots = [fetch.op for fetch in fetches if fetch not in feeds] + list(targets)
    needed = _needed(roots, frozenset(feeds))
    assigned = {op.inputs[0] for op in needed if op.type == "AssignVariableOp"}
    waiting = [
        handle
        for handle in _uninitialized(_handles_read(needed), resources)
        if initializers.get(handle) is not None or handle not in assigned
    ]
    orphans = [handle for handle in waiting if initializers.get(handle) is None]
    if orphans:
        raise _no_initializer(orphans)
    waiting.sort(key=_size, reverse=True)  # what a value is computed in goes again: best while there is little else
    for together in _batches(_in_order(waiting, initializers, resources), initializers):
        left = _uninitialized(together, resources)
        if left:
            run([_initializer(handle, initializers) for handle in left])


def _batches(handles: Sequence[Tensor], initializers: Mapping[Tensor, Operation | None]) -> Iterator[list[Tensor]]:
    """As many variables together as have few bytes, for to make a plan takes longer than to fill them.

    What starts from the value of another variable comes by itself, after that one.
    """
    together: list[Tensor] = []
    total = 0
    for handle in handles:
        size = _size(handle)
        needs = _handles_read(_needed([_initializer(handle, initializers)], frozenset()))
        if together and (needs or total + size > TOGETHER_BYTES):
            yield together
            together, total = [], 0
        together.append(handle)
        total += TOGETHER_BYTES if needs else size
    if together:
        yield together


def _size(handle: Tensor) -> int:
    """Bytes of a variable; of one whose shape is not known as many as are computed by themselves."""
    shape, dtype = handle.op.attrs["shape"], handle.op.attrs["dtype"]
    return (shape.num_elements or 0) * dtype.size if shape.is_fully_defined else TOGETHER_BYTES


def _in_order(
    handles: Iterable[Tensor], initializers: Mapping[Tensor, Operation | None], resources: ResourceManager
) -> list[Tensor]:
    """The handles and those that their initial values read, each after what it needs. No recursion: chains are long."""
    ordered: dict[Tensor, None] = {}

    def needs(handle: Tensor) -> Iterator[Tensor]:
        return iter(
            _uninitialized(_handles_read(_needed([_initializer(handle, initializers)], frozenset())), resources)
        )

    for root in handles:
        path = {} if root in ordered else {root: needs(root)}
        while path:
            handle, remaining = next(reversed(path.items()))
            other = next(remaining, None)
            if other is None:
                ordered[handle] = None
                del path[handle]
            elif other in path:
                circle = " -> ".join(item.op.name for item in (*path, other))
                raise GraphError(
                    "initial values depend on each other in a circle",
                    where=other.op.location,
                    expected="initial values that can be computed one after the other",
                    got=circle,
                    hint="start one of these variables from a constant, and assign to it later",
                )
            elif other not in ordered:
                path[other] = needs(other)
    return list(ordered)


def _initializer(handle: Tensor, initializers: Mapping[Tensor, Operation | None]) -> Operation:
    initializer = initializers.get(handle)
    if initializer is None:
        raise _no_initializer([handle])
    return initializer


def _needed(roots: Iterable[Operation], feeds: frozenset[Tensor]) -> set[Operation]:
    """The operations that run for some of them."""
    seen: set[Operation] = set()
    stack = list(roots)
    while stack:
        op = stack.pop()
        if op not in seen:
            seen.add(op)
            stack.extend(tensor.op for tensor in op.inputs if tensor not in feeds)
            stack.extend(op.control_inputs)
    return seen


def _handles_read(operations: Iterable[Operation]) -> list[Tensor]:
    """The handles whose variable the operations need the value of, in the order of creation."""
    handles = {
        tensor
        for op in operations
        for index, tensor in enumerate(op.inputs)
        if tensor.op.type == "VarHandleOp" and _needs_value(op, index)
    }
    return sorted(handles, key=lambda tensor: tensor.op.index)


def _needs_value(op: Operation, index: int) -> bool:
    """True if an operation needs the value of the variable whose handle is its input `index`, or a function may."""
    if not op.op_def.function_attrs:
        return op.type not in _NEEDS_NO_VALUE
    for body in op.bodies:
        argument = body.arguments.get(index - (len(op.inputs) - len(body.arguments)))
        for inner in body.operations if argument is not None else ():
            for place, tensor in enumerate(inner.inputs):
                if (
                    origin(tensor).outputs[0] is argument
                    and inner.type not in _PASSES_ON
                    and _needs_value(inner, place)
                ):
                    return True
    return False


def _uninitialized(handles: Iterable[Tensor], resources: ResourceManager) -> list[Tensor]:
    return [handle for handle in handles if not buffer_of(handle, resources).is_initialized]


def buffer_of(handle: Tensor, resources: ResourceManager) -> VariableBuffer:
    """The buffer of the variable behind a handle."""
    attrs = handle.op.attrs
    return resources.variable(
        attrs["container"], attrs["shared_name"] or handle.op.name, attrs["dtype"], attrs["shape"]
    )


def _no_initializer(handles: Sequence[Tensor]) -> FailedPreconditionError:
    names = ", ".join(f"'{handle.op.name}'" for handle in handles)
    return FailedPreconditionError(
        f"variables without a value: {names}",
        where=handles[0].op.location,
        expected="an initial value, an assignment or a restored checkpoint before the first read",
        got=f"{len(handles)} uninitialised",
        hint="restore a checkpoint, or session.write_variables({name: value, ...})",
    )
