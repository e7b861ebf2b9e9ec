"""Views of memory against those of NumPy, which knows them as strides."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.loops import functions as loops
from headrace.loops.value import Piece, Value
from headrace.types import float32
from headrace_cpu.onednn.views import View, piece_of, read_through, source_of, written_through


def taken(view: View, memory: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The elements of a view, one by one."""
    places = [
        view.offset + sum(index * stride for index, stride in zip(position, view.strides, strict=True))
        for position in itertools.product(*map(range, view.sizes))
    ]
    found: np.ndarray[Any, Any] = memory.reshape(-1)[places].reshape(view.sizes)
    return found


def sizes_of(draw: Any, count: int) -> list[int]:
    """A shape of so many elements, with axes of size 1 here and there."""
    shape: list[int] = []
    while count > 1:
        size = draw(st.sampled_from([item for item in range(2, count + 1) if count % item == 0]))
        shape.append(size)
        count //= size
    for _ in range(draw(st.integers(0, 2))):
        shape.insert(draw(st.integers(0, len(shape))), 1)
    return shape


@settings(max_examples=200)
@given(st.data())
def test_a_view_has_another_shape_exactly_where_numpy_needs_no_copy(data: st.DataObject) -> None:
    count = data.draw(st.sampled_from([1, 2, 4, 6, 12, 24, 36]))
    memory = np.arange(count)
    array = memory.reshape(sizes_of(data.draw, count))
    array = array.transpose(data.draw(st.permutations(range(array.ndim))))
    if data.draw(st.booleans()):
        rest: Any = [slice(data.draw(st.integers(0, size - 1)), None) for size in array.shape]
        array = array[(..., *rest)]
    shape = sizes_of(data.draw, array.size)
    view = View(int(array.reshape(-1)[0]), array.shape, tuple(step // memory.itemsize for step in array.strides))
    found = view.reshaped(shape)
    reshaped = array.reshape(shape)
    assert (found is not None) == np.shares_memory(reshaped, array)
    if found is not None:
        np.testing.assert_array_equal(taken(found, memory), reshaped)


def test_other_numbers_of_elements_have_no_view() -> None:
    assert View.whole([4]).reshaped([3]) is None
    assert View.whole([2, 0]).reshaped([0, 2]) is None


def given_value(*shape: int) -> tuple[Value, np.ndarray[Any, Any]]:
    memory = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    return Value("input", float32, shape, (), "x"), memory


def test_what_moves_elements_is_a_view() -> None:
    x, memory = given_value(4, 6, 5)
    value = loops.transpose(loops.strided(x, [1, 5, 0], [3, 3, 5], [1, -2, 1]), [2, 0, 1])
    value = loops.squeeze(loops.strided(value, [3, 0, 0], [1, 3, 3], [1, 1, 1]), [0])
    assert source_of(value) is x
    view = read_through(value, View.whole(x.shape))
    assert view.strides[1] < 0
    np.testing.assert_array_equal(taken(view, memory), memory[1:, 5::-2].transpose(2, 0, 1)[3])


def test_what_computes_is_none() -> None:
    x, _ = given_value(4)
    assert source_of(loops.transpose(x + 1.0, [0])) is None


@pytest.mark.parametrize("perm", list(itertools.permutations(range(3))))
def test_what_is_written_through_a_view_is_read_back(perm: Sequence[int]) -> None:
    x, array = given_value(2, 3, 4)
    value = loops.expand_dims(loops.transpose(x, perm), 1)
    view = written_through(value, View.whole(value.shape))
    assert view is not None
    memory = np.zeros(24, int)
    for place, number in zip(taken(view, np.arange(24)).reshape(-1), array.reshape(-1), strict=True):
        memory[place] = number
    np.testing.assert_array_equal(memory.reshape(value.shape), array.transpose(perm)[:, None])


def test_a_part_and_what_is_repeated_are_not_written_through() -> None:
    x, _ = given_value(4, 1)
    assert written_through(loops.strided(x, [0, 0], [2, 1], [1, 1]), View.whole([2, 1])) is None
    assert written_through(loops.strided(x, [3, 0], [4, 1], [-1, 1]), View.whole([4, 1])) is None
    assert written_through(loops.broadcast_to(x, [4, 3]), View.whole([4, 3])) is None


def test_a_piece_lies_in_the_whole() -> None:
    memory = np.arange(60).reshape(5, 12)
    view = piece_of(View.whole(memory.shape), Piece(memory.shape, (1, 2), (2, 3)), (2, 3))
    np.testing.assert_array_equal(taken(view, memory), memory[1::2, 2:11:3])
