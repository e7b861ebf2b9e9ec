"""CpuPlan: a compiled segment. A few lines of Python around native calls, generated like those of the NumPy backend."""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from headrace import Operation
from headrace.errors import FailedPreconditionError, HeadraceError
from headrace.interfaces import OpHook
from headrace.plan import Line, PlannedMemory, Work, aligned_array, checked_kernel, exhausted, explained
from headrace_cpu.driver.entry import WrittenDriver
from headrace_cpu.driver.table import ARRAY_TYPE, FIRST_HANDLE, LIBRARY_THREADS, STORES, THREADS
from headrace_cpu.layout import Layout
from headrace_cpu.needs import kernels_of, memory_of, work_in
from headrace_cpu.onednn import onednn
from headrace_cpu.step.calling import ListStores
from headrace_cpu.step.source import StepSource

__all__ = ["CpuPlan", "usable_threads"]

_numbers = itertools.count()
_plans: weakref.WeakSet[CpuPlan] = weakref.WeakSet()
_is_forked = False


def usable_threads(wanted: int) -> int:
    """How many of the wanted threads a new plan may use: one where the process was forked after its first plan."""
    return 1 if _is_forked else wanted


def _after_fork() -> None:
    """The pool of libgomp does not survive a fork: the child computes on the one thread that it has.

    It does so by plans of its own as well, whatever threads it asks for: libgomp would wait for those of the parent.
    """
    global _is_forked
    _is_forked = True
    for plan in list(_plans):
        plan.threads = plan.library_threads = 1
        plan.forget_contexts()


if hasattr(os, "register_at_fork"):  # not every system has processes that fork
    os.register_at_fork(after_in_child=_after_fork)


def _kernel_of(line: Line) -> Callable[..., Any]:
    return line.function


class _Context:
    """The memory of one step at a time: the arena, views of it for NumPy, tables for the drivers. Mutable."""

    def __init__(self, plan: CpuPlan) -> None:
        layout = plan.layout
        try:
            self.memory = aligned_array((layout.allocation.size,), np.uint8)
        except MemoryError as error:
            raise exhausted("the values of one step", error) from error
        self.arena = self.memory.ctypes.data
        self.threads = plan.threads
        self.views = tuple(np.ndarray(shape, dtype, self.memory.data, offset) for shape, dtype, offset in plan.views)
        self.stores = ListStores(plan.store_count)
        self.keep: list[Any] = []
        self.tables = tuple(self._table(driver, plan) for driver in plan.drivers)
        self.addresses = tuple(map(ctypes.addressof, self.tables))

    def _table(self, driver: WrittenDriver, plan: CpuPlan) -> Any:
        entries = [0] * (FIRST_HANDLE + driver.handles)
        entries[ARRAY_TYPE], entries[THREADS] = id(np.ndarray), plan.threads
        entries[LIBRARY_THREADS], entries[STORES] = plan.library_threads, self.stores.address
        library = onednn()
        for unit, first in driver.library:
            assert library is not None
            for primitives in unit.call.parts or (unit.call.primitives,):
                found = library.entries(primitives, self.keep)
                entries[first : first + len(found)] = found
                first += len(found)
        return (ctypes.c_int64 * len(entries))(*entries)


