"""Gradient rules of the math family.

In each rule g is the gradient that arrives at the output; x and y are the inputs, z the output.
"""

from __future__ import annotations

from headrace.grad.broadcast import broadcast_gradients, conjugate, sum_to_operand
from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor
from headrace.graph.shape_value import constant_value

_STEPS = "its derivative is zero wherever it exists"
for _name in ("FloorDiv", "TruncateDiv", "Floor", "Ceil", "Rint", "Round", "Sign"):
    no_gradient(_name, _STEPS)
for _name in ("IsNan", "IsInf", "IsFinite"):
    no_gradient(_name, "its output is a bool")


@register_gradient("AddV2")
@register_gradient("Add")
def _add(op: Operation, g: Tensor) -> list[Tensor]:
    """d(x + y) = dx + dy."""
    x, y = op.inputs
    return broadcast_gradients(x, y, g, g)


@register_gradient("AccumulateNV2")
@register_gradient("AddN")
def _add_n(op: Operation, g: Tensor) -> list[Tensor]:
    """Each term has the derivative 1."""
    return [g] * len(op.inputs)


@register_gradient("Sub")
def _sub(op: Operation, g: Tensor) -> list[Tensor]:
    """d(x - y) = dx - dy; the sign changes after the sum, where there are fewer elements."""
    x, y = op.inputs
    return [sum_to_operand(g, x, y), -sum_to_operand(g, y, x)]


@register_gradient("Mul")
def _mul(op: Operation, g: Tensor) -> list[Tensor]:
    """d(x * y) = y dx + x dy."""
    x, y = op.inputs
    return broadcast_gradients(x, y, g * conjugate(y), g * conjugate(x))


@register_gradient("MulNoNan")
def _mul_no_nan(op: Operation, g: Tensor) -> list[Tensor]:
    """As Mul; where y is 0 the gradient by x is 0 even if g is infinite, and that by y is x, as TensorFlow has it."""
    x, y = op.inputs
    return broadcast_gradients(x, y, _mul_no_nan_of(g, conjugate(y)), _mul_no_nan_of(conjugate(x), g))


def _mul_no_nan_of(x: Tensor, y: Tensor) -> Tensor:
    result: Tensor = apply_op("MulNoNan", x, y)
    return result


@register_gradient("RealDiv")
@register_gradient("Div")
def _real_div(op: Operation, g: Tensor) -> list[Tensor]:
    """d(x / y) = dx / y - x / y**2 dy."""
    x, y = conjugate(op.inputs[0]), conjugate(op.inputs[1])
    slope = g / y
    return broadcast_gradients(op.inputs[0], op.inputs[1], slope, -slope * (x / y))


@register_gradient("DivNoNan")
def _div_no_nan(op: Operation, g: Tensor) -> list[Tensor]:
    """As RealDiv; both gradients are 0 where y is 0."""
    x, y = conjugate(op.inputs[0]), conjugate(op.inputs[1])
    slope: Tensor = apply_op("DivNoNan", g, y)
    ratio: Tensor = apply_op("DivNoNan", x, y)
    return broadcast_gradients(op.inputs[0], op.inputs[1], slope, -slope * ratio)


@register_gradient("FloorMod")
def _floor_mod(op: Operation, g: Tensor) -> list[Tensor]:
    """x - floor(x / y) * y: the floor is taken as constant."""
    x, y = op.inputs
    return broadcast_gradients(x, y, g, -g * apply_op("FloorDiv", x, y))


@register_gradient("TruncateMod")
@register_gradient("Mod")
def _truncate_mod(op: Operation, g: Tensor) -> list[Tensor]:
    """x - trunc(x / y) * y: the quotient is taken as constant."""
    x, y = op.inputs
    return broadcast_gradients(x, y, g, -g * apply_op("TruncateDiv", x, y))


@register_gradient("Pow")
def _pow(op: Operation, g: Tensor) -> list[Tensor]:
    """d(x**y) = y x**(y - 1) dx + x**y log(x) dy.

    Where y is 0 the derivative by x is 0, also at x = 0; the derivative by y is taken as 0 where x <= 0.
    """
    x, y, z = conjugate(op.inputs[0]), conjugate(op.inputs[1]), conjugate(op.outputs[0])
    power = x ** (y - 1)
    exponent = constant_value(op.inputs[1])
    slope = power * y if exponent is not None and exponent.all() else _mul_no_nan_of(power, y)
    return broadcast_gradients(op.inputs[0], op.inputs[1], g * slope, g * z * _safe_log(x))


def _safe_log(x: Tensor) -> Tensor:
    """log(x), and 0 where x is not above 0 (of complex numbers: where it is 0)."""
    zero, one = apply_op("ZerosLike", x), apply_op("OnesLike", x)
    positive = apply_op("NotEqual", x, zero) if x.dtype.is_complex else apply_op("Greater", x, zero)
    result: Tensor = apply_op("Log", apply_op("SelectV2", positive, x, one))
    return result


def _select_gradients(op: Operation, condition: Tensor, g: Tensor) -> list[Tensor]:
    """g goes to x where the condition holds, to y elsewhere."""
    x, y = op.inputs
    zero = apply_op("ZerosLike", g)
    to_x, to_y = apply_op("SelectV2", condition, g, zero), apply_op("SelectV2", condition, zero, g)
    return broadcast_gradients(x, y, to_x, to_y)


@register_gradient("Maximum")
def _maximum(op: Operation, g: Tensor) -> list[Tensor]:
    """The larger input gets it, x where they are equal."""
    return _select_gradients(op, apply_op("GreaterEqual", op.inputs[0], op.inputs[1]), g)


@register_gradient("Minimum")
def _minimum(op: Operation, g: Tensor) -> list[Tensor]:
    """The smaller input gets it, x where they are equal."""
    return _select_gradients(op, apply_op("LessEqual", op.inputs[0], op.inputs[1]), g)


@register_gradient("SquaredDifference")
def _squared_difference(op: Operation, g: Tensor) -> list[Tensor]:
    """d(|x - y|**2) = 2 (x - y) (dx - dy); of complex numbers only the real part of g counts."""
    x, y = op.inputs
    slope = (g + conjugate(g)) * (x - y)
    return [sum_to_operand(slope, x, y), -sum_to_operand(slope, y, x)]


@register_gradient("Neg")
def _neg(op: Operation, g: Tensor) -> list[Tensor]:
    """d(-x) = -dx."""
    return [-g]


@register_gradient("Abs")
def _abs(op: Operation, g: Tensor) -> list[Tensor]:
    """d|x| = sign(x) dx, 0 at 0."""
    return [g * apply_op("Sign", op.inputs[0])]


@register_gradient("Square")
def _square(op: Operation, g: Tensor) -> list[Tensor]:
    """d(x**2) = 2 x dx."""
    return [g * (conjugate(op.inputs[0]) * 2)]


@register_gradient("ClipByValue")
def _clip(op: Operation, g: Tensor) -> list[Tensor]:
    """t gets it between the bounds, ends included; a bound gets it where it replaced t."""
    t, low, high = op.inputs
    zero = apply_op("ZerosLike", g)
    below, above = apply_op("Less", t, low), apply_op("Greater", t, high)
    inside: Tensor = apply_op("SelectV2", apply_op("LogicalOr", below, above), zero, g)
    to_low: Tensor = apply_op("SelectV2", below, g, zero)
    to_high: Tensor = apply_op("SelectV2", above, g, zero)
    return [inside, sum_to_operand(to_low, low, t), sum_to_operand(to_high, high, t)]
