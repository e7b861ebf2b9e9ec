"""Sparse tensors (`hr.sparse`): a tuple of dense tensors, indices, values and shape (paper, section 3.1).

m elements of a tensor of n axes are a matrix of indices `[m, n]`, a vector of values `[m]` and a vector of sizes `[n]`.
Operations that say so want the indices in row-major order; `reorder` brings them into it. Half of the length is the
users' documentation; definitions and user functions stay together, as in every family.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from headrace import types
from headrace.errors import ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.array import placeholder as dense_placeholder
from headrace.ops.shapes import check_scalar, checked_sizes, normalize_axes, normalize_axis
from headrace.types import DType, DTypeLike, Shape, ShapeLike, as_shape

__all__ = [
    "SparseTensor",
    "add",
    "concat",
    "fill_empty_rows",
    "from_dense",
    "matmul",
    "multiply",
    "placeholder",
    "reorder",
    "reshape",
    "slice",
    "softmax",
    "split",
    "sum",
    "to_dense",
]

_INDEX = attr.type(types.int32, types.int64)


def _parts(op: InferenceContext, first: int = 0) -> tuple[int | None, int | None, Shape]:
    """Elements, axes and shape of the sparse tensor whose parts start at input `first`; the parts must fit together."""
    indices = op.inputs[first].shape.with_rank(2)
    values = op.inputs[first + 1].shape.with_rank(1)
    sizes = op.inputs[first + 2].shape.with_rank(1)
    if not Shape([indices[0]]).is_compatible_with(values) or not Shape([indices[1]]).is_compatible_with(sizes):
        raise ShapeError(
            "the parts of the sparse tensor do not fit together",
            expected="indices [m, n], values [m], shape [n]",
            got=f"indices {indices}, values {values}, shape {sizes}",
            hint="give each value a row of coordinates; hr.sparse.from_dense makes all three parts",
        )
    count = values[0] if indices[0] is None else indices[0]
    rank = sizes[0] if indices[1] is None else indices[1]
    known = op.constant(first + 2)
    if known is not None:
        return count, rank, Shape(int(size) if size >= 0 else None for size in known)
    return count, rank, Shape() if rank is None else Shape([None] * rank)


def _tuple_of(count: int | None, rank: int | None) -> list[Shape]:
    return [Shape([count, rank]), Shape([count]), Shape([rank])]


def _sparse(prefix: str, kind: str = "T", index: str = "int64") -> dict[str, str]:
    return {f"{prefix}_indices": index, f"{prefix}_values": kind, f"{prefix}_shape": "int64"}


@register_op(
    "SparseToDense",
    inputs={"sparse_indices": "Tindices", "output_shape": "Tindices", "sparse_values": "T", "default_value": "T"},
    outputs={"dense": "T"},
    attrs={"validate_indices": attr.bool(True), "T": attr.any_type, "Tindices": _INDEX},
)
def _to_dense_shape(op: InferenceContext) -> list[Shape]:
    """The dense tensor with the values at the indices and a default elsewhere; the last of repeated indices stays."""
    indices, sizes, values, default = (spec.shape for spec in op.inputs)
    check_scalar(default, "default_value")
    if (indices.rank or 0) > 2 or (values.rank or 0) > 1:
        raise ShapeError(
            "too many axes",
            expected="indices [m, n], values [m] or []",
            got=f"{indices}, {values}",
            hint="flatten them: hr.reshape(indices, [-1, n]) and hr.reshape(values, [-1])",
        )
    sizes.with_rank(1)
    known = op.constant(1)
    return [op.constant_shape(1) if known is None else Shape(checked_sizes(known))]


@register_op(
    "SparseTensorDenseMatMul",
    inputs={"a_indices": "Tindices", "a_values": "T", "a_shape": "int64", "b": "T"},
    outputs={"product": "T"},
    attrs={
        "T": attr.numeric,
        "Tindices": attr.type(types.int32, types.int64, default=types.int64),
        "adjoint_a": attr.bool(False),
        "adjoint_b": attr.bool(False),
    },
)
def _matmul_shape(op: InferenceContext) -> list[Shape]:
    """A sparse matrix times a dense one; either may be transposed and conjugated first."""
    _, rank, a = _parts(op)
    if rank not in (None, 2):
        raise ShapeError(
            "only matrices can be multiplied",
            expected="a_shape [2]",
            got=f"[{rank}]",
            hint="hr.sparse.reshape it to a matrix; hr.matmul(hr.sparse.to_dense(a), b) goes through a batch",
        )
    a, b = a.with_rank(2), op.inputs[3].shape.with_rank(2)
    rows, inner = (a[1], a[0]) if op.attr("adjoint_a") else (a[0], a[1])
    contracted, columns = (b[1], b[0]) if op.attr("adjoint_b") else (b[0], b[1])
    if not Shape([inner]).is_compatible_with(Shape([contracted])):
        raise ShapeError(
            "the matrices do not fit",
            expected=f"{inner} rows",
            got=f"{contracted} rows",
            hint="adjoint_a=True or adjoint_b=True turns one that lies the other way",
        )
    return [Shape([rows, columns])]


@register_op(
    "SparseReorder",
    inputs=_sparse("input"),
    outputs={"output_indices": "int64", "output_values": "T"},
    attrs={"T": attr.any_type},
)
def _reorder_shape(op: InferenceContext) -> list[Shape]:
    """The same sparse tensor with its indices in row-major order; elements of one index keep their order."""
    count, rank, _ = _parts(op)
    return _tuple_of(count, rank)[:2]


@register_op(
    "SparseAdd",
    inputs={**_sparse("a"), **_sparse("b"), "thresh": "Treal"},
    outputs=_sparse("sum"),
    attrs={"T": attr.numeric, "Treal": attr.ordered},
)
def _add_shape(op: InferenceContext) -> list[Shape]:
    """The sum of two sparse tensors; sums of two elements of a magnitude below `thresh` are left out."""
    _, rank, shape = _parts(op)
    _, other_rank, other = _parts(op, 3)
    check_scalar(op.inputs[6].shape, "thresh")
    if not shape.is_compatible_with(other):
        raise ShapeError(
            "sparse tensors of different shapes cannot be added",
            expected=str(shape),
            got=str(other),
            hint="hr.sparse.reshape one; hr.sparse.to_dense(x) + y broadcasts",
        )
    return _tuple_of(None, other_rank if rank is None else rank)


@register_op(
    "SparseReshape",
    inputs={"input_indices": "int64", "input_shape": "int64", "new_shape": "int64"},
    outputs={"output_indices": "int64", "output_shape": "int64"},
)
def _reshape_shape(op: InferenceContext) -> list[Shape]:
    """The indices that the elements have in another shape, of which one size may be -1."""
    indices, sizes, wanted = op.inputs[0].shape.with_rank(2), op.inputs[1].shape.with_rank(1), op.inputs[2].shape
    if not Shape([indices[1]]).is_compatible_with(sizes):
        raise ShapeError(
            "the shape does not fit the indices",
            expected=f"[{indices[1]}]",
            got=str(sizes),
            hint="hr.sparse.reshape(x, shape) passes the indices and shape that belong together",
        )
    rank = wanted.with_rank(1)[0]
    return [Shape([indices[0], rank]), Shape([rank])]


@register_op(
    "SparseConcat",
    inputs={"indices": "N*int64", "values": "N*T", "shapes": "N*int64"},
    outputs=_sparse("output"),
    attrs={"concat_dim": attr.int(), "N": attr.int(minimum=2), "T": attr.any_type},
)
def _concat_shape(op: InferenceContext) -> list[Shape]:
    """Sparse tensors one after the other along an axis, in row-major order."""
    number = op.attr("N")
    counts: list[int | None] = []
    rank = Shape([None])
    for position in range(number):
        indices = op.inputs[position].shape.with_rank(2)
        values = op.inputs[number + position].shape.with_rank(1)
        sizes = op.inputs[2 * number + position].shape.with_rank(1)
        counts.append(Shape([indices[0]]).merge(values)[0])
        rank = rank.merge(sizes).merge(Shape([indices[1]]))
    if rank[0] is not None:
        normalize_axis(op.attr("concat_dim"), rank[0], what="concat_dim")
    known = [count for count in counts if count is not None]
    total = None if len(known) < number else int(np.sum(known, dtype=object))
    return _tuple_of(total, rank[0])


@register_op(
    "SparseSlice",
    inputs={"indices": "int64", "values": "T", "shape": "int64", "start": "int64", "size": "int64"},
    outputs=_sparse("output"),
    attrs={"T": attr.any_type},
)
def _slice_shape(op: InferenceContext) -> list[Shape]:
    """The elements inside a box, with indices from its start on; what lies beyond the shape is cut off."""
    _, rank, _ = _parts(op)
    for index in (3, 4):
        if not op.inputs[index].shape.is_compatible_with(Shape([rank])):
            raise ShapeError(
                "a box has a number for each axis",
                expected=f"[{rank}]",
                got=str(op.inputs[index].shape),
                hint="to keep an axis whole, begin at 0 and give its size",
            )
    return _tuple_of(None, rank)


@register_op(
    "SparseReduceSum",
    inputs={**_sparse("input"), "reduction_axes": "int32"},
    outputs={"output": "T"},
    attrs={"keep_dims": attr.bool(False), "T": attr.numeric},
)
def _reduce_sum_shape(op: InferenceContext) -> list[Shape]:
    """The sum over some axes, as a dense tensor."""
    _, rank, shape = _parts(op)
    axes = op.constant(3)
    if (op.inputs[3].shape.rank or 0) > 1:
        raise ShapeError(
            "axes must be a vector",
            expected="[axes]",
            got=str(op.inputs[3].shape),
            hint="list them, as in hr.sparse.sum(x, axis=[0, 1]), or hr.reshape(axes, [-1])",
        )
    if shape.dims is None or axes is None:
        return [shape if rank is not None and op.attr("keep_dims") and axes is not None else Shape()]
    summed = set(normalize_axes(axes.reshape(-1), len(shape)))
    if op.attr("keep_dims"):
        return [Shape(1 if axis in summed else size for axis, size in enumerate(shape.dims))]
    return [Shape(size for axis, size in enumerate(shape.dims) if axis not in summed)]


@register_op(
    "SparseFillEmptyRows",
    inputs={"indices": "int64", "values": "T", "dense_shape": "int64", "default_value": "T"},
    outputs={
        "output_indices": "int64",
        "output_values": "T",
        "empty_row_indicator": "bool",
        "reverse_index_map": "int64",
    },
    attrs={"T": attr.any_type},
)
def _fill_empty_rows_shape(op: InferenceContext) -> list[Shape]:
    """Rows without elements get one, the default at column 0; and where each element of the input went."""
    count, rank, shape = _parts(op)
    check_scalar(op.inputs[3].shape, "default_value")
    if rank == 0:
        raise ShapeError(
            "a scalar has no rows", expected="rank >= 1", got="[]", hint="hr.sparse.reshape(x, [1]) makes it one row"
        )
    rows = None if shape.dims is None else shape[0]
    return [Shape([None, rank]), Shape([None]), Shape([rows]), Shape([count])]


@register_op(
    "SparseFillEmptyRowsGrad",
    inputs={"reverse_index_map": "int64", "grad_values": "T"},
    outputs={"d_values": "T", "d_default_value": "T"},
    attrs={"T": attr.numeric},
)
def _fill_empty_rows_grad_shape(op: InferenceContext) -> list[Shape]:
    """The gradients of the values and of the default of `SparseFillEmptyRows`."""
    op.inputs[1].shape.with_rank(1)
    return [op.inputs[0].shape.with_rank(1), Shape([])]


@register_op(
    "SparseSoftmax",
    inputs=_sparse("sp"),
    outputs={"output": "T"},
    attrs={"T": attr.type(types.float16, types.float32, types.float64)},
)
def _softmax_shape(op: InferenceContext) -> list[Shape]:
    """The softmax of the elements that each row (the last axis) has; absent ones take no part. Indices are in order."""
    count, rank, _ = _parts(op)
    if rank is not None and rank < 2:
        raise ShapeError(
            "a softmax goes over the rows of a matrix",
            expected="rank >= 2",
            got=f"rank {rank}",
            hint="hr.sparse.reshape(x, [1, -1]) makes a vector one row",
        )
    return [Shape([count])]


@register_op(
    "SparseTensorDenseAdd",
    inputs={"a_indices": "Tindices", "a_values": "T", "a_shape": "Tindices", "b": "T"},
    outputs={"output": "T"},
    attrs={"T": attr.numeric, "Tindices": _INDEX},
)
def _dense_add_shape(op: InferenceContext) -> list[Shape]:
    """A sparse tensor plus a dense one of its shape; elements of one index are all added."""
    _, _, shape = _parts(op)
    if not shape.is_compatible_with(op.inputs[3].shape):
        raise ShapeError(
            "the shapes differ",
            expected=str(shape),
            got=str(op.inputs[3].shape),
            hint="hr.broadcast_to the dense side first, or hr.sparse.reshape the sparse one",
        )
    return [shape.merge(op.inputs[3].shape)]


@register_op(
    "SparseDenseCwiseMul",
    inputs={**_sparse("sp"), "dense": "T"},
    outputs={"output": "T"},
    attrs={"T": attr.numeric},
)
def _dense_multiply_shape(op: InferenceContext) -> list[Shape]:
    """The values times the elements of a dense tensor, which is broadcast to the sparse one's shape."""
    count, rank, _ = _parts(op)
    dense = op.inputs[3].shape
    if rank is not None and dense.rank is not None and dense.rank > rank:
        raise ShapeError(
            "only the dense side is broadcast",
            expected=f"rank <= {rank}",
            got=str(dense),
            hint="hr.multiply(hr.sparse.to_dense(x), dense) broadcasts both",
        )
    return [Shape([count])]


