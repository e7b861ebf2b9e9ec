"""Layout: a schedule with its regions lowered and its memory planned: all that the driver's code is written from."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace import Tensor
from headrace.loops.fusion import produced_by
from headrace.loops.ir import Region
from headrace.loops.lowering import LoweredRegion, Partial
from headrace.loops.patterns import lower_once
from headrace.plan import Allocation, Line, Step, flat_aliases, plan_memory
from headrace_cpu.onednn import LibraryCall
from headrace_cpu.primitives.few_rows import FewRows
from headrace_cpu.primitives.panel_products import PanelProducts
from headrace_cpu.primitives.pooling import Pooling
from headrace_cpu.primitives.scans import Scan
from headrace_cpu.primitives.scattering import Rows
from headrace_cpu.scheduling.schedule import Key, Schedule, is_variable
from headrace_cpu.scheduling.values import is_native

__all__ = ["Layout", "Run", "Unit", "lay_out"]


@dataclass(slots=True)
class Unit:
    """One thing that a run does. Mutable until memory is planned.

    Attributes:
      region: the loops, or None.
      call: what a library does, or None.
      keys: the memory of each buffer, in the order in which the code takes it.
      inputs, outputs: the keys that are read and written.
      identity: inputs that may be the first output.
      line: of the operation, where it is one.
      scratch: numbers of the memory that a library works in.
      bound: if it is not 0, the unit checks that the integers in its one memory are in `[0, bound)`.
      prepared: what is made of its inputs beforehand, in the order of those constants of the call that are so made.
      begins: where among the operations of its run those of a group start that begins with it, or None.
    """

    region: Region | None
    call: Any
    keys: tuple[Key, ...]
    inputs: tuple[Key, ...]
    outputs: tuple[Key, ...]
    identity: frozenset[Key] = frozenset()
    line: int | None = None
    scratch: tuple[int, ...] = ()
    bound: int = 0
    prepared: tuple[Key, ...] = ()
    begins: int | None = None

    @property
    def pointers(self) -> int:
        """How many memories its code is given: those of its keys, then what it works in, then its constants."""
        return len(self.keys) + len(self.scratch) + len(self.constants)

    @property
    def constants(self) -> tuple[Any, ...]:
        """The arrays that its call reads beside its memories, or what they are made of (`prepared.Prepared`)."""
        return getattr(self.call, "constants", ())

    @property
    def is_shared(self) -> bool:
        """True if threads share its work: it is a function of a table of pointers and a part of the work."""
        is_ours = self.region is not None or isinstance(self.call, (FewRows, PanelProducts, Pooling, Rows, Scan))
        return is_ours or (isinstance(self.call, LibraryCall) and bool(self.call.parts))


@dataclass(slots=True)
class Run:
    """Units that run one after the other in one native call, or one line of NumPy.

    Attributes:
      kind: host, compute or update.
      lines: positions of the program's lines that it computes, group by group.
      units: what it does; empty for host.
      unwritten: those of the lines whose values are written nowhere: whoever needs one computes it again. Each stands
        with the first group that does.
    """

    kind: str
    lines: list[int]
    units: list[Unit] = field(default_factory=list)
    unwritten: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Layout:
    """The runs of a segment and where their values live.

    Attributes:
      schedule: what runs.
      runs: in order.
      allocation: offsets in the arena, by number; numbers beyond those of the program are partial results.
      numbers: the number of each key that is in the arena or held by Python.
      fresh: result positions that a native run writes to arrays of their own, by the key they have.
      host_outputs: values of NumPy lines that go to the arena.
      steps: the runs as memory planning sees them.
      results: the numbers of what outlives the step.
    """

    schedule: Schedule
    runs: list[Run]
    allocation: Allocation
    numbers: dict[Key, int]
    fresh: dict[Key, int]
    host_outputs: frozenset[int]
    steps: tuple[Step, ...]
    results: tuple[int, ...]

    @property
    def units(self) -> list[Unit]:
        """What all native runs do."""
        return [unit for run in self.runs for unit in run.units]


def lay_out(schedule: Schedule) -> Layout:
    """Lower every group and plan the memory of a step."""
    program = schedule.program
    result_keys = [schedule.root(number) for number in program.results]
    readers = schedule.readers()
    wanted = set(result_keys)
    unwritten: set[int] = set()  # items that wait for the first group that computes them
    runs: list[Run] = []
    for kind, numbers in schedule.order:
        run = Run(kind, [])
        for number in numbers:
            units = [] if kind == "host" else _units(schedule, number, readers, wanted)
            items = schedule.groups[number].items
            if units:
                units[0].begins = len(run.lines)
                again = [item for item in schedule.again[number] if item in unwritten]
                run.unwritten.update(schedule.lines[item] for item in again)
                unwritten.difference_update(again)
                items = [*again, *items]
            elif kind != "host":
                unwritten.update(items)
                continue
            run.lines += [line for item in items for line in schedule.lines_of(item)]
            run.units += units
        runs.append(run)
    native = {key for run in runs for unit in run.units for key in unit.outputs}
    fresh: dict[Key, int] = {}
    for position, key in enumerate(result_keys):
        if key in native and isinstance(key, int) and key not in fresh:
            fresh[key] = position
    return _planned(schedule, runs, fresh, result_keys)


def _units(schedule: Schedule, number: int, readers: dict[Key, set[int]], wanted: set[Key]) -> list[Unit]:
    group = schedule.groups[number]
    first = group.items[0]
    if first in schedule.library:
        call = schedule.library[first]
        inputs, made = schedule.memory[first]
        extras = schedule.extras.get(first, ())
        if first in schedule.nested and hasattr(call, "body"):  # loops pass on what they capture, seldom used then
            made = tuple(key for key in made if key in wanted or readers.get(key))
        keys = inputs + made + extras
        prepared = schedule.prepared.get(first, ())
        return [Unit(None, call, keys, inputs + extras, made, line=schedule.lines[first], prepared=prepared)]
    items = [schedule.items[position] for position in group.items]
    outputs = [
        output
        for item in items
        for output in item.outputs
        if isinstance(output.key, tuple) or output.key in wanted or readers.get(output.key, set()) - {number}
    ]
    assert group.space is not None
    units = []
    for position in group.items:
        if position in schedule.checks:
            key, bound = schedule.checks[position]
            units.append(Unit(None, None, (key,), (key,), (), line=schedule.lines[position], bound=bound))
    if not outputs:  # whoever needs them computes them again
        return units
    every = [schedule.items[position] for position in sorted({*group.items, *schedule.again[number]})]
    lowered = lower_once(group.space, group.axes, produced_by(every), outputs)
    return [*units, *(_loops(number, part) for part in lowered)]


def _loops(group: int, lowered: LoweredRegion) -> Unit:
    """A region of the group of a number."""
    region = lowered.region
    written = {store.buffer for loop in region.loops for store in (*loop.stores, *loop.after)}
    keys = tuple(("partial", group, key.number) if isinstance(key, Partial) else key for key in lowered.keys)
    inputs = tuple(key for place, key in enumerate(keys) if place not in written)
    outputs = tuple(key for place, key in enumerate(keys) if place in written)
    return Unit(region, None, keys, inputs, outputs, lowered.identity)


def _planned(schedule: Schedule, runs: list[Run], fresh: dict[Key, int], result_keys: Sequence[Key]) -> Layout:
    planner = _Planner(schedule, fresh, frozenset(result_keys))
    for run in runs:
        if run.kind == "host":
            planner.add_line(schedule.program.lines[run.lines[0]])
        for unit in run.units:
            planner.add_unit(unit)
    steps, results = planner.steps, tuple(map(planner.number_of, result_keys))
    allocation = plan_memory(steps, results)
    host_outputs = frozenset(planner.host_outputs)
    return Layout(schedule, runs, allocation, planner.numbers, fresh, host_outputs, tuple(steps), results)


class _Planner:
    """Writes down what memory planning has to know of lines and units. Mutable.

    Attributes:
      numbers: the number of each key.
      steps: what was added, in order.
      host_outputs: values of NumPy lines that go to the arena.
    """

    def __init__(self, schedule: Schedule, fresh: dict[Key, int], results: frozenset[Key]) -> None:
        self.numbers: dict[Key, int] = {number: number for number in range(len(schedule.program.tensors))}
        self.steps: list[Step] = []
        self.host_outputs: set[int] = set()
        self._schedule, self._fresh, self._results = schedule, fresh, results
        self._partial_sizes: dict[Key, int] = {}  # bytes of partial results, which only regions know of
        self._begun: set[Key] = set()

    def number_of(self, key: Key) -> int:
        """The number by which memory planning knows a memory."""
        return self.numbers.setdefault(key, len(self.numbers))

    def add_line(self, line: Line) -> None:
        """Add a line of NumPy."""
        tensors = self._schedule.program.tensors
        planned = _host_outputs(tensors, line, self._results)
        self.host_outputs |= planned
        self.steps.append(
            Step(
                inputs=tuple(root for root in map(self._schedule.root, line.inputs) if isinstance(root, int)),
                outputs=line.outputs,
                sizes=tuple(_bytes(tensors, number) if number in planned else None for number in line.outputs),
                aliases=_int_aliases(self._schedule, line),
            )
        )

    def add_unit(self, unit: Unit) -> None:
        """Add a unit, and give the memory that it works in numbers."""
        outputs = [key for key in unit.outputs if not is_variable(key) and key not in self._begun]
        self._begun |= set(unit.outputs)
        self._note_partial_sizes(unit)
        inputs = [key for key in (*unit.inputs, *unit.outputs) if not is_variable(key) and key not in outputs]
        scratch = list(unit.call.scratch) if unit.call is not None else []
        unit.scratch = tuple(self.number_of(("scratch", len(self.steps), place)) for place in range(len(scratch)))
        sizes = {key: None if key in self._fresh else self._size(key) for key in outputs}
        outputs.sort(key=lambda key: -(sizes[key] or 0))  # the largest first: it may be written over an input
        self.steps.append(
            Step(
                inputs=tuple(map(self.number_of, inputs)),
                outputs=(*map(self.number_of, outputs), *unit.scratch),
                sizes=(*(sizes[key] for key in outputs), *scratch),
                in_place=tuple(
                    place for place, key in enumerate(inputs) if _may_share(self._schedule, unit, key, outputs)
                ),
            )
        )

    def _note_partial_sizes(self, unit: Unit) -> None:
        if unit.region is None:
            return
        for key, buffer in zip(unit.keys, unit.region.buffers, strict=False):  # row buffers come last, without keys
            if isinstance(key, tuple) and not is_variable(key):
                self.number_of(key)
                self._partial_sizes[key] = buffer.size * buffer.dtype.size

    def _size(self, key: Key) -> int:
        return self._partial_sizes.get(key, self._schedule.sizes.get(key, 0))


def _may_share(schedule: Schedule, unit: Unit, key: Key, outputs: Sequence[Key]) -> bool:
    """True if the first output may be written over this input: element by element, of one size."""
    return (
        bool(outputs)
        and key in unit.identity
        and isinstance(key, int)
        and schedule.sizes.get(key) == schedule.sizes.get(outputs[0])
    )


def _host_outputs(tensors: Sequence[Tensor], line: Line, results: Collection[Key]) -> set[int]:
    """The outputs that a NumPy kernel may write to the arena: all of them or none."""
    fits = line.kernel.takes_out and all(is_native(tensors[n]) and n not in results for n in line.outputs)
    return set(line.outputs) if fits else set()


def _bytes(tensors: Sequence[Tensor], number: int) -> int:
    tensor = tensors[number]
    return math.prod(tensor.shape.as_tuple()) * tensor.dtype.size


def _int_aliases(schedule: Schedule, line: Line) -> tuple[int, ...]:
    roots = [schedule.root(number) for number in line.inputs]
    kept = [place for place, root in enumerate(roots) if isinstance(root, int)]
    return tuple(kept.index(place) for place in flat_aliases(line) if place in kept)
