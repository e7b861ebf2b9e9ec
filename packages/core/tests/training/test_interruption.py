"""Signals between steps: noted once, passed on afterwards, and at once when they come again."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from headrace.training.interruption import Interruption


def test_a_signal_is_noted_and_has_its_effect_afterwards() -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    for number, effect, text in ((signal.SIGINT, KeyboardInterrupt, "a test"), (signal.SIGTERM, SystemExit, "143")):
        with Interruption() as interruption:
            assert not interruption.requested
            os.kill(os.getpid(), number)
            assert interruption.received is number
        assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers
        with pytest.raises(effect, match=text):
            interruption.pass_on("a test")


@pytest.mark.parametrize(
    ("first", "second", "effect", "text"),
    [
        (signal.SIGINT, signal.SIGTERM, SystemExit, "143"),
        (signal.SIGTERM, signal.SIGINT, KeyboardInterrupt, "interrupted twice"),
    ],
)
def test_a_second_signal_does_not_wait(first: int, second: int, effect: type[BaseException], text: str) -> None:
    with Interruption():
        os.kill(os.getpid(), first)
        with pytest.raises(effect, match=text):
            os.kill(os.getpid(), second)


def test_the_programs_own_handler_of_sigterm_is_called() -> None:
    calls: list[int] = []
    previous = signal.signal(signal.SIGTERM, lambda number, frame: calls.append(number))
    try:
        with Interruption() as interruption:
            os.kill(os.getpid(), signal.SIGTERM)
            assert calls == []
        interruption.pass_on("a test")
        assert calls == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, previous)


def test_without_a_signal_nothing_is_passed_on_and_other_threads_are_left_alone() -> None:
    with Interruption() as interruption:
        pass
    interruption.pass_on("a test")
    handlers: list[object] = []

    def enter() -> None:
        with Interruption():
            handlers.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGTERM)]
