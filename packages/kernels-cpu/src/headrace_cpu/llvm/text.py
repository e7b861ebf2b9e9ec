"""Text: writes LLVM instructions of one function, line by line, at one number of lanes."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headrace.types import DType, bfloat16, float16, float32, float64
from headrace.types import bool as boolean

__all__ = ["Text", "as_float", "combine", "compute_type", "float_literal", "from_float", "storage_type"]


def storage_type(dtype: DType) -> str:
    """The LLVM type of an element in memory; bfloat16 is handled as bits, since its instructions flush denormals."""
    if dtype is float32:
        return "float"
    if dtype is float64:
        return "double"
    if dtype is float16:
        return "half"
    return f"i{8 * dtype.size}"


def compute_type(dtype: DType) -> str:
    """The LLVM type of a scalar in a register."""
    return "i1" if dtype is boolean else storage_type(dtype)


def float_literal(number: float, element: str) -> str:
    """A number as LLVM reads it: the bits of a double, rounded first where the type is narrower."""
    if element == "half":
        is_large = abs(number) >= 65520  # so a NaN is not
        (bits,) = (0x7C00 | (number < 0) << 15,) if is_large else struct.unpack("<H", struct.pack("<e", number))
        return f"0xH{bits:04X}"
    rounded = number
    if element == "float":
        try:
            (rounded,) = struct.unpack("<f", struct.pack("<f", number))
        except OverflowError:
            rounded = float("inf") if number > 0 else float("-inf")
    (bits,) = struct.unpack("<Q", struct.pack("<d", rounded))
    return f"0x{bits:016X}"


@dataclass(slots=True)
class Text:
    """A function being written. Mutable.

    Attributes:
      lines: the instructions so far.
      lanes: how many elements a value has now.
      width: how many float32 a register of the processor holds; a value may fill several.
      functions: names of the module's own functions and intrinsics that are called.
      allocas: what to reserve on the stack when the function begins.
    """

    lines: list[str] = field(default_factory=list)
    lanes: int = 1
    width: int = 1
    functions: dict[str, str] = field(default_factory=dict)
    allocas: list[str] = field(default_factory=list)
    count: int = 0

    def name(self) -> str:
        """A fresh register."""
        self.count += 1
        return f"%t{self.count}"

    def label(self, hint: str) -> str:
        """A fresh block."""
        self.count += 1
        return f"{hint}{self.count}"

    def line(self, text: str) -> None:
        """Write an instruction without a result."""
        self.lines.append(f"  {text}")

    def start(self, label: str) -> None:
        """Begin a block."""
        self.lines.append(f"{label}:")

    def put(self, text: str) -> str:
        """Write an instruction and return its result."""
        name = self.name()
        self.lines.append(f"  {name} = {text}")
        return name

    def stack(self, pointers: int) -> str:
        """Room for a table of pointers, made once for each call of the function."""
        name = self.name()
        self.allocas.append(f"  {name} = alloca [{pointers} x ptr], align 64")
        return name

    @property
    def has_avx512(self) -> bool:
        """True if values fill registers of AVX-512."""
        return self.width == 16 and self.lanes >= 16

    def type(self, element: str) -> str:
        """The type of a value with as many lanes as now."""
        return element if self.lanes == 1 else f"<{self.lanes} x {element}>"

    def suffix(self, element: str) -> str:
        """How intrinsics name that type."""
        short = {"float": "f32", "double": "f64", "half": "f16"}.get(element, element)
        return short if self.lanes == 1 else f"v{self.lanes}{short}"

    def number(self, value: float | int, element: str) -> str:
        """A constant in every lane."""
        if element in ("float", "double", "half"):
            literal = float_literal(float(value), element)
        elif element == "i1":
            literal = "true" if value else "false"
        else:
            literal = str(int(value))
        return literal if self.lanes == 1 else f"splat ({element} {literal})"

    def splat(self, scalar: str, element: str) -> str:
        """A scalar register in every lane."""
        if self.lanes == 1:
            return scalar
        whole = self.type(element)
        first = self.put(f"insertelement {whole} poison, {element} {scalar}, i64 0")
        return self.put(f"shufflevector {whole} {first}, {whole} poison, <{self.lanes} x i32> zeroinitializer")

    def next_to(self, first: str, count: int) -> list[str]:
        """So many numbers from the first one on."""
        return [first, *(self.put(f"add i64 {first}, {place}") for place in range(1, count))]

    def lanes_of(self, value: str, element: str, first: int, count: int) -> str:
        """So many lanes of a value from the first one on; of a constant they are all the same."""
        if count == self.lanes or value.startswith("splat"):
            return value
        whole, picked = self.type(element), ", ".join(f"i32 {first + lane}" for lane in range(count))
        return self.put(f"shufflevector {whole} {value}, {whole} poison, <{count} x i32> <{picked}>")

    def halved(self, value: str, element: str, combined: Callable[[str, str], str], count: int = 1) -> str:
        """The lanes of a value combined by halves until there are no more than so many."""
        while self.lanes > count:
            lanes, half = self.lanes, self.lanes // 2
            if half == 1:
                halves = [self.put(f"extractelement {self.type(element)} {value}, i64 {lane}") for lane in range(lanes)]
            else:
                halves = [self.lanes_of(value, element, first, half) for first in (0, half)]
            self.lanes = half
            value = combined(*halves)
        return value

    def joined(self, parts: Sequence[str], element: str) -> str:
        """The parts of a value, a power of two of them, as one."""
        size = self.lanes // len(parts)
        while len(parts) > 1:
            half, picked = f"<{size} x {element}>", ", ".join(f"i32 {lane}" for lane in range(2 * size))
            parts = [
                self.put(f"shufflevector {half} {a}, {half} {b}, <{2 * size} x i32> <{picked}>")
                for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]
            size *= 2
        return parts[0]

    def two(self, op: str, a: str, b: str, element: str) -> str:
        """An instruction with two operands of one type."""
        return self.put(f"{op} {self.type(element)} {a}, {b}")

    def convert(self, op: str, value: str, source: str, target: str) -> str:
        """A conversion."""
        return self.put(f"{op} {self.type(source)} {value} to {self.type(target)}")

    def select(self, condition: str, a: str, b: str, element: str) -> str:
        """Choose lane by lane."""
        whole = self.type(element)
        return self.put(f"select {self.type('i1')} {condition}, {whole} {a}, {whole} {b}")

    def call(self, intrinsic: str, element: str, *values: str) -> str:
        """An LLVM intrinsic whose operands and result have one type."""
        whole = self.type(element)
        name = f"llvm.{intrinsic}.{self.suffix(element)}"
        self.functions[name] = f"declare {whole} @{name}({', '.join([whole] * len(values))})"
        return self.put(f"call {whole} @{name}({', '.join(f'{whole} {value}' for value in values)})")

    def masked_load(self, element: str, align: int, place: str, mask: str) -> str:
        """What lies at a place in the lanes of a mask, 0 in the others, which are not read."""
        whole, bits = self.type(element), self.type("i1")
        name = f"llvm.masked.load.{self.suffix(element)}.p0"
        self.functions[name] = f"declare {whole} @{name}(ptr, i32 immarg, {bits}, {whole})"
        zero = self.number(0, element)
        return self.put(f"call {whole} @{name}(ptr {place}, i32 {align}, {bits} {mask}, {whole} {zero})")

    def masked_store(self, element: str, align: int, value: str, place: str, mask: str) -> None:
        """Write the lanes of a mask."""
        whole, bits = self.type(element), self.type("i1")
        name = f"llvm.masked.store.{self.suffix(element)}.p0"
        self.functions[name] = f"declare void @{name}({whole}, ptr, i32 immarg, {bits})"
        self.line(f"call void @{name}({whole} {value}, ptr {place}, i32 {align}, {bits} {mask})")

    def prefetch(self, place: str, level: int, *, is_written: bool = False) -> None:
        """Ask for the line of the cache at a place, to read or to write it.

        Args:
          place: the pointer.
          level: 3 to have it in the first cache, 2 in the second one.
          is_written: no other processor then has it.
        """
        self.functions["llvm.prefetch.p0"] = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
        self.line(f"call void @llvm.prefetch.p0(ptr {place}, i32 {int(is_written)}, i32 {level}, i32 1)")

    def fma(self, a: str, b: str, c: str, element: str) -> str:
        """a * b + c, rounded once."""
        return self.call("fma", element, a, b, c)

    def polynomial(self, x: str, coefficients: Sequence[float], element: str) -> str:
        """Horner's scheme, the lowest power first in `coefficients`."""
        result = self.number(coefficients[-1], element)
        for coefficient in reversed(coefficients[:-1]):
            result = self.fma(result, x, self.number(coefficient, element), element)
        return result

    def argument(self, number: int) -> str:
        """One of the pointers in the table `%args` that a function of shared work is given."""
        return self.put(f"load ptr, ptr {self.put(f'getelementptr ptr, ptr %args, i64 {number}')}")

    def copy_bytes(self, target: str, source: str, size: str | int) -> None:
        """Copy between memories that do not overlap."""
        self.functions["llvm.memcpy.p0.p0.i64"] = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
        self.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")

    def clear_bytes(self, target: str, size: str | int) -> None:
        """Fill a memory with zeros."""
        self.functions["llvm.memset.p0.i64"] = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"
        self.line(f"call void @llvm.memset.p0.i64(ptr {target}, i8 0, i64 {size}, i1 false)")

    def when(self, condition: str, body: Callable[[], None]) -> None:
        """Do something only where a condition holds."""
        inside, after = self.label("inside"), self.label("after")
        self.line(f"br i1 {condition}, label %{inside}, label %{after}")
        self.start(inside)
        body()
        self.line(f"br label %{after}")
        self.start(after)

    def count_up(self, first: str, end: str, step: int, body: Callable[[str], None]) -> None:
        """A loop: `body` is given the register of its number."""
        before, head, inside, latch, after = (self.label(hint) for hint in ("before", "loop", "body", "next", "done"))
        self.line(f"br label %{before}")
        self.start(before)
        self.line(f"br label %{head}")
        self.start(head)
        number, following = self.name(), self.name()
        self.line(f"{number} = phi i64 [ {first}, %{before} ], [ {following}, %{latch} ]")
        more = self.put(f"icmp slt i64 {number}, {end}")
        self.line(f"br i1 {more}, label %{inside}, label %{after}")
        self.start(inside)
        body(number)
        self.line(f"br label %{latch}")
        self.start(latch)
        self.line(f"{following} = add i64 {number}, {step}")
        self.line(f"br label %{head}")
        self.start(after)


