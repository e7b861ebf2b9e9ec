"""Collections are rare while plans are made, and as usual afterwards."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest

from headrace.plan.garbage import YOUNG_OBJECTS, rare_collections


@pytest.fixture(autouse=True)
def _usual() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_the_threshold_is_high_until_the_last_one_is_through() -> None:
    with rare_collections():
        with rare_collections():
            assert gc.get_threshold() == (YOUNG_OBJECTS, 10, 10)
        assert gc.get_threshold() == (YOUNG_OBJECTS, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)


def test_it_is_as_before_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError, match="by zero"), rare_collections():
        _ = 1 // 0
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("chosen", [(0, 10, 10), (10_000, 10, 10), (10 * YOUNG_OBJECTS, 5, 5)])
def test_who_collects_never_or_more_seldom_keeps_that(chosen: tuple[int, int, int]) -> None:
    gc.set_threshold(*chosen)
    with rare_collections():
        assert gc.get_threshold() == chosen
    assert gc.get_threshold() == chosen


def test_what_is_chosen_inside_stays() -> None:
    with rare_collections():
        gc.set_threshold(500, 3, 3)
    assert gc.get_threshold() == (500, 3, 3)


def test_threads_that_overlap_leave_it_as_it_was() -> None:
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with rare_collections():
            entered.set()
            assert leave.wait(30)

    thread = threading.Thread(target=other)
    with rare_collections():
        thread.start()
        assert entered.wait(30)
    assert gc.get_threshold()[0] == YOUNG_OBJECTS
    leave.set()
    thread.join()
    assert gc.get_threshold() == (700, 10, 10)


def test_cycles_are_freed_inside_too() -> None:
    """A pass copies its graph, and the copy before it is a cycle: without collections all of them would stay."""

    class Node:
        pass

    first = Node()
    first.self = first  # type: ignore[attr-defined]
    gone = weakref.ref(first)
    del first
    kept = []
    with rare_collections():
        for _ in range(2 * YOUNG_OBJECTS):
            kept.append([])
        assert gone() is None
