"""Loop rules of pooling where no window reaches over the edge; gradients where windows do not overlap."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.loops import functions as loops
from headrace.loops.registry import LoopContext, register_loops
from headrace.loops.rules.elementwise import narrowed, widened
from headrace.loops.value import Value

__all__: list[str] = []

MAX_TAPS = 64
"""Taps of a window up to which they are written out one by one."""


@dataclass(frozen=True, slots=True)
class _Windows:
    """Windows over the two middle axes of `[n, h, w, c]`."""

    images: tuple[int, ...]
    pooled: tuple[int, ...]
    taps: tuple[int, int]
    strides: tuple[int, int]

    @classmethod
    def of(cls, op: LoopContext, images: tuple[int, ...], pooled: tuple[int, ...]) -> _Windows | None:
        taps, strides = op.attr("ksize"), op.attr("strides")
        plain = op.attr("data_format") == "NHWC" and op.attr("padding") in ("VALID", "SAME")
        if not plain or tuple(taps)[::3] != (1, 1) or tuple(strides)[::3] != (1, 1) or taps[1] * taps[2] > MAX_TAPS:
            return None
        if 0 in images or 0 in pooled:
            return None
        found = cls(images, pooled, (taps[1], taps[2]), (strides[1], strides[2]))
        return found if all(found._reach(axis) <= images[axis + 1] for axis in (0, 1)) else None

    def _reach(self, axis: int) -> int:
        return (self.pooled[axis + 1] - 1) * self.strides[axis] + self.taps[axis]

    @property
    def are_apart(self) -> bool:
        return all(stride >= taps for stride, taps in zip(self.strides, self.taps, strict=True))

    @property
    def cover(self) -> bool:
        """True if every image element is under a window."""
        return self.strides == self.taps and all(self._reach(axis) == self.images[axis + 1] for axis in (0, 1))

    def places(self) -> list[tuple[list[int], list[int]]]:
        """For each tap, in order, the first image element and the steps from window to window."""
        steps = [1, *self.strides, 1]
        return [([0, row, column, 0], steps) for row in range(self.taps[0]) for column in range(self.taps[1])]

    def under(self, x: Value) -> list[Value]:
        """For each tap what lies under it, in the shape of the result."""
        return [loops.strided(x, starts, self.pooled, steps) for starts, steps in self.places()]


def _real(x: Value) -> bool:
    return x.dtype.kind in ("float", "int", "uint") and x.rank == 4


@register_loops("MaxPool")
def _max_pool(op: LoopContext, x: Value) -> Value | None:
    windows = _Windows.of(op, x.shape, op.shape()) if _real(x) else None
    if windows is None:
        return None
    first, *others = windows.under(x)
    for other in others:
        first = loops.maximum(first, other)
    return first


@register_loops("MaxPoolGrad")
def _max_pool_grad(op: LoopContext, x: Value, pooled: Value, g: Value) -> Value | None:
    """To the first largest element of each window; a NaN is what makes its window NaN."""
    windows = _Windows.of(op, x.shape, pooled.shape) if _real(x) and g.shape == pooled.shape else None
    if windows is None or not windows.are_apart:
        return None
    taken: Value | None = None
    pieces = []
    for value, (starts, steps) in zip(windows.under(x), windows.places(), strict=True):
        hit = loops.equal(value, pooled)
        if x.dtype.is_floating:
            hit = hit | loops.isnan(value)
        own = hit if taken is None else hit & ~taken
        taken = hit if taken is None else taken | hit
        pieces.append((loops.where(own, g, 0), starts, steps))
    return loops.assemble(x.shape, pieces, None if windows.cover else 0)


@register_loops("AvgPool")
def _avg_pool(op: LoopContext, x: Value) -> Value | None:
    windows = _Windows.of(op, x.shape, op.shape()) if _real(x) and x.dtype.is_floating else None
    if windows is None:
        return None
    first, *others = windows.under(widened(x))
    for other in others:
        first = first + other
    return narrowed(first / (windows.taps[0] * windows.taps[1]), x.dtype)


@register_loops("AvgPoolGrad")
def _avg_pool_grad(op: LoopContext, sizes: Value, g: Value) -> Value | None:
    windows = _Windows.of(op, op.shape(), g.shape) if _real(g) and g.dtype.is_floating else None
    if windows is None or not windows.are_apart:
        return None
    share = narrowed(widened(g) / (windows.taps[0] * windows.taps[1]), g.dtype)
    pieces = [(share, starts, steps) for starts, steps in windows.places()]
    return loops.assemble(op.shape(), pieces, None if windows.cover else 0)
