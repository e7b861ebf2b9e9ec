"""Comparisons, logic and the bits of integers."""

from __future__ import annotations

from headrace.errors import ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.graph.operators import overload_operator
from headrace.ops.math import apply_binary, apply_unary, register_binary, register_unary
from headrace.ops.promotion import promoted
from headrace.types import Shape, broadcast_shapes
from headrace.types import bool as bool_dtype

__all__ = [
    "approximate_equal",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "equal",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "not_equal",
]

register_binary("Less", attr.ordered, "x < y; False where either is NaN.", output="bool")
register_binary("LessEqual", attr.ordered, "x <= y; False where either is NaN.", output="bool")
register_binary("Greater", attr.ordered, "x > y; False where either is NaN.", output="bool")
register_binary("GreaterEqual", attr.ordered, "x >= y; False where either is NaN.", output="bool")
register_binary("BitwiseAnd", attr.integers, "The bits that both have.", commutative=True)
register_binary("BitwiseOr", attr.integers, "The bits that either has.", commutative=True)
register_binary("BitwiseXor", attr.integers, "The bits that one of them has.", commutative=True)
register_binary(
    "LeftShift", attr.integers, "The bits of x moved up by y, which is limited to 0 and the number of bits - 1."
)
register_binary(
    "RightShift",
    attr.integers,
    "The bits of x moved down by y, which is limited to 0 and the number of bits - 1; the sign stays.",
)
register_unary("Invert", attr.integers, "Every bit of x reversed.")


@register_op(
    "ApproximateEqual",
    inputs={"x": "T", "y": "T"},
    outputs={"z": "bool"},
    attrs={"T": attr.numeric, "tolerance": attr.float(1e-5)},
    commutative=True,
)
def _approximate_equal_shape(op: InferenceContext) -> list[Shape]:
    """|x - y| < tolerance; the shapes must be the same."""
    return [op.inputs[0].shape.merge(op.inputs[1].shape)]


def _equality_shape(op: InferenceContext) -> list[Shape]:
    """Without an error for shapes that do not broadcast, those are unequal as a whole: a scalar comes out."""
    left, right = op.inputs[0].shape, op.inputs[1].shape
    if op.attr("incompatible_shape_error"):
        return [broadcast_shapes(left, right)]
    if not (left.is_fully_defined and right.is_fully_defined):
        return [Shape()]
    try:
        return [broadcast_shapes(left, right)]
    except ShapeError:
        return [Shape([])]


_EQUALITY_ATTRS = {"T": attr.any_type, "incompatible_shape_error": attr.bool(True)}


@register_op(
    "Equal",
    inputs={"x": "T", "y": "T"},
    outputs={"z": "bool"},
    attrs=_EQUALITY_ATTRS,
    commutative=True,
)
def _equal_shape(op: InferenceContext) -> list[Shape]:
    """x == y; NaN differs from everything."""
    return _equality_shape(op)


@register_op(
    "NotEqual",
    inputs={"x": "T", "y": "T"},
    outputs={"z": "bool"},
    attrs=_EQUALITY_ATTRS,
    commutative=True,
)
def _not_equal_shape(op: InferenceContext) -> list[Shape]:
    """x != y; NaN differs from everything."""
    return _equality_shape(op)


@register_op("LogicalAnd", inputs={"x": "bool", "y": "bool"}, outputs={"z": "bool"}, commutative=True)
def _logical_and_shape(op: InferenceContext) -> list[Shape]:
    """True where both are."""
    return [broadcast_shapes(op.inputs[0].shape, op.inputs[1].shape)]


@register_op("LogicalOr", inputs={"x": "bool", "y": "bool"}, outputs={"z": "bool"}, commutative=True)
def _logical_or_shape(op: InferenceContext) -> list[Shape]:
    """True where one is."""
    return [broadcast_shapes(op.inputs[0].shape, op.inputs[1].shape)]


@register_op("LogicalNot", inputs={"x": "bool"}, outputs={"y": "bool"})
def _logical_not_shape(op: InferenceContext) -> list[Shape]:
    """True where x is false."""
    return [op.inputs[0].shape]


