"""The code of units: calls of regions and library primitives, checks, copies, and blocks inside of others.

Every function of a driver that runs a block has the registers `%arena`, where its values live, `%constants`, `%table`
and `%state`. It gives 0, or one more than the position of the unit that failed, or PAUSED: so much is done that Python
should look whether the step has to end, or somebody follows the step; or GROW: a list needs more memory. A function
that is called again after that, with the entry RESUMED of the table set, goes on where `%state` says; what paused
clears the entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace_cpu.driver.block import Block, Place
from headrace_cpu.driver.estimates import contains_blocks
from headrace_cpu.driver.library_code import fail_if, write_failure, write_library
from headrace_cpu.driver.list_code import ListWriter
from headrace_cpu.driver.module import Module
from headrace_cpu.driver.pausing import Stop, write_resumption, write_stop
from headrace_cpu.driver.shared_code import SharedCall, shared_call, shared_pointers, write_shared
from headrace_cpu.driver.table import GROW, GROW_BYTES, GROW_STORE, RESUMED, STORES, entry, set_entry
from headrace_cpu.layout import Unit
from headrace_cpu.llvm.text import Text
from headrace_cpu.primitives.gathering import Gather
from headrace_cpu.primitives.indices import FirstRows, IndexCall, RangeCheck
from headrace_cpu.primitives.scattering import Rows
from headrace_cpu.scheduling.lists import ListOp

__all__ = ["frame", "may_pause", "pointer_to", "write_units"]


def write_units(
    module: Module,
    t: Text,
    block: Block,
    data: Sequence[str],
    stops: Sequence[Stop] = (),
    together: Iterable[range] = (),
) -> None:
    """Write the calls of a block.

    Args:
      module: what the function belongs to.
      t: the function.
      block: what it does.
      data: registers of the pointers that the block is given.
      stops: where it may pause between units.
      together: which units run side by side (see `sharing.side_by_side`).
    """
    pausing = [position for position, unit in enumerate(block.units) if may_pause(unit)]
    before = {stop.unit: stop for stop in stops}
    if pausing or stops:
        write_resumption(t, stops, pausing)
    joined = {position for positions in together for position in positions[1:]}
    calls: list[SharedCall] = []
    for position, unit in enumerate(block.units):
        if position in before:
            write_stop(t, before[position])
        if position in pausing:
            t.line(f"br label %unit{position}")
            t.start(f"unit{position}")
        pointers = [pointer_to(t, block.places[key], data) for key in unit.keys]
        pointers += [pointer_to(t, place, data) for place in block.scratch[position]]
        if unit.is_shared:
            if isinstance(unit.call, Rows) and unit.call.check is not None:
                _through_indices(t, position, unit.call.check, [pointers[unit.call.pointers[1]]])
            calls.append(shared_call(module, t, unit, position, pointers))
            if position + 1 not in joined:
                write_shared(module, t, calls)
                if any(call.may_fail for call in calls):
                    write_failure(t)
                calls = []
        else:
            _write_unshared(module, t, block, position, pointers)


def _write_unshared(module: Module, t: Text, block: Block, position: int, pointers: Sequence[str]) -> None:
    """Write what one thread does, or a library on threads of its own."""
    unit = block.units[position]
    if isinstance(unit.call, (FirstRows, Gather, RangeCheck)):
        _through_indices(t, position, unit.call, pointers)
    elif unit.bound:
        _through_indices(t, position, RangeCheck(*block.integers[unit.keys[0]], unit.bound), pointers)
    elif isinstance(unit.call, ListOp):
        _list_op(module, t, position, unit.call, pointers)
    elif contains_blocks(unit):
        _nested(module, t, position, unit, pointers)
    else:
        write_library(module, t, position, unit, pointers)


def frame(units: Sequence[Unit], together: Iterable[range]) -> list[str]:
    """What a function that runs units has on its stack: pointers of what threads share, and what they are told.

    Args:
      units: what it runs.
      together: which of them run side by side.
    """
    counts = [shared_pointers(unit) if unit.is_shared else 0 for unit in units]
    largest = max([1, *counts, *(sum(counts[position] for position in positions) for positions in together)])
    return [f"  %args = alloca [{largest} x ptr], align 64", "  %job = alloca [5 x i64], align 16"]


def may_pause(unit: Unit) -> bool:
    """True for what may ask to be called again."""
    return contains_blocks(unit) or (isinstance(unit.call, ListOp) and unit.call.grows)


def pointer_to(t: Text, place: Place, data: Sequence[str]) -> str:
    """The pointer of a memory."""
    kind, number = place
    if kind == "slot":
        return data[number]
    found = t.put(f"getelementptr i8, ptr %{'arena' if kind == 'arena' else 'constants'}, i64 {number}")
    return t.put(f"load ptr, ptr {found}") if kind == "pointer" else found


def _nested(module: Module, t: Text, position: int, unit: Unit, pointers: Sequence[str]) -> None:
    status = module.nested(module, t, unit, pointers)
    over, stopped = t.label("over"), t.label("stopped")
    t.line(f"br i1 {t.put(f'icmp eq i32 {status}, 0')}, label %{over}, label %{stopped}")
    t.start(stopped)
    t.line(f"store i64 {position}, ptr %state")
    failed = t.put(f"icmp sgt i32 {status}, 0")
    t.line(f"ret i32 {t.put(f'select i1 {failed}, i32 {position + 1}, i32 {status}')}")
    t.start(over)


def _list_op(module: Module, t: Text, position: int, op: ListOp, pointers: Sequence[str]) -> None:
    def make_store() -> str:
        return t.put(f"add i64 {entry(t, STORES)}, {16 * module.new_store()}")

    def ask_room(fits: str, store: str, needed: str) -> None:
        grow, enough = t.label("grow"), t.label("enough")
        t.line(f"br i1 {fits}, label %{enough}, label %{grow}")
        t.start(grow)
        set_entry(t, GROW_STORE, store)
        set_entry(t, GROW_BYTES, needed)
        t.line(f"store i64 {position}, ptr %state")
        t.line(f"ret i32 {GROW}")
        t.start(enough)

    if op.grows:
        set_entry(t, RESUMED, "0")
    ListWriter(t, op, pointers, make_store, ask_room, lambda wrong: fail_if(t, position, wrong)).write()


def _through_indices(t: Text, position: int, call: IndexCall, pointers: Sequence[str]) -> None:
    """Call a function that goes through indices; the unit fails if one is out of range."""
    t.functions |= call.functions()
    fail_if(t, position, t.put(f"call i1 @{call.symbol}({call.arguments(pointers)})"))