@register_op(
    "SparseSplit",
    inputs={"split_dim": "int64", "indices": "int64", "values": "T", "shape": "int64"},
    outputs={"output_indices": "num_split*int64", "output_values": "num_split*T", "output_shape": "num_split*int64"},
    attrs={"num_split": attr.int(minimum=1), "T": attr.any_type},
)
def _split_shape(op: InferenceContext) -> list[Shape]:
    """A sparse tensor in parts along an axis; where it does not divide, the first parts are longer."""
    if op.inputs[0].shape.num_elements not in (None, 1):
        raise ShapeError(
            "split_dim must be a scalar",
            expected="[]",
            got=str(op.inputs[0].shape),
            hint="split along one axis after the other: hr.sparse.split(x, num, axis)",
        )
    _, rank, _ = _parts(op, 1)
    number = op.attr("num_split")
    parts = _tuple_of(None, rank)
    return [part for part in parts for _ in range(number)]


class SparseTensor(NamedTuple):
    """A tensor of which only some elements are stored: a tuple of dense tensors, that is fetched and fed as one.

    Attributes:
      indices: int64 `[m, n]`, where each element is.
      values: `[m]`, the elements.
      shape: int64 `[n]`, the shape of the whole.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.sparse.placeholder(hr.float32, [2, 3])
      ...     y = hr.sparse.matmul(x, hr.ones([3, 1]))
      >>> value = hr.SparseTensor([[0, 2], [1, 0]], [5.0, 7.0], [2, 3])
      >>> print(hr.Session(graph).run(y, feeds={x: value}).tolist())
      [[5.0], [7.0]]
    """

    indices: Any
    values: Any
    shape: Any

    @property
    def dtype(self) -> DType:
        """The element type."""
        return convert_to_tensor(self.values).dtype


