"""The form of a region is what it computes: who built it, and what it is called, does not matter."""

from __future__ import annotations

import math
from typing import Any

import pytest

from headrace.loops.ir import Access, Accumulate, Axis, Buffer, Builder, Expr, Loop, Region, Store, form_of
from headrace.types import DType, float32, int32

PLACE = Access(0, ((0, 8), (1, 1)))


def region(
    op: str = "add",
    number: Any = 2.0,
    *,
    dtype: DType = float32,
    name: str = "r",
    access: Access = PLACE,
    size: int = 32,
) -> Region:
    """(x op number) of each element, and the sum of each row."""
    builder = Builder()
    x = builder.make("load", dtype, (), (0, access))
    value = builder.make(op, dtype, (x, builder.make("const", dtype, (), number)))
    inner = Loop((Axis(1, 8),), (Accumulate(0, "sum", value),), (Store(1, PLACE, value),))
    total = Loop((), stores=(Store(2, Access(0, ((0, 1),)), builder.make("local", dtype, (), 0)),))
    buffers = Buffer(dtype, 32, "in"), Buffer(dtype, size, "out"), Buffer(dtype, 4, "out")
    return Region(name, (4,), buffers, (inner, total))


def test_values_of_a_loop_are_what_it_reduces_and_what_it_writes() -> None:
    a, b, c, d = (Expr("const", float32, (), float(number)) for number in range(4))
    sums = Accumulate(0, "sum", a), Accumulate(1, "max", b)
    assert Loop((), sums, (Store(0, PLACE, c),), (Store(1, PLACE, d),)).values == (a, b, c, d)
    assert Loop(()).values == ()


def test_regions_that_were_built_apart_have_one_form() -> None:
    one, other = region(name="layer1"), region(name="layer2")
    assert one.loops[0].stores[0].value is not other.loops[0].stores[0].value
    assert form_of(one) == form_of(other)
    assert hash(form_of(one)) == hash(form_of(other))
    assert form_of(region(number=math.nan)) == form_of(region(number=math.nan))


@pytest.mark.parametrize(
    "other",
    [
        region("sub"),
        region(number=3.0),
        region(dtype=int32),
        region(access=Access(1, PLACE.terms)),
        region(size=33),
        Region("r", (5,), region().buffers, region().loops),
        Region("r", (4,), region().buffers, region().loops[:1]),
        Region("r", (4,), region().buffers, region().loops[::-1]),
    ],
    ids=["operator", "number", "dtype", "access", "size", "points", "loops", "order"],
)
def test_regions_that_differ_have_forms_that_do(other: Region) -> None:
    assert form_of(region()) != form_of(other)


def test_numbers_that_compare_equal_are_told_apart() -> None:
    assert form_of(region(number=0.0)) != form_of(region(number=-0.0))
    assert form_of(region(dtype=int32, number=1)) != form_of(region(dtype=int32, number=True))


def test_which_of_two_values_is_used_twice_shows() -> None:
    """x * x + y and x * y + x have the same operators in the same order."""

    def of(pick: tuple[int, int, int]) -> Region:
        builder = Builder()
        loads: list[Expr] = [builder.make("load", float32, (), (buffer, PLACE)) for buffer in (0, 1)]
        product = builder.make("mul", float32, (loads[pick[0]], loads[pick[1]]))
        value = builder.make("add", float32, (product, loads[pick[2]]))
        buffers = Buffer(float32, 32, "in"), Buffer(float32, 32, "in"), Buffer(float32, 32, "out")
        return Region("r", (4,), buffers, (Loop((Axis(1, 8),), stores=(Store(2, PLACE, value),)),))

    assert form_of(of((0, 0, 1))) != form_of(of((0, 1, 0)))
    assert form_of(of((0, 1, 0))) == form_of(of((0, 1, 0)))


def test_a_deep_chain_has_a_form() -> None:
    builder = Builder()
    value = builder.make("load", float32, (), (0, PLACE))
    for number in range(20_000):
        value = builder.make("add", float32, (value, builder.make("const", float32, (), float(number))))
    buffers = Buffer(float32, 32, "in"), Buffer(float32, 32, "out")
    deep = Region("r", (4,), buffers, (Loop((Axis(1, 8),), stores=(Store(1, PLACE, value),)),))
    assert form_of(deep) == form_of(deep)
