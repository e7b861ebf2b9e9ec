"""Derive the polynomials of exp and erf that need fewer terms than a Taylor series, and write `series_table.py`.

Chebyshev interpolation in 40 digits, turned into powers and rounded to float64; the largest errors are printed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import mpmath

TABLE = Path(__file__).parent.parent / "src" / "headrace_cpu" / "loops" / "series_table.py"
Function = Callable[[mpmath.mpf], mpmath.mpf]


def exp_tail(r: mpmath.mpf) -> mpmath.mpf:
    """(exp(r) - 1 - r) / r**2, by its series."""
    return mpmath.fsum(r**k / mpmath.factorial(k + 2) for k in range(30))


def erf_near(z: mpmath.mpf) -> mpmath.mpf:
    """erf(x) / x - 1 for z = x**2."""
    x = mpmath.sqrt(z)
    return mpmath.erf(x) / x - 1


def log_erfc(u: mpmath.mpf) -> mpmath.mpf:
    """The negative logarithm of erfc(u + 2.5)."""
    return -mpmath.log(mpmath.erfc(u + mpmath.mpf(5) / 2))


SERIES: dict[str, tuple[Function, str, str, int, str]] = {
    "EXP_TAIL": (exp_tail, "-0.3467", "0.3467", 5, "(exp(r) - 1 - r) / r**2 by powers of r, up to half of ln 2."),
    "EXP_TAIL_OF_ROW": (exp_tail, "-0.0217", "0.0217", 2, "The same up to a 32nd of ln 2."),
    "EXPM1_TAIL": (exp_tail, "-0.3467", "0.3467", 6, "The same where exp(r) - 1 is to be right to its own digits."),
    "ERF_NEAR": (erf_near, "0", "1", 7, "erf(x) / x - 1 by powers of x**2, for x up to 1."),
    "LOG_ERFC": (log_erfc, "-1.5", "1.5", 10, "-log(erfc(x)) by powers of x - 2.5, for x from 1 to 4."),
}
"""For each table the function, the ends of its interval, the number of coefficients, and what it is."""


def interpolated(function: Function, low: mpmath.mpf, high: mpmath.mpf, count: int) -> list[float]:
    """The coefficients, the lowest power first."""
    middle, half = (low + high) / 2, (high - low) / 2
    nodes = [middle + half * mpmath.cos(mpmath.pi * (2 * k + 1) / (2 * count)) for k in range(count)]
    powers = mpmath.matrix([[node**column for column in range(count)] for node in nodes])
    return [float(item) for item in mpmath.lu_solve(powers, mpmath.matrix([function(node) for node in nodes]))]


def powers() -> tuple[list[float], list[float]]:
    """2**(k/16) as a float32 has it, and what that lost, as a part of it."""
    exact = [mpmath.mpf(2) ** (mpmath.mpf(k) / 16) for k in range(16)]
    rounded: list[float] = [struct.unpack("<f", struct.pack("<f", float(item)))[0] for item in exact]
    return rounded, [float((item - near) / item) for item, near in zip(exact, rounded, strict=True)]


def table(name: str, numbers: Sequence[float], doc: str) -> str:
    """A tuple of numbers as it is written."""
    rows = "\n".join(f"    {item!r}," for item in numbers)
    return f'{name} = (\n{rows}\n)\n"""{doc}"""'


def main() -> None:
    """Interpolate, check on a fine grid, write."""
    mpmath.mp.dps = 40
    parts = ['"""Coefficients derived by `tools/derive_series.py`."""', "from __future__ import annotations"]
    parts.append(
        f"__all__ = [{', '.join(repr(name) for name in sorted([*SERIES, 'POWERS', 'POWERS_LOST']))}]".replace("'", '"')
    )
    for name, (function, first, last, count, doc) in SERIES.items():
        low, high = mpmath.mpf(first), mpmath.mpf(last)
        coefficients = interpolated(function, low, high, count)
        grid = [low + (high - low) * (k + mpmath.mpf("0.5")) / 1000 for k in range(1000)]
        worst = max(abs(mpmath.polyval(coefficients[::-1], x) - function(x)) for x in grid)
        print(f"{name}: largest error {float(worst):.1e}")
        parts.append(table(name, coefficients, doc))
    rounded, lost = powers()
    parts.append(table("POWERS", rounded, "2**(k / 16) as float32."))
    parts.append(table("POWERS_LOST", lost, "What rounding took of them, as a part of each."))
    TABLE.write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
