"""Calling drivers: how one is run with the arrays of a step, in slices where it loops, and what its failures mean.

A driver runs without the GIL. One that takes long comes back after about 10 ms, as far as its own estimate of its work
is right, so that a pending Ctrl-C, a deadline or a call of `cancel` ends the step; it then goes on where it was. Where
somebody follows the step, any driver comes back before each group of operations.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.errors import InternalError
from headrace.interfaces import OpHook, VariableStorage
from headrace.plan import Line, TensorList, current_step, exhausted, explained, group_inputs
from headrace.types import Array, DType, Shape
from headrace_cpu.driver.block import Place
from headrace_cpu.driver.table import ACTIVE, BUDGET, DONE, GROW, GROW_BYTES, GROW_STORE, PAUSED, RESUMED, TRACED

__all__ = [
    "Failure",
    "ListStores",
    "Located",
    "call_again",
    "call_followed",
    "call_in_slices",
    "call_updating",
    "checked",
    "lock_order",
]

SLICE = 10_000_000
"""Nanoseconds of estimated work after which a driver comes back."""
SMALLEST_STORE = 4096
"""Bytes of a store that holds anything."""

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
    """An array that native code works on, or a list: where it is, and what; of a list, what its elements are."""

    place: Place
    dtype: DType
    shape: tuple[int, ...]
    is_list: bool = False

    def read(self, items: Sequence[Any], arena: int, constants: int) -> Any:
        """A copy of it, or the array of the list that it is."""
        kind, number = self.place
        if self.is_list:
            return self._list(arena + number)
        if kind == "slot":
            return np.asarray(items[number]).reshape(self.shape)
        start = (arena if kind == "arena" else constants) + number
        return self._array(ctypes.c_int64.from_address(start).value if kind == "pointer" else start)

    def _array(self, start: int) -> Array:
        content = ctypes.string_at(start, int(np.prod(self.shape)) * self.dtype.size)
        return np.frombuffer(content, self.dtype.array_type).reshape(self.shape)

    def _list(self, record: int) -> TensorList:
        store, length = (ctypes.c_int64 * 2).from_address(record)
        data = ctypes.c_int64.from_address(store).value
        size = int(np.prod(self.shape)) * self.dtype.size
        elements = {number: self._array(data + number * size) for number in range(length)}
        return TensorList(elements, length, self.dtype, Shape(self.shape))


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


_allocated = np.empty
"""Gives the memory of a store."""


class ListStores:
    """The memory of the native lists of one step at a time: for each store its place and size in bytes. Mutable.

    It is kept for the next step.
    """

    def __init__(self, count: int) -> None:
        self._entries = (ctypes.c_int64 * (2 * count))()
        self._memory: list[Array] = [np.empty(0, np.uint8)] * count

    @property
    def address(self) -> int:
        """Where native code finds the stores."""
        return ctypes.addressof(self._entries)

    def grow(self, store: int, needed: int) -> None:
        """Give the store at an address at least so many bytes; what it holds stays."""
        number = (store - self.address) // 16
        old = self._memory[number]
        try:
            new = _allocated(max(needed, 2 * old.size, SMALLEST_STORE), np.uint8)
        except MemoryError as error:
            raise exhausted("the elements of a list", error) from error
        new[: old.size] = old
        self._memory[number] = new
        self._entries[2 * number], self._entries[2 * number + 1] = new.ctypes.data, new.size


def _look(state: int) -> None:
    current_step().check()


def call_in_slices(
    driver: Driver,
    items: list[Any],
    arena: int,
    constants: int,
    table: Any,
    failures: Sequence[Failure],
    stores: ListStores,
    paused: Callable[[int], None] = _look,
) -> None:
    """Run a driver that may pause: then call `paused` with its state; where a list is full, make room."""
    table[RESUMED], table[BUDGET] = 0, SLICE
    status = driver(items, arena, constants, table)
    if status == -1:
        items = [_compact(item) for item in items]
        status = driver(items, arena, constants, table)
    while status in (PAUSED, GROW):
        if status == GROW:
            stores.grow(table[GROW_STORE], table[GROW_BYTES])
        else:
            paused(table[ACTIVE])
            table[BUDGET] = SLICE
        table[RESUMED] = 1
        status = driver(items, arena, constants, table)
    if status:
        raise _failed(status, failures, items, arena, constants)


def call_followed(
    hook: OpHook,
    begins: Sequence[int],
    driver: Driver,
    items: list[Any],
    arena: int,
    constants: int,
    table: Any,
    failures: Sequence[Failure],
    stores: ListStores,
) -> None:
    """Run a driver and call `hook` before each group: for each unit that starts one `begins` has its position."""

    def paused(state: int) -> None:
        if state < 0:
            hook(begins[-1 - state])
        else:
            current_step().check()

    table[TRACED] = 1
    try:
        call_in_slices(driver, items, arena, constants, table, failures, stores, paused)
    finally:
        table[TRACED] = table[RESUMED] = 0


def call_updating(
    driver: Driver,
    items: list[Any],
    slots: Sequence[int | None],
    storages: Sequence[VariableStorage],
    blank: Sequence[tuple[int, ...] | None],
    threads: int,
    arena: int,
    constants: int,
    table: Any,
    failures: Sequence[Failure],
) -> None:
    """Run a driver that writes variables, with their locks held.

    Args:
      driver: what to run.
      items: the arrays that it is given, without those of the variables.
      slots: for each item None, or which of the variables it is.
      storages: the variables in `lock_order`.
      blank: for each the shape of those that need no value, since all of it is written, or None.
      threads: how many may copy a value that somebody reads.
      arena: the address of the arena.
      constants: that of the constants.
      table: numbers of this process (see `driver`).
      failures: what the failure of each unit means.
    """
    held: list[Array | None] = []
    table[DONE] = 0
    try:
        for storage, shape in zip(storages, blank, strict=True):
            held.append(storage.acquire(shape, threads))
        filled = [item if slot is None else held[slot] for item, slot in zip(items, slots, strict=True)]
        status = driver(filled, arena, constants, table)
        if status == -1:
            status = driver([_compact(item) for item in filled], arena, constants, table)
        if status:
            raise _failed(status, failures, filled, arena, constants)
        filled = items = []
        _give_back(storages, held)
    except BaseException:  # a Ctrl-C may come anywhere: what the driver has written counts if it came to its end
        _give_back(storages, held if table[DONE] else [None] * len(storages))
        raise


def _give_back(storages: Sequence[VariableStorage], values: list[Array | None]) -> None:
    """Release variables with their new values, or with None; those that were released before stay as they are."""
    for position, storage in enumerate(storages):
        storage.release(values[position])
        values[position] = None  # who holds a value is taken for a reader of it


def lock_order(storages: Iterable[VariableStorage]) -> list[VariableStorage]:
    """Variables in the one order in which all their locks are taken, so that no two steps wait for each other."""
    return sorted(storages, key=id)


def _failed(status: int, failures: Sequence[Failure], items: Sequence[Any], arena: int, constants: int) -> Exception:
    known = failures[status - 1] if 0 < status <= len(failures) else Failure(None)
    return known.error(status, items, arena, constants)


def _compact(item: Any) -> Array:
    array: Array = np.require(item, requirements=["C", "A"])
    return array if type(array) is np.ndarray else array.view(np.ndarray)