def _flat(x: SparseTensor) -> tuple[Tensor, Tensor, Tensor]:
    """The three parts as tensors; indices and shape as int64."""
    indices, shape = (part if isinstance(part, Tensor) else np.asarray(part, np.int64) for part in (x.indices, x.shape))
    return convert_to_tensor(indices), convert_to_tensor(x.values), convert_to_tensor(shape)


def placeholder(dtype: DTypeLike, shape: ShapeLike, *, name: str | None = None) -> SparseTensor:
    """A sparse tensor that is fed: `feeds={x: hr.SparseTensor(indices, values, shape)}`.

    Args:
      dtype: the element type.
      shape: its number of axes; the sizes are fed with the value.
      name: what the names of the three placeholders start with.
    Returns:
      The sparse tensor of three placeholders.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     print(hr.sparse.placeholder(hr.float32, [None, 3]).indices.shape)
      [?, 2]
    """
    rank = as_shape(shape).rank
    stem = name or "sparse"
    return SparseTensor(
        dense_placeholder(types.int64, [None, rank], name=f"{stem}_indices"),
        dense_placeholder(dtype, [None], name=f"{stem}_values"),
        dense_placeholder(types.int64, [rank], name=f"{stem}_shape"),
    )


def from_dense(x: TensorLike, *, name: str | None = None) -> SparseTensor:
    """The elements of a dense tensor that are not zero.

    Args:
      x: any numeric dtype and shape.
      name: the operation's name.
    Returns:
      Its sparse form, in order.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.sparse.from_dense([[0, 5], [7, 0]])
      >>> print(hr.Session(graph).run(x).indices.tolist())
      [[0, 1], [1, 0]]
    """
    dense = convert_to_tensor(x)
    indices: Tensor = apply_op("Where", apply_op("NotEqual", dense, apply_op("ZerosLike", dense)))
    values: Tensor = apply_op("GatherNd", dense, indices, name=name)
    return SparseTensor(indices, values, apply_op("Shape", dense, out_type=types.int64))


