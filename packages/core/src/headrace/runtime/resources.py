"""Resources: the mutable state of a session or task, by name."""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np

from headrace.errors import DTypeError, FailedPreconditionError, InvalidArgumentError, ShapeError
from headrace.plan.alignment import aligned_array
from headrace.runtime import workers
from headrace.runtime.spare_memory import SpareMemory
from headrace.types import Array, DType, Shape, as_dtype

__all__ = ["PROCESS_CONTAINER", "ResourceManager", "VariableBuffer", "process_resources", "read_only"]

PROCESS_CONTAINER = "process"
"""The container of variables that were made outside any graph: one per process, seen by every session in it."""

_SHARE = 2 << 20
"""Bytes that another thread copies at least: less costs more to wake it (some 20 us) than it saves."""


class VariableBuffer:
    """The buffer behind one variable (see `interfaces.VariableStorage`). Mutable and thread-safe.

    Readers get the buffer itself, no copy. An update writes in place if no reader holds the buffer (by its reference
    count, as TensorFlow's copy-on-read does); otherwise it writes to a fresh one and exchanges them, so that a reader
    never sees a half-written value; `read` may say where fresh ones come from. A buffer that was adopted is never
    written in place.

    Args:
      name: the name under which it is shared.
      dtype: the element type.
      shape: the static shape that every value must satisfy.
    """

    def __init__(self, name: str, dtype: DType, shape: Shape) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self._value: Array | None = None
        self._spare: weakref.ref[SpareMemory] | None = None  # its owner may go without a word
        self._lock = threading.RLock()  # it knows who holds it
        self._version = 0

    @property
    def is_initialized(self) -> bool:
        """True once a value was assigned."""
        return self._value is not None

    def read(self, spare: SpareMemory | None = None) -> Array:
        """The current value; the caller must not write to it.

        Args:
          spare: where updates that must write elsewhere take their memory from now on; None: as before.
        """
        with self._lock:  # an update in place may be under way
            value = self._value
            self._spare = self._spare if spare is None else weakref.ref(spare)
        if value is None:
            raise self._uninitialized()
        return value

    def snapshot(self) -> tuple[Array, int]:
        """The current value and a number that is another one after each change (see the interface)."""
        with self._lock:
            return self.read(), self._version

    def assign(self, value: Array) -> None:
        """Replace the value by a copy of `value`."""
        self.check(value)
        with self._lock:
            self._version += 1
            if self._value is not None and self._value.shape == value.shape and self._is_own():
                np.copyto(self._value, value)
            else:
                self._value = _own_copy(value)

    def adopt(self, value: Array) -> None:
        """Replace the value by `value` itself, which stays as it is: the first update writes elsewhere.

        Args:
          value: memory that nobody writes to, such as a file that is mapped read-only.
        """
        self.check(value, adopted=True)
        with self._lock:
            self._version += 1
            self._value = value

    def update(self, change: Callable[[Array], Array | None]) -> None:
        """Apply `change` to the value under the variable's lock (see the interface)."""
        with self._lock:
            self._version += 1
            if self._value is None:
                raise self._uninitialized()
            target = self._value if self._is_own() else self._moved()
            replacement = change(target)
            if replacement is not None:
                self.check(replacement)
                target = _own_copy(replacement)  # it may be memory of a step, or of the caller
            self._value = target

    def rewrite(self, change: Callable[[Array, Array], None]) -> None:
        """Write every element anew under the variable's lock (see the interface)."""
        with self._lock:
            self._version += 1
            if self._value is None:
                raise self._uninitialized()
            target = self._value if self._is_own() else self._elsewhere(self._value.shape)
            change(self._value, target)
            self._value = target

    def acquire(self, fresh: tuple[int, ...] | None, threads: int = 1) -> Array:
        """Lock the variable and give its buffer to be written in place (see the interface)."""
        self._lock.acquire()
        try:
            self._version += 1
            if self._value is not None and self._value.flags.c_contiguous and self._is_own():
                return self._value
            if fresh is not None:
                return self._elsewhere(fresh)
            if self._value is None:
                raise self._uninitialized()
            return self._moved(threads)
        except BaseException:
            self._lock.release()
            raise

    def release(self, value: Array | None) -> None:
        """Keep what `acquire` gave, or with None the old value, and unlock, if this thread holds the lock."""
        if self._lock._is_owned():  # type: ignore[attr-defined]  # as `threading.Condition` asks
            if value is not None:
                self._value = value
            self._lock.release()

    def destroy(self) -> None:
        """Forget the value."""
        with self._lock:
            self._version += 1
            self._value = None

    def check(self, value: Array, *, adopted: bool = False) -> None:
        """Raise ShapeError or DTypeError unless `value` may be assigned, InvalidArgumentError unless it may be kept."""
        if not self.shape.is_compatible_with(Shape(value.shape)):
            raise ShapeError(
                f"variable '{self.name}' cannot take the value",
                expected=f"shape {self.shape}",
                got=f"{list(value.shape)}",
                hint="reshape the value first, or make the variable with that shape",
            )
        if value.dtype != self.dtype.array_type:
            raise DTypeError(
                f"variable '{self.name}' cannot take the value",
                expected=str(self.dtype),
                got=str(as_dtype(value.dtype)),
                hint=f"hr.astype(value, hr.{self.dtype})",
            )
        flags = value.flags
        if adopted and (flags.writeable or not flags.c_contiguous or not flags.aligned):
            raise InvalidArgumentError(
                f"variable '{self.name}' cannot hold the array itself",
                expected="an array that is read-only, without gaps and aligned",
                got=f"one that is {'writable' if flags.writeable else 'not laid out so'}",
                hint="value.flags.writeable = False if nobody writes to it, or write_variables(..., copy=True)",
            )

    def _elsewhere(self, shape: tuple[int, ...]) -> Array:
        """Other memory for the next value, of any content."""
        spare = None if self._spare is None else self._spare()
        if self._value is None or spare is None:
            return aligned_array(shape, self.dtype.array_type)
        return spare.exchange(self._value, shape)

    def _moved(self, threads: int = 1) -> Array:
        """The value in other memory, without gaps."""
        assert self._value is not None
        target = self._elsewhere(self._value.shape)
        _copy(target, self._value, threads)
        return target

    def _is_own(self) -> bool:
        """Whether the value may be written in place: not if it was adopted, or if somebody reads it."""
        writable = self._value is not None and self._value.flags.writeable  # the flags would count as a reference
        return writable and _references(self) <= _UNSHARED

    def _uninitialized(self) -> FailedPreconditionError:
        return FailedPreconditionError(
            f"variable '{self.name}' has no value yet",
            expected="an initial value, an assignment or a restored checkpoint before the first read",
            got="uninitialised",
            hint="run its initializer, restore a checkpoint, or session.write_variables({name: value})",
        )

    def __repr__(self) -> str:
        state = "initialised" if self.is_initialized else "uninitialised"
        return f"<variable '{self.name}' {self.dtype}{self.shape}, {state}>"


