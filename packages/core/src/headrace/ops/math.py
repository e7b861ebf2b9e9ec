"""Element-wise arithmetic: sums, products, quotients, powers, extremes and rounding.

Its length is that of the users' documentation: each function is one or two statements.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import DTypeError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.attr import AttrSpec
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.graph.operators import overload_operator
from headrace.ops.complex import apply_part
from headrace.ops.promotion import promoted
from headrace.types import Shape, broadcast_shapes, float32, int8, int16, int32, int64, string, variant

__all__ = [
    "SIGNED",
    "abs",
    "add",
    "add_n",
    "apply_binary",
    "apply_unary",
    "ceil",
    "clip",
    "divide",
    "divide_no_nan",
    "floor",
    "floor_divide",
    "isfinite",
    "isinf",
    "isnan",
    "maximum",
    "minimum",
    "multiply",
    "multiply_no_nan",
    "negative",
    "positive",
    "pow",
    "register_binary",
    "register_unary",
    "remainder",
    "round",
    "sign",
    "square",
    "squared_difference",
    "subtract",
    "trunc",
    "truncate_divide",
    "truncate_mod",
]

_FLOATING = attr.floating.allowed or ()
_COMPLEX = attr.complexes.allowed or ()
_SIGNED_INTEGERS = (int8, int16, int32, int64)
SIGNED = attr.type(*_FLOATING, *_COMPLEX, *_SIGNED_INTEGERS)
"""Every numeric dtype that has negative numbers."""
_ADDABLE = attr.type(*(attr.numeric.allowed or ()), string)


def register_unary(name: str, spec: AttrSpec, doc: str, *, output: str = "T") -> None:
    """Register an element-wise operation `x: T -> y` with one type attr."""

    def shape(op: InferenceContext) -> list[Shape]:
        return [op.inputs[0].shape]

    shape.__doc__ = doc
    register_op(name, inputs={"x": "T"}, outputs={"y": output}, attrs={"T": spec})(shape)


def register_binary(name: str, spec: AttrSpec, doc: str, *, output: str = "T", commutative: bool = False) -> None:
    """Register an element-wise operation `x: T, y: T -> z` whose inputs broadcast."""

    def shape(op: InferenceContext) -> list[Shape]:
        return [broadcast_shapes(op.inputs[0].shape, op.inputs[1].shape)]

    shape.__doc__ = doc
    register_op(name, inputs={"x": "T", "y": "T"}, outputs={"z": output}, attrs={"T": spec}, commutative=commutative)(
        shape
    )


register_binary("AddV2", attr.numeric, "x + y.", commutative=True)
register_binary("Add", _ADDABLE, "x + y; strings are joined.")
register_binary("Sub", attr.numeric, "x - y.")
register_binary("Mul", attr.numeric, "x * y.", commutative=True)
register_binary("MulNoNan", attr.floating_or_complex, "x * y, and 0 where y is 0, even if x is infinite or NaN.")
register_binary("RealDiv", attr.numeric, "x / y; of integers the quotient rounded towards zero.")
register_binary("Div", attr.numeric, "x / y; of integers the quotient rounded towards zero.")
register_binary("DivNoNan", attr.floating_or_complex, "x / y, and 0 where y is 0.")
register_binary("FloorDiv", attr.numeric, "The quotient rounded down; dividing an integer by zero is an error.")
register_binary("FloorMod", attr.ordered, "What FloorDiv leaves: it has the sign of y.")
register_binary("TruncateDiv", attr.ordered, "The quotient rounded towards zero.")
register_binary("TruncateMod", attr.ordered, "What TruncateDiv leaves: it has the sign of x.")
register_binary("Mod", attr.ordered, "The same as TruncateMod.")
register_binary("Pow", attr.numeric, "x to the power y; an integer to a negative integer power is an error.")
register_binary("Maximum", attr.ordered, "The larger of x and y; NaN if either is.", commutative=True)
register_binary("Minimum", attr.ordered, "The smaller of x and y; NaN if either is.", commutative=True)
register_binary("SquaredDifference", SIGNED, "(x - y) times its conjugate.", commutative=True)

register_unary("Neg", SIGNED, "-x.")
register_unary("Abs", attr.ordered, "The absolute value; that of the lowest integer is itself.")
register_unary("Sign", SIGNED, "-1, 0 or 1; of a complex number x / |x|; NaN stays.")
register_unary("Square", attr.numeric, "x * x.")
register_unary("Floor", attr.floating, "The largest whole number that is not above x.")
register_unary("Ceil", attr.floating, "The smallest whole number that is not below x.")
register_unary("Rint", attr.floating, "The nearest whole number, the even one where two are equally near.")
register_unary("Round", SIGNED, "The nearest whole number, the even one where two are equally near.")
register_unary("IsNan", attr.floating, "True where x is not a number.", output="bool")
register_unary("IsInf", attr.floating, "True where x is plus or minus infinity.", output="bool")
register_unary("IsFinite", attr.floating, "True where x is neither infinite nor NaN.", output="bool")


@register_op(
    "AddN",
    inputs={"inputs": "N*T"},
    outputs={"sum": "T"},
    attrs={"N": attr.int(minimum=1), "T": attr.type(*(attr.numeric.allowed or ()), variant)},
)
def _add_n_shape(op: InferenceContext) -> list[Shape]:
    """The sum of several tensors of one shape, or of lists element by element; they do not broadcast."""
    shape = op.inputs[0].shape
    for other in op.inputs[1:]:
        if not shape.is_compatible_with(other.shape):
            raise ShapeError(
                "AddN adds tensors of one shape",
                expected=str(shape),
                got=str(other.shape),
                hint="hr.add broadcasts: add with it, or hr.broadcast_to the smaller one first",
            )
        shape = shape.merge(other.shape)
    return [shape]


@register_op(
    "AccumulateNV2",
    inputs={"inputs": "N*T"},
    outputs={"sum": "T"},
    attrs={"N": attr.int(minimum=1), "T": attr.numeric, "shape": attr.shape()},
)
def _accumulate_shape(op: InferenceContext) -> list[Shape]:
    """`AddN` whose result has the shape that an attribute states."""
    (shape,) = _add_n_shape(op)
    stated: Shape = op.attr("shape")
    if not shape.is_compatible_with(stated):
        raise ShapeError(
            "the sum has another shape than is stated",
            expected=str(stated),
            got=str(shape),
            hint="AddN takes the shape of its inputs",
        )
    return [shape.merge(stated)]


@register_op(
    "ClipByValue",
    inputs={"t": "T", "clip_value_min": "T", "clip_value_max": "T"},
    outputs={"output": "T"},
    attrs={"T": attr.ordered},
)
def _clip_shape(op: InferenceContext) -> list[Shape]:
    """maximum(minimum(t, clip_value_max), clip_value_min), with t's shape; NaN stays."""
    shape = op.inputs[0].shape
    for bound in op.inputs[1:]:
        broadcast_shapes(shape, bound.shape)
    return [shape]


