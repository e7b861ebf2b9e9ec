"""Numbers as text, and the marks of axes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace_viz.report.number_text import count, duration, labels, short, size, ticks


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.5"), (1234.5, "1234"), (-2e-9, "-2e-09"), (math.inf, "∞"), (-math.inf, "−∞"), (math.nan, "NaN")],
)
def test_short(value: float, text: str) -> None:
    assert short(value) == text


def test_units_follow_the_size() -> None:
    assert [count(value) for value in (12, 1_000_000, 2.5e12)] == ["12", "1M", "2.5T"]
    assert [size(value) for value in (0, 2_000)] == ["0 B", "2 kB"]
    assert [duration(value) for value in (0.0, 59, 3600)] == ["0 s", "59 s", "1 h"]


@settings(deadline=None)
@given(low=st.floats(-1e12, 1e12), width=st.floats(1e-3, 1e12), wanted=st.integers(1, 10))
def test_ticks_are_in_the_range_and_told_apart(low: float, width: float, wanted: int) -> None:
    high = low + width
    if not high - low > max(abs(low), abs(high)) * 1e-9:
        return
    found = ticks(low, high, wanted)
    assert len(found) <= 2 * wanted + 2
    assert all(low - width * 1e-6 <= value <= high + width * 1e-6 for value in found)
    assert len(set(labels(found))) == len(found) if found else True


def test_steps_have_no_fractions() -> None:
    assert ticks(6.0, 8.0, 5, least=1) == [6.0, 7.0, 8.0]
