"""Operations that join tensors into one and split one into several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace import types
from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.promotion import promoted
from headrace.ops.shapes import normalize_axis, static_axis
from headrace.types import Array, Shape

__all__ = ["concat", "concatenated", "equal_part", "part_sizes", "split", "stack", "unpacked_axis", "unstack"]

_REST_HINT = "make just one size -1: that part takes what the others leave"


@register_op(
    "ConcatV2",
    inputs={"values": "N*T", "axis": "Tidx"},
    outputs={"output": "T"},
    attrs={"N": attr.int(minimum=2), "Tidx": attr.index_type},
)
def _concat_shape(op: InferenceContext) -> list[Shape]:
    """The inputs one after the other along an axis that they have already."""
    shapes = [spec.shape for spec in op.inputs[:-1]]
    ranks = {shape.rank for shape in shapes} - {None}
    if len(ranks) > 1:
        raise _concat_mismatch(shapes)
    rank = ranks.pop() if ranks else None
    axis = static_axis(op.constant(len(shapes)), rank)
    if rank is None:
        return [Shape()]
    if rank == 0:
        raise ShapeError("scalars cannot be concatenated", expected="rank >= 1", got="shape []", hint="hr.stack")
    if axis is None:
        return [Shape([None] * rank)]
    return [concatenated([shape.with_rank(rank) for shape in shapes], axis)]


def concatenated(shapes: Sequence[Shape], axis: int) -> Shape:
    """The shape of tensors of one rank joined along `axis`.

    Raises:
      ShapeError: they differ elsewhere.
    """
    merged = Shape([None] * len(shapes[0]))
    total: int | None = 0
    for shape in shapes:
        dims = list(shape)
        size, dims[axis] = dims[axis], None
        total = None if total is None or size is None else total + size
        if not merged.is_compatible_with(Shape(dims)):
            raise _concat_mismatch(shapes)
        merged = merged.merge(Shape(dims))
    return Shape(total if index == axis else size for index, size in enumerate(merged))


def _concat_mismatch(shapes: Sequence[Shape]) -> ShapeError:
    return ShapeError(
        "the tensors cannot be concatenated",
        expected="equal ranks, and equal sizes but on the axis along which they are joined",
        got=" and ".join(str(shape) for shape in shapes),
        hint="hr.reshape or slice them first, or choose another axis; hr.stack joins along a new one",
    )


@register_op(
    "ConcatOffset",
    inputs={"concat_dim": "int32", "shape": "N*shape_type"},
    outputs={"offset": "N*shape_type"},
    attrs={"N": attr.int(minimum=2), "shape_type": attr.index_type},
)
def _concat_offset_shape(op: InferenceContext) -> list[Shape]:
    """For each shape, where its tensor starts in the concatenation of them all."""
    return [spec.shape.with_rank(1) for spec in op.inputs[1:]]


@register_op(
    "Split",
    inputs={"split_dim": "int32", "value": "T"},
    outputs={"output": "num_split*T"},
    attrs={"num_split": attr.int(minimum=1)},
)
def _split_shape(op: InferenceContext) -> list[Shape]:
    """The input cut into `num_split` equal parts along an axis."""
    count = op.attr("num_split")
    shape = op.inputs[1].shape
    axis = static_axis(op.constant(0), shape.rank)
    if shape.dims is None:
        return [Shape()] * count
    if axis is None:
        return [Shape([None] * len(shape.dims))] * count
    part = equal_part(shape.dims[axis], count)
    return [Shape((*shape.dims[:axis], part, *shape.dims[axis + 1 :]))] * count


def equal_part(size: int | None, count: int) -> int | None:
    """The size of one of `count` equal parts.

    Raises:
      ShapeError: the size is not a multiple of the count.
    """
    if size is None:
        return None
    if size % count:
        raise ShapeError(
            "the axis cannot be split evenly",
            expected=f"a multiple of {count}",
            got=f"size {size}",
            hint="name the sizes, as in hr.split(x, [3, 2]), or hr.pad the axis",
        )
    return size // count


@register_op(
    "SplitV",
    inputs={"value": "T", "size_splits": "Tlen", "split_dim": "int32"},
    outputs={"output": "num_split*T"},
    attrs={
        "num_split": attr.int(minimum=1),
        "Tlen": attr.type(types.int8, types.int32, types.int64, default=types.int64),
    },
)
def _split_v_shape(op: InferenceContext) -> list[Shape]:
    """The input cut into parts of the given sizes along an axis; one size may be -1: what is left over."""
    count = op.attr("num_split")
    shape = op.inputs[0].shape
    axis = static_axis(op.constant(2), shape.rank)
    if shape.dims is None:
        return [Shape()] * count
    sizes = op.constant(1)
    if axis is None:
        return [Shape([None] * len(shape.dims))] * count
    parts: Sequence[int | None] = [None] * count
    if sizes is not None:
        parts = part_sizes(sizes, shape.dims[axis], count)
    return [Shape((*shape.dims[:axis], part, *shape.dims[axis + 1 :])) for part in parts]


def part_sizes(sizes: Array, total: int | None, count: int) -> list[int | None]:
    """The sizes of the parts of `SplitV`, the -1 among them resolved.

    Raises:
      ShapeError: there are not `count` sizes, several are negative, or they do not add up to `total`.
    """
    given = np.asarray(sizes)
    parts: list[int | None] = [int(size) for size in given.reshape(-1)]
    open_parts = [index for index, size in enumerate(parts) if size == -1]
    if given.shape != (count,) or len(open_parts) > 1 or any(size is not None and size < -1 for size in parts):
        raise ShapeError(
            "the sizes of the parts are wrong",
            expected=f"{count} sizes >= 0, of which one may be -1",
            got=str(given.tolist()),
            hint=_REST_HINT,
        )
    known = sum(size for index, size in enumerate(parts) if size is not None and index not in open_parts)
    if total is not None and (known > total or (not open_parts and known != total)):
        raise ShapeError(
            "the parts do not fit the axis",
            expected=f"sizes that add up to {total}",
            got=str(given.tolist()),
            hint=_REST_HINT,
        )
    for index in open_parts:
        parts[index] = None if total is None else total - known
    return parts


@register_op(
    "Pack",
    inputs={"values": "N*T"},
    outputs={"output": "T"},
    attrs={"N": attr.int(minimum=1), "axis": attr.int(0)},
)
def _pack_shape(op: InferenceContext) -> list[Shape]:
    """The inputs side by side along a new axis."""
    merged = Shape()
    for spec in op.inputs:
        if not merged.is_compatible_with(spec.shape):
            raise ShapeError(
                "the tensors cannot be stacked",
                expected=f"equal shapes, as {merged}",
                got=str(spec.shape),
                hint="hr.concat joins along an axis there is; hr.pad or hr.reshape makes shapes equal",
            )
        merged = merged.merge(spec.shape)
    if merged.dims is None:
        return [Shape()]
    axis = normalize_axis(op.attr("axis"), len(merged.dims) + 1)
    return [Shape((*merged.dims[:axis], len(op.inputs), *merged.dims[axis:]))]


@register_op(
    "Unpack",
    inputs={"value": "T"},
    outputs={"output": "num*T"},
    attrs={"num": attr.int(minimum=0), "axis": attr.int(0)},
)
def _unpack_shape(op: InferenceContext) -> list[Shape]:
    """The `num` slices of the input along an axis, without that axis."""
    dims = op.inputs[0].shape.dims
    if dims is None:
        return [Shape()] * op.attr("num")
    axis = unpacked_axis(dims, op.attr("axis"), op.attr("num"))
    return [Shape((*dims[:axis], *dims[axis + 1 :]))] * op.attr("num")


def unpacked_axis(dims: Sequence[int | None], axis: int, count: int) -> int:
    """The axis that `Unpack` takes apart.

    Raises:
      ShapeError: it is out of range, or not of size `count`.
    """
    number = normalize_axis(axis, len(dims))
    if dims[number] not in (None, count):
        raise ShapeError(
            f"axis {axis} cannot be unstacked",
            expected=f"size {count}",
            got=f"{Shape(dims)}",
            hint="leave out num for one tensor per element; hr.split makes larger parts",
        )
    return number


def concat(values: Sequence[TensorLike] | Tensor, axis: TensorLike | None = 0, *, name: str | None = None) -> Tensor:
    """The tensors one after the other along an axis that they have already.

    Args:
      values: tensors of one rank >= 1, whose shapes agree but for `axis`; other dtypes are promoted.
      axis: the axis; negative ones count from the end. None: each tensor, of any shape, is made a row first.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.concat([[1, 2], [3]])
      >>> print(hr.Session(graph).run(x))
      [1 2 3]
    """
    tensors = promoted(*_several(values, "concat"))
    if axis is None:
        tensors, axis = [apply_op("Reshape", tensor, [-1]) for tensor in tensors], 0
    if len(tensors) == 1:
        single: Tensor = apply_op("Identity", tensors[0], name=name)
        return single
    result: Tensor = apply_op("ConcatV2", tensors, axis, name=name)
    return result


def _several(values: Any, what: str) -> Sequence[TensorLike]:
    if isinstance(values, Tensor):
        return [values[index] for index in range(len(values))]
    tensors = list(values)
    if not tensors:
        raise InvalidArgumentError(
            f"{what} got no tensors",
            expected="one or more tensors",
            got="[]",
            hint="check that the list is filled, or start it with a tensor, such as hr.zeros([0, ...])",
        )
    return tensors


def stack(values: Sequence[TensorLike] | Tensor, axis: int = 0, *, name: str | None = None) -> Tensor:
    """The tensors side by side along a new axis.

    Args:
      values: tensors of one shape, rank n; other dtypes are promoted.
      axis: where the new axis stands, in `[-n - 1, n]`.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.stack([[1, 2], [3, 4]], axis=1)
      >>> print(hr.Session(graph).run(x))
      [[1 3]
       [2 4]]
    """
    result: Tensor = apply_op("Pack", promoted(*_several(values, "stack")), axis=axis, name=name)
    return result


def unstack(x: TensorLike, *, axis: int = 0, num: int | None = None, name: str | None = None) -> tuple[Tensor, ...]:
    """The slices of `x` along an axis, without that axis.

    Args:
      x: any dtype, rank >= 1.
      axis: the axis.
      num: its size, needed only where it is not known statically.
      name: the operation's name.
    Raises:
      ShapeError: the size of the axis is not known and `num` is not given.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     a, b = hr.unstack([[1, 2], [3, 4]])
      >>> print(hr.Session(graph).run(b))
      [3 4]
    """
    tensor = convert_to_tensor(x)
    if num is None:
        num = _known_size(tensor, axis, "num")
    result: tuple[Tensor, ...] = apply_op("Unpack", tensor, axis=axis, num=num, name=name)
    return result


def _known_size(tensor: Tensor, axis: int, needed: str) -> int:
    size = None
    if tensor.shape.rank is not None:
        size = tensor.shape[normalize_axis(axis, tensor.shape.rank)]
    if size is None:
        raise ShapeError(
            f"the size of axis {axis} is not known",
            where=tensor.op.location,
            expected=f"a static size, or {needed}",
            got=str(tensor.shape),
            hint="hr.ensure_shape states a size that was lost on the way",
        )
    return size


def split(
    x: TensorLike,
    parts: int | Sequence[int] | TensorLike,
    axis: TensorLike = 0,
    *,
    num: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """`x` cut along an axis.

    Args:
      x: any dtype, rank >= 1.
      parts: a number of equal parts, or the sizes of the parts, of which one may be -1: what is left over.
      axis: the axis; negative ones count from the end.
      num: the number of sizes, needed only where `parts` is a vector of unknown length.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     a, b = hr.split([1, 2, 3, 4, 5], [2, -1])
      >>> print(hr.Session(graph).run(b))
      [3 4 5]
    """
    tensor = convert_to_tensor(x)
    result: Any
    if isinstance(parts, (int, np.integer)):
        result = apply_op("Split", axis, tensor, num_split=int(parts), name=name)
    else:
        sizes = convert_to_tensor(parts)
        count = _known_size(sizes, 0, "num") if num is None else num
        result = apply_op("SplitV", tensor, sizes, axis, num_split=count, name=name)
    outputs: tuple[Tensor, ...] = result
    return outputs
