"""Clocks: how the times of several processes come onto one axis.

Within a process times are those of a clock that never jumps (`time.perf_counter_ns`). A pair of readings, of that clock
and of the wall clock at the same moment, says how far they are apart. Where processes share the steady clock, as those
of one Linux host do, one distance serves them all, so their order is exact whatever the wall clock did meanwhile;
elsewhere each uses its own.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

_READINGS = 25


@dataclass(frozen=True, slots=True)
class ClockPair:
    """The steady clock and the wall clock at one moment.

    Attributes:
      steady_ns: `time.perf_counter_ns`.
      wall_ns: nanoseconds since the epoch.
      error_ns: the pair is at most this far off.
    """

    steady_ns: int
    wall_ns: int
    error_ns: int


@dataclass(frozen=True, slots=True)
class ProcessClock:
    """The clocks of one process.

    Attributes:
      identity: names the steady clock; processes with the same one share it. Empty where that is not known.
      pairs: readings, at least one.
    """

    identity: str
    pairs: tuple[ClockPair, ...]


def read_clock_pair(
    steady: Callable[[], int] = time.perf_counter_ns, wall: Callable[[], int] = time.time_ns
) -> ClockPair:
    """Read both clocks at one moment.

    The wall clock is read between two readings of the steady one, several times over; the closest bracket is taken.

    Example:
      >>> pair = read_clock_pair(iter(range(100, 1000, 10)).__next__, lambda: 5)
      >>> pair
      ClockPair(steady_ns=105, wall_ns=5, error_ns=5)
    """
    pairs = []
    for _ in range(_READINGS):
        before, now, after = steady(), wall(), steady()
        pairs.append(ClockPair((before + after) // 2, now, (after - before + 1) // 2))
    return min(pairs, key=lambda pair: pair.error_ns)


def clock_identity() -> str:
    """Return what names the steady clock of this process, or an empty string where other processes' may differ."""
    if not sys.platform.startswith("linux"):
        return ""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink("/proc/self/ns/time")  # containers may shift the steady clock
    except OSError:
        return ""
    return f"{boot} {namespace}"


def wall_offsets(clocks: Sequence[ProcessClock]) -> list[int]:
    """Return for each process what has to be added to its steady clock to get the common time axis.

    Args:
      clocks: those of the processes.
    Returns:
      nanoseconds; the axis is the wall clock's.

    Example:
      >>> early = ProcessClock("boot 1", (ClockPair(100, 1100, 1),))
      >>> late = ProcessClock("boot 1", (ClockPair(200, 9200, 1),))  # the wall clock was set forward in between
      >>> wall_offsets([early, late])
      [5000, 5000]
    """
    shared: dict[str, list[int]] = {}
    for number, clock in enumerate(clocks):
        distances = [pair.wall_ns - pair.steady_ns for pair in clock.pairs]
        shared.setdefault(clock.identity or f"process {number}", []).append(round(statistics.median(distances)))
    common = {identity: round(statistics.median(distances)) for identity, distances in shared.items()}
    return [common[clock.identity or f"process {number}"] for number, clock in enumerate(clocks)]
