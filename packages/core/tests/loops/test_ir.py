"""The IR: what its parts say of themselves, and that numbers that compare equal are told apart."""

from __future__ import annotations

import math

from headrace.loops.ir import Access, Accumulate, Expr, Loop, Store, comparable
from headrace.types import float32

PLACE = Access(0, ((0, 8), (1, 1)))


def test_values_of_a_loop_are_what_it_reduces_and_what_it_writes() -> None:
    a, b, c, d = (Expr("const", float32, (), float(number)) for number in range(4))
    sums = Accumulate(0, "sum", a), Accumulate(1, "max", b)
    assert Loop((), sums, (Store(0, PLACE, c),), (Store(1, PLACE, d),)).values == (a, b, c, d)
    assert Loop(()).values == ()


def test_numbers_that_compare_equal_are_told_apart() -> None:
    assert comparable(0.0) != comparable(-0.0)
    assert comparable(1) != comparable(True)
    assert comparable(0) != comparable(False)
    assert comparable(math.nan) != comparable(-math.nan)
    assert comparable(math.nan) == comparable(float("nan"))
    assert comparable((0, PLACE)) == comparable((0, PLACE))
