"""The library's own products: their code is written while a plan is made, not in the first step."""

from __future__ import annotations

import ctypes
import signal
import threading
from typing import Any

import pytest

from headrace.types import float32
from headrace_cpu.onednn import capi, own_products
from headrace_cpu.onednn.capi import OneDnn, Primitive, onednn
from headrace_cpu.onednn.own_products import OwnProducts


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
def test_the_code_is_written_once_by_a_thread(
    library: OneDnn, monkeypatch: pytest.MonkeyPatch, implementation: str, times: int
) -> None:
    writers: list[threading.Thread] = []
    monkeypatch.setattr(library, "implementation", lambda description: implementation)
    monkeypatch.setattr(OwnProducts, "multiply", lambda self: writers.append(threading.current_thread()))
    for _ in range(3):
        product(library)
    for thread in threading.enumerate():
        if thread.name == own_products.WRITER:
            thread.join(10)
    assert len(writers) == times
    assert threading.current_thread() not in writers


def test_the_library_takes_the_product_that_makes_it_write(library: OneDnn) -> None:
    assert OwnProducts(library.library).multiply() == 0


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="no masks of signals")
def test_signals_wait_while_it_multiplies() -> None:
    """Its code keeps the stack pointer in memory that it works in (see `signals`)."""
    masks: list[set[Any]] = []

    class Library:
        def dnnl_sgemm(self, *_: object) -> int:
            masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
            return 0

    OwnProducts(Library()).multiply()  # type: ignore[arg-type]  # what it needs of a library
    assert {signal.SIGINT, signal.SIGPROF, signal.SIGTERM} <= masks[0]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_where_there_can_be_no_more_threads_the_first_product_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    OwnProducts(ctypes.CDLL(None)).begin()
