"""Operations on lists: values of dtype variant that hold tensors, for loops that make or read one element at a time.

A list is a value like any other: pushing an element gives another list and leaves the first one as it is. The element
dtype and the declared element shape, of which parts may be unknown, belong to the list; operations that read it name
the dtype again and may name the shape more precisely. Elements may be lists themselves.

Source: TensorFlow's operations of the same names, for the signatures and for what is refused.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from headrace.errors import DTypeError, InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.op_def import InferenceContext, register_op
from headrace.ops.shapes import check_scalar
from headrace.types import Array, DType, Shape, as_shape

__all__ = ["check_element", "check_list_dtype", "check_rows", "merged_element_shape", "shape_from_value"]

_ELEMENT: dict[str, Any] = {"element_dtype": attr.any_type}
_TYPES: dict[str, Any] = {**_ELEMENT, "shape_type": attr.index_type}
_SCALAR = Shape([])


def shape_from_value(value: Array) -> Shape:
    """The shape that an `element_shape` input names: a vector of sizes with -1 where unknown, or -1 for any shape.

    Raises:
      ShapeError: it is another scalar, has more than one axis, or names a size below -1.
    """
    if value.ndim == 1:
        return _shape_of(tuple(value.tolist()))
    if value.ndim == 0 and int(value) == -1:
        return Shape()
    raise ShapeError(
        "this names no element shape",
        expected="a vector of sizes, -1 where unknown, or the scalar -1 for any shape",
        got=str(value.tolist()),
        hint="hr.shape(element) gives the shape of an element",
    )


_shape_of = lru_cache(1024)(as_shape)
"""Loops ask for the shape of the same few sizes in each iteration."""


def check_list_dtype(found: DType, wanted: DType) -> None:
    """Raise DTypeError unless the elements of a list have the dtype that an operation works with."""
    if found is not wanted:
        raise DTypeError(
            "the list has elements of another dtype",
            expected=f"a list of {wanted}",
            got=f"a list of {found}",
            hint=f"give element_dtype=hr.{found}, or cast elements before they are put in",
        )


def check_element(declared: Shape, element: Shape) -> None:
    """Raise ShapeError unless an element fits the element shape that its list declares."""
    if not declared.is_compatible_with(element):
        raise ShapeError(
            "the element does not fit the list",
            expected=f"shape {declared}, as the list declares",
            got=f"shape {element}",
            hint="make the list with element_shape=-1 if its elements differ in shape",
        )


def merged_element_shape(declared: Shape, named: Shape) -> Shape:
    """What a list declares of its elements and what the operation names, together.

    Raises:
      ShapeError: they contradict each other.
    """
    if not declared.is_compatible_with(named):
        raise ShapeError(
            "element_shape contradicts the list",
            expected=f"{declared}, as the list declares",
            got=str(named),
            hint="element_shape=-1 takes what the list declares",
        )
    return declared.merge(named)


def check_rows(rows: Shape, what: str) -> None:
    """Raise ShapeError unless a tensor, of which each row becomes an element, has rows."""
    if rows.rank == 0:
        raise ShapeError(
            f"{what} has no rows to make elements of",
            expected="rank >= 1",
            got="shape []",
            hint="hr.expand_dims(x, 0) makes it a list of one element",
        )


def _declared(op: InferenceContext, index: int = 0) -> Shape:
    """The element shape of the list that input `index` is, as far as it is known here."""
    check_scalar(op.inputs[index].shape, "a list")
    spec = op.list_spec(index)
    if spec is None:
        return Shape()
    check_list_dtype(spec.dtype, op.attr("element_dtype"))
    return spec.shape


def _named(op: InferenceContext, index: int) -> Shape:
    """The shape that the `element_shape` input names, as far as it is known here."""
    value = op.constant(index)
    return op.constant_shape(index) if value is None else shape_from_value(value)


def _element(op: InferenceContext, shape_input: int) -> Shape:
    """The static shape of an element that is read from the list that input 0 is."""
    return merged_element_shape(_declared(op), _named(op, shape_input))


def _rest(shape: Shape) -> Shape:
    """The shape without its first axis."""
    return Shape() if shape.dims is None else Shape(shape.dims[1:])


@register_op(
    "EmptyTensorList",
    inputs={"element_shape": "shape_type", "max_num_elements": "int32"},
    outputs={"handle": "variant"},
    attrs=_TYPES,
)
def _empty_shape(op: InferenceContext) -> list[Shape]:
    """A list without elements, for elements of a dtype and shape; it takes at most `max_num_elements`, or any if -1."""
    _named(op, 0)
    check_scalar(op.inputs[1].shape, "max_num_elements")
    return [_SCALAR]


@register_op(
    "TensorListReserve",
    inputs={"element_shape": "shape_type", "num_elements": "int32"},
    outputs={"handle": "variant"},
    attrs=_TYPES,
)
def _reserve_shape(op: InferenceContext) -> list[Shape]:
    """A list of `num_elements` elements that are not set yet; they read as zeros."""
    _named(op, 0)
    check_scalar(op.inputs[1].shape, "num_elements")
    return [_SCALAR]


@register_op(
    "TensorListPushBack",
    inputs={"input_handle": "variant", "tensor": "element_dtype"},
    outputs={"output_handle": "variant"},
    attrs=_ELEMENT,
)
def _push_back_shape(op: InferenceContext) -> list[Shape]:
    """The list with one more element at its end."""
    check_element(_declared(op), op.inputs[1].shape)
    return [_SCALAR]


@register_op(
    "TensorListPopBack",
    inputs={"input_handle": "variant", "element_shape": "int32"},
    outputs={"output_handle": "variant", "tensor": "element_dtype"},
    attrs=_ELEMENT,
)
def _pop_back_shape(op: InferenceContext) -> list[Shape]:
    """The list without its last element, and that element."""
    return [_SCALAR, _element(op, 1)]


@register_op(
    "TensorListGetItem",
    inputs={"input_handle": "variant", "index": "int32", "element_shape": "int32"},
    outputs={"item": "element_dtype"},
    attrs=_ELEMENT,
)
def _get_item_shape(op: InferenceContext) -> list[Shape]:
    """One element of the list; zeros where it is not set and the shape is known."""
    check_scalar(op.inputs[1].shape, "index")
    return [_element(op, 2)]


@register_op(
    "TensorListSetItem",
    inputs={"input_handle": "variant", "index": "int32", "item": "element_dtype"},
    outputs={"output_handle": "variant"},
    attrs={**_ELEMENT, "resize_if_index_out_of_bounds": attr.bool(False, recent=True)},
)
def _set_item_shape(op: InferenceContext) -> list[Shape]:
    """The list with another element at an index; beyond its end only if the list is to grow then."""
    check_scalar(op.inputs[1].shape, "index")
    check_element(_declared(op), op.inputs[2].shape)
    return [_SCALAR]


@register_op(
    "TensorListStack",
    inputs={"input_handle": "variant", "element_shape": "int32"},
    outputs={"tensor": "element_dtype"},
    attrs={**_ELEMENT, "num_elements": attr.int(-1)},
)
def _stack_shape(op: InferenceContext) -> list[Shape]:
    """The elements, which have one shape, as the rows of a tensor; `num_elements` states how many there are."""
    count = op.attr("num_elements")
    return [Shape([None if count < 0 else count]) + _element(op, 1)]


@register_op(
    "TensorListFromTensor",
    inputs={"tensor": "element_dtype", "element_shape": "shape_type"},
    outputs={"output_handle": "variant"},
    attrs=_TYPES,
)
def _from_tensor_shape(op: InferenceContext) -> list[Shape]:
    """A list of the rows of a tensor."""
    rows = op.inputs[0].shape
    check_rows(rows, "the tensor")
    check_element(_named(op, 1), _rest(rows))
    return [_SCALAR]


@register_op("TensorListLength", inputs={"input_handle": "variant"}, outputs={"length": "int32"})
def _length_shape(op: InferenceContext) -> list[Shape]:
    """How many elements the list has."""
    check_scalar(op.inputs[0].shape, "a list")
    return [_SCALAR]


@register_op(
    "TensorListElementShape",
    inputs={"input_handle": "variant"},
    outputs={"element_shape": "shape_type"},
    attrs={"shape_type": attr.index_type},
)
def _element_shape_shape(op: InferenceContext) -> list[Shape]:
    """The element shape that the list declares: sizes with -1 where unknown, or -1 for any shape."""
    check_scalar(op.inputs[0].shape, "a list")
    spec = op.list_spec(0)
    return [Shape() if spec is None or spec.shape.rank is None else Shape([spec.shape.rank])]


@register_op(
    "TensorListConcatV2",
    inputs={"input_handle": "variant", "element_shape": "shape_type", "leading_dims": "int64"},
    outputs={"tensor": "element_dtype", "lengths": "int64"},
    attrs=_TYPES,
)
def _concat_shape(op: InferenceContext) -> list[Shape]:
    """The elements one after the other along their first axis, and the size of each there.

    Elements that are not set are zeros, of which `leading_dims` says how many rows, unless the element shape does.
    """
    element = _element(op, 1)
    check_rows(element, "an element")
    op.inputs[2].shape.with_rank(1)
    return [Shape() if element.dims is None else Shape([None, *element.dims[1:]]), Shape([None])]


@register_op(
    "TensorListSplit",
    inputs={"tensor": "element_dtype", "element_shape": "shape_type", "lengths": "int64"},
    outputs={"output_handle": "variant"},
    attrs=_TYPES,
)
def _split_shape(op: InferenceContext) -> list[Shape]:
    """A list of the parts of a tensor, cut along its first axis into parts of the given lengths."""
    rows = op.inputs[0].shape
    check_rows(rows, "the tensor")
    check_rows(_named(op, 1), "element_shape")
    check_element(_rest(_named(op, 1)), _rest(rows))
    op.inputs[2].shape.with_rank(1)
    return [_SCALAR]


@register_op(
    "TensorListGather",
    inputs={"input_handle": "variant", "indices": "int32", "element_shape": "int32"},
    outputs={"values": "element_dtype"},
    attrs=_ELEMENT,
)
def _gather_shape(op: InferenceContext) -> list[Shape]:
    """The elements that the indices name, which have one shape, as the rows of a tensor."""
    return [op.inputs[1].shape.with_rank(1) + _element(op, 2)]


def _check_scattered(rows: Shape, indices: Shape, element: Shape) -> None:
    check_rows(rows, "the tensor")
    check_element(element, _rest(rows))
    count = None if rows.dims is None else rows.dims[0]
    if not indices.with_rank(1).is_compatible_with(Shape([count])):
        raise ShapeError(
            "there must be one index for each row",
            expected=f"{count} indices",
            got=str(indices),
            hint="hr.range(n) numbers the rows in their order",
        )


@register_op(
    "TensorListScatterV2",
    inputs={
        "tensor": "element_dtype",
        "indices": "int32",
        "element_shape": "shape_type",
        "num_elements": "int32",
    },
    outputs={"output_handle": "variant"},
    attrs=_TYPES,
)
def _scatter_shape(op: InferenceContext) -> list[Shape]:
    """A list with the rows of a tensor at the given indices, of which the last counts where one repeats.

    It has `num_elements` elements, or, if that is -1, as many as the largest index asks for; the others are not set.
    """
    check_scalar(op.inputs[3].shape, "num_elements")
    _check_scattered(op.inputs[0].shape, op.inputs[1].shape, _named(op, 2))
    return [_SCALAR]


@register_op(
    "TensorListScatterIntoExistingList",
    inputs={"input_handle": "variant", "tensor": "element_dtype", "indices": "int32"},
    outputs={"output_handle": "variant"},
    attrs=_ELEMENT,
)
def _scatter_into_shape(op: InferenceContext) -> list[Shape]:
    """The list with the rows of a tensor at the given indices; it grows if one is beyond its end."""
    _check_scattered(op.inputs[1].shape, op.inputs[2].shape, _declared(op))
    return [_SCALAR]


@register_op(
    "TensorListResize", inputs={"input_handle": "variant", "size": "int32"}, outputs={"output_handle": "variant"}
)
def _resize_shape(op: InferenceContext) -> list[Shape]:
    """The list cut to `size` elements, or with elements added that are not set."""
    check_scalar(op.inputs[0].shape, "a list")
    check_scalar(op.inputs[1].shape, "size")
    return [_SCALAR]


@register_op(
    "TensorListConcatLists",
    inputs={"input_a": "variant", "input_b": "variant"},
    outputs={"output": "variant"},
    attrs=_ELEMENT,
)
def _concat_lists_shape(op: InferenceContext) -> list[Shape]:
    """The elements of one list followed by those of another; or so for each two lists of two tensors of lists."""
    specs = [spec for spec in (op.list_spec(0), op.list_spec(1)) if spec is not None]
    for spec in specs:
        check_list_dtype(spec.dtype, op.attr("element_dtype"))
    if len(specs) == 2:
        merged_element_shape(specs[0].shape, specs[1].shape)
    _check_as_many(op.inputs[0].shape, op.inputs[1].shape)
    return [op.inputs[0].shape.merge(op.inputs[1].shape)]


@register_op(
    "TensorListPushBackBatch",
    inputs={"input_handles": "variant", "tensor": "element_dtype"},
    outputs={"output_handles": "variant"},
    attrs=_ELEMENT,
)
def _push_back_batch_shape(op: InferenceContext) -> list[Shape]:
    """Each list of a vector of lists with one more element: its row of a tensor."""
    lists, rows = op.inputs[0].shape.with_rank(1), op.inputs[1].shape
    check_rows(rows, "the tensor")
    _check_as_many(lists, Shape([None if rows.dims is None else rows.dims[0]]))
    spec = op.list_spec(0)
    if spec is not None:
        check_list_dtype(spec.dtype, op.attr("element_dtype"))
        check_element(spec.shape, _rest(rows))
    return [lists]


def _check_as_many(lists: Shape, others: Shape) -> None:
    if not lists.is_compatible_with(others):
        raise InvalidArgumentError(
            "the lists do not match one to one",
            expected=f"as many as {lists} holds",
            got=str(others),
            hint="give one row, or one list, for each list",
        )
