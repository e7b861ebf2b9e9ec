"""Calling drivers: how one is run with the arrays of a step, in slices where it loops, and what its failures mean.

A driver runs without the GIL. One that loops comes back after about 10 ms, as far as its own estimate of its work is
right, so that a pending Ctrl-C, a deadline or a call of `cancel` ends the step; it then goes on where it was.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.errors import InternalError
from headrace.interfaces import VariableStorage
from headrace.plan import Line, current_step, explained, group_inputs
from headrace.types import Array, DType
from headrace_cpu.block import Place
from headrace_cpu.units import BUDGET, PAUSED, RESUMED

__all__ = ["Failure", "Located", "call_again", "call_in_slices", "call_updating", "checked"]

SLICE = 10_000_000
"""Nanoseconds of estimated work after which a driver that loops comes back."""

Driver = Callable[..., int]


def checked(value: Any, spec: tuple[Any, tuple[int, ...]]) -> Array:
    """What a NumPy kernel gave, as native code takes it."""
    array = np.asarray(value)
    if array.dtype != spec[0] or array.shape != spec[1]:
        raise InternalError(
            "a kernel gave another dtype or shape than the graph says",
            expected=f"{spec[0]} {list(spec[1])}",
            got=f"{array.dtype} {list(array.shape)}",
            hint="compare the kernel with the shape function of its operation",
        )
    return array


@dataclass(frozen=True, slots=True)
class Located:
    """An array that native code works on: where it is, and what."""

    place: Place
    dtype: DType
    shape: tuple[int, ...]

    def read(self, items: Sequence[Any], arena: int, constants: int) -> Array:
        """A copy of it, or the array of the list that it is."""
        kind, number = self.place
        if kind == "slot":
            return np.asarray(items[number]).reshape(self.shape)
        start = (arena if kind == "arena" else constants) + number
        content = ctypes.string_at(start, int(np.prod(self.shape)) * self.dtype.size)
        return np.frombuffer(content, self.dtype.array_type).reshape(self.shape)


@dataclass(frozen=True, slots=True)
class Failure:
    """What to say if a unit fails.

    Attributes:
      line: its operation, or None where it is several.
      inputs: for each input what is known of it when the plan is made, or where it is, or None where the error does
        not depend on it; empty where the operation never refuses values.
    """

    line: Line | None
    inputs: tuple[Any, ...] = ()

    def error(self, status: int, items: Sequence[Any], arena: int, constants: int) -> Exception:
        """The error of the NumPy kernel, which refuses the same values, or that of a fault of ours."""
        if self.line is not None and self.inputs:
            op = self.line.op
            values = [
                known.read(items, arena, constants)
                if isinstance(known, Located)
                else np.zeros(tensor.shape.as_tuple(), tensor.dtype.array_type)
                if known is None
                else known
                for tensor, known in zip(op.inputs, self.inputs, strict=True)
            ]
            try:
                with np.errstate(all="ignore"):
                    self.line.function(*group_inputs(op, values))
            except Exception as error:
                return explained(error, op)
        return InternalError(
            "native code failed",
            where=self.line.op.location if self.line is not None else None,
            expected="status 0",
            got=f"status {status}",
            hint="please report this; hr.config(backend='numpy') runs without native code",
        )


def call_again(
    driver: Driver, items: list[Any], arena: int, constants: int, table: Any, failures: Sequence[Failure]
) -> None:
    """Run a driver again after its first answer was not 0: most often an array has gaps, and a copy has none."""
    status = driver([_compact(item) for item in items], arena, constants, table)
    if status:
        raise _failed(status, failures, items, arena, constants)


def call_in_slices(
    driver: Driver, items: list[Any], arena: int, constants: int, table: Any, failures: Sequence[Failure]
) -> None:
    """Run a driver that loops, and look between its slices whether the step has to end."""
    table[RESUMED], table[BUDGET] = 0, SLICE
    status = driver(items, arena, constants, table)
    if status == -1:
        items = [_compact(item) for item in items]
        status = driver(items, arena, constants, table)
    while status == PAUSED:
        current_step().check()
        table[RESUMED], table[BUDGET] = 1, SLICE
        status = driver(items, arena, constants, table)
    if status:
        raise _failed(status, failures, items, arena, constants)


def call_updating(
    driver: Driver,
    items: list[Any],
    slots: Sequence[int | None],
    storages: Sequence[VariableStorage],
    blank: Sequence[bool],
    arena: int,
    constants: int,
    table: Any,
    failures: Sequence[Failure],
) -> None:
    """Run a driver that writes variables, with their locks held, taken in one order everywhere."""
    order = sorted(range(len(storages)), key=lambda number: id(storages[number]))
    held: dict[int, Array] = {}
    try:
        for number in order:
            storage = storages[number]
            held[number] = storage.acquire(storage.shape.as_tuple() if blank[number] else None)
        filled = [item if slot is None else held[slot] for item, slot in zip(items, slots, strict=True)]
        status = driver(filled, arena, constants, table)
        if status == -1:
            status = driver([_compact(item) for item in filled], arena, constants, table)
        if status:
            raise _failed(status, failures, filled, arena, constants)
    except BaseException:
        for number in held:
            storages[number].release(None)
        raise
    filled = items = []
    for number in order:
        storages[number].release(held.pop(number))


def _failed(status: int, failures: Sequence[Failure], items: Sequence[Any], arena: int, constants: int) -> Exception:
    known = failures[status - 1] if 0 < status <= len(failures) else Failure(None)
    return known.error(status, items, arena, constants)


def _compact(item: Any) -> Array:
    array: Array = np.require(item, requirements=["C", "A"])
    return array if type(array) is np.ndarray else array.view(np.ndarray)
