"""Powers in loops: |x|**y = exp(y log |x|), with the signs and special values of IEEE 754.

A float32 is computed in float64, whose plain logarithm leaves digits to spare. Of a float64 the logarithm is needed to
68 bits, since what is lost of it grows with its product with y: it is found as a sum of two numbers, from a table of
logarithms of numbers c near the mantissa m, of which 1 / c has so few bits that m / c - 1 is exact.
"""

from __future__ import annotations

import functools
import math
from decimal import Context, Decimal
from fractions import Fraction

from headrace_cpu.llvm.text import Text, float_literal
from headrace_cpu.loops.exponentials import exp
from headrace_cpu.loops.vector_math import log, looked_up

__all__ = ["write_power"]

INDEX_BITS = 7
"""Bits of the mantissa that choose the row of the table."""
FIRST = 0x3FE6A000_00000000
"""The bits of the lowest mantissa, just below the root of 1/2; rows are as wide as the last of the index bits."""
FEW_BITS = 42
"""Bits after the point of what is added up exactly: with the 11 before it in a product with an exponent they are 53."""
TABLE = "hr.logarithms"
ROWS = 2**INDEX_BITS


@functools.cache
def _rows() -> tuple[list[float], list[float], list[float]]:
    """For each row 1 / c and the logarithm of c in two parts; c is 1 on both sides of 1, so that log 1 is exactly 0."""
    inverses, high, low = [], [], []
    for row in range(ROWS):
        bits = FIRST + (row << 52 - INDEX_BITS)
        lowest = Fraction(1 << 52 | bits & (1 << 52) - 1, 2**53 if bits < 0x3FF0 << 48 else 2**52)
        middle = lowest + Fraction(1, 2 ** (INDEX_BITS + (2 if lowest < 1 else 1)))
        parts = 2**INDEX_BITS if lowest < 1 else 2 ** (INDEX_BITS + 1)
        inverse = Fraction(round(parts / middle), parts) if lowest != 1 else Fraction(1)
        whole, rest = _two_parts(-_logarithm(inverse))
        inverses.append(float(inverse))
        high.append(whole)
        low.append(rest)
    return inverses, high, low


def _logarithm(number: Fraction) -> Fraction:
    context = Context(prec=50)
    return Fraction(context.ln(Decimal(number.numerator))) - Fraction(context.ln(Decimal(number.denominator)))


def _two_parts(exact: Fraction) -> tuple[float, float]:
    whole = Fraction(round(exact * 2**FEW_BITS), 2**FEW_BITS)
    return float(whole), float(exact - whole)


def _long_log(t: Text, x: str) -> tuple[str, str]:
    """The logarithm of what is not below 0 as a sum of two float64, the second below an ulp of the first."""
    whole = t.type("double")
    tiny = t.put(f"fcmp olt {whole} {x}, {t.number(2.0**-1022, 'double')}")
    scaled = t.select(tiny, t.two("fmul", x, t.number(2.0**52, "double"), "double"), x, "double")
    bits = t.convert("bitcast", scaled, "double", "i64")
    above = t.two("sub", bits, t.number(FIRST, "i64"), "i64")
    k = t.two("ashr", above, t.number(52, "i64"), "i64")
    row = t.two("lshr", above, t.number(52 - INDEX_BITS, "i64"), "i64")
    row = t.two("and", row, t.number(ROWS - 1, "i64"), "i64")
    m = t.two("sub", bits, t.two("shl", k, t.number(52, "i64"), "i64"), "i64")
    m = t.convert("bitcast", m, "i64", "double")
    k = t.two("sub", k, t.select(tiny, t.number(52, "i64"), t.number(0, "i64"), "i64"), "i64")
    exponent = t.convert("sitofp", k, "i64", "double")
    t.functions[TABLE] = _table()
    inverse, log_high, log_low = (looked_up(t, f"@{TABLE}", row, ROWS * part) for part in range(3))
    r = t.fma(m, inverse, t.number(-1.0, "double"), "double")
    ln2_high, ln2_low = _two_parts(_logarithm(Fraction(2)))
    base = t.fma(exponent, t.number(ln2_high, "double"), log_high, "double")
    first, lost = _sum(t, base, r)
    halved = t.two("fmul", r, t.number(-0.5, "double"), "double")
    square = t.two("fmul", r, halved, "double")
    high, lost_again = _sum(t, first, square)
    low = t.fma(exponent, t.number(ln2_low, "double"), log_low, "double")
    for part in (
        lost,
        t.fma(halved, r, t.two("fsub", t.number(-0.0, "double"), square, "double"), "double"),
        lost_again,
    ):
        low = t.two("fadd", low, part, "double")
    series = t.polynomial(r, [(-1) ** k / (k + 3) for k in range(8)], "double")
    cube = t.two("fmul", t.two("fmul", r, r, "double"), r, "double")
    high, low = _sum(t, high, t.fma(cube, series, low, "double"))
    finite = t.put(f"fcmp olt {whole} {x}, {t.number(math.inf, 'double')}")
    zero = t.put(f"fcmp oeq {whole} {x}, {t.number(0.0, 'double')}")
    high = t.select(finite, high, x, "double")
    high = t.select(zero, t.number(-math.inf, "double"), high, "double")
    return high, low


