"""Our vector math against float64 and libm: at most 2 ulp in float32, special values and denormals right."""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import numpy as np
import pytest
from regions import native

from headrace.loops.interpreter import run_region
from headrace.loops.lowering import Output, lower
from headrace.loops.value import Value, map_values
from headrace.types import Array, DType, float32, float64
from headrace_cpu.llvm.host import host
from headrace_cpu.loops.vector_math import write_function

FLOAT32 = np.arange(0, 2**32, 4099, dtype=np.uint64).astype(np.uint32).view(np.float32)
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 1.4e-45, 3.4e38, -3.4e38], np.float32)
_erf = np.frompyfunc(math.erf, 1, 1)


def _sigmoid(x: Array) -> Array:
    decay = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, decay, 1.0) / (1 + decay))


REFERENCES: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "tanh": np.tanh, "sigmoid": _sigmoid,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sqrt": np.sqrt, "erf": lambda x: np.asarray(_erf(x), np.float64),
    "sin": np.sin, "cos": np.cos,
}  # fmt: skip


def computed(name: str, x: Array, dtype: DType, lanes: int | None = None) -> Array:
    """A function of every element, by machine code."""
    value = map_values(name, Value("input", dtype, x.shape, (), "x"))
    (lowered,) = lower(x.shape, (), {}, [Output("y", value)])
    out = np.full(x.shape, 7, x.dtype)
    arrays = {"x": x, "y": out}
    native(lowered.region, lanes)([arrays[str(key)] for key in lowered.keys])
    return out


def ulps(actual: Array, exact: Array) -> Array:
    """How many units in the last place of float32 a result is off."""
    rounded = exact.astype(np.float32)
    spacing = np.spacing(np.abs(rounded).astype(np.float32)).astype(np.float64)
    distance = np.abs(actual.astype(np.float64) - exact) / np.where(np.isfinite(spacing), spacing, 1)
    same = (np.isnan(actual) & np.isnan(exact)) | (actual == rounded)
    return np.where(same, 0.0, distance)


@pytest.mark.parametrize("name", REFERENCES)
def test_float32_is_within_two_units_over_all_magnitudes(name: str) -> None:
    x = np.concatenate([FLOAT32, SPECIAL])
    with np.errstate(all="ignore"):
        exact = REFERENCES[name](x.astype(np.float64))
        off = ulps(computed(name, x, float32), exact)
    worst = int(np.argmax(off))
    assert off[worst] <= 2, f"{name}({x[worst]!r}) is {off[worst]} ulp off"


@pytest.mark.parametrize(
    ("name", "low", "high"), [("tanh", 0.3, 0.8), ("sigmoid", -9.0, -2.0), ("erf", 1.0, 1.2), ("exp", 4.0, 8.0)]
)
def test_where_errors_are_largest_float32_is_within_two_units(name: str, low: float, high: float) -> None:
    first, last = sorted(int(np.float32(end).view(np.uint32)) for end in (low, high))
    x = np.arange(first, last, 17, dtype=np.uint32).view(np.float32)
    assert ulps(computed(name, x, float32), REFERENCES[name](x.astype(np.float64))).max() <= 2


@pytest.mark.parametrize("name", ["exp", "tanh", "sigmoid"])
def test_fewer_lanes_use_no_instruction_of_avx512_and_are_as_right(name: str) -> None:
    x = np.concatenate([FLOAT32[::16], SPECIAL])
    with np.errstate(all="ignore"):
        off = ulps(computed(name, x, float32, 8), REFERENCES[name](x.astype(np.float64)))
    assert off.max() <= 2
    text = write_function(name, "float", 8, 8)
    assert "avx512" not in "".join([text[1], *text[2].values()])


def test_exp_of_float64_has_the_same_bits_with_and_without_avx512() -> None:
    x = np.concatenate([np.linspace(-760, 720, 200_000), SPECIAL]).astype(np.float64)
    assert computed("exp", x, float64, 8).tobytes() == computed("exp", x, float64).tobytes()


