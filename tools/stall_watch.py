"""A pytest plugin under which no test hangs: one that makes no progress fails and says what it waits for.

Progress is that a phase of a test (its set-up, its call, its tear-down) begins or ends, or that the process and the
children that have ended use the processor. After a minute without any, the test fails with the operations that wait,
from `headrace.runtime.blocked`, and where every thread stands. So does one that computes for ten minutes. A test that
waits for another process for longer says so: `@pytest.mark.patience(seconds)`.

A main thread that cannot be interrupted is given ten more seconds; then the process ends with exit code 70.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

LIMIT = 60.0
"""Seconds without progress after which a test fails."""

LONGEST = 10
"""How many times that a phase may take, whatever it computes."""

GRACE = 10.0
"""Seconds that a failing test may take to end."""

BUSY = 0.02
"""The share of a processor, over the limit, that counts as progress."""

EXIT_CODE = 70


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that sets the limit."""
    text = "seconds without progress after which a test fails; 0 for no watch"
    parser.addoption("--stall-seconds", type=float, default=LIMIT, metavar="N", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Start to watch, unless somebody debugs."""
    config.addinivalue_line("markers", "patience(seconds): waits for other processes for so long")
    limit = config.getoption("--stall-seconds")
    if limit and not config.getoption("usepdb"):
        config.pluginmanager.register(StallWatch(limit, config.getoption("verbose") >= 0), "stall_watch_of_session")


class StallWatch:
    """Watches the tests of one session from a thread. Mutable.

    Args:
      limit: seconds without progress.
      shown: whether to say so in the header.
    """

    def __init__(self, limit: float, shown: bool = True) -> None:
        self._limit = limit
        self._shown = shown
        self._patience = 0.0
        self._phase = 0
        self._report = ""
        self._ended = threading.Event()
        self._stderr = os.dup(2)  # before the tests' own output is captured
        self._previous: Callable[[int, FrameType | None], object] | int | None = None

    def pytest_report_header(self) -> list[str]:
        """Say that the tests are watched."""
        return [f"stall watch: a test fails after {self._limit:g} s without progress"] if self._shown else []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Iterator[None]:
        """Watch while tests run."""
        self._previous = signal.signal(signal.SIGUSR1, self._fail)
        threading.Thread(target=self._watch, name="stall watch", daemon=True).start()
        try:
            return (yield)
        finally:
            self._ended.set()
            signal.signal(signal.SIGUSR1, self._previous)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Note how long the test may wait."""
        mark = item.get_closest_marker("patience")
        self._patience = float(mark.args[0]) if mark else 0.0
        self._phase += 1
        return (yield)

    def pytest_runtest_logreport(self) -> None:
        """Note that a phase has ended."""
        self._phase += 1

    def _watch(self) -> None:
        """Look a few times within the limit, and let the main thread fail when there is no progress."""
        phase, spent = self._phase, processor_time()
        begun = progressed = time.monotonic()
        while not self._ended.wait(self._limit / 20):
            now, used = time.monotonic(), processor_time()
            if phase != self._phase:
                phase, begun = self._phase, now
            elif used - spent < BUSY * self._limit:
                limit = max(self._limit, self._patience)
                if now - progressed > limit:
                    self._stop(f"no progress for {limit:g} s")
                    begun = progressed = time.monotonic()
                continue
            elif now - begun > max(LONGEST * self._limit, self._patience):
                self._stop(f"{now - begun:.0f} s in one phase of a test")
                begun = time.monotonic()
            progressed, spent = now, used

    def _stop(self, reason: str) -> None:
        """Interrupt the main thread, or end the process where that does not help."""
        phase = self._phase
        self._report = f"{reason}\n\n{state()}"
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        deadline = time.monotonic() + GRACE
        while phase == self._phase and not self._ended.wait(0.05):
            if time.monotonic() > deadline:
                os.write(self._stderr, f"\n{self._report}\n".encode())
                os._exit(EXIT_CODE)

    def _fail(self, number: int, frame: FrameType | None) -> None:
        """Fail the test that runs now; the handler of the signal."""
        pytest.fail(self._report, pytrace=False)


def processor_time() -> float:
    """Return the seconds that the process and its children that have ended have spent on processors."""
    return sum(os.times()[:4])


def state() -> str:
    """Return what waits now and where every thread stands, as text."""
    blocked = sys.modules.get("headrace.runtime.blocked")
    lines = blocked.blocked_operations() if blocked else []
    parts = ["Blocked operations:", *(f"  {line}" for line in lines or ["none"])]
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for number, frame in sys._current_frames().items():
        if number != threading.get_ident():
            parts += ["", f"Thread '{names.get(number, number)}':", *traceback.format_stack(frame)]
    return "\n".join(part.rstrip() for part in parts)
