"""OpCase: one operation, its inputs and what must come out, as plain data.

Every backend, the constant folder, imports and oracles run the same cases, so a case is written once, in
`testing/cases/<family>.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

__all__ = ["OpCase", "all_cases", "cases_of"]


@dataclass(frozen=True, slots=True)
class OpCase:
    """One test of one operation.

    Attributes:
      id: unique name, `Type/what it shows`; cases from docs or reports carry the report's id: `FloorMod/O05 int32`.
      op: the operation type.
      inputs: one array (or Python value) per input of the signature; a list of them for a list input.
      attrs: the attributes that do not follow from the inputs.
      expected: what must come out: an array, a tuple of arrays for several outputs, or a function of the inputs that
        gives these from an independent definition in NumPy (in float64 where that matters). None only with `raises`.
      raises: a regular expression that the text of the error must match, at build time or at run time.
      differentiate: positions of flat inputs by which the gradient is checked numerically; None for all floating ones.
        Give `()` where the point is not differentiable (ties, kinks, NaN), with the reason in a comment.
      exact: bit-equality instead of the tolerance table.
      deviation: where TensorFlow gives something else and is wrong by its own definition: why. The oracle lists these.
      oracle: False if TensorFlow cannot run the case at all (an operation of our own).
      build: for operations that take or give what is no array, such as lists: a function of `apply` and the inputs that
        calls `apply(type, *inputs, **attrs)`, as `hr.apply_op`, and gives tensors that can be fetched. The inputs are
        then those of the function, and its results what `expected` speaks of.
    """

    id: str
    op: str
    inputs: Sequence[Any]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    expected: Any | Callable[..., Any] = None
    raises: str | None = None
    differentiate: tuple[int, ...] | None = None
    exact: bool = False
    deviation: str | None = None
    oracle: bool = True
    build: Callable[..., Any] | None = None

    def __str__(self) -> str:
        return self.id


def all_cases() -> Iterator[OpCase]:
    """Every case of every family of core, in the order of the families' names."""
    package = import_module("headrace.testing.cases")
    for module in iter_modules(package.__path__):
        yield from import_module(f"headrace.testing.cases.{module.name}").CASES


def cases_of(op: str) -> list[OpCase]:
    """The cases of one operation type."""
    return [case for case in all_cases() if case.op == op]
