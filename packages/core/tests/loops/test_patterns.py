"""Patterns: groups that differ only in their memory have one region, and all others have their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from headrace import loops
from headrace.loops.interpreter import run_region
from headrace.loops.lowering import LoweredRegion, NotLowered, Output, Partial, lower
from headrace.loops.patterns import lower_once
from headrace.loops.value import Piece, Value, constant
from headrace.types import DType, float32, float64, int32

SHAPE = (4, 10)


def value_of(key: object, shape: Sequence[int] = SHAPE, dtype: DType = float32) -> Value:
    return Value("input", dtype, tuple(shape), (), key)


def layer(x: str, y: str, mean: str) -> list[LoweredRegion]:
    """What is computed in two operations, the second of which reads what the first one makes."""
    average = loops.mean(value_of(x), -1, keepdims=True)
    centred = value_of(x) - value_of(mean, (4, 1))
    return lower_once(SHAPE, (1,), {mean: average, y: centred}, [Output(y, centred)])


def test_groups_that_differ_in_their_memory_have_one_region() -> None:
    (one,), (other,) = layer("x1", "y1", "mean1"), layer("x2", "y2", "mean2")
    assert one.region is other.region
    assert (one.keys, other.keys) == (("x1", "y1"), ("x2", "y2"))
    assert (one.identity, other.identity) == (frozenset({"x1"}), frozenset({"x2"}))


def test_it_is_what_lowering_gives() -> None:
    x = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    for number in range(2):
        (lowered,) = layer(f"x{number}", f"y{number}", f"mean{number}")
        memory = {f"x{number}": x.reshape(-1).copy(), f"y{number}": np.zeros(40, np.float32)}
        run_region(lowered.region, [memory[str(key)] for key in lowered.keys])
        wanted = (x - x.mean(-1, keepdims=True, dtype=np.float64)).reshape(-1)
        np.testing.assert_allclose(memory[f"y{number}"], wanted, rtol=1e-6, atol=1e-6)


def test_partial_results_stay_what_they_are() -> None:
    """Whoever takes them tells those of different groups apart."""
    first, second = (
        lower_once((200_000,), (0,), {}, [Output(f"sum{n}", loops.sum(value_of(f"x{n}", (200_000,))))])
        for n in range(2)
    )
    assert [part.region for part in first] == [part.region for part in second]
    assert [part.keys for part in second] == [("x1", Partial(0)), ("sum1", Partial(0))]


def of(
    build: Callable[[Value, Value], Value] = lambda a, b: a * 2.0 + b,
    *,
    shape: tuple[int, ...] = SHAPE,
    axes: tuple[int, ...] = (),
    dtype: DType = float32,
    keys: tuple[str, str] = ("a", "b"),
    piece: Piece | None = None,
) -> LoweredRegion:
    a, b = (value_of(key, shape, dtype) for key in keys)
    (lowered,) = lower_once(shape, axes, {}, [Output("y", build(a, b), piece)])
    return lowered


@pytest.mark.parametrize(
    "other",
    [
        {"build": lambda a, b: a * 2.0 - b},
        {"build": lambda a, b: a * 3.0 + b},
        {"build": lambda a, b: b + a * 2.0},
        {"build": lambda a, b: (a * 2.0 + b) * 1.0},
        {"shape": (10, 4)},
        {"dtype": float64},
        {"keys": ("a", "a")},
        {"keys": ("y", "b")},
        {"piece": Piece((4, 20), (0, 10), (1, 1))},
        {"piece": Piece((4, 20), (0, 0), (1, 1))},
        {"build": lambda a, b: loops.sum(a * 2.0 + b, 1), "axes": (1,)},
        {"build": lambda a, b: loops.sum(a * 2.0 + b, 0), "axes": (0,)},
    ],
    ids=[
        "operator", "number", "order", "another one after it", "shape", "dtype", "one memory twice", "in place",
        "piece", "piece elsewhere", "reduction of rows", "reduction of columns",
    ],
)  # fmt: skip
def test_groups_that_differ_otherwise_have_their_own(other: dict[str, object]) -> None:
    assert of(**other).region is not of().region  # type: ignore[arg-type]  # any of its options
    assert of(**other).region is of(**other).region  # type: ignore[arg-type]


def test_which_of_two_values_is_used_twice_shows() -> None:
    """a * a + b and a * b + a have the same operators in the same order."""
    assert of(lambda a, b: a * a + b).region is not of(lambda a, b: a * b + a).region


def test_numbers_that_compare_equal_are_told_apart() -> None:
    """-0.0 + x is x for every x, 0.0 + x is not; a region of one must not compute the other."""
    assert of(lambda a, b: a + 0.0).region is not of(lambda a, b: a + -0.0).region
    assert of(lambda a, b: a + math.nan).region is of(lambda a, b: a + float("nan")).region
    assert of(lambda a, b: a + math.nan).region is not of(lambda a, b: a + -math.nan).region
    single = [of(lambda a, b, n=n: a + np.float32(n)) for n in (0.0, -0.0)]  # type: ignore[misc]
    assert single[0].region is not single[1].region
    number, flag = (of(lambda a, b, n=n: a + constant(n, int32), dtype=int32) for n in (1, True))  # type: ignore[misc]
    assert number.region is not flag.region


def test_a_group_that_does_not_fit_is_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(NotLowered, match="another shape than the space"):
            lower_once((4, 5), (), {}, [Output("y", value_of("x"))])


def test_keys_of_any_kind_are_only_names() -> None:
    """A number that is a key is not taken for the number of a memory in the pattern."""
    x, y = value_of(1), value_of(0)
    outputs = [Output(2, x - y)]
    (once,), (plain,) = lower_once(SHAPE, (), {}, outputs), lower(SHAPE, (), {}, outputs)
    assert (once.keys, once.identity) == (plain.keys, plain.identity)
