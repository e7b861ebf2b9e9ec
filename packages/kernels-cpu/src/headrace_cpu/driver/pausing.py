"""Pausing: where a driver comes back to Python before it is done, and how it goes on from there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace_cpu.driver.estimates import estimate
from headrace_cpu.driver.table import BUDGET, PAUSED, RESUMED, TRACED, entry, set_entry
from headrace_cpu.layout import Unit
from headrace_cpu.llvm.text import Text

__all__ = ["Stop", "stops_in", "write_resumption", "write_stop"]


@dataclass(frozen=True, slots=True)
class Stop:
    """A place before a unit where a driver may pause.

    Attributes:
      unit: the position of the unit.
      nanoseconds: an estimate of what comes until the next stop, or 0 if the driver takes less than a slice in all: it
        then pauses only where somebody follows the step.
    """

    unit: int
    nanoseconds: int


def stops_in(
    units: Sequence[Unit], size_of: Callable[[Any], int], slice_nanoseconds: int, together: Iterable[range] = ()
) -> tuple[Stop, ...]:
    """Where a driver of some units may pause: before each group of operations.

    Args:
      units: the units.
      size_of: gives the bytes of a memory.
      slice_nanoseconds: how long it should take at most between two pauses.
      together: which units run side by side: these are not told apart.
    """
    inside = {position for positions in together for position in positions[1:]}
    places = [position for position, unit in enumerate(units) if unit.begins is not None and position not in inside]
    ends = [*places[1:], len(units)][: len(places)]
    costs = [estimate(units[place:end], size_of) for place, end in zip(places, ends, strict=True)]
    is_short = sum(costs) <= slice_nanoseconds
    return tuple(Stop(place, 0 if is_short else cost) for place, cost in zip(places, costs, strict=True))


def write_resumption(t: Text, stops: Sequence[Stop], pausing: Sequence[int]) -> None:
    """Go on where the function paused, if it did.

    The state is -1 minus the position of the unit that comes next, or, in a unit that paused itself, the position of
    that one, whose label is `unit` and that number.

    Args:
      t: the function.
      stops: where it pauses between units (see `write_stop`).
      pausing: positions of units that may pause themselves.
    """
    labels = {position: f"unit{position}" for position in pausing}
    labels |= {-1 - stop.unit: f"after{stop.unit}" for stop in stops}
    resumed = t.put(f"icmp ne i64 {entry(t, RESUMED)}, 0")
    t.line(f"br i1 {resumed}, label %resume, label %begin")
    t.start("resume")
    active = t.put("load i64, ptr %state")
    cases = " ".join(f"i64 {state}, label %{label}" for state, label in labels.items())
    t.line(f"switch i64 {active}, label %begin [ {cases} ]")
    t.start("begin")


def write_stop(t: Text, stop: Stop) -> None:
    """Pause before a unit if somebody follows the step, or if as much is done as Python asked for."""
    number = stop.unit
    wanted = t.put(f"icmp ne i64 {entry(t, TRACED)}, 0")
    if stop.nanoseconds:
        wanted = t.put(f"or i1 {wanted}, {t.put(f'icmp slt i64 {entry(t, BUDGET)}, 0')}")
    t.line(f"br i1 {wanted}, label %before{number}, label %go{number}")
    t.start(f"before{number}")
    t.line(f"store i64 {-1 - number}, ptr %state")
    t.line(f"ret i32 {PAUSED}")
    t.start(f"after{number}")
    set_entry(t, RESUMED, "0")
    t.line(f"br label %go{number}")
    t.start(f"go{number}")
    if stop.nanoseconds:
        set_entry(t, BUDGET, t.put(f"sub i64 {entry(t, BUDGET)}, {stop.nanoseconds}"))