def to_dense(x: SparseTensor, default: TensorLike = 0, *, validate: bool = True, name: str | None = None) -> Tensor:
    """The whole tensor.

    Args:
      x: sparse, any dtype.
      default: scalar, what elements have that are not stored.
      validate: refuse indices that are not in row-major order or repeat; else the last of repeated ones stays.
      name: the operation's name.
    Returns:
      The dense tensor of x's shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.sparse.to_dense(hr.SparseTensor([[0, 1]], [5], [2, 2]))
      >>> print(hr.Session(graph).run(y).tolist())
      [[0, 5], [0, 0]]
    """
    indices, values, shape = _flat(x)
    filler = default if hasattr(default, "dtype") else convert_to_tensor(default, values.dtype)
    result: Tensor = apply_op("SparseToDense", indices, shape, values, filler, validate_indices=validate, name=name)
    return result


def matmul(
    a: SparseTensor, b: TensorLike, *, adjoint_a: bool = False, adjoint_b: bool = False, name: str | None = None
) -> Tensor:
    """A sparse matrix times a dense one.

    Args:
      a: sparse `[rows, inner]`.
      b: the same dtype `[inner, columns]`.
      adjoint_a: transpose and conjugate a first.
      adjoint_b: the same for b.
      name: the operation's name.
    Returns:
      `[rows, columns]`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     a = hr.SparseTensor([[0, 1], [1, 0]], [2.0, 3.0], [2, 2])
      ...     y = hr.sparse.matmul(a, [[1.0], [10.0]])
      >>> print(hr.Session(graph).run(y).tolist())
      [[20.0], [3.0]]
    """
    result: Tensor = apply_op(
        "SparseTensorDenseMatMul", *_flat(a), b, adjoint_a=adjoint_a, adjoint_b=adjoint_b, name=name
    )
    return result


