"""Loop rules of element-wise operations: arithmetic, elementary functions, comparison, choice, conversion."""

from __future__ import annotations

from collections.abc import Callable

from headrace.loops import functions as loops
from headrace.loops.registry import LoopContext, register_loops
from headrace.loops.value import Value, broadcast, constant, map_values
from headrace.types import DType, bfloat16, float16, float32, int32, int64
from headrace.types import bool as boolean

__all__ = ["narrowed", "widened"]

Rule = Callable[..., Value | None]

MOST_POWER = 64
"""Whole powers of integers up to which they are products."""
MOST_TERMS = 32
"""Tensors that are added up in one loop: each is a stream that the memory has to follow."""


def widened(x: Value) -> Value:
    """float16 and bfloat16 as float32, as the kernels compute them."""
    return loops.cast(x, float32) if x.dtype in (float16, bfloat16) else x


def narrowed(x: Value, dtype: DType) -> Value:
    """Back in the dtype of the operation."""
    return loops.cast(x, dtype)


def _real(x: Value) -> bool:
    return x.dtype.kind in ("float", "int", "uint")


def _register(op_type: str, rule: Rule, *, floating: bool = False) -> None:
    """Register a rule for real dtypes, or floating ones only."""

    @register_loops(op_type)
    def checked(op: LoopContext, *inputs: Value) -> Value | None:
        fits = all(item.dtype.is_floating if floating else _real(item) for item in inputs)
        return rule(*inputs) if fits else None


def _wide(rule: Rule) -> Rule:
    """A rule that computes narrow floats in float32 and rounds once."""

    def compute(*inputs: Value) -> Value | None:
        result = rule(*map(widened, inputs))
        return None if result is None else narrowed(result, inputs[0].dtype)

    return compute


for _name, _op in {
    "AddV2": "add", "Add": "add", "Sub": "sub", "Mul": "mul", "Maximum": "max", "Minimum": "min", "Neg": "neg",
    "Abs": "abs",
}.items():  # fmt: skip
    _register(_name, lambda *inputs, op=_op: map_values(op, *inputs))
for _name, _op in {
    "RealDiv": "div", "Div": "div", "Floor": "floor", "Ceil": "ceil", "Rint": "rint", "Round": "rint", "Sign": "sign",
    "Sqrt": "sqrt", "Exp": "exp", "Expm1": "expm1", "Log": "log", "Log1p": "log1p", "Sin": "sin", "Cos": "cos",
    "Tanh": "tanh", "Sigmoid": "sigmoid", "Erf": "erf",
}.items():  # fmt: skip
    _register(_name, lambda *inputs, op=_op: map_values(op, *inputs), floating=True)
for _name, _op in {
    "Less": "lt", "LessEqual": "le", "Greater": "gt", "GreaterEqual": "ge",
}.items():  # fmt: skip
    _register(_name, lambda *inputs, op=_op: map_values(op, *inputs, dtype=boolean))


def _square(x: Value) -> Value:
    return x * x


def _squared_difference(x: Value, y: Value) -> Value:
    difference = x - y
    return difference * difference


def _reciprocal(x: Value) -> Value:
    return 1.0 / x


def _rsqrt(x: Value) -> Value:
    """In two roundings, as the kernel: the root is exact to half a unit and the quotient again."""
    return 1.0 / loops.sqrt(x)


def _is_inf(x: Value) -> Value:
    return loops.equal(loops.abs(x), float("inf"))


_register("Square", _square)
_register("SquaredDifference", _squared_difference)
_register("Reciprocal", _reciprocal, floating=True)
_register("Inv", _reciprocal, floating=True)
_register("Rsqrt", _rsqrt, floating=True)
_register("IsNan", loops.isnan, floating=True)
_register("IsInf", _is_inf, floating=True)
_register("IsFinite", loops.isfinite, floating=True)


def _tanh_grad(y: Value, dy: Value) -> Value:
    return dy * (1.0 - y * y)


def _sigmoid_grad(y: Value, dy: Value) -> Value:
    return dy * ((1.0 - y) * y)


def _sqrt_grad(y: Value, dy: Value) -> Value:
    return dy * 0.5 / y


def _rsqrt_grad(y: Value, dy: Value) -> Value:
    return dy * (y * y * y) * -0.5


def _reciprocal_grad(y: Value, dy: Value) -> Value:
    return -(y * y) * dy


_RULES: dict[str, Rule] = {
    "TanhGrad": _tanh_grad, "SigmoidGrad": _sigmoid_grad, "SqrtGrad": _sqrt_grad, "RsqrtGrad": _rsqrt_grad,
    "ReciprocalGrad": _reciprocal_grad, "InvGrad": _reciprocal_grad,
}  # fmt: skip
for _name, _rule in _RULES.items():
    _register(_name, _rule, floating=True)


@register_loops("Equal")
def _equal(op: LoopContext, x: Value, y: Value) -> Value | None:
    return _equality("eq", op, x, y)


@register_loops("NotEqual")
def _not_equal(op: LoopContext, x: Value, y: Value) -> Value | None:
    return _equality("ne", op, x, y)


