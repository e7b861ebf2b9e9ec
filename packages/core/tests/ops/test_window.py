"""Sliding windows: the sizes and slices agree with walking over every output and tap."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InvalidArgumentError
from headrace.ops.window import Window, WindowAxis, given_sizes

_SMALL = st.integers(1, 5)


def _axis(size: int, taps: int, stride: int, dilation: int, padding: str, pads: tuple[int, int]) -> WindowAxis:
    window = Window((stride, 1), (dilation, 1), padding, (pads if padding == "EXPLICIT" else (0, 0), (0, 0)), False)
    return window.plane(size, 1, (taps, 1))[0]


def _meetings(axis: WindowAxis) -> set[tuple[int, int, int]]:
    """Every (tap, output, input) that meet, by the definition."""
    return {
        (tap, output, place)
        for tap in range(axis.taps)
        for output in range(axis.outputs)
        if 0 <= (place := output * axis.stride + tap * axis.dilation - axis.before) < axis.size
    }


@given(
    st.integers(0, 12), _SMALL, _SMALL, _SMALL, st.sampled_from(["SAME", "VALID", "EXPLICIT"]),
    st.tuples(st.integers(0, 6), st.integers(0, 6)),
)  # fmt: skip
def test_slices_are_what_meets_by_definition(size, taps, stride, dilation, padding, pads) -> None:
    try:
        axis = _axis(size, taps, stride, dilation, padding, pads)
    except InvalidArgumentError:
        return
    found = set()
    for tap, outputs, inputs in axis.slices():
        pairs = zip(range(axis.outputs)[outputs], range(axis.size)[inputs], strict=True)
        found |= {(tap, output, place) for output, place in pairs}
    assert found == _meetings(axis)
    assert {tap for tap, _, _ in found} <= set(axis.reach)


@given(
    st.integers(1, 12), _SMALL, _SMALL, _SMALL, st.sampled_from(["SAME", "VALID", "EXPLICIT"]),
    st.tuples(st.integers(0, 6), st.integers(0, 6)),
)  # fmt: skip
def test_span_holds_every_input_that_is_read(size, taps, stride, dilation, padding, pads) -> None:
    try:
        axis = _axis(size, taps, stride, dilation, padding, pads)
    except InvalidArgumentError:
        return
    if not axis.reach:
        return
    in_span, in_input = axis.inside
    places = dict(zip(range(axis.span)[in_span], range(axis.size)[in_input], strict=True))
    for tap, output, place in _meetings(axis):
        assert places[output * axis.stride + (tap - axis.reach.start) * axis.dilation] == place


def test_a_dilation_beyond_the_image_needs_no_memory() -> None:
    axis = _axis(4, 3, 1, 2**40, "SAME", (0, 0))
    assert axis.reach == range(1, 2)
    assert axis.span == 4


@pytest.mark.parametrize(("size", "outputs"), [(None, None), (7, 4), (0, 0)])
def test_same_padding_gives_a_window_per_stride(size, outputs) -> None:
    window = Window((2, 1), (1, 1), "SAME", ((0, 0), (0, 0)), False)
    assert window.outputs(size, 3, 0) == outputs


def test_negative_sizes_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="input_sizes has a negative size"):
        given_sizes([2, -1], "input_sizes")
