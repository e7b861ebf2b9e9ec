"""Part and Stitch (paper, section 4.2): distribute rows over several tensors, and put them together again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.types import Array, Shape

__all__ = ["check_partitions", "dynamic_partition", "dynamic_stitch", "stitched_rows"]


@register_op(
    "DynamicPartition",
    inputs={"data": "T", "partitions": "int32"},
    outputs={"outputs": "num_partitions*T"},
    attrs={"num_partitions": attr.int(minimum=1)},
)
def _dynamic_partition_shape(op: InferenceContext) -> list[Shape]:
    """The rows of data, distributed: output i has those whose partition is i, in their order."""
    data, partitions = op.inputs[0].shape, op.inputs[1].shape
    check_partitions(data, partitions)
    if data.dims is None or partitions.dims is None:
        return [Shape()] * op.attr("num_partitions")
    return [Shape((None, *data.dims[len(partitions.dims) :]))] * op.attr("num_partitions")


def check_partitions(data: Shape, partitions: Shape) -> None:
    """Raise ShapeError unless there is one partition for each row of `data`."""
    if data.dims is None or partitions.dims is None:
        return
    if not partitions.is_compatible_with(Shape(data.dims[: len(partitions.dims)])):
        raise ShapeError(
            "the partitions do not fit the data",
            expected=f"a shape with which {data} begins",
            got=str(partitions),
            hint="give one partition for each row; hr.reshape them if only the axes differ",
        )


@register_op(
    "DynamicStitch",
    inputs={"indices": "N*int32", "data": "N*T"},
    outputs={"merged": "T"},
    attrs={"N": attr.int(minimum=1)},
)
def _dynamic_stitch_shape(op: InferenceContext) -> list[Shape]:
    """The rows of all data in one tensor, each at the place its index names; of repeated indices the last counts."""
    count = op.attr("N")
    row = Shape()
    for indices, data in zip(op.inputs[:count], op.inputs[count:], strict=True):
        row = _merged_row(row, indices.shape, data.shape)
    places = [op.constant(index) for index in range(count)]
    known = [place for place in places if place is not None]
    rows = stitched_rows(known) if len(known) == count else None
    return [Shape() if row.dims is None else Shape((rows, *row.dims))]


def _merged_row(row: Shape, indices: Shape, data: Shape) -> Shape:
    """The shape of a row, with what one pair of inputs of a `DynamicStitch` adds to it.

    Raises:
      ShapeError: the data do not begin with the shape of their indices, or their rows differ from those before.
    """
    if indices.dims is None or data.dims is None:
        return row
    lead, rest = Shape(data.dims[: len(indices.dims)]), Shape(data.dims[len(indices.dims) :])
    if not indices.is_compatible_with(lead):
        raise ShapeError(
            "the data do not fit their indices",
            expected=f"a shape that begins with {indices}",
            got=str(data),
            hint="hr.reshape the data to indices.shape and after it the shape of one row",
        )
    if not row.is_compatible_with(rest):
        raise ShapeError(
            "the rows to be stitched differ",
            expected=f"rows of shape {row}",
            got=f"{rest} in {data}",
            hint="hr.pad or hr.reshape the rows to one shape",
        )
    return row.merge(rest)


def stitched_rows(indices: Sequence[Array]) -> int:
    """The number of rows of a `DynamicStitch`: one more than the highest index.

    Raises:
      InvalidArgumentError: an index is negative.
    """
    highest = -1
    for places in indices:
        given = np.asarray(places)
        if given.size:
            if given.min() < 0:
                raise InvalidArgumentError(
                    "an index is negative",
                    expected="indices >= 0",
                    got=str(int(given.min())),
                    hint="negative ones do not count from the end here: add the number of rows",
                )
            highest = max(highest, int(given.max()))
    return highest + 1


def dynamic_partition(
    data: TensorLike, partitions: TensorLike, num_partitions: int, *, name: str | None = None
) -> tuple[Tensor, ...]:
    """The rows of `data`, distributed over `num_partitions` tensors.

    Args:
      data: any dtype, `[rows..., row...]`.
      partitions: int32 `[rows...]`, to which tensor each row goes.
      num_partitions: the number of tensors.
      name: the operation's name.
    Returns:
      The tensors, `[rows of the partition, row...]`, each in the order of `data`.
    Raises:
      OutOfRangeError: when it runs and a partition is not in `[0, num_partitions)`.
    Source: "Part" in figure 3 of the TensorFlow paper (OSDI 2016).

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     even, odd = hr.dynamic_partition([1, 2, 3, 4], [1, 0, 1, 0], 2)
      >>> print(hr.Session(graph).run(even))
      [2 4]
    """
    result: tuple[Tensor, ...] = apply_op(
        "DynamicPartition", data, partitions, num_partitions=num_partitions, name=name
    )
    return result


def dynamic_stitch(indices: Sequence[TensorLike], data: Sequence[TensorLike], *, name: str | None = None) -> Tensor:
    """The rows of all `data` in one tensor, each at the place that its index names.

    Args:
      indices: int32 tensors `[rows_i...]`; of repeated indices the last one counts.
      data: tensors of one dtype, `[rows_i..., row...]`.
      name: the operation's name.
    Returns:
      `[highest index + 1, row...]`; rows that no index names are zero.
    Source: "Stitch" in figure 3 of the TensorFlow paper (OSDI 2016).

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.dynamic_stitch([[1, 3], [0, 2]], [[20, 40], [10, 30]])
      >>> print(hr.Session(graph).run(x))
      [10 20 30 40]
    """
    result: Tensor = apply_op("DynamicStitch", indices, data, name=name)
    return result