def _equality(kind: str, op: LoopContext, x: Value, y: Value) -> Value | None:
    fits = op.attr("incompatible_shape_error") and (_real(x) or x.dtype is boolean)
    return map_values(kind, x, y, dtype=boolean) if fits else None


@register_loops("LogicalAnd")
def _logical_and(op: LoopContext, x: Value, y: Value) -> Value:
    return x & y


@register_loops("LogicalOr")
def _logical_or(op: LoopContext, x: Value, y: Value) -> Value:
    return x | y


@register_loops("LogicalNot")
def _logical_not(op: LoopContext, x: Value) -> Value:
    return ~x


for _name, _op in {"BitwiseAnd": "and", "BitwiseOr": "or", "BitwiseXor": "xor"}.items():
    register_loops(_name)(lambda context, x, y, op=_op: map_values(op, x, y))
register_loops("Invert")(lambda context, x: ~x)


@register_loops("AddN")
def _add_n(op: LoopContext, *inputs: Value) -> Value | None:
    if not all(map(_real, inputs)) or len(inputs) > MOST_TERMS:
        return None
    total = inputs[0]
    for item in inputs[1:]:
        total = total + item
    return total


@register_loops("ClipByValue")
def _clip(op: LoopContext, x: Value, low: Value, high: Value) -> Value | None:
    result = loops.maximum(loops.minimum(x, high), low) if _real(x) else None
    return result if result is not None and result.shape == x.shape else None


@register_loops("MulNoNan")
def _mul_no_nan(op: LoopContext, x: Value, y: Value) -> Value | None:
    if not (x.dtype.is_floating and y.dtype.is_floating):
        return None
    return loops.where(loops.equal(y, 0.0), constant(0.0, x.dtype), x * y)


@register_loops("DivNoNan")
def _div_no_nan(op: LoopContext, x: Value, y: Value) -> Value | None:
    if not (x.dtype.is_floating and y.dtype.is_floating):
        return None
    return loops.where(loops.equal(y, 0.0), constant(0.0, x.dtype), x / y)


def _floor_division(x: Value, y: Value) -> Value:
    return loops.floor(x / y)


def _truncated_division(x: Value, y: Value) -> Value:
    """The signs of quotients that become 0 stay."""
    quotient = x / y
    return loops.where(quotient < 0.0, loops.ceil(quotient), loops.floor(quotient))


def _disagrees(rest: Value, y: Value) -> Value:
    """True where a remainder is not 0 and has not the sign of the divisor: there the quotient was rounded up."""
    return loops.not_equal(rest, 0) & loops.not_equal(rest < 0, y < 0)


def _divided(quotient: Value, rest: Value, y: Value) -> Value:
    return loops.where(_disagrees(rest, y), quotient - 1, quotient)


def _modulo(quotient: Value, rest: Value, y: Value) -> Value:
    return loops.where(_disagrees(rest, y), rest + y, rest)


_DIVISIONS: dict[str, tuple[Callable[[Value, Value, Value], Value], Rule | None]] = {
    "FloorDiv": (_divided, _floor_division),
    "FloorMod": (_modulo, None),
    "TruncateDiv": (lambda quotient, rest, y: quotient, _truncated_division),
    "TruncateMod": (lambda quotient, rest, y: rest, None),
    "Mod": (lambda quotient, rest, y: rest, None),
}
"""For integers a result of truncated quotient, remainder and divisor; for floats a rule."""


def _register_division(op_type: str, of_parts: Callable[[Value, Value, Value], Value], of_floats: Rule | None) -> None:
    """Integers only by a number that is known not to be 0, which is an error, nor -1, whose quotient may overflow."""

    @register_loops(op_type)
    def rule(op: LoopContext, x: Value, y: Value) -> Value | None:
        if x.dtype.is_floating:
            return None if of_floats is None else of_floats(x, y)
        divisors = op.constants[1]
        if x.dtype.kind not in ("int", "uint") or divisors is None or not divisors.size:
            return None
        number = int(divisors.reshape(-1)[0])
        if number in (0, -1) or (divisors != number).any():
            return None
        shape = broadcast(x.shape, y.shape)
        divisor = constant(number, x.dtype)
        result = of_parts(map_values("quot", x, divisor), map_values("rem", x, divisor), divisor)
        return loops.broadcast_to(result, shape)


for _name, (_of_parts, _of_floats) in _DIVISIONS.items():
    _register_division(_name, _of_parts, _of_floats)


@register_loops("Pow")
def _power(op: LoopContext, x: Value, y: Value) -> Value | None:
    """Products for small whole powers, of integers only these, since what is no constant may be a power below 0.

    A cube is two products, 1 ulp off at most.
    """
    exponent = op.constants[1]
    number = None
    if exponent is not None and exponent.size == 1 and exponent.ndim <= x.rank:
        number = float(exponent.reshape(()))
    if not x.dtype.is_floating:
        fits = number is not None and x.dtype.kind in ("int", "uint") and 0 <= number <= MOST_POWER
        return _product(x, int(number)) if fits and number is not None else None
    if number in (1.0, 2.0, 3.0):
        return narrowed(_product(widened(x), int(number)), x.dtype)
    return map_values("pow", x, y)


