"""Products of few rows against float64, with what is added to them, in all shapes of tiles, on one thread and more."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.types import Array
from headrace_cpu.onednn import onednn

KERNEL = "headrace_cpu.few_rows"


def product(
    x: Array, w: Array, *added: Array, threads: int = 1, turned: bool = False, relu: bool = False
) -> tuple[Array, list[str]]:
    """X w, what is added to that and relu, w from a variable in which it may lie turned; and what computed it."""
    with hr.Graph().as_default() as graph:
        feeds = {hr.placeholder(array.dtype, array.shape): array for array in (x, *added)}
        given, *others = feeds
        result = hr.matmul(given, hr.Variable(w.T if turned else w).value, transpose_b=turned)
        for other in others:
            result = result + other
        result = hr.nn.relu(result) if relu else result
    with hr.Session(graph, config=hr.config(backend="cpu", threads=threads)) as session:
        work = session.explain(result, feeds).work
        return np.asarray(session.run(result, feeds)), [item.kernel for item in work]


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def assert_close(found: Array, x: Array, w: Array, *added: Array) -> None:
    """Within what sums of `inner` products in float32 may be off."""
    wide = x.astype(np.float64) @ w.astype(np.float64) + sum(np.asarray(other, np.float64) for other in added)
    size = np.abs(x).astype(np.float64) @ np.abs(w) + sum(np.abs(other) for other in added)
    assert (np.abs(found - wide) <= (x.shape[1] + 2) * 2.0**-24 * size).all()


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 7, 8])
@pytest.mark.parametrize("inner", [1, 3, 4, 8, 9, 100])
@pytest.mark.parametrize("columns", [1, 8, 15, 16, 17, 80, 255, 256, 257, 600])
@pytest.mark.parametrize("turned", [False, True])
def test_products_of_few_rows(rows: int, inner: int, columns: int, turned: bool) -> None:
    x, w = normal(rows, inner), normal(inner, columns, seed=1)
    found, kernels = product(x, w, turned=turned)
    assert kernels == [KERNEL]
    assert_close(found, x, w)


@pytest.mark.parametrize("rows", [9, 10, 31, 32])
@pytest.mark.parametrize("columns", [80, 256, 272, 528])
def test_more_rows_where_those_of_the_matrix_are_whole_lines(rows: int, columns: int) -> None:
    x, w = normal(rows, 37), normal(37, columns, seed=1)
    found, kernels = product(x, w)
    assert kernels == [KERNEL]
    assert_close(found, x, w)


@pytest.mark.parametrize("rows", [9, 16])
@pytest.mark.parametrize("inner", [80, 272])
def test_more_rows_where_those_of_a_turned_matrix_are(rows: int, inner: int) -> None:
    x, w = normal(rows, inner), normal(inner, 67, seed=1)
    found, kernels = product(x, w, turned=True)
    assert kernels == [KERNEL]
    assert_close(found, x, w)


@pytest.mark.parametrize("rows", [3, 40])
def test_a_matrix_beyond_the_second_cache(rows: int) -> None:
    x, w = normal(rows, 1030), normal(1030, 272, seed=1)
    found, _ = product(x, w)
    assert_close(found, x, w)


@pytest.mark.parametrize("columns", [5, 16, 300])
@pytest.mark.parametrize("kinds", ["bias", "add", "bias add", "add bias"])
@pytest.mark.parametrize("turned", [False, True])
def test_what_is_added_is_done_besides(columns: int, kinds: str, turned: bool) -> None:
    x, w = normal(6, 50), normal(50, columns, seed=1)
    added = [normal(columns, seed=2) if kind == "bias" else normal(6, columns, seed=3) for kind in kinds.split()]
    found, kernels = product(x, w, *added, turned=turned)
    assert kernels == [KERNEL]
    assert_close(found, x, w, *added)


@pytest.mark.parametrize("turned", [False, True])
def test_bits_do_not_depend_on_threads(turned: bool) -> None:
    x, w, bias = normal(7, 900), normal(900, 2000, seed=1), normal(2000, seed=2)
    one, three = (product(x, w, bias, threads=threads, turned=turned)[0] for threads in (1, 3))
    assert one.tobytes() == three.tobytes()


@pytest.mark.parametrize("turned", [False, True])
def test_what_is_no_number_goes_where_it_is_used(turned: bool) -> None:
    x, w = normal(2, 20), normal(20, 33, seed=1)
    x[0, 3], w[5, 32] = np.nan, np.inf
    x[1, 5] = 0.0
    found, _ = product(x, w, turned=turned)
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1, :32]).all()
    assert np.isnan(found[1, 32])


@pytest.mark.parametrize("columns", [5, 16, 300])
@pytest.mark.parametrize("turned", [False, True])
def test_relu_is_done_besides_and_keeps_what_is_no_number(columns: int, turned: bool) -> None:
    x, w, bias = normal(6, 50), normal(50, columns, seed=1), normal(columns, seed=2)
    x[1, 3] = np.nan
    plain, _ = product(x, w, bias, turned=turned)
    found, kernels = product(x, w, bias, turned=turned, relu=True)
    assert kernels == [KERNEL]
    np.testing.assert_array_equal(found, np.maximum(plain, 0))
    assert np.isnan(found[1]).all()


def test_many_rows_other_dtypes_and_constants_are_for_others() -> None:
    assert KERNEL not in product(normal(33, 40), normal(40, 80))[1]
    assert KERNEL not in product(normal(9, 40), normal(40, 81))[1]
    assert KERNEL not in product(normal(9, 41), normal(41, 80), turned=True)[1]
    assert KERNEL not in product(normal(17, 80), normal(80, 80), turned=True)[1]
    wide = normal(2, 40).astype(np.float64)
    assert KERNEL not in product(wide, normal(40, 8).astype(np.float64))[1]


@pytest.mark.skipif(onednn() is None, reason="needs oneDNN")
def test_a_constant_matrix_is_brought_into_the_layout_of_a_library() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, (2, 40))
        y = hr.matmul(x, hr.constant(normal(40, 80)))
    with hr.Session(graph, config=hr.config(backend="cpu")) as session:
        assert [item.kernel for item in session.explain(y, {x: normal(2, 40)}).work] == ["onednn"]


def test_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_FEW_ROWS", "off")
    assert KERNEL not in product(normal(2, 40), normal(40, 80))[1]
