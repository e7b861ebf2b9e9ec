"""Powers in loops against exact values: at most 2 ulp, and the special values of IEEE 754 as NumPy has them."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
from regions import native

import headrace as hr
from headrace.loops.lowering import Output, lower
from headrace.loops.value import Value, map_values
from headrace.types import Array, DType, as_dtype, float32, float64
from headrace_cpu.loops import powers

SPECIAL = [
    0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 0.5, 1.5, 1 / 3, math.inf, math.nan, 1e-40, 5e-324, 1e300, 1e-300, 2.0**53,
    2.0**53 - 1, 2.0**24 - 1, 0.999999, 1.0000001, 1e20, 7.0, 127.0, 1023.5,
]  # fmt: skip


def power(x: Array, y: Array, dtype: DType, lanes: int | None = None) -> Array:
    """x**y by machine code."""
    values = [Value("input", dtype, x.shape, (), key) for key in "xy"]
    (lowered,) = lower(x.shape, (), {}, [Output("z", map_values("pow", *values))])
    memory = {"x": x, "y": y, "z": np.full(x.shape, 7, x.dtype)}
    native(lowered.region, lanes)([memory[str(key)] for key in lowered.keys])
    return memory["z"]


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("lanes", [1, 8, None])
def test_special_values_are_those_of_numpy(dtype: DType, lanes: int | None) -> None:
    with np.errstate(all="ignore"):
        numbers = np.array([*SPECIAL, *(-number for number in SPECIAL)]).astype(dtype.array_type)
        x, y = (np.ascontiguousarray(grid.reshape(-1)) for grid in np.meshgrid(numbers, numbers))
        wanted, given = np.power(x, y), power(x, y, dtype, lanes)
        close = np.abs(given - wanted) <= 4 * np.spacing(np.abs(wanted))  # two of ours, and what NumPy is off
        same = (given == wanted) | (np.isnan(given) & np.isnan(wanted)) | close
        same &= np.isnan(wanted) | (np.signbit(given) == np.signbit(wanted))
    assert same.all(), f"{x[~same][:5]} ** {y[~same][:5]} = {wanted[~same][:5]}, not {given[~same][:5]}"


@pytest.mark.parametrize("element", ["float", "double"])
def test_avx512_scales_by_one_instruction_where_there_is_one(element: str) -> None:
    def written(width: int) -> str:
        _, body, needed = powers.write_power(element, 4 * width, width)
        return "".join([body, *needed.values()])

    assert "avx512.mask.scalef" in written(16)
    assert "avx512" not in written(8)


def test_float32_is_rounded_from_the_exact_power() -> None:
    rng = np.random.default_rng(0)
    with np.errstate(over="ignore"):
        x = np.exp(rng.normal(size=100_000) * 20).astype(np.float32)
    y = (rng.normal(size=x.size) * 10.0 ** rng.uniform(-3, 2, x.size)).astype(np.float32)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
        rounded, given = exact.astype(np.float32), power(x, y, float32)
        off = np.abs(given.astype(np.float64) - exact) / np.spacing(np.abs(rounded))
    normal = np.isfinite(rounded) & (rounded > 0)
    assert normal.sum() > 50_000
    assert off[normal].max() <= 0.51
    np.testing.assert_array_equal(given[~normal], rounded[~normal])


def test_float64_is_within_two_units_of_the_exact_power() -> None:
    rng = np.random.default_rng(0)
    near_one = np.abs(1 + rng.normal(size=1000) * 10.0 ** rng.uniform(-15, -1, 1000))
    x = np.concatenate([np.exp(rng.normal(size=1000) * 20), near_one, rng.uniform(0.6, 1.6, 1000)])
    y = rng.uniform(-744, 709, x.size) * rng.uniform(0, 1, x.size) ** 2
    with np.errstate(all="ignore"):
        y = np.where(x == 1, y, y / np.log(x))
    context = Context(prec=60, Emin=-(10**9), Emax=10**9)
    for base, exponent, given in zip(x.tolist(), y.tolist(), power(x, y, float64).tolist(), strict=True):
        exact = context.exp(context.multiply(Decimal(exponent), context.ln(Decimal(base))))
        assert abs(Decimal(given) - exact) <= 2 * Decimal(math.ulp(float(exact))), f"{base!r} ** {exponent!r}"


def test_a_row_of_the_table_leaves_an_exact_remainder() -> None:
    inverses, _, _ = powers._rows()
    for row, inverse in enumerate(inverses):
        first = powers.FIRST + (row << 52 - powers.INDEX_BITS)
        for bits in (first, first + 1, first + 0x12345_6789A, first + (1 << 52 - powers.INDEX_BITS) - 1):
            m = Fraction(float(np.array(bits, np.uint64).view(np.float64)))
            rest = m * Fraction(inverse) - 1
            assert abs(rest) <= Fraction(1, 100)
            assert Fraction(float(rest)) == rest


@pytest.mark.parametrize("length", range(1, 34))
def test_every_length_has_the_same_bits(length: int) -> None:
    rng = np.random.default_rng(0)
    x, y = np.exp(rng.normal(size=(2, 64)) * 3).astype(np.float32)
    np.testing.assert_array_equal(power(x[:length].copy(), y[:length].copy(), float32), power(x, y, float32)[:length])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("exponent", [None, 0.0, 1.0, 2.0, 3.0, -1.0, 0.5])
def test_the_operation_gives_what_the_numpy_kernel_gives(dtype: str, exponent: float | None) -> None:
    with hr.Graph().as_default() as graph:
        x, y = hr.placeholder(dtype, [5, 7]), hr.placeholder(dtype, [7])
        z = hr.pow(x, y if exponent is None else exponent)
    kind = as_dtype(dtype).array_type
    rng = np.random.default_rng(0)
    feeds = {x: (rng.normal(size=(5, 7)) * 3).astype(kind), y: np.arange(-3, 4).astype(kind)}
    results = []
    for backend in ("numpy", "cpu"):
        with hr.Session(graph, config=hr.config(backend=backend)) as session:
            if backend == "cpu":
                assert [item.kernel for item in session.explain(z, feeds).work] == ["headrace_cpu.loops"]
            results.append(np.asarray(session.run(z, feeds), np.float64))
    limit = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 4e-7, "float64": 1e-15}[dtype]
    np.testing.assert_allclose(results[1], results[0], rtol=limit)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
@pytest.mark.parametrize("exponent", [0, 1, 2, 5, 64])
def test_constant_whole_powers_of_integers_wrap_as_in_numpy(dtype: str, exponent: int) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(dtype, [40])
        z = hr.pow(x, hr.constant(exponent, dtype))
    given = np.random.default_rng(0).integers(0, 100, 40).astype(dtype)
    with hr.Session(graph, config=hr.config(backend="cpu")) as session:
        assert [item.kernel for item in session.explain(z, {x: given}).work] == ["headrace_cpu.loops"]
        np.testing.assert_array_equal(session.run(z, {x: given}), np.power(given, np.array(exponent, dtype)))


def test_integers_refuse_a_negative_power() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder("int32", [2])
        z = hr.pow(x, hr.constant(-1))
    with (
        hr.Session(graph, config=hr.config(backend="cpu")) as session,
        pytest.raises(hr.errors.InvalidArgumentError, match="cannot be raised to a negative integer power"),
    ):
        session.run(z, {x: np.array([1, 2], np.int32)})
