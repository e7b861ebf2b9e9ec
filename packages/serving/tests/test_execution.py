"""Calls by themselves: on threads, or at once where that is known to be sooner."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from headrace.errors import InternalError
from headrace_serving.execution import ShortCalls, ThreadExecutor, Work, limit_blas


@pytest.fixture(name="executor")
def _executor() -> Iterator[ThreadExecutor]:
    executor = ThreadExecutor(1)
    yield executor
    executor.close()


def test_short_after_some_calls_in_a_row() -> None:
    calls = ShortCalls()
    for _ in range(15):
        calls.called(1, 100, 0.0001, 0.001)
    assert not calls.is_short(1, 100)
    calls.called(1, 100, 0.0001, 0.001)
    assert (calls.is_short(1, 100), calls.is_short(2, 100)) == (True, False)


@pytest.mark.parametrize(("computing", "waiting"), [(0.001, 0.001), (0.0001, 1.0)])
def test_a_call_that_is_not_short_ends_it(computing: float, waiting: float) -> None:
    calls = ShortCalls()
    for _ in range(20):
        calls.called(1, 100, 0.0001, 0.001)
    calls.called(1, 100, computing, waiting)
    assert not calls.is_short(1, 100)


def test_a_call_here_that_takes_long_lets_a_thread_find_out() -> None:
    calls = ShortCalls()
    for _ in range(16):
        calls.called(1, 100, 0.0001, 0.001)
    calls.called_here(1, 100, 0.0001)
    assert calls.is_short(1, 100)
    calls.called_here(1, 100, 0.1)
    assert not calls.is_short(1, 100)
    calls.called(1, 100, 0.0001, 0.001)
    assert calls.is_short(1, 100)


def test_signatures_do_not_pile_up() -> None:
    calls = ShortCalls()
    for signature in range(5000):
        calls.called(signature, 100, 0.0001, 0.001)
    assert len(calls._in_a_row) <= 1001


def test_what_is_short_depends_on_the_size_of_inputs() -> None:
    calls = ShortCalls()
    for _ in range(20):
        calls.called(1, 100, 0.0001, 0.001)
    assert (calls.is_short(1, 127), calls.is_short(1, 128)) == (True, False)


def test_short_calls_need_no_thread(executor: ThreadExecutor, make_signature: Callable[..., Any]) -> None:
    threads: list[int] = []

    def note(x: Any) -> dict[str, Any]:
        threads.append(threading.get_ident())
        if x[0] < 0:
            raise ZeroDivisionError("oops")
        return {"y": x}

    signature = make_signature({"x": ("float32", [None])}, {"y": ("float32", [None])}, note)
    work = Work(signature, {"x": np.ones(1, np.float32)})
    assert executor.compute_if_short(work) is None
    told = threading.Event()
    executor.settled = told.set
    assert executor.submit(work).result(30)["y"].tolist() == [1]
    assert told.wait(30)
    assert threads[-1] != threading.get_ident()
    for _ in range(100):  # the machine may be busy, so that some calls are not short
        executor.submit(work).result(30)
        if executor.compute_if_short(work) is not None:
            break
    assert threads[-1] == threading.get_ident()
    with pytest.raises(InternalError, match="the model failed"):
        executor.compute_if_short(Work(signature, {"x": np.full(1, -1, np.float32)}))
    assert executor.compute_if_short(Work(signature, {"x": np.ones(5000, np.float32)})) is None


def test_a_work_that_is_cancelled_is_not_computed(executor: ThreadExecutor, make_signature: Callable[..., Any]) -> None:
    free, begun = threading.Event(), threading.Event()

    def hold(x: Any) -> dict[str, Any]:
        begun.set()
        assert free.wait(30)
        return {"y": x}

    signature = make_signature({"x": ("float32", [None])}, {"y": ("float32", [None])}, hold)
    first = executor.submit(Work(signature, {"x": np.ones(1, np.float32)}))
    assert begun.wait(30)
    second = executor.submit(Work(signature, {"x": np.ones(1, np.float32)}))
    assert second.cancel()
    free.set()
    assert first.result(30)["y"].tolist() == [1]


def test_linear_algebra_uses_as_many_threads_as_it_may() -> None:
    with threadpool_limits():  # restores what there was
        limit_blas(1)
        assert {entry["num_threads"] for entry in threadpool_info() if entry["user_api"] == "blas"} <= {1}
