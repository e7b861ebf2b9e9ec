"""From a program to groups in the order in which they run: what is fused, what libraries do, what stays with NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace import Operation
from headrace.loops.fusion import Item, fits_alone, fuse
from headrace.loops.lowering import Output
from headrace.loops.recompute import recomputed
from headrace.loops.registry import LoopContext, find_loops
from headrace.loops.value import Value, constant, reached
from headrace.plan import Line, Program
from headrace_cpu.absorbing import Absorbed, Call, absorb
from headrace_cpu.gathering import Gather, gather_call
from headrace_cpu.lists import CHANGING, RECORD, ListOp, ListUse
from headrace_cpu.onednn import Request
from headrace_cpu.ordering import ordered
from headrace_cpu.placing import place
from headrace_cpu.scalars import prints
from headrace_cpu.scans import Scan, scan_call
from headrace_cpu.scattering import FirstRows, RangeCheck, Rows, known_below, rows_call
from headrace_cpu.schedule import Key, Schedule, is_variable
from headrace_cpu.values import READING, VIEWS, byte_count, integers, is_native, stored

__all__ = ["schedule"]

UNIFORM = 1 << 16
"""Elements up to which a constant is looked at for being one number everywhere."""


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
    made = _Maker(result, library, nested)
    for position, line in enumerate(program.lines):
        made.add(position, line)
    result.groups = fuse(result.items, result.sizes)
    result.order = ordered(result)
    kept = {result.root(number) for number in program.results}
    result.again = recomputed(result.items, result.groups, kept)
    return result


@dataclass(slots=True)
class _Maker:
    schedule: Schedule
    library: Callable[[Request], Any]
    nested: Callable[[Line], Any]
    finished: dict[Operation, frozenset[int]] = field(default_factory=dict)  # operation -> items it waits for
    uses: dict[int, int] = field(default_factory=dict)  # value -> the last line that uses it
    writes: dict[Key, list[int]] = field(default_factory=dict)  # variable -> lines that may write it
    absorbed: Absorbed = field(default_factory=Absorbed)

    def __post_init__(self) -> None:
        program = self.schedule.program
        self.absorbed = absorb(program, self.library)
        place(program, self.absorbed, self.library)
        for position, line in enumerate(program.lines):
            call = self.absorbed.calls.get(position)
            for number in line.inputs if call is None else (*line.inputs, *call.inputs, *call.extras):
                self.uses[number] = position
            if line.op.type in VIEWS and line.inputs:
                self.uses[line.outputs[0]] = position
            if line.op.type not in READING:
                for number in line.inputs:
                    storage = self.schedule.storage(number)
                    if storage is not None:
                        self.writes.setdefault(self.schedule.storage_key(storage), []).append(position)
        for line in reversed(program.lines):  # the uses of a view are uses of what it views
            if line.op.type in VIEWS and line.outputs[0] in self.uses:
                source = line.inputs[0]
                self.uses[source] = max(self.uses.get(source, 0), self.uses[line.outputs[0]])
        for number in program.results:
            self.uses[number] = len(program.lines)
        for line in reversed(program.lines):
            if line.op.type in VIEWS and self.uses.get(line.outputs[0]) == len(program.lines):
                self.uses[line.inputs[0]] = len(program.lines)

    def _request(self, op: Operation, inputs: Sequence[int], outputs: Sequence[int]) -> Request:
        program = self.schedule.program
        dtypes = tuple(program.tensors[number].dtype for number in (*inputs, *outputs))
        return Request(op, dtypes, tuple(map(self.schedule.constant, inputs)))

    def add(self, position: int, line: Line) -> None:
        """Add what a line does."""
        lists = self.schedule.lists
        if position in lists.views:
            self.finished[line.op] = self._waits(line)
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
        at = line.op
        tensors = self.schedule.program.tensors
        native = all(is_native(tensors[n]) or self.schedule.storage(n) is not None for n in line.inputs) and all(
            is_native(tensors[n]) for n in line.outputs
        )
        if native and (self._view(line) or self._read(position, line)):
            self.finished[line.op] = self._waits(line)
            return
        if position in self.absorbed.lines:
            self.finished[line.op] = self._waits(line)
            return
        inputs: tuple[Key, ...] = line.inputs
        outputs = line.outputs
        extras: tuple[int, ...] = ()
        waits, items = self._waits(line), None
        changed: tuple[int, ...] = ()
        call = self.absorbed.calls.get(position)
        if call is not None:
            step, inputs, extras, outputs = call.step, call.inputs, call.extras, call.outputs
            position, line = call.line, self.schedule.program.lines[call.line]
            if call.packing is not None:
                inputs = (inputs[0], self._packed(position, line, call))
            if call.variable is not None:  # it is written in place of the output
                self.schedule.roots[outputs[0]] = self.schedule.memory_of(call.variable)
                changed, outputs = (call.variable,), ()
            self.schedule.together[len(self.schedule.items)] = call.lines
        else:
            items = self._loops(line) if native else None
            alone = native and items is None and line.op.type != "AddN"  # a library adds only what it multiplies itself
            step = (
                (self._gather(line) or self._rows(line) or self.library(self._request(line.op, inputs, outputs)))
                if alone
                else None
            )
            if alone and step is None:
                step = self.nested(line)
                if step is not None:
                    self.schedule.nested.add(len(self.schedule.items))
        if items is None:
            if step is not None:
                waits |= self._checked(position, line, step)
                if isinstance(step, Rows) and step.change != "sum":
                    changed = line.inputs[:1]
                self.schedule.library[len(self.schedule.items)] = step
                made = (*outputs, *map(self.schedule.memory_of, changed))
                self.schedule.memory[len(self.schedule.items)] = tuple(map(self.schedule.memory_of, inputs)), made
                self.schedule.extras[len(self.schedule.items)] = tuple(map(self.schedule.memory_of, extras))
            items = [self._opaque(line, (*inputs, *extras), outputs, waits, call is not None and call.partial)]
        self._append(position, at, items)

    def _packed(self, position: int, line: Line, call: Call) -> Key:
        """The memory of a factor in the layout of a product, which is filled before the first product that reads it."""
        key, source = ("packed", call.packing), self.schedule.memory_of(call.inputs[1])
        if key not in self.schedule.sizes:
            number, packing = len(self.schedule.items), call.step.packing
            self.schedule.sizes[key] = packing.size
            self.schedule.library[number] = packing.call
            self.schedule.memory[number] = (source,), (key,)
            strict = frozenset([source]) if isinstance(source, tuple) else frozenset()
            self._append(position, line.op, [Item(line.op.name, (), (source,), (key,), strict, self._waits(line))])
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

    def _value(self, number: int) -> Value:
        """An input as a value; a constant that is one number everywhere is that number."""
        program = self.schedule.program
        tensor = program.tensors[number]
        storage = self.schedule.storage(number)
        if storage is not None:
            return Value("input", storage.dtype, storage.shape.as_tuple(), (), self.schedule.storage_key(storage))
        shape, dtype = tensor.shape.as_tuple(), stored(tensor.dtype)
        uniform = _uniform(program.constants.get(number))
        if uniform is not None:
            scalar = constant(uniform, dtype)
            return Value("view", dtype, shape, (scalar,), ()) if shape else scalar
        return Value("input", dtype, shape, (), self.schedule.root(number))

    def _loops(self, line: Line) -> list[Item] | None:
        program = self.schedule.program
        context = LoopContext(line.op, list(map(self.schedule.constant, line.inputs)))
        values = [self._value(number) for number in line.inputs]
        results = [values[0]] if line.op.type == "ReadVariableOp" else find_loops(context, values)
        if results is None or any(0 in value.shape for value in results):
            return None
        storages = [self.schedule.storage(number) for number in line.inputs]
        handles = [self.schedule.storage_key(storage) for storage in storages if storage is not None]
        keys: list[Key] = list(line.outputs) if line.outputs else list(handles)
        if len(keys) != len(results) or len(set(handles)) < len(handles):
            return None
        for key, value in zip(keys, results, strict=True):
            wanted = self.schedule.storages[key[1]] if isinstance(key, tuple) else program.tensors[key]
            if value.shape != wanted.shape.as_tuple() or value.dtype is not stored(wanted.dtype):
                return None
        outputs = [made for key, value in zip(keys, results, strict=True) for made in _outputs(key, value)]
        found = reached(*(output.value for output in outputs))
        if not all(map(_printed, found)):
            return None
        reads = _read_by(outputs)
        strict: set[Key] = {key for key in (*reads, *keys) if isinstance(key, tuple)}
        if line.op.type == "SparseSoftmaxCrossEntropyWithLogits":
            labels = line.inputs[1]
            if labels in program.constants and _uniform(program.constants[labels]) is not None:
                return None
            self.schedule.checks[len(self.schedule.items)] = self.schedule.root(labels), values[0].shape[-1]
            strict.add(self.schedule.root(labels))  # they lie in memory before, not only in the registers of the region
        reduced = any(value.op == "reduce" for value in found)
        groups = [outputs] if reduced else _by_shape(outputs)
        made = [
            Item(
                name=line.op.name,
                outputs=tuple(group),
                reads=tuple(_read_by(outputs if reduced else group)),
                writes=tuple(dict.fromkeys(output.key for output in group)),
                mutable=frozenset(strict),
                after=self._controls(line),
                partial=group[0].piece is not None,
            )
            for group in groups
        ]
        return made if not reduced or fits_alone(made[0]) else None

    def _rows(self, line: Line) -> Scan | Rows | FirstRows | None:
        program = self.schedule.program
        shapes: list[tuple[int, ...]] = []
        for number in line.inputs:
            storage = self.schedule.storage(number)
            shapes.append((program.tensors[number] if storage is None else storage).shape.as_tuple())
        place = {"StridedSliceGrad": 3, "Cumsum": 1, "Cumprod": 1}.get(line.op.type, 2)
        known = self.schedule.constant(line.inputs[place]) if len(line.inputs) > place else None
        return scan_call(line.op, shapes, known) or rows_call(line.op, shapes, known)

    def _checked(self, position: int, line: Line, step: Any) -> frozenset[int]:
        """Look at indices before variables are locked: a change that is refused leaves all of them as they are."""
        if not isinstance(step, Rows) or step.change == "sum" or line.op.type == "_ScatterRows":
            return frozenset()
        number, indices = len(self.schedule.items), line.inputs[1]
        key = self.schedule.memory_of(indices)
        self.schedule.library[number] = RangeCheck(step.index, step.count, step.rows)
        self.schedule.memory[number] = (key,), ()
        self.schedule.extras[number] = ()
        reads = () if indices in self.schedule.program.constants else (key,)
        strict = frozenset(item for item in reads if isinstance(item, tuple))
        self._append(position, line.op, [Item(line.op.name, (), reads, (), strict, self._controls(line))])
        return frozenset({number})

    def _gather(self, line: Line) -> Gather | None:
        if line.op.type not in ("GatherV2", "ResourceGather", "StridedSlice", "_GatherRows"):
            return None
        storage = self.schedule.storage(line.inputs[0])
        shape = (storage if storage is not None else self.schedule.program.tensors[line.inputs[0]]).shape.as_tuple()
        if line.op.type == "_GatherRows" and not known_below(line.op.inputs[1], shape[0]):
            return None
        place = 3 if line.op.type == "StridedSlice" else 2
        return gather_call(
            line.op, self.schedule.constant(line.inputs[place]) if len(line.inputs) > place else None, shape
        )

    def _opaque(
        self, line: Line, inputs: Sequence[Key], outputs: Sequence[int], waits: frozenset[int], partial: bool
    ) -> Item:
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


def _outputs(key: Key, value: Value) -> list[Output]:
    """What to write for one output of a rule: itself, or its pieces after what stands between them."""
    if value.op != "assemble":
        return [Output(key, value)]
    places, filling = value.payload
    pieces = [Output(key, part, place) for part, place in zip(value.args, places, strict=True)]
    if filling is None:
        return pieces
    blank = Value("view", value.dtype, value.shape, (constant(filling, value.dtype),), ())
    return [Output(key, blank), *pieces]


def _by_shape(outputs: list[Output]) -> list[list[Output]]:
    """Pieces of one shape together, so that they may share a region; what is not a piece alone and first."""
    groups: dict[tuple[Any, ...], list[Output]] = {}
    for output in outputs:
        groups.setdefault((output.piece is None, output.value.shape), []).append(output)
    return list(groups.values())


def _read_by(outputs: list[Output]) -> list[Key]:
    values = reached(*(output.value for output in outputs))
    return list(dict.fromkeys(value.payload for value in values if value.op == "input"))


def _uniform(value: Any) -> int | float | bool | None:
    """The number that all elements of a constant are, or None."""
    if not isinstance(value, np.ndarray) or not 0 < value.size <= UNIFORM or value.dtype == object:
        return None
    value = integers(value)
    first = value.reshape(-1)[:1]
    if value.dtype.kind == "c" or value.tobytes() != first.tobytes() * value.size:
        return None
    number = first[0]
    return float(number) if value.dtype.kind in "fV" else bool(number) if value.dtype.kind == "b" else int(number)


def _printed(value: Value) -> bool:
    if value.op in ("input", "view", "index", "position", "const"):
        return True
    if value.op == "reduce":
        return value.payload[0] in ("sum", "prod", "max", "min", "any", "all")
    operand = value.args[-1] if value.op == "select" else value.args[0]
    return prints(value.op, operand.dtype)
