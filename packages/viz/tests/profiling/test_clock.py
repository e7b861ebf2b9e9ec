"""Clocks: readings, and how processes come onto one axis."""

from __future__ import annotations

import itertools
import sys
import time

import pytest

from headrace_viz.profiling.clock import ClockPair, ProcessClock, clock_identity, read_clock_pair, wall_offsets


def test_the_closest_of_the_readings_is_taken() -> None:
    slow = itertools.chain([0, 1000, 2000, 2010], itertools.count(3000, 500))
    walls = itertools.count(77)
    assert read_clock_pair(slow.__next__, walls.__next__) == ClockPair(2005, 78, 5)


def test_the_clocks_of_this_machine_are_read_within_a_millisecond() -> None:
    first, second = read_clock_pair(), read_clock_pair()
    assert max(first.error_ns, second.error_ns) < 1_000_000
    assert abs((second.wall_ns - second.steady_ns) - (first.wall_ns - first.steady_ns)) < 1_000_000


def test_processes_with_one_steady_clock_keep_their_order_though_the_wall_clock_jumps() -> None:
    hour = 3_600_000_000_000
    first = ProcessClock("boot", (ClockPair(0, 1000, 1), ClockPair(10, 1010, 1)))
    second = ProcessClock("boot", (ClockPair(5, 1005 - hour, 1), ClockPair(20, 1020 - hour, 1)))
    offsets = wall_offsets([first, second])
    assert offsets[0] == offsets[1]


def test_processes_of_two_hosts_and_unknown_clocks_use_their_own_pairs() -> None:
    clocks = [
        ProcessClock("boot a", (ClockPair(100, 1100, 1),)),
        ProcessClock("boot b", (ClockPair(7, 1107, 1),)),
        ProcessClock("", (ClockPair(0, 900, 1),)),
        ProcessClock("", (ClockPair(0, 800, 1),)),
    ]
    assert wall_offsets(clocks) == [1000, 1100, 900, 800]


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the steady clock is known to be shared on Linux alone"
)
def test_the_identity_of_the_clock_is_that_of_the_boot() -> None:
    assert clock_identity() == clock_identity() != ""
    assert time.get_clock_info("perf_counter").monotonic


def test_the_clock_has_no_identity_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert clock_identity() == ""