@pytest.mark.parametrize("lanes", [8, None])
@pytest.mark.parametrize("name", ["exp", "sigmoid", "tanh"])
def test_what_is_far_beyond_is_the_limit_in_every_lane(name: str, lanes: int | None) -> None:
    far = (10.0 ** np.arange(2.1, 38, 0.1)).astype(np.float32)
    x = np.concatenate([far, -far, [np.inf, -np.inf, np.nan]]).astype(np.float32)
    with np.errstate(all="ignore"):
        exact = REFERENCES[name](x.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_equal(computed(name, x, float32, lanes), exact)


@pytest.mark.skipif("HEADRACE_LONG_TESTS" not in os.environ, reason="an hour; HEADRACE_LONG_TESTS=1 runs it")
@pytest.mark.parametrize("name", REFERENCES)
def test_every_float32_is_within_two_units(name: str) -> None:
    for start in range(0, 2**32, 2**24):
        x = np.arange(start, start + 2**24, dtype=np.uint64).astype(np.uint32).view(np.float32)
        with np.errstate(all="ignore"):
            off = ulps(computed(name, x, float32), REFERENCES[name](x.astype(np.float64)))
        worst = int(np.argmax(off))
        assert off[worst] <= 2, f"{name}({x[worst]!r}) is {off[worst]} ulp off"


@pytest.mark.parametrize("name", [name for name in REFERENCES if name not in ("erf", "sin", "cos")])
def test_float64_is_within_the_tolerance_table(name: str) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=4000) * 10.0 ** rng.integers(-12, 3, 4000), SPECIAL.astype(np.float64)])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(computed(name, x, float64), REFERENCES[name](x), rtol=1e-14, atol=0)


def test_C11_tanh_stays_within_one_and_grows() -> None:
    x = np.append(np.arange(7, 9.1, 0.001), 8.51089).astype(np.float32)
    y = computed("tanh", np.sort(x), float32)
    assert np.abs(y).max() <= 1
    assert (np.diff(y) >= 0).all()


def test_the_interpreter_agrees() -> None:
    x = np.linspace(-3, 3, 50, dtype=np.float32)
    value = map_values("tanh", Value("input", float32, x.shape, (), "x"))
    (lowered,) = lower(x.shape, (), {}, [Output("y", value)])
    out = np.empty_like(x)
    run_region(lowered.region, [{"x": x, "y": out}[str(key)] for key in lowered.keys])
    np.testing.assert_allclose(out, computed("tanh", x, float32), rtol=3e-7)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_angles_next_to_a_multiple_of_a_quarter_turn_keep_their_digits(name: str) -> None:
    turns = np.arange(1, 200_000, 7)
    near = np.concatenate([turns * (math.pi / 2), 2.0 ** np.arange(30, 127) * math.pi]).astype(np.float32)
    hardest = np.array([16367173 * 2.0**72, 6381956970095103 * 2.0**20, -105414350.0, 8.0 * 2.0**27], np.float32)
    x = np.concatenate([near, np.nextafter(near, np.float32(np.inf)), hardest, -near])
    exact = np.array([getattr(math, name)(value) for value in x.tolist()])
    assert ulps(computed(name, x, float32), exact).max() <= 1


@pytest.mark.parametrize("length", range(1, 34))
def test_small_and_large_angles_stand_side_by_side(length: int) -> None:
    x = np.where(np.arange(length) % 3 == 1, 3e30, np.arange(length) / 7).astype(np.float32)
    exact = np.sin(x.astype(np.float64))
    assert ulps(computed("sin", x, float32), exact).max() <= 1


def test_special_angles() -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45], np.float32)
    sine, cosine = computed("sin", x, float32), computed("cos", x, float32)
    np.testing.assert_array_equal(sine, np.array([0, 0, np.nan, np.nan, np.nan, 1e-45, -1e-45], np.float32))
    np.testing.assert_array_equal(np.signbit(sine[:2]), [False, True])
    np.testing.assert_array_equal(cosine, np.array([1, 1, np.nan, np.nan, np.nan, 1, 1], np.float32))


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("name", REFERENCES)
def test_NaN_keeps_its_sign(name: str, lanes: int) -> None:
    """What two NaN of different signs give depends on which comes first, and that on how a loop was compiled."""
    x = np.array([np.nan, -np.nan] * 9, np.float32)
    y = computed(name, x, float32, min(lanes, host().lanes))
    assert np.isnan(y).all()
    np.testing.assert_array_equal(np.signbit(y), np.signbit(x))
    if name not in ("erf", "sin", "cos"):
        np.testing.assert_array_equal(np.signbit(computed(name, x.astype(np.float64), float64)), np.signbit(x))
