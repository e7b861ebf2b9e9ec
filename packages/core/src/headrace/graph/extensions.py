"""Extensions: operations that do more than another one and stand for it.

A graph only grows, and the gradient of a loop or branch needs values from inside that the forward operation does not
give. So a second operation is added, an *extension* of the first one: of the same type and on the same inputs, with
outputs that start with the first one's and go on with the saved values. A step that needs the extension runs it in the
place of the operation, so effects and random numbers happen once; a step that does not need it pays nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from headrace.graph.frames import forward_inputs
from headrace.graph.operation import Operation, Tensor

__all__ = ["in_order", "latest", "needed_operations", "standing_for"]


def latest(op: Operation) -> Operation:
    """The last extension of an operation, or itself."""
    extensions = op.graph.extensions
    while op in extensions:
        op = extensions[op]
    return op


def standing_for(tensor: Tensor, replaced: Mapping[Operation, Operation]) -> Tensor:
    """The output that stands for a tensor where some operations are replaced by extensions."""
    op = replaced.get(tensor.op)
    return tensor if op is None else op.outputs[tensor.index]


def needed_operations(
    fetches: Iterable[Tensor], targets: Iterable[Operation], known: Collection[Tensor]
) -> tuple[list[Operation], dict[Operation, Operation]]:
    """The operations that compute some tensors and run some operations, each after what it needs.

    Args:
      fetches: the tensors.
      targets: the operations.
      known: tensors whose value comes from elsewhere; what only leads to them is left out.
    Returns:
      The operations in order, and for each one that an extension among them stands for that extension.
    """
    roots = [fetch.op for fetch in fetches if fetch not in known] + list(targets)
    replaced: dict[Operation, Operation] = {}
    while True:  # what an extension needs may bring further ones
        needed = _closure([replaced.get(op, op) for op in roots], known, replaced)
        graph = next(iter(needed)).graph if needed else None
        if graph is None or not graph.extensions:
            return sorted(needed, key=lambda op: op.index), {}
        found = dict(replaced)
        for op in needed:
            chain = _chain(op)
            last = max(index for index, item in enumerate(chain) if item in needed or item in graph.raised)
            found.update((item, chain[last]) for item in chain[:last])
        found = {op: found.get(extension, extension) for op, extension in found.items()}
        if found == replaced:
            ordered = in_order(needed, known, replaced) if replaced else sorted(needed, key=lambda op: op.index)
            return ordered, replaced
        replaced = found


def in_order(
    operations: Collection[Operation], known: Collection[Tensor], replaced: Mapping[Operation, Operation]
) -> list[Operation]:
    """The operations with each after what it needs, otherwise in the order of creation."""
    ordered: dict[Operation, None] = {}
    for root in sorted(operations, key=lambda op: op.index):
        stack = [root]
        while stack:
            op = stack[-1]
            needs = _needs(op, known, replaced, forward_inputs(op))
            waiting = [item for item in needs if item not in ordered and item in operations]
            if waiting and op not in ordered:
                stack += waiting
            else:
                ordered[stack.pop()] = None
    return list(ordered)


def _closure(
    roots: Iterable[Operation], known: Collection[Tensor], replaced: dict[Operation, Operation]
) -> dict[Operation, None]:
    needed: dict[Operation, None] = {}
    stack = list(roots)
    while stack:
        op = stack.pop()
        if op not in needed:
            needed[op] = None
            stack += _needs(op, known, replaced, op.inputs)
    return needed


def _needs(
    op: Operation, known: Collection[Tensor], replaced: Mapping[Operation, Operation], inputs: Iterable[Tensor]
) -> list[Operation]:
    found = [tensor.op for tensor in inputs if tensor not in known]
    found += [item for item in op.control_inputs if not _all_known(item, known)]
    return [replaced.get(item, item) for item in found] if replaced else found


def _all_known(op: Operation, known: Collection[Tensor]) -> bool:
    """An operation whose every output is known need not run, not even for a control edge."""
    return bool(op.outputs) and all(output in known for output in op.outputs)


def _chain(op: Operation) -> Sequence[Operation]:
    """An operation with its extensions, the last one at the end."""
    chain = [op]
    while chain[-1] in op.graph.extensions:
        chain.append(op.graph.extensions[chain[-1]])
    return chain
