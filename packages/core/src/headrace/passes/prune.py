"""Prune: from the user's open graph to the bounded graph of one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.errors import FeedError, GraphError
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.passes.rewrite import copy_op
from headrace.types import Shape

__all__ = ["prune"]


def prune(
    graph: Graph,
    fetches: Sequence[Tensor],
    targets: Sequence[Operation],
    feeds: Sequence[Tensor],
    feed_shapes: Sequence[Shape] | None = None,
) -> Graph:
    """The part of `graph` that a step needs, as a bounded graph.

    Argument i is an `_Arg` operation that stands for `feeds[i]`; result i is a `_Retval` of `fetches[i]`; targets carry
    the attr `_target`. What only leads to a fed tensor is left out. Shapes are inferred again from the feeds' shapes,
    so that a plan for concrete shapes knows every shape that follows from them. Where a tensor that the graph computes
    is fed, nothing that was known of values and shapes after it is taken over: the feed may differ.

    Args:
      graph: the user's graph.
      fetches: the tensors to return.
      targets: the operations to run for their effect.
      feeds: the tensors that get a value from outside.
      feed_shapes: the shapes to assume of the feeds, or None for their static ones.
    Raises:
      FeedError: a placeholder is needed and not fed.
      GraphError: a target only marks a result.
    """
    bounded = Graph(seed=graph.seed, extend=True)
    bounded.library = graph.library
    shapes = feed_shapes if feed_shapes is not None else [feed.shape for feed in feeds]
    tensors: dict[Tensor, Tensor] = {}
    for index, (feed, shape) in enumerate(zip(feeds, shapes, strict=True)):
        attrs: Mapping[str, object] = {"T": feed.dtype, "index": index, "shape": shape}
        argument = bounded.create_op(
            "_Arg", (), attrs, name=f"argument_{index}", device=feed.op.device, source=feed.op.source
        )
        tensors[feed] = argument.outputs[0]
    only_placeholders = all(feed.op.type == "Placeholder" for feed in feeds)
    marked = frozenset(targets)
    copies: dict[Operation, Operation] = {}
    for op in _needed(fetches, targets, frozenset(feeds)):
        if op.type in ("Placeholder", "_Arg") and op.outputs[0] not in tensors:
            raise _missing_feed(op, fetches, targets)
        if op.type == "_Retval":
            raise GraphError(
                f"'{op.name}' marks a result of a function and cannot be run",
                where=op.location,
                expected="operations that compute something",
                got="a _Retval operation",
                hint=f"fetch what it reads, '{op.inputs[0].name}'",
            )
        inputs = [tensors[tensor] for tensor in op.inputs]
        controls = [copies[item] for item in op.control_inputs if item in copies]
        attrs = {**op.attrs, "_target": True} if op in marked else op.attrs
        copies[op] = copy_op(op, inputs, bounded, controls, attrs, trusted=only_placeholders)
        for old, new in zip(op.outputs, copies[op].outputs, strict=True):
            new.shape = _sharpened(new.shape, old.shape) if only_placeholders else new.shape
            tensors.setdefault(old, new)
    for index, fetch in enumerate(fetches):
        attrs = {"T": fetch.dtype, "index": index}
        bounded.create_op("_Retval", [tensors[fetch]], attrs, name=f"result_{index}", source=fetch.op.source)
    return bounded


def _sharpened(inferred: Shape, declared: Shape) -> Shape:
    """What the user declared beyond the shape function's knowledge (by `set_shape`) is kept."""
    return inferred.merge(declared) if inferred.is_compatible_with(declared) else inferred


def _needed(fetches: Sequence[Tensor], targets: Sequence[Operation], feeds: frozenset[Tensor]) -> list[Operation]:
    """The operations to run, in the order of creation, which is topological since graphs only grow."""
    needed: set[Operation] = set()
    stack = [fetch.op for fetch in fetches if fetch not in feeds] + list(targets)
    while stack:
        op = stack.pop()
        if op in needed:
            continue
        needed.add(op)
        stack.extend(tensor.op for tensor in op.inputs if tensor not in feeds)
        stack.extend(item for item in op.control_inputs if not _all_fed(item, feeds))
    return sorted(needed, key=lambda item: item.index)


def _all_fed(op: Operation, feeds: frozenset[Tensor]) -> bool:
    """An operation whose every output is fed need not run, not even for a control edge."""
    return bool(op.outputs) and all(output in feeds for output in op.outputs)


def _missing_feed(op: Operation, fetches: Sequence[Tensor], targets: Sequence[Operation]) -> FeedError:
    wanted = [fetch.name for fetch in fetches] + [target.name for target in targets]
    return FeedError(
        f"placeholder '{op.name}' needs a value",
        where=op.location,
        expected=f"a feed of {op.outputs[0].spec}, which is needed to compute "
        + ", ".join(f"'{name}'" for name in wanted[:4]),
        got="none",
        hint=f"session.run(..., feeds={{{op.name}: value}})",
    )
