"""The code of units: calls of regions and library primitives, checks, copies, and blocks inside of others.

Every function of a driver that runs a block has the registers `%arena`, where its values live, `%constants`, `%table`
and `%state`. It gives 0, or one more than the position of the unit that failed, or PAUSED: so much is done that Python
should look whether the step has to end, or somebody follows the step; or GROW: a list needs more memory. A function
that is called again after that, with the entry RESUMED of the table set, goes on where `%state` says; what paused
clears the entry.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace_cpu.block import Block, ConstantPlace, Place
from headrace_cpu.estimates import SERIAL_NANOSECONDS, contains_blocks, estimate, shared_nanoseconds, shared_points
from headrace_cpu.gathering import Gather
from headrace_cpu.indices import FirstRows, IndexCall, RangeCheck
from headrace_cpu.layout import Unit
from headrace_cpu.list_code import ListWriter
from headrace_cpu.lists import ListOp
from headrace_cpu.printer import print_region
from headrace_cpu.scattering import Rows
from headrace_cpu.sharing import ROW, SHARE, shares
from headrace_cpu.text import Text

__all__ = [
    "ACTIVE",
    "ARRAY_TYPE",
    "BUDGET",
    "FIRST_HANDLE",
    "GROW",
    "GROW_BYTES",
    "GROW_STORE",
    "LIBRARY_THREADS",
    "PAUSED",
    "RESUMED",
    "STORES",
    "THREADS",
    "TRACED",
    "Module",
    "Stop",
    "entry",
    "frame",
    "may_pause",
    "pointer_to",
    "set_entry",
    "stops_in",
    "write_units",
]

(
    ARRAY_TYPE, THREADS, LIBRARY_THREADS, TRACED, BUDGET, RESUMED, ACTIVE, STORES, GROW_STORE, GROW_BYTES, FIRST_HANDLE,
) = range(11)  # fmt: skip
"""Positions in the table."""
PAUSED, GROW = -2, -3
"""The answers of a function that wants to be called again."""
WriteNested = Callable[["Module", Text, Unit, Sequence[str]], str]
"""Writes a call of what a unit that contains blocks does; gives the register of its answer."""


@dataclass(slots=True)
class Module:
    """A module being written. Mutable.

    Attributes:
      lanes: float32 elements of a vector.
      openmp: whether libgomp's pool is there.
      constant: gives constants a place.
      new_store: gives the number of a store for a list that nothing else uses.
      nested: writes units that contain blocks.
      functions: declarations and definitions, by name.
      regions: the symbol of each region, by its text.
      handles: how many entries of the table libraries need.
      library: for each library unit its first entry in the table.
    """

    lanes: int
    openmp: bool
    constant: ConstantPlace
    new_store: Callable[[], int]
    nested: WriteNested
    functions: dict[str, str] = field(default_factory=dict)
    regions: dict[str, str] = field(default_factory=dict)
    handles: int = 0
    library: list[tuple[Unit, int]] = field(default_factory=list)

    def text(self) -> Text:
        """A function of this module, to be written."""
        return Text(functions=self.functions)

    def symbol(self, kind: str) -> str:
        """A fresh name."""
        return f"{kind}{len(self.functions)}"


@dataclass(frozen=True, slots=True)
class Stop:
    """A place before a unit where a driver may pause.

    Attributes:
      unit: the position of the unit.
      nanoseconds: an estimate of what comes until the next stop, or 0 if the driver takes less than a slice in all: it
        then pauses only where somebody follows the step.
    """

    unit: int
    nanoseconds: int


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
      stops: where it may pause between units. Its state is then -1 minus the position of the unit that comes next; in
        a unit that paused itself it is the position of that one.
      together: which units run side by side (see `sharing.side_by_side`).
    """
    pausing = [position for position, unit in enumerate(block.units) if may_pause(unit)]
    before = {stop.unit: stop for stop in stops}
    if pausing or before:
        _resume(t, {position: f"unit{position}" for position in pausing} | {-1 - n: f"after{n}" for n in before})
    joined = {position for positions in together for position in positions[1:]}
    calls: list[_Call] = []
    for position, unit in enumerate(block.units):
        if position in before:
            _stop(t, before[position])
        if position in pausing:
            t.line(f"br label %unit{position}")
            t.start(f"unit{position}")
        pointers = [pointer_to(t, block.places[key], data) for key in unit.keys]
        pointers += [pointer_to(t, place, data) for place in block.scratch[position]]
        if unit.is_shared:
            if isinstance(unit.call, Rows) and unit.call.check is not None:
                _through_indices(t, position, unit.call.check, [pointers[unit.call.pointers[1]]])
            calls.append(_shared(module, t, unit, pointers))
            if position + 1 not in joined:
                _share_out(module, t, calls)
                calls = []
        elif isinstance(unit.call, (FirstRows, Gather, RangeCheck)):
            _through_indices(t, position, unit.call, pointers)
        elif unit.bound:
            _through_indices(t, position, RangeCheck(*block.integers[unit.keys[0]], unit.bound), pointers)
        elif isinstance(unit.call, ListOp):
            _list_op(module, t, position, unit.call, pointers)
        elif contains_blocks(unit):
            _nested(module, t, position, unit, pointers)
        else:
            _library(module, t, position, unit, pointers)


