"""NumPy kernels that turn axes around."""

from __future__ import annotations

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.ops.reversal import check_lengths, check_roll, reversed_axes, sequence_axes
from headrace.ops.shapes import normalize_axis
from headrace.types import Array, Shape


@register_kernel("ReverseV2", aliases=[0])
def _reverse(op: OpContext, x: Array, axis: Array) -> Array:
    x = np.asarray(x)
    return np.flip(x, reversed_axes(axis, x.ndim))


@register_kernel("ReverseSequence")
def _reverse_sequence(op: OpContext, x: Array, seq_lengths: Array) -> Array:
    x, lengths = np.asarray(x), np.asarray(seq_lengths)
    along, batch = sequence_axes(x.shape, Shape(lengths.shape), op.attr("seq_dim"), op.attr("batch_dim"))
    check_lengths(lengths, x.shape[along])
    result: Array = np.array(x)
    source, target = (np.moveaxis(array, (batch, along), (0, 1)) for array in (x, result))
    for item, length in enumerate(lengths):
        target[item, :length] = source[item, :length][::-1]
    return result


@register_kernel("Roll")
def _roll(op: OpContext, x: Array, shift: Array, axis: Array) -> Array:
    x, shift, axis = np.asarray(x), np.asarray(shift), np.asarray(axis)
    check_roll(Shape(shift.shape), Shape(axis.shape))
    result = np.array(x)
    for places, number in zip(shift.reshape(-1), axis.reshape(-1), strict=True):
        result = np.roll(result, int(places), normalize_axis(int(number), x.ndim))
    return result
