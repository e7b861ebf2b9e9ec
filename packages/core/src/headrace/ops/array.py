"""Operations that create tensors and tell about them: constants, sizes, fills."""

from __future__ import annotations

import numpy as np

from headrace import types
from headrace.errors import DTypeError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.graph.scopes import current_graph
from headrace.ops.shapes import checked_sizes, shape_tensor
from headrace.types import DTypeLike, Shape, ShapeLike, as_dtype, as_shape

__all__ = [
    "full",
    "full_like",
    "ones",
    "ones_like",
    "placeholder",
    "placeholder_with_default",
    "rank",
    "shape",
    "size",
    "zeros",
    "zeros_like",
]


@register_op("Const", outputs={"output": "dtype"}, attrs={"value": attr.tensor(), "dtype": attr.any_type})
def _const_shape(op: InferenceContext) -> list[Shape]:
    """A constant; its value is an attribute."""
    value, stated = op.attr("value"), op.attr("dtype")
    if stated.numpy is None or value.dtype != stated.array_type:
        raise DTypeError(
            "the value has another dtype",
            expected=str(stated),
            got=str(value.dtype),
            hint="make constants with hr.constant(value, dtype), which keeps both the same",
        )
    return [Shape(value.shape)]


@register_op("Placeholder", outputs={"output": "dtype"}, attrs={"dtype": attr.any_type, "shape": attr.shape(Shape())})
def _placeholder_shape(op: InferenceContext) -> list[Shape]:
    """A tensor that has no value of its own: it must be fed."""
    stated: Shape = op.attr("shape")
    return [stated]


@register_op(
    "PlaceholderWithDefault",
    inputs={"input": "dtype"},
    outputs={"output": "dtype"},
    attrs={"dtype": attr.any_type, "shape": attr.shape()},
)
def _placeholder_with_default_shape(op: InferenceContext) -> list[Shape]:
    """A tensor that may be fed; if it is not, it has the value of its input."""
    stated: Shape = op.attr("shape")
    if not stated.is_compatible_with(op.inputs[0].shape):
        raise ShapeError(
            "the default does not fit the shape",
            expected=str(stated),
            got=str(op.inputs[0].shape),
            hint="hr.reshape the default, or write None for the sizes that may vary",
        )
    return [stated]


@register_op("Shape", inputs={"input": "T"}, outputs={"output": "out_type"}, attrs={"out_type": attr.index_type})
def _shape_shape(op: InferenceContext) -> list[Shape]:
    """The sizes of the input, as a vector."""
    return [Shape([op.inputs[0].shape.rank])]


@register_op(
    "ShapeN",
    inputs={"input": "N*T"},
    outputs={"output": "N*out_type"},
    attrs={"N": attr.int(minimum=1), "out_type": attr.index_type},
)
def _shape_n_shape(op: InferenceContext) -> list[Shape]:
    """The sizes of each input, as vectors."""
    return [Shape([spec.shape.rank]) for spec in op.inputs]


@register_op("Size", inputs={"input": "T"}, outputs={"output": "out_type"}, attrs={"out_type": attr.index_type})
def _size_shape(op: InferenceContext) -> list[Shape]:
    """The number of elements."""
    return [Shape([])]


@register_op("Rank", inputs={"input": "T"}, outputs={"output": "int32"})
def _rank_shape(op: InferenceContext) -> list[Shape]:
    """The number of axes."""
    return [Shape([])]


@register_op(
    "Fill", inputs={"dims": "index_type", "value": "T"}, outputs={"output": "T"}, attrs={"index_type": attr.index_type}
)
def _fill_shape(op: InferenceContext) -> list[Shape]:
    """A tensor of the given sizes, every element the same value."""
    if op.inputs[1].shape.rank not in (None, 0):
        raise ShapeError(
            "the value must be a scalar",
            expected="shape []",
            got=str(op.inputs[1].shape),
            hint="hr.full takes one number; hr.broadcast_to repeats a larger value",
        )
    sizes = op.constant(0)
    return [op.constant_shape(0) if sizes is None else Shape(checked_sizes(sizes))]


@register_op("ZerosLike", inputs={"x": "T"}, outputs={"y": "T"})
def _zeros_like_shape(op: InferenceContext) -> list[Shape]:
    """Zeros (false, empty strings) of the input's shape; of a list one for each element."""
    return [op.inputs[0].shape]


@register_op(
    "OnesLike", inputs={"x": "T"}, outputs={"y": "T"}, attrs={"T": attr.type(*types.COMPUTABLE, types.variant)}
)
def _ones_like_shape(op: InferenceContext) -> list[Shape]:
    """Ones (true) of the input's shape; of a list one for each element."""
    return [op.inputs[0].shape]


def placeholder(dtype: DTypeLike, shape: ShapeLike = None, *, name: str | None = None) -> Tensor:
    """A tensor that each step feeds with a value.

    Args:
      dtype: the element type.
      shape: the static shape; None as a whole or as a size means unknown.
      name: the name by which errors call it.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     print(hr.placeholder(hr.float32, [None, 3], name="x").spec)
      float32[?, 3]
    """
    attrs = {"dtype": as_dtype(dtype), "shape": as_shape(shape)}
    return current_graph().create_op("Placeholder", (), attrs, name=name).outputs[0]


