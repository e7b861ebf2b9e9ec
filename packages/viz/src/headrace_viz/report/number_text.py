"""Numbers as people read them, and the marks of an axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def short(value: float, digits: int = 4) -> str:
    """Return a number with some significant digits.

    Example:
      >>> [short(value) for value in (0.0, 1.0, 0.000123456, 12345.678, 1e9, float("nan"))]
      ['0', '1', '1.235e-04', '12346', '1e+09', 'NaN']
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 999_999.5:
        return f"{value:.{max(digits, len(str(int(abs(value)))))}g}"
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{exponent}"


def count(value: float, digits: int = 4) -> str:
    """Return a number of steps or bytes with a prefix.

    Example:
      >>> [count(value) for value in (0, 950, 1000, 1500, 2_000_000)]
      ['0', '950', '1k', '1.5k', '2M']
    """
    for factor, prefix in _PREFIXES:
        if abs(value) >= factor:
            return f"{value / factor:.{digits}g}{prefix}"
    return f"{value:.{max(digits, 3)}g}"


def duration(seconds: float) -> str:
    """Return a time span in its two largest units.

    Example:
      >>> [duration(value) for value in (0.25, 42, 90, 3700, 200_000)]
      ['0.25 s', '42 s', '1 min 30 s', '1 h 1 min', '2 d 7 h']
    """
    if seconds < 60:
        if 0 < seconds < 0.01:
            return "< 0.01 s"
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    left = int(seconds)
    parts: list[str] = []
    for name, size in units:
        amount, left = divmod(left, size)
        if amount or parts:
            parts.append(f"{amount} {name}" if amount else "")
    return " ".join(part for part in parts[:2] if part)


def labels(values: Sequence[float], text: Callable[[float, int], str] = short) -> list[str]:
    """Return numbers with as few digits as tell them apart.

    Args:
      values: finite numbers, all different.
      text: gives a number with some significant digits.

    Example:
      >>> labels([0.9999, 1.0, 1.0001])
      ['0.9999', '1', '1.0001']
    """
    for digits in range(3, 17):
        found = [text(value, digits) for value in values]
        if len(set(found)) == len(found) and all(
            float(f"{value:.{digits}g}") == float(f"{value:.12g}") for value in values
        ):
            break
    return found


def size(amount: float) -> str:
    """Return a number of bytes with its unit.

    Example:
      >>> [size(value) for value in (12, 66_560, 2_500_000_000)]
      ['12 B', '66.6 kB', '2.5 GB']
    """
    for factor, prefix in _PREFIXES:
        if amount >= factor:
            return f"{amount / factor:.3g} {prefix}B"
    return f"{amount:.0f} B"


def ticks(low: float, high: float, wanted: int, least: float = 0.0) -> list[float]:
    """Return round numbers in a range, about as many as wanted.

    Args:
      low: begin of the range, finite.
      high: its end, larger.
      wanted: how many would be right.
      least: the smallest distance between two of them.

    Example:
      >>> ticks(0.0, 1.0, 5)
      [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
      >>> ticks(3.0, 17.0, 4)
      [5.0, 10.0, 15.0]
    """
    raw = max((high - low) / max(wanted, 1), least)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = max(0, -math.floor(math.log10(step)))
    return [round(number * step, digits) for number in range(first, last + 1)]
