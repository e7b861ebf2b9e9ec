"""From a region of the loop IR to an LLVM function with explicit vectors.

`void region(ptr args, i64 begin, i64 end)` computes the outer points from `begin` to `end`; `args` is a table of
pointers, one for each buffer that is no row buffer. A vector has as many lanes as the host's registers hold float32;
wider elements take several registers. The last, shorter piece of a loop is the same code under a mask, so that its
elements have the same bits. Sums of floats are carried in float64. The order of a reduction depends on the region only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from headrace.loops.ir import Access, Accumulate, Axis, Expr, Loop, Region, Store
from headrace.types import DType, bfloat16, float16, float32
from headrace.types import bool as boolean
from headrace_cpu.text import Text, as_float, compute_type, from_float, storage_type
from headrace_cpu.vector_math import FUNCTIONS, write_function

__all__ = ["PrintedRegion", "print_region", "prints"]

_FLOAT_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_INTEGER_BINARY = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
_COMPARISONS = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
_ROUNDINGS = {"floor": "floor", "ceil": "ceil", "rint": "rint", "sqrt": "sqrt", "abs": "fabs"}
_FLOAT_UNARY = frozenset({*_ROUNDINGS, "neg", "sign", "isfinite"})


def prints(op: str, dtype: DType) -> bool:
    """True if this printer has an operator for operands of a dtype."""
    if dtype.kind not in ("float", "int", "uint", "bool"):
        return False
    if op in ("const", "index", "load", "local", "select", "cast", "eq", "ne"):
        return True
    if dtype is boolean:
        return op in ("and", "or", "xor", "not")
    if dtype.is_floating:
        wide = "double" if dtype.name == "float64" else "float"
        return (
            op in _FLOAT_BINARY
            or op in _COMPARISONS
            or op in _FLOAT_UNARY
            or op in ("max", "min")
            or ((op, wide) in FUNCTIONS)
        )
    return op in _INTEGER_BINARY or op in _COMPARISONS or op in ("max", "min", "neg", "abs", "sign", "not")


@dataclass(frozen=True, slots=True)
class PrintedRegion:
    """The text of a region.

    Attributes:
      body: the function, with `SYMBOL` where its name goes.
      functions: definitions and declarations it needs, by name.
    """

    body: str
    functions: dict[str, str]


def print_region(region: Region, lanes: int) -> PrintedRegion:
    """Print one region for vectors of that many lanes."""
    printer = _Printer(region, lanes)
    printer.write()
    return PrintedRegion("\n".join(printer.text.lines) + "\n", printer.text.functions)


@dataclass(slots=True)
class _Accumulator:
    """A reduction under way: where its vector or vectors are kept, and in which type."""

    item: Accumulate
    slot: str
    element: str
    dtype: DType


@dataclass(slots=True)
class _Printer:
    region: Region
    lanes: int
    text: Text = field(default_factory=Text)
    pointers: list[str] = field(default_factory=list)
    index: dict[int, str] = field(default_factory=dict)  # axis -> register of its index
    locals: dict[int, str] = field(default_factory=dict)  # local -> scalar register
    columns: dict[int, str] = field(default_factory=dict)  # local of the columns at hand -> vector register
    allocas: list[str] = field(default_factory=list)
    vector_axis: int | None = None
    mask: str | None = None
    done: dict[int, str] = field(default_factory=dict)

    def write(self) -> None:
        t = self.text
        begin = len(t.lines)
        outer_head, outer_body, outer_end = t.label("outer"), t.label("point"), t.label("end")
        given = 0
        for number, buffer in enumerate(self.region.buffers):
            if buffer.role == "row":
                size = max(buffer.size, 1) * max(buffer.dtype.size, 1) + 64
                self.allocas.append(f"  %row{number} = alloca [{size} x i8], align 64")
                self.pointers.append(f"%row{number}")
                continue
            place = t.put(f"getelementptr ptr, ptr %args, i64 {given}")
            self.pointers.append(t.put(f"load ptr, ptr {place}"))
            given += 1
        t.line("br label %entered")
        t.start("entered")
        t.line(f"br label %{outer_head}")
        t.start(outer_head)
        point = t.name()
        following = t.name()
        latch = t.label("latch")
        t.line(f"{point} = phi i64 [ %begin, %entered ], [ {following}, %{latch} ]")
        more = t.put(f"icmp slt i64 {point}, %end")
        t.line(f"br i1 {more}, label %{outer_body}, label %{outer_end}")
        t.start(outer_body)
        self._outer_index(point)
        for loop in self.region.loops:
            self._loop(loop)
        t.line(f"br label %{latch}")
        t.start(latch)
        t.line(f"{following} = add i64 {point}, 1")
        t.line(f"br label %{outer_head}")
        t.start(outer_end)
        t.line("ret void")
        t.lines[begin:begin] = [
            "define internal void @SYMBOL(ptr noalias %args, i64 %begin, i64 %end) {",
            *self.allocas,
        ]
        t.lines.append("}")

    def _outer_index(self, point: str) -> None:
        t, rest = self.text, point
        for axis in reversed(range(len(self.region.outer))):
            if axis == 0:
                self.index[axis] = rest
                continue
            size = self.region.outer[axis]
            self.index[axis] = t.put(f"urem i64 {rest}, {size}")
            rest = t.put(f"udiv i64 {rest}, {size}")

    # loops

    def _loop(self, loop: Loop) -> None:
        if not loop.axes:
            self.vector_axis, self.mask, self.done = None, None, {}
            self.text.lanes = 1
            self._store_all(loop.stores)
            return
        if any(item.keep_last for item in loop.accumulates):
            self._columns(loop)
            return
        accumulators = [self._accumulator(item, self.lanes) for item in loop.accumulates]
        for accumulator in accumulators:
            self._reset(accumulator)
        self._sequence(loop.axes[:-1], lambda: self._vectors(loop.axes[-1], lambda: self._point(loop, accumulators)))
        for accumulator in accumulators:
            self.locals[accumulator.item.local] = self._total(accumulator)

    def _columns(self, loop: Loop) -> None:
        """Row after row into accumulators for all columns, as memory has them, then what is stored for each column."""
        *rows, last = loop.axes
        accumulators = [
            self._accumulator(item, -(-last.extent // self.lanes) * self.lanes) for item in loop.accumulates
        ]

        def for_each(body: Callable[[_Accumulator], None]) -> None:
            self.done = {}
            for whole in accumulators:
                start = f"getelementptr {whole.element}, ptr {whole.slot}, i64 {self.index[last.number]}"
                body(replace(whole, slot=self.text.put(start)))

        def point() -> None:
            for_each(self._accumulate)
            self._store_all(loop.stores)

        def sum_up(accumulator: _Accumulator) -> None:
            value = self.text.put(f"load {self.text.type(accumulator.element)}, ptr {accumulator.slot}")
            self.columns[accumulator.item.local] = self._narrowed(value, accumulator)

        def finish() -> None:
            for_each(sum_up)
            self._store_all(loop.after)
            self.columns = {}

        self._vectors(last, lambda: for_each(self._reset))
        self._sequence(rows, lambda: self._vectors(last, point))
        self._vectors(last, finish)

    def _point(self, loop: Loop, accumulators: list[_Accumulator]) -> None:
        self.done = {}
        for accumulator in accumulators:
            self._accumulate(accumulator)
        self._store_all(loop.stores)

    def _store_all(self, stores: Sequence[Store]) -> None:
        """Everything is computed before anything is written: an output may lie where an input does."""
        for store in stores:
            self._value(store.value)
        for store in stores:
            self._store(store)

    def _sequence(self, axes: Sequence[Axis], body: Callable[[], None]) -> None:
        if not axes:
            body()
            return
        t, axis = self.text, axes[0]
        count = self._extent(axis)
        before, head, inside, end = (t.label(hint) for hint in ("before", "loop", "body", "done"))
        t.line(f"br label %{before}")
        t.start(before)
        t.line(f"br label %{head}")
        t.start(head)
        number, following, latch = t.name(), t.name(), t.label("next")
        t.line(f"{number} = phi i64 [ 0, %{before} ], [ {following}, %{latch} ]")
        more = t.put(f"icmp slt i64 {number}, {count}")
        t.line(f"br i1 {more}, label %{inside}, label %{end}")
        t.start(inside)
        self.index[axis.number] = number
        self._sequence(axes[1:], body)
        t.line(f"br label %{latch}")
        t.start(latch)
        t.line(f"{following} = add i64 {number}, 1")
        t.line(f"br label %{head}")
        t.start(end)

    def _extent(self, axis: Axis) -> str:
        """How far an axis goes; the last piece of one that is cut may be shorter."""
        if axis.outer is None:
            return str(axis.extent)
        t = self.text
        start = t.put(f"mul i64 {self.index[axis.outer]}, {axis.extent}")
        left = t.put(f"sub i64 {axis.total}, {start}")
        shorter = t.put(f"icmp slt i64 {left}, {axis.extent}")
        return t.put(f"select i1 {shorter}, i64 {left}, i64 {axis.extent}")

    def _vectors(self, axis: Axis, body: Callable[[], None]) -> None:
        """A loop over whole vectors, then the rest under a mask."""
        t, lanes = self.text, self.lanes
        self.vector_axis = axis.number
        count = self._extent(axis)
        static = axis.outer is None
        t.lanes = lanes
        whole: str
        if static:
            whole = str(axis.extent // lanes * lanes)
        else:
            whole = t.put(f"and i64 {count}, {-lanes}")
        if not static or axis.extent >= lanes:
            before, head, inside, end = (t.label(hint) for hint in ("before", "vectors", "vector", "done"))
            t.line(f"br label %{before}")
            t.start(before)
            t.line(f"br label %{head}")
            t.start(head)
            number, following, latch = t.name(), t.name(), t.label("next")
            t.line(f"{number} = phi i64 [ 0, %{before} ], [ {following}, %{latch} ]")
            more = t.put(f"icmp slt i64 {number}, {whole}")
            t.line(f"br i1 {more}, label %{inside}, label %{end}")
            t.start(inside)
            self.index[axis.number], self.mask = number, None
            body()
            t.line(f"br label %{latch}")
            t.start(latch)
            t.line(f"{following} = add i64 {number}, {lanes}")
            t.line(f"br label %{head}")
            t.start(end)
        if static and axis.extent % lanes == 0:
            t.lanes = 1
            return
        rest, done = t.label("rest"), t.label("done")
        some = t.put(f"icmp slt i64 {whole}, {count}")
        t.line(f"br i1 {some}, label %{rest}, label %{done}")
        t.start(rest)
        self.index[axis.number] = whole
        left = t.put(f"sub i64 {count}, {whole}")
        self.mask = t.two("icmp ult", self._lane_numbers(), t.splat(left, "i64"), "i64")
        body()
        self.mask = None
        t.line(f"br label %{done}")
        t.start(done)
        t.lanes = 1

    def _lane_numbers(self) -> str:
        if self.text.lanes == 1:
            return "0"
        return "<" + ", ".join(f"i64 {lane}" for lane in range(self.text.lanes)) + ">"

    # reductions

    def _accumulator(self, item: Accumulate, size: int) -> _Accumulator:
        dtype = item.value.dtype
        if item.op == "sum" and dtype.is_floating:
            element = "double"
        elif item.op == "prod" and dtype.is_floating:
            element = "double" if dtype.name == "float64" else "float"
        else:
            element = compute_type(dtype)
        slot = self.text.name()
        self.allocas.append(f"  {slot} = alloca [{size} x {element}], align 64")
        return _Accumulator(item, slot, element, dtype)

    def _neutral(self, accumulator: _Accumulator) -> str:
        dtype, op = accumulator.dtype, accumulator.item.op
        t = self.text
        if op in ("sum", "any"):
            return t.number(-0.0 if dtype.is_floating else 0, accumulator.element)
        if op in ("prod", "all"):
            return t.number(1, accumulator.element)
        if dtype.is_floating:
            if dtype is bfloat16:
                return t.number(0xFF80 if op == "max" else 0x7F80, "i16")
            return t.number(-math.inf if op == "max" else math.inf, accumulator.element)
        bits = 8 * dtype.size
        low = 0 if dtype.kind == "uint" else -(2 ** (bits - 1))
        return t.number(low if op == "max" else low + 2**bits - 1, accumulator.element)

    def _reset(self, accumulator: _Accumulator) -> None:
        lanes, self.text.lanes = self.text.lanes, self.lanes
        whole = self.text.type(accumulator.element)
        self.text.line(f"store {whole} {self._neutral(accumulator)}, ptr {accumulator.slot}")
        self.text.lanes = lanes

    def _accumulate(self, accumulator: _Accumulator) -> None:
        t = self.text
        value = self._widened(self._value(accumulator.item.value), accumulator)
        if self.mask is not None:
            value = t.select(self.mask, value, self._neutral(accumulator), accumulator.element)
        whole = t.type(accumulator.element)
        old = t.put(f"load {whole}, ptr {accumulator.slot}")
        t.line(f"store {whole} {self._combined(accumulator, old, value)}, ptr {accumulator.slot}")

    def _combined(self, accumulator: _Accumulator, a: str, b: str) -> str:
        op = accumulator.item.op
        if op in ("sum", "prod"):
            instruction = {"sum": "add", "prod": "mul"}[op]
            floating = accumulator.dtype.is_floating
            return self.text.two(f"f{instruction}" if floating else instruction, a, b, accumulator.element)
        if op in ("any", "all"):
            return self.text.two("or" if op == "any" else "and", a, b, "i1")
        return self._extreme(op, a, b, accumulator.dtype)

    def _widened(self, value: str, accumulator: _Accumulator) -> str:
        """A value in the type of its accumulator."""
        dtype = accumulator.dtype
        if not dtype.is_floating or accumulator.item.op in ("max", "min"):
            return value
        value, element = as_float(self.text, value, dtype)
        return value if element == accumulator.element else self.text.convert("fpext", value, element, "double")

    def _narrowed(self, value: str, accumulator: _Accumulator) -> str:
        """The content of an accumulator in the dtype of the local."""
        dtype = accumulator.dtype
        if not dtype.is_floating or accumulator.item.op in ("max", "min"):
            return value
        if accumulator.element == "double" and dtype.name != "float64":
            value = self.text.convert("fptrunc", value, "double", "float")
        return from_float(self.text, value, dtype)

    def _total(self, accumulator: _Accumulator) -> str:
        """The lanes of an accumulator combined by halves, as a scalar of the local's dtype."""
        t, element = self.text, accumulator.element
        value = t.put(f"load <{self.lanes} x {element}>, ptr {accumulator.slot}")
        lanes = self.lanes
        while lanes > 1:
            whole, half = f"<{lanes} x {element}>", lanes // 2
            halves = []
            for start in (0, half):
                picked = ", ".join(f"i32 {start + lane}" for lane in range(half))
                halves.append(t.put(f"shufflevector {whole} {value}, {whole} poison, <{half} x i32> <{picked}>"))
            t.lanes = lanes = half
            if half == 1:
                halves = [t.put(f"extractelement <1 x {element}> {item}, i64 0") for item in halves]
            value = self._combined(accumulator, *halves)
        t.lanes = 1
        return self._narrowed(value, accumulator)

    # memory

    def _address(self, buffer: int, access: Access) -> str:
        """The place of lane 0."""
        t = self.text
        offset = str(access.constant)
        for axis, factor in access.terms:
            moved = self.index[axis] if factor == 1 else t.put(f"mul i64 {self.index[axis]}, {factor}")
            offset = moved if offset == "0" else t.put(f"add i64 {offset}, {moved}")
        element = storage_type(self.region.buffers[buffer].dtype)
        return t.put(f"getelementptr inbounds {element}, ptr {self.pointers[buffer]}, i64 {offset}")

    def _lane_addresses(self, address: str, element: str, step: int) -> str:
        t = self.text
        moves = "<" + ", ".join(f"i64 {lane * step}" for lane in range(t.lanes)) + ">"
        return t.put(f"getelementptr {element}, ptr {address}, <{t.lanes} x i64> {moves}")

    def _load(self, buffer: int, access: Access) -> str:
        t = self.text
        dtype = self.region.buffers[buffer].dtype
        element, align = storage_type(dtype), max(dtype.size, 1)
        address = self._address(buffer, access)
        step = 0 if self.vector_axis is None else access.coefficient(self.vector_axis)
        if t.lanes == 1 or step == 0:
            lanes, t.lanes = t.lanes, 1
            scalar = t.put(f"load {element}, ptr {address}, align {align}")
            t.lanes = lanes
            value = t.splat(scalar, element)
        elif step == 1 and self.mask is None:
            value = t.put(f"load {t.type(element)}, ptr {address}, align {align}")
        elif step == 1:
            value = self._masked("load", element, align, address)
        else:
            value = self._masked("gather", element, align, self._lane_addresses(address, element, step))
        if dtype is boolean:
            value = t.put(f"icmp ne {t.type('i8')} {value}, {t.number(0, 'i8')}")
        return value

    def _masked(self, kind: str, element: str, align: int, address: str) -> str:
        t, whole = self.text, self.text.type(element)
        pointer = "ptr" if kind == "load" else f"<{t.lanes} x ptr>"
        space = "p0" if kind == "load" else f"v{t.lanes}p0"
        name = f"llvm.masked.{kind}.{t.suffix(element)}.{space}"
        mask = self.mask or t.number(1, "i1")
        t.functions[name] = f"declare {whole} @{name}({pointer}, i32 immarg, {t.type('i1')}, {whole})"
        zero = t.number(0, element)
        return t.put(f"call {whole} @{name}({pointer} {address}, i32 {align}, {t.type('i1')} {mask}, {whole} {zero})")

    def _store(self, store: Store) -> None:
        t = self.text
        dtype = self.region.buffers[store.buffer].dtype
        value = self._value(store.value)
        element, align = storage_type(dtype), max(dtype.size, 1)
        if dtype is boolean:
            value = t.put(f"zext {t.type('i1')} {value} to {t.type('i8')}")
        address = self._address(store.buffer, store.access)
        step = 0 if self.vector_axis is None else store.access.coefficient(self.vector_axis)
        if t.lanes == 1 or (step == 1 and self.mask is None):
            t.line(f"store {t.type(element)} {value}, ptr {address}, align {align}")
            return
        kind, pointer, space = "store", "ptr", "p0"
        if step != 1:
            kind, pointer, space = "scatter", f"<{t.lanes} x ptr>", f"v{t.lanes}p0"
            address = self._lane_addresses(address, element, step)
        name = f"llvm.masked.{kind}.{t.suffix(element)}.{space}"
        whole, mask = t.type(element), self.mask or t.number(1, "i1")
        t.functions[name] = f"declare void @{name}({whole}, {pointer}, i32 immarg, {t.type('i1')})"
        t.line(f"call void @{name}({whole} {value}, {pointer} {address}, i32 {align}, {t.type('i1')} {mask})")

    # expressions

    def _value(self, root: Expr) -> str:
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
            return self._constant(expr.payload, dtype)
        if op == "index":
            number: int = expr.payload
            value = t.splat(self.index[number], "i64")
            return t.two("add", value, self._lane_numbers(), "i64") if number == self.vector_axis else value
        if op == "local":
            local: int = expr.payload
            return self.columns[local] if local in self.columns else t.splat(self.locals[local], compute_type(dtype))
        if op == "load":
            return self._load(*expr.payload)
        if op == "select":
            return t.select(args[0], args[1], args[2], compute_type(dtype))
        if op == "cast":
            return self._cast(args[0], expr.args[0].dtype, dtype)
        source = expr.args[0].dtype
        if not source.is_floating:
            return self._integer(op, args, source)
        if op in ("max", "min"):
            return self._extreme(op, args[0], args[1], source)
        floats = [as_float(self.text, arg, source) for arg in args]
        values, element = [value for value, _ in floats], floats[0][1]
        result = self._floating(op, values, element)
        return result if dtype is boolean else from_float(self.text, result, dtype)

    def _constant(self, payload: object, dtype: DType) -> str:
        number = payload if isinstance(payload, (int, float)) else float(str(payload))
        if dtype is bfloat16:
            (bits,) = np.asarray([number], bfloat16.array_type).view(np.uint16)
            return self.text.number(int(bits), "i16")
        return self.text.number(number, compute_type(dtype))

    def _floating(self, op: str, args: list[str], element: str) -> str:
        t, whole = self.text, self.text.type(element)
        if op in _FLOAT_BINARY:
            return t.two(_FLOAT_BINARY[op], args[0], args[1], element)
        if op in _COMPARISONS:
            return t.put(f"fcmp {_COMPARISONS[op]} {whole} {args[0]}, {args[1]}")
        if op in _ROUNDINGS:
            return t.call(_ROUNDINGS[op], element, args[0])
        if op == "neg":
            return t.put(f"fneg {whole} {args[0]}")
        if op == "isfinite":
            return t.put(f"fcmp olt {whole} {t.call('fabs', element, args[0])}, {t.number(math.inf, element)}")
        if op == "sign":
            signed = t.call("copysign", element, t.number(1.0, element), args[0])
            nonzero = t.put(f"fcmp one {whole} {args[0]}, {t.number(0.0, element)}")
            return t.select(nonzero, signed, args[0], element)
        symbol, body, needed = write_function(op, element, t.lanes)
        t.functions |= {**needed, symbol: body}
        return t.put(f"call {whole} @{symbol}({whole} {args[0]})")

    def _extreme(self, op: str, a: str, b: str, dtype: DType) -> str:
        """The larger or smaller of two; NaN if one of them is."""
        t, element = self.text, compute_type(dtype)
        relation = "gt" if op == "max" else "lt"
        if not dtype.is_floating:
            sign = "u" if dtype.kind == "uint" else "s"
            return t.select(t.two(f"icmp {sign}{relation}", a, b, element), a, b, element)
        (x, wide), (y, _) = as_float(self.text, a, dtype), as_float(self.text, b, dtype)
        beyond = t.put(f"fcmp o{relation} {t.type(wide)} {x}, {y}")
        chosen = t.select(beyond, a, b, element)
        unordered = t.put(f"fcmp uno {t.type(wide)} {x}, {x}")
        return t.select(unordered, a, chosen, element)

    def _integer(self, op: str, args: list[str], dtype: DType) -> str:
        t, element = self.text, compute_type(dtype)
        whole = t.type(element)
        if op in _INTEGER_BINARY:
            return t.two(_INTEGER_BINARY[op], args[0], args[1], element)
        if op in ("max", "min"):
            return self._extreme(op, args[0], args[1], dtype)
        signed = dtype.kind == "int"
        if op in _COMPARISONS:
            name = op if op in ("eq", "ne") else ("s" if signed else "u") + op
            return t.put(f"icmp {name} {whole} {args[0]}, {args[1]}")
        zero = t.number(0, element)
        if op == "not":
            return t.two("xor", args[0], t.number(-1 if element != "i1" else 1, element), element)
        if op == "neg":
            return t.two("sub", zero, args[0], element)
        if op == "abs":
            if not signed:
                return args[0]
            negative = t.put(f"icmp slt {whole} {args[0]}, {zero}")
            return t.select(negative, t.two("sub", zero, args[0], element), args[0], element)
        above = t.put(f"icmp {'s' if signed else 'u'}gt {whole} {args[0]}, {zero}")
        result = t.select(above, t.number(1, element), zero, element)
        if not signed:
            return result
        below = t.put(f"icmp slt {whole} {args[0]}, {zero}")
        return t.select(below, t.number(-1, element), result, element)

    def _cast(self, value: str, source: DType, target: DType) -> str:
        t = self.text
        if source.is_floating:
            if target.is_floating:
                return self._float_to_float(value, source, target)
            value, element = as_float(self.text, value, source)
            return self._float_to_integer(value, element, target)
        if target.is_floating:
            wide = "double" if target.name == "float64" else "float"
            op = "sitofp" if source.kind == "int" else "uitofp"
            return from_float(self.text, t.convert(op, value, compute_type(source), wide), target)
        if target is boolean:
            return t.put(f"icmp ne {t.type(compute_type(source))} {value}, {t.number(0, compute_type(source))}")
        if source.size == target.size and source is not boolean:
            return value
        narrower = source.size > target.size and source is not boolean
        op = "trunc" if narrower else "sext" if source.kind == "int" else "zext"
        return t.convert(op, value, compute_type(source), compute_type(target))

    def _float_to_float(self, value: str, source: DType, target: DType) -> str:
        t = self.text
        if source is target:
            return value
        if source.name == "float64":
            if target is float16:
                return t.convert("fptrunc", value, "double", "half")
            return from_float(self.text, t.convert("fptrunc", value, "double", "float"), target)
        value, _ = as_float(self.text, value, source)
        if target.name == "float64":
            return t.convert("fpext", value, "float", "double")
        return value if target is float32 else from_float(self.text, value, target)

    def _float_to_integer(self, value: str, element: str, target: DType) -> str:
        """Truncated; the lowest integer for what does not fit, NaN included."""
        t, whole, integer = self.text, self.text.type(element), compute_type(target)
        bound = 2.0 ** (8 * target.size - 1)
        low = -bound - 1 if element == "double" and target.size == 4 else -bound
        relation = "ogt" if element == "double" and target.size == 4 else "oge"
        above = t.put(f"fcmp {relation} {whole} {value}, {t.number(low, element)}")
        below = t.put(f"fcmp olt {whole} {value}, {t.number(bound, element)}")
        fits = t.two("and", above, below, "i1")
        safe = t.select(fits, value, t.number(0.0, element), element)
        return t.select(fits, t.convert("fptosi", safe, element, integer), t.number(-int(bound), integer), integer)
