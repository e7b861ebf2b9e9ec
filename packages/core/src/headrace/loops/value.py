"""Value: a whole tensor inside a loop rule, computed by nobody yet. Rules are written with values.

A value knows its dtype and concrete shape. Operators and the functions of `headrace.loops` broadcast as NumPy does and
make new values; a Python number takes the dtype of the value it meets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.types import DType
from headrace.types import bool as boolean

__all__ = ["Piece", "Scalar", "Value", "broadcast", "constant", "map_values", "operand", "reached"]

Scalar = int | float | bool


@dataclass(frozen=True, slots=True)
class Piece:
    """Where a value lies in a larger one: first position and step along each axis of `shape`."""

    shape: tuple[int, ...]
    starts: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """One tensor of a loop rule.

    Attributes:
      op: input, const, index, position, view, reduce, assemble, cast, select or an operator of the loop IR.
      dtype: the element type.
      shape: concrete sizes.
      args: the values it is made of.
      payload: input: what it stands for; const: the number; index: the axis; position: (step, start), of the number of
        an element in the order of memory; reduce: (operation, axes), reduced axes are kept with size 1; assemble: (the
        places of `args`, what stands elsewhere or None); view: for each axis of `args[0]` (own axis or None, step,
        start).
    """

    op: str
    dtype: DType
    shape: tuple[int, ...]
    args: tuple[Value, ...] = ()
    payload: Any = None

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __add__(self, other: Value | Scalar) -> Value:
        return map_values("add", self, other)

    def __radd__(self, other: Scalar) -> Value:
        return map_values("add", other, self)

    def __sub__(self, other: Value | Scalar) -> Value:
        return map_values("sub", self, other)

    def __rsub__(self, other: Scalar) -> Value:
        return map_values("sub", other, self)

    def __mul__(self, other: Value | Scalar) -> Value:
        return map_values("mul", self, other)

    def __rmul__(self, other: Scalar) -> Value:
        return map_values("mul", other, self)

    def __truediv__(self, other: Value | Scalar) -> Value:
        return map_values("div", self, other)

    def __rtruediv__(self, other: Scalar) -> Value:
        return map_values("div", other, self)

    def __neg__(self) -> Value:
        return map_values("neg", self)

    def __lt__(self, other: Value | Scalar) -> Value:
        return map_values("lt", self, other, dtype=boolean)

    def __le__(self, other: Value | Scalar) -> Value:
        return map_values("le", self, other, dtype=boolean)

    def __gt__(self, other: Value | Scalar) -> Value:
        return map_values("gt", self, other, dtype=boolean)

    def __ge__(self, other: Value | Scalar) -> Value:
        return map_values("ge", self, other, dtype=boolean)

    def __and__(self, other: Value | Scalar) -> Value:
        return map_values("and", self, other)

    def __or__(self, other: Value | Scalar) -> Value:
        return map_values("or", self, other)

    def __invert__(self) -> Value:
        return map_values("not", self)


def constant(number: Scalar, dtype: DType) -> Value:
    """A number as a value without axes; one of NumPy becomes one of Python."""
    return Value("const", dtype, (), (), number.item() if isinstance(number, np.generic) else number)


def operand(item: Value | Scalar, like: DType) -> Value:
    """An operand as a value; numbers take the dtype `like`."""
    return item if isinstance(item, Value) else constant(item, like)


def reached(*roots: Value) -> list[Value]:
    """All that values are made of, themselves included, each once; the last root first."""
    found: dict[int, Value] = {}
    stack = list(roots)
    while stack:
        value = stack.pop()
        if id(value) not in found:
            found[id(value)] = value
            stack.extend(value.args)
    return list(found.values())


def map_values(op: str, *operands: Value | Scalar, dtype: DType | None = None) -> Value:
    """Apply a scalar operator to each element of broadcast operands.

    Args:
      op: an operator of the loop IR.
      operands: values of one dtype, or numbers.
      dtype: of the result; that of the operands by default.
    Raises:
      InvalidArgumentError: the dtypes differ, or all operands are numbers.
      ShapeError: the shapes do not broadcast.
    """
    dtypes = {item.dtype for item in operands if isinstance(item, Value)}
    if len(dtypes) != 1:
        raise InvalidArgumentError(
            f"a loop rule applies '{op}' to operands of different dtypes",
            expected="at least one value, and values of one dtype",
            got=", ".join(sorted(item.name for item in dtypes)) or "numbers only",
            hint="hr.loops.cast(x, dtype) converts one of them",
        )
    (common,) = dtypes
    values = tuple(operand(item, common) for item in operands)
    return Value(op, dtype or common, broadcast(*(value.shape for value in values)), values)


def broadcast(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape to which shapes broadcast; raises ShapeError if they do not."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        wanted = {size for size in sizes if size != 1} or {1}
        if len(wanted) > 1:
            raise ShapeError(
                "a loop rule combines shapes that do not broadcast",
                expected="equal sizes, or 1",
                got=", ".join(str(list(shape)) for shape in shapes),
                hint="hr.loops.expand_dims adds the axes that are missing",
            )
        result.append(wanted.pop())
    return tuple(result)
