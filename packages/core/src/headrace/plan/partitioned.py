"""PartitionedPlan: the compiled parts of one step, each on its device, run together."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from headrace.graph.operation import Operation
from headrace.interfaces import Compiled, OpHook
from headrace.kernels.context import current_step
from headrace.placement.partition import Partition

__all__ = ["CompiledPart", "PartitionedPlan"]

_MAX_THREADS = 4096
_threads = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="headrace-device")
"""It starts a thread only where none is idle, so parts that wait for each other never wait for a thread."""


@dataclass(frozen=True, slots=True)
class CompiledPart:
    """What one device does in a step.

    Attributes:
      partition: the device and its part of the graph.
      backend: the name of the backend that compiled it.
      compiled: the callable.
    """

    partition: Partition
    backend: str
    compiled: Compiled


class PartitionedPlan:
    """The parts of a step as one callable (see `interfaces.Compiled`). May be called by several threads at once.

    The calling thread runs the first part, others the rest; they meet in the rendezvous of the step. The first error
    ends all of them.

    Args:
      parts: the compiled parts.
      result_count: how many results the whole graph has.
    """

    def __init__(self, parts: Sequence[CompiledPart], result_count: int) -> None:
        self.parts = tuple(parts)
        self._result_count = result_count
        self._operations = tuple(op for part in parts for op in part.compiled.operations)

    @property
    def operations(self) -> Sequence[Operation]:
        """The operations of all parts, one part after the other."""
        return self._operations

    @property
    def kernels(self) -> Sequence[str]:
        """For each operation the name of what computes it."""
        return tuple(
            name
            for part in self.parts
            for name in getattr(part.compiled, "kernels", ("",) * len(part.compiled.operations))
        )

    @property
    def arena_bytes(self) -> int:
        """Bytes of planned memory of all parts."""
        return sum(getattr(part.compiled, "arena_bytes", 0) for part in self.parts)

    def __call__(self, arguments: Sequence[Any], /) -> Sequence[Any]:
        """Run all parts once."""
        return self.run_with_hook(arguments, lambda index: None)

    def run_with_hook(self, arguments: Sequence[Any], hook: OpHook, /) -> Sequence[Any]:
        """Run all parts once, calling `hook` before each operation, for one operation at a time."""
        run = _Run(arguments, hook)
        offsets = [0]
        for part in self.parts:
            offsets.append(offsets[-1] + len(part.compiled.operations))
        others = [
            _threads.submit(contextvars.copy_context().run, run.part, part, offset)
            for part, offset in zip(self.parts[1:], offsets[1:], strict=False)
        ]
        first: Sequence[Any] = ()
        try:
            first = run.part(self.parts[0], 0)
        finally:
            run.join(others)
        results: list[Any] = [None] * self._result_count
        for part, values in zip(self.parts, [first, *(future.result() for future in others)], strict=True):
            for position, value in zip(part.partition.results, values, strict=True):
                results[position] = value
        return results


class _Run:
    """One run of all parts. Mutable and thread-safe."""

    def __init__(self, arguments: Sequence[Any], hook: OpHook) -> None:
        self._arguments = arguments
        self._hook = hook
        self._hook_lock = threading.Lock()
        self._error: BaseException | None = None
        self._rendezvous = current_step().rendezvous

    def part(self, part: CompiledPart, offset: int) -> Sequence[Any]:
        """Run one part; if it fails, so do the others."""
        arguments = [self._arguments[index] for index in part.partition.arguments]
        try:
            return part.compiled.run_with_hook(arguments, lambda index: self._before(offset + index))
        except BaseException as error:
            with self._hook_lock:
                self._error = self._error or error
            self._rendezvous.start_abort(self._error)
            raise

    def join(self, others: Sequence[Future[Any]]) -> None:
        """Wait until every part has ended; raise the error that came first."""
        for future in others:
            future.exception()
        if self._error is not None:
            raise self._error

    def _before(self, index: int) -> None:
        with self._hook_lock:
            if self._error is not None:
                raise self._error
            self._hook(index)