def equal(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """x == y, element by element; NaN differs from everything.

    The operator `==` of tensors means whether they are the same tensor, since tensors are keys of dictionaries.

    Args:
      x: any dtype and shape.
      y: a dtype that has a common one with that of `x`, a shape that broadcasts with that of `x`.
      name: the operation's name.
    Returns:
      bool, the broadcast shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.equal([1, 2], 2)
      >>> print(hr.Session(graph).run(z))
      [False  True]
    """
    return apply_binary("Equal", x, y, name)


def not_equal(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """x != y, element by element; see `equal`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.not_equal([1, 2], 2)
      >>> print(hr.Session(graph).run(z))
      [ True False]
    """
    return apply_binary("NotEqual", x, y, name)


@overload_operator("less")
def less(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """x < y, element by element; numbers that are not complex; see `equal`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.less([1, 2], 2)
      >>> print(hr.Session(graph).run(z))
      [ True False]
    """
    return apply_binary("Less", x, y, name)


@overload_operator("less_equal")
def less_equal(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """x <= y, element by element; numbers that are not complex; see `equal`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.less_equal([1, 2], 1.5)
      >>> print(hr.Session(graph).run(z))
      [ True False]
    """
    return apply_binary("LessEqual", x, y, name)


@overload_operator("greater")
def greater(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """x > y, element by element; numbers that are not complex; see `equal`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.greater([1, 2], 1)
      >>> print(hr.Session(graph).run(z))
      [False  True]
    """
    return apply_binary("Greater", x, y, name)


@overload_operator("greater_equal")
def greater_equal(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """x >= y, element by element; numbers that are not complex; see `equal`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.greater_equal([1, 2], 2)
      >>> print(hr.Session(graph).run(z))
      [False  True]
    """
    return apply_binary("GreaterEqual", x, y, name)


def logical_and(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """True where x and y are; bools whose shapes broadcast.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.logical_and([True, True], [True, False])
      >>> print(hr.Session(graph).run(z))
      [ True False]
    """
    result: Tensor = apply_op("LogicalAnd", x, y, name=name)
    return result


def logical_or(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """True where x or y is; bools whose shapes broadcast.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.logical_or([True, False], [False, False])
      >>> print(hr.Session(graph).run(z))
      [ True False]
    """
    result: Tensor = apply_op("LogicalOr", x, y, name=name)
    return result


def logical_xor(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """True where x and y differ; bools whose shapes broadcast.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.logical_xor([True, True], [True, False])
      >>> print(hr.Session(graph).run(z))
      [False  True]
    """
    left, right = convert_to_tensor(x, bool_dtype), convert_to_tensor(y, bool_dtype)
    result: Tensor = apply_op("NotEqual", left, right, name=name)
    return result


def logical_not(x: TensorLike, *, name: str | None = None) -> Tensor:
    """True where x, bool, is false.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.logical_not([True, False])
      >>> print(hr.Session(graph).run(y))
      [False  True]
    """
    return apply_unary("LogicalNot", x, name)


@overload_operator("and")
def bitwise_and(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """The bits that x and y both have; integers, or bools, whose shapes broadcast.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.bitwise_and([6, 5], 3)
      >>> print(hr.Session(graph).run(z))
      [2 1]
    """
    return _bits("BitwiseAnd", "LogicalAnd", x, y, name)


@overload_operator("or")
def bitwise_or(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """The bits that x or y has; integers, or bools, whose shapes broadcast.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.bitwise_or([6, 5], 3)
      >>> print(hr.Session(graph).run(z))
      [7 7]
    """
    return _bits("BitwiseOr", "LogicalOr", x, y, name)


@overload_operator("xor")
def bitwise_xor(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """The bits that one of x and y has; integers, or bools, whose shapes broadcast.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.bitwise_xor([6, 5], 3)
      >>> print(hr.Session(graph).run(z))
      [5 6]
    """
    return _bits("BitwiseXor", "NotEqual", x, y, name)


def _bits(op_type: str, bool_type: str, x: TensorLike, y: TensorLike, name: str | None) -> Tensor:
    left, right = promoted(x, y)
    result: Tensor = apply_op(bool_type if left.dtype is bool_dtype else op_type, left, right, name=name)
    return result


@overload_operator("invert")
def bitwise_invert(x: TensorLike, *, name: str | None = None) -> Tensor:
    """Every bit of x reversed; integer or bool.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.bitwise_invert([0, 5])
      >>> print(hr.Session(graph).run(y))
      [-1 -6]
    """
    value = convert_to_tensor(x)
    return apply_unary("LogicalNot" if value.dtype is bool_dtype else "Invert", value, name)


@overload_operator("left_shift")
def bitwise_left_shift(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """The bits of x moved up by y places; integers whose shapes broadcast.

    y is limited to 0 at the low and the number of bits - 1 at the high end, so that every shift has a meaning.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.bitwise_left_shift([1, 3], 2)
      >>> print(hr.Session(graph).run(z))
      [ 4 12]
    """
    return apply_binary("LeftShift", x, y, name)


@overload_operator("right_shift")
def bitwise_right_shift(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """The bits of x moved down by y places, the sign staying; see `bitwise_left_shift`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.bitwise_right_shift([8, -8], 2)
      >>> print(hr.Session(graph).run(z))
      [ 2 -2]
    """
    return apply_binary("RightShift", x, y, name)


def approximate_equal(x: TensorLike, y: TensorLike, tolerance: float = 1e-5, *, name: str | None = None) -> Tensor:
    """Where two tensors of one shape differ by less than a tolerance.

    Args:
      x: numeric, any shape.
      y: the same dtype and shape.
      tolerance: the difference that is too much.
      name: the operation's name.
    Returns:
      bool of the same shape; False where either is NaN.
    Raises:
      ShapeError: the shapes differ.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     same = hr.approximate_equal([1.0, 2.0], [1.1, 2.5], 0.25)
      >>> print(hr.Session(graph).run(same))
      [ True False]
    """
    result: Tensor = apply_op("ApproximateEqual", x, y, tolerance=tolerance, name=name)
    return result
