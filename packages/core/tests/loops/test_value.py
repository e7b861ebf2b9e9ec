"""What values are made of."""

from __future__ import annotations

import headrace as hr
from headrace.loops.value import Value, constant, map_values, reached


def given(name: str) -> Value:
    return Value("input", hr.float32, (3,), (), name)


def test_a_value_is_reached_once_by_however_many_ways() -> None:
    x = given("x")
    y = x * x
    whole = map_values("add", y, y)
    assert [value.op for value in reached(whole)] == ["add", "mul", "input"]


def test_the_last_root_comes_first_and_what_several_share_once() -> None:
    x, y = given("x"), given("y")
    one, other = map_values("mul", x, y), map_values("sub", x, y)
    assert [value.payload or value.op for value in reached(one, other)] == ["sub", "y", "x", "mul"]


def test_equal_values_that_are_not_one_are_two() -> None:
    first, second = constant(1.0, hr.float32), constant(1.0, hr.float32)
    assert len(reached(first, second)) == 2


def test_nothing_is_reached_from_nothing() -> None:
    assert reached() == []
