"""NumPy kernels that put elements around a tensor."""

from __future__ import annotations

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.ops.padding import check_mirror, checked_paddings, unpadded_sizes
from headrace.ops.shapes import checked_sizes
from headrace.types import Array, string


@register_kernel("Pad", takes_out=True)
def _pad(op: OpContext, x: Array, paddings: Array, out: Array | None = None) -> Array:
    return _padded(np.asarray(x), paddings, b"" if op.attr("T") is string else 0, out)


@register_kernel("PadV2", takes_out=True)
def _pad_v2(op: OpContext, x: Array, paddings: Array, constant_values: Array, out: Array | None = None) -> Array:
    return _padded(np.asarray(x), paddings, constant_values, out)


def _padded(x: Array, paddings: Array, value: object, out: Array | None) -> Array:
    amounts = checked_paddings(paddings, x.ndim)
    if out is None:
        out = np.empty(checked_sizes([size + sum(pair) for size, pair in zip(x.shape, amounts, strict=True)]), x.dtype)
    out[...] = value
    out[tuple(slice(before, before + size) for size, (before, _) in zip(x.shape, amounts, strict=True))] = x
    return out


@register_kernel("MirrorPad")
def _mirror_pad(op: OpContext, x: Array, paddings: Array) -> Array:
    x = np.asarray(x)
    amounts = checked_paddings(paddings, x.ndim)
    check_mirror(amounts, x.shape, op.attr("mode"))
    if not x.ndim:
        return np.array(x)
    return x[np.ix_(*(_sources(size, *pair, op.attr("mode")) for size, pair in zip(x.shape, amounts, strict=True)))]


def _sources(size: int, before: int, after: int, mode: str) -> Array:
    """For each position of a padded axis, which element of the axis it shows."""
    edge = 1 if mode == "REFLECT" else 0
    left = np.arange(before - 1 + edge, edge - 1, -1)
    right = np.arange(size - 1 - edge, size - 1 - edge - after, -1)
    return np.concatenate([left, np.arange(size), right])


@register_kernel("MirrorPadGrad")
def _mirror_pad_grad(op: OpContext, g: Array, paddings: Array) -> Array:
    """One axis after the other, each position of the padding is added to the element it shows."""
    g = np.asarray(g)
    amounts = checked_paddings(paddings, g.ndim)
    sizes = [size or 0 for size in unpadded_sizes(g.shape, amounts)]
    check_mirror(amounts, sizes, op.attr("mode"))
    total = np.array(g)
    for axis, (size, pair) in enumerate(zip(sizes, amounts, strict=True)):
        folded = np.zeros((*total.shape[:axis], size, *total.shape[axis + 1 :]), g.dtype)
        np.add.at(np.moveaxis(folded, axis, 0), _sources(size, *pair, op.attr("mode")), np.moveaxis(total, axis, 0))
        total = folded
    return total
