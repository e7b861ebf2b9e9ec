"""Exponentials: exp, and tanh and sigmoid, which follow from it, as LLVM instructions.

exp(x) is 2**n exp(r) with |r| <= ln(2) / 2, where a short series is enough. Processors with AVX-512 have instructions
that multiply by 2**n, that look 16 numbers up and that guess a reciprocal; elsewhere products, a longer series and a
division do. Either way a product with 2**n is rounded once, denormals included, and a quotient is right to hardly more
than half an ulp, since what is left of it is known exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from headrace_cpu.llvm.text import Text, float_literal
from headrace_cpu.loops.series_table import EXP_TAIL, EXP_TAIL_OF_ROW, EXPM1_TAIL, POWERS, POWERS_LOST

__all__ = [
    "BITS",
    "LN2_PARTS",
    "ROUNDER",
    "by_pairs",
    "clamped",
    "exp",
    "sigmoid",
    "sigmoid_of_single",
    "tanh_of_single",
]

LOG2E = 1 / math.log(2)
# ln 2 in two parts, the first with so few bits that its products with small integers are exact.
LN2_PARTS = {"float": (0.693359375, -2.1219444005469057e-4), "double": (0.6931471803691238, 1.9082149292705877e-10)}
ROUNDER = {"float": 1.5 * 2**23, "double": 1.5 * 2**52}
BITS = {"float": (32, 23, 127), "double": (64, 52, 1023)}  # width, mantissa, bias
LOWEST, HIGHEST = {"float": -105.0, "double": -760.0}, {"float": 89.0, "double": 710.0}
"""exp of what is beyond is 0 and infinity."""
REGISTER = {"float": 16, "double": 8}
"""Elements of a register of AVX-512."""


def clamped(t: Text, x: str, element: str, low: float | None = None, high: float | None = None) -> str:
    """Within bounds; NaN stays NaN, since it is neither above nor below."""
    whole = t.type(element)
    if high is not None:
        above = t.put(f"fcmp ogt {whole} {x}, {t.number(high, element)}")
        x = t.select(above, t.number(high, element), x, element)
    if low is not None:
        below = t.put(f"fcmp olt {whole} {x}, {t.number(low, element)}")
        x = t.select(below, t.number(low, element), x, element)
    return x


def exp(
    t: Text, x: str, element: str, terms: int | None = None, low: str | None = None, *, closer: bool = False
) -> str:
    """exp of r times 2**n.

    Where n is so large that the result is infinite or 0, r must only not be so too. AVX-512 bounds it in one
    instruction, which makes a number of NaN; n still is NaN then. Elsewhere x is bounded, or n would be no exponent.

    Args:
      t: what is written to.
      x: the argument.
      element: its type.
      terms: of the series of a float64, if it is to be a shorter one.
      low: what to add to x, below an ulp of it; of float64 only.
      closer: a float32 is to be within 0.8 ulp instead of 1.1, if that takes more instructions.
    """
    if t.has_avx512 and element == "float":
        return _exp_by_rows(t, x, closer=closer)
    if not t.has_avx512:
        x = clamped(t, x, element, LOWEST[element], HIGHEST[element])
    shifted, n = _nearest(t, x, LOG2E, element)
    r = _reduced(t, x, n, element)
    if t.has_avx512:
        r = _by_registers(t, "range", element, r, t.number(1.0, element))
    if low is not None:
        r = t.two("fadd", r, low, element)
    tail = EXP_TAIL if element == "float" else [float(Fraction(1, math.factorial(k))) for k in range(2, terms or 14)]
    square = t.two("fmul", r, r, element)
    p = t.fma(square, by_pairs(t, r, square, tail, element), r, element)
    return _scaled(t, t.two("fadd", p, t.number(1.0, element), element), n, shifted, element)


def _exp_by_rows(t: Text, x: str, *, closer: bool) -> str:
    """The same for an n of whole 16ths: 16 powers of two fill a register, and two terms are enough for so small r."""
    element = "float"
    shifted, n = _nearest(t, x, LOG2E, element, parts=len(POWERS))
    r = _by_registers(t, "range", element, _reduced(t, x, n, element), t.number(1.0, element))
    if closer:
        r = t.two("fadd", r, _row(t, POWERS_LOST, shifted), element)
    square = t.two("fmul", r, r, element)
    less = t.fma(square, by_pairs(t, r, square, EXP_TAIL_OF_ROW, element), r, element)
    power = _row(t, POWERS, shifted)
    return _by_registers(t, "scalef", element, t.fma(power, less, power, element), n)


def _row(t: Text, table: Sequence[float], place: str) -> str:
    """For each lane the number of a table of 16 that its lowest four bits choose."""
    name, bits = "llvm.x86.avx512.permvar.sf.512", t.convert("bitcast", place, "float", "i32")
    numbers = ", ".join(f"float {float_literal(number, 'float')}" for number in table)
    t.functions[name] = f"declare <16 x float> @{name}(<16 x float>, <16 x i32>)"
    parts = [
        t.put(f"call <16 x float> @{name}(<16 x float> <{numbers}>, <16 x i32> {t.lanes_of(bits, 'i32', first, 16)})")
        for first in range(0, t.lanes, 16)
    ]
    return t.joined(parts, "float")


def by_pairs(t: Text, x: str, square: str, coefficients: Sequence[float], element: str) -> str:
    """A polynomial, the lowest power first: pairs of terms do not wait for each other as in Horner's scheme."""
    terms = [t.number(coefficient, element) for coefficient in coefficients]
    pairs = [
        t.fma(x, terms[place + 1], term, element) if place + 1 < len(terms) else term
        for place, term in enumerate(terms)
        if place % 2 == 0
    ]
    result = pairs.pop()
    while pairs:
        result = t.fma(square, result, pairs.pop(), element)
    return result


