"""The coordinator: threads that stop together, and whose errors reach the one who waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import headrace as hr
from headrace.errors import AbortedError, DeadlineExceededError, EndOfDataError


def run_block(body: Callable[[hr.Coordinator], object], **options: float) -> None:
    """Run `body` in the block of a coordinator."""
    with hr.Coordinator(**options) as coordinator:
        body(coordinator)


def test_threads_go_on_until_somebody_asks_them_to_stop() -> None:
    turns = threading.Semaphore(0)
    with hr.Coordinator() as coordinator:
        thread = coordinator.start_loop(turns.release, name="turner")
        for _ in range(3):
            turns.acquire()
        assert not coordinator.should_stop()
    assert coordinator.should_stop()
    assert thread.name == "turner"
    assert not thread.is_alive()


def test_join_waits_until_all_have_ended_by_themselves() -> None:
    results: list[int] = []
    coordinator = hr.Coordinator()
    threads = [coordinator.start(results.append, number) for number in range(3)]
    coordinator.join()
    assert sorted(results) == [0, 1, 2]
    assert not any(thread.is_alive() for thread in threads)
    assert not coordinator.should_stop()


def test_the_error_of_a_thread_stops_the_others_and_is_raised_by_join() -> None:
    def fail() -> None:
        raise ValueError("broken")

    coordinator = hr.Coordinator()
    coordinator.start(coordinator.wait_for_stop)
    coordinator.start(fail, name="reader")
    with pytest.raises(ValueError, match="broken") as caught:
        coordinator.join()
    assert "raised in thread 'reader'" in caught.value.__notes__


def test_the_error_of_a_thread_is_raised_at_the_end_of_the_block() -> None:
    error = ValueError("broken")

    def fail() -> None:
        raise error

    def body(coordinator: hr.Coordinator) -> None:
        coordinator.start(fail)
        coordinator.wait_for_stop()

    with pytest.raises(ValueError, match="broken") as caught:
        run_block(body)
    assert caught.value is error


def test_an_error_that_follows_from_that_of_a_thread_gives_way_to_it() -> None:
    cause = ValueError("broken")

    def body(coordinator: hr.Coordinator) -> None:
        coordinator.request_stop(cause)
        raise AbortedError("the producer failed") from cause

    with pytest.raises(ValueError, match="broken") as caught:
        run_block(body)
    assert isinstance(caught.value.__context__, AbortedError)


def test_of_two_errors_the_cause_counts_whichever_comes_first() -> None:
    cause, effect = ValueError("cause"), AbortedError("effect")
    effect.__cause__ = cause
    for errors in ((cause, effect), (effect, cause)):
        coordinator = hr.Coordinator()
        for error in errors:
            coordinator.request_stop(error)
        with pytest.raises(ValueError, match="cause"):
            coordinator.join()


def test_an_error_of_the_block_itself_is_not_hidden() -> None:
    def fail() -> None:
        raise ValueError("in a thread")

    def body(coordinator: hr.Coordinator) -> None:
        coordinator.start(fail)
        coordinator.wait_for_stop()
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run_block(body)


def test_the_end_of_data_is_a_normal_end() -> None:
    with hr.Coordinator() as coordinator:
        raise EndOfDataError("no more")
    coordinator.request_stop(EndOfDataError("no more"))
    coordinator.join()


def test_an_index_that_is_out_of_range_is_no_end_of_data() -> None:
    def body(coordinator: hr.Coordinator) -> None:
        raise hr.errors.OutOfRangeError("index 7")

    with pytest.raises(hr.errors.OutOfRangeError, match="index 7"):
        run_block(body)


def test_callbacks_run_once_when_the_stop_is_asked_for_or_at_once_after_it() -> None:
    calls: list[str] = []
    coordinator = hr.Coordinator()
    coordinator.on_stop(lambda: calls.append("before"))
    assert calls == []
    coordinator.request_stop()
    coordinator.request_stop()
    coordinator.on_stop(lambda: calls.append("after"))
    assert calls == ["before", "after"]


def test_threads_that_do_not_stop_are_named() -> None:
    release = threading.Event()
    coordinator = hr.Coordinator()
    coordinator.start(release.wait, name="stubborn")
    coordinator.request_stop()
    with pytest.raises(DeadlineExceededError, match=r"1 threads have not stopped(.|\n)*still running: 'stubborn'"):
        coordinator.join(grace_period=0.01)
    release.set()
    coordinator.join()


@pytest.mark.parametrize("error", [None, KeyError("mine")], ids=str)
def test_threads_that_do_not_stop_at_the_end_of_the_block_are_named(error: Exception | None) -> None:
    release = threading.Event()

    def body(coordinator: hr.Coordinator) -> None:
        coordinator.start(release.wait, name="stubborn")
        if error is not None:
            raise error

    with pytest.raises(DeadlineExceededError if error is None else KeyError) as caught:
        run_block(body, grace_period=0.01)
    release.set()
    told = str(caught.value) if error is None else caught.value.__notes__[0]
    assert "still running: 'stubborn'" in told


def test_waiting_for_the_stop_may_end_before_it() -> None:
    coordinator = hr.Coordinator()
    assert not coordinator.wait_for_stop(0.001)
    coordinator.request_stop()
    assert coordinator.wait_for_stop()