@overload_operator("add")
def add(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """x + y, element by element.

    Args:
      x: numeric, any shape.
      y: numeric, a shape that broadcasts with that of `x`.
      name: the operation's name.
    Returns:
      The promoted dtype and the broadcast shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.add([1.0, 2.0], 3)
      >>> print(hr.Session(graph).run(z))
      [4. 5.]
    """
    return apply_binary("AddV2", x, y, name)


@overload_operator("subtract")
def subtract(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """x - y, element by element; see `add`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.subtract([1.0, 2.0], 3)
      >>> print(hr.Session(graph).run(z))
      [-2. -1.]
    """
    return apply_binary("Sub", x, y, name)


@overload_operator("multiply")
def multiply(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """x * y, element by element; see `add`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.multiply([1.0, 2.0], 3)
      >>> print(hr.Session(graph).run(z))
      [3. 6.]
    """
    return apply_binary("Mul", x, y, name)


def multiply_no_nan(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """x * y, and 0 where y is 0 even if x is infinite or NaN; floating or complex, see `add`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.multiply_no_nan([float("inf"), 2.0], [0.0, 3.0])
      >>> print(hr.Session(graph).run(z))
      [0. 6.]
    """
    return apply_binary("MulNoNan", x, y, name)


@overload_operator("divide")
def divide(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """x / y, element by element; two integers or bools give a float32, as a Python float beside them would.

    Args:
      x: numeric, any shape.
      y: numeric, a shape that broadcasts with that of `x`.
      name: the operation's name.
    Returns:
      The promoted dtype, float32 where that is an integer or bool; the broadcast shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.divide([1, 2], 4)
      >>> print(hr.Session(graph).run(z))
      [0.25 0.5 ]
    """
    numerator, denominator = promoted(x, y)
    if not numerator.dtype.is_differentiable:
        numerator, denominator = (_to_float32(operand) for operand in (numerator, denominator))
    result: Tensor = apply_op("RealDiv", numerator, denominator, name=name)
    return result


def _to_float32(x: Tensor) -> Tensor:
    result: Tensor = apply_op("Cast", x, DstT=float32)
    return result


def divide_no_nan(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """x / y, and 0 where y is 0; floating or complex, see `add`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.divide_no_nan([1.0, 2.0], [0.0, 4.0])
      >>> print(hr.Session(graph).run(z))
      [0.  0.5]
    """
    return apply_binary("DivNoNan", x, y, name)


@overload_operator("floor_divide")
def floor_divide(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """The quotient rounded down, element by element; see `add`.

    Raises:
      InvalidArgumentError: an integer is divided by zero (when the step runs).

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.floor_divide([7, -7], 2)
      >>> print(hr.Session(graph).run(z))
      [ 3 -4]
    """
    return apply_binary("FloorDiv", x, y, name)


@overload_operator("remainder")
def remainder(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """What `floor_divide` leaves, with the sign of y, as Python's `%`; see `add`.

    Raises:
      InvalidArgumentError: an integer is divided by zero (when the step runs).

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.remainder([7, -7], 4)
      >>> print(hr.Session(graph).run(z))
      [3 1]
    """
    return apply_binary("FloorMod", x, y, name)


def truncate_divide(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """The quotient rounded towards zero, as C divides integers; see `floor_divide`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.truncate_divide([7, -7], 2)
      >>> print(hr.Session(graph).run(z))
      [ 3 -3]
    """
    return apply_binary("TruncateDiv", x, y, name)


def truncate_mod(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """What `truncate_divide` leaves, with the sign of x, as C's `%`; see `floor_divide`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.truncate_mod([7, -7], 4)
      >>> print(hr.Session(graph).run(z))
      [ 3 -3]
    """
    return apply_binary("TruncateMod", x, y, name)


@overload_operator("pow")
def pow(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """x to the power y, element by element; see `add`.

    Raises:
      InvalidArgumentError: an integer is raised to a negative integer power (when the step runs).

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.pow([2.0, 3.0], 2)
      >>> print(hr.Session(graph).run(z))
      [4. 9.]
    """
    return apply_binary("Pow", x, y, name)


def maximum(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """The larger of x and y, element by element; NaN if either is.

    Where they are equal the gradient goes to x. See `add`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.maximum([1.0, 5.0], 3)
      >>> print(hr.Session(graph).run(z))
      [3. 5.]
    """
    return apply_binary("Maximum", x, y, name)


def minimum(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """The smaller of x and y, element by element; NaN if either is.

    Where they are equal the gradient goes to x. See `add`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.minimum([1.0, 5.0], 3)
      >>> print(hr.Session(graph).run(z))
      [1. 3.]
    """
    return apply_binary("Minimum", x, y, name)


def squared_difference(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """(x - y)**2, element by element; of complex numbers |x - y|**2; see `add`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.squared_difference([1.0, 5.0], 3)
      >>> print(hr.Session(graph).run(z))
      [4. 4.]
    """
    return apply_binary("SquaredDifference", x, y, name)


def add_n(inputs: Sequence[TensorLike], *, name: str | None = None) -> Tensor:
    """The sum of several tensors.

    Args:
      inputs: at least one; numeric tensors of one dtype and one shape: they do not broadcast.
      name: the operation's name.
    Returns:
      The same dtype and shape.
    Raises:
      ShapeError: the shapes differ.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     z = hr.add_n([[1.0, 2.0], [3.0, 4.0]])
      >>> print(hr.Session(graph).run(z))
      [4. 6.]
    """
    result: Tensor = apply_op("AddN", promoted(*inputs) if inputs else [], name=name)
    return result


def clip(
    x: TensorLike, min: TensorLike | None = None, max: TensorLike | None = None, *, name: str | None = None
) -> Tensor:
    """x limited to the range from `min` to `max`, element by element; NaN stays.

    Args:
      x: numeric and not complex, any shape.
      min: the lower bound, of a shape that broadcasts with that of `x`, or None.
      max: the upper bound, the same; where it is below `min` the result is `min`.
      name: the operation's name.
    Returns:
      The promoted dtype and the broadcast shape. The gradient is 1 inside the range, its ends included, and 0 outside.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.clip([-2.0, 0.5, 3.0], 0, 1)
      >>> print(hr.Session(graph).run(y))
      [0.  0.5 1. ]
    """
    if min is None or max is None:
        limited = convert_to_tensor(x) if max is None else minimum(x, max, name=name if min is None else None)
        return limited if min is None else maximum(limited, min, name=name)
    value, low, high = promoted(x, min, max)
    if low.shape.rank == 0 and high.shape.rank == 0:
        clipped: Tensor = apply_op("ClipByValue", value, low, high, name=name)
        return clipped
    return maximum(minimum(value, high), low, name=name)


@overload_operator("negative")
def negative(x: TensorLike, *, name: str | None = None) -> Tensor:
    """-x, element by element; any signed dtype and shape, which the result shares.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.negative([1.0, -2.0])
      >>> print(hr.Session(graph).run(y))
      [-1.  2.]
    """
    return apply_unary("Neg", x, name)


@overload_operator("positive")
def positive(x: TensorLike, *, name: str | None = None) -> Tensor:
    """x itself; any numeric dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.positive([1.0, -2.0])
      >>> print(hr.Session(graph).run(y))
      [ 1. -2.]
    """
    value = convert_to_tensor(x)
    if value.dtype not in (attr.numeric.allowed or ()):
        raise DTypeError(
            "positive takes numbers",
            where=value.op.location,
            expected="a numeric dtype",
            got=str(value.spec),
            hint="booleans become numbers with hr.astype(x, hr.int32)",
        )
    return apply_unary("Identity", value, name)


@overload_operator("abs")
def abs(x: TensorLike, *, name: str | None = None) -> Tensor:
    """|x|, element by element.

    Args:
      x: numeric, any shape.
      name: the operation's name.
    Returns:
      The same shape; of complex numbers the real dtype of half the width, else the same dtype. The gradient at 0 is 0.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.abs([3 + 4j, -1j])
      >>> print(hr.Session(graph).run(y))
      [5. 1.]
    """
    value = convert_to_tensor(x)
    return apply_part("ComplexAbs", value, name) if value.dtype.is_complex else apply_unary("Abs", value, name)


def sign(x: TensorLike, *, name: str | None = None) -> Tensor:
    """-1, 0 or 1 by the sign of x, element by element; of a complex number x / |x|; NaN stays.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.sign([-3, 0, 5])
      >>> print(hr.Session(graph).run(y))
      [-1  0  1]
    """
    return apply_unary("Sign", x, name)


def square(x: TensorLike, *, name: str | None = None) -> Tensor:
    """x * x, element by element; any numeric dtype and shape, which the result shares.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.square([1.0, -3.0])
      >>> print(hr.Session(graph).run(y))
      [1. 9.]
    """
    return apply_unary("Square", x, name)


def floor(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The largest whole number that is not above x, element by element; the same dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.floor([1.5, -1.5])
      >>> print(hr.Session(graph).run(y))
      [ 1. -2.]
    """
    return _whole("Floor", x, name)


def ceil(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The smallest whole number that is not below x, element by element; the same dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.ceil([1.5, -1.5])
      >>> print(hr.Session(graph).run(y))
      [ 2. -1.]
    """
    return _whole("Ceil", x, name)


def round(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The nearest whole number, the even one where two are equally near; the same dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.round([0.5, 1.5, -2.7])
      >>> print(hr.Session(graph).run(y))
      [ 0.  2. -3.]
    """
    return _whole("Rint", x, name)


def trunc(x: TensorLike, *, name: str | None = None) -> Tensor:
    """x without its fraction: rounded towards zero; the same dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.trunc([1.5, -1.5])
      >>> print(hr.Session(graph).run(y))
      [ 1. -1.]
    """
    value = convert_to_tensor(x)
    return value if value.dtype.is_integer else apply_binary("TruncateDiv", value, 1, name)


def isnan(x: TensorLike, *, name: str | None = None) -> Tensor:
    """True where x, floating, is not a number; bool of the same shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.isnan([1.0, float("nan")])
      >>> print(hr.Session(graph).run(y))
      [False  True]
    """
    return apply_unary("IsNan", x, name)


def isinf(x: TensorLike, *, name: str | None = None) -> Tensor:
    """True where x, floating, is plus or minus infinity; bool of the same shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.isinf([1.0, float("inf")])
      >>> print(hr.Session(graph).run(y))
      [False  True]
    """
    return apply_unary("IsInf", x, name)


def isfinite(x: TensorLike, *, name: str | None = None) -> Tensor:
    """True where x, floating, is neither infinite nor NaN; bool of the same shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.isfinite([1.0, float("inf")])
      >>> print(hr.Session(graph).run(y))
      [ True False]
    """
    return apply_unary("IsFinite", x, name)


def apply_binary(op_type: str, x: TensorLike, y: TensorLike, name: str | None) -> Tensor:
    """Apply an operation of two inputs, which are promoted to their common dtype, and one output."""
    result: Tensor = apply_op(op_type, *promoted(x, y), name=name)
    return result


def apply_unary(op_type: str, x: TensorLike, name: str | None) -> Tensor:
    """Apply an operation of one input and one output."""
    result: Tensor = apply_op(op_type, x, name=name)
    return result


def _whole(op_type: str, x: TensorLike, name: str | None) -> Tensor:
    """Integers are whole already."""
    value = convert_to_tensor(x)
    return value if value.dtype.is_integer else apply_unary(op_type, value, name)
