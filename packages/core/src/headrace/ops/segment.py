"""Segments: sums, products and extremes of the rows that carry the same number."""

from __future__ import annotations

from headrace.errors import ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.attr import AttrSpec
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.shapes import check_scalar
from headrace.types import Shape, int16, int32, int64

__all__ = [
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_prod",
    "segment_sum",
    "sparse_segment_mean",
    "sparse_segment_sqrt_n",
    "sparse_segment_sum",
    "unsorted_segment_max",
    "unsorted_segment_min",
    "unsorted_segment_prod",
    "unsorted_segment_sum",
]

_IDS = attr.type(int32, int64)
_NUMBER = attr.type(int32, int64, default=int32)


def _check_vector(op: InferenceContext, index: int, what: str) -> None:
    if op.inputs[index].shape.rank not in (None, 1):
        raise ShapeError(
            f"{what} must be a vector",
            expected="[n]",
            got=str(op.inputs[index].shape),
            hint=f"flatten it with hr.reshape({what}, [-1])",
        )


def _rows_shape(op: InferenceContext, rows: int | None) -> list[Shape]:
    data = op.inputs[0].shape
    if data.rank == 0:
        raise ShapeError(
            "a scalar has no rows", expected="rank >= 1", got=str(data), hint="hr.expand_dims(data, 0) makes it one row"
        )
    return [Shape() if data.dims is None else Shape((rows, *data.dims[1:]))]


def _register_segment(name: str, spec: AttrSpec, doc: str) -> None:
    def shape(op: InferenceContext) -> list[Shape]:
        data, ids = op.inputs[0].shape, op.inputs[1].shape
        _check_vector(op, 1, "segment_ids")
        if data.rank and ids.rank == 1 and not Shape([data[0]]).is_compatible_with(ids):
            raise ShapeError(
                "there must be one segment id per row",
                expected=f"{data[0]} ids",
                got=str(ids),
                hint="the ids go with axis 0 of the data; hr.moveaxis brings another axis there",
            )
        known = op.constant(1)
        rows = None if known is None else int(known[-1]) + 1 if known.size else 0
        return _rows_shape(op, None if rows is not None and rows < 0 else rows)

    shape.__doc__ = doc
    attrs = {"T": spec, "Tindices": _IDS}
    register_op(name, inputs={"data": "T", "segment_ids": "Tindices"}, outputs={"output": "T"}, attrs=attrs)(shape)


_register_segment("SegmentSum", attr.numeric, "The sum of the rows of each segment; the ids ascend; 0 without rows.")
_register_segment("SegmentMean", attr.numeric, "The mean of the rows of each segment; the ids ascend; 0 without rows.")
_register_segment(
    "SegmentProd", attr.numeric, "The product of the rows of each segment; the ids ascend; 1 without rows."
)
_register_segment(
    "SegmentMax", attr.ordered, "The largest of the rows of each segment; the ids ascend; 0 without rows."
)
_register_segment(
    "SegmentMin", attr.ordered, "The smallest of the rows of each segment; the ids ascend; 0 without rows."
)


def _register_unsorted(name: str, spec: AttrSpec, doc: str) -> None:
    def shape(op: InferenceContext) -> list[Shape]:
        data, ids, number = op.inputs[0].shape, op.inputs[1].shape, op.constant(2)
        check_scalar(op.inputs[2].shape, "num_segments")
        if number is not None and int(number) < 0:
            raise ShapeError(
                "num_segments is negative",
                expected=">= 0",
                got=str(int(number)),
                hint="hr.max(segment_ids) + 1 counts the segments",
            )
        if data.dims is None or ids.dims is None:
            return [Shape()]
        if len(ids) > len(data) or not Shape(data.dims[: len(ids)]).is_compatible_with(ids):
            raise ShapeError(
                "the ids must cover the leading axes of the data",
                expected=str(data),
                got=str(ids),
                hint="bring the axes that have ids to the front of the data with hr.moveaxis",
            )
        return [Shape((None if number is None else int(number), *data.dims[len(ids) :]))]

    shape.__doc__ = doc
    register_op(
        name,
        inputs={"data": "T", "segment_ids": "Tindices", "num_segments": "Tnumsegments"},
        outputs={"output": "T"},
        attrs={"T": spec, "Tindices": attr.type(int16, int32, int64), "Tnumsegments": _NUMBER},
    )(shape)


