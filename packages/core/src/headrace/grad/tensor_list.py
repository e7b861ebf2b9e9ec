"""Gradient rules of the operations on lists.

The gradient of a list is a list of as many elements: where one is not set, it is zero. So pushing is undone by popping,
and reading one element of a list gives it a list with that element alone.
"""

from __future__ import annotations

from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.apply import apply_op, convert_to_tensor
from headrace.graph.list_spec import list_spec
from headrace.graph.operation import Operation, Tensor
from headrace.ops.branching import cond
from headrace.types import DType, int32, variant

for _name in ("EmptyTensorList", "TensorListReserve"):
    no_gradient(_name, "a new list depends on no value")
for _name in ("TensorListLength", "TensorListElementShape"):
    no_gradient(_name, "its output is an integer and depends on no value")
no_gradient(
    "TensorListPushBackBatch", "no operation pops from several lists at once; push onto each list to differentiate"
)


def _is_differentiable(op: Operation) -> bool:
    dtype = op.attr("element_dtype")
    return dtype.is_differentiable or dtype is variant


def _declared(handle: Tensor, shape_type: DType = int32) -> Tensor:
    """The element shape that a list declares; a constant where it is known while the graph is built."""
    spec = list_spec(handle)
    declared: Tensor
    if spec is None or spec.shape.dims is None:
        declared = apply_op("TensorListElementShape", handle, shape_type=shape_type)
    else:
        sizes = [-1 if size is None else size for size in spec.shape.dims]
        declared = convert_to_tensor(sizes, shape_type)
    return declared


def _length(handle: Tensor) -> Tensor:
    length: Tensor = apply_op("TensorListLength", handle)
    return length


def _row_shape(rows: Tensor, shape_type: DType = int32) -> Tensor:
    """The shape of one row."""
    shape: Tensor = apply_op("StridedSlice", apply_op("Shape", rows, out_type=shape_type), [1], [0], [1], end_mask=1)
    return shape


def _pushed(op: Operation) -> Tensor:
    """The shape of the element that an operation puts in."""
    shape: Tensor = apply_op("Shape", op.inputs[-1])
    return shape


