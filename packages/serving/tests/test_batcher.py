"""Batches under threads: every caller gets its own rows, or its own error."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.errors import InternalError, InvalidArgumentError
from headrace_serving.batch_queue import BatchingOptions
from headrace_serving.batcher import Batcher, batch_rows
from headrace_serving.errors import QueueFullError, QueueTimeoutError
from headrace_serving.execution import Outputs, Work


class Gate:
    """A function of rows that waits at a gate, and remembers the sizes of its calls."""

    def __init__(self, function: Callable[[Any], Any] = lambda x: x * 2) -> None:
        self.function = function
        self.entered = threading.Semaphore(0)
        self.open = threading.Event()
        self.sizes: list[int] = []

    def __call__(self, x: Any) -> Outputs:
        self.sizes.append(len(x))
        self.entered.release()
        assert self.open.wait(30)
        return {"y": self.function(x)}


def wait_until(holds: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it does not come to hold"
        time.sleep(0.01)


@pytest.fixture(name="batcher")
def _batcher() -> Iterator[Callable[..., Batcher]]:
    made: list[Batcher] = []

    def make(threads: int = 1, **options: Any) -> Batcher:
        made.append(Batcher(BatchingOptions(**options), threads))
        return made[-1]

    yield make
    for batcher in made:
        batcher.close()


@pytest.fixture(name="work")
def _work(make_signature: Callable[..., Any]) -> Callable[..., Callable[..., Work]]:
    def make(function: Callable[..., Outputs]) -> Callable[..., Work]:
        signature = make_signature({"x": ("float32", [None, None])}, {"y": ("float32", [None, None])}, function)

        def work(*values: float, width: int = 1, **more: Any) -> Work:
            x = np.repeat(np.array(values, np.float32)[:, None], width, axis=1)
            return Work(signature, {"x": x}, **more)

        return work

    return make


def values(future: Future[Outputs]) -> list[float]:
    return [float(row[0]) for row in future.result(30)["y"]]


def waiting(gate: Gate, batcher: Batcher, make: Callable[..., Work]) -> Future[Outputs]:
    """Occupy the only thread, so that what follows waits."""
    first = batcher.submit(make(0))
    assert gate.entered.acquire(timeout=30)
    return first


def test_what_waits_shares_a_call_and_is_padded_by_a_row_of_its_own(batcher: Any, work: Any) -> None:
    gate = Gate(lambda x: 1 / x)  # zeros would be no valid rows
    make = work(gate)
    batches = batcher(max_batch_size=8, allowed_sizes=(1, 8))
    first = batches.submit(make(1))
    assert gate.entered.acquire(timeout=30)
    futures = [batches.submit(make(2, 4)), batches.submit(make(8))]
    assert batches.waiting_rows == 3
    gate.open.set()
    assert [values(future) for future in (first, *futures)] == [[1.0], [0.5, 0.25], [0.125]]
    assert gate.sizes == [1, 8]


def test_only_rows_of_one_shape_share_a_call(batcher: Any, work: Any) -> None:
    gate = Gate()
    make = work(gate)
    batches = batcher(max_batch_size=8)
    waiting(gate, batches, make)
    futures = [batches.submit(make(1, width=2)), batches.submit(make(2, width=3)), batches.submit(make(3, width=2))]
    gate.open.set()
    assert [future.result(30)["y"].tolist() for future in futures] == [[[2, 2]], [[4, 4, 4]], [[6, 6]]]
    assert sorted(gate.sizes) == [1, 1, 2]


def test_a_large_request_is_split_and_put_together_again(batcher: Any, work: Any) -> None:
    gate = Gate()
    gate.open.set()
    future = batcher(threads=4, max_batch_size=3).submit(work(gate)(*range(10)))
    assert values(future) == [2.0 * number for number in range(10)]
    assert sorted(gate.sizes) == [1, 3, 3, 3]


def test_a_failing_batch_is_computed_singly_and_only_the_bad_request_fails(batcher: Any, work: Any) -> None:
    def root(x: Any) -> Any:
        if (x < 0).any():
            raise InvalidArgumentError("negative")
        return np.sqrt(x)

    gate = Gate(root)
    make = work(gate)
    batches = batcher(max_batch_size=8)
    waiting(gate, batches, make)
    futures = [batches.submit(make(number)) for number in (4, -1, 9)]
    gate.open.set()
    assert values(futures[0]) == [2.0]
    with pytest.raises(InvalidArgumentError, match="negative"):
        futures[1].result(30)
    assert values(futures[2]) == [3.0]
    assert gate.sizes == [1, 3, 1, 1, 1]


def test_a_piece_that_fails_fails_its_request(batcher: Any, work: Any) -> None:
    def fail(x: Any) -> Any:
        if x[0, 0] >= 2:
            raise ZeroDivisionError("oops")
        return {"y": x}

    with pytest.raises(InternalError, match=r"the model failed\n(.*\n)*.*ZeroDivisionError: oops"):
        batcher(max_batch_size=2).submit(work(fail)(0, 1, 2, 3)).result(30)


def test_outputs_without_a_row_for_each_row(batcher: Any, work: Any) -> None:
    gate = Gate(lambda x: x.sum(axis=0, keepdims=True))
    make = work(gate)
    batches = batcher(max_batch_size=3)
    waiting(gate, batches, make)
    futures = [batches.submit(make(1)), batches.submit(make(2, 3))]
    gate.open.set()
    assert [values(future) for future in futures] == [[1.0], [5.0]]  # as without batching
    with pytest.raises(
        InternalError, match=r"output 'y' has not a row for each row of the inputs\n.*3 rows\n.*\[1, 1\]"
    ):
        batches.submit(make(1, 2, 3, 4)).result(30)


def test_a_cancelled_request_is_not_computed(batcher: Any, work: Any) -> None:
    gate = Gate()
    make = work(gate)
    batches = batcher(max_batch_size=8)
    first = waiting(gate, batches, make)
    gone, stays = batches.submit(make(1)), batches.submit(make(2))
    assert gone.cancel()
    assert batches.waiting_rows == 1
    assert not first.cancel()  # it runs already
    gate.open.set()
    assert values(stays) == [4.0]
    assert gate.sizes == [1, 1]


def test_a_request_that_is_answered_is_freed_at_once(batcher: Any, work: Any) -> None:
    """A cycle for each request kept 40 objects of it, and made collections take a fifteenth of the time of a server."""
    batches = batcher(max_batch_size=8)
    make = work(lambda x: {"y": x * 2})
    gc.disable()
    try:
        asked = make(3)
        futures = [weakref.ref(batches.submit(asked))]
        kept = weakref.ref(asked.inputs["x"])
        del asked
        wait_until(lambda: kept() is None and futures[0]() is None, seconds=10)
    finally:
        gc.enable()


def test_a_full_queue_refuses(batcher: Any, work: Any) -> None:
    gate = Gate()
    make = work(gate)
    batches = batcher(max_batch_size=1, max_queued_batches=2)
    waiting(gate, batches, make)
    futures = [batches.submit(make(number)) for number in (1, 2)]
    with pytest.raises(QueueFullError, match="the server has too much to do"):
        batches.submit(make(3))
    gate.open.set()
    assert [values(future) for future in futures] == [[2.0], [4.0]]


def test_deadlines_are_kept_at_the_entrance_and_at_the_exit_of_the_queue(work: Any) -> None:
    now = [0.0]
    gate = Gate()
    make = work(gate)
    batches = Batcher(BatchingOptions(max_batch_size=8), 1, clock=lambda: now[0])
    waiting(gate, batches, make)
    with pytest.raises(QueueTimeoutError, match=r"Run\(\) timeout exceeded while waiting in batching queue"):
        batches.submit(make(1, deadline=0.0))
    late, in_time = batches.submit(make(1, deadline=5.0)), batches.submit(make(2, deadline=7.0))
    now[0] = 6.0
    gate.open.set()
    with pytest.raises(QueueTimeoutError, match=r"Run\(\) timeout exceeded"):
        late.result(30)
    assert values(in_time) == [4.0]
    batches.close()


def test_signatures_that_are_not_batched(make_signature: Any, batcher: Any) -> None:
    rows = ("float32", [None])
    cases = [
        ({"x": rows}, {"y": ("float32", [])}),
        ({"x": ("float32", [2])}, {"y": rows}),
        ({"x": ("float32", None)}, {"y": rows}),
        ({"x": rows, "n": rows}, {"y": rows}),
    ]
    for inputs, outputs in cases:
        signature = make_signature(inputs, outputs, lambda x, n=None: {"y": x})
        arrays = {alias: np.zeros(2 + number, np.float32) for number, alias in enumerate(inputs)}
        assert batch_rows(Work(signature, arrays)) is None
        assert batcher().submit(Work(signature, arrays)).result(30)["y"].shape == (2,)
    signature = make_signature({"x": rows}, {"y": rows}, lambda x: {"y": x})
    assert batch_rows(Work(signature, {"x": np.zeros(0, np.float32)})) is None
    assert batch_rows(Work(signature, {"x": np.zeros(3, np.float32)})) == 3


# The fixture is a function that keeps nothing.
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 3)), min_size=1, max_size=60),
    largest=st.integers(1, 8),
    pad=st.booleans(),
    adaptive=st.booleans(),
    threads=st.integers(1, 4),
)
def test_no_caller_ever_gets_the_rows_of_another(
    make_signature: Any, sizes: list[tuple[int, int]], largest: int, pad: bool, adaptive: bool, threads: int
) -> None:
    shape = ("float64", [None, None])
    signature = make_signature({"x": shape}, {"y": shape, "z": shape}, lambda x: {"y": x + 0.5, "z": -x})
    options = BatchingOptions(largest, 0.001, (largest,) if pad else (), max_queued_batches=1000, adaptive=adaptive)
    calls: list[tuple[int, int]] = []
    batches = Batcher(options, threads, observe=lambda work, rows, padded, seconds: calls.append((rows, padded)))

    def ask(number: int) -> bool:
        rows, width = sizes[number]
        x = number * 1000 + np.arange(rows * width, dtype=np.float64).reshape(rows, width)
        outputs = batches.submit(Work(signature, {"x": x})).result(30)
        return np.array_equal(outputs["y"], x + 0.5) and np.array_equal(outputs["z"], -x)

    with ThreadPoolExecutor(8) as callers:
        assert all(callers.map(ask, range(len(sizes))))
    batches.close()
    assert sum(rows for rows, _ in calls) == sum(rows for rows, _ in sizes)
    assert all(padded <= largest for _, padded in calls)


def test_a_fault_of_the_server_costs_one_batch(make_signature: Callable[..., Any]) -> None:
    faults = [ZeroDivisionError("ours")]

    def observe(work: Work, rows: int, padded: int, seconds: float) -> None:
        if faults:
            raise faults.pop()

    signature = make_signature({"x": ("float32", [None])}, {"y": ("float32", [None])}, lambda x: {"y": x})
    batches = Batcher(BatchingOptions(max_batch_size=4), 1, observe=observe)
    with pytest.raises(ZeroDivisionError, match="ours"):
        batches.submit(Work(signature, {"x": np.ones(1, np.float32)})).result(30)
    assert batches.submit(Work(signature, {"x": np.ones(1, np.float32)})).result(30)["y"].tolist() == [1]
    batches.close()
