"""Statements of a step function: the text of each, and which values it reads and writes.

What Python holds while a step runs are arguments and what NumPy kernels gave: the names v0, v1, ... by the number of
the value. Memory is planned as if each of the latter were gone after its last use. So the function forgets it there,
and where that is follows from what the statements say of themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Expression", "Statement", "dying", "joined", "local"]


@dataclass(frozen=True, slots=True)
class Expression:
    """Python text that stands for an array.

    Attributes:
      text: what it is.
      reads: numbers of the values that it names.
    """

    text: str
    reads: tuple[int, ...] = ()

    def wrapped(self, before: str, after: str) -> Expression:
        """The same between two texts that read nothing."""
        return Expression(f"{before}{self.text}{after}", self.reads)


@dataclass(frozen=True, slots=True)
class Statement:
    """Python text that does a run.

    Attributes:
      text: what it is.
      followed: what it is where a hook is called before each group of operations.
      reads: numbers of the values that it names, in order.
      writes: numbers of the values that it names anew.
    """

    text: str
    followed: str
    reads: tuple[int, ...]
    writes: tuple[int, ...] = ()


def local(number: int) -> Expression:
    """A value that Python holds."""
    return Expression(f"v{number}", (number,))


def joined(parts: Sequence[Expression]) -> Expression:
    """Several, as they stand in a call or a list."""
    return Expression(", ".join(part.text for part in parts), tuple(read for part in parts for read in part.reads))


def dying(statements: Sequence[Statement], results: Iterable[Expression]) -> list[list[int]]:
    """For each statement the values that nothing needs after it.

    Only what a statement wrote dies: arguments belong to the caller, who holds them until the step is over.

    Args:
      statements: in order.
      results: what the function returns.
    """
    written = {number for statement in statements for number in statement.writes}
    mortal = written.difference(*(result.reads for result in results))
    last: dict[int, int] = {}
    for position, statement in enumerate(statements):
        for number in (*statement.writes, *statement.reads):
            if number in mortal:
                last[number] = position
    found: list[list[int]] = [[] for _ in statements]
    for number, position in last.items():
        found[position].append(number)
    return found
