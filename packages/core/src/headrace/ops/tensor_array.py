"""TensorArrayV3 and its family: arrays of tensors as TensorFlow 1 graphs hold them, written in place during a step.

A `TensorArrayV3` operation makes a new array each time it runs, so an array belongs to one step and to one run of the
operation, and steps that run at the same time never see each other's. The order of its uses is that of the *flow*: a
scalar without meaning that each write takes and gives. Programs of today use `hr.TensorArray`, which is made of lists.

Source: TensorFlow's operations of the same names, for the signatures and for what is refused.
"""

from __future__ import annotations

from headrace.errors import DTypeError, ShapeError
from headrace.graph import attr
from headrace.graph.op_def import InferenceContext, register_op
from headrace.ops.shapes import check_scalar
from headrace.types import DType, Shape

__all__ = ["check_array_dtype", "check_array_element", "check_lengths"]

_SCALAR = Shape([])
_HANDLE_SHAPE = Shape([2])
"""What TensorFlow says, and functions in files state, since handles of arrays were two strings once."""
_HANDLE: dict[str, str] = {"handle": "resource"}


def check_array_dtype(found: DType, wanted: DType) -> None:
    """Raise DTypeError unless the elements of an array have the dtype that an operation works with."""
    if found is not wanted:
        raise DTypeError(
            "the array has elements of another dtype",
            expected=f"an array of {wanted}",
            got=f"an array of {found}",
            hint=f"make it with dtype=hr.{wanted}, or cast what is written with hr.astype",
        )


def check_array_element(declared: Shape, element: Shape) -> None:
    """Raise ShapeError unless an element fits the shape that its array declares."""
    if not declared.is_compatible_with(element):
        raise ShapeError(
            "the element does not fit the array",
            expected=f"shape {declared}",
            got=f"shape {element}",
            hint="leave sizes that differ open in element_shape, with identical_element_shapes=False",
        )


def check_lengths(rows: Shape, lengths: Shape) -> None:
    """Raise ShapeError unless a tensor has rows to cut and the lengths are a vector."""
    if rows.rank == 0:
        raise ShapeError(
            "the value has no rows", expected="rank >= 1", got="shape []", hint="hr.expand_dims(x, 0) makes it one row"
        )
    lengths.with_rank(1)


def _element(op: InferenceContext, dtype: str) -> Shape:
    """What is known of the shape of the elements of the array that input 0 is."""
    spec = op.list_spec(0)
    if spec is None:
        return Shape()
    check_array_dtype(spec.dtype, op.attr(dtype))
    return spec.shape


def _check_scalars(op: InferenceContext, **indices: int) -> None:
    for name, index in indices.items():
        check_scalar(op.inputs[index].shape, name)


def _rest(shape: Shape) -> Shape:
    return Shape() if shape.dims is None else Shape(shape.dims[1:])


@register_op(
    "TensorArrayV3",
    inputs={"size": "int32"},
    outputs={"handle": "resource", "flow": "float32"},
    attrs={
        "dtype": attr.any_type,
        "element_shape": attr.shape(Shape()),
        "dynamic_size": attr.bool(False),
        "clear_after_read": attr.bool(True),
        "identical_element_shapes": attr.bool(False),
        "tensor_array_name": attr.string(""),
    },
    stateful=True,
)
def _array_shape(op: InferenceContext) -> list[Shape]:
    """A new array of `size` elements that are not written yet, and its first flow."""
    _check_scalars(op, size=0)
    return [_HANDLE_SHAPE, _SCALAR]


@register_op(
    "TensorArrayGradV3",
    inputs={**_HANDLE, "flow_in": "float32"},
    outputs={"grad_handle": "resource", "flow_out": "float32"},
    attrs={"source": attr.string()},
    stateful=True,
)
def _grad_shape(op: InferenceContext) -> list[Shape]:
    """The array of the gradients of an array's elements, one for each `source`; values written twice add up there."""
    _check_scalars(op, flow=1)
    return [_HANDLE_SHAPE, _SCALAR]


