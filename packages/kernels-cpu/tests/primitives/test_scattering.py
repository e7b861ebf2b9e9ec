"""Sums of rows, and changes of rows of variables, against the NumPy kernels: values, errors, bits on threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.types import Array

OPTIMIZERS: dict[str, Callable[[], hr.optim.Optimizer]] = {
    "SGD": lambda: hr.optim.SGD(0.1),
    "Momentum": lambda: hr.optim.Momentum(0.1, momentum=0.9),
    "Nesterov": lambda: hr.optim.Momentum(0.1, momentum=0.9, nesterov=True),
    "Adam": lambda: hr.optim.Adam(0.1),
    "Adagrad": lambda: hr.optim.Adagrad(0.1),
    "RMSProp": lambda: hr.optim.RMSProp(0.1),
    "Adadelta": lambda: hr.optim.Adadelta(0.1),
}


def trained(
    backend: str, make: Callable[[], hr.optim.Optimizer], table: Array, ids: Array, threads: int = 1, steps: int = 3
) -> tuple[Array, list[str]]:
    """The table after some steps, and what computed them."""
    with hr.Graph().as_default() as graph:
        variable = hr.Variable(table, name="table")
        given = hr.placeholder(ids.dtype, ids.shape)
        rows = hr.gather(variable, given)
        train = make().minimize(hr.sum(rows * rows * 0.5))
    with hr.Session(graph, config=hr.config(backend=backend, threads=threads)) as session:
        for step in range(steps):
            session.run(train, {given: np.roll(ids, step)})
        kernels = [work.kernel for work in session.explain(train, {given: ids}).work]
        return np.asarray(session.run(variable.value)), kernels


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_updates_of_used_rows_are_native_as_a_whole(optimizer: str) -> None:
    rng = np.random.default_rng(0)
    table, ids = rng.normal(size=(50, 7)).astype(np.float32), rng.integers(0, 50, 33).astype(np.int32)
    wanted, _ = trained("numpy", OPTIMIZERS[optimizer], table, ids)
    found, kernels = trained("cpu", OPTIMIZERS[optimizer], table, ids)
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-7)
    assert all(kernel.startswith("headrace_cpu.") for kernel in kernels), kernels


@pytest.mark.parametrize("count", range(1, 34))
def test_every_number_of_rows(count: int) -> None:
    rng = np.random.default_rng(count)
    table, ids = rng.normal(size=(20, count)).astype(np.float32), rng.integers(0, 20, count)
    wanted, _ = trained("numpy", OPTIMIZERS["SGD"], table, ids)
    np.testing.assert_allclose(trained("cpu", OPTIMIZERS["SGD"], table, ids)[0], wanted, rtol=2e-6)


@pytest.mark.parametrize("shape", [(9,), (9, 1), (9, 2, 3), (1, 4)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_tables_of_other_ranks_and_dtypes(shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=shape).astype(dtype)
    ids = np.minimum(np.array([0, 3, 3, 8, 0, 0]), shape[0] - 1)
    wanted, _ = trained("numpy", OPTIMIZERS["Momentum"], table, ids)
    limit = 2e-3 if dtype == "float16" else 2e-6
    np.testing.assert_allclose(trained("cpu", OPTIMIZERS["Momentum"], table, ids)[0], wanted, rtol=limit, atol=limit)


def test_the_switch_leaves_updates_to_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    table, ids = np.ones((5, 4), np.float32), np.array([1, 1, 2])
    fused, _ = trained("cpu", OPTIMIZERS["SGD"], table, ids)
    monkeypatch.setenv("HEADRACE_NATIVE_ROWS", "off")
    found, kernels = trained("cpu", OPTIMIZERS["SGD"], table, ids)
    assert "headrace.kernels.search._unique" in kernels
    np.testing.assert_allclose(found, fused, rtol=1e-6)


def test_bits_do_not_depend_on_threads() -> None:
    rng = np.random.default_rng(0)
    table, ids = rng.normal(size=(3000, 100)).astype(np.float32), rng.integers(0, 700, 4000)
    one, two = (trained("cpu", OPTIMIZERS["Adam"], table, ids, threads)[0] for threads in (1, 2))
    assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize("wrong", [5, -1, -(2**31), 2**31 - 1])
def test_a_wrong_row_is_an_error_and_nothing_changes(wrong: int) -> None:
    with hr.Graph().as_default() as graph:
        variables = [hr.Variable(np.ones((5, 4), np.float32), name=name) for name in ("a", "b")]
        ids = hr.placeholder("int32", [3])
        slices = [hr.IndexedSlices(hr.ones([3, 4]), ids, hr.constant([5, 4])) for _ in variables]
        train = hr.optim.SGD(1.0).apply_gradients(list(zip(slices, variables, strict=True)))
    with hr.Session(graph, config=hr.config(backend="cpu")) as session:
        with pytest.raises(hr.errors.OutOfRangeError, match=rf"0 <= index < 5[\s\S]*got:\s+{wrong}"):
            session.run(train, {ids: np.array([0, wrong, 1], np.int32)})
        for variable in variables:
            np.testing.assert_array_equal(session.run(variable.value), np.ones((5, 4)))
        session.run(train, {ids: np.array([0, 4, 0], np.int32)})
        np.testing.assert_array_equal(session.run(variables[1].value)[:, 0], [-1, 1, 1, 1, 0])


def changed(backend: str, how: str, table: Array, ids: Array, updates: Array, threads: int = 1) -> Array:
    with hr.Graph().as_default() as graph:
        variable = hr.Variable(table)
        given, rows = hr.placeholder(ids.dtype, ids.shape), hr.placeholder(updates.dtype, updates.shape)
        change = getattr(variable.rows(given), how)(rows)
    with hr.Session(graph, config=hr.config(backend=backend, threads=threads)) as session:
        session.run(change, {given: ids, rows: updates})
        return np.asarray(session.run(variable.value))


@pytest.mark.parametrize("how", ["assign", "assign_add", "assign_sub"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "float16", "uint8"])
@pytest.mark.parametrize("ids", [(0,), (1,), (5,), (3, 4)])
def test_rows_change_as_the_numpy_kernels_change_them(how: str, dtype: str, ids: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    table, updates = (rng.integers(0, 60, shape).astype(dtype) for shape in ((6, 5), (*ids, 5)))
    places = rng.integers(0, 6, ids)
    wanted = changed("numpy", how, table, places, updates)
    np.testing.assert_array_equal(changed("cpu", how, table, places, updates), wanted)


def test_many_changes_have_the_same_bits_on_threads() -> None:
    rng = np.random.default_rng(0)
    table, updates = rng.normal(size=(200, 128)), rng.normal(size=(3000, 128))
    places = rng.integers(0, 200, 3000)
    one, two = (changed("cpu", "assign_add", table, places, updates, threads) for threads in (1, 2))
    assert one.tobytes() == two.tobytes()
    np.testing.assert_allclose(one, changed("numpy", "assign_add", table, places, updates), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("wrong", [6, -1])
def test_a_wrong_index_of_a_change_leaves_the_variable_alone(wrong: int) -> None:
    with hr.Graph().as_default() as graph:
        other, variable = hr.Variable(1.0), hr.Variable(np.zeros((6, 2), np.float32))
        ids = hr.placeholder("int32", [2])
        changes = [other.assign_add(1.0), variable.rows(ids).assign_add(hr.ones([2, 2]))]
    with hr.Session(graph, config=hr.config(backend="cpu")) as session:
        with pytest.raises(hr.errors.OutOfRangeError, match="0 <= index < 6"):
            session.run(changes, {ids: np.array([1, wrong], np.int32)})
        np.testing.assert_array_equal(session.run(variable.value), np.zeros((6, 2)))
        session.run(changes, {ids: np.array([1, 5], np.int32)})
        np.testing.assert_array_equal(session.run(variable.value)[:, 0], [0, 1, 0, 0, 0, 1])


def summed(backend: str, data: Array, ids: Array, segments: int, threads: int = 1) -> tuple[Array, str]:
    with hr.Graph().as_default() as graph:
        rows, given = hr.placeholder(data.dtype, data.shape), hr.placeholder(ids.dtype, ids.shape)
        total = hr.unsorted_segment_sum(rows, given, segments)
    with hr.Session(graph, config=hr.config(backend=backend, threads=threads)) as session:
        (work,) = session.explain(total, {rows: data, given: ids}).work
        return np.asarray(session.run(total, {rows: data, given: ids})), work.kernel


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("width", [*range(1, 10), 16, 17, 33])
def test_sums_of_segments(dtype: str, width: int) -> None:
    rng = np.random.default_rng(width)
    data, ids = rng.integers(-50, 50, (21, width)).astype(dtype), rng.integers(-1, 6, 21).astype(np.int32)
    wanted, _ = summed("numpy", data, ids, 7)
    found, kernel = summed("cpu", data, ids, 7)
    assert kernel == "headrace_cpu.rows"
    np.testing.assert_array_equal(found, wanted)


def test_segments_keep_the_sign_of_zero_and_what_is_no_number() -> None:
    data = np.array([-0.0, -0.0, np.nan, np.inf, -np.inf, -0.0, 0.0], np.float32)
    ids = np.array([0, 1, 2, 3, 3, 1, 5])
    found, _ = summed("cpu", data, ids, 7)
    wanted, _ = summed("numpy", data, ids, 7)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found[[0, 1, 4, 5, 6]]), [True, True, False, False, False])


@pytest.mark.parametrize(("data", "ids"), [((3, 4, 5), (3, 4)), ((4,), (4,)), ((0, 3), (0,)), ((3, 0), (3,))])
def test_segments_of_other_ranks(data: tuple[int, ...], ids: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    rows, given = rng.normal(size=data).astype(np.float32), rng.integers(0, 4, ids)
    np.testing.assert_allclose(summed("cpu", rows, given, 4)[0], summed("numpy", rows, given, 4)[0], rtol=1e-6)


def test_large_sums_have_the_same_bits_on_threads() -> None:
    rng = np.random.default_rng(0)
    data, ids = rng.normal(size=(5000, 64)).astype(np.float32), rng.integers(-1, 300, 5000)
    one, two = (summed("cpu", data, ids, 300, threads)[0] for threads in (1, 2))
    assert one.tobytes() == two.tobytes()
    np.testing.assert_allclose(one, summed("numpy", data, ids, 300)[0], rtol=1e-4, atol=1e-5)


def test_a_segment_that_there_is_not_is_refused() -> None:
    with pytest.raises(hr.errors.OutOfRangeError, match=r"id < 3[\s\S]*got:\s+3"):
        summed("cpu", np.ones((2, 2), np.float32), np.array([0, 3]), 3)


def test_sums_of_segments_run_in_native_loops() -> None:
    def body(i: Any, total: Any) -> Any:
        return i + 1, total + hr.unsorted_segment_sum(hr.ones([4, 3]), hr.constant([0, 1, 1, -1]), 2)

    with hr.Graph().as_default() as graph:
        _, result = hr.while_loop(lambda i, total: i < 5, body, (0, hr.zeros([2, 3])))
    with hr.Session(graph, config=hr.config(backend="cpu")) as session:
        np.testing.assert_array_equal(session.run(result), [[5, 5, 5], [10, 10, 10]])