class CpuPlan:
    """A compiled segment (see `interfaces.Compiled`). May be called by several threads at once.

    Args:
      layout: what runs and where its values live.
      threads: how many threads a region may use.
      library_threads: how many a primitive of a library may use.
    """

    def __init__(self, layout: Layout, threads: int, library_threads: int) -> None:
        self.layout = layout
        self.threads = threads
        self.library_threads = library_threads
        self._program = layout.schedule.program
        self._filename = f"<headrace cpu plan {next(_numbers)}>"
        self._contexts: list[_Context] = []
        self._source = source = StepSource(layout)
        self.views, self.drivers, self.store_count = source.views, source.drivers, source.store_count
        self._namespace = source.namespace
        self._text = {False: source.text(instrumented=False), True: source.text(instrumented=True)}
        self._first_lines = source.first_lines
        self._function: Callable[..., Any] = self._first_run
        self._instrumented: Callable[..., Any] | None = None
        _plans.add(self)

    def forget_contexts(self) -> None:
        """Give up the memory of steps that are over; the next step gets fresh memory."""
        self._contexts.clear()

    @functools.cached_property
    def operations(self) -> Sequence[Operation]:
        """The operations it runs, in order."""
        return tuple(self._program.lines[position].op for run in self.layout.runs for position in run.lines)

    @functools.cached_property
    def kernels(self) -> Sequence[str]:
        """For each operation the name of what computes it."""
        return kernels_of(self.layout)

    @property
    def arena_bytes(self) -> int:
        """Bytes of one arena; each step that runs at the same time has its own."""
        return self.layout.allocation.size

    @functools.cached_property
    def memory(self) -> PlannedMemory:
        """What one step needs."""
        return memory_of(self.layout)

    @functools.cached_property
    def work(self) -> Sequence[Work]:
        """What it runs, group by group."""
        return work_in(self.layout.schedule)

    def __call__(self, arguments: Sequence[Any], /) -> Sequence[Any]:
        """Run the segment once."""
        try:
            context = self._contexts.pop()
        except IndexError:
            context = _Context(self)
        try:
            return self._function(context, arguments)  # type: ignore[no-any-return]  # generated code
        except Exception as error:
            failure = self._explained(error)
            raise failure from failure.__cause__
        finally:
            self._contexts.append(context)

    def run_with_hook(self, arguments: Sequence[Any], hook: OpHook, /) -> Sequence[Any]:
        """Run the segment once, calling `hook` before each group of operations that runs as a whole."""
        if self._instrumented is None:
            self._instrumented = self._bound(instrumented=True)
        try:
            context = self._contexts.pop()
        except IndexError:
            context = _Context(self)
        try:
            return self._instrumented(context, arguments, hook)  # type: ignore[no-any-return]  # generated code
        except Exception as error:
            failure = self._explained(error)
            raise failure from failure.__cause__
        finally:
            self._contexts.append(context)

    def _first_run(self, context: _Context, arguments: Sequence[Any]) -> Sequence[Any]:
        """Check what each NumPy kernel gives: a faulty one would spoil values of other operations, without an error."""
        results: Sequence[Any] = self._bound(instrumented=False, kernel_of=checked_kernel)(context, arguments)
        self._function = self._bound(instrumented=False)
        return results

    def _bound(
        self, *, instrumented: bool, kernel_of: Callable[[Line], Callable[..., Any]] = _kernel_of
    ) -> Callable[..., Any]:
        code = compile(self._text[instrumented], self._filename, "exec")
        namespace = dict(self._namespace)
        for run in self.layout.runs:
            if run.kind == "host":
                namespace[f"f{run.lines[0]}"] = kernel_of(self._program.lines[run.lines[0]])
        exec(code, namespace)  # the source is made of numbers only, never of names or data from outside
        function: Callable[..., Any] = namespace["step"]
        return function

    def _explained(self, error: Exception) -> Exception:
        """Add to an error which operation it came from."""
        line = _failing_line(error.__traceback__, self._filename)
        run = self._first_lines.get(line)
        if run is not None and run.kind == "host":
            return explained(error, self._program.lines[run.lines[0]].op)
        if isinstance(error, FailedPreconditionError):
            lacking = next((line for line in self._program.lines if self._needs_value(line, error)), None)
            return error if lacking is None else explained(error, lacking.op)
        if isinstance(error, MemoryError) and not isinstance(error, HeadraceError):
            return exhausted("the values of one step", error)
        return error

    def _needs_value(self, line: Line, error: FailedPreconditionError) -> bool:
        """True for a line that is given the variable which an error says has no value."""
        known: list[Any] = [self._program.constants.get(number) for number in line.inputs]
        return any(hasattr(item, "acquire") and f"'{item.name}'" in str(error) for item in known)


def _failing_line(traceback: TracebackType | None, filename: str) -> int:
    line = 0
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == filename:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line
