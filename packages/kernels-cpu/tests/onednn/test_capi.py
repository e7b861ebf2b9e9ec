"""The library's own products: their code is written while a plan is made, not in the first step."""

from __future__ import annotations

import threading

import pytest

from headrace.types import float32
from headrace_cpu.onednn import capi
from headrace_cpu.onednn.capi import OneDnn, Primitive, onednn


@pytest.fixture
def library() -> OneDnn:
    known = onednn()
    if known is None:
        pytest.skip("oneDNN is not installed")
    return OneDnn(known.library)


def product(library: OneDnn) -> Primitive:
    square = library.strided((8, 8), float32, (8, 1))
    description = library.describe("matmul", square, square, None, square, None)
    assert description is not None
    arguments = [(number, place, square) for place, number in enumerate((capi.SRC, capi.WEIGHTS, capi.DST))]
    return library.working(description, arguments, lambda size: 3)


@pytest.mark.parametrize(("implementation", "times"), [("gemm:jit:f32", 1), ("brg:avx512_core", 0)])
def test_the_code_of_own_products_is_written_once_by_a_thread(
    library: OneDnn, monkeypatch: pytest.MonkeyPatch, implementation: str, times: int
) -> None:
    writers: list[threading.Thread] = []
    monkeypatch.setattr(library, "implementation", lambda description: implementation)
    monkeypatch.setattr(library, "_first_product", lambda: writers.append(threading.current_thread()))
    for _ in range(3):
        product(library)
    for thread in threading.enumerate():
        if thread.name == capi.WRITER:
            thread.join(10)
    assert len(writers) == times
    assert threading.current_thread() not in writers


def test_the_product_that_makes_it_write_is_one_that_it_takes(library: OneDnn) -> None:
    assert library._first_product() == 0
