"""Loop rules of what lies between products of integers: to integers and back, and sums at one scale."""

from __future__ import annotations

import numpy as np

from headrace.loops import functions as loops
from headrace.loops.registry import LoopContext, register_loops
from headrace.loops.value import Value
from headrace.types import float32, int8, int32, uint8

__all__: list[str] = []

_BYTES = {"qint8": int8, "quint8": uint8}
_EXACT = 1 << 23
"""Zero points up to here leave all limits exact in float32."""


def _along(parameters: Value, axis: int, rank: int) -> Value:
    """Scales or zero points, shaped to broadcast with a tensor of that rank."""
    return (
        parameters if axis == -1 else loops.expand_dims(parameters, [place for place in range(rank) if place != axis])
    )


def _positive(op: LoopContext, position: int) -> bool:
    """True if scales are known and above 0: the kernel refuses others."""
    scales = op.constants[position]
    return scales is not None and bool(np.all(scales > 0))


@register_loops("UniformQuantize")
def _quantize(op: LoopContext, x: Value, scales: Value, zero_points: Value) -> Value | None:
    """Clamped before it becomes an integer, since large floats do not fit; NaN becomes the lowest, as in the kernel."""
    axis, low, high = op.attr("quantization_axis"), op.attr("quantization_min_val"), op.attr("quantization_max_val")
    target, zeros = _BYTES.get(op.attr("Tout").name), op.constants[2]
    if target is None or zeros is None or np.any(np.abs(zeros.astype(np.int64)) > _EXACT) or not _positive(op, 1):
        return None
    zero = _along(zero_points, axis, x.rank)
    steps = loops.floor(x * (1.0 / _along(scales, axis, x.rank)) + 0.5)
    near = loops.cast(loops.minimum(steps, loops.cast(high - zero, float32)), int32)
    return loops.cast(loops.maximum(near, low - zero) + zero, target)


@register_loops("UniformDequantize")
def _dequantize(op: LoopContext, x: Value, scales: Value, zero_points: Value) -> Value | None:
    if not _positive(op, 1):
        return None
    axis = op.attr("quantization_axis")
    steps = loops.cast(x, int32) - _along(zero_points, axis, x.rank)
    return loops.cast(steps, float32) * _along(scales, axis, x.rank)


@register_loops("UniformQuantizedAdd")
def _add(op: LoopContext, a: Value, b: Value, *parameters: Value) -> Value | None:
    """Only where both terms have the scales of the sum, and all zero points are 0: then nothing is rounded."""
    scales, zeros = op.constants[2::2], op.constants[3::2]
    if any(item is None for item in (*scales, *zeros)) or any(np.any(zero) for zero in zeros if zero is not None):
        return None
    if any(not np.array_equal(scale, scales[2]) for scale in scales[:2]) or not _positive(op, 6):  # type: ignore[arg-type]
        return None
    return loops.minimum(
        loops.maximum(a + b, op.attr("output_quantization_min_val")), op.attr("output_quantization_max_val")
    )
