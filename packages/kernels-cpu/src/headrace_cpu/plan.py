"""CpuPlan: a compiled segment. A few lines of Python around native calls, generated like those of the NumPy backend."""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from headrace import Operation
from headrace.errors import HeadraceError, InternalError
from headrace.interfaces import OpHook, VariableStorage
from headrace.plan import ALIGNMENT, Line, checked_kernel, exhausted, explained, group_inputs
from headrace.types import Array
from headrace_cpu.driver import (
    ARRAY_TYPE,
    FIRST_HANDLE,
    LIBRARY_THREADS,
    THREADS,
    DriverText,
    Place,
    write_driver,
)
from headrace_cpu.gathering import Gather
from headrace_cpu.host import host
from headrace_cpu.layout import Layout, Run, Unit
from headrace_cpu.onednn import onednn
from headrace_cpu.scheduling import Key

__all__ = ["CpuPlan"]

_numbers = itertools.count()
_plans: weakref.WeakSet[CpuPlan] = weakref.WeakSet()


def _after_fork() -> None:
    """The pool of libgomp does not survive a fork: the child computes on the one thread that it has."""
    for plan in list(_plans):
        plan.threads = plan.library_threads = 1
        plan.forget_contexts()


os.register_at_fork(after_in_child=_after_fork)


def _kernel_of(line: Line) -> Callable[..., Any]:
    return line.function


_Driver = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class _Context:
    """The memory of one step at a time: the arena, views of it for NumPy, tables for the drivers. Mutable."""

    def __init__(self, plan: CpuPlan) -> None:
        layout = plan.layout
        try:
            self.memory = np.empty(layout.allocation.size + ALIGNMENT, np.uint8)
        except MemoryError as error:
            raise exhausted("the values of one step", error) from error
        start = -self.memory.ctypes.data % ALIGNMENT
        self.arena = self.memory.ctypes.data + start
        self.views = tuple(
            np.ndarray(shape, dtype, self.memory.data, start + offset) for shape, dtype, offset in plan.views
        )
        self.keep: list[Any] = []
        self.tables = tuple(self._table(driver, run, plan) for driver, run in plan.drivers)

    def _table(self, driver: DriverText, run: Run, plan: CpuPlan) -> int:
        entries = [0] * (FIRST_HANDLE + driver.handles)
        entries[ARRAY_TYPE], entries[THREADS] = id(np.ndarray), plan.threads
        entries[LIBRARY_THREADS] = plan.library_threads
        library = onednn()
        for position, first in driver.library:
            assert library is not None
            found = library.entries(run.units[position].call.primitives, self.keep)
            entries[first : first + len(found)] = found
        table = (ctypes.c_int64 * len(entries))(*entries)
        self.keep.append(table)
        return ctypes.addressof(table)


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
        self.views: list[tuple[tuple[int, ...], Any, int]] = []
        self.drivers: list[tuple[DriverText, Run]] = []
        self._constants = _ConstantPool()
        self._line_runs: list[Run] = []
        self._contexts: list[_Context] = []
        source = _Source(self, layout)
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
        names = {"host": "headrace.kernels", "compute": "headrace_cpu.loops", "update": "headrace_cpu.loops"}
        return tuple(names[run.kind] for run in self.layout.runs for _ in run.lines)

    @property
    def arena_bytes(self) -> int:
        """Bytes of one arena; each step that runs at the same time has its own."""
        return self.layout.allocation.size

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
        """Run the segment once, calling `hook` before each run of operations."""
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
        if isinstance(error, MemoryError) and not isinstance(error, HeadraceError):
            return exhausted("the values of one step", error)
        return error


def _failing_line(traceback: TracebackType | None, filename: str) -> int:
    line = 0
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == filename:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


