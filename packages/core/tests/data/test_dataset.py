"""Datasets give the same elements in the same order wherever one begins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import InvalidArgumentError


def lists(elements: Iterable[Any]) -> list[Any]:
    return [
        tuple(part.tolist() for part in element) if isinstance(element, tuple) else element.tolist()
        for element in elements
    ]


def test_rows_of_one_array_are_elements() -> None:
    assert lists(hr.data.from_arrays([[1, 2], [3, 4]])) == [[1, 2], [3, 4]]


def test_rows_of_several_arrays_are_tuples() -> None:
    assert lists(hr.data.from_arrays([[1.0], [2.0]], [7, 8])) == [([1.0], 7), ([2.0], 8)]


def test_arrays_are_not_copied() -> None:
    array = np.zeros((2, 3))
    dataset = hr.data.from_arrays(array)
    array[1] = 5
    assert lists(dataset)[1] == [5.0, 5.0, 5.0]


def test_batches_stack_and_the_last_may_be_smaller() -> None:
    dataset = hr.data.from_arrays(range(5), range(5, 10))
    assert lists(dataset.batch(2)) == [([0, 1], [5, 6]), ([2, 3], [7, 8]), ([4], [9])]
    assert lists(dataset.batch(2, drop_remainder=True)) == [([0, 1], [5, 6]), ([2, 3], [7, 8])]
    assert (len(dataset.batch(2)), len(dataset.batch(2, drop_remainder=True))) == (3, 2)


def test_map_before_and_after_batch() -> None:
    dataset = hr.data.from_arrays(range(4))
    assert lists(dataset.map(lambda x: x * 10).batch(2)) == [[0, 10], [20, 30]]
    assert lists(dataset.batch(2).map(lambda x: x.sum())) == [1, 5]
    pairs = hr.data.from_arrays(range(2), range(2)).map(lambda x, y: (x + 1, y * 2))
    assert lists(pairs.batch(2)) == [([1, 2], [0, 2])]


def test_take_ends_early_or_with_the_dataset() -> None:
    assert lists(hr.data.from_arrays(range(5)).take(2)) == [0, 1]
    assert lists(hr.data.from_arrays(range(5)).take(9).batch(3)) == [[0, 1, 2], [3, 4]]


def test_repeat_makes_several_epochs_one() -> None:
    dataset = hr.data.from_arrays(range(3)).repeat(2)
    assert lists(dataset) == [0, 1, 2, 0, 1, 2]
    assert lists(dataset.batch(4)) == [[0, 1, 2, 0], [1, 2]]


def test_repeat_without_a_count_has_no_end() -> None:
    dataset = hr.data.from_arrays(range(3)).repeat().batch(2)
    assert dataset.length is None
    assert lists(dataset.take(4)) == [[0, 1], [2, 0], [1, 2], [0, 1]]
    with pytest.raises(TypeError, match="an endless dataset has no length"):
        len(dataset)
    assert repr(dataset) == "<hr.data.Dataset of endless>"


def test_an_empty_dataset_stays_empty() -> None:
    empty = hr.data.from_arrays(np.zeros((0, 2)))
    assert lists(empty.shuffle(3, seed=1).batch(2).repeat()) == []


def test_each_epoch_has_an_order_of_its_own_and_every_program_the_same_ones() -> None:
    first = hr.data.from_arrays(range(20)).shuffle(20, seed=1)
    second = hr.data.from_arrays(range(20)).shuffle(20, seed=1)
    epochs = [lists(first) for _ in range(3)]
    assert epochs == [lists(second) for _ in range(3)]
    assert all(sorted(epoch) == list(range(20)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert lists(first.iterator(epoch=1)) == epochs[1]
    assert lists(hr.data.from_arrays(range(20)).shuffle(20, seed=2)) != epochs[0]


def test_without_a_seed_orders_differ() -> None:
    arrays = hr.data.from_arrays(range(50))
    assert lists(arrays.shuffle(50)) != lists(arrays.shuffle(50))


def test_a_small_buffer_moves_elements_forward_by_less_than_its_size() -> None:
    order = lists(hr.data.from_arrays(range(100)).shuffle(10, seed=3))
    assert sorted(order) == list(range(100))
    assert all(element - position < 10 for position, element in enumerate(order))
    assert order != list(range(100))


def test_a_buffer_of_one_keeps_the_order() -> None:
    assert lists(hr.data.from_arrays(range(9)).shuffle(1, seed=3)) == list(range(9))


def test_every_position_is_as_likely_for_every_element() -> None:
    counts = np.zeros((4, 4))
    dataset = hr.data.from_arrays(range(4)).shuffle(4, seed=9)
    for _ in range(2000):
        for position, element in enumerate(lists(dataset)):
            counts[element, position] += 1
    assert np.abs(counts / 2000 - 0.25).max() < 0.04  # four standard deviations


@given(
    n=st.integers(0, 30),
    size=st.integers(1, 7),
    buffer=st.integers(1, 40),
    repeats=st.integers(1, 3),
    epoch=st.integers(0, 3),
    data=st.data(),
)
def test_C21_an_iterator_goes_on_where_another_one_was(
    n: int, size: int, buffer: int, repeats: int, epoch: int, data: st.DataObject
) -> None:
    def make() -> hr.data.Dataset:
        return (
            hr.data.from_arrays(np.arange(n)).shuffle(buffer, seed=5).repeat(repeats).batch(size).map(lambda x: x + 1)
        )

    whole = lists(make().iterator(epoch=epoch))
    stop = data.draw(st.integers(0, len(whole)))
    begun = make().iterator(epoch=epoch)
    first = [next(begun).tolist() for _ in range(stop)]
    resumed = make().iterator()
    resumed.restore(begun.state())
    assert first + lists(resumed) == whole


def test_the_state_is_json() -> None:
    iterator = hr.data.from_arrays(range(3)).iterator(epoch=4)
    next(iterator)
    assert iterator.state() == {"epoch": 4, "position": 1}


@pytest.mark.parametrize("state", [{}, {"epoch": -1, "position": 0}, {"epoch": 0, "position": 1.5}])
def test_a_wrong_state_is_refused(state: dict[str, Any]) -> None:
    iterator = hr.data.from_arrays(range(3)).iterator()
    with pytest.raises(InvalidArgumentError, match="the state is not a position in a dataset"):
        iterator.restore(state)
    assert lists(iterator) == [0, 1, 2]


def test_a_state_of_a_larger_dataset_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"a position in another dataset\n.*up to 3\n.*4"):
        hr.data.from_arrays(range(3)).iterator().restore({"epoch": 0, "position": 4})


def test_arrays_of_other_lengths_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"do not make a dataset\n.*\n.*shapes \[2\], \[3\]"):
        hr.data.from_arrays([1, 2], [1, 2, 3])
    with pytest.raises(InvalidArgumentError, match=r"do not make a dataset\n.*\n.*none"):
        hr.data.from_arrays()
    with pytest.raises(InvalidArgumentError, match="do not make a dataset"):
        hr.data.from_arrays(3.0)


def test_sizes_that_are_too_small_are_refused() -> None:
    dataset = hr.data.from_arrays(range(3))
    with pytest.raises(InvalidArgumentError, match="count cannot be used\n.*at least 0\n.*-1"):
        dataset.take(-1)
    for name, make in (("batch_size", dataset.batch), ("buffer_size", dataset.shuffle), ("count", dataset.repeat)):
        with pytest.raises(InvalidArgumentError, match=f"{name} cannot be used\n.*at least 1\n.*0"):
            make(0)


def test_an_endless_dataset_cannot_be_shuffled() -> None:
    with pytest.raises(InvalidArgumentError, match=r"an endless dataset cannot be shuffled\n.*shuffle before repeat"):
        hr.data.from_arrays(range(3)).repeat().shuffle(3)