def frame(units: Sequence[Unit], together: Iterable[range]) -> list[str]:
    """What a function that runs units has on its stack: pointers of what threads share, and what they are told.

    Args:
      units: what it runs.
      together: which of them run side by side.
    """
    counts = [len(unit.keys) + len(unit.scratch) if unit.is_shared else 0 for unit in units]
    largest = max([1, *counts, *(sum(counts[position] for position in positions) for positions in together)])
    return [f"  %args = alloca [{largest} x ptr], align 64", "  %job = alloca [3 x i64], align 16"]


def may_pause(unit: Unit) -> bool:
    """True for what may ask to be called again."""
    return contains_blocks(unit) or (isinstance(unit.call, ListOp) and unit.call.grows)


def entry(t: Text, position: int, kind: str = "i64") -> str:
    """An entry of the table."""
    return t.put(f"load {kind}, ptr {t.put(f'getelementptr i64, ptr %table, i64 {position}')}")


def set_entry(t: Text, position: int, value: str) -> None:
    """Write an entry of the table."""
    t.line(f"store i64 {value}, ptr {t.put(f'getelementptr i64, ptr %table, i64 {position}')}")


def pointer_to(t: Text, place: Place, data: Sequence[str]) -> str:
    """The pointer of a memory."""
    kind, number = place
    if kind == "slot":
        return data[number]
    return t.put(f"getelementptr i8, ptr %{'arena' if kind == 'arena' else 'constants'}, i64 {number}")


def _resume(t: Text, places: Mapping[int, str]) -> None:
    """Go on where the function paused, if it did: for each state the label."""
    resumed = t.put(f"icmp ne i64 {entry(t, RESUMED)}, 0")
    t.line(f"br i1 {resumed}, label %resume, label %begin")
    t.start("resume")
    active = t.put("load i64, ptr %state")
    cases = " ".join(f"i64 {state}, label %{label}" for state, label in places.items())
    t.line(f"switch i64 {active}, label %begin [ {cases} ]")
    t.start("begin")


