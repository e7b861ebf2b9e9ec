"""Scans along an axis, sums or products of all elements up to each one, written as LLVM code.

Elements are taken in their order, so results have the bits of the NumPy kernel and do not depend on threads, which
share the places before the axis. What stands behind the axis is a row, which is added as a whole.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace import Operation
from headrace.types import Array, DType, bfloat16, float16
from headrace_cpu.llvm.text import Text, combine, storage_type

__all__ = ["Scan", "scan_call"]

_OPERATORS = {"Cumsum": "add", "Cumprod": "mul"}


@dataclass(frozen=True, slots=True)
class Scan:
    """A scan of `[outer, length, inner]` along the middle axis.

    Attributes:
      operator: add or mul.
      dtype: of the elements.
      outer, length, inner: sizes, none of which is 0.
      exclusive: each element stays out of its own result.
      reverse: from the last one on.
      scratch, constants: none.
    """

    operator: str
    dtype: DType
    outer: int
    length: int
    inner: int
    exclusive: bool
    reverse: bool
    scratch: tuple[int, ...] = ()
    constants: tuple[()] = ()

    @property
    def points(self) -> int:
        """How many pieces of work there are."""
        return self.outer

    @property
    def nanoseconds(self) -> float:
        """A rough estimate of what it takes on one thread."""
        return 0.2 * self.outer * self.length * self.inner + 1.0 * self.outer * self.length

    def symbol(self, lanes: int) -> str:
        """The name of the function."""
        return f"scan_{hashlib.sha256(repr((self, lanes)).encode()).hexdigest()[:16]}"

    def written(self, lanes: int) -> tuple[str, dict[str, str]]:
        """A function `SYMBOL(args, begin, end)` of places before the axis, and declarations that it needs."""
        writer = _Writer(self, lanes, Text())
        writer.write()
        head = "define internal void @SYMBOL(ptr noalias %args, i64 %begin, i64 %end) {"
        return "\n".join([head, *writer.t.lines, "  ret void", "}"]), writer.t.functions


@dataclass(slots=True)
class _Writer:
    scan: Scan
    lanes: int
    t: Text
    source: str = ""
    target: str = ""

    def write(self) -> None:
        t = self.t
        self.source, self.target = t.argument(0), t.argument(2)
        t.count_up("%begin", "%end", 1, self._line)

    def _line(self, outer: str) -> None:
        scan, t = self.scan, self.t
        first = t.put(f"mul i64 {outer}, {scan.length * scan.inner}")

        def start(base: str, number: str) -> str:
            place = t.put(f"sub i64 {scan.length - 1}, {number}") if scan.reverse else number
            offset = t.put(f"add i64 {first}, {t.put(f'mul i64 {place}, {scan.inner}')}")
            return t.put(f"getelementptr {storage_type(scan.dtype)}, ptr {base}, i64 {offset}")

        def step(number: str) -> None:
            before = t.put(f"sub i64 {number}, 1")
            given = start(self.source, before if scan.exclusive else number)
            target, earlier = start(self.target, number), start(self.target, before)
            combine(t, scan.operator, scan.dtype, scan.inner, self.lanes, target, (earlier, given))

        begun = 0
        if scan.exclusive:
            self._fill(start(self.target, "0"))
            begun = 1
        if begun < scan.length:
            t.copy_bytes(start(self.target, str(begun)), start(self.source, "0"), scan.inner * scan.dtype.size)
        t.count_up(str(min(begun + 1, scan.length)), str(scan.length), 1, step)

    def _fill(self, target: str) -> None:
        scan, t = self.scan, self.t
        element = storage_type(scan.dtype)
        neutral = t.number(0 if scan.operator == "add" else 1, element)

        def store(place: str) -> None:
            t.line(f"store {element} {neutral}, ptr {t.put(f'getelementptr {element}, ptr {target}, i64 {place}')}")

        t.count_up("0", str(scan.inner), 1, store)


def scan_call(op: Operation, shapes: Sequence[tuple[int, ...]], axis: Array | None) -> Scan | None:
    """The scan that an operation is, or None if it is another kind, or is computed in another dtype than its own.

    Args:
      op: the operation.
      shapes: of its inputs.
      axis: the axis where it is constant.
    """
    operator = _OPERATORS.get(op.type)
    if operator is None or axis is None or 0 in shapes[0] or not shapes[0]:
        return None
    shape, dtype = shapes[0], op.inputs[0].dtype
    place = int(np.asarray(axis).reshape(-1)[0])
    known = dtype.kind in ("float", "int", "uint") and dtype not in (float16, bfloat16)
    if not known or np.size(axis) != 1 or not -len(shape) <= place < len(shape):
        return None
    place %= len(shape)
    sizes = math.prod(shape[:place]), shape[place], math.prod(shape[place + 1 :])
    return Scan(operator, dtype, *sizes, op.attrs["exclusive"], op.attrs["reverse"])
