"""Nested structures of tensors, as users pass them to and from functions of loops and branches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.errors import InvalidArgumentError
from headrace.graph.operation import Tensor
from headrace.ops.indexed_slices import IndexedSlices

__all__ = ["Rebuild", "check_same_structure", "flatten", "ordered_keys"]

Rebuild = Callable[[Sequence[Any]], Any]
"""From the leaves, in order, to the structure."""


def flatten(structure: Any) -> tuple[list[Any], Rebuild]:
    """The leaves of nested lists, tuples, named tuples and mappings, and the function that puts others in their place.

    `IndexedSlices`, sparse tensors and other values made of tensors are structures of their tensors; None has no leaf.
    A class of such values that holds more than tensors has a method `__headrace_flatten__`, which gives its tensors and
    a function from others to a value like it.
    """
    leaves: list[Any] = []
    rebuild = _visit(structure, leaves)
    return leaves, lambda values: rebuild(iter(values))


def _visit(item: Any, leaves: list[Any]) -> Callable[[Any], Any]:
    if item is None:
        return lambda values: None
    if isinstance(item, Mapping):
        parts = {key: _visit(item[key], leaves) for key in ordered_keys(item)}

        def mapping(values: Any) -> dict[Any, Any]:
            found = {key: part(values) for key, part in parts.items()}
            return {key: found[key] for key in item}

        return mapping
    if isinstance(item, (list, tuple)):
        items = [_visit(part, leaves) for part in item]
        make = type(item)
        if hasattr(item, "_fields"):
            return lambda values: make(*(part(values) for part in items))
        return lambda values: make(part(values) for part in items)
    if hasattr(item, "__headrace_flatten__"):
        tensors, make_like = item.__headrace_flatten__()
        pieces = [_visit(tensor, leaves) for tensor in tensors]
        return lambda values: make_like([piece(values) for piece in pieces])
    if is_composite(item):
        fields = [field.name for field in dataclasses.fields(item)]
        inner = {name: _visit(getattr(item, name), leaves) for name in fields}
        whole = type(item)
        return lambda values: whole(**{name: part(values) for name, part in inner.items()})
    leaves.append(item)
    return next


def ordered_keys(item: Mapping[Any, Any]) -> list[Any]:
    """The keys in an order of their own: two branches that build the same mapping in another order give the same."""
    return sorted(item, key=repr)


def is_composite(item: Any) -> bool:
    """True for a value that stands for several tensors."""
    if isinstance(item, IndexedSlices) or hasattr(item, "__headrace_flatten__"):
        return True
    is_record = dataclasses.is_dataclass(item) and not isinstance(item, type)
    return is_record and all(isinstance(getattr(item, field.name), Tensor) for field in dataclasses.fields(item))


def check_same_structure(expected: Any, given: Any, what: str, hint: str) -> None:
    """Raise InvalidArgumentError unless two values are nested in the same way.

    Args:
      expected: the structure that is asked for.
      given: the structure that came.
      what: what gave it, for the error.
      hint: what to do.
    """
    mine, theirs = outline(expected), outline(given)
    if mine != theirs:
        raise InvalidArgumentError(f"{what} returns another structure", expected=mine, got=theirs, hint=hint)


def outline(item: Any) -> str:
    """How a value is nested: `(*, [*, *])`, with a star for each leaf."""
    if item is None:
        return "None"
    if isinstance(item, Mapping):
        return "{" + ", ".join(f"{key!r}: {outline(item[key])}" for key in ordered_keys(item)) + "}"
    if isinstance(item, (list, tuple)):
        inner = ", ".join(outline(part) for part in item)
        return f"[{inner}]" if isinstance(item, list) else f"({inner})"
    if is_composite(item):
        return type(item).__name__
    return "*"