def _nearest(t: Text, x: str, factor: float, element: str, parts: int = 1) -> tuple[str, str]:
    """A product to the nearest whole number, or part of one: in the lowest bits of a float, and as it is."""
    rounder = t.number(ROUNDER[element] / parts, element)
    shifted = t.fma(x, t.number(factor, element), rounder, element)
    return shifted, t.two("fsub", shifted, rounder, element)


def _reduced(t: Text, x: str, n: str, element: str, factor: float = 1.0) -> str:
    """x - n ln(2) factor."""
    for part in LN2_PARTS[element]:
        x = t.fma(n, t.number(-part * factor, element), x, element)
    return x


def _scaled(t: Text, p: str, n: str, shifted: str, element: str) -> str:
    """p times 2**n, rounded once; `shifted` has n in its lowest bits."""
    if t.has_avx512:
        return _by_registers(t, "scalef", element, p, n)
    integer = f"i{BITS[element][0]}"
    start = t.convert("bitcast", t.number(ROUNDER[element], element), element, integer)
    whole = t.two("sub", t.convert("bitcast", shifted, element, integer), start, integer)
    half = t.two("ashr", whole, t.number(1, integer), integer)
    p = t.two("fmul", p, _power_of_two(t, half, element), element)
    return t.two("fmul", p, _power_of_two(t, t.two("sub", whole, half, integer), element), element)


def _power_of_two(t: Text, exponent: str, element: str) -> str:
    """2**exponent, which is no denormal; higher bits than the exponent's do not count."""
    width, mantissa, bias = BITS[element]
    integer = f"i{width}"
    moved = t.two("shl", exponent, t.number(mantissa, integer), integer)
    return t.convert("bitcast", t.two("add", moved, t.number(bias << mantissa, integer), integer), integer, element)


INSTRUCTIONS = {
    "range": ("mask.range", ", i32 2", ", i32 4"),
    "rcp14": ("rcp14", "", ""),
    "scalef": ("mask.scalef", "", ", i32 4"),
}
"""LLVM's names of instructions, and numbers that say how they work: of two sizes the smaller, and the rounding."""


