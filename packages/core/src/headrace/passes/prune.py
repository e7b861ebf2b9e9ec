"""Prune: from the user's open graph to the bounded graph of one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.errors import FeedError, GraphError
from headrace.graph.extensions import needed_operations
from headrace.graph.frames import Frames, forward_inputs
from headrace.graph.graph import Graph
from headrace.graph.handle_spec import handle_attrs
from headrace.graph.operation import Operation, Tensor
from headrace.passes.rewrite import close_loops, copy_op
from headrace.types import Shape

__all__ = ["prune"]


def prune(
    graph: Graph,
    fetches: Sequence[Tensor],
    targets: Sequence[Operation],
    feeds: Sequence[Tensor],
    feed_shapes: Sequence[Shape] | None = None,
    *,
    prefix: str = "",
    may_alias: bool = False,
) -> Graph:
    """The part of `graph` that a step needs, as a bounded graph.

    Argument i is an `_Arg` operation that stands for `feeds[i]`; result i is a `_Retval` of `fetches[i]`; targets carry
    the attr `_target`. What only leads to a fed tensor is left out. Shapes are inferred again from the feeds' shapes,
    so that a plan for concrete shapes knows every shape that follows from them; in a branch of primitives those that do
    not fit each other are an error only if it is taken. Where a tensor that the graph computes is fed, nothing that was
    known of values and shapes after it is taken over: the feed may differ.

    Args:
      graph: the user's graph.
      fetches: the tensors to return.
      targets: the operations to run for their effect.
      feeds: the tensors that get a value from outside.
      feed_shapes: the shapes to assume of the feeds, or None for their static ones.
      prefix: what comes before the names of the operations, for the body of a function: state that is kept under the
        name of an operation must not be shared with another one.
      may_alias: the results are only passed on, so they may share memory (see `interfaces.Compiled`).
    Raises:
      FeedError: a placeholder is needed and not fed.
      GraphError: a target only marks a result, or a loop of primitives is not well formed.
    """
    bounded = Graph(seed=graph.seed, extend=True, functions=graph.functions)
    shapes = feed_shapes if feed_shapes is not None else [feed.shape for feed in feeds]
    tensors: dict[Tensor, Tensor] = {}
    for index, (feed, shape) in enumerate(zip(feeds, shapes, strict=True)):
        attrs: Mapping[str, object] = {
            "T": feed.dtype,
            "index": index,
            "shape": shape,
            "_feed": feed.name,
            **handle_attrs([feed]),
        }
        argument = bounded.create_op(
            "_Arg", (), attrs, name=f"argument_{index}", device=feed.op.device, source=feed.op.source
        )
        tensors[feed] = argument.outputs[0]
    only_placeholders = all(feed.op.type in ("Placeholder", "_Arg") for feed in feeds)
    marked = frozenset(targets)
    copies: dict[Operation, Operation] = {}
    mortal: set[Operation] = set()
    operations, replaced = needed_operations(fetches, targets, frozenset(feeds))
    types = {op.type for op in operations}
    if "Enter" in types:
        Frames(graph, operations)  # while edges still have the names that the user knows
    stands_for: dict[Operation, list[Operation]] = {}
    for replaced_op, extension in replaced.items():
        stands_for.setdefault(extension, []).append(replaced_op)
    for op in operations:
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
        inputs = [tensors[tensor] for tensor in forward_inputs(op)]
        controls = [copies[item] for item in op.control_inputs if item in copies]
        equal = (op, *stands_for.get(op, ()))
        attrs = {**op.attrs, "_target": True} if any(item in marked for item in equal) else op.attrs
        if "Switch" in types and (op.type == "Switch" or not mortal.isdisjoint(_sources(op))):
            mortal.add(op)
        copy = copy_op(
            op, inputs, bounded, controls, attrs, prefix=prefix, trusted=only_placeholders, may_not_run=op in mortal
        )
        for old, new in zip(op.outputs, copy.outputs, strict=True):
            new.shape = _sharpened(new.shape, old.shape) if only_placeholders else new.shape
        for item in equal:
            copies[item] = copy
            for old, new in zip(item.outputs, copy.outputs, strict=False):  # an extension has more outputs
                tensors.setdefault(old, new)
    close_loops(copies, tensors)
    for index, fetch in enumerate(fetches):
        attrs = {"T": fetch.dtype, "index": index, **({"_may_alias": True} if may_alias else {})}
        bounded.create_op("_Retval", [tensors[fetch]], attrs, name=f"result_{index}", source=fetch.op.source)
    return bounded


def _sources(op: Operation) -> tuple[Operation, ...]:
    """The operations that an operation follows."""
    return *(tensor.op for tensor in op.inputs), *op.control_inputs


def _sharpened(inferred: Shape, declared: Shape) -> Shape:
    """What the user declared beyond the shape function's knowledge (by `set_shape`) is kept."""
    if inferred is declared or not inferred.is_compatible_with(declared):
        return inferred
    return inferred.merge(declared)


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
