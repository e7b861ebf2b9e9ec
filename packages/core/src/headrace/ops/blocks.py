"""Operations that move blocks of pixels between the spatial axes of images and their depth or batch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.types import Array, Shape

__all__ = ["batch_to_space", "block_sizes", "cropped", "depth_to_space", "space_to_batch", "space_to_depth"]

_ATTRS = {
    "block_size": attr.int(minimum=2),
    "data_format": attr.string("NHWC", allowed=["NHWC", "NCHW"]),
}


@register_op("SpaceToDepth", inputs={"input": "T"}, outputs={"output": "T"}, attrs=_ATTRS)
def _space_to_depth_shape(op: InferenceContext) -> list[Shape]:
    """Each block of block_size x block_size pixels as one pixel with the depths of all of them."""
    block = op.attr("block_size")
    batch, height, width, depth = _image_sizes(op)
    sizes = [_divided(height, block, "height"), _divided(width, block, "width")]
    return [_image_shape(op, batch, sizes, None if depth is None else depth * block * block)]


@register_op("DepthToSpace", inputs={"input": "T"}, outputs={"output": "T"}, attrs=_ATTRS)
def _depth_to_space_shape(op: InferenceContext) -> list[Shape]:
    """Each pixel as a block of block_size x block_size pixels among which its depth is divided."""
    block = op.attr("block_size")
    batch, height, width, depth = _image_sizes(op)
    sizes = [None if size is None else size * block for size in (height, width)]
    return [_image_shape(op, batch, sizes, _divided(depth, block * block, "depth"))]


def _image_sizes(op: InferenceContext) -> tuple[int | None, ...]:
    """Batch, height, width and depth, whatever the data format."""
    sizes = tuple(op.inputs[0].shape.with_rank(4))
    return sizes if op.attr("data_format") == "NHWC" else (sizes[0], sizes[2], sizes[3], sizes[1])


def _image_shape(op: InferenceContext, batch: int | None, sizes: Sequence[int | None], depth: int | None) -> Shape:
    return Shape([batch, *sizes, depth] if op.attr("data_format") == "NHWC" else [batch, depth, *sizes])


def _divided(size: int | None, block: int, what: str) -> int | None:
    if size is not None and size % block:
        raise ShapeError(
            f"the {what} is no multiple of the block",
            expected=f"a multiple of {block}",
            got=str(size),
            hint=f"hr.pad up to a multiple, or choose a block that divides {size}",
        )
    return None if size is None else size // block


@register_op(
    "SpaceToBatchND",
    inputs={"input": "T", "block_shape": "Tblock_shape", "paddings": "Tpaddings"},
    outputs={"output": "T"},
    attrs={"Tblock_shape": attr.index_type, "Tpaddings": attr.index_type},
)
def _space_to_batch_shape(op: InferenceContext) -> list[Shape]:
    """The spatial axes padded and cut into blocks; element k of all blocks forms part k of a larger batch."""
    block, paddings = op.constant(1), op.constant(2)
    shape = op.inputs[0].shape
    if block is None or paddings is None or shape.dims is None:
        return [Shape() if shape.rank is None else Shape([None] * shape.rank)]
    sizes = block_sizes(block, paddings, len(shape.dims), "paddings")
    spatial = [
        None if size is None else _divided(size + before + after, part, "padded size")
        for size, part, (before, after) in zip(shape.dims[1:], *sizes, strict=False)
    ]
    return [_batched(shape, spatial, lambda batch: batch * math.prod(sizes[0]))]


@register_op(
    "BatchToSpaceND",
    inputs={"input": "T", "block_shape": "Tblock_shape", "crops": "Tcrops"},
    outputs={"output": "T"},
    attrs={"Tblock_shape": attr.index_type, "Tcrops": attr.index_type},
)
def _batch_to_space_shape(op: InferenceContext) -> list[Shape]:
    """The inverse of `SpaceToBatchND`, with crops in place of paddings."""
    block, crops = op.constant(1), op.constant(2)
    shape = op.inputs[0].shape
    if block is None or crops is None or shape.dims is None:
        return [Shape() if shape.rank is None else Shape([None] * shape.rank)]
    sizes = block_sizes(block, crops, len(shape.dims), "crops")
    spatial = [
        None if size is None else cropped(size * part, before, after)
        for size, part, (before, after) in zip(shape.dims[1:], *sizes, strict=False)
    ]
    return [_batched(shape, spatial, lambda batch: _divided(batch, math.prod(sizes[0]), "batch"))]


def _batched(shape: Shape, spatial: Sequence[int | None], batch: object) -> Shape:
    dims = tuple(shape)
    changed = batch(dims[0]) if dims[0] is not None and callable(batch) else None
    return Shape((changed, *spatial, *dims[1 + len(spatial) :]))


def block_sizes(block: Array, amounts: Array, rank: int, what: str) -> tuple[list[int], list[tuple[int, int]]]:
    """The sizes of a block, and how much to pad or crop before and after, one for each spatial axis.

    Raises:
      ShapeError: they do not belong together, or speak of more axes than there are.
      InvalidArgumentError: a block is empty, or an amount negative.
    """
    sizes, pairs = np.asarray(block), np.asarray(amounts)
    if sizes.ndim != 1 or sizes.size >= rank or pairs.shape != (sizes.size, 2):
        raise ShapeError(
            f"block_shape and {what} do not fit",
            expected=f"shapes [m] and [m, 2] with m < {rank}",
            got=f"{list(sizes.shape)} and {list(pairs.shape)}",
            hint="give each spatial axis one block size and one pair [before, after]",
        )
    if sizes.size and (sizes.min() < 1 or pairs.min() < 0):
        raise InvalidArgumentError(
            f"block_shape or {what} are out of range",
            expected=f"blocks >= 1, {what} >= 0",
            got=f"{sizes.tolist()}, {pairs.tolist()}",
            hint="a block of 1 and the pair [0, 0] leave an axis as it is",
        )
    return [int(size) for size in sizes], [(int(before), int(after)) for before, after in pairs]


def cropped(size: int, before: int, after: int) -> int:
    """What is left of an axis.

    Raises:
      ShapeError: the crops are longer than the axis.
    """
    if before + after > size:
        raise ShapeError(
            "the crops exceed the axis",
            expected=f"crops within {size}",
            got=f"{before} + {after}",
            hint="use the paddings of hr.space_to_batch as the crops",
        )
    return size - before - after


def space_to_depth(x: TensorLike, block_size: int, *, data_format: str = "NHWC", name: str | None = None) -> Tensor:
    """Each block of pixels as one pixel with the depths of all of them.

    Args:
      x: any dtype `[batch, height, width, depth]`, or `[batch, depth, height, width]` for NCHW.
      block_size: height and width of a block in pixels, at least 2.
      data_format: NHWC or NCHW.
      name: the operation's name.
    Returns:
      `[batch, height / block_size, width / block_size, depth * block_size ** 2]`, or the same in NCHW.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     print(hr.space_to_depth(hr.zeros([1, 4, 6, 3]), 2).shape)
      [1, 2, 3, 12]
    """
    result: Tensor = apply_op("SpaceToDepth", x, block_size=block_size, data_format=data_format, name=name)
    return result


def depth_to_space(x: TensorLike, block_size: int, *, data_format: str = "NHWC", name: str | None = None) -> Tensor:
    """Each pixel as a block of pixels among which its depth is divided; the inverse of `space_to_depth`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     print(hr.depth_to_space(hr.zeros([1, 2, 3, 12]), 2).shape)
      [1, 4, 6, 3]
    """
    result: Tensor = apply_op("DepthToSpace", x, block_size=block_size, data_format=data_format, name=name)
    return result


def space_to_batch(x: TensorLike, block_shape: TensorLike, paddings: TensorLike, *, name: str | None = None) -> Tensor:
    """The spatial axes padded and cut into blocks; element k of all blocks forms part k of a larger batch.

    Args:
      x: any dtype `[batch, spatial..., rest...]`.
      block_shape: int32 or int64 `[m]`, the size of a block along each of m spatial axes.
      paddings: int32 or int64 `[m, 2]`, zeros before and after each of them; the padded sizes must be multiples of
        the block.
      name: the operation's name.
    Returns:
      `[batch * prod(block_shape), padded / block..., rest...]`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     print(hr.space_to_batch(hr.zeros([1, 5, 3]), [2], [[0, 1]]).shape)
      [2, 3, 3]
    """
    result: Tensor = apply_op("SpaceToBatchND", x, block_shape, paddings, name=name)
    return result


def batch_to_space(x: TensorLike, block_shape: TensorLike, crops: TensorLike, *, name: str | None = None) -> Tensor:
    """The inverse of `space_to_batch`, with `crops` in place of paddings.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     print(hr.batch_to_space(hr.zeros([2, 3, 3]), [2], [[0, 1]]).shape)
      [1, 5, 3]
    """
    result: Tensor = apply_op("BatchToSpaceND", x, block_shape, crops, name=name)
    return result
