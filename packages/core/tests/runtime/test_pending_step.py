"""Steps in the background: their end, their errors, and who waits for them."""

from __future__ import annotations

import threading

import pytest

import headrace as hr
from headrace.runtime.pending_step import PendingStep
from headrace.runtime.step_control import Cancellation


def test_a_step_is_done_when_it_has_ended_and_gives_what_it_fetched_as_often_as_asked() -> None:
    go_on = threading.Event()

    def run(cancellation: Cancellation) -> int:
        assert go_on.wait(10)
        return 3

    pending = PendingStep(run)
    assert not pending.is_done
    go_on.set()
    assert pending.result(timeout=10) == 3
    assert pending.is_done
    assert pending.result() == 3


def test_the_error_of_a_step_is_raised_where_its_result_is_asked_for() -> None:
    def run(cancellation: Cancellation) -> None:
        raise ValueError("a kernel refused")

    pending = PendingStep(run)
    for _ in range(2):
        with pytest.raises(ValueError, match="a kernel refused"):
            pending.result(timeout=10)
    assert pending.is_done


def test_who_waits_too_long_is_told_and_the_step_goes_on() -> None:
    go_on = threading.Event()
    pending = PendingStep(lambda cancellation: go_on.wait(10))
    with pytest.raises(hr.errors.DeadlineExceededError, match="still running(.|\n)*within 0.01 s"):
        pending.result(timeout=0.01)
    go_on.set()
    assert pending.result(timeout=10) is True


def test_to_cancel_reaches_the_step_and_no_other_one() -> None:
    started, go_on = threading.Barrier(3), threading.Event()

    def run(cancellation: Cancellation) -> bool:
        started.wait(10)
        assert go_on.wait(10)
        return cancellation.is_requested

    one, other = PendingStep(run), PendingStep(run)
    started.wait(10)
    one.cancel()
    go_on.set()
    assert (one.result(timeout=10), other.result(timeout=10)) == (True, False)
