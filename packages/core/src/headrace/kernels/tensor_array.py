"""NumPy kernels of the TensorArrayV3 family, and the mutable array behind a handle.

The value of a handle is the array itself: no table finds it by name, so an array lives as long as its step uses it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.errors import FailedPreconditionError, InvalidArgumentError, OutOfRangeError, ShapeError
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.ops.shapes import scalar_of
from headrace.ops.tensor_array import check_array_dtype, check_array_element
from headrace.types import Array, DType, Shape, string

__all__ = ["TensorArrayState"]

_UNWRITTEN = object()
_CLEARED = object()


class TensorArrayState:
    """An array of tensors, each of which is written once. Mutable and thread-safe.

    Args:
      size: how many elements it has.
      dtype: their dtype.
      element_shape: the shape that all of them satisfy.
      dynamic_size: a write beyond its end makes it larger.
      clear_after_read: an element can be read once.
      identical_element_shapes: the first element that is written decides the shape of all.
      adds_up: an element may be written several times; what is written is added up (gradients).
    """

    def __init__(
        self,
        size: int,
        dtype: DType,
        element_shape: Shape,
        *,
        dynamic_size: bool = False,
        clear_after_read: bool = True,
        identical_element_shapes: bool = False,
        adds_up: bool = False,
    ) -> None:
        self.dtype = dtype
        self.element_shape = element_shape
        self.dynamic_size = dynamic_size
        self._clears = clear_after_read
        self._identical = identical_element_shapes
        self._adds_up = adds_up
        self._elements: list[Any] = [_UNWRITTEN] * size
        self._shapes: list[tuple[int, ...] | None] = [None] * size  # known before an element is written: gradients
        self._read = [False] * size
        self._gradients: dict[str, TensorArrayState] = {}
        self._closed = False
        self._lock = threading.RLock()

    @property
    def size(self) -> int:
        """How many elements it has."""
        with self._lock:
            self._check_open()
            return len(self._elements)

    def gradient(self, source: str) -> TensorArrayState:
        """The array of the gradients of its elements: of the same size and shapes, the same one for the same source.

        From then on the array keeps its size.
        """
        with self._lock:
            self._check_open()
            self.dynamic_size = False
            if source not in self._gradients:
                made = TensorArrayState(
                    len(self._elements),
                    self.dtype,
                    self.element_shape,
                    identical_element_shapes=self._identical,
                    adds_up=True,
                )
                made._shapes = list(self._shapes)
                self._gradients[source] = made
            return self._gradients[source]

    def write(self, indices: Sequence[int], values: Sequence[Any]) -> None:
        """Write elements; `values` belong to the array from then on.

        Raises:
          OutOfRangeError: an index is beyond the array, and it may not grow.
          InvalidArgumentError: an element was written or read before.
          ShapeError: a value has a shape that the array does not take.
        """
        with self._lock:
            self._check_open()
            self._grow(max(indices, default=-1) + 1)
            for index, value in zip(indices, values, strict=True):
                self._write(self._checked(index), value)

    def read(self, indices: Sequence[int]) -> list[Any]:
        """Elements; one that is not written reads as zeros where its shape is known.

        Raises:
          OutOfRangeError: an index is beyond the array.
          InvalidArgumentError: an element is not written, or was read and forgotten.
        """
        with self._lock:
            self._check_open()
            return [self._read_one(self._checked(index)) for index in indices]

    def close(self) -> None:
        """Forget the elements and refuse further use."""
        with self._lock:
            self._closed = True
            self._elements.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise FailedPreconditionError(
                "the array is closed",
                expected="an array that is in use",
                got="one after TensorArrayCloseV3",
                hint="let the closing operation depend on everything that reads the array",
            )

    def _grow(self, size: int) -> None:
        missing = size - len(self._elements)
        if self.dynamic_size and missing > 0:
            self._elements += [_UNWRITTEN] * missing
            self._shapes += [None] * missing
            self._read += [False] * missing

    def _checked(self, index: int) -> int:
        if 0 <= index < len(self._elements):
            return index
        raise OutOfRangeError(
            "an index is beyond the array",
            expected=f"0 <= index < {len(self._elements)}",
            got=str(index),
            hint="make the array larger, or with dynamic_size=True",
        )

    def _write(self, index: int, value: Any) -> None:
        check_array_element(self.element_shape, Shape(np.shape(value)))
        old = self._elements[index]
        if self._read[index]:
            raise self._used(index, "written", "it was read already", "write an element before anything reads it")
        if old is _UNWRITTEN:
            self._elements[index], self._shapes[index] = value, np.shape(value)
            if self._identical:
                self.element_shape = Shape(np.shape(value))
            return
        if not self._adds_up:
            raise self._used(index, "written", "it was written already", "give each write an index of its own")
        if np.shape(old) != np.shape(value):
            raise ShapeError(
                f"gradients of element {index} differ in shape",
                expected=str(list(np.shape(old))),
                got=str(list(np.shape(value))),
                hint="compare the shapes of what was written and of what was read",
            )
        self._elements[index] = np.add(old, value)

    def _read_one(self, index: int) -> Any:
        element = self._elements[index]
        if element is _CLEARED:
            raise self._used(index, "read", "it was read before, and forgotten then", "clear_after_read=False keeps it")
        if element is _UNWRITTEN:
            element = self._zeros(index)
        self._read[index] = True
        if self._clears:
            self._elements[index] = _CLEARED
        return element

    def _zeros(self, index: int) -> Array:
        sizes = self._shapes[index]
        if sizes is None:
            if not self.element_shape.is_fully_defined:
                raise self._used(
                    index,
                    "read",
                    f"it was not written, and its shape {self.element_shape} is not known",
                    "write every element, or give the array a fully defined element_shape: it then reads as zeros",
                )
            sizes = self.element_shape.as_tuple()
        return np.full(sizes, b"" if self.dtype is string else 0, self.dtype.array_type)

    def _used(self, index: int, what: str, why: str, hint: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"element {index} of the array cannot be {what}",
            expected="each element to be written once, and then read",
            got=why,
            hint=hint,
        )

    def __repr__(self) -> str:
        return f"<array of {len(self._elements)} {self.dtype}{self.element_shape}>"


def _array(handle: Any, dtype: DType) -> TensorArrayState:
    """The array behind a handle, whose elements have a dtype."""
    array = _any_array(handle)
    check_array_dtype(array.dtype, dtype)
    return array


def _any_array(handle: Any) -> TensorArrayState:
    if not isinstance(handle, TensorArrayState):
        raise InvalidArgumentError(
            "the handle is not that of an array",
            expected="what TensorArrayV3 gives",
            got=type(handle).__name__,
            hint="use each kind of handle with its own operations",
        )
    return handle


def _rows(value: Any, dtype: DType) -> list[Any]:
    """The rows of a tensor, in memory of their own."""
    copied = np.array(value)
    return list(copied) if copied.ndim > 1 or dtype is not string else [copied[row, ...] for row in range(len(copied))]


@register_kernel("TensorArrayV3")
def _make(op: OpContext, size: Array) -> tuple[TensorArrayState, Array]:
    count = scalar_of(size, "size")
    if count < 0:
        raise InvalidArgumentError(
            "the size is negative", expected="size >= 0", got=str(count), hint="dynamic_size=True lets size 0 grow"
        )
    array = TensorArrayState(
        count,
        op.attr("dtype"),
        op.attr("element_shape"),
        dynamic_size=op.attr("dynamic_size"),
        clear_after_read=op.attr("clear_after_read"),
        identical_element_shapes=op.attr("identical_element_shapes"),
    )
    return array, np.zeros((), np.float32)


@register_kernel("TensorArrayGradV3", aliases=[1])
def _gradient(op: OpContext, handle: Any, flow: Array) -> tuple[TensorArrayState, Array]:
    return _any_array(handle).gradient(op.attr("source")), flow


@register_kernel("TensorArrayWriteV3", aliases=[3])
def _write(op: OpContext, handle: Any, index: Array, value: Any, flow: Array) -> Array:
    _array(handle, op.attr("T")).write([int(index)], [np.array(value)])
    return flow


@register_kernel("TensorArrayReadV3")
def _read(op: OpContext, handle: Any, index: Array, flow: Array) -> Any:
    return _array(handle, op.attr("dtype")).read([int(index)])[0]


@register_kernel("TensorArrayGatherV3")
def _gather(op: OpContext, handle: Any, indices: Array, flow: Array) -> Array:
    array = _array(handle, op.attr("dtype"))
    elements = array.read([int(index) for index in indices])
    shape = op.attr("element_shape").merge(array.element_shape)
    for element in elements:
        check_array_element(shape, Shape(np.shape(element)))
        shape = Shape(np.shape(element))
    if not shape.is_fully_defined:
        raise ShapeError(
            "nothing is gathered, and the shape of the elements is not known",
            expected="a fully defined element shape",
            got=str(shape),
            hint="give element_shape when the array is made, or when it is read",
        )
    result = np.empty((len(elements), *shape.as_tuple()), array.dtype.array_type)
    for row, element in enumerate(elements):
        result[row, ...] = element
    return result


@register_kernel("TensorArrayScatterV3", aliases=[3])
def _scatter(op: OpContext, handle: Any, indices: Array, value: Any, flow: Array) -> Array:
    dtype = op.attr("T")
    _array(handle, dtype).write([int(index) for index in indices], _rows(value, dtype))
    return flow


@register_kernel("TensorArrayConcatV3")
def _concat(op: OpContext, handle: Any, flow: Array) -> tuple[Array, Array]:
    array = _array(handle, op.attr("dtype"))
    elements = array.read(range(array.size))
    rest: Shape = op.attr("element_shape_except0")
    known = array.element_shape.dims
    rest = rest if not known else rest.merge(Shape(known[1:]))
    for element in elements:
        check_array_element(Shape([None]) + rest, Shape(np.shape(element)))
        rest = Shape(np.shape(element)[1:])
    if not elements and not rest.is_fully_defined:
        raise ShapeError(
            "nothing is concatenated, and the shape of the rows is not known",
            expected="a fully defined shape but for the first axis",
            got=str(rest),
            hint="give element_shape when the array is made",
        )
    lengths = np.array([len(element) for element in elements], np.int64)
    joined = np.concatenate(elements) if elements else np.empty((0, *rest.as_tuple()), array.dtype.array_type)
    return joined, lengths


@register_kernel("TensorArraySplitV3", aliases=[3])
def _split(op: OpContext, handle: Any, value: Any, lengths: Array, flow: Array) -> Array:
    array = _array(handle, op.attr("T"))
    value = np.array(value)
    sizes = [int(size) for size in lengths]
    if min(sizes, default=0) < 0 or sum(sizes) != len(value):
        raise InvalidArgumentError(
            "the lengths do not cut the value",
            expected=f"lengths >= 0 with the sum {len(value)}",
            got=str(sizes),
            hint="every row belongs to one part",
        )
    if len(sizes) != array.size and not (array.dynamic_size and len(sizes) > array.size):
        raise InvalidArgumentError(
            "the parts are not as many as the array has elements",
            expected=f"{array.size} lengths",
            got=str(len(sizes)),
            hint="make the array of that size, or with dynamic_size=True",
        )
    array.write(range(len(sizes)), np.split(value, np.cumsum(sizes[:-1])) if sizes else [])
    return flow


@register_kernel("TensorArraySizeV3")
def _size(op: OpContext, handle: Any, flow: Array) -> Array:
    return np.array(_any_array(handle).size, np.int32)


@register_kernel("TensorArrayCloseV3")
def _close(op: OpContext, handle: Any) -> None:
    _any_array(handle).close()
