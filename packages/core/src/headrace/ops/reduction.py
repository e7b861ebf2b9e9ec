"""Reductions: one value from all elements along some axes.

Half of its length is the users' documentation.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.attr import AttrSpec
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.types import DTypeLike, Shape, as_dtype, float32, int8, int16, int32, int64, uint8, uint16, uint32
from headrace.types import bool as bool_dtype

__all__ = [
    "Axis",
    "all",
    "any",
    "argmax",
    "argmin",
    "axes_of",
    "logsumexp",
    "max",
    "mean",
    "min",
    "normalize_axes",
    "normalize_axis",
    "prod",
    "std",
    "sum",
    "summable",
    "var",
]

Axis = int | Sequence[int] | TensorLike | None
"""One axis, several, or None for all of them; negative ones count from the last."""


def normalize_axis(axis: int, rank: int) -> int:
    """The axis counted from the first.

    Raises:
      InvalidArgumentError: there is no such axis.
    """
    if not -rank <= axis < rank:
        raise InvalidArgumentError(
            "the axis is out of range",
            expected=f"-{rank} <= axis < {rank}",
            got=f"axis {axis}",
            hint="-1 is the last axis; hr.expand_dims adds one",
        )
    return axis + rank if axis < 0 else axis


def normalize_axes(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """The axes counted from the first, in ascending order.

    Raises:
      InvalidArgumentError: there is no such axis, or one is named twice.
    """
    found = sorted(normalize_axis(axis, rank) for axis in axes)
    if len(set(found)) < len(found):
        raise InvalidArgumentError(
            "an axis is named twice",
            expected="axes that differ",
            got=f"axes {list(axes)}",
            hint="drop one: a negative axis counts from the end and may be the same",
        )
    return tuple(found)


def _reduced_shape(op: InferenceContext) -> list[Shape]:
    """Axes that are known give the whole shape; of unknown ones `keep_dims` preserves at least the rank."""
    shape, keep = op.inputs[0].shape, op.attr("keep_dims")
    if op.inputs[1].shape.rank not in (None, 0, 1):
        raise ShapeError(
            "the axes are not a vector",
            expected="a scalar or a vector",
            got=str(op.inputs[1].shape),
            hint="hr.reshape(axes, [-1]) makes them a vector",
        )
    axes = op.constant(1)
    if shape.dims is None:
        return [Shape()]
    if axes is None:
        return [Shape([None] * len(shape)) if keep else Shape()]
    reduced = normalize_axes([int(axis) for axis in axes.reshape(-1)], len(shape))
    kept = [1 if axis in reduced else size for axis, size in enumerate(shape.dims) if keep or axis not in reduced]
    return [Shape(kept)]


def _register_reduction(name: str, spec: AttrSpec | None, doc: str) -> None:
    def shape(op: InferenceContext) -> list[Shape]:
        return _reduced_shape(op)

    shape.__doc__ = doc
    element = "bool" if spec is None else "T"
    attrs = {"keep_dims": attr.bool(False), "Tidx": attr.index_type} | ({} if spec is None else {"T": spec})
    register_op(name, inputs={"input": element, "reduction_indices": "Tidx"}, outputs={"output": element}, attrs=attrs)(
        shape
    )


_register_reduction("Sum", attr.numeric, "The sum along axes; 0 of no elements. Narrow floats are added up in float32.")
_register_reduction("Mean", attr.numeric, "The mean along axes; NaN of no elements, rounded towards zero for integers.")
_register_reduction("Prod", attr.numeric, "The product along axes; 1 of no elements.")
_register_reduction("Max", attr.ordered, "The largest along axes, NaN if one is; the lowest value of no elements.")
_register_reduction("Min", attr.ordered, "The smallest along axes, NaN if one is; the highest value of no elements.")
_register_reduction("EuclideanNorm", attr.numeric, "The square root of the sum of squares along axes.")
_register_reduction("Any", None, "True if one element along axes is; False of no elements.")
_register_reduction("All", None, "True if every element along axes is; True of no elements.")

_ARG_INPUT = attr.type(*(attr.numeric.allowed or ()), bool_dtype)


def _arg_shape(op: InferenceContext) -> list[Shape]:
    shape, axis = op.inputs[0].shape, op.constant(1)
    if op.inputs[1].shape.rank not in (None, 0):
        raise ShapeError(
            "the axis is not a scalar",
            expected="[]",
            got=str(op.inputs[1].shape),
            hint="take one axis; hr.reshape(x, [-1]) first searches all elements",
        )
    if shape.dims is None:
        return [Shape()]
    if axis is None:
        return [Shape([None] * builtins.max(len(shape) - 1, 0))]
    position = normalize_axis(int(axis), len(shape))
    return [Shape(size for index, size in enumerate(shape.dims) if index != position)]


_ARG_INPUTS = {"input": "T", "dimension": "Tidx"}


@register_op(
    "ArgMax",
    inputs=_ARG_INPUTS,
    outputs={"output": "output_type"},
    attrs={
        "T": _ARG_INPUT,
        "Tidx": attr.index_type,
        "output_type": attr.type(int16, uint16, int32, int64, default=int64),
    },
)
def _arg_max_shape(op: InferenceContext) -> list[Shape]:
    """The first position of the largest element along an axis; NaN counts as the lowest value."""
    return _arg_shape(op)


@register_op(
    "ArgMin",
    inputs=_ARG_INPUTS,
    outputs={"output": "output_type"},
    attrs={"T": _ARG_INPUT, "Tidx": attr.index_type, "output_type": attr.type(int32, int64, default=int64)},
)
def _arg_min_shape(op: InferenceContext) -> list[Shape]:
    """The first position of the smallest element along an axis; NaN counts as the highest value."""
    return _arg_shape(op)


def sum(
    x: TensorLike,
    *,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    name: str | None = None,
) -> Tensor:
    """The sum of the elements along some axes.

    Args:
      x: numeric, any shape; bools and integers narrower than that are counted as int32, unsigned ones as uint32.
        float16 and bfloat16 are added up in float32.
      axis: an axis, several, or None for all; negative ones count from the last.
      dtype: the dtype to convert to before.
      keepdims: leave the reduced axes in the shape, with size 1.
      name: the operation's name.
    Returns:
      The dtype that is counted in; the shape of `x` without the reduced axes. 0 where there is nothing to add.
    Raises:
      InvalidArgumentError: an axis is out of range or named twice.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.sum([[1.0, 2.0], [3.0, 4.0]], axis=0)
      >>> print(hr.Session(graph).run(y))
      [4. 6.]
    """
    return _reduce("Sum", summable(x, dtype), axis, keepdims, name)


def mean(x: TensorLike, *, axis: Axis = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """The mean of the elements along some axes; see `sum`.

    Args:
      x: numeric, any shape; integers and bools become float32 first. float16 and bfloat16 are added up in float32.
      axis: see `sum`.
      keepdims: see `sum`.
      name: the operation's name.
    Returns:
      The floating or complex dtype; NaN where there is nothing to average.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.mean([[1.0, 2.0], [3.0, 4.0]], axis=1, keepdims=True)
      >>> print(hr.Session(graph).run(y))
      [[1.5]
       [3.5]]
    """
    return _reduce("Mean", _float(x), axis, keepdims, name)


def prod(
    x: TensorLike,
    *,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    name: str | None = None,
) -> Tensor:
    """The product of the elements along some axes, 1 where there are none; see `sum`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.prod([[1.0, 2.0], [3.0, 4.0]], axis=-1)
      >>> print(hr.Session(graph).run(y))
      [ 2. 12.]
    """
    return _reduce("Prod", summable(x, dtype), axis, keepdims, name)


def max(x: TensorLike, *, axis: Axis = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """The largest element along some axes; NaN if one is NaN; equal ones share the gradient; see `sum`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.max([[1.0, 2.0], [3.0, 4.0]])
      >>> print(hr.Session(graph).run(y))
      4.0
    """
    return _reduce("Max", convert_to_tensor(x), axis, keepdims, name)


def min(x: TensorLike, *, axis: Axis = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """The smallest element along some axes; NaN if one is NaN; equal ones share the gradient; see `sum`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.min([[1.0, 2.0], [3.0, 4.0]], axis=(0, 1))
      >>> print(hr.Session(graph).run(y))
      1.0
    """
    return _reduce("Min", convert_to_tensor(x), axis, keepdims, name)


def any(x: TensorLike, *, axis: Axis = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """True where an element along some axes is not zero or false; bool; see `sum`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.any([[True, False], [False, False]], axis=1)
      >>> print(hr.Session(graph).run(y))
      [ True False]
    """
    return _reduce("Any", _truth(x), axis, keepdims, name)


def all(x: TensorLike, *, axis: Axis = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """True where no element along some axes is zero or false; bool; see `sum`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.all([[True, True], [False, False]], axis=1)
      >>> print(hr.Session(graph).run(y))
      [ True False]
    """
    return _reduce("All", _truth(x), axis, keepdims, name)


def argmax(
    x: TensorLike,
    *,
    axis: int | None = None,
    keepdims: bool = False,
    dtype: DTypeLike = int64,
    name: str | None = None,
) -> Tensor:
    """The position of the largest element along an axis, of the first one if there are several.

    Args:
      x: numeric or bool, any shape; NaN counts as the lowest value there is.
      axis: an axis, or None for the position in the flattened tensor.
      keepdims: leave the axis in the shape, with size 1.
      dtype: int32, int64, int16 or uint16.
      name: the operation's name.
    Returns:
      `dtype`, the shape of `x` without the axis.
    Raises:
      InvalidArgumentError: the axis is out of range, or empty (when the step runs).

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.argmax([[1.0, 7.0, 2.0], [9.0, 0.0, 9.0]], axis=1)
      >>> print(hr.Session(graph).run(y))
      [1 0]
    """
    return _position("ArgMax", x, axis, keepdims, dtype, name)


def argmin(
    x: TensorLike,
    *,
    axis: int | None = None,
    keepdims: bool = False,
    dtype: DTypeLike = int64,
    name: str | None = None,
) -> Tensor:
    """The position of the smallest element along an axis, of the first one if there are several.

    NaN counts as the highest value there is. See `argmax`; `dtype` is int32 or int64.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.argmin([[1.0, 7.0, 2.0], [9.0, 0.0, 9.0]], axis=1)
      >>> print(hr.Session(graph).run(y))
      [0 1]
    """
    return _position("ArgMin", x, axis, keepdims, dtype, name)


def var(
    x: TensorLike, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """The variance of the elements along some axes: the mean squared distance from their mean.

    Args:
      x: numeric, any shape; integers and bools become float32 first.
      axis: see `sum`.
      correction: what is subtracted from the number of elements in the divisor; 1 gives the unbiased estimate.
      keepdims: see `sum`.
      name: the operation's name.
    Returns:
      The floating dtype, NaN where there is nothing to average.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.var([1.0, 2.0, 3.0, 4.0])
      >>> print(hr.Session(graph).run(y))
      1.25
    """
    value = _float(x)
    squares: Tensor = apply_op("SquaredDifference", value, _reduce("Mean", value, axis, True, None))
    if not correction:
        return _reduce("Mean", squares, axis, keepdims, name)
    total = _reduce("Sum", squares, axis, keepdims, None)
    count = _reduce("Sum", apply_op("OnesLike", squares), axis, keepdims, None)
    divisor: Tensor = apply_op("Sub", count, correction)
    result: Tensor = apply_op("RealDiv", total, divisor, name=name)
    return result


def std(
    x: TensorLike, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """The standard deviation along some axes: the square root of `var`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.std([1.0, 3.0], axis=0)
      >>> print(hr.Session(graph).run(y))
      1.0
    """
    result: Tensor = apply_op("Sqrt", var(x, axis=axis, correction=correction, keepdims=keepdims), name=name)
    return result


def logsumexp(x: TensorLike, *, axis: Axis = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """log(sum(exp(x))) along some axes without overflow: the largest element is taken out first; see `sum`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.logsumexp([1000.0, 1000.0])
      >>> print(hr.Session(graph).run(y).round(2))
      1000.69
    """
    value = _float(x)
    largest = _reduce("Max", value, axis, True, None)
    finite: Tensor = apply_op("IsFinite", largest)
    shift = apply_op("StopGradient", apply_op("SelectV2", finite, largest, apply_op("ZerosLike", largest)))
    total = _reduce("Sum", apply_op("Exp", apply_op("Sub", value, shift)), axis, True, None)
    result: Tensor = apply_op("AddV2", apply_op("Log", total), shift)
    return _reduce("Sum", result, axis, False, name) if not keepdims else result


def _reduce(op_type: str, x: Tensor, axis: Axis, keepdims: bool, name: str | None) -> Tensor:
    result: Tensor = apply_op(op_type, x, axes_of(x, axis), keep_dims=keepdims, name=name)
    return result


def axes_of(x: Tensor, axis: Axis) -> TensorLike:
    """The axes to give to a reduction: all of them are counted now where the rank is known, else when the step runs."""
    if axis is not None:
        return list(axis) if isinstance(axis, tuple) else axis
    if x.shape.rank is not None:
        return convert_to_tensor(list(range(x.shape.rank)), int32)
    axes: TensorLike = apply_op("Range", 0, apply_op("Rank", x), 1)
    return axes


def _position(
    op_type: str, x: TensorLike, axis: int | None, keepdims: bool, dtype: DTypeLike, name: str | None
) -> Tensor:
    value = convert_to_tensor(x)
    if axis is not None:
        result: Tensor = apply_op(op_type, value, axis, output_type=as_dtype(dtype), name=name)
        return apply_op("ExpandDims", result, axis) if keepdims else result
    flat: Tensor = apply_op("Reshape", value, [-1])
    position: Tensor = apply_op(op_type, flat, 0, output_type=as_dtype(dtype), name=name)
    if not keepdims:
        return position
    ones: Tensor = apply_op("OnesLike", apply_op("Shape", value))
    kept: Tensor = apply_op("Reshape", position, ones)
    return kept


def summable(x: TensorLike, dtype: DTypeLike | None) -> Tensor:
    """A tensor in the dtype in which its elements are added up or multiplied.

    Source: array API standard, `sum`: narrow integers become the default dtype of their kind.
    """
    value = convert_to_tensor(x)
    wanted = _WIDER.get(value.dtype, value.dtype) if dtype is None else as_dtype(dtype)
    return value if value.dtype is wanted else apply_op("Cast", value, DstT=wanted)


_WIDER = {bool_dtype: int32, int8: int32, int16: int32, uint8: uint32, uint16: uint32}


def _float(x: TensorLike) -> Tensor:
    value = convert_to_tensor(x)
    return value if value.dtype.is_differentiable else apply_op("Cast", value, DstT=float32)


def _truth(x: TensorLike) -> Tensor:
    value = convert_to_tensor(x)
    return value if value.dtype is bool_dtype else apply_op("Cast", value, DstT=bool_dtype)
