"""Several items at a time, also after the program has ended, and fewer in the background."""

from __future__ import annotations

import threading

import pytest

from headrace_checkpoint import threads
from headrace_checkpoint.background import BackgroundWork
from headrace_checkpoint.threads import in_threads


def test_items_of_several_threads_come_in_order_and_the_first_error_is_raised() -> None:
    meet = threading.Barrier(2, timeout=60)

    def double(item: int) -> int:
        if item < 2:
            meet.wait()  # passes only where two run at a time
        if item >= 6:
            raise ValueError(f"no {item}")
        return 2 * item

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace_checkpoint.threads._THREADS", 2)
        assert in_threads(double, range(6)) == [0, 2, 4, 6, 8, 10]
        meet.reset()
        with pytest.raises(ValueError, match="no 6"):
            in_threads(double, range(9))
    assert in_threads(double, []) == []
    assert in_threads(double, [3]) == [6]


def test_no_item_is_begun_after_an_error_and_all_threads_have_ended_by_then() -> None:
    begun: list[int] = []

    def fail(item: int) -> None:
        begun.append(item)
        raise OSError(f"no {item}")

    before = set(threading.enumerate())
    with pytest.raises(OSError, match="no 0"):
        in_threads(fail, range(100), 2)
    assert len(begun) <= 2
    assert set(threading.enumerate()) <= before


def _meet(count: int) -> bool:
    """Whether `in_threads` has so many threads that they wait for each other."""
    barrier = threading.Barrier(count)
    try:
        in_threads(lambda _: barrier.wait(0.5), range(count))
    except threading.BrokenBarrierError:
        return False
    return True


def test_the_work_leaves_a_processor_to_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_THREADS", 3)
    found: list[bool] = []
    background = BackgroundWork("testing")
    background.start(lambda: found.extend(map(_meet, (2, 3))))
    background.wait()
    assert found == [True, False]
    assert _meet(3)
