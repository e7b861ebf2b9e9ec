"""NumPy kernels that move blocks of pixels."""

from __future__ import annotations

import math

import numpy as np

from headrace.errors import ShapeError
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.ops.blocks import block_sizes, cropped
from headrace.ops.shapes import checked_sizes
from headrace.types import Array, string


def _images(op: OpContext, x: Array) -> Array:
    """The images as `[batch, height, width, depth]`."""
    return x if op.attr("data_format") == "NHWC" else np.moveaxis(x, 1, 3)


def _formatted(op: OpContext, images: Array) -> Array:
    return images if op.attr("data_format") == "NHWC" else np.moveaxis(images, 3, 1)


@register_kernel("SpaceToDepth")
def _space_to_depth(op: OpContext, x: Array) -> Array:
    images, block = _images(op, x), op.attr("block_size")
    batch, height, width, depth = images.shape
    apart = images.reshape(batch, height // block, block, width // block, block, depth).transpose(0, 1, 3, 2, 4, 5)
    return np.array(_formatted(op, apart.reshape(batch, height // block, width // block, depth * block * block)))


@register_kernel("DepthToSpace")
def _depth_to_space(op: OpContext, x: Array) -> Array:
    images, block = _images(op, x), op.attr("block_size")
    batch, height, width, depth = images.shape
    part = depth // (block * block)
    apart = images.reshape(batch, height, width, block, block, part).transpose(0, 1, 3, 2, 4, 5)
    return np.array(_formatted(op, apart.reshape(batch, height * block, width * block, part)))


_CURES = {
    "padded size": "enlarge the paddings",
    "batch": "pass the block_shape that went to hr.space_to_batch",
}


def _check_multiple(size: int, block: int, what: str) -> None:
    if size % block:
        raise ShapeError(
            f"the {what} is no multiple of the block",
            expected=f"a multiple of {block}",
            got=str(size),
            hint=_CURES[what],
        )


@register_kernel("SpaceToBatchND")
def _space_to_batch(op: OpContext, x: Array, block_shape: Array, paddings: Array) -> Array:
    x = np.asarray(x)
    block, pads = block_sizes(block_shape, paddings, x.ndim, "paddings")
    count, rest = len(block), x.shape[1 + len(block) :]
    sizes = [size + before + after for size, (before, after) in zip(x.shape[1:], pads, strict=False)]
    for size, part in zip(sizes, block, strict=True):
        _check_multiple(size, part, "padded size")
    padded = np.full(checked_sizes((x.shape[0], *sizes, *rest)), b"" if op.attr("T") is string else 0, x.dtype)
    inner = [slice(before, before + size) for size, (before, _) in zip(x.shape[1:], pads, strict=False)]
    padded[(slice(None), *inner)] = x
    spatial = [size // part for size, part in zip(sizes, block, strict=True)]
    split = [number for pair in zip(spatial, block, strict=True) for number in pair]
    apart = padded.reshape(x.shape[0], *split, *rest)
    order = [2 + 2 * axis for axis in range(count)] + [0] + [1 + 2 * axis for axis in range(count)]
    moved = apart.transpose(*order, *range(1 + 2 * count, apart.ndim))
    return np.array(moved.reshape(x.shape[0] * math.prod(block), *spatial, *rest))


@register_kernel("BatchToSpaceND")
def _batch_to_space(op: OpContext, x: Array, block_shape: Array, crops: Array) -> Array:
    x = np.asarray(x)
    block, cuts = block_sizes(block_shape, crops, x.ndim, "crops")
    count, total, rest = len(block), math.prod(block), x.shape[1 + len(block) :]
    _check_multiple(x.shape[0], total, "batch")
    batch = x.shape[0] // total
    apart = x.reshape(*block, batch, *x.shape[1:])
    order = [count] + [axis for pair in range(count) for axis in (count + 1 + pair, pair)]
    moved = apart.transpose(*order, *range(1 + 2 * count, apart.ndim))
    sizes = [size * part for size, part in zip(x.shape[1:], block, strict=False)]
    whole = moved.reshape(checked_sizes((batch, *sizes, *rest)))
    kept = [
        slice(before, before + cropped(size, before, after)) for size, (before, after) in zip(sizes, cuts, strict=True)
    ]
    return np.array(whole[(slice(None), *kept)])
