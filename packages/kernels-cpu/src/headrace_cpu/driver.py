"""The native driver of a run: one function that calls regions, library primitives and checks, in order.

`i32 run(ptr list, ptr arena, ptr constants, ptr table)`: `list` is a Python list of NumPy arrays, whose data pointers
the code reads from the objects, since asking Python for them costs a microsecond each. It checks that each is an array
without gaps, and gives -1 if not, before anything is done. Otherwise it gives 0, or one more than the position of the
unit that failed. `table` holds numbers of this process and context: the type object of arrays, the number of threads,
and the handles of library primitives. So the code holds no address, and may come from a cache on disk.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.loops.ir import Region
from headrace.types import DType
from headrace_cpu.gathering import Gather
from headrace_cpu.layout import Unit
from headrace_cpu.printer import print_region
from headrace_cpu.scheduling import Key

__all__ = ["ARRAY_TYPE", "FIRST_HANDLE", "LIBRARY_THREADS", "THREADS", "DriverText", "Place", "write_driver"]

ARRAY_TYPE, THREADS, LIBRARY_THREADS, FIRST_HANDLE = 0, 1, 2, 3
"""Positions in the table."""
SERIAL_NANOSECONDS = 15_000
"""Work below which waking other threads costs more than it saves."""
COSTLY = frozenset({"exp", "log", "log1p", "expm1", "tanh", "sigmoid", "erf", "div", "sqrt", "rsqrt"})

Place = tuple[str, int]
"""("slot", position in the list), ("arena", byte) or ("constant", byte)."""


@dataclass(slots=True)
class DriverText:
    """A driver.

    Attributes:
      text: the module.
      symbol: its function.
      handles: how many entries of the table libraries need.
      library: for each library unit (its position, its first entry in the table).
    """

    text: str
    symbol: str
    handles: int
    library: list[tuple[int, int]]


@dataclass(slots=True)
class _Writer:
    lanes: int
    threads: bool
    lines: list[str] = field(default_factory=list)
    functions: dict[str, str] = field(default_factory=dict)
    regions: dict[str, str] = field(default_factory=dict)  # body -> symbol
    count: int = 0

    def put(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %d{self.count} = {text}")
        return f"%d{self.count}"


def write_driver(
    units: Sequence[Unit],
    places: Mapping[Key, Place],
    slots: int,
    scratch: Sequence[Sequence[Place]],
    integers: Mapping[Key, tuple[DType, int]],
    lanes: int,
    *,
    openmp: bool,
) -> DriverText:
    """Write the driver of a run.

    Args:
      units: what to do.
      places: where each memory is.
      slots: length of the list.
      scratch: for each unit the memory that a library works in.
      integers: dtype and number of elements of each memory that is checked.
      lanes: float32 elements of a vector.
      openmp: whether libgomp's pool is there.
    """
    w = _Writer(lanes, openmp)
    items = w.put("getelementptr i8, ptr %list, i64 24")
    items = w.put(f"load ptr, ptr {items}")
    data = _slots(w, items, slots)
    library: list[tuple[int, int]] = []
    handle = FIRST_HANDLE
    if openmp and any(unit.call is not None and not isinstance(unit.call, Gather) for unit in units):
        _bound_library(w)
    for position, unit in enumerate(units):
        pointers = [_pointer(w, places[key], data) for key in unit.keys]
        if unit.region is not None:
            _region(w, unit.region, pointers)
        elif isinstance(unit.call, Gather):
            _gather(w, position, unit.call, pointers)
        elif unit.bound:
            _check(w, position, pointers[0], *integers[unit.keys[0]], unit.bound)
        else:
            pointers += [_pointer(w, place, data) for place in scratch[position]]
            handle = _library(w, position, unit, pointers, handle, library)
    body = "\n".join(w.lines)
    largest = max((len(unit.keys) for unit in units if unit.region is not None), default=1)
    text = "\n".join(
        [
            *w.functions.values(),
            *[body_text.replace("SYMBOL", symbol) for body_text, symbol in w.regions.items()],
            "define i32 @DRIVER(ptr %list, ptr %arena, ptr %constants, ptr %table) {",
            f"  %args = alloca [{largest + 1} x ptr], align 64",
            "  %job = alloca [2 x i64], align 16",
            body,
            "  ret i32 0",
            "bad:",
            "  ret i32 -1",
            "}",
            "",
        ]
    )
    symbol = f"headrace_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    return DriverText(text.replace("DRIVER", symbol), symbol, handle - FIRST_HANDLE, library)


def _bound_library(w: _Writer) -> None:
    """oneDNN uses the number of threads that the calling thread asks OpenMP for."""
    w.functions["omp_set_num_threads"] = "declare void @omp_set_num_threads(i32)"
    threads = w.put(f"load i64, ptr {w.put(f'getelementptr i64, ptr %table, i64 {LIBRARY_THREADS}')}")
    short = w.put(f"trunc i64 {threads} to i32")
    w.lines.append(f"  call void @omp_set_num_threads(i32 {short})")


def _slots(w: _Writer, items: str, slots: int) -> list[str]:
    """Load the data pointers after a check of the objects: type at 8, data at 16, flags at 64 (NumPy's structure)."""
    data: list[str] = []
    if not slots:
        return data
    wanted = w.put("load i64, ptr %table")
    for slot in range(slots):
        item = w.put(f"load ptr, ptr {w.put(f'getelementptr ptr, ptr {items}, i64 {slot}')}")
        kind = w.put(f"load i64, ptr {w.put(f'getelementptr i8, ptr {item}, i64 8')}")
        same = w.put(f"icmp eq i64 {kind}, {wanted}")
        w.lines.append(f"  br i1 {same}, label %array{slot}, label %bad")
        w.lines.append(f"array{slot}:")
        flags = w.put(f"load i32, ptr {w.put(f'getelementptr i8, ptr {item}, i64 64')}")
        usable = w.put(f"icmp eq i32 {w.put(f'and i32 {flags}, 257')}, 257")
        w.lines.append(f"  br i1 {usable}, label %usable{slot}, label %bad")
        w.lines.append(f"usable{slot}:")
        data.append(w.put(f"load ptr, ptr {w.put(f'getelementptr i8, ptr {item}, i64 16')}"))
    return data


def _pointer(w: _Writer, place: Place, data: Sequence[str]) -> str:
    kind, number = place
    if kind == "slot":
        return data[number]
    return w.put(f"getelementptr i8, ptr %{'arena' if kind == 'arena' else 'constants'}, i64 {number}")


def _region(w: _Writer, region: Region, pointers: Sequence[str]) -> None:
    printed = print_region(region, w.lanes)
    w.functions |= printed.functions
    symbol = w.regions.setdefault(printed.body, f"region{len(w.regions)}")
    for number, pointer in enumerate(pointers):
        slot = w.put(f"getelementptr ptr, ptr %args, i64 {number}")
        w.lines.append(f"  store ptr {pointer}, ptr {slot}")
    points = math.prod(region.outer)
    if not w.threads or points < 2 or nanoseconds(region) < SERIAL_NANOSECONDS:
        w.lines.append(f"  call void @{symbol}(ptr %args, i64 0, i64 {points})")
        return
    w.functions["GOMP_parallel"] = "declare void @GOMP_parallel(ptr, ptr, i32, i32)"
    w.functions["omp_get_thread_num"] = "declare i32 @omp_get_thread_num()"
    w.functions["omp_get_num_threads"] = "declare i32 @omp_get_num_threads()"
    w.functions[f"{symbol}.share"] = _share(symbol)
    w.lines.append(f"  store i64 {points}, ptr %job")
    second = w.put("getelementptr i64, ptr %job, i64 1")
    w.lines.append(f"  store ptr %args, ptr {second}")
    threads = w.put(f"load i64, ptr {w.put(f'getelementptr i64, ptr %table, i64 {THREADS}')}")
    limited = w.put(f"call i64 @llvm.smin.i64(i64 {threads}, i64 {points})")
    w.functions["llvm.smin.i64"] = "declare i64 @llvm.smin.i64(i64, i64)"
    short = w.put(f"trunc i64 {limited} to i32")
    w.lines.append(f"  call void @GOMP_parallel(ptr @{symbol}.share, ptr %job, i32 {short}, i32 0)")


def _share(symbol: str) -> str:
    """What each thread of the pool runs: its part of the outer points."""
    return f"""define internal void @{symbol}.share(ptr %job) {{
  %points = load i64, ptr %job
  %second = getelementptr i64, ptr %job, i64 1
  %args = load ptr, ptr %second
  %t = call i32 @omp_get_thread_num()
  %c = call i32 @omp_get_num_threads()
  %thread = zext i32 %t to i64
  %count = zext i32 %c to i64
  %a = mul i64 %points, %thread
  %begin = udiv i64 %a, %count
  %next = add i64 %thread, 1
  %b = mul i64 %points, %next
  %end = udiv i64 %b, %count
  call void @{symbol}(ptr %args, i64 %begin, i64 %end)
  ret void
}}"""


def nanoseconds(region: Region) -> float:
    """A rough estimate of what a region takes on one thread, by the instructions of one vector and its bytes."""
    total = 0.0
    points = math.prod(region.outer)
    for loop in region.loops:
        seen: set[int] = set()
        stack = [item.value for item in loop.accumulates] + [store.value for store in (*loop.stores, *loop.after)]
        cost = 0.0
        while stack:
            expr = stack.pop()
            if id(expr) not in seen:
                seen.add(id(expr))
                stack.extend(expr.args)
                cost += 1.0 if expr.op in COSTLY else 0.15 if expr.op == "load" else 0.03
        total += points * math.prod(axis.extent for axis in loop.axes) * (cost + 0.15 * len(loop.stores))
    return total


def _library(
    w: _Writer,
    position: int,
    unit: Unit,
    pointers: Sequence[str],
    handle: int,
    library: list[tuple[int, int]],
) -> int:
    """Point the memories of a library call at their places and execute it; the handles come from the table."""
    library.append((position, handle))
    w.functions |= DECLARATIONS
    stream = _entry(w, handle)
    used = 1
    for primitive in unit.call.primitives:
        function, table = _entry(w, handle + used), _entry(w, handle + used + 1)
        used += 2
        for _, pointer, _ in primitive.arguments:
            memory = _entry(w, handle + used)
            used += 1
            w.put(f"call i32 @dnnl_memory_set_data_handle(ptr {memory}, ptr {pointers[pointer]})")
        count = len(primitive.arguments)
        status = w.put(f"call i32 @dnnl_primitive_execute(ptr {function}, ptr {stream}, i32 {count}, ptr {table})")
        fine = w.put(f"icmp eq i32 {status}, 0")
        label = f"{position}_{used}"
        w.lines += [f"  br i1 {fine}, label %fine{label}, label %failed{label}", f"failed{label}:"]
        w.lines += [f"  ret i32 {position + 1}", f"fine{label}:"]
    return handle + used


def _gather(w: _Writer, position: int, call: Gather, pointers: Sequence[str]) -> None:
    w.functions[call.symbol] = call.text()
    w.functions["llvm.memcpy.p0.p0.i64"] = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
    sizes = f"i64 {call.count}, i64 {call.rows}, i64 {call.row_bytes}"
    given = f"ptr {pointers[0]}, ptr {pointers[1]}, ptr {pointers[-1]}"
    wrong = w.put(f"call i1 @{call.symbol}({given}, {sizes})")
    _fail_if(w, position, wrong)


def _fail_if(w: _Writer, position: int, wrong: str) -> None:
    w.lines += [f"  br i1 {wrong}, label %wrong{position}, label %right{position}", f"wrong{position}:"]
    w.lines += [f"  ret i32 {position + 1}", f"right{position}:"]


def _check(w: _Writer, position: int, pointer: str, dtype: DType, count: int, bound: int) -> None:
    """Fail if an integer is outside `[0, bound)`: as an unsigned number, a negative one is larger than any bound."""
    element = f"i{8 * dtype.size}"
    symbol = f"outside.{element}"
    w.functions[symbol] = f"""define internal i1 @{symbol}(ptr %data, i64 %count, i64 %bound) {{
  br label %head
head:
  %i = phi i64 [ 0, %0 ], [ %next, %body ]
  %seen = phi i1 [ false, %0 ], [ %any, %body ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %end
body:
  %place = getelementptr {element}, ptr %data, i64 %i
  %narrow = load {element}, ptr %place
  %value = {"add i64 %narrow, 0" if element == "i64" else f"sext {element} %narrow to i64"}
  %wrong = icmp uge i64 %value, %bound
  %any = or i1 %seen, %wrong
  %next = add i64 %i, 1
  br label %head
end:
  ret i1 %seen
}}"""
    wrong = w.put(f"call i1 @{symbol}(ptr {pointer}, i64 {count}, i64 {bound})")
    _fail_if(w, position, wrong)


DECLARATIONS = {
    "dnnl_memory_set_data_handle": "declare i32 @dnnl_memory_set_data_handle(ptr, ptr)",
    "dnnl_primitive_execute": "declare i32 @dnnl_primitive_execute(ptr, ptr, i32, ptr)",
}


def _entry(w: _Writer, position: int) -> str:
    return w.put(f"load ptr, ptr {w.put(f'getelementptr i64, ptr %table, i64 {position}')}")
