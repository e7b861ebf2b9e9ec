"""StepSource: writes the step function of a plan, a few lines of Python around native calls."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from headrace.plan import ALIGNMENT, Line, aligned_array, group_inputs
from headrace.types import Array, float32
from headrace_cpu.driver.block import Block, Place, block_of, integers_of
from headrace_cpu.driver.entry import WrittenDriver, module_text, new_module, write_driver
from headrace_cpu.driver.estimates import contains_blocks
from headrace_cpu.driver.pausing import Stop, stops_in
from headrace_cpu.driver.sharing import side_by_side
from headrace_cpu.layout import Layout, Run, Unit
from headrace_cpu.llvm.host import host
from headrace_cpu.prepared import Snapshots, copies
from headrace_cpu.primitives.gathering import Gather
from headrace_cpu.primitives.indices import FirstRows, RangeCheck
from headrace_cpu.primitives.scattering import Rows
from headrace_cpu.scheduling.lists import ListOp
from headrace_cpu.scheduling.schedule import Key, is_variable
from headrace_cpu.step import calling
from headrace_cpu.step.calling import (
    Failure,
    Located,
    call_again,
    call_followed,
    call_in_slices,
    call_updating,
    checked,
    lock_order,
)
from headrace_cpu.step.statements import Expression, Statement, dying, joined, local

__all__ = ["StepSource"]

_Driver = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


POINTER = 8
"""Bytes of a pointer."""
LARGE = 1 << 20
"""Bytes of a constant from which on it stays where it is: each plan of a model would have it in memory once more."""


class ConstantPool:
    """The constants that native code reads, one after the other in one aligned block. Mutable.

    Of a large one the block has a pointer to it, and the pool the array.
    """

    def __init__(self) -> None:
        self._values: list[Array] = []
        self._places: dict[int, Place] = {}  # by id of the value
        self._size = 0
        self._memory: Array | None = None

    def place(self, value: Array) -> Place:
        """Where a constant is found."""
        key = id(value)
        if key not in self._places:
            stays = value.nbytes >= LARGE and value.flags.c_contiguous and value.flags.aligned
            self._places[key] = "pointer" if stays else "constant", self._size
            self._values.append(value)
            size = POINTER if stays else max(value.nbytes, 1)
            self._size += -(-size // ALIGNMENT) * ALIGNMENT
        return self._places[key]

    def address(self) -> int:
        """Of the whole block; to be asked when all constants are there."""
        if self._memory is None:
            self._memory = aligned_array((self._size,), np.uint8)
            for value, (kind, offset) in zip(self._values, self._places.values(), strict=True):
                content = np.array(value.ctypes.data) if kind == "pointer" else np.ascontiguousarray(value)
                flat = content.reshape(-1).view(np.uint8)
                self._memory[offset : offset + flat.size] = flat
        return int(self._memory.ctypes.data)


class StepSource:
    """The step function of a layout, being written. Mutable.

    Attributes:
      namespace: what the text names.
      views: shape, dtype and offset of each view of the arena.
      drivers: the drivers that it calls.
      store_count: how many stores for lists they use.
      first_lines: for each line of the text the run that it does.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.program = layout.schedule.program
        self.views: list[tuple[tuple[int, ...], Any, int]] = []
        self.drivers: list[WrittenDriver] = []
        self.store_count = 0
        self.first_lines: dict[int, Run] = {}
        self._constants = ConstantPool()
        machine = host()
        self._module = new_module(self._constants.place, self._new_store, machine.lanes, openmp=machine.openmp)
        self.namespace: dict[str, Any] = {
            "copy": np.array,
            "empty": np.empty,
            "checked": checked,
            "again": call_again,
            "slices": call_in_slices,
            "followed": call_followed,
            "errstate": np.errstate,
            "update": call_updating,
            "array": np.asarray,
        }
        self.namespace |= {f"c{number}": value for number, value in self.program.constants.items()}
        self.view_names: dict[tuple[int, int], str] = {}
        self._statements: list[Statement] = []
        started = 0
        for number, run in enumerate(layout.runs):
            statement = self._hosted(run, started) if run.kind == "host" else self._native(number, run, started)
            self._statements.append(statement)
            started += len(run.lines)
        self._results = self._returned()
        self._load([number for number, run in enumerate(layout.runs) if run.kind != "host"])
        self.namespace["constants"] = self._constants.address()

    def _load(self, numbers: Sequence[int]) -> None:
        """Name the drivers of the runs of some numbers."""
        addresses = host().load(*module_text(self._module, self.drivers)) if numbers else ()
        self.namespace |= {f"run{n}": _Driver(address) for n, address in zip(numbers, addresses, strict=True)}

    # what each value is called

    def value(self, number: int) -> Expression:
        """A value as Python sees it, in its own shape."""
        program, root = self.program, self.layout.schedule.root(number)
        if number in program.constants:
            return Expression(f"c{number}")
        same = isinstance(root, int) and program.tensors[root].shape == program.tensors[number].shape
        if isinstance(root, int) and root in self.layout.allocation.offsets:
            return Expression(self.view(root, number))
        base = self.held(root)
        if same or (isinstance(root, tuple) and self._storage_shape(root) == self._shape(number)):
            return base
        return base.wrapped("", f".reshape({self._shape(number)})")

    def held(self, key: Key) -> Expression:
        """The array of a memory that is not in the arena."""
        if isinstance(key, tuple):
            storage = self.layout.schedule.storages[key[1]]
            name = f"read{key[1]}"
            self.namespace[name] = storage.read
            return Expression(f"{name}()")
        if key in self.layout.fresh:
            return Expression(f"r{self.layout.fresh[key]}")
        if key in self.program.constants:
            return Expression(f"c{key}")
        return local(key)

    def _shape(self, number: int) -> tuple[int, ...]:
        return self.program.tensors[number].shape.as_tuple()

    def _storage_shape(self, key: tuple[Any, ...]) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.layout.schedule.storages[key[1]].shape.as_tuple()
        return shape

    def view(self, root: int, number: int) -> str:
        """A view of the arena."""
        if (root, number) not in self.view_names:
            tensor = self.program.tensors[number]
            self.view_names[root, number] = f"w{len(self.views)}"
            offset = self.layout.allocation.offsets[root]
            self.views.append((tensor.shape.as_tuple(), tensor.dtype.array_type, offset))
        return self.view_names[root, number]

    # runs

    def _hosted(self, run: Run, started: int) -> Statement:
        """A line of NumPy, before which so many operations have started."""
        position = run.lines[0]
        line = self.program.lines[position]
        call = joined(self._host_arguments(line)).wrapped(f"f{position}(", ")")
        targets = joined([local(number) for number in line.outputs]).text
        listed = bool(line.outputs) and line.op.op_def.outputs[0].is_list
        targets += "," if len(line.outputs) > 1 or listed else ""
        text = f"{targets} = {call.text}" if targets else call.text
        return Statement(text, f"hook({started}); {text}", call.reads, line.outputs)

    def _host_arguments(self, line: Line) -> list[Expression]:
        grouped: list[Any] = group_inputs(line.op, [self.value(number) for number in line.inputs])
        arguments = [joined(item).wrapped("[", "]") if isinstance(item, list) else item for item in grouped]
        planned = [self.view(n, n) for n in line.outputs if n in self.layout.host_outputs]
        if planned:
            out = planned[0] if len(planned) == 1 else f"({', '.join(planned)})"
            arguments.append(Expression(f"out={out}" if line.kernel.direct else out))
        return arguments

    def _native(self, number: int, run: Run, started: int) -> Statement:
        """The call of a driver.

        Args:
          number: of the run.
          run: what it does.
          started: how many operations come before it.
        """
        given = [key for variable, made in self._kept(run).items() for key in (variable, *made)]
        block = block_of(self.layout, run.units, self._constants.place, given)
        together = side_by_side(block) if self._module.openmp else ()
        updates = run.kind == "update"  # then it holds the locks of variables, and does all of it or nothing
        sizes = self.layout.schedule.sizes
        stops: Sequence[Stop] = ()
        if not updates:
            stops = stops_in(run.units, lambda key: sizes.get(key, 0), calling.SLICE, together)
        table = len(self.drivers)
        self.drivers.append(write_driver(self._module, block, stops, together))
        self.namespace[f"where{number}"] = tuple(self._failure(unit, block) for unit in run.units)
        if updates:
            return self._updating(number, run, block, table, started)
        return self._computing(number, run, block, table, started)

    def _kept(self, run: Run) -> dict[Key, list[Key]]:
        """For each variable of which a run reads copies these."""
        copies = self.layout.schedule.copies
        found: dict[Key, list[Key]] = {}
        for key in dict.fromkeys(key for unit in run.units for key in unit.prepared):
            found.setdefault(copies[key][0], []).append(key)
        return found

    def _computing(self, number: int, run: Run, block: Block, table: int, started: int) -> Statement:
        """The call of the driver of a number that writes no variable."""
        items = joined(self._items(number, run, block))
        in_slices = f"run{number}, [{items.text}], context.arena, constants, context.tables[{table}], where{number}"
        self.namespace[f"begins{number}"] = tuple(started + (unit.begins or 0) for unit in run.units)
        if self.drivers[table].is_sliced:
            text = f"slices({in_slices}, context.stores)"
        else:
            tail = f"context.arena, constants, context.addresses[{table}]"
            text = f"run{number}([{items.text}], {tail}) and again(run{number}, [{items.text}], {tail}, where{number})"
        followed = f"followed(hook, begins{number}, {in_slices}, context.stores)"
        return Statement(text, followed, items.reads)

    def _updating(self, number: int, run: Run, block: Block, table: int, started: int) -> Statement:
        """The call of the driver of a number that writes variables, whose locks it takes."""
        written = {key for unit in run.units for key in unit.outputs if is_variable(key)}
        storages = self.layout.schedule.storages
        numbers = {id(storages[key[1]]): key[1] for key in written}
        ordered = lock_order(storages[variable] for variable in numbers.values())
        held = [numbers[id(storage)] for storage in ordered]
        self.namespace[f"held{number}"] = tuple(ordered)
        self.namespace[f"blank{number}"] = self._blank(run, held)
        self.namespace[f"slots{number}"] = tuple(
            held.index(key[1]) if isinstance(key, tuple) and key in written else None for key in block.slots
        )
        items = joined(self._items(number, run, block, written))
        storing = f"slots{number}, held{number}, blank{number}, context.threads"
        tail = f"context.arena, constants, context.tables[{table}]"
        text = f"update(run{number}, [{items.text}], {storing}, {tail}, where{number})"
        return Statement(text, f"hook({started}); {text}", items.reads)

    def _new_store(self) -> int:
        self.store_count += 1
        return self.store_count - 1

    def _failure(self, unit: Unit, block: Block) -> Failure:
        """What a unit's failure means: loops and branches are done again by their kernel, with the same inputs."""
        line = self.program.lines[unit.line] if unit.line is not None else None
        if line is None:
            return Failure(None)
        known = tuple(map(self.program.constants.get, line.inputs))
        if contains_blocks(unit):
            return Failure(line, tuple(self._given_to_loop(unit, block, place) for place in range(len(known))))
        if isinstance(unit.call, ListOp):
            found = list(known)
            for place, key in zip(unit.call.reads, unit.inputs, strict=True):
                found[place] = self._located(key, block, line.op.inputs[place].shape.as_tuple())
            return Failure(line, tuple(found))
        looked_at = 1 if isinstance(unit.call, (Gather, Rows)) else 0
        if not looked_at and not unit.bound and not isinstance(unit.call, (FirstRows, RangeCheck)):
            return Failure(line)
        place = 0 if isinstance(unit.call, FirstRows) else 1
        found = list(known)
        found[place] = self._located(unit.keys[looked_at], block, line.op.inputs[place].shape.as_tuple())
        return Failure(line, tuple(found))

    def _given_to_loop(self, unit: Unit, block: Block, place: int) -> Located:
        """Where an input of a loop is when it fails: lists that it changes are kept as they were."""
        line = self.program.lines[unit.line or 0]
        located = self._located(unit.inputs[place], block, line.op.inputs[place].shape.as_tuple())
        if place not in getattr(unit.call, "changed", ()):
            return located
        (kind, start), *_ = block.scratch[block.units.index(unit)]
        return replace(located, place=(kind, start + unit.call.saved_at(place)))

    def _located(self, key: Key, block: Block, shape: tuple[int, ...]) -> Located:
        lists = self.layout.schedule.lists
        if key in lists.roots:
            dtype, shape = lists.elements.get(key, (float32, ()))  # of one without elements nobody asks what they are
            return Located(block.places[key], dtype, shape, is_list=True)
        return Located(block.places[key], integers_of(self.layout, key)[0], shape)

    def _blank(self, run: Run, held: Sequence[int]) -> tuple[tuple[int, ...] | None, ...]:
        """For each variable its shape if the run writes it without reading it, so that it need not have a value."""
        read = {key for unit in run.units for key in unit.inputs}
        shapes = [self._storage_shape(("variable", number)) for number in held]
        return tuple(
            None if ("variable", number) in read else shape for number, shape in zip(held, shapes, strict=True)
        )

    def _items(self, number: int, run: Run, block: Block, written: Collection[Key] = ()) -> list[Expression]:
        """The arrays that the driver of a number is given, but for variables that it writes.

        A variable of which it reads copies comes with these, so that all are of one value.
        """
        found, schedule, kept = [], self.layout.schedule, self._kept(run)
        for variable, made in kept.items():
            name, storage = f"kept{number}_{variable[1]}", schedule.storages[variable[1]]
            makers = (schedule.copies[key][1].make for key in made)
            self.namespace[name] = Snapshots(storage, tuple(copies.of_variable(storage, make) for make in makers))
            found.append(Expression(f"*{name}()"))
        others = block.slots[sum(1 + len(made) for made in kept.values()) :]
        return found + [Expression("None") if key in written else self._item(key) for key in others]

    def _item(self, key: Key) -> Expression:
        """An array for the list; what NumPy kernels gave is checked, since native code trusts it."""
        made_by_host = any(
            run.kind == "host" and key in self.program.lines[run.lines[0]].outputs for run in self.layout.runs
        )
        held = self.held(key)
        if not made_by_host:
            return held
        tensor = self.program.tensors[key]
        self.namespace[f"spec{key}"] = (tensor.dtype.array_type, tensor.shape.as_tuple())
        return held.wrapped("checked(", f", spec{key})")

    def text(self, *, instrumented: bool) -> str:
        """The source of the step function."""
        lines = self._beginning(instrumented=instrumented)
        indent = "  "
        if any(run.kind == "host" for run in self.layout.runs):
            lines.append("  with errstate(all='ignore'):")
            indent = "    "
        dead = dying(self._statements, self._results)
        for run, statement, over in zip(self.layout.runs, self._statements, dead, strict=True):
            lines.append(f"{indent}{statement.followed if instrumented else statement.text}")
            self.first_lines[len(lines)] = run
            if over:
                lines.append(f"{indent}del {joined([local(number) for number in over]).text}")
        lines.append(f"  return [{joined(self._results).text}]")
        return "\n".join(lines) + "\n"

    def _beginning(self, *, instrumented: bool) -> list[str]:
        """What the function is given, and the arrays that its results are written to."""
        views = ", ".join(self.view_names.values())
        arguments = joined([local(number) for number in self.program.arguments]).text
        lines = [
            f"def step(context, arguments{', hook' if instrumented else ''}):",
            f"  {views}, = context.views" if views else "  pass",
            f"  {arguments}, = arguments" if arguments else "  pass",
        ]
        for position in self.layout.fresh.values():
            number = self.program.results[position]
            tensor = self.program.tensors[number]
            root = self.layout.schedule.root(number)
            shape = self._shape(root) if isinstance(root, int) else self._shape(number)
            self.namespace[f"dtype{position}"] = tensor.dtype.array_type
            lines.append(f"  r{position} = empty({shape}, dtype{position})")
        return lines

    def _returned(self) -> list[Expression]:
        """What the function returns: arrays that belong to the caller, each with memory of its own."""
        results: list[Expression] = []
        seen: set[Key] = set()
        for position, number in enumerate(self.program.results):
            root = self.layout.schedule.root(number)
            if position in self.program.handles:
                results.append(self.value(number))
            elif self.layout.fresh.get(root) == position:
                reshaped = isinstance(root, int) and self._shape(root) != self._shape(number)
                after = f".reshape({self._shape(number)})" if reshaped else ""
                results.append(Expression(f"r{position}{after}"))
            elif number in self.program.arguments and position not in self.program.shared:
                results.append(local(number))  # a value that a function passes on to who called it
            else:
                alone = root == number and self._made_alone(number) and root not in seen
                results.append(self.value(number).wrapped("array(" if alone else "copy(", ")"))
            seen.add(root)
        return results

    def _made_alone(self, number: int) -> bool:
        """True if a NumPy kernel made the value in memory of its own."""
        for run in self.layout.runs:
            if run.kind == "host":
                line = self.program.lines[run.lines[0]]
                if number in line.outputs:
                    return not line.kernel.aliases and number not in self.layout.allocation.offsets
        return False