def _product(x: Value, power: int) -> Value:
    """x to a whole power, by squares."""
    if power < 2:
        return x if power else loops.broadcast_to(constant(1, x.dtype), x.shape)
    half = _product(x, power // 2)
    return half * half * x if power % 2 else half * half


@register_loops("SelectV2")
def _select_v2(op: LoopContext, condition: Value, x: Value, y: Value) -> Value | None:
    return loops.where(condition, x, y) if _real(x) or x.dtype is boolean else None


@register_loops("Select")
def _select(op: LoopContext, condition: Value, x: Value, y: Value) -> Value | None:
    """A vector of conditions chooses whole rows."""
    if not (_real(x) or x.dtype is boolean) or x.shape != y.shape:
        return None
    if condition.shape != x.shape:
        if condition.rank == 0:
            return loops.where(condition, x, y)
        if condition.rank != 1 or not x.rank or condition.shape[0] != x.shape[0]:
            return None
        condition = loops.expand_dims(condition, list(range(1, x.rank)))
    return loops.where(condition, x, y)


@register_loops("Cast")
def _cast(op: LoopContext, x: Value) -> Value | None:
    """From floats to int32 and int64 only: other integers wrap by way of these, and truncation is another rounding."""
    source, target = op.attr("SrcT"), op.attr("DstT")
    kinds = ("float", "int", "uint", "bool")
    if source.kind not in kinds or target.kind not in kinds or op.attr("Truncate"):
        return None
    if source.is_floating and target.is_integer and target not in (int32, int64):
        return None
    if source.is_floating and target is boolean:
        return loops.not_equal(x, 0.0)
    return loops.cast(x, target)


def _identity(op: LoopContext, x: Value) -> Value | None:
    return x if _real(x) or x.dtype is boolean else None


register_loops("Snapshot")(_identity)


@register_loops("ZerosLike")
def _zeros_like(op: LoopContext, x: Value) -> Value | None:
    return loops.broadcast_to(constant(0, x.dtype), x.shape) if _real(x) or x.dtype is boolean else None


@register_loops("OnesLike")
def _ones_like(op: LoopContext, x: Value) -> Value | None:
    return loops.broadcast_to(constant(1, x.dtype), x.shape) if _real(x) or x.dtype is boolean else None


def _relu(x: Value) -> Value:
    return loops.maximum(x, 0)


def _relu6(x: Value) -> Value:
    return loops.minimum(loops.maximum(x, 0), 6)


def _relu_grad(g: Value, x: Value) -> Value:
    return g * loops.cast(x > 0, g.dtype)


def _relu6_grad(g: Value, x: Value) -> Value:
    return g * loops.cast((x > 0) & (x < 6), g.dtype)


_register("Relu", _relu)
_register("Relu6", _relu6)
_register("ReluGrad", _relu_grad)
_register("Relu6Grad", _relu6_grad)

SELU_SCALE = 1.0507009873554805
SELU_SCALE_ALPHA = 1.7580993408473766


def _elu(x: Value) -> Value:
    return loops.where(x > 0.0, x, loops.expm1(loops.minimum(x, 0.0)))


def _elu_grad(g: Value, y: Value) -> Value:
    return loops.where(y < 0.0, g * (y + 1.0), g)


def _selu(x: Value) -> Value:
    return loops.where(x > 0.0, x * SELU_SCALE, loops.expm1(loops.minimum(x, 0.0)) * SELU_SCALE_ALPHA)


def _selu_grad(g: Value, y: Value) -> Value:
    return loops.where(y < 0.0, g * (y + SELU_SCALE_ALPHA), g * SELU_SCALE)


def _softplus(x: Value) -> Value:
    return loops.maximum(x, 0.0) + loops.log1p(loops.exp(-loops.abs(x)))


def _softplus_grad(g: Value, x: Value) -> Value:
    return g / (loops.exp(-x) + 1.0)


def _softsign(x: Value) -> Value:
    return x / (loops.abs(x) + 1.0)


def _softsign_grad(g: Value, x: Value) -> Value:
    return g / loops.square(loops.abs(x) + 1.0)


_WIDE_RULES: dict[str, Rule] = {
    "Elu": _elu, "EluGrad": _elu_grad, "Selu": _selu, "SeluGrad": _selu_grad, "Softplus": _softplus,
    "SoftplusGrad": _softplus_grad, "Softsign": _softsign, "SoftsignGrad": _softsign_grad,
}  # fmt: skip
for _name, _rule in _WIDE_RULES.items():
    _register(_name, _wide(_rule), floating=True)


@register_loops("LeakyRelu")
def _leaky_relu(op: LoopContext, x: Value) -> Value:
    wide = widened(x)
    return narrowed(loops.where(wide > 0.0, wide, wide * op.attr("alpha")), x.dtype)


@register_loops("LeakyReluGrad")
def _leaky_relu_grad(op: LoopContext, g: Value, x: Value) -> Value:
    wide = widened(g)
    return narrowed(loops.where(widened(x) > 0.0, wide, wide * op.attr("alpha")), g.dtype)