@register_op(
    "TensorArrayWriteV3",
    inputs={**_HANDLE, "index": "int32", "value": "T", "flow_in": "float32"},
    outputs={"flow_out": "float32"},
    stateful=True,
)
def _write_shape(op: InferenceContext) -> list[Shape]:
    """Writes one element, once."""
    _check_scalars(op, index=1, flow=3)
    check_array_element(_element(op, "T"), op.inputs[2].shape)
    return [_SCALAR]


@register_op(
    "TensorArrayReadV3",
    inputs={**_HANDLE, "index": "int32", "flow_in": "float32"},
    outputs={"value": "dtype"},
    attrs={"dtype": attr.any_type},
    stateful=True,
)
def _read_shape(op: InferenceContext) -> list[Shape]:
    """One element; it is forgotten then, unless the array was made with clear_after_read=False."""
    _check_scalars(op, index=1, flow=2)
    return [_element(op, "dtype")]


@register_op(
    "TensorArrayGatherV3",
    inputs={**_HANDLE, "indices": "int32", "flow_in": "float32"},
    outputs={"value": "dtype"},
    attrs={"dtype": attr.any_type, "element_shape": attr.shape(Shape())},
    stateful=True,
)
def _gather_shape(op: InferenceContext) -> list[Shape]:
    """Some elements, which have one shape, as the rows of a tensor."""
    _check_scalars(op, flow=2)
    declared: Shape = op.attr("element_shape")
    known = _element(op, "dtype")
    check_array_element(declared, known)
    return [op.inputs[1].shape.with_rank(1) + declared.merge(known)]


@register_op(
    "TensorArrayScatterV3",
    inputs={**_HANDLE, "indices": "int32", "value": "T", "flow_in": "float32"},
    outputs={"flow_out": "float32"},
    stateful=True,
)
def _scatter_shape(op: InferenceContext) -> list[Shape]:
    """Writes the rows of a tensor as elements."""
    _check_scalars(op, flow=3)
    rows = op.inputs[2].shape
    check_lengths(rows, op.inputs[1].shape)
    check_array_element(_element(op, "T"), _rest(rows))
    if rows.dims is not None and not op.inputs[1].shape.is_compatible_with(Shape(rows.dims[:1])):
        raise ShapeError(
            "there must be one index for each row",
            expected=f"{rows.dims[0]} indices",
            got=str(op.inputs[1].shape),
            hint="hr.range(n) numbers the rows in their order",
        )
    return [_SCALAR]


@register_op(
    "TensorArrayConcatV3",
    inputs={**_HANDLE, "flow_in": "float32"},
    outputs={"value": "dtype", "lengths": "int64"},
    attrs={"dtype": attr.any_type, "element_shape_except0": attr.shape(Shape())},
    stateful=True,
)
def _concat_shape(op: InferenceContext) -> list[Shape]:
    """All elements one after the other along their first axis, and the size of each there."""
    _check_scalars(op, flow=1)
    rest: Shape = op.attr("element_shape_except0")
    known = _element(op, "dtype")
    check_lengths(known, Shape())
    check_array_element(rest, _rest(known))
    return [Shape([None]) + rest.merge(_rest(known)), Shape([None])]


@register_op(
    "TensorArraySplitV3",
    inputs={**_HANDLE, "value": "T", "lengths": "int64", "flow_in": "float32"},
    outputs={"flow_out": "float32"},
    stateful=True,
)
def _split_shape(op: InferenceContext) -> list[Shape]:
    """Writes parts of a tensor, cut along its first axis into parts of the given lengths, as all elements."""
    _check_scalars(op, flow=3)
    rows = op.inputs[1].shape
    check_lengths(rows, op.inputs[2].shape)
    declared = _element(op, "T")
    check_lengths(declared, Shape())
    check_array_element(_rest(declared), _rest(rows))
    return [_SCALAR]


@register_op(
    "TensorArraySizeV3",
    inputs={**_HANDLE, "flow_in": "float32"},
    outputs={"size": "int32"},
    stateful=True,
    reads_only=True,
)
def _size_shape(op: InferenceContext) -> list[Shape]:
    """How many elements an array has, written or not."""
    _check_scalars(op, flow=1)
    return [_SCALAR]


@register_op("TensorArrayCloseV3", inputs=_HANDLE, stateful=True)
def _close_shape(op: InferenceContext) -> list[Shape]:
    """Forgets the elements of an array; using it afterwards is an error."""
    return []