class _ConstantPool:
    """The constants that native code reads, one after the other in one aligned block. Mutable."""

    def __init__(self) -> None:
        self._parts: list[Array] = []
        self._offsets: dict[Key, int] = {}
        self._size = 0
        self._memory: Array | None = None

    def offset(self, key: Key, value: Array) -> int:
        """Where a constant lies, in bytes."""
        if key not in self._offsets:
            self._offsets[key] = self._size
            flat = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
            self._parts.append(flat)
            self._size += -(-max(flat.size, 1) // ALIGNMENT) * ALIGNMENT
        return self._offsets[key]

    def address(self) -> int:
        """Of the whole block; to be asked when all constants are there."""
        if self._memory is None:
            self._memory = np.zeros(self._size + ALIGNMENT, np.uint8)
            start = -self._memory.ctypes.data % ALIGNMENT
            for part, offset in zip(self._parts, self._offsets.values(), strict=True):
                self._memory[start + offset : start + offset + part.size] = part
        return int(self._memory.ctypes.data) + (-self._memory.ctypes.data % ALIGNMENT)


class _Source:
    """Writes the step function of a plan. Mutable."""

    def __init__(self, plan: CpuPlan, layout: Layout) -> None:
        self.plan, self.layout = plan, layout
        self.program = layout.schedule.program
        self.first_lines: dict[int, Run] = {}
        self.namespace: dict[str, Any] = {
            "copy": np.array,
            "empty": np.empty,
            "checked": _checked,
            "native": _native,
            "errstate": np.errstate,
            "update": _update,
            "array": np.asarray,
        }
        self.namespace |= {f"c{number}": value for number, value in self.program.constants.items()}
        self.view_names: dict[tuple[int, int], str] = {}
        self.runs = [self._run_text(number, run) for number, run in enumerate(layout.runs)]
        self.namespace["constants"] = plan._constants.address()

    def root(self, number: int) -> Key:
        return self.layout.schedule.roots.get(number, number)

    # what each value is called

    def value(self, number: int) -> str:
        """A value as Python sees it, in its own shape."""
        program, root = self.program, self.root(number)
        if number in program.constants:
            return f"c{number}"
        same = isinstance(root, int) and program.tensors[root].shape == program.tensors[number].shape
        if isinstance(root, int) and root in self.layout.allocation.offsets:
            return self.view(root, number)
        base = self.held(root)
        if same or (isinstance(root, tuple) and self._storage_shape(root) == self._shape(number)):
            return base
        return f"{base}.reshape({self._shape(number)})"

    def held(self, key: Key) -> str:
        """The array of a memory that is not in the arena."""
        if isinstance(key, tuple):
            storage = self.layout.schedule.storages[key[1]]
            name = f"read{key[1]}"
            self.namespace[name] = storage.read
            return f"{name}()"
        if key in self.layout.fresh:
            return f"r{self.layout.fresh[key]}"
        if key in self.program.constants:
            return f"c{key}"
        return f"v{key}"

    def _shape(self, number: int) -> tuple[int, ...]:
        return self.program.tensors[number].shape.as_tuple()

    def _storage_shape(self, key: tuple[Any, ...]) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.layout.schedule.storages[key[1]].shape.as_tuple()
        return shape

    def view(self, root: int, number: int) -> str:
        """A view of the arena."""
        if (root, number) not in self.view_names:
            tensor = self.program.tensors[number]
            self.view_names[root, number] = f"w{len(self.plan.views)}"
            offset = self.layout.allocation.offsets[root]
            self.plan.views.append((tensor.shape.as_tuple(), tensor.dtype.array_type, offset))
        return self.view_names[root, number]

    # runs

    def _run_text(self, number: int, run: Run) -> str:
        if run.kind == "host":
            return self._host_text(run)
        places: dict[Key, Place] = {}
        slots: list[Key] = []
        for unit in run.units:
            for key in unit.keys:
                if key not in places:
                    places[key] = self._place(key, slots)
        scratch = [self._scratch(run, unit_number) for unit_number in range(len(run.units))]
        machine = host()
        integers = {unit.keys[0]: self._integers(unit.keys[0]) for unit in run.units if unit.bound}
        driver = write_driver(run.units, places, len(slots), scratch, integers, machine.lanes, openmp=machine.openmp)
        table = len(self.plan.drivers)
        self.plan.drivers.append((driver, run))
        self.namespace[f"run{number}"] = _Driver(machine.load(driver.text, driver.symbol))
        written = {key for unit in run.units for key in unit.outputs if isinstance(key, tuple) and key[0] == "variable"}
        tail = f"context.arena, constants, context.tables[{table}]"
        if run.kind == "compute":
            items = ", ".join(self._item(key) for key in slots)
            self.namespace[f"where{number}"] = self._failures(run, places)
            return f"run{number}([{items}], {tail}) and native(run{number}, [{items}], {tail}, where{number})"
        storages = self.layout.schedule.storages
        held = sorted({key[1] for key in written})
        self.namespace[f"where{number}"] = self._failures(run, places)
        self.namespace[f"held{number}"] = tuple(storages[item] for item in held)
        self.namespace[f"blank{number}"] = self._blank(run, held)
        self.namespace[f"slots{number}"] = tuple(
            held.index(key[1]) if isinstance(key, tuple) and key in written else None for key in slots
        )
        items = ", ".join("None" if key in written else self._item(key) for key in slots)
        return f"update(run{number}, [{items}], slots{number}, held{number}, blank{number}, {tail}, where{number})"

    def _failures(self, run: Run, places: dict[Key, Place]) -> tuple[_Failure, ...]:
        return tuple(self._failure(unit, places) for unit in run.units)

    def _failure(self, unit: Unit, places: dict[Key, Place]) -> _Failure:
        line = self.program.lines[unit.line] if unit.line is not None else None
        checked = unit.keys[0] if unit.bound else unit.keys[1] if isinstance(unit.call, Gather) else None
        if line is None or checked is None:
            return _Failure(line, (), None, None, 0)
        constants = self.program.constants
        return _Failure(line, tuple(map(constants.get, line.inputs)), places[checked], *self._integers(checked))

    def _integers(self, key: Key) -> tuple[Any, int]:
        schedule = self.layout.schedule
        if isinstance(key, tuple):
            storage = schedule.storages[key[1]]
            return storage.dtype, storage.shape.num_elements or 0
        tensor = self.program.tensors[key]
        return tensor.dtype, tensor.shape.num_elements or 0

    def _blank(self, run: Run, held: Sequence[int]) -> tuple[bool, ...]:
        """For each variable whether the run writes it without reading it, so that it need not have a value."""
        read = {key for unit in run.units for key in unit.inputs}
        return tuple(("variable", number) not in read for number in held)

    def _place(self, key: Key, slots: list[Key]) -> Place:
        number = self.layout.numbers.get(key)
        if number is not None and number in self.layout.allocation.offsets:
            return "arena", self.layout.allocation.offsets[number]
        if isinstance(key, int) and key in self.program.constants:
            return "constant", self.plan._constants.offset(key, self.program.constants[key])
        slots.append(key)
        return "slot", len(slots) - 1

    def _scratch(self, run: Run, position: int) -> list[Place]:
        return [("arena", self.layout.allocation.offsets[number]) for number in run.units[position].scratch]

    def _item(self, key: Key) -> str:
        """An array for the list; what NumPy kernels gave is checked, since native code trusts it."""
        made_by_host = any(
            run.kind == "host" and key in self.program.lines[run.lines[0]].outputs for run in self.layout.runs
        )
        if not made_by_host:
            return self.held(key)
        tensor = self.program.tensors[key]
        self.namespace[f"spec{key}"] = (tensor.dtype.array_type, tensor.shape.as_tuple())
        return f"checked({self.held(key)}, spec{key})"

    def _host_text(self, run: Run) -> str:
        position = run.lines[0]
        line = self.program.lines[position]
        arguments = self._host_arguments(line)
        call = f"f{position}({', '.join(arguments)})"
        outputs = [f"v{number}" for number in line.outputs]
        listed = len(line.op.op_def.outputs) == 1 and line.op.op_def.outputs[0].is_list
        target = ", ".join(outputs) + ("," if len(outputs) > 1 or listed else "")
        return f"{target} = {call}" if outputs else call

    def _host_arguments(self, line: Line) -> list[str]:
        grouped = group_inputs(line.op, [self.value(number) for number in line.inputs])
        texts = [f"[{', '.join(map(str, item))}]" if isinstance(item, list) else str(item) for item in grouped]
        planned = [self.view(n, n) for n in line.outputs if n in self.layout.host_outputs]
        if planned:
            out = planned[0] if len(planned) == 1 else f"({', '.join(planned)})"
            texts.append(f"out={out}" if line.kernel.direct else out)
        return texts

    def text(self, *, instrumented: bool) -> str:
        """The source of the step function."""
        views = ", ".join(self.view_names.values())
        results = self._results()
        hosted = any(run.kind == "host" for run in self.layout.runs)
        arguments = ", ".join(f"v{number}" for number in self.program.arguments)
        lines = [
            f"def step(context, arguments{', hook' if instrumented else ''}):",
            f"  {views}, = context.views" if views else "  pass",
            f"  {arguments}, = arguments" if arguments else "  pass",
        ]
        for position in self.layout.fresh.values():
            number = self.program.results[position]
            tensor = self.program.tensors[number]
            root = self.root(number)
            shape = self._shape(root) if isinstance(root, int) else self._shape(number)
            self.namespace[f"dtype{position}"] = tensor.dtype.array_type
            lines.append(f"  r{position} = empty({shape}, dtype{position})")
        indent = "  "
        if hosted:
            lines.append("  with errstate(all='ignore'):")
            indent = "    "
        started = 0
        for run, text in zip(self.layout.runs, self.runs, strict=True):
            lines.append(f"{indent}{f'hook({started}); ' if instrumented else ''}{text}")
            self.first_lines[len(lines)] = run
            started += len(run.lines)
        lines.append(f"  return [{', '.join(results)}]")
        return "\n".join(lines) + "\n"

    def _results(self) -> list[str]:
        texts = []
        seen: set[Key] = set()
        for position, number in enumerate(self.program.results):
            root = self.root(number)
            if position in self.program.handles:
                texts.append(self.value(number))
            elif self.layout.fresh.get(root) == position:
                reshaped = isinstance(root, int) and self._shape(root) != self._shape(number)
                texts.append(f"r{position}.reshape({self._shape(number)})" if reshaped else f"r{position}")
            elif number in self.program.arguments and position not in self.program.shared:
                texts.append(f"v{number}")  # a value that a function passes on to who called it
            elif root == number and self._made_alone(number) and root not in seen:
                texts.append(f"array({self.value(number)})")
            else:
                texts.append(f"copy({self.value(number)})")
            seen.add(root)
        return texts

    def _made_alone(self, number: int) -> bool:
        """True if a NumPy kernel made the value in memory of its own."""
        for run in self.layout.runs:
            if run.kind == "host":
                line = self.program.lines[run.lines[0]]
                if number in line.outputs:
                    return not line.kernel.aliases and number not in self.layout.allocation.offsets
        return False


def _checked(value: Any, spec: tuple[Any, tuple[int, ...]]) -> Array:
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
class _Failure:
    """What to say if a unit fails: its line and its constant inputs, and the integers that it looks at: input 1."""

    line: Line | None
    constants: tuple[Any, ...]
    place: Place | None
    dtype: Any
    count: int

    def error(self, status: int, items: Sequence[Any], arena: int, constants: int) -> HeadraceError:
        """The error of the NumPy kernel, which refuses the same values, or that of a fault of ours."""
        if self.line is not None and self.place is not None:
            tensors = self.line.op.inputs
            integers = self._integers(items, arena, constants).reshape(tensors[1].shape.as_tuple())
            others = [
                np.zeros(tensor.shape.as_tuple(), tensor.dtype.array_type) if known is None else known
                for tensor, known in zip(tensors, self.constants, strict=True)
            ]
            try:
                self.line.function(others[0], integers, *others[2:])
            except HeadraceError as error:
                return error.at(self.line.op.location)
        return InternalError(
            "native code failed",
            where=self.line.op.location if self.line is not None else None,
            expected="status 0",
            got=f"status {status}",
            hint="please report this; hr.config(backend='numpy') runs without native code",
        )

    def _integers(self, items: Sequence[Any], arena: int, constants: int) -> Array:
        assert self.place is not None
        kind, number = self.place
        if kind == "slot":
            return np.asarray(items[number]).reshape(-1)
        size = self.count * self.dtype.size
        content = ctypes.string_at((arena if kind == "arena" else constants) + number, size)
        return np.frombuffer(content, self.dtype.array_type)


def _native(
    driver: Callable[..., int],
    items: list[Any],
    arena: int,
    constants: int,
    table: int,
    failures: Sequence[_Failure],
) -> None:
    """Run a driver again after its first answer was not 0: most often an array has gaps, and a copy has none."""
    status = driver([_compact(item) for item in items], arena, constants, table)
    if status:
        raise _failed(status, failures, items, arena, constants)


def _failed(
    status: int, failures: Sequence[_Failure], items: Sequence[Any], arena: int, constants: int
) -> HeadraceError:
    known = failures[status - 1] if 0 < status <= len(failures) else _Failure(None, (), None, None, 0)
    return known.error(status, items, arena, constants)


def _compact(item: Any) -> Array:
    array: Array = np.require(item, requirements=["C", "A"])
    return array if type(array) is np.ndarray else array.view(np.ndarray)


def _update(
    driver: Callable[..., int],
    items: list[Any],
    slots: Sequence[int | None],
    storages: Sequence[VariableStorage],
    blank: Sequence[bool],
    arena: int,
    constants: int,
    table: int,
    failures: Sequence[_Failure],
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
