"""From a program to groups in the order in which they run: what is fused, what libraries do, what stays with NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace import Operation
from headrace.loops.fusion import Item, fuse
from headrace.loops.recompute import recomputed
from headrace.plan import Line, Program
from headrace_cpu.onednn import Request
from headrace_cpu.prepared import Prepared
from headrace_cpu.primitives.gathering import Gather, gather_call
from headrace_cpu.primitives.indices import FirstRows, RangeCheck
from headrace_cpu.primitives.scans import Scan, scan_call
from headrace_cpu.primitives.scattering import Rows, rows_call
from headrace_cpu.scheduling.absorbing import Absorbed, Call, absorb
from headrace_cpu.scheduling.lists import CHANGING, RECORD, ListOp, ListUse
from headrace_cpu.scheduling.looping import line_loops
from headrace_cpu.scheduling.ordering import ordered
from headrace_cpu.scheduling.placing import place
from headrace_cpu.scheduling.requests import Requests
from headrace_cpu.scheduling.schedule import Key, Schedule, is_variable
from headrace_cpu.scheduling.values import READING, VIEWS, byte_count, is_native

__all__ = ["schedule"]

_TELLING = {"StridedSlice": 3, "StridedSliceGrad": 3, "Cumsum": 1, "Cumprod": 1}
"""For types of work on rows which input says how: an axis, strides, a number of segments. Elsewhere it is input 2."""


def schedule(
    program: Program, library: Callable[[Request], Any], nested: Callable[[Line], Any], lists: ListUse
) -> Schedule:
    """Choose what computes each operation of a program, fuse and order.

    Args:
      program: the segment.
      library: called with a request; gives what a library would do, or None.
      nested: called with a line; gives the loop or branch that it is in native code, or None.
      lists: the tensor lists that can live in native memory.
    """
    result = Schedule(program, lists=lists)
    result.roots.update(lists.roots)
    result.sizes.update((root, RECORD) for root in set(lists.roots.values()))
    scheduler = _Scheduler(result, library, nested, Requests(program))
    for position, line in enumerate(program.lines):
        scheduler.add(position, line)
    result.groups = fuse(result.items, result.sizes)
    result.order = ordered(result)
    kept = {result.root(number) for number in program.results}
    result.again = recomputed(result.items, result.groups, kept)
    return result


@dataclass(slots=True)
class _Scheduler:
    schedule: Schedule
    library: Callable[[Request], Any]
    nested: Callable[[Line], Any]
    requests: Requests
    finished: dict[Operation, frozenset[int]] = field(default_factory=dict)  # operation -> items it waits for
    uses: dict[int, int] = field(default_factory=dict)  # value -> the last line that uses it
    writes: dict[Key, list[int]] = field(default_factory=dict)  # variable -> lines that may write it
    absorbed: Absorbed = field(default_factory=Absorbed)

    def __post_init__(self) -> None:
        program = self.schedule.program
        self.absorbed = absorb(program, self.library, self.requests)
        place(program, self.absorbed, self.library, self.requests)
        self._find_uses()
        self._find_writes()

    def _find_uses(self) -> None:
        """Find the last use of each value; results are used after all lines."""
        program = self.schedule.program
        for position, line in enumerate(program.lines):
            call = self.absorbed.calls.get(position)
            for number in line.inputs if call is None else (*line.inputs, *call.inputs, *call.extras):
                self.uses[number] = position
            if line.op.type in VIEWS and line.inputs:
                self.uses[line.outputs[0]] = position
        for line in reversed(program.lines):  # the uses of a view are uses of what it views
            if line.op.type in VIEWS and line.outputs[0] in self.uses:
                source = line.inputs[0]
                self.uses[source] = max(self.uses.get(source, 0), self.uses[line.outputs[0]])
        for number in program.results:
            self.uses[number] = len(program.lines)
        for line in reversed(program.lines):
            if line.op.type in VIEWS and self.uses.get(line.outputs[0]) == len(program.lines):
                self.uses[line.inputs[0]] = len(program.lines)

    def _find_writes(self) -> None:
        """Find the lines that may write each variable."""
        for position, line in enumerate(self.schedule.program.lines):
            storages = () if line.op.type in READING else map(self.schedule.storage, line.inputs)
            for storage in storages:
                if storage is not None:
                    self.writes.setdefault(self.schedule.storage_key(storage), []).append(position)

    def add(self, position: int, line: Line) -> None:
        """Add what a line does."""
        lists = self.schedule.lists
        if position in lists.views:
            self._add_nothing(line)
        elif position in lists.calls:
            self._list_call(position, line, lists.calls[position])
        else:
            self._computation(position, line)

    def _list_call(self, position: int, line: Line, call: Any) -> None:
        """Add an operation on native lists, or a loop with some; what it changes in place counts as written again."""
        number = len(self.schedule.items)
        if isinstance(call, ListOp):
            inputs = tuple(line.inputs[place] for place in call.reads)
            changed = inputs[:1] if call.type in CHANGING else ()
        else:
            inputs, changed = line.inputs, tuple(line.inputs[place] for place in call.changed)
            self.schedule.nested.add(number)
        made = tuple(output for output in line.outputs if self.schedule.root(output) == output)
        constants = self.schedule.program.constants
        reads = tuple(dict.fromkeys(self.schedule.root(item) for item in inputs if item not in constants))
        item = Item(
            name=line.op.name,
            outputs=(),
            reads=reads,
            writes=(*made, *map(self.schedule.root, changed)),
            mutable=frozenset(key for key in reads if isinstance(key, tuple)),
            after=self._waits(line),
        )
        self.schedule.library[number] = call
        self.schedule.memory[number] = tuple(map(self.schedule.root, inputs)), made
        self._append(position, line.op, [item])

    def _computation(self, position: int, line: Line) -> None:
        """Add a line whose values are arrays: choose what computes it."""
        native = self._is_native(line)
        if (native and (self._view(line) or self._read(position, line))) or position in self.absorbed.lines:
            self._add_nothing(line)
        elif position in self.absorbed.calls:
            self._absorbing_call(line, self.absorbed.calls[position])
        elif native and (loops := line_loops(self.schedule, line, self._controls(line))) is not None:
            if loops.check is not None:
                self.schedule.checks[len(self.schedule.items)] = loops.check
            self._append(position, line.op, loops.items)
        elif native and (call := self._call(line)) is not None:
            self._native_call(position, line, call)
        elif native and (call := self.nested(line)) is not None:
            self._native_call(position, line, call, nested=True)
        else:
            self._append(position, line.op, [self._item(line, line.inputs, line.outputs, self._waits(line))])

    def _add_nothing(self, line: Line) -> None:
        """Let others wait for what a line waits for: it needs no item."""
        self.finished[line.op] = self._waits(line)

    def _is_native(self, line: Line) -> bool:
        """True if all that a line reads and writes has native memory."""
        tensors, storage = self.schedule.program.tensors, self.schedule.storage
        reads = all(is_native(tensors[number]) or storage(number) is not None for number in line.inputs)
        return reads and all(is_native(tensors[number]) for number in line.outputs)

    def _absorbing_call(self, last: Line, call: Call) -> None:
        """Add a library call that does the work of several lines, at the place of the last one."""
        schedule, waits = self.schedule, self._waits(last)
        line = schedule.program.lines[call.line]
        inputs: tuple[Key, ...] = call.inputs
        outputs, changed = call.outputs, call.outputs[:0]
        if call.packing is not None:
            inputs = (inputs[0], self._packed(call.line, line, call))
        if call.variable is not None:  # it is written in place of the output
            schedule.roots[outputs[0]] = schedule.memory_of(call.variable)
            changed, outputs = (call.variable,), ()
        schedule.together[len(schedule.items)] = call.lines
        self._note_call(call.step, inputs, (*outputs, *map(schedule.memory_of, changed)), call.extras)
        item = self._item(line, (*inputs, *call.extras), outputs, waits, partial=call.partial)
        self._append(call.line, last.op, [item])

    def _call(self, line: Line) -> Any:
        """The call that a line is: work on whole rows, or what a library does; None if it is neither."""
        if line.op.type == "AddN":  # a library adds only what it multiplies itself
            return None
        return self._row_call(line) or self.library(self.requests.of(line))

    def _native_call(self, position: int, line: Line, call: Any, *, nested: bool = False) -> None:
        """Add a call that does the work of one line."""
        waits = self._waits(line) | self._checked(position, line, call)
        changes = isinstance(call, Rows) and call.change != "sum"
        changed = map(self.schedule.memory_of, line.inputs[:1] if changes else ())
        if nested:
            self.schedule.nested.add(len(self.schedule.items))
        self._note_call(call, line.inputs, (*line.outputs, *changed))
        self._append(position, line.op, [self._item(line, line.inputs, line.outputs, waits)])

    def _note_call(self, call: Any, inputs: Sequence[Key], made: tuple[Key, ...], extras: Sequence[Key] = ()) -> None:
        """Say of the item that is added next what computes it from which memory, and what it reads after that."""
        schedule, number = self.schedule, len(self.schedule.items)
        schedule.library[number] = call
        schedule.memory[number] = tuple(map(schedule.memory_of, inputs)), made
        schedule.extras[number] = tuple(map(schedule.memory_of, extras))
        schedule.prepared[number] = tuple(
            schedule.prepared_key(schedule.memory_of(inputs[item.position]), item)
            for item in getattr(call, "constants", ())
            if isinstance(item, Prepared)
        )

    def _packed(self, position: int, line: Line, call: Call) -> Key:
        """The memory of a factor in the layout of a product, which is filled before the first product that reads it."""
        key, source = ("packed", call.packing), self.schedule.memory_of(call.inputs[1])
        if key not in self.schedule.sizes:
            packing = call.step.packing
            self.schedule.sizes[key] = packing.size
            self._note_call(packing.call, [source], (key,))
            mutable = frozenset([source]) if isinstance(source, tuple) else frozenset()
            self._append(position, line.op, [Item(line.op.name, (), (source,), (key,), mutable, self._waits(line))])
        return key

    def _append(self, position: int, at: Operation, items: Sequence[Item]) -> None:
        first = len(self.schedule.items)
        self.schedule.items += items
        self.schedule.lines += [position] * len(items)
        self.finished[at] = frozenset(range(first, first + len(items)))
        for item in items:
            for key in (*item.reads, *item.writes):
                self._note_size(key)

    def _note_size(self, key: Key) -> None:
        if key in self.schedule.sizes:
            return
        if isinstance(key, int):
            tensor = self.schedule.program.tensors[key]
            if is_native(tensor):
                self.schedule.specs[key] = tensor
                self.schedule.sizes[key] = byte_count(tensor)
        elif is_variable(key):
            storage = self.schedule.storages[key[1]]
            self.schedule.sizes[key] = math.prod(storage.shape.as_tuple()) * storage.dtype.size

    def _waits(self, line: Line) -> frozenset[int]:
        waits: set[int] = set()
        for other in (*(tensor.op for tensor in line.op.inputs), *line.op.control_inputs):
            waits |= self._finished(other)
        return frozenset(waits)

    def _finished(self, op: Operation) -> frozenset[int]:
        """The items after which an operation has run; one that is no line waits for its own inputs."""
        stack = [op]
        while stack:
            current = stack[-1]
            if current in self.finished:
                stack.pop()
                continue
            others = [*(tensor.op for tensor in current.inputs), *current.control_inputs]
            missing = [other for other in others if other not in self.finished]
            if missing:
                stack.extend(missing)
                continue
            self.finished[current] = frozenset().union(*(self.finished[other] for other in others))
            stack.pop()
        return self.finished[op]

    def _controls(self, line: Line) -> frozenset[int]:
        return frozenset().union(*(self._finished(op) for op in line.op.control_inputs))

    def _view(self, line: Line) -> bool:
        """Let the output share the memory of the input."""
        if line.op.type not in VIEWS or line.inputs[0] in self.schedule.program.constants:
            return False
        tensors = self.schedule.program.tensors
        source, target = tensors[line.inputs[0]], tensors[line.outputs[0]]
        if source.dtype is not target.dtype or source.shape.num_elements != target.shape.num_elements:
            return False
        if line.op.type == "EnsureShape" and not source.shape.is_fully_defined:
            return False
        self.schedule.roots[line.outputs[0]] = self.schedule.root(line.inputs[0])
        return True

    def _read(self, position: int, line: Line) -> bool:
        """Read a variable where it lies, if nothing writes to it before the last use of what is read."""
        if line.op.type != "ReadVariableOp":
            return False
        storage = self.schedule.storage(line.inputs[0])
        if storage is None or storage.shape.as_tuple() != line.op.outputs[0].shape.as_tuple():
            return False
        key = self.schedule.storage_key(storage)
        last = self.uses.get(line.outputs[0], position)
        if any(position < write < last for write in self.writes.get(key, ())):
            return False
        self.schedule.roots[line.outputs[0]] = key
        self._note_size(key)
        return True

    def _row_call(self, line: Line) -> Gather | Scan | Rows | FirstRows | None:
        """The work on whole rows that a line is, or None."""
        shapes = [self._shape(number) for number in line.inputs]
        place = _TELLING.get(line.op.type, 2)
        known = self.schedule.constant(line.inputs[place]) if len(line.inputs) > place else None
        for found in (gather_call, scan_call, rows_call):
            call = found(line.op, shapes, known)
            if call is not None:
                return call
        return None

    def _shape(self, number: int) -> tuple[int, ...]:
        """The shape of a value, or of the variable behind a handle."""
        storage = self.schedule.storage(number)
        return (self.schedule.program.tensors[number] if storage is None else storage).shape.as_tuple()

    def _checked(self, position: int, line: Line, call: Any) -> frozenset[int]:
        """Look at indices before variables are locked: a change that is refused leaves all of them as they are."""
        if not isinstance(call, Rows) or call.change == "sum" or line.op.type == "_ScatterRows":
            return frozenset()
        number, indices = len(self.schedule.items), line.inputs[1:2]
        self._note_call(RangeCheck(call.index, call.count, call.rows), indices, ())
        self._append(position, line.op, [self._item(line, indices, (), self._controls(line))])
        return frozenset({number})

    def _item(
        self,
        line: Line,
        inputs: Sequence[Key],
        outputs: Sequence[int],
        waits: frozenset[int],
        *,
        partial: bool = False,
    ) -> Item:
        """An item that is not made of loops: nothing is fused with it."""
        reads: list[Key] = []
        handles: list[Key] = []
        for number in inputs:
            key = self.schedule.memory_of(number)
            if isinstance(number, int) and self.schedule.storage(number) is not None:
                handles.append(key)
            elif number not in self.schedule.program.constants:
                reads.append(key)
        touched = (*reads, *handles)
        return Item(
            name=line.op.name,
            outputs=(),
            reads=tuple(dict.fromkeys(touched)),
            writes=(*outputs, *([] if line.op.type in READING else dict.fromkeys(handles))),
            mutable=frozenset(key for key in touched if isinstance(key, tuple)),
            after=waits,
            partial=partial,
        )
