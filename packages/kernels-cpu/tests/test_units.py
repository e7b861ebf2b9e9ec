"""What units promise: where a driver may pause between them, what they may take, and how a block of them goes on."""

from __future__ import annotations

from typing import Any

import pytest

from headrace_cpu.estimates import contains_blocks, estimate
from headrace_cpu.layout import Unit
from headrace_cpu.lists import ListOp
from headrace_cpu.text import Text
from headrace_cpu.units import (
    ACTIVE,
    FIRST_HANDLE,
    Stop,
    entry,
    frame,
    may_pause,
    pointer_to,
    set_entry,
    stops_in,
)


class Loop:
    """Stands for a loop or branch: it has the layouts of blocks."""

    layouts = ()


def unit(call: Any = "a library", begins: int | None = None, keys: tuple[int, ...] = (1,)) -> Unit:
    return Unit(None, call, keys, keys, (), begins=begins)


def push(kind: str = "TensorListPushBack") -> ListOp:
    return ListOp(kind, size=4, count=1, reads=(0, 1))


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


def test_the_stack_has_room_for_all_that_runs_side_by_side() -> None:
    region = object()
    units = [Unit(region, None, tuple(range(count)), (), ()) for count in (3, 4, 5)]  # type: ignore[arg-type]
    assert [frame(units, together)[0].split(", align")[0] for together in ((), (range(2),), (range(3),))] == [
        f"  %args = alloca [{count} x ptr]" for count in (5, 7, 12)
    ]


@pytest.mark.parametrize(
    ("call", "pauses"), [(Loop(), True), (push(), True), (push("TensorListGetItem"), False), ("a library", False)]
)
def test_loops_and_what_may_need_memory_ask_to_be_called_again(call: Any, pauses: bool) -> None:
    assert may_pause(unit(call)) is pauses
    assert contains_blocks(unit(call)) is isinstance(call, Loop)


@pytest.mark.parametrize(
    ("place", "base"), [(("arena", 64), "%arena, i64 64"), (("constant", 128), "%constants, i64 128")]
)
def test_a_place_is_so_many_bytes_behind_its_base(place: tuple[str, int], base: str) -> None:
    t = Text()
    register = pointer_to(t, place, [])
    assert t.lines == [f"  {register} = getelementptr i8, ptr {base}"]


def test_the_pointer_of_a_slot_is_the_given_one() -> None:
    t = Text()
    assert pointer_to(t, ("slot", 1), ["%a", "%b"]) == "%b"
    assert not t.lines


def test_entries_of_the_table_are_read_and_written_at_their_positions() -> None:
    t = Text()
    entry(t, ACTIVE)
    set_entry(t, FIRST_HANDLE, "5")
    places = [line for line in t.lines if "getelementptr" in line]
    assert [line.rsplit(" ", 1)[1] for line in places] == [str(ACTIVE), str(FIRST_HANDLE)]
    assert t.lines[-1].startswith("  store i64 5, ptr ")
