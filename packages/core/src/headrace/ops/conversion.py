"""Operations that give the same elements another form, or check what the elements are."""

from __future__ import annotations

import numpy as np

from headrace import types
from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.shapes import check_scalar, normalize_axis, scalar_of
from headrace.types import Array, DType, DTypeLike, Shape, ShapeLike, as_dtype, as_shape

__all__ = [
    "bitcast",
    "bitcast_shape",
    "check_ensured",
    "check_numerics",
    "ensure_shape",
    "one_hot",
    "one_hot_axis",
    "one_hot_depth",
]


@register_op(
    "Cast",
    inputs={"x": "SrcT"},
    outputs={"y": "DstT"},
    attrs={
        "SrcT": attr.type(*types.COMPUTABLE),
        "DstT": attr.type(*types.COMPUTABLE),
        "Truncate": attr.bool(False),
    },
)
def _cast_shape(op: InferenceContext) -> list[Shape]:
    """The values converted to another element type."""
    return [op.inputs[0].shape]


_SIZED = tuple(dtype for dtype in types.COMPUTABLE if dtype is not types.bool)


@register_op(
    "Bitcast",
    inputs={"input": "T"},
    outputs={"output": "type"},
    attrs={"T": attr.type(*_SIZED), "type": attr.type(*_SIZED)},
)
def _bitcast_shape(op: InferenceContext) -> list[Shape]:
    """The same bytes read as another element type; a last axis appears or disappears where the sizes differ."""
    source, target = op.inputs[0].dtype, op.attr("type")
    return [bitcast_shape(op.inputs[0].shape, source, target)]


