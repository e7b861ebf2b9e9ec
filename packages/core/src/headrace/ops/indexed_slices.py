"""IndexedSlices: a gradient that is non-zero in a few rows only, kept as those rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.graph.apply import apply_op
from headrace.graph.operation import Tensor
from headrace.types import Array, DType

__all__ = ["IndexedSlices", "concatenate_slices"]


@dataclass(frozen=True, slots=True, eq=False)
class IndexedSlices:
    """The rows of a tensor that differ from zero: row `indices[i]` is the sum of all `values[i]` with that index.

    A step that fetches one gives one of arrays; `to_dense` and `numpy.asarray` make the whole of it.

    Attributes:
      values: the rows, `[n, ...]`.
      indices: int32 or int64 `[n]`, which row each one belongs to; may repeat.
      dense_shape: int32 vector, the shape of the whole tensor.
    """

    values: Tensor
    indices: Tensor
    dense_shape: Tensor

    @property
    def dtype(self) -> DType:
        """The element type of the rows."""
        return self.values.dtype

    def to_dense(self) -> Tensor:
        """The whole tensor, `dense_shape`, repeated rows added up; an array if the parts are arrays."""
        values: Any = self.values
        if isinstance(values, np.ndarray):
            whole: Any = np.zeros(np.asarray(self.dense_shape), values.dtype)
            np.add.at(whole, np.asarray(self.indices), values)
            return whole  # type: ignore[no-any-return]  # an array, as its parts are
        rows: Tensor = apply_op(
            "StridedSlice", self.dense_shape, [0], [1], [1], shrink_axis_mask=1, begin_mask=0, end_mask=0
        )
        dense: Tensor = apply_op("UnsortedSegmentSum", self.values, self.indices, rows)
        return dense

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.to_dense(), dtype)

    def __headrace_tensor__(self) -> Tensor:
        return self.to_dense()


def concatenate_slices(parts: Sequence[IndexedSlices]) -> IndexedSlices:
    """The sum of several sparse gradients of one tensor: their rows one after the other."""
    if len(parts) == 1:
        return parts[0]
    indices = [part.indices for part in parts]
    if len({index.dtype for index in indices}) > 1:
        indices = [index if index.dtype.size == 8 else apply_op("Cast", index, DstT="int64") for index in indices]
    return IndexedSlices(
        values=apply_op("ConcatV2", [part.values for part in parts], 0),
        indices=apply_op("ConcatV2", indices, 0),
        dense_shape=parts[0].dense_shape,
    )
