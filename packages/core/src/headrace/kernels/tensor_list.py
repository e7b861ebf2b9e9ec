"""NumPy kernels of the operations on lists.

What is put into a list is copied: the arrays that kernels see live in memory that the plan uses again. What is read is
the list's own array, which nobody writes to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError, OutOfRangeError, ShapeError
from headrace.interfaces import OpContext
from headrace.kernels.list_value import TensorList
from headrace.kernels.registry import register_kernel
from headrace.ops.shapes import scalar_of
from headrace.ops.tensor_list import check_element, check_list_dtype, merged_element_shape, shape_from_value
from headrace.types import Array, DType, Shape, string, variant

__all__ = ["as_list", "zeros_of"]


def as_list(value: Any) -> TensorList:
    """The list that a scalar of dtype variant holds.

    Raises:
      InvalidArgumentError: it holds something else.
    """
    inner = value[()] if isinstance(value, np.ndarray) and not value.ndim else value
    if isinstance(inner, TensorList):
        return inner
    raise InvalidArgumentError(
        "the value is not a list",
        expected="what EmptyTensorList and the other operations on lists give",
        got=f"{type(inner).__name__}" if inner is not None else "an element that was never set",
        hint="set the element before you read it, and use each kind of variant with its own operations",
    )


def _typed(op: OpContext, value: Any) -> TensorList:
    """The list, whose elements have the dtype that the operation names."""
    found = value if type(value) is TensorList else as_list(value)
    check_list_dtype(found.element_dtype, op.attr("element_dtype"))
    return found


def _kept(element: Any) -> Any:
    """An element in memory of its own; lists and NumPy scalars never change."""
    return element.copy() if isinstance(element, np.ndarray) else element


def _shape_of(element: Any) -> Shape:
    return Shape(np.shape(element)) if isinstance(element, (np.ndarray, np.generic)) else Shape([])


def _check_fits(declared: Shape, element: Any) -> None:
    if declared.dims is not None and declared.dims != getattr(element, "shape", ()):
        check_element(declared, _shape_of(element))


def zeros_of(dtype: DType, sizes: Sequence[int]) -> Array:
    """Zeros, or empty strings.

    Raises:
      InvalidArgumentError: a list has no zero.
    """
    if dtype is variant:
        as_list(None)
    return np.full(tuple(sizes), b"" if dtype is string else 0, dtype.array_type)


def _known_sizes(shape: Shape, why: str) -> tuple[int, ...]:
    """The sizes of an element whose shape must be known, because it, or every element, is not set.

    Raises:
      ShapeError: they are not known.
    """
    if not shape.is_fully_defined:
        raise ShapeError(
            f"{why}, and the shape is not known",
            expected="a fully defined element shape: it then reads as zeros",
            got=str(shape),
            hint="set it first, or give element_shape when the list is made or read",
        )
    return shape.as_tuple()


def _common_shape(found: TensorList, named: Array, items: Sequence[Any]) -> Shape:
    """What is known of the one shape that all `items` must have.

    Raises:
      ShapeError: two of them differ.
    """
    shape = merged_element_shape(found.element_shape, shape_from_value(np.asarray(named)))
    if shape.is_fully_defined and found.element_shape.is_fully_defined:
        return shape  # every element was checked when it was put in
    for item in items:
        if item is None:
            continue
        if not shape.is_compatible_with(_shape_of(item)):
            raise ShapeError(
                "the elements differ in shape",
                expected=str(shape),
                got=str(_shape_of(item)),
                hint="TensorListConcatV2 joins elements whose first axes differ; pad the others to one shape",
            )
        shape = shape.merge(_shape_of(item))
    return shape


def _stacked(items: Sequence[Any], dtype: DType, shape: Shape, out: Array | None = None) -> Array:
    """The elements as rows of one array; those that are not set are zeros."""
    sizes = _known_sizes(shape, "no element of the list is set")
    if out is None:
        out = np.empty((len(items), *sizes), dtype.array_type)
    if dtype is variant:
        for row, item in enumerate(items):
            out[row] = as_list(item)
        return out
    empty: Any = b"" if dtype is string else 0
    for row, item in enumerate(items):
        out[row, ...] = empty if item is None else item
    return out


def _rows(tensor: Any, dtype: DType) -> list[Any]:
    """The rows of a tensor, in memory of their own."""
    copied = np.array(tensor)
    return list(copied) if copied.ndim > 1 or dtype is not string else [copied[row, ...] for row in range(len(copied))]


def _check_index(index: int, length: int) -> None:
    if not 0 <= index < length:
        raise OutOfRangeError(
            "an index is beyond the list",
            expected=f"0 <= index < {length}",
            got=str(index),
            hint="TensorListResize adds elements; TensorListLength tells how many there are",
        )


def _check_count(count: int, what: str, least: int) -> int:
    if count < least:
        raise InvalidArgumentError(
            f"{what} is too small", expected=f"at least {least}", got=str(count), hint="count elements from 0 up"
        )
    return count


@register_kernel("EmptyTensorList")
def _empty(op: OpContext, element_shape: Array, max_num_elements: Array) -> TensorList:
    most = scalar_of(max_num_elements, "max_num_elements")
    return TensorList({}, 0, op.attr("element_dtype"), shape_from_value(np.asarray(element_shape)), most)


@register_kernel("TensorListReserve")
def _reserve(op: OpContext, element_shape: Array, num_elements: Array) -> TensorList:
    count = _check_count(scalar_of(num_elements, "num_elements"), "num_elements", 0)
    return TensorList({}, count, op.attr("element_dtype"), shape_from_value(np.asarray(element_shape)))


@register_kernel("TensorListPushBack")
def _push_back(op: OpContext, handle: Any, tensor: Any) -> TensorList:
    found = _typed(op, handle)
    _check_fits(found.element_shape, tensor)
    _check_not_full(found)
    return found.push(_kept(tensor))


def _check_not_full(found: TensorList) -> None:
    if found.length == found.max_num_elements:
        raise InvalidArgumentError(
            "the list is full",
            expected=f"at most {found.max_num_elements} elements",
            got="one more",
            hint="make it with max_num_elements=-1 if it may grow without limit",
        )


@register_kernel("TensorListPopBack", aliases=[0])
def _pop_back(op: OpContext, handle: Any, element_shape: Array) -> tuple[TensorList, Any]:
    found = _typed(op, handle)
    if not found.length:
        raise InvalidArgumentError(
            "an empty list has no last element",
            expected="at least one element",
            got="none",
            hint="push before you pop; TensorListLength tells how many elements there are",
        )
    shorter, item = found.pop()
    return shorter, _read(found, item, element_shape)


@register_kernel("TensorListGetItem", aliases=[0])
def _get_item(op: OpContext, handle: Any, index: Array, element_shape: Array) -> Any:
    found = _typed(op, handle)
    number = int(index)
    _check_index(number, found.length)
    return _read(found, found.get(number), element_shape)


def _read(found: TensorList, item: Any, named: Array) -> Any:
    """An element, or zeros if it is not set: of the shape of the others where none is declared."""
    if item is None:
        shape = merged_element_shape(found.element_shape, shape_from_value(np.asarray(named)))
        if not shape.is_fully_defined:
            shape = _common_shape(found, named, found.items())
        return zeros_of(found.element_dtype, _known_sizes(shape, "the element is not set"))
    return item


@register_kernel("TensorListSetItem")
def _set_item(op: OpContext, handle: Any, index: Array, item: Any) -> TensorList:
    found = _typed(op, handle)
    _check_fits(found.element_shape, item)
    number = int(index)
    if number >= found.length and op.attr("resize_if_index_out_of_bounds"):
        found = found.resized(number + 1)
    _check_index(number, found.length)
    return found.put(number, _kept(item))


@register_kernel("TensorListStack", takes_out=True)
def _stack(op: OpContext, handle: Any, element_shape: Array, out: Array | None = None) -> Array:
    found = _typed(op, handle)
    wanted = op.attr("num_elements")
    if wanted not in (-1, found.length):
        raise InvalidArgumentError(
            "the list has another number of elements",
            expected=str(wanted),
            got=str(found.length),
            hint="num_elements=-1 takes any number",
        )
    items = found.items()
    return _stacked(items, found.element_dtype, _common_shape(found, element_shape, items), out)


@register_kernel("TensorListFromTensor")
def _from_tensor(op: OpContext, tensor: Any, element_shape: Array) -> TensorList:
    dtype = op.attr("element_dtype")
    rows = _rows(tensor, dtype)
    return TensorList(dict(enumerate(rows)), len(rows), dtype, shape_from_value(np.asarray(element_shape)))


@register_kernel("TensorListLength")
def _length(op: OpContext, handle: Any) -> Array:
    return np.array(as_list(handle).length, np.int32)


@register_kernel("TensorListElementShape")
def _element_shape(op: OpContext, handle: Any) -> Array:
    dims = as_list(handle).element_shape.dims
    sizes: Any = -1 if dims is None else [-1 if size is None else size for size in dims]
    return np.array(sizes, op.attr("shape_type").array_type)


@register_kernel("TensorListConcatV2")
def _concat(op: OpContext, handle: Any, element_shape: Array, leading_dims: Array) -> tuple[Array, Array]:
    found = _typed(op, handle)
    shape = merged_element_shape(found.element_shape, shape_from_value(np.asarray(element_shape)))
    items = found.items()
    first = None if shape.dims is None else shape.dims[0]
    rest = Shape() if shape.dims is None else Shape(shape.dims[1:])
    sizes = set()
    for item in items:
        if item is not None:
            own = _shape_of(item)
            if own.dims is None or not own.dims or not rest.is_compatible_with(Shape(own.dims[1:])):
                raise ShapeError(
                    "the elements cannot be concatenated",
                    expected=f"one shape but for the first axis, here {rest}",
                    got=str(own),
                    hint="TensorListStack joins scalars, and elements of one shape along a new axis",
                )
            rest = rest.merge(Shape(own.dims[1:]))
            sizes.add(own.dims[0])
    if first is None and len(sizes) == 1:
        (first,) = sizes
    inner = _known_sizes(rest, "no element of the list is set")
    lengths = [
        _length_of_unset(index, leading_dims, first) if item is None else int(np.shape(item)[0])
        for index, item in enumerate(items)
    ]
    parts = [
        zeros_of(found.element_dtype, (length, *inner)) if item is None else item
        for item, length in zip(items, lengths, strict=True)
    ]
    dtype = found.element_dtype.array_type
    joined = np.concatenate(parts) if parts else np.empty((0, *inner), dtype)
    return joined, np.array(lengths, np.int64)


def _length_of_unset(index: int, leading_dims: Array, first: int | None) -> int:
    """How many rows of zeros stand for an element that is not set."""
    if index < len(leading_dims):
        return int(leading_dims[index])
    if first is None:
        raise ShapeError(
            f"element {index} is not set, and its first size is not known",
            expected=f"more than {index} leading_dims, or elements of one size",
            got=f"{len(leading_dims)} leading_dims",
            hint="set it first, or give the first size of each element in leading_dims",
        )
    return first


@register_kernel("TensorListSplit")
def _split(op: OpContext, tensor: Array, element_shape: Array, lengths: Array) -> TensorList:
    tensor = np.array(tensor)
    sizes = [int(size) for size in lengths]
    if min(sizes, default=0) < 0 or sum(sizes) != len(tensor):
        raise InvalidArgumentError(
            "the lengths do not cut the tensor",
            expected=f"lengths >= 0 with the sum {len(tensor)}",
            got=str(sizes),
            hint="every row belongs to one part",
        )
    declared = shape_from_value(np.asarray(element_shape))
    parts = np.split(tensor, np.cumsum(sizes[:-1])) if sizes else []
    for part in parts:
        check_element(declared, Shape(part.shape))
    return TensorList(dict(enumerate(parts)), len(parts), op.attr("element_dtype"), declared)


@register_kernel("TensorListGather", takes_out=True)
def _gather(op: OpContext, handle: Any, indices: Array, element_shape: Array, out: Array | None = None) -> Array:
    found = _typed(op, handle)
    numbers = [int(index) for index in indices]
    for index in numbers:
        _check_index(index, found.length)
    elements = found.elements()
    picked = [elements.get(index) for index in numbers]
    return _stacked(picked, found.element_dtype, _common_shape(found, element_shape, picked), out)


def _by_index(tensor: Any, indices: Array, dtype: DType) -> dict[int, Any]:
    """The rows of a tensor by the indices that they go to."""
    return {int(index): row for index, row in zip(indices, _rows(tensor, dtype), strict=True)}


def _size_for(indices: Array) -> int:
    """How many elements a list needs to have all the indices.

    Raises:
      OutOfRangeError: an index is negative.
    """
    numbers = [int(index) for index in indices]
    if min(numbers, default=0) < 0:
        raise OutOfRangeError(
            "an index is negative", expected="indices >= 0", got=str(numbers), hint="elements are counted from 0 up"
        )
    return max(numbers, default=-1) + 1


@register_kernel("TensorListScatterV2")
def _scatter(op: OpContext, tensor: Any, indices: Array, element_shape: Array, num_elements: Array) -> TensorList:
    dtype = op.attr("element_dtype")
    needed = _size_for(indices)
    count = _check_count(scalar_of(num_elements, "num_elements"), "num_elements", -1)
    if count == -1:
        count = needed
    if needed:
        _check_index(needed - 1, count)
    shape = shape_from_value(np.asarray(element_shape))
    return TensorList(_by_index(tensor, indices, dtype), count, dtype, shape)


@register_kernel("TensorListScatterIntoExistingList")
def _scatter_into(op: OpContext, handle: Any, tensor: Any, indices: Array) -> TensorList:
    found = _typed(op, handle)
    check_element(found.element_shape, Shape(np.shape(tensor)[1:]))
    elements = found.elements() | _by_index(tensor, indices, found.element_dtype)
    return found.of_type(elements, max(found.length, _size_for(indices)))


@register_kernel("TensorListResize")
def _resize(op: OpContext, handle: Any, size: Array) -> TensorList:
    return as_list(handle).resized(_check_count(scalar_of(size, "size"), "size", 0))


@register_kernel("TensorListConcatLists")
def _concat_lists(op: OpContext, first: Any, second: Any) -> Any:
    if not np.shape(first) and not np.shape(second):
        return _followed(_typed(op, first), _typed(op, second))
    joined = np.empty(np.shape(first), object)
    for place in np.ndindex(joined.shape):
        joined[place] = _followed(_typed(op, first[place]), _typed(op, second[place]))
    return joined


def _followed(first: TensorList, second: TensorList) -> TensorList:
    shape = merged_element_shape(first.element_shape, second.element_shape)
    shifted = {first.length + index: element for index, element in second.elements().items()}
    length = first.length + second.length
    return TensorList(first.elements() | shifted, length, first.element_dtype, shape, first.max_num_elements)


@register_kernel("TensorListPushBackBatch")
def _push_back_batch(op: OpContext, handles: Array, tensor: Any) -> Array:
    pushed = np.empty(len(handles), object)
    for place, row in enumerate(_rows(tensor, op.attr("element_dtype"))):
        found = _typed(op, handles[place])
        _check_fits(found.element_shape, row)
        _check_not_full(found)
        pushed[place] = found.push(row)
    return pushed