def reorder(x: SparseTensor, *, name: str | None = None) -> SparseTensor:
    """The same tensor with its indices in row-major order.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.sparse.reorder(hr.SparseTensor([[1], [0]], [5, 7], [2]))
      >>> print(hr.Session(graph).run(x.values))
      [7 5]
    """
    indices, values, shape = _flat(x)
    indices, values = apply_op("SparseReorder", indices, values, shape, name=name)
    return SparseTensor(indices, values, shape)


def add(
    a: SparseTensor, b: SparseTensor | TensorLike, *, threshold: float = 0, name: str | None = None
) -> SparseTensor | Tensor:
    """The sum of a sparse tensor and a sparse or dense one of the same shape.

    Args:
      a: sparse.
      b: the same dtype; sparse or dense.
      threshold: sums of two elements whose magnitude is below are left out; only where b is sparse.
      name: the operation's name.
    Returns:
      A sparse tensor, or a dense one if b is dense.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.SparseTensor([[0], [2]], [1, 2], [4])
      ...     total = hr.sparse.add(x, hr.SparseTensor([[2], [3]], [10, 20], [4]))
      >>> print(hr.Session(graph).run(total.values))
      [ 1 12 20]
    """
    indices, values, shape = _flat(a)
    if isinstance(b, SparseTensor):
        real = {types.complex64: types.float32, types.complex128: types.float64}.get(values.dtype, values.dtype)
        limit = convert_to_tensor(threshold, real)
        return SparseTensor(*apply_op("SparseAdd", indices, values, shape, *_flat(b), limit, name=name))
    dense: Tensor = apply_op("SparseTensorDenseAdd", indices, values, shape, b, name=name)
    return dense


def multiply(x: SparseTensor, dense: TensorLike, *, name: str | None = None) -> SparseTensor:
    """The elements of a sparse tensor times those of a dense one, which is broadcast to its shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.sparse.multiply(hr.SparseTensor([[0, 1], [1, 0]], [2.0, 3.0], [2, 2]), [10.0, 100.0])
      >>> print(hr.Session(graph).run(x.values))
      [200.  30.]
    """
    indices, values, shape = _flat(x)
    product = apply_op("SparseDenseCwiseMul", indices, values, shape, convert_to_tensor(dense), name=name)
    return SparseTensor(indices, product, shape)


def reshape(x: SparseTensor, shape: TensorLike, *, name: str | None = None) -> SparseTensor:
    """The same elements in row-major order under another shape, of which one size may be -1.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.sparse.reshape(hr.SparseTensor([[0, 1], [1, 0]], [5, 7], [2, 2]), [-1])
      >>> print(hr.Session(graph).run(x).indices.tolist())
      [[1], [2]]
    """
    indices, values, sizes = _flat(x)
    wanted = shape if isinstance(shape, Tensor) else np.asarray(shape, np.int64)
    moved, changed = apply_op("SparseReshape", indices, sizes, wanted, name=name)
    return SparseTensor(moved, values, changed)


