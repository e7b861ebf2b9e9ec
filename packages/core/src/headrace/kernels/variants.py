"""NumPy kernels of what differentiation does with any value: sums, zeros and ones, for values of dtype variant.

A kind of value that gradients flow through has a line in each of the two functions that know the kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError
from headrace.interfaces import OpContext
from headrace.kernels.list_value import TensorList
from headrace.kernels.optional import OptionalValue, as_optional
from headrace.kernels.registry import register_kernel
from headrace.kernels.tensor_list import as_list
from headrace.ops.tensor_list import check_element, check_list_dtype, merged_element_shape
from headrace.types import Shape, variant

_MANY_TIMES = 8
"""A list with so many times the elements of another is changed in place by it: a new store costs less per element."""

Fill = Callable[[Any], Any]


@register_kernel("AddN", dtypes={"T": [variant]})
def _add_n(op: OpContext, inputs: Sequence[Any]) -> Any:
    """The sum of gradients that arrive at a list: element by element, where a side that is not set counts as zero."""
    total = inputs[0]
    for item in inputs[1:]:
        total = _everywhere(_sum, total, item)
    return total


@register_kernel("ZerosLike", dtypes={"T": [variant]})
def _zeros_like(op: OpContext, value: Any) -> Any:
    return _everywhere(lambda inner: _filled(inner, _zeros), value)


@register_kernel("OnesLike", dtypes={"T": [variant]})
def _ones_like(op: OpContext, value: Any) -> Any:
    return _everywhere(lambda inner: _filled(inner, np.ones_like), value)


def _zeros(value: Any) -> Any:
    """Zeros, or empty strings."""
    array = np.asarray(value)
    return np.full(array.shape, b"", object) if array.dtype == object else np.zeros_like(array)


def _everywhere(function: Callable[..., Any], *values: Any) -> Any:
    """Apply a function of scalars to variants of any shape, place by place."""
    shape = np.shape(values[0]) if isinstance(values[0], np.ndarray) else ()
    if not shape:
        return function(*(value[()] if isinstance(value, np.ndarray) else value for value in values))
    result = np.empty(shape, object)
    for place in np.ndindex(shape):
        result[place] = function(*(value[place] for value in values))
    return result


def _sum(first: Any, second: Any) -> Any:
    """The sum of two elements of any kind."""
    if first is None:
        return second
    if isinstance(first, OptionalValue):
        return _sum_of_optionals(first, as_optional(second))
    if not isinstance(first, (np.ndarray, np.generic)):
        return _sum_of_lists(as_list(first), as_list(second))
    if np.shape(first) != np.shape(second):
        check_element(Shape(np.shape(first)), Shape(np.shape(second)))
    return np.add(first, second)


def _filled(value: Any, fill: Fill) -> Any:
    """A value like another one, with every element replaced."""
    if isinstance(value, (np.ndarray, np.generic)):
        return fill(value)
    if isinstance(value, OptionalValue):
        parts = None if value.components is None else tuple(_filled(part, fill) for part in value.components)
        return OptionalValue(parts, value.dtypes)
    found = as_list(value)
    return found.of_type({index: _filled(item, fill) for index, item in found.elements().items()}, found.length)


def _sum_of_optionals(first: OptionalValue, second: OptionalValue) -> OptionalValue:
    if first.components is None and second.components is None:
        return first
    if first.components is None or second.components is None or first.dtypes != second.dtypes:
        raise InvalidArgumentError(
            "only optionals that hold the same can be added",
            expected=", ".join(map(str, first.dtypes)) or "nothing",
            got=", ".join(map(str, second.dtypes)) or "nothing",
            hint="ask OptionalHasValue of both first",
        )
    return OptionalValue(tuple(map(_sum, first.components, second.components)), first.dtypes)


def _sum_of_lists(first: TensorList, second: TensorList) -> TensorList:
    check_list_dtype(second.element_dtype, first.element_dtype)
    if first.length != second.length:
        raise InvalidArgumentError(
            "only lists of one length can be added",
            expected=f"{first.length} elements",
            got=f"{second.length} elements",
            hint="TensorListResize makes the lengths equal; elements that are not set count as zeros",
        )
    few, many = (second, first) if second.set_count <= first.set_count else (first, second)
    same = first.element_shape == second.element_shape
    shape = many.element_shape if same else merged_element_shape(first.element_shape, second.element_shape)
    if few.set_count * _MANY_TIMES <= many.set_count and shape == many.element_shape:
        for index, element in few.elements().items():
            many = many.put(index, _sum(many.get(index), element))
        return many
    elements = many.elements()
    for index, element in few.elements().items():
        elements[index] = _sum(elements.get(index), element)
    return TensorList(elements, first.length, first.element_dtype, shape, first.max_num_elements)
