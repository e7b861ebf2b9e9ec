"""The value of a list: versions that share one store."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import headrace as hr
from headrace.kernels.list_value import TensorList


def _empty() -> TensorList:
    return TensorList({}, 0, hr.int32, hr.Shape())


def _change(dice: random.Random, value: TensorList, model: list[Any], new: int) -> tuple[TensorList, list[Any]]:
    """One operation on a list and on the Python list that it should be equal to."""
    kinds: list[Callable[[], tuple[TensorList, list[Any]]]] = [lambda: (value.push(new), [*model, new])]
    kinds.append(lambda: (value.resized(size), [*model, None, None, None][:size]))
    if model:
        index, size = dice.randrange(len(model)), dice.randrange(len(model) + 3)
        kinds.append(lambda: (value.put(index, new), [*model[:index], new, *model[index + 1 :]]))
        shorter, last = value.pop()
        assert last == model[-1]
        kinds.append(lambda: (shorter, model[:-1]))
    else:
        size = dice.randrange(3)
    return dice.choice(kinds)()


@pytest.mark.parametrize("seed", range(20))
def test_every_version_stays_what_it_was(seed: int) -> None:
    dice = random.Random(seed)
    versions: list[tuple[TensorList, list[Any]]] = [(_empty(), [])]
    for new in range(300):
        value, model = versions[-1] if dice.random() < 0.7 else dice.choice(versions)
        versions.append(_change(dice, value, model, new))
        value, model = dice.choice(versions)
        assert value.items() == model
    for value, model in versions:
        assert value.items() == model
        assert value.length == len(model)
        assert value.set_count == sum(item is not None for item in model)
        assert [value.get(index) for index in range(len(model))] == model
        assert value.elements() == {index: item for index, item in enumerate(model) if item is not None}


def test_two_threads_may_use_different_versions() -> None:
    base = _empty()
    for number in range(50):
        base = base.push(number)
    results: list[list[Any]] = []

    def work(offset: int) -> None:
        value = base
        for number in range(200):
            value = value.put(number % 50, offset + number)
            assert base.get(7) == 7
        results.append(value.items())

    threads = [threading.Thread(target=work, args=(offset,)) for offset in (1000, 2000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [[offset + 150 + number for number in range(50)] for offset in (1000, 2000)]
    assert base.items() == list(range(50))


def test_two_ends_of_a_long_chain_are_used_in_turn_without_copying_each_time() -> None:
    started = time.process_time()
    first = _empty().resized(40_000)
    value = first
    for index in range(40_000):
        value = value.put(index, index)
    for index in range(40_000):
        assert first.get(index) is None
        assert value.get(index) == index
    assert time.process_time() - started < 5, "a copy for each of 40,000 uses takes longer"


def test_its_text_tells_what_it_holds() -> None:
    assert repr(_empty().push(1)) == "<list of 1 int32<unknown>>"