def combine(
    t: Text, operator: str, dtype: DType, width: int, lanes: int, target: str, operands: tuple[str, str]
) -> None:
    """Combine two rows of numbers element by element: as many whole vectors as there are, then one by one.

    Args:
      t: the function.
      operator: add, sub or mul.
      dtype: of the numbers.
      width: how many a row has.
      lanes: how many a vector has.
      target: the pointer of the row to write; it may be that of an operand.
      operands: those of the rows to read.
    """
    element = storage_type(dtype)
    instruction = f"{'f' * dtype.is_floating}{operator}"

    def some(lanes: int, number: str) -> None:
        kind = element if lanes == 1 else f"<{lanes} x {element}>"
        rows = dict.fromkeys((target, *operands))
        places = {row: t.put(f"getelementptr {element}, ptr {row}, i64 {number}") for row in rows}
        left, right = (t.put(f"load {kind}, ptr {places[row]}, align {dtype.size}") for row in operands)
        combined = t.put(f"{instruction} {kind} {left}, {right}")
        t.line(f"store {kind} {combined}, ptr {places[target]}, align {dtype.size}")

    whole = width // lanes * lanes
    if whole:
        t.count_up("0", str(whole), lanes, functools.partial(some, lanes))
    if whole < width:
        t.count_up(str(whole), str(width), 1, functools.partial(some, 1))