_register_unsorted(
    "UnsortedSegmentSum", attr.numeric, "The sum of the rows with each id; rows with negative ids are left out."
)
_register_unsorted("UnsortedSegmentProd", attr.numeric, "The product of the rows with each id; 1 without rows.")
_register_unsorted(
    "UnsortedSegmentMax", attr.ordered, "The largest of the rows with each id; the lowest finite number without rows."
)
_register_unsorted(
    "UnsortedSegmentMin", attr.ordered, "The smallest of the rows with each id; the highest finite number without rows."
)


def _register_sparse(name: str, spec: AttrSpec, doc: str) -> None:
    def shape(op: InferenceContext) -> list[Shape]:
        _check_vector(op, 1, "indices")
        _check_vector(op, 2, "segment_ids")
        indices, ids, known = op.inputs[1].shape, op.inputs[2].shape, op.constant(2)
        if not indices.is_compatible_with(ids):
            raise ShapeError(
                "there must be one segment id per index",
                expected=str(indices),
                got=str(ids),
                hint="give each of the indices an id; hr.segment_sum sums whole data without indices",
            )
        rows = None if known is None else int(known[-1]) + 1 if known.size else 0
        return _rows_shape(op, None if rows is not None and rows < 0 else rows)

    shape.__doc__ = doc
    register_op(
        name,
        inputs={"data": "T", "indices": "Tidx", "segment_ids": "Tsegmentids"},
        outputs={"output": "T"},
        attrs={"T": spec, "Tidx": _NUMBER, "Tsegmentids": _NUMBER, "sparse_gradient": attr.bool(False, recent=True)},
    )(shape)


_register_sparse("SparseSegmentSum", attr.ordered, "SegmentSum of the rows of data at `indices`.")
_register_sparse("SparseSegmentMean", attr.floating, "SegmentMean of the rows of data at `indices`.")
_register_sparse(
    "SparseSegmentSqrtN",
    attr.floating,
    "SegmentSum of the rows of data at `indices`, divided by the square root of how many they are.",
)


def segment_sum(data: TensorLike, segment_ids: TensorLike, *, name: str | None = None) -> Tensor:
    """The sum of the rows of each segment.

    Args:
      data: numeric `[n, ...]`.
      segment_ids: int32 or int64 `[n]`, for each row its segment; they must not descend and not be negative.
      name: the operation's name.
    Returns:
      `[last id + 1, ...]` of data's dtype; zeros for segments without rows.
    Raises:
      ShapeError: the number of ids is not the number of rows.
      InvalidArgumentError: the ids descend or are negative (when the step runs).

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.segment_sum([1.0, 2.0, 3.0], [0, 0, 2])
      >>> print(hr.Session(graph).run(y))
      [3. 0. 3.]
    """
    return _segment("SegmentSum", data, segment_ids, name)


def segment_mean(data: TensorLike, segment_ids: TensorLike, *, name: str | None = None) -> Tensor:
    """The mean of the rows of each segment, 0 without rows; see `segment_sum`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.segment_mean([1.0, 2.0, 3.0], [0, 0, 2])
      >>> print(hr.Session(graph).run(y))
      [1.5 0.  3. ]
    """
    return _segment("SegmentMean", data, segment_ids, name)


def segment_prod(data: TensorLike, segment_ids: TensorLike, *, name: str | None = None) -> Tensor:
    """The product of the rows of each segment, 1 without rows; see `segment_sum`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.segment_prod([4.0, 2.0, 3.0], [0, 0, 2])
      >>> print(hr.Session(graph).run(y))
      [8. 1. 3.]
    """
    return _segment("SegmentProd", data, segment_ids, name)


def segment_max(data: TensorLike, segment_ids: TensorLike, *, name: str | None = None) -> Tensor:
    """The largest of the rows of each segment, element by element, 0 without rows; see `segment_sum`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.segment_max([1.0, 2.0, 3.0], [0, 0, 2])
      >>> print(hr.Session(graph).run(y))
      [2. 0. 3.]
    """
    return _segment("SegmentMax", data, segment_ids, name)


def segment_min(data: TensorLike, segment_ids: TensorLike, *, name: str | None = None) -> Tensor:
    """The smallest of the rows of each segment, element by element, 0 without rows; see `segment_sum`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.segment_min([1.0, 2.0, 3.0], [0, 0, 2])
      >>> print(hr.Session(graph).run(y))
      [1. 0. 3.]
    """
    return _segment("SegmentMin", data, segment_ids, name)


def _segment(op_type: str, data: TensorLike, segment_ids: TensorLike, name: str | None) -> Tensor:
    result: Tensor = apply_op(op_type, convert_to_tensor(data), segment_ids, name=name)
    return result


