"""Points: what is written for one vector of points of a loop: expressions, and where they are read and written.

The loops say where they are: the registers of indices, and a mask where a vector is not whole. Every expression is
computed once for a vector; its registers are known by what they hold until the loop forgets them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.loops.ir import Access, Buffer, Expr, Store, in_order
from headrace.types import bool as boolean
from headrace_cpu.llvm.text import Text, compute_type, storage_type
from headrace_cpu.loops.philox import write_blocks, write_words
from headrace_cpu.loops.scalars import cast, computed, constant
from headrace_cpu.loops.streaming import AHEAD, LINE

__all__ = ["Point", "Row"]


@dataclass(slots=True)
class Row:
    """Where the loops of one outer point are. Mutable.

    Attributes:
      index: for each axis the register of its index.
      pointers: the register of each buffer.
      locals: for each local its scalar register.
      ahead: for each load or store that asks for what comes next how many elements that is away.
      apart: buffers whose pointer need not lie in their memory, as long as what is read and written does.
    """

    index: dict[int, str]
    pointers: Sequence[str]
    locals: dict[int, str] = field(default_factory=dict)
    ahead: Mapping[tuple[int, Access], int] = field(default_factory=dict)
    apart: frozenset[int] = frozenset()


@dataclass(slots=True)
class Point:
    """Mutable.

    Attributes:
      text: what is written to.
      buffers: of the region.
      row: the outer point it belongs to.
      vector_axis: the axis that lanes go along.
      mask: the register that says which lanes there are, if not all.
      columns: for each local of the columns at hand its vector register.
      past: buffers that are written past the caches.
      done: for each expression that is computed its register.
    """

    text: Text
    buffers: Sequence[Buffer]
    row: Row
    vector_axis: int | None = None
    mask: str | None = None
    columns: dict[int, str] = field(default_factory=dict)
    past: frozenset[int] = frozenset()
    done: dict[int, str] = field(default_factory=dict)

    def value(self, root: Expr) -> str:
        """The register of an expression, after instructions that compute what it needs."""
        stack = [root]
        while stack:
            expr = stack[-1]
            if id(expr) in self.done:
                stack.pop()
                continue
            missing = [arg for arg in expr.args if id(arg) not in self.done]
            if missing:
                stack.extend(reversed(missing))
                continue
            stack.pop()
            self.done[id(expr)] = self._computed(expr, [self.done[id(arg)] for arg in expr.args])
        return self.done[id(root)]

    def _computed(self, expr: Expr, args: list[str]) -> str:
        t, op, dtype = self.text, expr.op, expr.dtype
        if op == "const":
            return constant(t, expr.payload, dtype)
        if op == "index":
            number: int = expr.payload
            value = t.splat(self.row.index[number], "i64")
            return t.two("add", value, self.lane_numbers(), "i64") if number == self.vector_axis else value
        if op == "position":
            return self._position(expr.payload)
        if op == "philox":
            return self._random_words(expr, args)
        if op == "local":
            local: int = expr.payload
            return (
                self.columns[local] if local in self.columns else t.splat(self.row.locals[local], compute_type(dtype))
            )
        if op == "load":
            return self.load(*expr.payload)
        if op == "select":
            return t.select(args[0], args[1], args[2], compute_type(dtype))
        if op == "cast":
            return cast(t, args[0], expr.args[0].dtype, dtype)
        return computed(t, op, args, expr.args[0].dtype, dtype)

    def _step(self, access: Access) -> int:
        """How many elements it is from lane to lane."""
        return 0 if self.vector_axis is None else access.coefficient(self.vector_axis)

    def _position(self, access: Access) -> str:
        t, step = self.text, self._step(access)
        first = t.splat(self._offset(access), "i64")
        if t.lanes == 1 or not step:
            return first
        return t.two("add", first, "<" + ", ".join(f"i64 {lane * step}" for lane in range(t.lanes)) + ">", "i64")

    def _random_words(self, expr: Expr, args: list[str]) -> str:
        """Whole blocks where the numbers of a vector begin with a block, and the same stream is for all of them."""
        t = self.text
        number = expr.args[3]
        if t.lanes % 4 == 0 and number.op == "position" and all(map(self._is_even, expr.args[:3])):
            access: Access = number.payload
            others = [factor for axis, factor in access.terms if axis != self.vector_axis]
            if self._step(access) == 1 and not any(part % 4 for part in (access.constant, *others)):
                symbol, body = write_blocks(t.lanes)
                state = [t.put(f"extractelement {t.type('i64')} {arg}, i64 0") for arg in args[:3]]
                block = t.put(f"lshr i64 {self._offset(access)}, 2")
                t.functions[symbol] = body
                given = ", ".join(f"i64 {item}" for item in (*state, block))
                return t.put(f"call {t.type('i32')} @{symbol}({given})")
        symbol, body = write_words(t.lanes)
        t.functions[symbol] = body
        given = ", ".join(f"{t.type('i64')} {arg}" for arg in args)
        return t.put(f"call {t.type('i32')} @{symbol}({given})")

    def _is_even(self, root: Expr) -> bool:
        """True if an expression has the same value in every lane."""
        return not any(map(self._differs, in_order([root])))

    def _differs(self, expr: Expr) -> bool:
        """True if what it takes from outside of the expression differs from lane to lane."""
        if expr.op == "load":
            return self._step(expr.payload[1]) != 0
        if expr.op == "position":
            return self._step(expr.payload) != 0
        if expr.op == "index":
            return bool(expr.payload == self.vector_axis)
        return expr.op == "local" and expr.payload in self.columns

    def lane_numbers(self) -> str:
        """0, 1, 2 and so on."""
        if self.text.lanes == 1:
            return "0"
        return "<" + ", ".join(f"i64 {lane}" for lane in range(self.text.lanes)) + ">"

    def _address(self, buffer: int, access: Access) -> str:
        """The place of lane 0."""
        element = storage_type(self.buffers[buffer].dtype)
        within = "" if buffer in self.row.apart else "inbounds "
        return self.text.put(
            f"getelementptr {within}{element}, ptr {self.row.pointers[buffer]}, i64 {self._offset(access)}"
        )

    def _offset(self, access: Access) -> str:
        """How many elements lane 0 is from the start."""
        t = self.text
        offset = str(access.constant)
        for axis, factor in access.terms:
            moved = self.row.index[axis] if factor == 1 else t.put(f"mul i64 {self.row.index[axis]}, {factor}")
            offset = moved if offset == "0" else t.put(f"add i64 {offset}, {moved}")
        return offset

    def _lane_addresses(self, address: str, element: str, step: int) -> str:
        t = self.text
        moves = "<" + ", ".join(f"i64 {lane * step}" for lane in range(t.lanes)) + ">"
        return t.put(f"getelementptr {element}, ptr {address}, <{t.lanes} x i64> {moves}")

    def load(self, buffer: int, access: Access) -> str:
        """The register of what lies in a buffer."""
        t = self.text
        dtype = self.buffers[buffer].dtype
        element, align = storage_type(dtype), max(dtype.size, 1)
        address = self._address(buffer, access)
        step = self._step(access)
        if (buffer, access) in self.row.ahead and step == 1:
            self._ask_for(address, self.row.ahead[buffer, access], dtype.size, is_written=False)
        if t.lanes == 1 or step == 0:
            lanes, t.lanes = t.lanes, 1
            scalar = t.put(f"load {element}, ptr {address}, align {align}")
            t.lanes = lanes
            value = t.splat(scalar, element)
        elif step != 1:
            value = self._gathered(element, align, self._lane_addresses(address, element, step))
        elif self.mask is None:
            value = t.put(f"load {t.type(element)}, ptr {address}, align {align}")
        else:
            value = t.masked_load(element, align, address, self.mask)
        if dtype is boolean:
            value = t.put(f"icmp ne {t.type('i8')} {value}, {t.number(0, 'i8')}")
        return value

    def _ask_for(self, address: str, away: int, size: int, *, is_written: bool) -> None:
        """Let a cache have what lies so many elements from a vector: the first one what is near, else the second."""
        level = 3 if away * size <= AHEAD else 2
        for start in range(away * size, (away + self.text.lanes) * size, LINE):
            place = self.text.put(f"getelementptr i8, ptr {address}, i64 {start}")
            self.text.prefetch(place, level, is_written=is_written)

    def _gathered(self, element: str, align: int, addresses: str) -> str:
        t, whole = self.text, self.text.type(element)
        pointer, mask = f"<{t.lanes} x ptr>", self.mask or t.number(1, "i1")
        name = f"llvm.masked.gather.{t.suffix(element)}.v{t.lanes}p0"
        t.functions[name] = f"declare {whole} @{name}({pointer}, i32 immarg, {t.type('i1')}, {whole})"
        zero = t.number(0, element)
        return t.put(f"call {whole} @{name}({pointer} {addresses}, i32 {align}, {t.type('i1')} {mask}, {whole} {zero})")

    def store(self, store: Store) -> None:
        """Write an expression where it belongs."""
        t = self.text
        dtype = self.buffers[store.buffer].dtype
        value = self.value(store.value)
        element, align = storage_type(dtype), max(dtype.size, 1)
        if dtype is boolean:
            value = t.put(f"zext {t.type('i1')} {value} to {t.type('i8')}")
        address = self._address(store.buffer, store.access)
        step = self._step(store.access)
        if (store.buffer, store.access) in self.row.ahead and step == 1:
            self._ask_for(address, self.row.ahead[store.buffer, store.access], dtype.size, is_written=True)
        if t.lanes == 1 or (step == 1 and self.mask is None):
            if store.buffer in self.past and t.lanes > 1:
                hint = f"align {t.width * align}, !nontemporal !{{i32 1}}"
            else:
                hint = f"align {align}"
            t.line(f"store {t.type(element)} {value}, ptr {address}, {hint}")
            return
        if step == 1 and self.mask is not None:
            t.masked_store(element, align, value, address, self.mask)
            return
        addresses, pointer = self._lane_addresses(address, element, step), f"<{t.lanes} x ptr>"
        name = f"llvm.masked.scatter.{t.suffix(element)}.v{t.lanes}p0"
        whole, mask = t.type(element), self.mask or t.number(1, "i1")
        t.functions[name] = f"declare void @{name}({whole}, {pointer}, i32 immarg, {t.type('i1')})"
        t.line(f"call void @{name}({whole} {value}, {pointer} {addresses}, i32 {align}, {t.type('i1')} {mask})")