def as_float(t: Text, value: str, dtype: DType) -> tuple[str, str]:
    """A floating value as it lies in memory, in the type to compute in, and that type."""
    if dtype is float16:
        return t.convert("fpext", value, "half", "float"), "float"
    if dtype is bfloat16:
        wide = t.two("shl", t.convert("zext", value, "i16", "i32"), t.number(16, "i32"), "i32")
        return t.convert("bitcast", wide, "i32", "float"), "float"
    return value, compute_type(dtype)


def from_float(t: Text, value: str, dtype: DType) -> str:
    """A value as it lies in memory, rounded to nearest even where the dtype is narrower."""
    if dtype is float16:
        return t.convert("fptrunc", value, "float", "half")
    if dtype is not bfloat16:
        return value
    bits = t.convert("bitcast", value, "float", "i32")
    odd = t.two("and", t.two("lshr", bits, t.number(16, "i32"), "i32"), t.number(1, "i32"), "i32")
    rounded = t.two("add", bits, t.two("add", odd, t.number(0x7FFF, "i32"), "i32"), "i32")
    quiet = t.two("or", bits, t.number(0x400000, "i32"), "i32")
    unordered = t.put(f"fcmp uno {t.type('float')} {value}, {value}")
    chosen = t.two("lshr", t.select(unordered, quiet, rounded, "i32"), t.number(16, "i32"), "i32")
    return t.convert("trunc", chosen, "i32", "i16")
