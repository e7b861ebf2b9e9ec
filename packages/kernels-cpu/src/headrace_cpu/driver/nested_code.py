"""The code of loops and branches whose functions compile wholly to native code: one function each, and one per block.

A loop keeps its variables twice, in two halves of memory: an iteration reads one half and writes the other. What no
iteration changes is read where it lies. The memory of a loop or branch begins with LINE bytes of its own state, so that
it can go on after a pause; that of a loop goes on with its condition and the two halves, and the rest is for the block
that runs inside, again with LINE bytes of state before its values. Lists that iterations change are changed where they
lie; how they were at first is kept for the error of an iteration that fails.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.types import DType
from headrace_cpu.driver.block import block_of, place_of
from headrace_cpu.driver.estimates import estimate
from headrace_cpu.driver.module import Module
from headrace_cpu.driver.sharing import side_by_side
from headrace_cpu.driver.table import BUDGET, PAUSED, RESUMED, entry, set_entry
from headrace_cpu.driver.units import frame, pointer_to, write_units
from headrace_cpu.layout import Layout, Unit
from headrace_cpu.llvm.text import Text
from headrace_cpu.nesting import LINE, NativeBranch, NativeLoop
from headrace_cpu.scheduling.lists import RECORD

__all__ = ["write_nested"]

_PARAMETERS = "ptr %data, ptr %state, ptr %arena, ptr %constants, ptr %table"


def write_nested(module: Module, t: Text, unit: Unit, pointers: Sequence[str]) -> str:
    """Write the call of a loop or branch (see `module.WriteNested`).

    Args:
      module: gets the functions.
      t: the function that calls.
      unit: the loop or branch.
      pointers: of its inputs, of those of its outputs that are used, and of its own memory.
    """
    call: NativeLoop | NativeBranch = unit.call
    count = len(unit.inputs)
    places = dict(zip(unit.outputs, pointers[count:-1], strict=True))
    given = [*pointers[:count], *(places.get(key, "null") for key in call.outputs)]
    symbol = _loop(module, call) if isinstance(call, NativeLoop) else _branch(module, call)
    data = _table(t, given)
    own = pointers[-1]
    inside = t.put(f"getelementptr i8, ptr {own}, i64 {LINE}")
    return t.put(f"call i32 @{symbol}(ptr {data}, ptr {own}, ptr {inside}, ptr %constants, ptr %table)")


def _table(t: Text, pointers: Sequence[str]) -> str:
    """A table of pointers on the stack."""
    table = t.stack(len(pointers))
    for number, pointer in enumerate(pointers):
        _point(t, table, number, pointer)
    return table


def _point(t: Text, table: str, number: int, pointer: str) -> None:
    t.line(f"store ptr {pointer}, ptr {t.put(f'getelementptr ptr, ptr {table}, i64 {number}')}")


def _given(t: Text, number: int) -> str:
    """One of the pointers that the function is given."""
    return t.put(f"load ptr, ptr {t.put(f'getelementptr ptr, ptr %data, i64 {number}')}")


def _offset(t: Text, pointer: str, offset: int | str) -> str:
    return t.put(f"getelementptr i8, ptr {pointer}, i64 {offset}")


def _defined(module: Module, kind: str, t: Text, stack: Sequence[str] = ()) -> str:
    """Add a finished function to the module; gives its name."""
    symbol = module.symbol(kind)
    head = [f"define internal i32 @{symbol}({_PARAMETERS}) {{", *stack]
    module.functions[symbol] = "\n".join([*head, *t.allocas, *t.lines, "}"])
    return symbol


def _block(module: Module, layout: Layout, unwanted: frozenset[int]) -> str:
    """A function that runs a layout: its arguments and results are the pointers given, in that order.

    Results whose positions are `unwanted` are not written.
    """
    program = layout.schedule.program
    count = len(program.arguments)
    fresh = [key for key, _ in sorted(layout.fresh.items(), key=lambda item: item[1])]
    slots = [*program.arguments, *fresh]
    block = block_of(layout, layout.units, module.constant, slots)
    t = module.text()
    data = [_given(t, number) for number in range(count)]
    data += [_given(t, count + layout.fresh[key]) for key in fresh]
    together = side_by_side(block) if module.openmp else ()
    write_units(module, t, block, data, together=together)
    given = {key: number for number, key in enumerate(slots)}
    for position, number in enumerate(program.results):
        root = layout.schedule.root(number)
        if position not in unwanted and layout.fresh.get(root) != position:
            tensor = program.tensors[number]
            size = (tensor.shape.num_elements or 0) * tensor.dtype.size
            source = pointer_to(t, place_of(layout, root, module.constant, given), data)
            t.copy_bytes(_given(t, count + position), source, size)
    t.line("ret i32 0")
    return _defined(module, "block", t, frame(block.units, together))


def _truth(t: Text, pointer: str, dtype: DType) -> str:
    """Whether a scalar is not zero; NaN is not."""
    element = f"i{8 * dtype.size}"
    bits = t.put(f"load {element}, ptr {pointer}")
    if dtype.is_floating:  # all but the sign
        bits = t.put(f"shl {element} {bits}, 1")
    return t.put(f"icmp ne {element} {bits}, 0")


def _loop(module: Module, loop: NativeLoop) -> str:
    """The function of a loop."""
    writer = _LoopWriter(module, loop)
    writer.write()
    return _defined(module, "loop", writer.t)


class _LoopWriter:
    """Writes the function of a loop. Mutable.

    Its `%state` says in which half the variables are, and whether an iteration has begun.

    Attributes:
      loop: what it does.
      t: the function.
      inputs: pointers of what it is given.
      halves: the pointer of the first half.
      has_begun: where it is said whether an iteration has.
      table: what the body is given: variables, where it writes them next, and the condition, which lies at `%arena`.
    """

    def __init__(self, module: Module, loop: NativeLoop) -> None:
        self.loop = loop
        self._condition = _block(module, loop.condition, frozenset())
        self._body = _block(module, loop.body, loop.kept)
        self._count = len(loop.sizes)
        self.t = t = module.text()
        self.inputs = [_given(t, number) for number in range(self._count)]
        self.halves = _offset(t, "%arena", LINE)
        self._saved = LINE + 2 * loop.half
        inner = _offset(t, "%arena", self._saved + loop.saved)
        self._inside = f"ptr {inner}, ptr {_offset(t, inner, LINE)}, ptr %constants, ptr %table"
        self.has_begun = t.put("getelementptr i64, ptr %state, i64 1")
        self.table = t.stack(2 * self._count + 1)
        for number in sorted(loop.kept):
            _point(t, self.table, number, self.inputs[number])
        _point(t, self.table, 2 * self._count, "%arena")

    def write(self) -> None:
        """Write all of it: how it begins or goes on, whether there is one more iteration, that, and the end."""
        resumed = self.t.put(f"icmp ne i64 {entry(self.t, RESUMED)}, 0")
        self.t.line(f"br i1 {resumed}, label %resumed, label %fresh")
        self._begin()
        half = self._go_on()
        self._test()
        self._iterate(half)
        self._end()

    def _begin(self) -> None:
        """Copy variables to the first half and compute the condition."""
        t, loop = self.t, self.loop
        t.start("fresh")
        for place, number in enumerate(sorted(loop.changed)):
            t.copy_bytes(_offset(t, "%arena", self._saved + RECORD * place), self.inputs[number], RECORD)
        begin = t.stack(self._count + 1)
        for number, pointer in enumerate(self.inputs):
            start = pointer
            if number not in loop.kept:
                start = _offset(t, self.halves, loop.offsets[number])
                t.copy_bytes(start, pointer, loop.sizes[number])
            _point(t, begin, number, start)
        _point(t, begin, self._count, "%arena")
        status = t.put(f"call i32 @{self._condition}(ptr {begin}, {self._inside})")
        t.line(f"br i1 {t.put(f'icmp eq i32 {status}, 0')}, label %head, label %failed")
        t.start("failed")
        t.line(f"ret i32 {status}")

    def _go_on(self) -> str:
        """Find the half where variables are; an iteration that has begun clears RESUMED itself."""
        t = self.t
        t.start("resumed")
        half = t.put("load i64, ptr %state")
        begun = t.put(f"load i64, ptr {self.has_begun}")
        t.line(f"br i1 {t.put(f'icmp ne i64 {begun}, 0')}, label %iteration, label %between")
        t.start("between")
        set_entry(t, RESUMED, "0")
        t.line("br label %iteration")
        return half

    def _test(self) -> None:
        """Look at the condition, and pause before an iteration if as much is done as Python asked for."""
        t = self.t
        t.start("head")
        t.line("%now = phi i64 [ 0, %fresh ], [ %next, %over ]")
        t.line(f"br i1 {_truth(t, '%arena', self.loop.condition_dtype)}, label %more, label %end")
        t.start("more")
        left = t.put(f"sub i64 {entry(t, BUDGET)}, {_cost(self.loop.body)}")
        set_entry(t, BUDGET, left)
        t.line(f"br i1 {t.put(f'icmp slt i64 {left}, 0')}, label %pause, label %iteration")
        t.start("pause")
        t.line("store i64 %now, ptr %state")
        t.line(f"store i64 0, ptr {self.has_begun}")
        t.line(f"ret i32 {PAUSED}")

    def _iterate(self, resumed_half: str) -> None:
        """Run the body from one half to the other."""
        t, loop = self.t, self.loop
        t.start("iteration")
        t.line(f"%from = phi i64 [ %now, %more ], [ {resumed_half}, %resumed ], [ {resumed_half}, %between ]")
        t.line(f"%next = sub i64 {loop.half}, %from")
        old, new = _offset(t, self.halves, "%from"), _offset(t, self.halves, "%next")
        for number in range(self._count):
            if number not in loop.kept:
                _point(t, self.table, number, _offset(t, old, loop.offsets[number]))
                _point(t, self.table, self._count + number, _offset(t, new, loop.offsets[number]))
        status = t.put(f"call i32 @{self._body}(ptr {self.table}, {self._inside})")
        t.line(f"br i1 {t.put(f'icmp eq i32 {status}, 0')}, label %over, label %stopped")
        t.start("over")
        t.line("br label %head")
        t.start("stopped")
        t.line("store i64 %from, ptr %state")
        t.line(f"store i64 1, ptr {self.has_begun}")
        t.line(f"ret i32 {status}")

    def _end(self) -> None:
        """Copy variables to the outputs that are wanted."""
        t, loop = self.t, self.loop
        t.start("end")
        last = _offset(t, self.halves, "%now")
        for number in range(self._count):
            source = self.inputs[number] if number in loop.kept else _offset(t, last, loop.offsets[number])
            _copy_if_wanted(t, _given(t, self._count + number), source, loop.sizes[number])
        t.line("ret i32 0")


def _copy_if_wanted(t: Text, target: str, source: str, size: int) -> None:
    t.when(t.put(f"icmp ne ptr {target}, null"), lambda: t.copy_bytes(target, source, size))


def _cost(layout: Layout) -> int:
    """Nanoseconds that a block may take, without the loops in it."""
    sizes = layout.schedule.sizes
    branches = [unit.call.layouts for unit in layout.units if isinstance(unit.call, NativeBranch)]
    return estimate(layout.units, lambda key: sizes.get(key, 0)) + sum(max(map(_cost, found)) for found in branches)


def _branch(module: Module, branch: NativeBranch) -> str:
    """The function of a branch: which one is taken is read again after a pause, since nobody writes it."""
    t = module.text()
    blocks = [_block(module, layout, frozenset()) for layout in branch.layouts]
    chooser = _given(t, 0)
    rest = _offset(t, "%data", 8)
    if branch.is_case:
        element = f"i{8 * branch.chooser.size}"
        index = t.put(f"load {element}, ptr {chooser}")
        cases = " ".join(f"{element} {number}, label %take{number}" for number in range(len(blocks) - 1))
        t.line(f"switch {element} {index}, label %take{len(blocks) - 1} [ {cases} ]")
    else:
        t.line(f"br i1 {_truth(t, chooser, branch.chooser)}, label %take0, label %take1")
    for number, block in enumerate(blocks):
        t.start(f"take{number}")
        values = _offset(t, "%arena", LINE)
        status = t.put(f"call i32 @{block}(ptr {rest}, ptr %arena, ptr {values}, ptr %constants, ptr %table)")
        t.line(f"ret i32 {status}")
    return _defined(module, "branch", t)
