"""Products with constants against float64, with what is added and relu, in all shapes of tiles, parts and pixels."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.types import Array
from headrace_cpu.llvm.host import host
from headrace_cpu.onednn import Request, onednn
from headrace_cpu.primitives.panel_products import (
    DEPTH,
    LARGEST,
    PanelProducts,
    _Panels,
    panel_products_call,
    shares_columns,
)
from headrace_cpu.primitives.register_tiles import VECTORS, most_rows

KERNEL = "headrace_cpu.panel_products"
MOST, PANEL = most_rows(host().lanes), VECTORS * host().lanes
pytestmark = pytest.mark.skipif(
    host().lanes < 16 and onednn() is not None, reason="with narrower vectors oneDNN computes these"
)


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def ran(build: Any, *arrays: Array, threads: int = 1, backend: str = "cpu") -> tuple[Array, list[str]]:
    """What a graph of constants and these inputs gives, and what computed it."""
    with hr.Graph().as_default() as graph:
        feeds = {hr.placeholder(array.dtype, array.shape): array for array in arrays}
        result = build(*feeds)
    with hr.Session(graph, config=hr.config(backend=backend, threads=threads)) as session:
        work = session.explain(result, feeds).work
        return np.asarray(session.run(result, feeds)), [item.kernel for item in work]


def dense(w: Array, *added: Array, relu: bool = False, turned: bool = False) -> Any:
    """X w, what is added to that, and relu."""

    def build(x: hr.Tensor, *others: hr.Tensor) -> hr.Tensor:
        y = hr.matmul(x, hr.constant(w.T if turned else w), transpose_b=turned)
        for other in (*map(hr.constant, added), *others):
            y = y + other
        return hr.nn.relu(y) if relu else y

    return build


def assert_close(found: Array, x: Array, w: Array, *added: Array, relu: bool = False) -> None:
    """Within what sums of `inner` products in float32 may be off."""
    wide = x.astype(np.float64) @ w.astype(np.float64) + sum(np.asarray(other, np.float64) for other in added)
    size = np.abs(x).astype(np.float64) @ np.abs(w) + sum(np.abs(other) for other in added)
    wide = np.maximum(wide, 0) if relu else wide
    assert (np.abs(found - wide) <= (x.shape[1] + 2) * 2.0**-24 * size).all()


@pytest.mark.parametrize("rows", [MOST + 1, 2 * MOST, 2 * MOST + 1, 49, 4 * MOST, 8 * MOST + 3, 200])
@pytest.mark.parametrize("inner", [1, 3, 16, 100, DEPTH, DEPTH + 1, 2 * DEPTH + 7])
@pytest.mark.parametrize("columns", [PANEL, 2 * PANEL, 8 * PANEL - 1, 9 * PANEL + 5 * PANEL // 6])
@pytest.mark.parametrize("threads", [1, 3])
def test_products(rows: int, inner: int, columns: int, threads: int) -> None:
    x, w = normal(rows, inner), normal(inner, columns, seed=1)
    found, kernels = ran(dense(w), x, threads=threads)
    assert kernels == [KERNEL]
    assert_close(found, x, w)


@pytest.mark.parametrize("inner", [20, DEPTH + 20])
@pytest.mark.parametrize("columns", [PANEL, 9 * PANEL - 3])
@pytest.mark.parametrize("kinds", ["", "bias", "add", "bias add", "add bias"])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_what_is_added_and_relu_are_done_besides(
    inner: int, columns: int, kinds: str, relu: bool, turned: bool
) -> None:
    x, w = normal(50, inner), normal(inner, columns, seed=1)
    added = [normal(columns, seed=2) if kind == "bias" else normal(50, columns, seed=3) for kind in kinds.split()]
    found, kernels = ran(dense(w, *added, relu=relu, turned=turned), x)
    assert kernels == [KERNEL]
    assert_close(found, x, w, *added, relu=relu)


def test_what_is_added_is_read_before_it_is_written_over() -> None:
    """A sum in parts keeps these in the memory of the result, which must not be that of what is added in the end."""
    x, w, r = normal(50, 2 * DEPTH), normal(2 * DEPTH, PANEL, seed=1), normal(50, PANEL, seed=2)
    found, kernels = ran(lambda x, r: hr.matmul(x, hr.constant(w)) + hr.exp(r), x, r)
    assert KERNEL in kernels
    assert_close(found, x, w, np.exp(r))


@pytest.mark.parametrize("size", [(1, 4, 4), (2, 5, 7), (3, 14, 14)])
@pytest.mark.parametrize("depth", [3, 64, DEPTH + 5])
@pytest.mark.parametrize("strides", [1, 2, (1, 2), (3, 1)])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_convolutions_of_one_tap(size: tuple[int, ...], depth: int, strides: Any, padding: str) -> None:
    x, k, b = normal(*size, depth), normal(1, 1, depth, 2 * PANEL, seed=1), normal(2 * PANEL, seed=2)
    down, right = strides if isinstance(strides, tuple) else (strides, strides)

    def build(x: hr.Tensor) -> hr.Tensor:
        return hr.nn.relu(hr.nn.conv2d(x, hr.constant(k), strides=strides, padding=padding) + hr.constant(b))

    taken = x[:, ::down, ::right]
    rows = taken.reshape(-1, depth)
    found, kernels = ran(build, x, threads=2)
    assert kernels == [KERNEL] if len(rows) > MOST else KERNEL not in kernels
    assert found.shape == (*taken.shape[:3], 2 * PANEL)
    assert_close(found.reshape(len(rows), -1), rows, k[0, 0], b, relu=True)


def test_other_convolutions_are_for_others() -> None:
    x = normal(2, 8, 8, 4)
    for k, options in [
        (normal(3, 3, 4, PANEL), {}),
        (normal(1, 3, 4, PANEL), {}),
        (normal(1, 1, 2, PANEL), {}),  # groups
        (normal(1, 1, 4, PANEL), {"padding": [(0, 0), (1, 1), (1, 1), (0, 0)]}),
    ]:

        def build(x: hr.Tensor, k: Array = k, options: Any = options) -> hr.Tensor:
            return hr.nn.conv2d(x, hr.constant(k), **options)

        assert KERNEL not in ran(build, x)[1]


def test_few_rows_many_columns_left_over_and_other_dtypes_are_for_others() -> None:
    assert KERNEL not in ran(dense(normal(20, PANEL)), normal(MOST, 20))[1]
    assert KERNEL not in ran(dense(normal(20, PANEL + 1)), normal(50, 20))[1]
    assert KERNEL not in ran(dense(normal(20, PANEL).astype(np.float64)), normal(50, 20).astype(np.float64))[1]


@pytest.mark.skipif(onednn() is None, reason="needs oneDNN")
def test_large_products_are_for_a_library() -> None:
    assert KERNEL in ran(dense(normal(2 * DEPTH, PANEL)), normal(LARGEST // (2 * DEPTH), 2 * DEPTH))[1]
    assert KERNEL not in ran(dense(normal(2 * DEPTH, PANEL)), normal(LARGEST // (2 * DEPTH) + 1, 2 * DEPTH))[1]
    assert KERNEL in ran(dense(normal(DEPTH, PANEL)), normal(LARGEST // DEPTH + 1, DEPTH))[1]


@pytest.mark.parametrize("shape", [(0, 20), (50, 0)])
def test_nothing_is_multiplied(shape: tuple[int, int]) -> None:
    found, _ = ran(dense(normal(shape[1], PANEL)), normal(*shape))
    assert found.shape == (shape[0], PANEL)
    assert not found.any()


@pytest.mark.parametrize("columns", [2 * PANEL, 30 * PANEL])
def test_bits_do_not_depend_on_threads(columns: int) -> None:
    x, w, bias = normal(83, DEPTH + 9), normal(DEPTH + 9, columns, seed=1), normal(columns, seed=2)
    one, two, three = (ran(dense(w, bias), x, threads=threads)[0] for threads in (1, 2, 3))
    assert one.tobytes() == two.tobytes() == three.tobytes()


def test_what_is_no_number_goes_where_it_is_used() -> None:
    """Also through relu: that of oneDNN makes 0 of NaN, so that a loss stays finite while a model is ruined."""
    x, w = normal(40, 20), normal(20, 9 * PANEL - 1, seed=1)
    x[0, 3], w[5, -1], x[1, 5], x[2, 0], x[3, 0] = np.nan, np.inf, 0.0, np.inf, -np.inf
    found, kernels = ran(dense(w, relu=True), x)
    assert kernels == [KERNEL]
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1, :-1]).all()
    assert np.isnan(found[1, -1])
    for row, sign in ((2, 1), (3, -1)):
        finite = w[0, :-1]
        assert (found[row, :-1] == np.where(sign * finite > 0, np.inf, 0)).all()


def test_relu_of_what_is_zero_has_the_bits_of_the_kernel() -> None:
    x, w = normal(40, 3), np.zeros((3, PANEL), np.float32)
    for weights in (w, -w):
        ours, theirs = (ran(dense(weights, relu=True), x, backend=name)[0] for name in ("cpu", "numpy"))
        assert ours.tobytes() == theirs.tobytes()


def test_plans_share_what_is_packed() -> None:
    """Slices of a batch, and plans for other sizes, have the same weights: one copy of them lies in memory."""
    w, found = normal(20, PANEL), []
    for rows in (50, 60):
        with hr.Graph().as_default():
            y = hr.matmul(hr.placeholder(hr.float32, [rows, 20]), hr.ones([20, PANEL]))
        call = panel_products_call(Request.of(y.op, (None, w)))
        assert call is not None
        found.append(call)
    assert found[0].constants[0] is found[1].constants[0]


def test_a_square_matrix_and_its_transposed_one_are_two() -> None:
    """They have one shape and one array, so that only how they are read tells their copies apart."""
    x, w = normal(40, PANEL), normal(PANEL, PANEL, seed=1)

    def build(x: hr.Tensor) -> hr.Tensor:
        given = hr.constant(w)
        return hr.stack([hr.matmul(x, given), hr.matmul(x, given, transpose_b=True)])

    found, _ = ran(build, x)
    assert_close(found[0], x, w)
    assert_close(found[1], x, w.T)


@pytest.mark.parametrize(
    ("rows", "columns", "blocks", "panels", "by_columns"),
    [
        (3136, 64, 56, 2, False),
        (784, 128, 14, 4, False),  # few panels: many processors would have nothing to do
        (784, 512, 14, 16, True),
        (1024, 1024, 19, 32, False),  # a tie
        (1024, 2048, 19, 64, True),
        (49, 512, 1, 16, True),
        (20, 32, 1, 1, False),
    ],
)
def test_threads_share_the_larger_side_where_it_has_pieces_enough(
    rows: int, columns: int, blocks: int, panels: int, by_columns: bool
) -> None:
    assert shares_columns(rows, columns, blocks, panels) is by_columns


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_vectors_of_other_processors(lanes: int) -> None:
    """The code for narrower ones runs here as well."""
    panel = VECTORS * lanes
    x, w = normal(29, DEPTH + 4), normal(DEPTH + 4, 8 * panel + panel - 1, seed=1)
    result = np.zeros((29, w.shape[1]), np.float32)
    packed = _Panels(*w.shape, panel, is_turned=False)(w)
    product = PanelProducts(29, *w.shape, None, (), False, True, lanes, (packed,))
    body, functions = product.written(lanes)
    symbol = product.symbol(lanes)
    text = "\n".join([*functions.values(), body.replace("define internal", "define").replace("SYMBOL", symbol)])
    (address,) = host().load(text, [symbol])
    table = np.array([array.ctypes.data for array in (x, w, result, packed)])
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(address)(
        table.ctypes.data, 0, product.points
    )
    assert_close(result, x, w)


def test_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_PANEL_PRODUCTS", "off")
    assert KERNEL not in ran(dense(normal(20, PANEL)), normal(50, 20))[1]
