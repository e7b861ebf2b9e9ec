"""Vector math of our own: elementary functions as LLVM instructions, at most 2 ulp off in float32.

Each function reduces its argument to a small interval and sums a series there. Coefficients are those of the Taylor
series, as exact fractions rounded once, with as many terms as the interval asks for; where that is no useful one, they
are interpolated (`tools/derive_series.py`). Where float32 would lose digits to cancellation, it is computed
in float64. Special values follow from the arithmetic wherever possible: NaN stays NaN, nothing is flushed to zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from headrace_cpu.llvm.text import Text, float_literal
from headrace_cpu.loops.exponentials import (
    BITS,
    LN2_PARTS,
    ROUNDER,
    by_pairs,
    clamped,
    exp,
    sigmoid,
    sigmoid_of_single,
    tanh_of_single,
)
from headrace_cpu.loops.series_table import ERF_NEAR, LOG_ERFC

__all__ = ["FUNCTIONS", "log", "looked_up", "write_function"]


def log(t: Text, x: str, element: str, terms: int | None = None) -> str:
    """Add k ln 2 to the logarithm of 1 + f in [sqrt(1/2), sqrt(2)), the series of the area tangent of f / (2 + f)."""
    width, mantissa, _ = BITS[element]
    integer, whole = f"i{width}", t.type(element)
    smallest = 2.0**-126 if element == "float" else 2.0**-1022
    tiny = t.put(f"fcmp olt {whole} {x}, {t.number(smallest, element)}")
    scaled = t.select(tiny, t.two("fmul", x, t.number(2.0**mantissa, element), element), x, element)
    bits = t.convert("bitcast", scaled, element, integer)
    root = 0x3F3504F3 if element == "float" else 0x3FE6A09E667F3BCD
    k = t.two("ashr", t.two("sub", bits, t.number(root, integer), integer), t.number(mantissa, integer), integer)
    shifted = t.two("shl", k, t.number(mantissa, integer), integer)
    m = t.convert("bitcast", t.two("sub", bits, shifted, integer), integer, element)
    k = t.two("sub", k, t.select(tiny, t.number(mantissa, integer), t.number(0, integer), integer), integer)
    f = t.two("fsub", m, t.number(1.0, element), element)
    s = t.two("fdiv", f, t.two("fadd", f, t.number(2.0, element), element), element)
    z = t.two("fmul", s, s, element)
    count = terms or (5 if element == "float" else 11)
    series = [float(Fraction(2, 2 * i + 3)) for i in range(count)]
    tail = t.two("fmul", z, t.polynomial(z, series, element), element)
    half = t.two("fmul", t.number(0.5, element), t.two("fmul", f, f, element), element)
    exponent = t.convert("sitofp", k, integer, element)
    high, low = LN2_PARTS[element]
    inner = t.two("fmul", s, t.two("fadd", half, tail, element), element)
    inner = t.fma(exponent, t.number(low, element), inner, element)
    inner = t.two("fsub", t.two("fsub", half, inner, element), f, element)
    result = t.two("fsub", t.two("fmul", exponent, t.number(high, element), element), inner, element)
    usual = t.put(f"fcmp ugt {whole} {x}, {t.number(0.0, element)}")
    stays = t.put(f"fcmp ueq {whole} {x}, {t.number(math.inf, element)}")  # NaN does, too
    zero = t.put(f"fcmp oeq {whole} {x}, {t.number(0.0, element)}")
    result = t.select(stays, x, result, element)
    other = t.select(zero, t.number(-math.inf, element), t.number(math.nan, element), element)
    return t.select(usual, result, other, element)


def log1p(t: Text, x: str, element: str) -> str:
    """log(u) with u = 1 + x, and the rounding error of that sum added again."""
    whole = t.type(element)
    u = t.two("fadd", x, t.number(1.0, element), element)
    lost = t.two("fsub", x, t.two("fsub", u, t.number(1.0, element), element), element)
    result = t.two("fadd", log(t, u, element), t.two("fdiv", lost, u, element), element)
    plain = t.put(f"fcmp olt {whole} {t.call('fabs', element, x)}, {t.number(math.inf, element)}")
    pole = t.put(f"fcmp oeq {whole} {u}, {t.number(0.0, element)}")
    result = t.select(plain, result, log(t, u, element), element)
    result = t.select(pole, t.number(-math.inf, element), result, element)
    small = t.put(f"fcmp olt {whole} {t.call('fabs', element, x)}, {t.number(1e-20, element)}")
    return t.select(small, x, result, element)  # keeps the sign of zero


def expm1(t: Text, x: str, element: str) -> str:
    """(u - 1) x / log(u) with u = exp(x): the errors of u cancel (W. Kahan)."""
    whole = t.type(element)
    u = exp(t, x, element)
    less = t.two("fsub", u, t.number(1.0, element), element)
    quotient = t.two("fdiv", t.two("fmul", less, x, element), log(t, u, element), element)
    near = t.put(f"fcmp olt {whole} {t.call('fabs', element, x)}, {t.number(1.0, element)}")
    result = t.select(near, quotient, less, element)
    unit = t.put(f"fcmp oeq {whole} {u}, {t.number(1.0, element)}")
    return t.select(unit, x, result, element)


def tanh(t: Text, x: str, element: str) -> str:
    """t / (t + 2) with t = exp(2 |x|) - 1, and the sign of x."""
    size = clamped(t, t.call("fabs", element, x), element, high=22.0)
    grown = expm1(t, t.two("fadd", size, size, element), element)
    result = t.two("fdiv", grown, t.two("fadd", grown, t.number(2.0, element), element), element)
    return t.call("copysign", element, result, x)


def rsqrt(t: Text, x: str, element: str) -> str:
    """One over the root, both rounded."""
    return t.two("fdiv", t.number(1.0, element), t.call("sqrt", element, x), element)


def _erf_of_single(t: Text, x: str, element: str) -> str:
    """A polynomial up to 1; beyond, 1 - exp of one, whose errors count less the smaller that is. 1.5 ulp."""
    whole = t.type(element)
    size = clamped(t, t.call("fabs", element, x), element, high=4.0)
    square = t.two("fmul", size, size, element)
    inner = t.fma(size, by_pairs(t, square, t.two("fmul", square, square, element), ERF_NEAR, element), size, element)
    beside = t.two("fsub", size, t.number(2.5, element), element)
    exponent = by_pairs(t, beside, t.two("fmul", beside, beside, element), LOG_ERFC, element)
    beyond = exp(t, t.put(f"fneg {whole} {exponent}"), element)
    beyond = t.two("fsub", t.number(1.0, element), beyond, element)
    near = t.put(f"fcmp ole {whole} {size}, {t.number(1.0, element)}")
    return t.call("copysign", element, t.select(near, inner, beyond, element), x)


def _expm1_of_single(t: Text, x: str, element: str) -> str:
    """In float64; below 1e-3 by three terms of the series."""
    whole = t.type(element)
    one = t.number(1.0, element)
    large = t.two("fsub", exp(t, x, element, terms=10), one, element)
    series = t.polynomial(x, [1.0, 0.5, 1 / 6], element)
    near = t.put(f"fcmp olt {whole} {t.call('fabs', element, x)}, {t.number(1e-3, element)}")
    return t.select(near, t.two("fmul", x, series, element), large, element)


# pi / 2 in two parts: the first one is exact in what is subtracted from a float32 below LARGE.
HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
LARGE = 2.0**30
"""Arguments from here on are reduced by the bits of 2 / pi that matter for their exponent."""
SHIFTS = 105
"""A large float32 is a whole number of 24 bits times 2 to the power of 0 to 104."""
TURNS = "hr.turns"


def _turns() -> str:
    """For each shift s the quarter turns of an angle of 2**s, without whole turns, in parts of 26, 26 and 53 bits."""
    parts: list[list[float]] = [[], [], []]
    for shift in range(SHIFTS):
        rest = TWO_BY_PI * 2**shift % 4
        for part, bits in zip(parts, (24, 50, 110), strict=True):
            whole = Fraction(math.floor(rest * 2**bits), 2**bits)
            part.append(float(whole))
            rest -= whole
    numbers = ", ".join(f"double {float_literal(number, 'double')}" for part in parts for number in part)
    return f"@{TURNS} = private unnamed_addr constant [{3 * SHIFTS} x double] [{numbers}], align 64"


def _two_by_pi() -> Fraction:
    """2 / pi to 300 bits, more than 2**104 times a float32 asks for, by J. Machin's formula for pi."""
    one = 1 << 340

    def inverse_tangent(n: int) -> int:
        term, total, k = one // n, 0, 0
        while term:
            total += (-1) ** k * (term // (2 * k + 1))
            term //= n * n
            k += 1
        return total

    return Fraction(2 * one, 4 * (4 * inverse_tangent(5) - inverse_tangent(239)))


TWO_BY_PI = _two_by_pi()


def _turned(t: Text, x: str) -> tuple[str, str]:
    """The nearest number of quarter turns, of which only the lowest two bits count, and the angle that is left."""
    whole, integers = t.type("double"), t.type("i64")
    rounder = t.number(ROUNDER["double"], "double")
    shifted = t.fma(x, t.number(1 / HALF_PI[0], "double"), rounder, "double")
    quarters = t.two("fsub", shifted, rounder, "double")
    count = t.convert("bitcast", shifted, "double", "i64")
    left = t.fma(quarters, t.number(-HALF_PI[0], "double"), x, "double")
    left = t.fma(quarters, t.number(-HALF_PI[1], "double"), left, "double")
    size = t.call("fabs", "double", x)
    far = t.put(f"fcmp oge {whole} {size}, {t.number(LARGE, 'double')}")
    finite = t.put(f"fcmp olt {whole} {size}, {t.number(math.inf, 'double')}")
    far = t.two("and", far, finite, "i1")
    before, reduced, after = t.label("near"), t.label("far"), t.label("turned")
    t.line(f"br label %{before}")
    t.start(before)
    t.line(f"br i1 {_any(t, far)}, label %{reduced}, label %{after}")
    t.start(reduced)
    far_count, far_left = _turned_far(t, x)
    far_count = t.select(far, far_count, count, "i64")
    far_left = t.select(far, far_left, left, "double")
    t.line(f"br label %{after}")
    t.start(after)
    count = t.put(f"phi {integers} [ {count}, %{before} ], [ {far_count}, %{reduced} ]")
    left = t.put(f"phi {whole} [ {left}, %{before} ], [ {far_left}, %{reduced} ]")
    return count, left


def _any(t: Text, lanes: str) -> str:
    if t.lanes == 1:
        return lanes
    name = f"llvm.vector.reduce.or.v{t.lanes}i1"
    t.functions[name] = f"declare i1 @{name}({t.type('i1')})"
    return t.put(f"call i1 @{name}({t.type('i1')} {lanes})")


def _turned_far(t: Text, x: str) -> tuple[str, str]:
    """The same for a whole number m times 2**s: m times the quarter turns of 2**s, of which no bit is lost.

    Source: M. Payne and R. Hanek, Radian reduction for trigonometric functions, SIGNUM Newsletter 18 (1983).
    """
    bits = t.convert("bitcast", x, "double", "i64")
    exponent = t.two("and", t.two("lshr", bits, t.number(52, "i64"), "i64"), t.number(0x7FF, "i64"), "i64")
    shift = t.two("sub", exponent, t.number(1023 + 23, "i64"), "i64")
    shift = t.call("smax", "i64", t.call("smin", "i64", shift, t.number(SHIFTS - 1, "i64")), t.number(0, "i64"))
    rest = t.two("and", bits, t.number(~(0x7FF << 52) & (2**64 - 1), "i64"), "i64")
    m = t.two("or", rest, t.number((1023 + 23) << 52, "i64"), "i64")
    m = t.convert("bitcast", m, "i64", "double")
    t.functions[TURNS] = _turns()
    high, middle, low = (looked_up(t, f"@{TURNS}", shift, SHIFTS * part) for part in range(3))
    high = t.two("fmul", m, high, "double")
    turns = t.call("rint", "double", t.two("fmul", high, t.number(0.25, "double"), "double"))
    high = t.fma(turns, t.number(-4.0, "double"), high, "double")
    both = t.two("fadd", high, t.two("fmul", m, middle, "double"), "double")
    quarters = t.call("rint", "double", both)
    left = t.fma(m, low, t.two("fsub", both, quarters, "double"), "double")
    left = t.two("fmul", left, t.number(HALF_PI[0], "double"), "double")
    return t.convert("fptosi", quarters, "double", "i64"), left


def looked_up(t: Text, table: str, row: str, first: int) -> str:
    """A number of a table of float64 for each lane: the one at `first` plus the lane's row."""
    place = t.two("add", row, t.number(first, "i64"), "i64")
    pointer = t.put(f"getelementptr double, ptr {table}, {t.type('i64')} {place}")
    if t.lanes == 1:
        return t.put(f"load double, ptr {pointer}")
    whole, pointers, mask = t.type("double"), t.type("ptr"), t.type("i1")
    name = f"llvm.masked.gather.v{t.lanes}f64.v{t.lanes}p0"
    t.functions[name] = f"declare {whole} @{name}({pointers}, i32, {mask}, {whole})"
    every = t.number(1, "i1")
    return t.put(f"call {whole} @{name}({pointers} {pointer}, i32 8, {mask} {every}, {whole} zeroinitializer)")


def _wave(t: Text, x: str, ahead: int) -> str:
    """The sine of x and so many quarter turns: by the series of one or the other, with one sign or the other."""
    count, left = _turned(t, x)
    count = t.two("add", count, t.number(ahead, "i64"), "i64")
    square = t.two("fmul", left, left, "double")
    odd = [(-1) ** k / math.factorial(2 * k + 1) for k in range(6)]
    even = [(-1) ** k / math.factorial(2 * k) for k in range(7)]
    sine = t.two("fmul", left, t.polynomial(square, odd, "double"), "double")  # keeps the sign of zero
    cosine = t.polynomial(square, even, "double")
    turned = t.two("shl", count, t.number(63, "i64"), "i64")
    is_odd = t.put(f"icmp slt {t.type('i64')} {turned}, {t.number(0, 'i64')}")
    result = t.convert("bitcast", t.select(is_odd, cosine, sine, "double"), "double", "i64")
    second = t.two("and", t.two("shl", count, t.number(62, "i64"), "i64"), t.number(-(2**63), "i64"), "i64")
    return t.convert("bitcast", t.two("xor", result, second, "i64"), "i64", "double")


def _sin_of_single(t: Text, x: str, element: str) -> str:
    """In float64, so that an angle near a multiple of pi keeps its digits."""
    return _wave(t, x, 0)


def _cos_of_single(t: Text, x: str, element: str) -> str:
    """The sine a quarter turn further."""
    return _wave(t, x, 1)


Writer = Callable[[Text, str, str], str]
FUNCTIONS: dict[tuple[str, str], tuple[Writer, bool]] = {
    ("exp", "float"): (exp, False), ("exp", "double"): (exp, False),
    ("log", "float"): (log, False), ("log", "double"): (log, False),
    ("log1p", "float"): (log1p, True), ("log1p", "double"): (log1p, False),
    ("expm1", "float"): (_expm1_of_single, True), ("expm1", "double"): (expm1, False),
    ("tanh", "float"): (tanh_of_single, False), ("tanh", "double"): (tanh, False),
    ("sigmoid", "float"): (sigmoid_of_single, False), ("sigmoid", "double"): (sigmoid, False),
    ("rsqrt", "float"): (rsqrt, False), ("rsqrt", "double"): (rsqrt, False),
    ("erf", "float"): (_erf_of_single, False),
    ("sin", "float"): (_sin_of_single, True),
    ("cos", "float"): (_cos_of_single, True),
}  # fmt: skip
"""The writer of each function and type, and whether a float32 is computed in float64."""


def write_function(name: str, element: str, lanes: int, width: int) -> tuple[str, str, dict[str, str]]:
    """The text of one function over vectors.

    Args:
      name: a key of FUNCTIONS.
      element: float or double.
      lanes: elements of a vector.
      width: how many float32 a register holds.
    Returns:
      Its symbol, its definition, and declarations that it needs.
    """
    writer, wide = FUNCTIONS[name, element]
    text = Text(lanes=lanes, width=width)
    whole = text.type(element)
    symbol = f"hr.{name}.{text.suffix(element)}"
    if wide:
        result = writer(text, text.convert("fpext", "%x", "float", "double"), "double")
        result = text.convert("fptrunc", result, "double", "float")
    else:
        result = writer(text, "%x", element)
    body = "\n".join(
        [f"define internal {whole} @{symbol}({whole} %x) alwaysinline {{", *text.lines, f"  ret {whole} {result}", "}"]
    )
    return symbol, body, text.functions
