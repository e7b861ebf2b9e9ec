"""Scans against the NumPy kernels: the same bits in every form, on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.types import Array, as_dtype


def scanned(
    backend: str, op: str, x: Array, axis: int, *, exclusive: bool, reverse: bool, threads: int = 1
) -> tuple[Array, str]:
    with hr.Graph().as_default() as graph:
        given = hr.placeholder(x.dtype, x.shape)
        result = hr.apply_op(op, given, axis, exclusive=exclusive, reverse=reverse)
    with hr.Session(graph, config=hr.config(backend=backend, threads=threads)) as session:
        (work,) = session.explain(result, {given: x}).work
        return np.asarray(session.run(result, {given: x})), work.kernel


@pytest.mark.parametrize("op", ["Cumsum", "Cumprod"])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(1,), (2,), (33,), (3, 17), (17, 3), (4, 1, 5), (2, 9, 33), (1, 40)])
def test_scans_have_the_bits_of_the_numpy_kernel(
    op: str, exclusive: bool, reverse: bool, shape: tuple[int, ...]
) -> None:
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    for axis in range(-len(shape), len(shape)):
        wanted, _ = scanned("numpy", op, x, axis, exclusive=exclusive, reverse=reverse)
        found, kernel = scanned("cpu", op, x, axis, exclusive=exclusive, reverse=reverse)
        assert kernel == "headrace_cpu.scan"
        assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64"])
def test_scans_of_every_dtype(dtype: str) -> None:
    x = np.random.default_rng(0).integers(0, 30, (5, 19)).astype(as_dtype(dtype).array_type)
    wanted, _ = scanned("numpy", "Cumsum", x, 1, exclusive=False, reverse=False)
    assert scanned("cpu", "Cumsum", x, 1, exclusive=False, reverse=False)[0].tobytes() == wanted.tobytes()


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
def test_scans_of_nothing(shape: tuple[int, ...]) -> None:
    found, _ = scanned("cpu", "Cumsum", np.zeros(shape, np.float32), 0, exclusive=True, reverse=False)
    assert found.shape == shape


def test_what_is_no_number_goes_on() -> None:
    x = np.array([1, np.inf, -np.inf, 2, -0.0], np.float32)
    found, _ = scanned("cpu", "Cumsum", x, 0, exclusive=False, reverse=False)
    np.testing.assert_array_equal(found, [1, np.inf, np.nan, np.nan, np.nan])
    backward, _ = scanned("cpu", "Cumsum", np.array([-0.0], np.float32), 0, exclusive=False, reverse=True)
    assert np.signbit(backward[0])


def test_bits_do_not_depend_on_threads() -> None:
    x = np.random.default_rng(0).normal(size=(40, 500, 33)).astype(np.float32)
    one, two = (scanned("cpu", "Cumsum", x, 1, exclusive=False, reverse=False, threads=n)[0] for n in (1, 2))
    assert one.tobytes() == two.tobytes()


def test_scans_run_in_native_loops() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder("float32", [3, 4])
        _, result = hr.while_loop(lambda i, s: i < 4, lambda i, s: (i + 1, hr.cumulative_sum(s, axis=1)), (0, x))
    with hr.Session(graph, config=hr.config(backend="cpu")) as session:
        given = np.ones((3, 4), np.float32)
        assert "headrace_cpu.loop" in [work.kernel for work in session.explain(result, {x: given}).work]
        np.testing.assert_array_equal(session.run(result, {x: given})[0], [1, 5, 15, 35])