def placeholder_with_default(value: TensorLike, shape: ShapeLike = None, *, name: str | None = None) -> Tensor:
    """A tensor that a step may feed; where it does not, the tensor has the given value.

    Args:
      value: the default, any dtype.
      shape: the static shape of what may be fed, which the default must fit; None as a whole or as a size means
        unknown.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     rate = hr.placeholder_with_default(0.5, [])
      >>> session = hr.Session(graph)
      >>> print(session.run(rate), session.run(rate, feeds={rate: 0.25}))
      0.5 0.25
    """
    result: Tensor = apply_op("PlaceholderWithDefault", value, shape=as_shape(shape), name=name)
    return result


def shape(x: TensorLike, *, dtype: DTypeLike = types.int32, name: str | None = None) -> Tensor:
    """The sizes of `x` when it is computed, as a vector `[rank]`. `x.shape` is what is known of them before.

    Args:
      x: any dtype and shape.
      dtype: int32 or int64.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     s = hr.shape([[1, 2, 3], [4, 5, 6]])
      >>> print(hr.Session(graph).run(s))
      [2 3]
    """
    result: Tensor = apply_op("Shape", x, out_type=as_dtype(dtype), name=name)
    return result


def size(x: TensorLike, *, dtype: DTypeLike = types.int32, name: str | None = None) -> Tensor:
    """The number of elements of `x`, a scalar.

    Args:
      x: any dtype and shape.
      dtype: int32 or int64.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     n = hr.size([[1, 2, 3], [4, 5, 6]])
      >>> print(hr.Session(graph).run(n))
      6
    """
    result: Tensor = apply_op("Size", x, out_type=as_dtype(dtype), name=name)
    return result


def rank(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The number of axes of `x`, an int32 scalar.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     n = hr.rank([[1, 2, 3], [4, 5, 6]])
      >>> print(hr.Session(graph).run(n))
      2
    """
    result: Tensor = apply_op("Rank", x, name=name)
    return result


def full(
    shape: TensorLike, fill_value: TensorLike, *, dtype: DTypeLike | None = None, name: str | None = None
) -> Tensor:
    """A tensor of the given shape, every element `fill_value`.

    Args:
      shape: an int, a sequence of ints and scalar tensors, or an integer vector.
      fill_value: a scalar.
      dtype: the element type; by default that of `fill_value`.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.full([2, 3], 7)
      >>> print(hr.Session(graph).run(x))
      [[7 7 7]
       [7 7 7]]
    """
    element = convert_to_tensor(fill_value, None if dtype is None else as_dtype(dtype))
    result: Tensor = apply_op("Fill", shape_tensor(shape), element, name=name)
    return result


def zeros(shape: TensorLike, dtype: DTypeLike = types.float32, *, name: str | None = None) -> Tensor:
    """A tensor of zeros (false, empty strings); see `full` for the shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.zeros([3])
      >>> print(hr.Session(graph).run(x))
      [0. 0. 0.]
    """
    wanted = as_dtype(dtype)
    zero = convert_to_tensor(b"") if wanted is types.string else convert_to_tensor(np.zeros((), wanted.array_type))
    result: Tensor = apply_op("Fill", shape_tensor(shape), zero, name=name)
    return result


def ones(shape: TensorLike, dtype: DTypeLike = types.float32, *, name: str | None = None) -> Tensor:
    """A tensor of ones (true); see `full` for the shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.ones([2], hr.int32)
      >>> print(hr.Session(graph).run(x))
      [1 1]
    """
    one = convert_to_tensor(np.ones((), as_dtype(dtype).array_type))
    result: Tensor = apply_op("Fill", shape_tensor(shape), one, name=name)
    return result


def zeros_like(x: TensorLike, *, dtype: DTypeLike | None = None, name: str | None = None) -> Tensor:
    """Zeros of the shape of `x`.

    Args:
      x: any dtype and shape.
      dtype: the element type; by default that of `x`.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.zeros_like([1.5, 2.5])
      >>> print(hr.Session(graph).run(x))
      [0. 0.]
    """
    tensor = convert_to_tensor(x)
    if dtype is not None and as_dtype(dtype) is not tensor.dtype:
        return zeros(shape(tensor), dtype, name=name)
    result: Tensor = apply_op("ZerosLike", tensor, name=name)
    return result


def ones_like(x: TensorLike, *, dtype: DTypeLike | None = None, name: str | None = None) -> Tensor:
    """Ones of the shape of `x`; see `zeros_like`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.ones_like([1.5, 2.5], dtype=hr.int32)
      >>> print(hr.Session(graph).run(x))
      [1 1]
    """
    tensor = convert_to_tensor(x)
    if dtype is not None and as_dtype(dtype) is not tensor.dtype:
        return ones(shape(tensor), dtype, name=name)
    result: Tensor = apply_op("OnesLike", tensor, name=name)
    return result


def full_like(
    x: TensorLike, fill_value: TensorLike, *, dtype: DTypeLike | None = None, name: str | None = None
) -> Tensor:
    """A tensor of the shape of `x`, every element `fill_value`.

    Args:
      x: any dtype and shape.
      fill_value: a scalar.
      dtype: the element type; by default that of `x`.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.full_like([1.5, 2.5], 4)
      >>> print(hr.Session(graph).run(x))
      [4. 4.]
    """
    tensor = convert_to_tensor(x)
    return full(shape(tensor), fill_value, dtype=tensor.dtype if dtype is None else dtype, name=name)
