"""Fetches: any nested structure of tensors and operations, flattened before a step and rebuilt after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.errors import GraphError, InvalidArgumentError
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.ops.indexed_slices import IndexedSlices

__all__ = ["Fetches", "flatten_fetches"]

Rebuild = Callable[[Sequence[Any]], Any]


@dataclass(frozen=True, slots=True)
class Fetches:
    """What a step returns.

    Attributes:
      tensors: the tensors to compute; one that is asked for twice is here twice, since each result is the caller's own.
      targets: the operations to run for their effect.
      rebuild: from the tensors' values to the structure that was asked for, with None for operations.
    """

    tensors: tuple[Tensor, ...]
    targets: tuple[Operation, ...]
    rebuild: Rebuild


def flatten_fetches(graph: Graph, structure: Any) -> Fetches:
    """Find the tensors and operations in nested lists, tuples, named tuples and mappings.

    Args:
      graph: the session's graph.
      structure: Tensor, Operation, Variable, a name of one (`"op:0"` a tensor, `"op"` an operation), IndexedSlices, or
        a nested structure of these.
    Raises:
      InvalidArgumentError: something else is in it.
      GraphError: a tensor of another graph is in it.
    """
    if type(structure) is Tensor:  # the common case of the hot path
        _check_graph(graph, structure.op)
        return Fetches((structure,), (), _first)
    tensors: list[Tensor] = []
    targets: dict[Operation, None] = {}
    rebuild = _visit(graph, structure, tensors, targets)
    return Fetches(tuple(tensors), tuple(targets), rebuild)


def _first(values: Sequence[Any]) -> Any:
    return values[0]


def _visit(graph: Graph, item: Any, tensors: list[Tensor], targets: dict[Operation, None]) -> Rebuild:
    if isinstance(item, Mapping):
        parts = {key: _visit(graph, value, tensors, targets) for key, value in item.items()}
        return lambda values: {key: part(values) for key, part in parts.items()}
    if isinstance(item, (list, tuple)):
        return _visit_sequence(graph, item, tensors, targets)
    if isinstance(item, IndexedSlices):  # it may stand for far more rows than it has
        rows = _visit_sequence(graph, [item.values, item.indices, item.dense_shape], tensors, targets)
        return lambda values: IndexedSlices(*rows(values))
    if item is None:
        return lambda values: None
    leaf = _leaf(graph, item)
    if isinstance(leaf, Operation):
        targets[leaf] = None
        return lambda values: None
    position = len(tensors)
    tensors.append(leaf)
    return lambda values: values[position]


def _visit_sequence(
    graph: Graph, items: Sequence[Any], tensors: list[Tensor], targets: dict[Operation, None]
) -> Rebuild:
    parts = [_visit(graph, item, tensors, targets) for item in items]
    if isinstance(items, list):
        return lambda values: [part(values) for part in parts]
    if hasattr(items, "_fields"):
        make = type(items)
        return lambda values: make(*(part(values) for part in parts))
    return lambda values: tuple(part(values) for part in parts)


def _leaf(graph: Graph, item: Any) -> Tensor | Operation:
    if isinstance(item, str):
        return graph.tensor(item) if ":" in item else graph.operation(item)
    to_fetch = getattr(item, "value", item)  # a Variable is fetched by its value
    if isinstance(to_fetch, (Tensor, Operation)):
        _check_graph(graph, to_fetch if isinstance(to_fetch, Operation) else to_fetch.op)
        return to_fetch
    raise InvalidArgumentError(
        "this cannot be fetched",
        expected="a tensor, operation, variable, a name of one, or a list, tuple or dict of these",
        got=f"{item!r} of type {type(item).__name__}",
        hint="a plain Python value needs no step; fetch what a function of Headrace returned",
    )


def _check_graph(graph: Graph, op: Operation) -> None:
    if op.graph is not graph:
        raise GraphError(
            f"'{op.name}' is fetched, but belongs to another graph",
            where=op.location,
            expected="an operation of the session's graph",
            got=f"one of {op.graph}",
            hint="make a session of that graph",
        )