def bitcast_shape(shape: Shape, source: DType, target: DType) -> Shape:
    """The shape after `Bitcast`.

    Raises:
      ShapeError: elements must be joined and the last axis does not hold exactly the pieces of one.
    """
    if source.size == target.size or shape.dims is None:
        return shape
    if source.size > target.size:
        return Shape((*shape.dims, source.size // target.size))
    pieces = target.size // source.size
    if not shape.dims or shape.dims[-1] not in (None, pieces):
        raise ShapeError(
            f"{source} cannot be read as the wider {target}",
            expected=f"a last axis of size {pieces}",
            got=str(shape),
            hint=f"hr.reshape(x, [-1, {pieces}]) first; hr.astype converts values instead of bits",
        )
    return Shape(shape.dims[:-1])


@register_op(
    "CheckNumerics",
    inputs={"tensor": "T"},
    outputs={"output": "T"},
    attrs={"T": attr.floating, "message": attr.string()},
    stateful=True,
)
def _check_numerics_shape(op: InferenceContext) -> list[Shape]:
    """The input, unchanged; an error if an element is NaN or infinite."""
    return [op.inputs[0].shape]


@register_op("EnsureShape", inputs={"input": "T"}, outputs={"output": "T"}, attrs={"shape": attr.shape()})
def _ensure_shape_shape(op: InferenceContext) -> list[Shape]:
    """The input, unchanged; an error if its shape contradicts the stated one."""
    stated: Shape = op.attr("shape")
    check_ensured(stated, op.inputs[0].shape)
    return [stated.merge(op.inputs[0].shape)]


def check_ensured(stated: Shape, given: Shape) -> None:
    """Raise ShapeError if `given` contradicts `stated`."""
    if not stated.is_compatible_with(given):
        raise ShapeError(
            "the tensor has another shape than was ensured",
            expected=str(stated),
            got=str(given),
            hint="hr.reshape changes a shape; None in hr.ensure_shape allows any size",
        )


@register_op(
    "OneHot",
    inputs={"indices": "TI", "depth": "int32", "on_value": "T", "off_value": "T"},
    outputs={"output": "T"},
    attrs={
        "axis": attr.int(-1),
        "TI": attr.type(types.uint8, types.int8, types.int32, types.int64, default=types.int64),
    },
)
def _one_hot_shape(op: InferenceContext) -> list[Shape]:
    """on_value where the position along a new axis of size `depth` is the index, off_value elsewhere."""
    for position, name in ((1, "depth"), (2, "on_value"), (3, "off_value")):
        check_scalar(op.inputs[position].shape, name)
    depth = op.constant(1)
    size = None if depth is None else one_hot_depth(depth)
    dims = op.inputs[0].shape.dims
    if dims is None:
        return [Shape()]
    axis = one_hot_axis(op.attr("axis"), len(dims))
    return [Shape((*dims[:axis], size, *dims[axis:]))]


def one_hot_axis(axis: int, rank: int) -> int:
    """Where `OneHot` puts its new axis; -1 means last, other negative numbers are refused, as in TensorFlow."""
    if not -1 <= axis <= rank:
        raise ShapeError(
            "axis is out of range",
            expected=f"-1 <= axis <= {rank}",
            got=str(axis),
            hint="axis=-1 puts the classes last; hr.moveaxis moves them afterwards",
        )
    return rank if axis == -1 else axis


def one_hot_depth(depth: Array) -> int:
    """The size of the new axis of `OneHot`."""
    number = scalar_of(depth, "depth")
    if number < 0:
        raise InvalidArgumentError(
            "depth is negative",
            expected="depth >= 0",
            got=str(number),
            hint="pass the number of classes, such as hr.max(indices) + 1",
        )
    return number


def bitcast(x: TensorLike, dtype: DTypeLike, *, name: str | None = None) -> Tensor:
    """The bytes of `x` read as another element type.

    Args:
      x: any numeric dtype, `[...]`.
      dtype: the new element type.
      name: the operation's name.
    Returns:
      The same shape where the elements have the same size; `[..., pieces]` where they become smaller; where they become
      larger the last axis must hold the pieces of one element and disappears.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     bits = hr.bitcast(1.0, hr.uint32)
      >>> print(hex(hr.Session(graph).run(bits)))
      0x3f800000
    """
    result: Tensor = apply_op("Bitcast", x, type=as_dtype(dtype), name=name)
    return result


def check_numerics(x: TensorLike, message: str, *, name: str | None = None) -> Tensor:
    """`x`, unchanged; the step fails if an element is NaN or infinite. Its gradient is checked in the same way.

    Args:
      x: floating, any shape.
      message: what the error begins with.
      name: the operation's name.
    Raises:
      InvalidArgumentError: when it runs and finds such an element; the text counts them.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.check_numerics([1.0, 2.0], "activations")
      >>> print(hr.Session(graph).run(y))
      [1. 2.]
    """
    result: Tensor = apply_op("CheckNumerics", x, message=message, name=name)
    return result


def ensure_shape(x: TensorLike, shape: ShapeLike, *, name: str | None = None) -> Tensor:
    """`x`, unchanged, known to have the given shape from here on; the step fails if it does not.

    Args:
      x: any dtype and shape.
      shape: the stated shape; None as a whole or as a size means unknown.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     x = hr.placeholder(hr.float32)
      ...     print(hr.ensure_shape(x, [None, 3]).shape)
      [?, 3]
    """
    result: Tensor = apply_op("EnsureShape", x, shape=as_shape(shape), name=name)
    return result


def one_hot(
    indices: TensorLike,
    depth: TensorLike,
    *,
    on_value: TensorLike | None = None,
    off_value: TensorLike | None = None,
    axis: int = -1,
    dtype: DTypeLike = types.float32,
    name: str | None = None,
) -> Tensor:
    """Rows of `off_value` with `on_value` at the position that each index names.

    Args:
      indices: uint8, int8, int32 or int64, any shape; one out of range gives a row without `on_value`.
      depth: the size of the new axis, an int32 scalar.
      on_value: a scalar; 1 (true) by default.
      off_value: a scalar; 0 (false) by default.
      axis: where the new axis stands; negative ones count from the end.
      dtype: the element type of the defaults and of Python numbers given as values.
      name: the operation's name.
    Returns:
      The shape of `indices` with an axis of size `depth` put in.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.one_hot([0, 2], 3)
      >>> print(hr.Session(graph).run(x))
      [[1. 0. 0.]
       [0. 0. 1.]]
    """
    wanted = as_dtype(dtype)
    on, off = (
        np.array(default, wanted.array_type) if item is None else item
        for item, default in ((on_value, 1), (off_value, 0))
    )
    values = [item if hasattr(item, "dtype") else convert_to_tensor(item, wanted) for item in (on, off)]
    positions = convert_to_tensor(indices)
    rank = positions.shape.rank
    place = axis if rank is None or axis == -1 else normalize_axis(axis, rank + 1)
    result: Tensor = apply_op("OneHot", positions, depth, *values, axis=place, name=name)
    return result
