"""Operations as loops against their NumPy kernels, and that they are loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.types import Array, as_dtype

DIVISIONS = ["FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod", "Mod"]


def compared(build: Callable[..., hr.Tensor], *values: Array) -> list[str]:
    """Run on NumPy and in native code, with equal bits; what ran there."""
    with hr.Graph().as_default() as graph:
        given = [hr.placeholder(value.dtype, value.shape) for value in values]
        result = build(*given)
    feeds = dict(zip(given, values, strict=True))
    with hr.Session(graph, config=hr.config(backend="numpy")) as session:
        wanted = np.asarray(session.run(result, feeds))
    with hr.Session(graph, config=hr.config(backend="cpu")) as session:
        found = np.asarray(session.run(result, feeds))
        kernels = [work.kernel for work in session.explain(result, feeds).work]
    assert found.dtype == wanted.dtype
    if wanted.dtype.kind in "iu":
        np.testing.assert_array_equal(found, wanted)
        return kernels
    found, wanted = found.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_array_equal(found, wanted)
    assert (np.isnan(wanted) | (np.signbit(found) == np.signbit(wanted))).all()
    return kernels


@pytest.mark.parametrize("op", DIVISIONS)
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint32"])
@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 64, 100, -2, -3, -128])
def test_integers_are_divided_by_constants(op: str, dtype: str, divisor: int) -> None:
    if divisor < 0 and dtype.startswith("u"):
        return
    bounds = np.iinfo(dtype)
    edges = [bounds.min, bounds.min + 1, bounds.max, bounds.max - 1, 0, 1, 2, 3, 5, 63, 64]
    x = np.array([*edges, *np.random.default_rng(0).integers(bounds.min, bounds.max, 40, dtype)], dtype)
    y = np.array(divisor, dtype)
    assert compared(lambda t: hr.apply_op(op, t, hr.constant(y)) + 0, x) == ["headrace_cpu.loops"]


@pytest.mark.parametrize("op", ["FloorDiv", "FloorMod"])
@pytest.mark.parametrize("divisor", [-1, [1, 2, 3]])
def test_other_divisors_are_left_to_numpy(op: str, divisor: Any) -> None:
    x = np.array([-7, 7, -(2**31)], np.int32)
    assert "headrace_cpu.loops" not in compared(lambda t: hr.apply_op(op, t, hr.constant(divisor)), x)


@pytest.mark.parametrize("op", ["FloorDiv", "FloorMod"])
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_division_by_zero_stays_an_error(op: str, backend: str) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder("int32", [2])
        result = hr.apply_op(op, x, hr.constant(0))
    with (
        hr.Session(graph, config=hr.config(backend=backend)) as session,
        pytest.raises(hr.errors.InvalidArgumentError, match="division by zero"),
    ):
        session.run(result, {x: np.array([1, 2], np.int32)})


@pytest.mark.parametrize("op", ["FloorDiv", "TruncateDiv"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_quotients_of_floats_are_rounded(op: str, dtype: str) -> None:
    numbers = [0.0, -0.0, 1.0, -1.0, 0.3, -0.3, 7.5, -7.5, 0.1, 2047.9, 60000.0, np.inf, -np.inf, np.nan]
    x, y = (np.ascontiguousarray(grid).astype(as_dtype(dtype).array_type) for grid in np.meshgrid(numbers, numbers))
    assert compared(lambda a, b: hr.apply_op(op, a, b), x, y) == ["headrace_cpu.loops"]


@pytest.mark.parametrize(
    "index",
    [
        (slice(1, 3),), (slice(None), slice(None, None, 2)), (2,), (-1,), (slice(None, None, -1),), (Ellipsis, 1),
        (slice(3, None), None, 2), (0, slice(1, -1)), (slice(2, 9, 3), slice(3, None, -2)),
    ],
    ids=str,
)  # fmt: skip
def test_slices_are_parts_of_loops(index: Any) -> None:
    x = np.arange(40, dtype=np.float32).reshape(10, 4)
    assert compared(lambda t: t[index] * 2.0, x) == ["headrace_cpu.loops"]


@pytest.mark.parametrize(
    "index", [(slice(1, 3),), (2,), (slice(None, None, 2), 1), (Ellipsis, slice(1, None))], ids=str
)
def test_gradients_of_slices_are_loops(index: Any) -> None:
    def gradient(t: hr.Tensor) -> hr.Tensor:
        part = t[index]
        return hr.gradients(hr.sum(part * part), [t])[0]

    x = np.arange(40, dtype=np.float32).reshape(10, 4)
    assert set(compared(gradient, x)) == {"headrace_cpu.loops"}


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("place", [0, 3, 9, -1, -10])
def test_a_row_by_an_index_that_is_computed_is_copied(dtype: str, place: int) -> None:
    x, index = np.arange(40, dtype=np.float32).reshape(10, 4), np.array(place, dtype)
    assert "headrace_cpu.gather" in compared(lambda t, i: t[i], x, index)
    kernels = compared(lambda t, i: hr.gradients(hr.sum(t[i] * t[i]), [t])[0], x, index)
    assert "headrace_cpu.rows" in kernels
    assert all(kernel.startswith("headrace_cpu.") for kernel in kernels)


@pytest.mark.parametrize("place", [10, -11, 2**31 - 1, -(2**31)])
def test_a_row_that_there_is_not_is_refused(place: int) -> None:
    messages = []
    for backend in ("numpy", "cpu"):
        with hr.Graph().as_default() as graph:
            x, i = hr.placeholder("float32", [10, 4]), hr.placeholder("int32", [])
            row = x[i]
        with (
            hr.Session(graph, config=hr.config(backend=backend)) as session,
            pytest.raises(hr.errors.HeadraceError, match="out of range") as caught,
        ):
            session.run(row, {x: np.zeros((10, 4), np.float32), i: np.array(place, np.int32)})
        messages.append(str(caught.value).partition("created at")[2].partition("\n")[2])
    assert messages[0] == messages[1]


def test_loops_over_rows_with_remainders_and_slices_are_native() -> None:
    def body(i: Any, total: Any) -> Any:
        return i + 1, total + x[i] * hr.astype(i % 3, hr.float32) + x[1, :] * hr.astype(i // 4, hr.float32)

    with hr.Graph().as_default() as graph:
        x = hr.placeholder("float32", [10, 4])
        _, result = hr.while_loop(lambda i, total: i < 10, body, (0, hr.zeros([4])))
        (gradient,) = hr.gradients(hr.sum(result * result), [x])
    given = np.random.default_rng(0).normal(size=(10, 4)).astype(np.float32)
    found = []
    for backend in ("numpy", "cpu"):
        with hr.Session(graph, config=hr.config(backend=backend)) as session:
            found.append(session.run([result, gradient], {x: given}))
            kernels = [work.kernel for work in session.explain([result, gradient], {x: given}).work]
    assert "headrace_cpu.loop" in kernels
    assert not any(kernel.startswith("headrace.") for kernel in kernels), kernels
    for wanted, native in zip(*found, strict=True):
        np.testing.assert_allclose(native, wanted, rtol=2e-5, atol=1e-5)