@register_gradient("TensorListPushBack")
def _push_back(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The last element of g is the element's gradient, the rest is the list's."""
    dtype = op.attr("element_dtype")
    shorter, last = apply_op("TensorListPopBack", g, _pushed(op), element_dtype=dtype)
    return [shorter, last if _is_differentiable(op) else None]


@register_gradient("TensorListPopBack")
def _pop_back(op: Operation, g_list: Tensor | None, g_element: Tensor | None) -> list[Tensor | None]:
    """The two put together again; a part to which nothing came is zero."""
    shorter, element = op.outputs
    dtype = op.attr("element_dtype")
    if not _is_differentiable(op):
        return [None, None]
    if g_list is None:
        g_list = apply_op("TensorListReserve", _declared(op.inputs[0]), _length(shorter), element_dtype=dtype)
    if g_element is None:
        g_element = apply_op("ZerosLike", element)
    return [apply_op("TensorListPushBack", g_list, g_element), None]


@register_gradient("TensorListGetItem")
def _get_item(op: Operation, g: Tensor | None) -> list[Tensor | None]:
    """A list with one element: g. Adding n of those up costs n, as lists hold only what is set."""
    if g is None or not _is_differentiable(op):
        return [None, None, None]
    handle, index, _ = op.inputs
    dtype = op.attr("element_dtype")
    nothing = apply_op("TensorListReserve", _declared(handle), _length(handle), element_dtype=dtype)
    return [apply_op("TensorListSetItem", nothing, index, g), None, None]


@register_gradient("TensorListSetItem")
def _set_item(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The element gets the gradient at its index; the element that it replaced gets none."""
    handle, index, item = op.inputs
    dtype = op.attr("element_dtype")
    if not _is_differentiable(op):
        return [g, None, None]
    element = apply_op("TensorListGetItem", g, index, _pushed(op), element_dtype=dtype)
    rest = apply_op("TensorListSetItem", g, index, apply_op("ZerosLike", item))
    if op.attr("resize_if_index_out_of_bounds"):
        rest = apply_op("TensorListResize", rest, _length(handle))
    return [rest, None, element]


@register_gradient("TensorListStack")
def _stack(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The rows of g as a list."""
    if not _is_differentiable(op):
        return [None, None]
    return [apply_op("TensorListFromTensor", g, _declared(op.inputs[0])), None]


@register_gradient("TensorListFromTensor")
def _from_tensor(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The elements of g as rows."""
    if not _is_differentiable(op):
        return [None, None]
    rows = op.inputs[0]
    count = rows.shape[0]
    dtype = op.attr("element_dtype")
    number = -1 if count is None else count
    return [apply_op("TensorListStack", g, _row_shape(rows), element_dtype=dtype, num_elements=number), None]


@register_gradient("TensorListResize")
def _resize(op: Operation, g: Tensor) -> list[Tensor | None]:
    """What was cut off gets no gradient, and what was added has nowhere to give it to."""
    return [apply_op("TensorListResize", g, _length(op.inputs[0])), None]


@register_gradient("TensorListConcatV2")
def _concat(op: Operation, g: Tensor, _lengths: Tensor | None) -> list[Tensor | None]:
    """g cut into parts again."""
    if not _is_differentiable(op):
        return [None, None, None]
    shape_type = op.attr("shape_type")
    return [apply_op("TensorListSplit", g, _part_shape(op, shape_type), op.outputs[1]), None, None]


def _part_shape(op: Operation, shape_type: DType) -> Tensor:
    """Any first size, and the sizes of the rows."""
    rest = _row_shape(op.outputs[0] if op.type == "TensorListConcatV2" else op.inputs[0], shape_type)
    shape: Tensor = apply_op("ConcatV2", [convert_to_tensor([-1], shape_type), rest], 0)
    return shape


@register_gradient("TensorListSplit")
def _split(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The parts joined again; of parts that are not set, the lengths are those that were cut."""
    if not _is_differentiable(op):
        return [None, None, None]
    shape_type, dtype = op.attr("shape_type"), op.attr("element_dtype")
    joined, _ = apply_op("TensorListConcatV2", g, _part_shape(op, shape_type), op.inputs[2], element_dtype=dtype)
    joined.set_shape(op.inputs[0].shape)
    return [joined, None, None]


@register_gradient("TensorListGather")
def _gather(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Each element that was read gets its row of g, added up where it was read several times."""
    if not _is_differentiable(op) or op.attr("element_dtype") is variant:
        return [None, None, None]
    handle, indices, _ = op.inputs
    different, places = apply_op("Unique", indices)
    summed = apply_op("UnsortedSegmentSum", g, places, apply_op("Size", different))
    declared, count = _declared(handle), _length(handle)
    return [apply_op("TensorListScatterV2", summed, different, declared, count), None, None]


@register_gradient("TensorListScatterV2")
def _scatter(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Each row gets the gradient at its index."""
    if not _is_differentiable(op):
        return [None, None, None, None]
    rows, indices = op.inputs[:2]
    return [_gathered(op, g, rows, indices), None, None, None]


def _gathered(op: Operation, g: Tensor, rows: Tensor, indices: Tensor) -> Tensor:
    """The gradient of rows that were put at indices; a row that a later one replaced gets none."""
    gathered: Tensor = apply_op(
        "TensorListGather", g, indices, _row_shape(rows), element_dtype=op.attr("element_dtype")
    )
    if rows.dtype is variant:
        return gathered
    _, places = apply_op("Unique", indices)
    count = apply_op("Size", indices)
    numbers = apply_op("Range", 0, count, 1)
    last = apply_op("GatherV2", apply_op("UnsortedSegmentMax", numbers, places, count), places, 0)
    kept = apply_op("Cast", apply_op("Equal", last, numbers), DstT=rows.dtype)
    ones = apply_op("OnesLike", _row_shape(rows))
    column = apply_op("Reshape", kept, apply_op("ConcatV2", [apply_op("Shape", indices), ones], 0))
    masked: Tensor = apply_op("Mul", gathered, column)
    return masked


@register_gradient("TensorListScatterIntoExistingList")
def _scatter_into(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Each row gets the gradient at its index; the elements that were replaced get none."""
    handle, rows, indices = op.inputs
    if not _is_differentiable(op):
        return [g, None, None]
    nothing = apply_op("TensorListScatterIntoExistingList", g, apply_op("ZerosLike", rows), indices)
    return [apply_op("TensorListResize", nothing, _length(handle)), _gathered(op, g, rows, indices), None]


@register_gradient("TensorListConcatLists")
def _concat_lists(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The first elements of g for the one list, the rest for the other."""
    if not _is_differentiable(op):
        return [None, None]
    first, second = op.inputs
    spec = list_spec(second)
    known = spec is not None and spec.shape.is_fully_defined
    rest = _rest_of(op, g) if known else cond(_length(second) > 0, lambda: _rest_of(op, g), lambda: _nothing(op))
    return [apply_op("TensorListResize", g, _length(first)), rest]


def _rest_of(op: Operation, g: Tensor) -> Tensor:
    """The elements of g that stand for those of the second list.

    Zeros are added where the list has elements, so that the shape of these is known where g has none.
    """
    first, second = op.inputs
    start = _length(first)
    numbers = apply_op("Range", start, apply_op("AddV2", start, _length(second)), 1)
    filled = apply_op("AddN", [g, apply_op("ZerosLike", op.outputs[0])])
    declared = _declared(second)
    rows = apply_op("TensorListGather", filled, numbers, declared, element_dtype=op.attr("element_dtype"))
    rest: Tensor = apply_op("TensorListFromTensor", rows, declared)
    return rest


def _nothing(op: Operation) -> Tensor:
    """A list without elements of the type of the second list."""
    nothing: Tensor = apply_op("TensorListReserve", _declared(op.inputs[1]), 0, element_dtype=op.attr("element_dtype"))
    return nothing
