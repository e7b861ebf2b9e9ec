"""PartsExecutor: the compiled parts of one step, each on its device, run together."""

from __future__ import annotations

import contextvars
import functools
import threading
from collections.abc import Sequence
from typing import Any

from headrace.errors import AbortedError, CancelledError
from headrace.graph.operation import Operation
from headrace.interfaces import Compiled, OpHook
from headrace.kernels.context import current_step
from headrace.plan.limit import needed_memory
from headrace.plan.needs import PlannedMemory, combined
from headrace.plan.plan import CompiledPart
from headrace.runtime import workers
from headrace.runtime.blocked import at_rest
from headrace.runtime.trace import SegmentRecorder

__all__ = ["PartsExecutor"]


class PartsExecutor:
    """The parts of a step as one callable (see `interfaces.Compiled`). May be called by several threads at once.

    The calling thread runs the first part, others the rest; they meet in the rendezvous of the step. The first error
    ends all of them.

    Args:
      parts: the compiled parts.
      result_count: how many results the whole graph has.
    """

    is_divided = True  # it records its segments itself

    def __init__(self, parts: Sequence[CompiledPart], result_count: int) -> None:
        self._parts = tuple(parts)
        self._result_count = result_count
        self._operations = tuple(op for part in parts for op in part.compiled.operations)
        counts = [len(part.compiled.operations) for part in parts]
        self._firsts = [sum(counts[:index]) for index in range(len(counts))]

    @property
    def operations(self) -> Sequence[Operation]:
        """The operations of all parts, one part after the other."""
        return self._operations

    @property
    def kernels(self) -> Sequence[str]:
        """For each operation the name of what computes it."""
        return tuple(
            name
            for part in self._parts
            for name in getattr(part.compiled, "kernels", ("",) * len(part.compiled.operations))
        )

    @property
    def arena_bytes(self) -> int:
        """Bytes of planned memory of all parts."""
        return sum(getattr(part.compiled, "arena_bytes", 0) for part in self._parts)

    @property
    def segments(self) -> Sequence[Compiled]:
        """What was compiled as a whole, in order."""
        return tuple(part.compiled for part in self._parts)

    @property
    def memory(self) -> PlannedMemory:
        """What one step needs, as far as the backends say."""
        return combined(map(needed_memory, self.segments))

    def __call__(self, arguments: Sequence[Any], /) -> Sequence[Any]:
        """Run all parts once."""
        return self.run_with_hook(arguments, lambda index: None)

    def run_with_hook(self, arguments: Sequence[Any], hook: OpHook, /) -> Sequence[Any]:
        """Run all parts once, calling `hook` before each operation, for one operation at a time."""
        run = _Run(self._parts, self._firsts, arguments, hook)
        run.to_its_end()
        results: list[Any] = [None] * self._result_count
        for part, values in zip(self._parts, run.values, strict=True):
            for position, value in zip(part.partition.results, values, strict=True):
                results[position] = value
        return results


class _Run:
    """One run of all parts. Mutable and thread-safe.

    Attributes:
      values: what each part has returned.
    """

    def __init__(
        self, parts: Sequence[CompiledPart], firsts: Sequence[int], arguments: Sequence[Any], hook: OpHook
    ) -> None:
        self.values: list[Sequence[Any]] = [()] * len(parts)
        self._parts = parts
        self._firsts = firsts
        self._arguments = arguments
        self._hook = hook
        self._hook_lock = threading.Lock()
        self._ended = threading.Condition()
        self._others = len(parts) - 1
        self._errors: list[BaseException] = []

    def to_its_end(self) -> None:
        """Run all parts; nothing is left running when this returns or raises."""
        for number in range(1, len(self._parts)):
            workers.submit(functools.partial(contextvars.copy_context().run, self._help, number))
        self._run(0)
        while self._others:
            try:
                with self._ended, at_rest():
                    self._ended.wait_for(lambda: not self._others)
            except KeyboardInterrupt as error:
                self._give_up(error)
        if self._errors:
            raise min(self._errors, key=_is_consequence)  # the first of equal ones

    def _help(self, number: int) -> None:
        """What another thread does."""
        self._run(number)
        with self._ended:
            self._others -= 1
            self._ended.notify_all()

    def _run(self, number: int) -> None:
        part, first = self._parts[number], self._firsts[number]
        arguments = [self._arguments[index] for index in part.partition.arguments]
        recorder: SegmentRecorder | None = getattr(current_step(), "recorder", None)

        def before(index: int) -> None:
            self._before(first + index)

        try:
            if recorder is None or getattr(part.compiled, "is_divided", False):
                self.values[number] = part.compiled.run_with_hook(arguments, before)
            else:
                device = str(part.partition.device)
                self.values[number] = recorder.run(part.compiled, arguments, before, device=device)
        except BaseException as error:
            self._give_up(error)

    def _before(self, index: int) -> None:
        with self._hook_lock:
            if self._errors:
                raise AbortedError(
                    "an operation was not started, since another device of the step has failed",
                    expected="a step that goes on",
                    got=type(self._errors[0]).__name__,
                    hint="look at that error: the step raises it",
                )
            self._hook(index)

    def _give_up(self, error: BaseException) -> None:
        """Take note of an error and end the waits of all parts."""
        self._errors.append(error)
        current_step().give_up("an error on another device of the step")


def _is_consequence(error: BaseException) -> bool:
    """True if another error may be what led to this one."""
    return isinstance(error, (AbortedError, CancelledError))
