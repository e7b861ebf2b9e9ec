"""Operations that arrange the same elements in another shape or order of axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.shapes import (
    check_per_axis,
    checked_sizes,
    normalize_axes,
    normalize_axis,
    reshaped,
    shape_tensor,
    static_axis,
)
from headrace.types import Array, Shape, broadcast_shapes

__all__ = [
    "broadcast_to",
    "check_broadcast",
    "checked_multiples",
    "expand_dims",
    "permute_dims",
    "permuted_axes",
    "reduction_axes",
    "reshape",
    "squeeze",
    "squeezed_axes",
    "tile",
]


@register_op(
    "Reshape",
    inputs={"tensor": "T", "shape": "Tshape"},
    outputs={"output": "T"},
    attrs={"Tshape": attr.index_type},
)
def _reshape_shape(op: InferenceContext) -> list[Shape]:
    """The same elements, row by row, in another shape; one size may be -1: what is left over."""
    given = op.inputs[0].shape
    sizes = op.constant(1)
    if sizes is None:
        return [op.constant_shape(1)]
    if sizes.ndim > 1:
        raise ShapeError(
            "a shape must be a vector",
            expected="shape [rank]",
            got=str(list(sizes.shape)),
            hint="write the sizes in one flat list, as [2, 3]",
        )
    wanted = [int(size) for size in sizes.reshape(-1)]
    if given.is_fully_defined:
        return [Shape(reshaped(given.as_tuple(), wanted))]
    if wanted.count(-1) > 1 or any(size < -1 for size in wanted):
        raise ShapeError(
            "a shape may have one -1 and no other negative size",
            expected="sizes >= 0",
            got=str(wanted),
            hint="hr.shape(x)[i] is a size that only the step knows",
        )
    return [Shape(wanted)]


@register_op(
    "ExpandDims", inputs={"input": "T", "dim": "Tdim"}, outputs={"output": "T"}, attrs={"Tdim": attr.index_type}
)
def _expand_dims_shape(op: InferenceContext) -> list[Shape]:
    """The input with an axis of size 1 put in at `dim`."""
    dims = op.inputs[0].shape.dims
    axis = static_axis(op.constant(1), None if dims is None else len(dims) + 1)
    if dims is None:
        return [Shape()]
    if axis is None:
        return [Shape([None] * (len(dims) + 1))]
    return [Shape((*dims[:axis], 1, *dims[axis:]))]


@register_op(
    "Squeeze",
    inputs={"input": "T"},
    outputs={"output": "T"},
    attrs={"squeeze_dims": attr.list_of(attr.int(), ())},
)
def _squeeze_shape(op: InferenceContext) -> list[Shape]:
    """The input without the named axes of size 1, or without all of them."""
    dims = op.inputs[0].shape.dims
    axes = op.attr("squeeze_dims")
    if dims is None or (not axes and None in dims):
        return [Shape()]
    removed = squeezed_axes(dims, axes)
    return [Shape(size for axis, size in enumerate(dims) if axis not in removed)]


def squeezed_axes(dims: Sequence[int | None], axes: Sequence[int]) -> tuple[int, ...]:
    """The axes that `Squeeze` removes.

    Raises:
      ShapeError: a named axis is out of range or has another size than 1.
    """
    if not axes:
        return tuple(axis for axis, size in enumerate(dims) if size == 1)
    chosen = tuple(dict.fromkeys(normalize_axis(axis, len(dims)) for axis in axes))
    for axis in chosen:
        if dims[axis] not in (None, 1):
            raise ShapeError(
                f"axis {axis} cannot be squeezed",
                expected="size 1",
                got=f"size {dims[axis]} in {Shape(dims)}",
                hint=f"hr.gather(x, 0, axis={axis}) picks one slice, hr.sum(x, axis={axis}) adds them up",
            )
    return chosen


@register_op("Transpose", inputs={"x": "T", "perm": "Tperm"}, outputs={"y": "T"}, attrs={"Tperm": attr.index_type})
def _transpose_shape(op: InferenceContext) -> list[Shape]:
    """The input with its axes in the order `perm`: axis i of the output is axis perm[i] of the input."""
    dims = op.inputs[0].shape.dims
    permutation = op.constant(1)
    rank = check_per_axis(op.inputs[1].shape, op.inputs[0].shape.rank, "perm")
    if dims is None or permutation is None:
        return [Shape() if rank is None else Shape([None] * rank)]
    return [Shape(dims[axis] for axis in permuted_axes(permutation, len(dims)))]


@register_op(
    "ConjugateTranspose", inputs={"x": "T", "perm": "Tperm"}, outputs={"y": "T"}, attrs={"Tperm": attr.index_type}
)
def _conjugate_transpose_shape(op: InferenceContext) -> list[Shape]:
    """`Transpose` of the complex conjugate; numbers that are not complex stay what they are."""
    return list(_transpose_shape(op))


def permuted_axes(permutation: Array, rank: int) -> tuple[int, ...]:
    """The axes in the order that `perm` asks for.

    Raises:
      ShapeError: it does not name every axis once.
    """
    given = np.asarray(permutation)
    check_per_axis(Shape(given.shape), rank, "perm")
    return normalize_axes([int(axis) for axis in given], rank, what="perm")


@register_op(
    "BroadcastTo", inputs={"input": "T", "shape": "Tidx"}, outputs={"output": "T"}, attrs={"Tidx": attr.index_type}
)
def _broadcast_to_shape(op: InferenceContext) -> list[Shape]:
    """The input repeated along axes of size 1, and along new leading axes, up to the given shape."""
    sizes = op.constant(1)
    if sizes is None:
        return [op.constant_shape(1)]
    target = checked_sizes(sizes)
    check_broadcast(op.inputs[0].shape, target)
    return [Shape(target)]


def check_broadcast(shape: Shape, target: Sequence[int]) -> None:
    """Raise ShapeError unless `shape` can be repeated up to `target`."""
    if shape.dims is None:
        return
    lead = len(target) - len(shape.dims)
    fits = lead >= 0 and all(
        size in (None, 1) or size == wanted for size, wanted in zip(shape.dims, target[lead:], strict=True)
    )
    if not fits:
        raise ShapeError(
            "the tensor cannot be broadcast to the shape",
            expected=f"sizes that are 1 or equal to those of {list(target)}, from the last axis on",
            got=str(shape),
            hint="hr.expand_dims adds axes of size 1, hr.tile repeats larger ones",
        )


@register_op(
    "BroadcastGradientArgs",
    inputs={"s0": "T", "s1": "T"},
    outputs={"r0": "T", "r1": "T"},
    attrs={"T": attr.index_type},
)
def _broadcast_gradient_args_shape(op: InferenceContext) -> list[Shape]:
    """For two shapes that were broadcast together, the axes of the result to sum over to get back to each of them."""
    first, second = op.constant(0), op.constant(1)
    if first is None or second is None:
        return [Shape([None]), Shape([None])]
    return [Shape([len(axes)]) for axes in reduction_axes(checked_sizes(first), checked_sizes(second))]


def reduction_axes(first: Sequence[int], second: Sequence[int]) -> tuple[list[int], list[int]]:
    """The axes that a gradient is summed over; see `BroadcastGradientArgs`.

    Where both sizes are 1 the axis is in both lists, unless the shapes are the same: then there is nothing to sum.

    Raises:
      ShapeError: the shapes do not broadcast together.
    """
    broadcast_shapes(Shape(first), Shape(second))
    if list(first) == list(second):
        return [], []
    rank = max(len(first), len(second))
    padded = [(1,) * (rank - len(sizes)) + tuple(sizes) for sizes in (first, second)]
    ones = [[axis for axis, size in enumerate(sizes) if size == 1] for sizes in padded]
    return ones[0], ones[1]


@register_op("BroadcastArgs", inputs={"s0": "T", "s1": "T"}, outputs={"r0": "T"}, attrs={"T": attr.index_type})
def _broadcast_args_shape(op: InferenceContext) -> list[Shape]:
    """The shape to which two shapes broadcast together."""
    lengths = [spec.shape[0] if spec.shape.rank == 1 else None for spec in op.inputs]
    known = [length for length in lengths if length is not None]
    return [Shape([max(known) if len(known) == 2 else None])]


@register_op(
    "Tile",
    inputs={"input": "T", "multiples": "Tmultiples"},
    outputs={"output": "T"},
    attrs={"Tmultiples": attr.index_type},
)
def _tile_shape(op: InferenceContext) -> list[Shape]:
    """The input repeated multiples[i] times along axis i."""
    dims = op.inputs[0].shape.dims
    multiples = op.constant(1)
    rank = check_per_axis(op.inputs[1].shape, op.inputs[0].shape.rank, "multiples")
    if dims is None or multiples is None:
        return [Shape() if rank is None else Shape([None] * rank)]
    counts = checked_multiples(multiples, len(dims))
    return [
        Shape(
            0 if count == 0 else None if size is None else size * count
            for size, count in zip(dims, counts, strict=True)
        )
    ]


def checked_multiples(multiples: Array, rank: int) -> tuple[int, ...]:
    """The numbers of repetitions, one for each axis.

    Raises:
      ShapeError: there are more or fewer of them than axes, or one is negative.
    """
    given = np.asarray(multiples)
    check_per_axis(Shape(given.shape), rank, "multiples")
    return checked_sizes(given)


def reshape(x: TensorLike, shape: TensorLike, *, name: str | None = None) -> Tensor:
    """The elements of `x`, row by row, in another shape.

    Args:
      x: any dtype and shape.
      shape: an int, a sequence of ints and scalar tensors, or an integer vector; one size may be -1: what is left over.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     x = hr.placeholder(hr.float32, [None, 28, 28])
      ...     print(hr.reshape(x, [hr.shape(x)[0], 784]).shape)
      [?, 784]
    """
    result: Tensor = apply_op("Reshape", x, shape_tensor(shape), name=name)
    return result


def expand_dims(x: TensorLike, axis: TensorLike = 0, *, name: str | None = None) -> Tensor:
    """`x` with an axis of size 1 put in.

    Args:
      x: any dtype, rank n.
      axis: where the new axis stands, in `[-n - 1, n]`.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     print(hr.expand_dims([1, 2, 3], axis=-1).shape)
      [3, 1]
    """
    result: Tensor = apply_op("ExpandDims", x, axis, name=name)
    return result


def squeeze(x: TensorLike, axis: int | Sequence[int] | None = None, *, name: str | None = None) -> Tensor:
    """`x` without axes of size 1.

    Args:
      x: any dtype and shape.
      axis: the axes to remove, each of size 1; by default all of that size.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     print(hr.squeeze(hr.zeros([1, 3, 1]), axis=0).shape)
      [3, 1]
    """
    if axis is not None and not isinstance(axis, int) and not axis:
        raise InvalidArgumentError(
            "squeeze got no axis",
            expected="one or more axes, or None for all of size 1",
            got="[]",
            hint="leave axis out to drop all axes of size 1, or leave out the call to drop none",
        )
    axes = () if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    result: Tensor = apply_op("Squeeze", x, squeeze_dims=axes, name=name)
    return result


def permute_dims(x: TensorLike, axes: TensorLike | None = None, *, name: str | None = None) -> Tensor:
    """`x` with its axes in another order.

    Args:
      x: any dtype, rank n.
      axes: for each axis of the result, which axis of `x` it is; by default all in reverse order.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     print(hr.permute_dims(hr.zeros([2, 3, 4]), [2, 0, 1]).shape)
      [4, 2, 3]
    """
    tensor = convert_to_tensor(x)
    if axes is not None:
        permutation = convert_to_tensor(axes)
    elif tensor.shape.rank is not None:
        permutation = convert_to_tensor(np.arange(tensor.shape.rank - 1, -1, -1, dtype=np.int32))
    else:
        last = apply_op("Sub", apply_op("Rank", tensor), 1)
        permutation = apply_op("Range", last, -1, -1)
    result: Tensor = apply_op("Transpose", tensor, permutation, name=name)
    return result


def broadcast_to(x: TensorLike, shape: TensorLike, *, name: str | None = None) -> Tensor:
    """`x` repeated along axes of size 1, and along new leading axes, up to `shape`.

    Args:
      x: any dtype and shape.
      shape: an int, a sequence of ints and scalar tensors, or an integer vector.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.broadcast_to([1, 2], [2, 2])
      >>> print(hr.Session(graph).run(x))
      [[1 2]
       [1 2]]
    """
    result: Tensor = apply_op("BroadcastTo", x, shape_tensor(shape), name=name)
    return result


def tile(x: TensorLike, multiples: TensorLike, *, name: str | None = None) -> Tensor:
    """`x` repeated `multiples[i]` times along axis i.

    Args:
      x: any dtype, rank n.
      multiples: n ints, or an integer vector `[n]`.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.tile([1, 2], [2])
      >>> print(hr.Session(graph).run(x))
      [1 2 1 2]
    """
    result: Tensor = apply_op("Tile", x, shape_tensor(multiples), name=name)
    return result