def unsorted_segment_sum(
    data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike, *, name: str | None = None
) -> Tensor:
    """The sum of the rows that carry the same id, in any order.

    Args:
      data: numeric `[n..., ...]`.
      segment_ids: int16, int32 or int64 `[n...]`, the leading axes of `data`; rows with a negative id are left out.
      num_segments: int32 or int64, how many segments there are.
      name: the operation's name.
    Returns:
      `[num_segments, ...]` of data's dtype; zeros for ids that no row carries.
    Raises:
      ShapeError: the shape of the ids is not that of the leading axes.
      OutOfRangeError: an id is not below `num_segments` (when the step runs).

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.unsorted_segment_sum([1.0, 2.0, 3.0], [2, 0, 2], 3)
      >>> print(hr.Session(graph).run(y))
      [2. 0. 4.]
    """
    return _unsorted("UnsortedSegmentSum", data, segment_ids, num_segments, name)


def unsorted_segment_prod(
    data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike, *, name: str | None = None
) -> Tensor:
    """The product of the rows that carry the same id, 1 without rows; see `unsorted_segment_sum`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.unsorted_segment_prod([4.0, 2.0, 3.0], [2, 0, 2], 3)
      >>> print(hr.Session(graph).run(y))
      [ 2.  1. 12.]
    """
    return _unsorted("UnsortedSegmentProd", data, segment_ids, num_segments, name)


def unsorted_segment_max(
    data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike, *, name: str | None = None
) -> Tensor:
    """The largest of the rows that carry the same id; see `unsorted_segment_sum`.

    The lowest finite number for ids without rows.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.unsorted_segment_max([1.0, 2.0, 3.0], [1, 0, 1], 2)
      >>> print(hr.Session(graph).run(y))
      [2. 3.]
    """
    return _unsorted("UnsortedSegmentMax", data, segment_ids, num_segments, name)


def unsorted_segment_min(
    data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike, *, name: str | None = None
) -> Tensor:
    """The smallest of the rows that carry the same id; see `unsorted_segment_sum`.

    The highest finite number for ids without rows.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.unsorted_segment_min([1.0, 2.0, 3.0], [1, 0, 1], 2)
      >>> print(hr.Session(graph).run(y))
      [2. 1.]
    """
    return _unsorted("UnsortedSegmentMin", data, segment_ids, num_segments, name)


def _unsorted(
    op_type: str, data: TensorLike, segment_ids: TensorLike, num_segments: TensorLike, name: str | None
) -> Tensor:
    result: Tensor = apply_op(op_type, convert_to_tensor(data), segment_ids, num_segments, name=name)
    return result


def sparse_segment_sum(
    data: TensorLike, indices: TensorLike, segment_ids: TensorLike, *, name: str | None = None
) -> Tensor:
    """`segment_sum` of the rows of `data` at `indices`, int32 or int64 `[n]`; repeated indices count each time.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.sparse_segment_sum([10.0, 20.0, 30.0], [2, 0, 2], [0, 0, 1])
      >>> print(hr.Session(graph).run(y))
      [40. 30.]
    """
    result: Tensor = apply_op("SparseSegmentSum", convert_to_tensor(data), indices, segment_ids, name=name)
    return result


def sparse_segment_mean(
    data: TensorLike, indices: TensorLike, segment_ids: TensorLike, *, name: str | None = None
) -> Tensor:
    """`segment_mean` of the rows of `data` at `indices`, int32 or int64 `[n]`; repeated indices count each time.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.sparse_segment_mean([10.0, 20.0, 30.0], [2, 0, 2], [0, 0, 1])
      >>> print(hr.Session(graph).run(y))
      [20. 30.]
    """
    result: Tensor = apply_op("SparseSegmentMean", convert_to_tensor(data), indices, segment_ids, name=name)
    return result


def sparse_segment_sqrt_n(
    data: TensorLike, indices: TensorLike, segment_ids: TensorLike, *, name: str | None = None
) -> Tensor:
    """The sum of some rows for each segment, divided by the root of how many they are; see `sparse_segment_sum`.

    Of rows that vary independently it varies as much as one of them, however many there are.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.sparse_segment_sqrt_n([10.0, 20.0, 30.0], [2, 0, 2, 0], [0, 0, 0, 0])
      >>> print(hr.Session(graph).run(y))
      [40.]
    """
    result: Tensor = apply_op("SparseSegmentSqrtN", convert_to_tensor(data), indices, segment_ids, name=name)
    return result
