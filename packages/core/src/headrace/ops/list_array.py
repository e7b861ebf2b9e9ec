"""TensorArray: what programs hold to read or write tensors one by one, in loops above all. It is made of a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.operation import Tensor
from headrace.graph.shape_value import constant_value
from headrace.types import DType, DTypeLike, Shape, ShapeLike, as_dtype, as_shape, float32, int32, int64, variant

__all__ = ["TensorArray"]


class _Elements:
    """What is known of the shape of the elements of arrays that come from each other by writing. Mutable.

    They share it, so that an array that comes out of a loop knows what was written in the loop.
    """

    __slots__ = ("shape",)

    def __init__(self, shape: Shape) -> None:
        self.shape = shape


class TensorArray:
    """An array of tensors of one dtype. Immutable: what writes gives another array.

    It may be a loop variable of `hr.while_loop`, and what depends on its elements can be differentiated; `hr.gradients`
    by an array gives an array. Elements that were not written read as zeros where their shape is known.

    Args:
      size: how many elements it has, an int32 scalar.
      dtype: their dtype.
      dynamic_size: writing beyond its end makes it larger.
      element_shape: the shape that all elements satisfy.
      infer_shape: all elements have one shape, so that of the first one written tells that of the others, here and in
        the arrays that come from this one by writing.
      name: the name of the operation that makes it.

    Attributes:
      handle: the list that it is made of, variant `[]`.
      dtype: the dtype of the elements.
      dynamic_size, infer_shape: as given.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     n = hr.placeholder(hr.int32, [], name="n")
      ...     start = 0, hr.TensorArray(n, hr.int32, element_shape=[])
      ...     _, squares = hr.while_loop(lambda i, _: i < n, lambda i, done: (i + 1, done.write(i, i * i)), start)
      ...     values = squares.stack()
      >>> print(hr.Session(graph).run(values, feeds={n: 4}))
      [0 1 4 9]
    """

    __slots__ = ("_count", "_elements", "dtype", "dynamic_size", "handle", "infer_shape")

    def __init__(
        self,
        size: TensorLike = 0,
        dtype: DTypeLike = float32,
        *,
        dynamic_size: bool = False,
        element_shape: ShapeLike = None,
        infer_shape: bool = True,
        name: str | None = None,
    ) -> None:
        self.dtype: DType = as_dtype(dtype)
        self._elements = _Elements(as_shape(element_shape))
        self.dynamic_size = dynamic_size
        self.infer_shape = infer_shape
        count = _index(size)
        known = constant_value(count)
        self._count = -1 if dynamic_size or known is None else int(known)  # -1 if only the step knows it
        self.handle: Tensor = apply_op(
            "TensorListReserve", _sizes(self.element_shape), count, element_dtype=self.dtype, name=name
        )

    @property
    def element_shape(self) -> Shape:
        """What is known of the shape of its elements."""
        return self._elements.shape

    def read(self, index: TensorLike, *, name: str | None = None) -> Tensor:
        """Element `index`, an int scalar.

        Raises:
          OutOfRangeError: when it runs and there is no such element.
          ShapeError: when it runs, the element is not written, and its shape is not known.
        """
        shape = _sizes(self.element_shape)
        element: Tensor = apply_op(
            "TensorListGetItem", self.handle, _index(index), shape, element_dtype=self.dtype, name=name
        )
        return element

    def write(self, index: TensorLike, value: TensorLike, *, name: str | None = None) -> TensorArray:
        """The array with `value` as element `index`, whatever that was before.

        Args:
          index: an int scalar.
          value: of the array's dtype, and of its element shape.
          name: the operation's name.
        Raises:
          ShapeError: the value has another shape than the elements.
          OutOfRangeError: when it runs, there is no such element, and `dynamic_size` is false.
        """
        element = convert_to_tensor(value, self.dtype)
        self._learn(element.shape)
        handle = apply_op(
            "TensorListSetItem",
            self.handle,
            _index(index),
            element,
            resize_if_index_out_of_bounds=self.dynamic_size,
            name=name,
        )
        return self._changed(handle)

    def gather(self, indices: TensorLike, *, name: str | None = None) -> Tensor:
        """The elements that the indices `[n]` name, stacked: `[n, ...]`."""
        shape = _sizes(self.element_shape)
        rows: Tensor = apply_op(
            "TensorListGather", self.handle, _index(indices), shape, element_dtype=self.dtype, name=name
        )
        return rows

    def scatter(self, indices: TensorLike, values: TensorLike, *, name: str | None = None) -> TensorArray:
        """The array with the rows of `values` `[n, ...]` as the elements that the indices `[n]` name.

        It grows if one is beyond its end; of repeated indices the last one counts.
        """
        rows = convert_to_tensor(values, self.dtype)
        self._learn(_rest(rows.shape))
        return self._changed(
            apply_op("TensorListScatterIntoExistingList", self.handle, rows, _index(indices), name=name)
        )

    def stack(self, *, name: str | None = None) -> Tensor:
        """All elements, which must have one shape, as the rows of a tensor `[size, ...]`."""
        stacked: Tensor = apply_op(
            "TensorListStack",
            self.handle,
            _sizes(self.element_shape),
            element_dtype=self.dtype,
            num_elements=self._count,
            name=name,
        )
        return stacked

    def unstack(self, values: TensorLike, *, name: str | None = None) -> TensorArray:
        """An array of the rows of `values` `[size, ...]`, and no other elements."""
        rows = convert_to_tensor(values, self.dtype)
        row_shape = _rest(rows.shape)
        self._learn(row_shape)
        sizes = _sizes(row_shape) if row_shape.is_fully_defined else _row_shape(rows)
        size = rows.shape[0]
        handle = apply_op("TensorListFromTensor", rows, sizes, name=name)
        return self._changed(handle, -1 if self.dynamic_size or size is None else size)

    def concat(self, *, name: str | None = None) -> Tensor:
        """All elements one after the other along their first axis, whose sizes may differ."""
        shape = Shape() if self.element_shape.dims is None else Shape([None, *self.element_shape.dims[1:]])
        joined, _ = apply_op(
            "TensorListConcatV2", self.handle, _sizes(shape), np.zeros(0, np.int64), element_dtype=self.dtype, name=name
        )
        result: Tensor = joined
        return result

    def split(self, values: TensorLike, lengths: TensorLike, *, name: str | None = None) -> TensorArray:
        """An array of the parts of `values`, cut along the first axis into parts of `lengths` rows.

        Raises:
          ShapeError: the parts do not fit what is known of the elements.
          InvalidArgumentError: when it runs and the lengths do not sum up to the number of rows.
        """
        rows = convert_to_tensor(values, self.dtype)
        rest = _rest(rows.shape)
        shape = Shape() if rest.dims is None else Shape([None, *rest.dims])
        self._learn(shape)
        parts = convert_to_tensor(lengths)
        wide = parts if parts.dtype is int64 else apply_op("Cast", parts, DstT=int64)
        count = parts.shape[0] if parts.shape.rank == 1 else None
        handle = apply_op("TensorListSplit", rows, _sizes(shape), wide, name=name)
        return self._changed(handle, -1 if self.dynamic_size or count is None else count)

    def size(self, *, name: str | None = None) -> Tensor:
        """How many elements it has, int32 `[]`."""
        count: Tensor = apply_op("TensorListLength", self.handle, name=name)
        return count

    def _learn(self, shape: Shape) -> None:
        """Take note of the shape of an element that is put in."""
        if not self.element_shape.is_compatible_with(shape):
            raise ShapeError(
                "the value does not fit the array",
                expected=f"shape {self.element_shape}, as "
                + ("the other elements" if self.infer_shape else "declared"),
                got=f"shape {shape}",
                hint="infer_shape=False lets elements differ in shape, element_shape leaves sizes open with None",
            )
        if self.infer_shape:
            self._elements.shape = self.element_shape.merge(shape)

    def _changed(self, handle: Tensor, count: int | None = None) -> TensorArray:
        """An array like this one with other elements."""
        changed = TensorArray.__new__(TensorArray)
        changed.handle = handle
        changed.dtype = self.dtype
        changed.dynamic_size = self.dynamic_size
        changed.infer_shape = self.infer_shape
        changed._elements = self._elements
        changed._count = self._count if count is None else count
        return changed

    def __headrace_flatten__(self) -> tuple[list[Tensor], Callable[[Sequence[Any]], TensorArray]]:
        """The tensors that it is made of, and how others make an array like it."""

        def rebuild(tensors: Sequence[Any]) -> TensorArray:
            (handle,) = tensors
            return self.__headrace_gradient__(convert_to_tensor(handle))

        return [self.handle], rebuild

    def __headrace_gradient__(self, handle: Tensor) -> TensorArray:
        """An array like this one of what another list holds."""
        if handle.dtype is not variant:
            raise InvalidArgumentError(
                "an array is made of a list",
                expected="variant[]",
                got=str(handle.spec),
                hint="return the array itself, not its elements, where an array is asked for",
            )
        return self._changed(handle)

    def __repr__(self) -> str:
        return f"<hr.TensorArray of {self.dtype}{self.element_shape}; array.stack() gives its elements as a tensor>"


def _index(value: TensorLike) -> Tensor:
    """An index or size as the operations on lists take it."""
    tensor = convert_to_tensor(value)
    if not tensor.dtype.is_integer:
        raise InvalidArgumentError(
            "an index or size of an array must be an integer",
            expected="int32 or int64",
            got=str(tensor.spec),
            hint="hr.astype(x, hr.int32)",
        )
    narrow: Tensor = tensor if tensor.dtype is int32 else apply_op("Cast", tensor, DstT=int32)
    return narrow


def _sizes(shape: Shape) -> Tensor:
    """A static shape as the operations on lists take it."""
    if shape.dims is None:
        return convert_to_tensor(-1, int32)
    return convert_to_tensor(np.array([-1 if size is None else size for size in shape.dims], np.int32))


def _rest(shape: Shape) -> Shape:
    if shape.rank == 0:
        raise ShapeError(
            "the values have no rows to make elements of",
            expected="rank >= 1",
            got="shape []",
            hint="array.write(index, value) writes one element",
        )
    return Shape() if shape.dims is None else Shape(shape.dims[1:])


def _row_shape(rows: Tensor) -> Tensor:
    """The shape of one row, which the step knows exactly."""
    shape: Tensor = apply_op("StridedSlice", apply_op("Shape", rows), [1], [0], [1], end_mask=1)
    return shape
