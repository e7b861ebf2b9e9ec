"""Operations that create tensors and tell about them: constants, sizes, ranges, fills."""

from __future__ import annotations

import math

import numpy as np

from headrace import types
from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.graph.scopes import current_graph
from headrace.ops.promotion import promoted
from headrace.ops.shapes import checked_sizes, normalize_axis, scalar_of, shape_tensor
from headrace.types import Array, DTypeLike, Shape, ShapeLike, as_dtype, as_shape

__all__ = [
    "arange",
    "full",
    "full_like",
    "linspace",
    "one_hot",
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
    return [Shape(op.attr("value").shape)]


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
        raise ShapeError("the default does not fit the shape", expected=str(stated), got=str(op.inputs[0].shape))
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
        raise ShapeError("the value must be a scalar", expected="shape []", got=str(op.inputs[1].shape))
    sizes = op.constant(0)
    return [op.constant_shape(0) if sizes is None else Shape(checked_sizes(sizes))]


@register_op("ZerosLike", inputs={"x": "T"}, outputs={"y": "T"})
def _zeros_like_shape(op: InferenceContext) -> list[Shape]:
    """Zeros (false, empty strings) of the input's shape."""
    return [op.inputs[0].shape]


@register_op("OnesLike", inputs={"x": "T"}, outputs={"y": "T"}, attrs={"T": attr.type(*types.COMPUTABLE)})
def _ones_like_shape(op: InferenceContext) -> list[Shape]:
    """Ones (true) of the input's shape."""
    return [op.inputs[0].shape]


_RANGE_TYPES = (
    types.bfloat16, types.float16, types.float32, types.float64, types.int8, types.int16, types.int32, types.int64,
    types.uint16, types.uint32, types.uint64,
)  # fmt: skip


@register_op(
    "Range",
    inputs={"start": "Tidx", "limit": "Tidx", "delta": "Tidx"},
    outputs={"output": "Tidx"},
    attrs={"Tidx": attr.type(*_RANGE_TYPES, default=types.int32)},
)
def _range_shape(op: InferenceContext) -> list[Shape]:
    """The numbers start, start + delta, ... before limit."""
    for index, name in enumerate(("start", "limit", "delta")):
        _check_scalar(op, index, name)
    values = [op.constant(index) for index in range(3)]
    known = [value for value in values if value is not None]
    return [Shape([range_length(*known) if len(known) == 3 else None])]


def range_length(start: Array, limit: Array, delta: Array) -> int:
    """The number of elements of a range, exact in Python integers: `limit - start` may exceed the dtype.

    Raises:
      InvalidArgumentError: delta is zero, leads away from limit, or a number is not finite.
    """
    first, last, step = (np.asarray(value).reshape(())[()] for value in (start, limit, delta))
    described = f"start {first}, limit {last}, delta {step}"
    if not step:
        raise InvalidArgumentError("a range needs a step", expected="delta != 0", got=described)
    if (step > 0 and first > last) or (step < 0 and first < last):
        raise InvalidArgumentError(
            "the step of a range leads away from its limit",
            expected="start <= limit with a positive delta, start >= limit with a negative one",
            got=described,
        )
    if np.asarray(start).dtype.kind in "iu":
        return -((int(first) - int(last)) // int(step))
    distance = (float(last) - float(first)) / float(step)
    if not math.isfinite(distance) or distance > 2**59:
        raise InvalidArgumentError(
            "a range needs finite numbers", expected="a finite number of elements", got=described
        )
    return math.ceil(distance)


@register_op(
    "LinSpace",
    inputs={"start": "T", "stop": "T", "num": "Tidx"},
    outputs={"output": "T"},
    attrs={"T": attr.floating, "Tidx": attr.index_type},
)
def _lin_space_shape(op: InferenceContext) -> list[Shape]:
    """`num` evenly spaced numbers from start to stop, both included."""
    for index, name in enumerate(("start", "stop", "num")):
        _check_scalar(op, index, name)
    count = op.constant(2)
    return [Shape([None if count is None else lin_space_length(count)])]


def lin_space_length(count: Array) -> int:
    """The number of elements that `LinSpace` was asked for, at least 1."""
    number = scalar_of(count, "num")
    if number < 1:
        raise InvalidArgumentError("linspace needs a number of elements", expected="num >= 1", got=str(number))
    return checked_sizes([number])[0]


def _check_scalar(op: InferenceContext, index: int, name: str) -> None:
    if op.inputs[index].shape.rank not in (None, 0):
        raise ShapeError(f"{name} must be a scalar", expected="shape []", got=str(op.inputs[index].shape))


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
        _check_scalar(op, position, name)
    depth = op.constant(1)
    size = None if depth is None else one_hot_depth(depth)
    dims = op.inputs[0].shape.dims
    if dims is None:
        return [Shape()]
    axis = one_hot_axis(op.attr("axis"), len(dims))
    return [Shape((*dims[:axis], size, *dims[axis:]))]


def one_hot_axis(axis: int, rank: int) -> int:
    """Where `OneHot` puts its new axis; -1 means last."""
    return normalize_axis(axis, rank + 1)


def one_hot_depth(depth: Array) -> int:
    """The size of the new axis of `OneHot`."""
    number = scalar_of(depth, "depth")
    if number < 0:
        raise InvalidArgumentError("depth is negative", expected="depth >= 0", got=str(number))
    return number


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


def full(shape: TensorLike, value: TensorLike, *, dtype: DTypeLike | None = None, name: str | None = None) -> Tensor:
    """A tensor of the given shape, every element `value`.

    Args:
      shape: an int, a sequence of ints and scalar tensors, or an integer vector.
      value: a scalar.
      dtype: the element type; by default that of `value`.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.full([2, 3], 7)
      >>> print(hr.Session(graph).run(x))
      [[7 7 7]
       [7 7 7]]
    """
    element = convert_to_tensor(value, None if dtype is None else as_dtype(dtype))
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


def full_like(x: TensorLike, value: TensorLike, *, dtype: DTypeLike | None = None, name: str | None = None) -> Tensor:
    """A tensor of the shape of `x`, every element `value`.

    Args:
      x: any dtype and shape.
      value: a scalar.
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
    return full(shape(tensor), value, dtype=tensor.dtype if dtype is None else dtype, name=name)


def arange(
    start: TensorLike,
    stop: TensorLike | None = None,
    step: TensorLike = 1,
    *,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """The numbers start, start + step, ... before stop; with one number, 0, 1, ... before it.

    Args:
      start: the first number, or the limit if `stop` is not given; a scalar.
      stop: the limit, which is not included; a scalar.
      step: the distance of neighbours; a scalar.
      dtype: the element type; by default the one in which the three meet.
      name: the operation's name.
    Returns:
      A vector `[ceil((stop - start) / step)]`; empty where stop lies behind start, as in NumPy.
    Raises:
      InvalidArgumentError: the step is zero, or, where the bounds are not Python numbers, leads away from stop.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.arange(2, 11, 3)
      >>> print(hr.Session(graph).run(x))
      [2 5 8]
    """
    first, last = (0, start) if stop is None else (start, stop)
    if all(isinstance(item, (int, float)) for item in (first, last, step)) and step and (last - first) / step < 0:
        last = first  # NumPy's empty range; the operation itself refuses it
    bounds = promoted(first, last, step)
    if dtype is not None:
        bounds = [
            bound if bound.dtype is as_dtype(dtype) else apply_op("Cast", bound, DstT=as_dtype(dtype))
            for bound in bounds
        ]
    result: Tensor = apply_op("Range", *bounds, name=name)
    return result


def linspace(start: TensorLike, stop: TensorLike, num: TensorLike, *, name: str | None = None) -> Tensor:
    """`num` evenly spaced numbers from start to stop, both included.

    Args:
      start: a floating scalar.
      stop: a floating scalar of the same dtype.
      num: an integer scalar >= 1.
      name: the operation's name.
    Returns:
      A vector `[num]`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.linspace(0.0, 1.0, 5)
      >>> print(hr.Session(graph).run(x))
      [0.   0.25 0.5  0.75 1.  ]
    """
    first, last = promoted(start, stop)
    if first.dtype.is_integer:
        first, last = (apply_op("Cast", bound, DstT=types.float32) for bound in (first, last))
    result: Tensor = apply_op("LinSpace", first, last, num, name=name)
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
      axis: where the new axis stands; -1 means last.
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
    result: Tensor = apply_op("OneHot", indices, depth, *values, axis=axis, name=name)
    return result
