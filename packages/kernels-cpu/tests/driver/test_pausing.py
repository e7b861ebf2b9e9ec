"""Where a driver may pause between units, and how it goes on."""

from __future__ import annotations

from headrace_cpu.driver.estimates import estimate
from headrace_cpu.driver.pausing import Stop, stops_in, write_resumption, write_stop
from headrace_cpu.driver.table import PAUSED
from headrace_cpu.layout import Unit
from headrace_cpu.llvm.text import Text


def unit(begins: int | None = None, keys: tuple[int, ...] = (1,)) -> Unit:
    return Unit(None, "a library", keys, keys, (), begins=begins)


def test_a_driver_may_pause_before_each_group_and_nowhere_else() -> None:
    units = [unit(begins=0), unit(), unit(begins=2), unit(begins=7), unit()]
    found = stops_in(units, lambda key: 100, slice_nanoseconds=10**9)
    assert [stop.unit for stop in found] == [0, 2, 3]


def test_a_group_at_the_first_position_is_one_too() -> None:
    """Its position, 0, is no sign that there is none."""
    assert stops_in([unit(begins=0)], lambda key: 0, 10**9) == (Stop(0, 0),)


def test_without_groups_nothing_pauses() -> None:
    assert stops_in([], lambda key: 0, 1) == ()
    assert stops_in([unit(), unit()], lambda key: 0, 1) == ()


def test_a_short_driver_pauses_only_where_somebody_follows_it() -> None:
    units = [unit(begins=0), unit(begins=1)]
    assert {stop.nanoseconds for stop in stops_in(units, lambda key: 10, 10**6)} == {0}


def test_a_long_driver_counts_what_comes_until_the_next_stop() -> None:
    sizes = {1: 10**4, 2: 10**6, 3: 10**5}
    units = [unit(begins=0), unit(keys=(2,)), unit(begins=2, keys=(3,))]
    found = stops_in(units, sizes.__getitem__, slice_nanoseconds=1000)
    assert found == (Stop(0, estimate(units[:2], sizes.__getitem__)), Stop(2, estimate(units[2:], sizes.__getitem__)))
    assert min(stop.nanoseconds for stop in found) > 0


def test_where_all_together_fit_into_a_slice_is_the_border() -> None:
    units = [unit(begins=0), unit(begins=1)]
    whole = sum(estimate([one], lambda key: 10**5) for one in units)
    assert {stop.nanoseconds for stop in stops_in(units, lambda key: 10**5, whole)} == {0}
    assert 0 not in {stop.nanoseconds for stop in stops_in(units, lambda key: 10**5, whole - 1)}


def test_nothing_pauses_within_what_runs_side_by_side() -> None:
    units = [unit(begins=number) for number in range(5)]
    alone, joined = (stops_in(units, lambda key: 10**5, 1, together) for together in ((), (range(1, 4),)))
    assert [stop.unit for stop in joined] == [0, 1, 4]
    assert joined[1].nanoseconds > alone[1].nanoseconds


def test_a_function_goes_on_where_its_state_says() -> None:
    t = Text()
    write_resumption(t, [Stop(0, 5), Stop(3, 5)], pausing=[2])
    (switch,) = [line for line in t.lines if line.startswith("  switch")]
    assert switch.endswith("[ i64 2, label %unit2 i64 -1, label %after0 i64 -4, label %after3 ]")


def test_a_stop_leaves_the_state_by_which_the_function_goes_on_behind_it() -> None:
    t, resumption = Text(), Text()
    write_stop(t, Stop(3, 0))
    write_resumption(resumption, [Stop(3, 0)], [])
    before = t.lines.index("before3:")
    assert t.lines[before + 1 : before + 4] == ["  store i64 -4, ptr %state", f"  ret i32 {PAUSED}", "after3:"]
    assert any("i64 -4, label %after3" in line for line in resumption.lines)


def test_only_a_stop_of_a_long_driver_looks_at_the_time_that_is_left() -> None:
    short, long = Text(), Text()
    write_stop(short, Stop(1, 0))
    write_stop(long, Stop(1, 700))
    assert not any("slt" in line or "sub i64" in line for line in short.lines)
    assert sum("icmp slt i64" in line for line in long.lines) == 1
    assert sum("sub i64" in line and line.endswith(", 700") for line in long.lines) == 1
