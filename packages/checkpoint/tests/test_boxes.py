"""Boxes: parts of tensors, and how they lie in memory."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace_checkpoint.boxes import Box, covers


@st.composite
def parts(draw: st.DrawFn) -> tuple[tuple[int, ...], Box]:
    """A shape and a part of it with elements."""
    shape = tuple(draw(st.lists(st.integers(1, 5), max_size=4)))
    offset = tuple(draw(st.integers(0, size - 1)) for size in shape)
    return shape, Box(
        offset, tuple(draw(st.integers(1, size - begin)) for size, begin in zip(shape, offset, strict=True))
    )


def _places(box: Box, shape: tuple[int, ...]) -> list[int]:
    flat = np.arange(math.prod(shape)).reshape(shape)
    return flat[box.within(Box.whole(shape))].reshape(-1).tolist()  # type: ignore[no-any-return]


@given(parts(), st.integers(0, 30))
def test_runs_fill_the_box_without_larger_gaps(part: tuple[tuple[int, ...], Box], gap: int) -> None:
    shape, box = part
    runs = list(box.runs(shape, gap))
    places = [_places(run, shape) for run in runs]
    assert sorted(place for run in places for place in run) == _places(box, shape)
    for run, found in zip(runs, places, strict=True):
        assert run.span(shape) == (found[0], found[-1] + 1)
        assert all(after - before <= max(gap, 1) for before, after in itertools.pairwise(found))


@given(parts(), parts())
def test_a_part_of_a_part(part: tuple[tuple[int, ...], Box], other: tuple[tuple[int, ...], Box]) -> None:
    shape, box = part
    inner = Box(box.offset, tuple(max(1, size // 2) for size in box.shape))
    whole = np.arange(math.prod(shape)).reshape(shape)
    held = whole[box.within(Box.whole(shape))]
    np.testing.assert_array_equal(
        held[inner.relative_to(box).within(Box.whole(box.shape))], whole[inner.within(Box.whole(shape))]
    )
    assert covers([box], inner)
    if other[0] == shape:
        shared = box.intersection(other[1])
        assert covers([box], other[1]) == (shared == other[1])