def _by_registers(t: Text, instruction: str, element: str, *values: str) -> str:
    """An instruction of AVX-512, of which LLVM's names know single registers only."""
    size = REGISTER[element]
    mask, part = f"i{size}", f"<{size} x {element}>"
    stem, way, rounding = INSTRUCTIONS[instruction]
    name = f"llvm.x86.avx512.{stem}.{'ps' if element == 'float' else 'pd'}.512"
    types = [part] * len(values) + ["i32 immarg"] * bool(way) + [part, mask] + ["i32 immarg"] * bool(rounding)
    t.functions[name] = f"declare {part} @{name}({', '.join(types)})"
    parts = []
    for first in range(0, t.lanes, size):
        given = ", ".join(f"{part} {t.lanes_of(value, element, first, size)}" for value in values)
        parts.append(t.put(f"call {part} @{name}({given}{way}, {part} zeroinitializer, {mask} -1{rounding})"))
    return t.joined(parts, element)


def _quotient(t: Text, a: str, divisor: str, left: Callable[[str], str], element: str) -> str:
    """A rough quotient, and what is left of the dividend after it divided once more.

    Args:
      t: what is written to.
      a: the dividend.
      divisor: the divisor, rounded.
      left: given a quotient of 13 bits or more, what is left of the dividend.
      element: the type.
    """
    if t.has_avx512:
        inverse = _by_registers(t, "rcp14", element, divisor)
    else:
        inverse = t.two("fdiv", t.number(1.0, element), divisor, element)
    quotient = t.two("fmul", a, inverse, element)
    return t.fma(left(quotient), inverse, quotient, element)


def sigmoid(t: Text, x: str, element: str) -> str:
    """exp is taken of -|x| only, so nothing overflows: 1 / (1 + e) where x > 0, e / (1 + e) elsewhere."""
    a, divisor, _ = _sigmoid_parts(t, x, element)
    return t.two("fdiv", a, divisor, element)


def sigmoid_of_single(t: Text, x: str, element: str) -> str:
    """The quotient q of `sigmoid`, a / (1 + e), of which a - q - q e is left: a - q is exact, q being a / 2 or more.

    1.5 ulp.
    """
    a, divisor, decay = _sigmoid_parts(t, x, element, closer=True)

    def left(q: str) -> str:
        return t.fma(t.put(f"fneg {t.type(element)} {q}"), decay, t.two("fsub", a, q, element), element)

    return _quotient(t, a, divisor, left, element)


def _sigmoid_parts(t: Text, x: str, element: str, *, closer: bool = False) -> tuple[str, str, str]:
    """Dividend and divisor of `sigmoid`, and e = exp(-|x|); NaN keeps its sign, which |x| would take from it."""
    above = t.put(f"fcmp ogt {t.type(element)} {x}, {t.number(0.0, element)}")
    exponent = t.select(above, t.put(f"fneg {t.type(element)} {x}"), x, element)
    decay = exp(t, exponent, element, closer=closer)
    a = t.select(above, t.number(1.0, element), decay, element)
    return a, t.two("fadd", decay, t.number(1.0, element), element), decay


def tanh_of_single(t: Text, x: str, element: str) -> str:
    """tanh(|x|) = a / (2 - a) for a = 1 - exp(-2 |x|), with the sign of x.

    Of a quotient q a - 2 q + q a is left, of which a - 2 q is exact, since q is between a / 2 and a. 1.9 ulp.
    """
    a = _lost(t, t.call("fabs", element, x), element)

    def left(q: str) -> str:
        return t.fma(q, a, t.fma(q, t.number(-2.0, element), a, element), element)

    divisor = t.two("fsub", t.number(2.0, element), a, element)
    return t.call("copysign", element, _quotient(t, a, divisor, left, element), x)


def _lost(t: Text, size: str, element: str) -> str:
    """1 - exp(-2 x) of x >= 0.

    With exp(-2 x) = 2**n exp(-2 r) it is (1 - 2**n) + 2**n (1 - exp(-2 r)), so that small x lose no digits.
    """
    size = clamped(t, size, element, high=10.0)
    shifted, n = _nearest(t, size, -2 * LOG2E, element)
    r = _reduced(t, size, n, element, -0.5)
    square = t.two("fmul", r, r, element)
    tail = [-((-2.0) ** k) * coefficient for k, coefficient in enumerate(EXPM1_TAIL, 2)]
    small = t.fma(square, by_pairs(t, r, square, tail, element), t.two("fadd", r, r, element), element)
    power = _power_of_two(t, t.convert("bitcast", shifted, element, "i32"), element)
    return t.fma(power, small, t.two("fsub", t.number(1.0, element), power, element), element)