def concat(parts: Sequence[SparseTensor], axis: int = 0, *, name: str | None = None) -> SparseTensor:
    """Sparse tensors, in order, one after the other along an axis.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.SparseTensor([[0], [1]], [5, 7], [2])
      ...     y = hr.sparse.concat([x, x])
      >>> print(hr.Session(graph).run(y).indices.tolist())
      [[0], [1], [2], [3]]
    """
    if len(parts) == 1:
        return parts[0]
    indices, values, shapes = zip(*(_flat(part) for part in parts), strict=True)
    return SparseTensor(*apply_op("SparseConcat", indices, values, shapes, concat_dim=axis, name=name))


def slice(x: SparseTensor, begin: TensorLike, size: TensorLike, *, name: str | None = None) -> SparseTensor:
    """The part of a sparse tensor inside a box.

    Args:
      x: sparse, of n axes.
      begin: int64 `[n]`, where the box begins.
      size: int64 `[n]`; what lies beyond x is cut off.
      name: the operation's name.
    Returns:
      The sparse tensor of the box.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.sparse.slice(hr.SparseTensor([[0], [2]], [5, 7], [4]), [1], [3])
      >>> print(hr.Session(graph).run(x).indices.tolist())
      [[1]]
    """
    box = [part if isinstance(part, Tensor) else np.asarray(part, np.int64) for part in (begin, size)]
    return SparseTensor(*apply_op("SparseSlice", *_flat(x), *box, name=name))


def split(x: SparseTensor, num: int, axis: int = 0, *, name: str | None = None) -> list[SparseTensor]:
    """A sparse tensor in `num` parts along an axis; where it does not divide, the first parts are longer by one.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     first, second = hr.sparse.split(hr.SparseTensor([[0], [2]], [5, 7], [3]), 2)
      >>> print(hr.Session(graph).run([first.shape, second.values]))
      [array([2]), array([7], dtype=int32)]
    """
    indices, values, shapes = apply_op("SparseSplit", np.int64(axis), *_flat(x), num_split=num, name=name)
    return [SparseTensor(*part) for part in zip(indices, values, shapes, strict=True)]


def sum(
    x: SparseTensor, axis: int | Sequence[int] | None = None, *, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """The sum of a sparse tensor over some axes, all by default, as a dense tensor.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.sparse.sum(hr.SparseTensor([[0, 1], [1, 0]], [5, 7], [2, 2]), axis=0)
      >>> print(hr.Session(graph).run(y))
      [7 5]
    """
    indices, values, shape = _flat(x)
    if axis is None:
        size: Tensor = apply_op("Size", shape)
        axes: TensorLike = apply_op("Range", np.int32(0), size, np.int32(1))
    else:
        axes = np.asarray(axis, np.int32).reshape(-1)
    result: Tensor = apply_op("SparseReduceSum", indices, values, shape, axes, keep_dims=keepdims, name=name)
    return result


def fill_empty_rows(x: SparseTensor, default: TensorLike, *, name: str | None = None) -> tuple[SparseTensor, Tensor]:
    """A sparse tensor in which every row has an element.

    Args:
      x: sparse, of at least one axis.
      default: scalar, the element at column 0 of a row that had none.
      name: the operation's name.
    Returns:
      The filled tensor, and for each row whether it was empty, bool `[rows]`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x, empty = hr.sparse.fill_empty_rows(hr.SparseTensor([[1, 1]], [5], [2, 2]), 9)
      >>> print(hr.Session(graph).run([x.values, empty]))
      [array([9, 5], dtype=int32), array([ True, False])]
    """
    indices, values, shape = _flat(x)
    filled = apply_op("SparseFillEmptyRows", indices, values, shape, default, name=name)
    return SparseTensor(filled[0], filled[1], shape), filled[2]


def softmax(x: SparseTensor, *, name: str | None = None) -> SparseTensor:
    """The softmax over the last axis of the elements that are stored.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.sparse.softmax(hr.SparseTensor([[0, 0], [0, 5], [1, 2]], [1.0, 1.0, 3.0], [2, 9]))
      >>> print(hr.Session(graph).run(y.values))
      [0.5 0.5 1. ]
    """
    indices, values, shape = _flat(x)
    return SparseTensor(indices, apply_op("SparseSoftmax", indices, values, shape, name=name), shape)