def _own_copy(value: Array) -> Array:
    copy = aligned_array(value.shape, value.dtype)
    copy[...] = value
    return copy


def _copy(target: Array, source: Array, threads: int) -> None:
    """Copy all elements, large arrays by several threads: one takes 47 ms for 1 GiB, two take half of that."""
    count = min(threads, source.nbytes // _SHARE)
    if count < 2 or source.dtype == object or not source.flags.c_contiguous:
        np.copyto(target, source)
        return
    bounds = [source.size * number // count for number in range(count + 1)]
    old, new = source.reshape(-1), target.reshape(-1)
    parts = [(new[begin:end], old[begin:end]) for begin, end in itertools.pairwise(bounds)]
    done = threading.Semaphore(0)

    def copy_part() -> None:
        part = parts.pop()
        np.copyto(*part)
        del part  # before anybody is told: what holds a part of a value is taken for a reader of it
        done.release()

    for _ in range(count - 1):
        workers.submit(copy_part)
    copy_part()
    for _ in range(count):
        done.acquire()


def read_only(value: Array) -> Array:
    """A view of what `VariableBuffer.read` gave that refuses to be written to.

    As long as it lives it keeps the value: the next update of the variable writes elsewhere.
    """
    view = value.view()
    view.flags.writeable = False
    return view


def _references(variable: VariableBuffer) -> int:
    return sys.getrefcount(variable._value)


def _references_of_unshared() -> int:
    """What `_references` gives for a buffer that only its variable holds; it differs between Python versions."""
    probe = VariableBuffer("probe", as_dtype("float32"), Shape([1]))
    probe._value = np.zeros(1, np.float32)
    return _references(probe)


_UNSHARED = _references_of_unshared()


class ResourceManager:
    """The resource container of one session or task (see `interfaces.Resources`). Mutable and thread-safe.

    Args:
      parent: the manager that holds the variables of the process, or None for that manager itself.
    """

    def __init__(self, parent: ResourceManager | None = None) -> None:
        self._parent = parent
        self._variables: dict[tuple[str, str], VariableBuffer] = {}
        self._objects: dict[Hashable, Any] = {}
        self._name_counts: dict[tuple[str, str], int] = {}
        self._lock = threading.RLock()

    def variable(self, container: str, name: str, dtype: DType, shape: Shape) -> VariableBuffer:
        """The variable of that name, created uninitialised at the first request."""
        if container == PROCESS_CONTAINER and self._parent is not None:
            return self._parent.variable(container, name, dtype, shape)
        with self._lock:
            found = self._variables.get((container, name))
            if found is None:
                found = self._variables[container, name] = VariableBuffer(name, dtype, shape)
        if found.dtype is not dtype or not found.shape.is_compatible_with(shape):
            raise InvalidArgumentError(
                f"variable '{name}' exists with another type",
                expected=f"{found.dtype}{found.shape}",
                got=f"{dtype}{shape}",
                hint="give one of the two variables another name",
            )
        return found

    def new_variable(self, container: str, name: str, dtype: DType, shape: Shape) -> VariableBuffer:
        """A variable that did not exist before, under `name`, or under `name_1`, `name_2`, ... if that is taken."""
        with self._lock:
            unique, count = name, self._name_counts.get((container, name), 0)
            while (container, unique) in self._variables:
                count += 1
                unique = f"{name}_{count}"
            self._name_counts[container, name] = count
            return self.variable(container, unique, dtype, shape)

    def lookup_or_create(self, key: Hashable, create: Callable[[], Any]) -> Any:
        """The object under `key`, made by `create` at the first request."""
        with self._lock:
            if key not in self._objects:
                self._objects[key] = create()
            return self._objects[key]

    def objects(self, kind: type) -> dict[Any, Any]:
        """The objects whose key is a tuple that starts with `kind`."""
        with self._lock:
            return {key: item for key, item in self._objects.items() if isinstance(key, tuple) and key[0] is kind}

    def variables(self) -> Iterator[VariableBuffer]:
        """The variables of this container, by name."""
        with self._lock:
            found = sorted(self._variables.items())
        return (variable for _, variable in found)

    def forget(self, container: str, name: str) -> None:
        """Drop one variable; plans that hold its buffer keep it as long as they live."""
        with self._lock:
            self._variables.pop((container, name), None)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._variables.clear()
            self._objects.clear()


_process = ResourceManager()


def process_resources() -> ResourceManager:
    """The container of the process, in which variables made outside any graph live."""
    return _process