def _sum(t: Text, a: str, b: str) -> tuple[str, str]:
    """a + b, and what rounding took of it, whichever is larger (D. Knuth)."""
    total = t.two("fadd", a, b, "double")
    own = t.two("fsub", total, b, "double")
    other = t.two("fsub", total, own, "double")
    return total, t.two("fadd", t.two("fsub", a, own, "double"), t.two("fsub", b, other, "double"), "double")


def _table() -> str:
    numbers = ", ".join(f"double {float_literal(number, 'double')}" for column in _rows() for number in column)
    return f"@{TABLE} = private unnamed_addr constant [{3 * ROWS} x double] [{numbers}], align 64"


def _size(t: Text, x: str, y: str, *, single: bool) -> str:
    """x**y for x of 0 and above."""
    if single:
        return exp(t, t.two("fmul", y, log(t, x, "double", terms=7), "double"), "double", terms=10)
    high, low = _long_log(t, x)
    product = t.two("fmul", y, high, "double")
    rest = t.fma(y, high, t.put(f"fneg {t.type('double')} {product}"), "double")
    rest = t.fma(y, low, rest, "double")
    bounded = t.put(f"fcmp olt {t.type('double')} {t.call('fabs', 'double', product)}, {t.number(1000.0, 'double')}")
    return exp(t, product, "double", low=t.select(bounded, rest, t.number(0.0, "double"), "double"))


def _power(t: Text, x: str, y: str, *, single: bool) -> str:
    """The size by exp and log; the sign of x for odd whole y; NaN for x below 0 and other y; and what is 1 always."""
    whole = t.type("double")

    def compare(relation: str, a: str, b: float | str) -> str:
        return t.put(f"fcmp {relation} {whole} {a}, {b if isinstance(b, str) else t.number(b, 'double')}")

    size = t.call("fabs", "double", x)
    result = _size(t, size, y, single=single)
    is_whole = compare("oeq", t.call("rint", "double", y), y)
    half = t.two("fmul", y, t.number(0.5, "double"), "double")
    is_odd = t.two("and", is_whole, compare("one", t.call("rint", "double", half), half), "i1")
    result = t.select(is_odd, t.call("copysign", "double", result, x), result, "double")
    below = t.two("and", compare("olt", x, 0.0), compare("one", size, math.inf), "i1")
    undefined = t.two("and", below, t.two("xor", is_whole, t.number(1, "i1"), "i1"), "i1")
    result = t.select(undefined, t.number(math.nan, "double"), result, "double")
    unbounded = compare("oeq", t.call("fabs", "double", y), math.inf)
    is_one = t.two("and", unbounded, compare("oeq", size, 1.0), "i1")
    for always in (compare("oeq", x, 1.0), compare("oeq", y, 0.0)):
        is_one = t.two("or", is_one, always, "i1")
    return t.select(is_one, t.number(1.0, "double"), result, "double")


def write_power(element: str, lanes: int, width: int) -> tuple[str, str, dict[str, str]]:
    """The text of a function that raises a vector to the powers of another.

    Args:
      element: float or double.
      lanes: elements of a vector.
      width: how many float32 a register holds.
    Returns:
      Its symbol, its definition, and declarations that it needs.
    """
    t = Text(lanes=lanes, width=width)
    whole, single = t.type(element), element == "float"
    symbol = f"hr.pow.{t.suffix(element)}"
    x, y = (t.convert("fpext", name, "float", "double") if single else name for name in ("%x", "%y"))
    result = _power(t, x, y, single=single)
    if single:
        result = t.convert("fptrunc", result, "double", "float")
    head = f"define internal {whole} @{symbol}({whole} %x, {whole} %y) alwaysinline {{"
    return symbol, "\n".join([head, *t.lines, f"  ret {whole} {result}", "}"]), t.functions
