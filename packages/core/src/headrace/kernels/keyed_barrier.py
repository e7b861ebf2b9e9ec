"""KeyedBarrier: the state behind a barrier, which puts together elements whose components come one at a time.

A component comes with the key of its element. An element is ready once it has all its components; ready elements are
taken in the order in which their first components came. They wait in a queue, which does all the waiting.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.errors import CancelledError, EndOfDataError, InvalidArgumentError
from headrace.interfaces import StepControl
from headrace.kernels.element_queue import ElementQueue
from headrace.kernels.element_stores import Element, PriorityStore

__all__ = ["KeyedBarrier"]

_FIRST_INDEX = -(2**63)
"""The index of the elements of the first insertion, TensorFlow's."""


@dataclass(slots=True)
class _Incomplete:
    index: int
    components: dict[int, Any]


class KeyedBarrier:
    """Elements that become ready when all their components are there. Mutable and thread-safe.

    Args:
      name: its name, for errors.
      width: how many components an element has.
    """

    def __init__(self, name: str, width: int) -> None:
        self.name = name
        self.width = width
        self._incomplete: dict[bytes, _Incomplete] = {}
        self._ready = ElementQueue("Barrier", name, PriorityStore())
        self._next_index = _FIRST_INDEX
        self._is_closed = False
        self._is_cancelled = False
        self._lock = threading.RLock()  # a signal handler that ends a step may come while its thread is inside

    @property
    def ready_size(self) -> int:
        """How many elements are ready."""
        return self._ready.size

    @property
    def incomplete_size(self) -> int:
        """How many elements lack components."""
        return len(self._incomplete)

    def insert(self, component: int, keys: Sequence[bytes], values: Sequence[Any], step: StepControl) -> None:
        """Give elements one of their components; all or, on any error, none.

        Args:
          component: which one.
          keys: the keys of the elements, all different.
          values: for each key the component.
          step: the step that runs; it does not wait.
        Raises:
          InvalidArgumentError: there is no such component, or an element has it already.
          CancelledError: the barrier is closed, and a key is new or pending elements were cancelled.
        """
        with self._lock:
            self._check(component, keys)
            index = self._next_index
            for key, value in zip(keys, values, strict=True):
                element = self._incomplete.setdefault(key, _Incomplete(index, {}))
                element.components[component] = value
                self._next_index = index + 1 if element.index == index else self._next_index
            done = [key for key in keys if len(self._incomplete[key].components) == self.width]
            self._ready.add([self._completed(key) for key in done], step)
            self._end_if_complete()

    def _check(self, component: int, keys: Sequence[bytes]) -> None:
        if not 0 <= component < self.width:
            raise InvalidArgumentError(
                f"barrier '{self.name}' has no component {component}",
                expected=f"0 <= component_index < {self.width}",
                got=str(component),
                hint="count components from 0",
            )
        seen: set[bytes] = set()
        for key in keys:
            known = self._incomplete.get(key)
            if self._is_cancelled or (self._is_closed and known is None):
                raise CancelledError(
                    f"barrier '{self.name}' is closed",
                    expected="a barrier that takes elements" if self._is_cancelled else "the key of a pending element",
                    got=f"key {key!r}",
                    hint="close the barrier after the first component of the last element",
                )
            if key in seen or (known is not None and component in known.components):
                raise InvalidArgumentError(
                    f"an element of barrier '{self.name}' has component {component} already",
                    expected="each component once",
                    got=f"key {key!r}",
                    hint="give each element a key of its own",
                )
            seen.add(key)

    def _completed(self, key: bytes) -> Element:
        element = self._incomplete.pop(key)
        index, name = np.array(element.index, np.int64), np.array(key, object)
        return (index, name, *(element.components[position] for position in range(self.width)))

    def take(self, count: int, step: StepControl, *, allow_fewer: bool) -> list[Element]:
        """Take ready elements, waiting until there are enough: index, key, components.

        Args:
          count: how many.
          step: the step that waits.
          allow_fewer: be content with those that are ready, but at least one, once the barrier is closed.
        Raises:
          EndOfDataError: the barrier is closed and cannot have enough any more.
          CancelledError: the step was cancelled.
          DeadlineExceededError: the step's time is over.
        """
        with self._lock:
            if self._is_closed:
                ready = self._ready.size
                count = min(count, ready) if allow_fewer else count
                possible = ready if allow_fewer else ready + len(self._incomplete)
                if possible < max(count, 1):
                    raise EndOfDataError(
                        f"barrier '{self.name}' is closed and has too few elements",
                        expected=f"{max(count, 1)} elements",
                        got=f"{ready} ready, {len(self._incomplete)} incomplete",
                        hint="this is the normal end of data; allow_small_batch=True takes the rest",
                    )
        return self._ready.take(count, step, fewer_at_end=allow_fewer)

    def close(self, *, cancel_pending: bool) -> None:
        """Take no new elements; those that lack components may still get them, unless pending ones are cancelled.

        Args:
          cancel_pending: drop those that lack components.
        Raises:
          CancelledError: it is closed already, unless only this call cancels pending elements.
        """
        with self._lock:
            if self._is_cancelled or (self._is_closed and not cancel_pending):
                raise CancelledError(
                    f"barrier '{self.name}' is closed already",
                    expected="one call of close",
                    got="another one",
                    hint="closing with cancel_pending_enqueues=True may follow one without",
                )
            self._is_closed, self._is_cancelled = True, cancel_pending
            if cancel_pending:
                self._incomplete.clear()
            self._end_if_complete()

    def _end_if_complete(self) -> None:
        if self._is_closed and not self._incomplete:
            self._ready.close_now()
