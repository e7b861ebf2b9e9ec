"""To integers and back in loops: the bits of the NumPy kernels at every length, for every kind of number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.types import as_dtype

Array = Any
LOW, HIGH = -(2**31), 2**31 - 1
SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45, 2.0**31, -(2.0**31), 127.5, 126.5, -0.5, 0.5, 1e9]


def run(build: Any, backend: str, *arrays: Array) -> tuple[list[Array], list[str]]:
    """What a graph gives, and the kernels that ran."""
    with hr.Graph().as_default() as graph, hr.config(backend=backend):
        inputs = [hr.placeholder(as_dtype(array.dtype), array.shape) for array in arrays]
        outputs = build(*inputs)
        feeds = dict(zip(inputs, arrays, strict=True))
        with hr.Session(graph) as session:
            found = session.run(outputs, feeds=feeds)
            kernels = [item.kernel for item in session.explain(outputs, feeds).work]
    return found, kernels


def compared(build: Any, *arrays: Array) -> None:
    """All in loops, and the same bits as by NumPy."""
    ours, kernels = run(build, "cpu", *arrays)
    theirs, _ = run(build, "numpy", *arrays)
    assert set(kernels) == {"headrace_cpu.loops"}
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()


def numbers(length: int) -> Array:
    """Special numbers, halves of steps and others, in another order at each length."""
    random = np.random.default_rng(length)
    pool = np.array([*SPECIAL, *(np.arange(-40, 40) * 0.25), *random.normal(scale=40, size=40)], np.float32)
    return random.permutation(pool)[:length]


def bounds(low: int, high: int, axis: int = -1) -> dict[str, int]:
    return {"quantization_min_val": low, "quantization_max_val": high, "quantization_axis": axis}


@pytest.mark.parametrize("length", [*range(1, 34), 100])
def test_integers_of_numbers(length: int) -> None:
    def build(x: hr.Tensor) -> list[hr.Tensor]:
        return [
            hr.apply_op("UniformQuantize", x, np.float32(scale), np.int32(zero), Tout=dtype, **bounds(low, high))
            for dtype, scale, zero, low, high in (
                ("qint8", 0.5, 0, -128, 127),
                ("qint8", 0.3, -128, -128, 127),
                ("qint8", 7.0, 127, -127, 100),
                ("quint8", 0.1, 3, 0, 255),
            )
        ]

    compared(build, numbers(length))


@pytest.mark.parametrize("length", [1, 7, 33])
def test_sums_of_integers_and_the_numbers_that_they_mean(length: int) -> None:
    """Sums wrap in int32 as the kernels' do; a bias that is one number everywhere is no array."""
    random = np.random.default_rng(length)
    sums = random.integers(LOW, HIGH, (5, length)).astype(np.int32)
    sums[0], sums[1] = HIGH, LOW
    scales, zeros = random.uniform(0.1, 1, length).astype(np.float32), np.zeros(length, np.int32)

    def build(x: hr.Tensor) -> list[hr.Tensor]:
        results = []
        for bias in (np.full(length, 5, np.int32), random_bias):
            ranges = {
                f"{side}_{name}": value
                for side, axis in (("lhs", 1), ("rhs", 0), ("output", 1))
                for name, value in bounds(LOW, HIGH - 1 if side == "output" else HIGH, axis).items()
            }
            total = hr.apply_op(
                "UniformQuantizedAdd", x, bias.view(as_dtype("qint32").array_type), *(scales, zeros) * 3, **ranges
            )
            wide = hr.apply_op("UniformDequantize", total, scales, zeros + 3, Tout="float32", **bounds(LOW, HIGH, 1))
            results += [total, wide]
        return results

    random_bias = random.integers(LOW, HIGH, length).astype(np.int32)
    compared(build, sums.view(as_dtype("qint32").array_type))


def test_bytes_that_are_only_moved_stay_what_they_are() -> None:
    bytes_ = np.arange(-128, 128, dtype=np.int8).reshape(4, 64).view(as_dtype("qint8").array_type)

    def build(x: hr.Tensor) -> list[hr.Tensor]:
        return [
            hr.apply_op(
                "UniformDequantize", hr.reshape(x, [64, 4]), np.float32(0.5), np.int32(-3), Tout="float32",
                **bounds(-128, 127),
            )
        ]  # fmt: skip

    compared(build, bytes_)
