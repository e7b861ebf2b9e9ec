"""The native driver of a run: one function that calls regions, library primitives and checks, in order.

`i32 run(ptr list, ptr arena, ptr constants, ptr table)`: `list` is a Python list of NumPy arrays, whose data pointers
the code reads from the objects, since asking Python for them costs a microsecond each. It checks that each is an array
without gaps, and gives -1 if not, before anything is done. Otherwise it answers as `units` says. `table` holds numbers
of this process and context: the type object of arrays, the number of threads, how far a step is and may go, and the
handles of library primitives. So the code holds no address, and may come from a cache on disk.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace_cpu.driver.block import Block, ConstantPlace
from headrace_cpu.driver.module import Module
from headrace_cpu.driver.nested_code import write_nested
from headrace_cpu.driver.pausing import Stop
from headrace_cpu.driver.table import ACTIVE, ARRAY_TYPE, DONE, LIBRARY_THREADS, entry, set_entry
from headrace_cpu.driver.units import frame, may_pause, write_units
from headrace_cpu.layout import Unit
from headrace_cpu.llvm.signals import HELD_BYTES, holding_signals
from headrace_cpu.llvm.text import Text

__all__ = ["WrittenDriver", "module_text", "new_module", "write_driver"]

PREFIX = "DRIVER"
"""How the names of drivers begin while their module is written."""
GIVEN = "ptr %list, ptr %arena, ptr %constants, ptr %table"
"""What a driver is given."""


@dataclass(frozen=True, slots=True)
class WrittenDriver:
    """A driver.

    Attributes:
      symbol: its function, whose name begins with PREFIX.
      handles: how many entries of the table libraries need.
      library: for each library unit its first entry in the table.
      is_sliced: it may take long, or make lists longer: it asks to be called again.
    """

    symbol: str
    handles: int
    library: list[tuple[Unit, int]]
    is_sliced: bool


def new_module(constant: ConstantPlace, new_store: Callable[[], int], lanes: int, *, openmp: bool) -> Module:
    """A module for the drivers of a plan: what several of them call is compiled once.

    Args:
      constant: gives constants a place.
      new_store: gives the number of a store for a list.
      lanes: float32 elements of a vector.
      openmp: whether libgomp's pool is there.
    """
    return Module(lanes, openmp, constant, new_store, write_nested)


def write_driver(module: Module, block: Block, stops: Sequence[Stop], together: Sequence[range]) -> WrittenDriver:
    """Write the driver of a run.

    Args:
      module: where to.
      block: what to do.
      stops: where it may pause between units.
      together: which units run side by side.
    """
    module.handles, module.library = 0, []
    t = module.text()
    data = _slots(t, len(block.slots))
    t.line(f"%state = getelementptr i64, ptr %table, i64 {ACTIVE}")
    body = module.text()
    body.count = t.count
    write_units(module, body, block, data, stops, together)
    set_entry(body, DONE, "1")
    if module.openmp and module.library:
        _bound_library(t)
    symbol = module.symbol(f"{PREFIX}_")
    lines = [*frame(block.units, together), *body.allocas, *t.lines, *body.lines, "  ret i32 0", "bad:", "  ret i32 -1"]
    if module.library or "GOMP_parallel" in module.functions:  # the pool may be what a driver before this one uses
        inner = f"{symbol}.inner"
        module.functions |= holding_signals()
        module.functions[inner] = _function(f"internal i32 @{inner}", lines)
        lines = _held(inner)
    module.functions[symbol] = _function(f"i32 @{symbol}", lines)
    is_sliced = any(map(may_pause, block.units)) or any(stop.nanoseconds for stop in stops)
    return WrittenDriver(symbol, module.handles, module.library, is_sliced)


def _held(inner: str) -> list[str]:
    """Call a driver while signals wait (see `signals`)."""
    return [
        f"  %before = alloca [{HELD_BYTES} x i8], align 8",
        "  call void @hold_signals(ptr %before)",
        f"  %status = call i32 @{inner}({GIVEN})",
        "  call void @release_signals(ptr %before)",
        "  ret i32 %status",
    ]


def _function(name: str, lines: Sequence[str]) -> str:
    """The text of a driver."""
    return "\n".join([f"define {name}({GIVEN}) {{", *lines, "}"])


def module_text(module: Module, drivers: Sequence[WrittenDriver]) -> tuple[str, list[str]]:
    """The text of a module, and the names that its drivers have there: two texts share none."""
    text = "\n".join([*module.functions.values(), ""])
    prefix = f"headrace_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    return text.replace(PREFIX, prefix), [driver.symbol.replace(PREFIX, prefix) for driver in drivers]


def _bound_library(t: Text) -> None:
    """oneDNN uses the number of threads that the calling thread asks OpenMP for."""
    t.functions["omp_set_num_threads"] = "declare void @omp_set_num_threads(i32)"
    t.line(f"%threads.place = getelementptr i64, ptr %table, i64 {LIBRARY_THREADS}")
    t.line("%threads.wide = load i64, ptr %threads.place")
    t.line("%threads = trunc i64 %threads.wide to i32")
    t.line("call void @omp_set_num_threads(i32 %threads)")


def _slots(t: Text, slots: int) -> list[str]:
    """Load the data pointers after a check of the objects: type at 8, data at 16, flags at 64 (NumPy's structure)."""
    data: list[str] = []
    if not slots:
        return data
    items = t.put(f"load ptr, ptr {t.put('getelementptr i8, ptr %list, i64 24')}")
    wanted = entry(t, ARRAY_TYPE)
    for slot in range(slots):
        item = t.put(f"load ptr, ptr {t.put(f'getelementptr ptr, ptr {items}, i64 {slot}')}")
        kind = t.put(f"load i64, ptr {t.put(f'getelementptr i8, ptr {item}, i64 8')}")
        t.line(f"br i1 {t.put(f'icmp eq i64 {kind}, {wanted}')}, label %array{slot}, label %bad")
        t.start(f"array{slot}")
        flags = t.put(f"load i32, ptr {t.put(f'getelementptr i8, ptr {item}, i64 64')}")
        usable = t.put(f"icmp eq i32 {t.put(f'and i32 {flags}, 257')}, 257")
        t.line(f"br i1 {usable}, label %usable{slot}, label %bad")
        t.start(f"usable{slot}")
        data.append(t.put(f"load ptr, ptr {t.put(f'getelementptr i8, ptr {item}, i64 16')}"))
    return data
