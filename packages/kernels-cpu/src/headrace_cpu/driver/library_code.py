"""The code of library calls: the memories of each primitive are pointed at their places, then it is executed.

A library has threads of its own, unless the call is one in parts: then threads of the driver share these. Handles come
from the table.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence

from headrace_cpu.driver.module import Module
from headrace_cpu.driver.table import FAILED, FIRST_HANDLE, entry, set_entry
from headrace_cpu.layout import Unit
from headrace_cpu.llvm.text import Text
from headrace_cpu.onednn.capi import Primitive

__all__ = ["fail_if", "write_failure", "write_library", "write_parts"]


def write_library(module: Module, t: Text, position: int, unit: Unit, pointers: Sequence[str]) -> None:
    """Write a call that has the library's own threads.

    Args:
      module: what the function belongs to.
      t: the function.
      position: of the unit.
      unit: what to do.
      pointers: registers of its memories.
    """
    (handle,) = _handles(module, unit, [unit.call.primitives])
    for pointer, size in unit.call.cleared:
        t.clear_bytes(pointers[pointer], size)
    _execute(t, handle, unit.call.primitives, pointers, lambda wrong: fail_if(t, position, wrong))


def write_parts(module: Module, unit: Unit, position: int) -> str:
    """Write a function of a table of pointers and some parts of a call; the pointer of the driver's table is the last.

    Args:
      module: what gets the function.
      unit: what to do.
      position: of the unit; one more goes to the entry FAILED of the table if a part fails.
    Returns:
      Its symbol.
    """
    symbol, t = module.symbol("parts"), module.text()
    module.functions[symbol] = ""  # the name is taken
    pointers = [t.argument(number) for number in range(unit.pointers)]
    t.line(f"%table = load ptr, ptr {t.put(f'getelementptr ptr, ptr %args, i64 {len(pointers)}')}")

    def failed(wrong: str) -> None:
        t.when(wrong, lambda: set_entry(t, FAILED, str(position + 1)))

    handles = _handles(module, unit, unit.call.parts)
    for number, (handle, primitives) in enumerate(zip(handles, unit.call.parts, strict=True)):
        wanted = t.two("and", t.put(f"icmp sle i64 %begin, {number}"), t.put(f"icmp sgt i64 %end, {number}"), "i1")
        t.when(wanted, functools.partial(_execute, t, handle, primitives, pointers, failed))
    head = f"define internal void @{symbol}(ptr %args, i64 %begin, i64 %end) {{"
    module.functions[symbol] = "\n".join([head, *t.lines, "  ret void", "}"])
    return symbol


def write_failure(t: Text) -> None:
    """Let the unit that the entry FAILED names fail, if there is one."""
    failed, right = t.label("failed"), t.label("right")
    status = entry(t, FAILED)
    t.line(f"br i1 {t.put(f'icmp ne i64 {status}, 0')}, label %{failed}, label %{right}")
    t.start(failed)
    set_entry(t, FAILED, "0")
    t.line(f"ret i32 {t.put(f'trunc i64 {status} to i32')}")
    t.start(right)


def fail_if(t: Text, position: int, wrong: str) -> None:
    """Let a unit fail where a condition holds."""
    failed, right = t.label("failed"), t.label("right")
    t.line(f"br i1 {wrong}, label %{failed}, label %{right}")
    t.start(failed)
    t.line(f"ret i32 {position + 1}")
    t.start(right)


def _handles(module: Module, unit: Unit, parts: Sequence[Sequence[Primitive]]) -> list[int]:
    """The first entry of the table for each part: a stream, then each primitive, its arguments and its memories."""
    first = FIRST_HANDLE + module.handles
    module.library.append((unit, first))
    sizes = [1 + sum(2 + len(primitive.arguments) for primitive in primitives) for primitives in parts]
    module.handles += sum(sizes)
    return list(itertools.accumulate(sizes[:-1], initial=first))


def _execute(
    t: Text,
    handle: int,
    primitives: Sequence[Primitive],
    pointers: Sequence[str],
    fail: Callable[[str], None],
) -> None:
    """Execute primitives in order; `fail` is given the register that says whether one could not be."""
    t.functions |= DECLARATIONS
    stream = entry(t, handle, "ptr")
    handle += 1
    for primitive in primitives:
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
        fail(t.put(f"icmp ne i32 {status}, 0"))


DECLARATIONS = {
    "dnnl_memory_set_data_handle": "declare i32 @dnnl_memory_set_data_handle(ptr, ptr)",
    "dnnl_primitive_execute": "declare i32 @dnnl_primitive_execute(ptr, ptr, i32, ptr)",
}