def _stop(t: Text, stop: Stop) -> None:
    """Pause before a unit if somebody follows the step, or if as much is done as Python asked for."""
    number = stop.unit
    wanted = t.put(f"icmp ne i64 {entry(t, TRACED)}, 0")
    if stop.nanoseconds:
        wanted = t.put(f"or i1 {wanted}, {t.put(f'icmp slt i64 {entry(t, BUDGET)}, 0')}")
    t.line(f"br i1 {wanted}, label %before{number}, label %go{number}")
    t.start(f"before{number}")
    t.line(f"store i64 {-1 - number}, ptr %state")
    t.line(f"ret i32 {PAUSED}")
    t.start(f"after{number}")
    set_entry(t, RESUMED, "0")
    t.line(f"br label %go{number}")
    t.start(f"go{number}")
    if stop.nanoseconds:
        set_entry(t, BUDGET, t.put(f"sub i64 {entry(t, BUDGET)}, {stop.nanoseconds}"))


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
    ListWriter(t, op, pointers, make_store, ask_room, lambda wrong: _fail_if(t, position, wrong)).write()


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a function of pointers that threads share: the numbers of its points are its other arguments."""

    symbol: str
    points: int
    nanoseconds: float
    pointers: Sequence[str]


def _shared(module: Module, t: Text, unit: Unit, pointers: Sequence[str]) -> _Call:
    """Add the function of a unit that threads share to the module."""
    if unit.region is not None:
        printed = print_region(unit.region, module.lanes)
        t.functions |= printed.functions
        symbol = module.regions.setdefault(printed.body, f"region{len(module.regions)}")
        t.functions[symbol] = printed.body.replace("SYMBOL", symbol)
    else:
        symbol = unit.call.symbol(module.lanes)
        if symbol not in t.functions:
            body, needed = unit.call.written(module.lanes)
            t.functions |= needed
            t.functions[symbol] = body.replace("SYMBOL", symbol)
    return _Call(symbol, shared_points(unit), shared_nanoseconds(unit), pointers)


def _share_out(module: Module, t: Text, calls: Sequence[_Call]) -> None:
    """Let threads share the points of some functions, where there is enough work."""
    firsts = list(itertools.accumulate((len(call.pointers) for call in calls), initial=0))
    for first, call in zip(firsts, calls, strict=False):
        for number, pointer in enumerate(call.pointers, first):
            t.line(f"store ptr {pointer}, ptr {t.put(f'getelementptr ptr, ptr %args, i64 {number}')}")
    points = sum(call.points for call in calls)
    if not module.openmp or points < 2 or sum(call.nanoseconds for call in calls) < SERIAL_NANOSECONDS:
        for first, call in zip(firsts, calls, strict=False):
            args = t.put(f"getelementptr ptr, ptr %args, i64 {first}")
            t.line(f"call void @{call.symbol}(ptr {args}, i64 0, i64 {call.points})")
        return
    t.functions["GOMP_parallel"] = "declare void @GOMP_parallel(ptr, ptr, i32, i32)"
    t.functions["omp_get_thread_num"] = "declare i32 @omp_get_thread_num()"
    t.functions["omp_get_num_threads"] = "declare i32 @omp_get_num_threads()"
    t.functions["llvm.smin.i64"] = "declare i64 @llvm.smin.i64(i64, i64)"
    t.functions["llvm.smax.i64"] = "declare i64 @llvm.smax.i64(i64, i64)"
    t.functions["share"] = SHARE
    rows = module.symbol("rows")
    parts = zip(calls, firsts, shares([(call.points, call.nanoseconds) for call in calls]), strict=False)
    content = ", ".join(
        f"{ROW} {{ ptr @{call.symbol}, "
        + ", ".join(f"i64 {number}" for number in (first, share.points, share.start, share.cost, share.total))
        + " }"
        for call, first, share in parts
    )
    t.functions[rows] = f"@{rows} = private unnamed_addr constant [{len(calls)} x {ROW}] [{content}]"
    t.line(f"store ptr @{rows}, ptr %job")
    t.line(f"store i64 {len(calls)}, ptr {t.put('getelementptr i64, ptr %job, i64 1')}")
    t.line(f"store ptr %args, ptr {t.put('getelementptr i64, ptr %job, i64 2')}")
    limited = t.put(f"call i64 @llvm.smin.i64(i64 {entry(t, THREADS)}, i64 {points})")
    short = t.put(f"trunc i64 {limited} to i32")
    t.line(f"call void @GOMP_parallel(ptr @share, ptr %job, i32 {short}, i32 0)")


def stops_in(
    units: Sequence[Unit], size_of: Callable[[Any], int], slice_nanoseconds: int, together: Iterable[range] = ()
) -> tuple[Stop, ...]:
    """Where a driver of some units may pause: before each group of operations.

    Args:
      units: the units.
      size_of: gives the bytes of a memory.
      slice_nanoseconds: how long it should take at most between two pauses.
      together: which units run side by side: these are not told apart.
    """
    inside = {position for positions in together for position in positions[1:]}
    places = [position for position, unit in enumerate(units) if unit.begins is not None and position not in inside]
    ends = [*places[1:], len(units)][: len(places)]
    costs = [estimate(units[place:end], size_of) for place, end in zip(places, ends, strict=True)]
    is_short = sum(costs) <= slice_nanoseconds
    return tuple(Stop(place, 0 if is_short else cost) for place, cost in zip(places, costs, strict=True))


def _library(module: Module, t: Text, position: int, unit: Unit, pointers: Sequence[str]) -> None:
    """Point the memories of a library call at their places and execute it; the handles come from the table."""
    first = handle = FIRST_HANDLE + module.handles
    module.library.append((unit, first))
    t.functions |= DECLARATIONS
    stream = entry(t, handle, "ptr")
    handle += 1
    for pointer, size in unit.call.cleared:
        t.clear_bytes(pointers[pointer], size)
    for primitive in unit.call.primitives:
        function, table = entry(t, handle, "ptr"), entry(t, handle + 1, "ptr")
        handle += 2
        for _, pointer, layout in primitive.arguments:
            memory = entry(t, handle, "ptr")
            handle += 1
            data = pointers[pointer]
            if layout.offset:
                data = t.put(f"getelementptr i8, ptr {data}, i64 {layout.offset}")
            t.put(f"call i32 @dnnl_memory_set_data_handle(ptr {memory}, ptr {data})")
        count = len(primitive.arguments)
        given = f"ptr {function}, ptr {stream}, i32 {count}, ptr {table}"
        status = t.put(f"call i32 @dnnl_primitive_execute({given})")
        _fail_if(t, position, t.put(f"icmp ne i32 {status}, 0"))
    module.handles += handle - first


DECLARATIONS = {
    "dnnl_memory_set_data_handle": "declare i32 @dnnl_memory_set_data_handle(ptr, ptr)",
    "dnnl_primitive_execute": "declare i32 @dnnl_primitive_execute(ptr, ptr, i32, ptr)",
}


def _fail_if(t: Text, position: int, wrong: str) -> None:
    failed, right = t.label("failed"), t.label("right")
    t.line(f"br i1 {wrong}, label %{failed}, label %{right}")
    t.start(failed)
    t.line(f"ret i32 {position + 1}")
    t.start(right)


def _through_indices(t: Text, position: int, call: IndexCall, pointers: Sequence[str]) -> None:
    """Call a function that goes through indices; the unit fails if one is out of range."""
    t.functions |= call.functions()
    _fail_if(t, position, t.put(f"call i1 @{call.symbol}({call.arguments(pointers)})"))
