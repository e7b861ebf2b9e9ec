"""Pooling where windows overlap or reach over the edge, written as LLVM code with explicit vectors over the channels.

Loops of `headrace.loops` do the other cases, fused with what is around them. Here a window's elements are found by
clamping: a tap beyond the edge takes the nearest element inside, which the window contains anyway. For a maximum that
changes nothing, nor for the first element that is the maximum; a mean leaves such taps out. Gradients are added window
after window, images side by side, so that results do not depend on the number of threads.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.types import DType, bfloat16, float32, float64
from headrace_cpu.llvm.text import Text, as_float, from_float, storage_type
from headrace_cpu.onednn import Request
from headrace_cpu.onednn.convolutions import padding_of

__all__ = ["Pooling", "pooling_call"]

MAX_TAPS = 64
"""Taps of a window up to which they are written out one by one."""

_PLACES = {"MaxPool": (0, 1), "AvgPool": (0, 1), "MaxPoolGrad": (3, 1), "AvgPoolGrad": (2, 1)}
"""Which pointers are those of what has the shape of the images, and of what has the shape of the result."""


@dataclass(frozen=True, slots=True)
class Pooling:
    """Windows over the two middle axes of `[n, h, w, c]`.

    Attributes:
      kind: the operation.
      images, pooled: shapes.
      taps, strides, before: of the window, for rows and columns.
      dtypes: of inputs and output as they lie in memory.
      scratch, constants: none.
    """

    kind: str
    images: tuple[int, ...]
    pooled: tuple[int, ...]
    taps: tuple[int, ...]
    strides: tuple[int, ...]
    before: tuple[int, ...]
    dtypes: tuple[DType, ...]
    scratch: tuple[int, ...] = ()
    constants: tuple[()] = ()

    @property
    def points(self) -> int:
        """How many pieces of work there are: rows of the result, or images where elements get several gradients."""
        return self.images[0] if self.kind.endswith("Grad") else self.images[0] * self.pooled[1]

    @property
    def nanoseconds(self) -> float:
        """A rough estimate of what it takes on one thread."""
        return 0.05 * math.prod(self.pooled) * math.prod(self.taps)

    def written(self, lanes: int) -> tuple[str, dict[str, str]]:
        """The function `void SYMBOL(ptr args, i64 begin, i64 end)` for some of the points, and what it needs."""
        writer = _Writer(self, lanes)
        writer.write()
        return "\n".join(writer.t.lines) + "\n", writer.t.functions

    def symbol(self, lanes: int) -> str:
        """A name for the function."""
        return f"pooling_{hashlib.sha256(repr((self, lanes)).encode()).hexdigest()[:16]}"


def pooling_call(request: Request) -> Pooling | None:
    """The pooling that an operation is, or None if it is something else or of another form."""
    op = request.op
    if op.type not in _PLACES:
        return None
    attrs, dtypes = op.attrs, request.dtypes
    if attrs["data_format"] != "NHWC":
        return None
    floats = dtypes[1:] if op.type == "AvgPoolGrad" else dtypes
    narrow = bfloat16 if op.type == "MaxPool" else None
    if any(dtype not in (float32, float64, bfloat16) for dtype in floats) or floats[-1] not in (
        narrow,
        float64 if float64 in floats else float32,
    ):
        return None
    if float64 in floats and len(set(floats)) > 1:
        return None
    images, pooled = (request.shape(place) for place in _PLACES[op.type])
    taps, strides = tuple(attrs["ksize"][1:3]), tuple(attrs["strides"][1:3])
    if math.prod(taps) > MAX_TAPS or 0 in images or 0 in pooled or _has_loops(op.type, images, pooled, taps, strides):
        return None
    before, _ = padding_of(attrs, (1, 2), images[1:3], pooled[1:3], taps)
    return Pooling(op.type, images, pooled, taps, strides, before, dtypes)


def _has_loops(
    kind: str, images: Sequence[int], pooled: Sequence[int], taps: Sequence[int], strides: Sequence[int]
) -> bool:
    """True where no window reaches over the edge and, for a gradient, none overlaps another one."""
    inside = all((pooled[axis + 1] - 1) * strides[axis] + taps[axis] <= images[axis + 1] for axis in (0, 1))
    return inside and (not kind.endswith("Grad") or all(map(operator.le, taps, strides)))


class _Writer:
    """Writes the function. Mutable."""

    def __init__(self, pooling: Pooling, lanes: int) -> None:
        self.pooling, self.lanes = pooling, lanes
        self.t = Text()
        self.element = "double" if float64 in pooling.dtypes else "float"
        self.pointers: list[str] = []

    def write(self) -> None:
        t = self.t
        t.lines.append("define internal void @SYMBOL(ptr noalias %args, i64 %begin, i64 %end) {")
        self.pointers = [t.argument(number) for number in range(len(self.pooling.dtypes))]
        t.count_up("%begin", "%end", 1, self._image if self.pooling.kind.endswith("Grad") else self._row)
        t.lines += ["  ret void", "}"]

    def _row(self, point: str) -> None:
        height = self.pooling.pooled[1]
        image = self.t.put(f"udiv i64 {point}, {height}")
        self._windows(image, self.t.put(f"urem i64 {point}, {height}"))

    def _image(self, image: str) -> None:
        t, pooling = self.t, self.pooling
        size = math.prod(pooling.images[1:]) * pooling.dtypes[-1].size
        target = t.put(f"getelementptr i8, ptr {self.pointers[-1]}, i64 {t.put(f'mul i64 {image}, {size}')}")
        t.clear_bytes(target, size)
        t.count_up("0", str(pooling.pooled[1]), 1, lambda row: self._windows(image, row))

    def _windows(self, image: str, row: str) -> None:
        """All windows of one row."""
        t, (_, height, width, channels) = self.t, self.pooling.images
        first = t.put(f"mul i64 {image}, {height}")
        rows = []
        for place, valid in self._under(row, 0):
            rows.append((t.put(f"mul i64 {t.put(f'add i64 {first}, {place}')}, {width * channels}"), valid))
        line = t.put(f"add i64 {t.put(f'mul i64 {image}, {self.pooling.pooled[1]}')}, {row}")
        start = t.put(f"mul i64 {line}, {self.pooling.pooled[2]}")

        def window(column: str) -> None:
            columns = [(t.put(f"mul i64 {place}, {channels}"), valid) for place, valid in self._under(column, 1)]
            taps = [
                (t.put(f"add i64 {a}, {b}"), t.put(f"and i1 {below}, {right}"))
                for (a, below), (b, right) in itertools.product(rows, columns)
            ]
            result = t.put(f"mul i64 {t.put(f'add i64 {start}, {column}')}, {channels}")
            count = self._count(taps) if self.pooling.kind.startswith("Avg") else ""
            self._channels(lambda: self._body(taps, result, count))

        t.count_up("0", str(self.pooling.pooled[2]), 1, window)

    def _under(self, number: str, axis: int) -> list[tuple[str, str]]:
        """For each tap of an axis the nearest element inside, and whether the tap is inside."""
        t, pooling = self.t, self.pooling
        t.functions["llvm.smax.i64"] = "declare i64 @llvm.smax.i64(i64, i64)"
        t.functions["llvm.smin.i64"] = "declare i64 @llvm.smin.i64(i64, i64)"
        first = t.put(f"sub i64 {t.put(f'mul i64 {number}, {pooling.strides[axis]}')}, {pooling.before[axis]}")
        last = pooling.images[axis + 1] - 1
        found = []
        for tap in range(pooling.taps[axis]):
            place = t.put(f"add i64 {first}, {tap}")
            low = t.put(f"call i64 @llvm.smax.i64(i64 {place}, i64 0)")
            inside = t.put(f"call i64 @llvm.smin.i64(i64 {low}, i64 {last})")
            found.append((inside, t.put(f"icmp eq i64 {inside}, {place}")))
        return found

    def _count(self, taps: Sequence[tuple[str, str]]) -> str:
        """How many taps of a window are inside, as a number to divide by."""
        t = self.t
        total = "0"
        for _, valid in taps:
            total = t.put(f"add i64 {total}, {t.put(f'zext i1 {valid} to i64')}")
        return t.put(f"sitofp i64 {total} to {self.element}")

    def _channels(self, body: Callable[[], None]) -> None:
        """Whole vectors of channels, then the rest one by one."""
        t, channels = self.t, self.pooling.images[3]
        whole = channels // self.lanes * self.lanes

        def some(channel: str) -> None:
            self.channel = channel
            body()

        for first, end, lanes in ((0, whole, self.lanes), (whole, channels, 1)):
            if first < end:
                t.lanes = lanes
                t.count_up(str(first), str(end), lanes, some)
                t.lanes = 1

    def _address(self, pointer: int, start: str) -> str:
        t, element = self.t, storage_type(self.pooling.dtypes[pointer])
        place = t.put(f"add i64 {start}, {self.channel}")
        return t.put(f"getelementptr {element}, ptr {self.pointers[pointer]}, i64 {place}")

    def _load(self, pointer: int, start: str) -> str:
        t, dtype = self.t, self.pooling.dtypes[pointer]
        whole = t.type(storage_type(dtype))
        value = t.put(f"load {whole}, ptr {self._address(pointer, start)}, align {dtype.size}")
        return as_float(t, value, dtype)[0]

    def _store(self, value: str, pointer: int, start: str) -> None:
        t, dtype = self.t, self.pooling.dtypes[pointer]
        stored = from_float(t, value, dtype)
        t.line(f"store {t.type(storage_type(dtype))} {stored}, ptr {self._address(pointer, start)}, align {dtype.size}")

    def _body(self, taps: Sequence[tuple[str, str]], result: str, count: str) -> None:
        """Some channels of one window."""
        kind = self.pooling.kind
        if kind == "MaxPool":
            self._max(taps, result)
        elif kind == "AvgPool":
            self._mean(taps, result, count)
        elif kind == "MaxPoolGrad":
            self._max_gradient(taps, result)
        else:
            self._mean_gradient(taps, result, count)

    def _is_nan(self, value: str) -> str:
        return self.t.put(f"fcmp uno {self.t.type(self.element)} {value}, {value}")

    def _max(self, taps: Sequence[tuple[str, str]], result: str) -> None:
        t = self.t
        largest = self._load(0, taps[0][0])
        for place, _ in taps[1:]:
            value = self._load(0, place)
            larger = t.put(f"fcmp ogt {t.type(self.element)} {value}, {largest}")
            taken = t.two("or", larger, self._is_nan(value), "i1")
            largest = t.select(taken, value, largest, self.element)
        self._store(largest, 1, result)

    def _mean(self, taps: Sequence[tuple[str, str]], result: str, count: str) -> None:
        t, whole = self.t, self.t.type(self.element)
        total = t.number(0.0, self.element)
        for place, valid in taps:
            value = self._load(0, place)
            inside = t.put(f"select i1 {valid}, {whole} {value}, {whole} {t.number(0.0, self.element)}")
            total = t.two("fadd", total, inside, self.element)
        self._store(t.two("fdiv", total, t.splat(count, self.element), self.element), 1, result)

    def _max_gradient(self, taps: Sequence[tuple[str, str]], result: str) -> None:
        """To the first element that is the largest; a NaN is what makes its window NaN."""
        t, whole = self.t, self.t.type(self.element)
        pooled, gradient = self._load(1, result), self._load(2, result)
        free = t.number(1, "i1")
        for place, _ in taps:
            value = self._load(0, place)
            equal = t.put(f"fcmp oeq {whole} {value}, {pooled}")
            hit = t.two("and", t.two("or", equal, self._is_nan(value), "i1"), free, "i1")
            free = t.two("xor", free, hit, "i1")
            old = self._load(3, place)
            added = t.two("fadd", old, gradient, self.element)
            self._store(t.select(hit, added, old, self.element), 3, place)

    def _mean_gradient(self, taps: Sequence[tuple[str, str]], result: str, count: str) -> None:
        t, whole = self.t, self.t.type(self.element)
        share = t.two("fdiv", self._load(1, result), t.splat(count, self.element), self.element)
        for place, valid in taps:
            old = self._load(2, place)
            added = t.two("fadd", old, share, self.element)
            self._store(t.put(f"select i1 {valid}, {whole} {added}, {whole} {old}"), 2, place)
