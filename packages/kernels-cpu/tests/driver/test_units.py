"""What units promise: what they may take, and where their memory is."""

from __future__ import annotations

from typing import Any

import pytest

from headrace_cpu.driver.estimates import contains_blocks
from headrace_cpu.driver.units import frame, may_pause, pointer_to
from headrace_cpu.layout import Unit
from headrace_cpu.llvm.text import Text
from headrace_cpu.scheduling.lists import ListOp


class Loop:
    """Stands for a loop or branch: it has the layouts of blocks."""

    layouts = ()


def unit(call: Any = "a library", begins: int | None = None, keys: tuple[int, ...] = (1,)) -> Unit:
    return Unit(None, call, keys, keys, (), begins=begins)


def push(kind: str = "TensorListPushBack") -> ListOp:
    return ListOp(kind, size=4, count=1, reads=(0, 1))


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
