"""Races of steps that add, take, close, are cancelled, or lose their session: nobody stays blocked, nothing is lost."""

from __future__ import annotations

import contextlib
import random

import pytest

import headrace as hr
from headrace.errors import CancelledError, EndOfDataError, FailedPreconditionError
from headrace.kernels.queues import queue_behind
from headrace.runtime.blocked import blocked_operations


def build() -> tuple[hr.Graph, hr.FIFOQueue]:
    with hr.Graph().as_default() as graph:
        queue = hr.FIFOQueue(2, hr.int32, shapes=[[]], name="q")
        queue.enqueue(1, name="add")
        queue.enqueue_many([1, 1, 1], name="fill")
        queue.dequeue(name="take")
        queue.dequeue_many(2, name="pair")
        queue.dequeue_up_to(3, name="rest")
        queue.close(name="close")
        queue.close(cancel_pending_enqueues=True, name="cancel")
    return graph, queue


STEPS = ["add", "fill", "take:0", "pair:0", "rest:0", "close", "cancel"]


@pytest.mark.parametrize("seed", [random.randrange(2**32)], ids=["seed"])  # pytest shows it where the test fails
def test_a_thousand_races_of_steps_leave_no_thread_blocked(seed: int) -> None:
    choose = random.Random(seed)
    graph, queue = build()
    for _ in range(1000):
        session = hr.Session(graph)
        pending = [session.run_async(step) for step in choose.choices(STEPS, k=4)]
        for step in choose.sample(pending, choose.randrange(3)):
            step.cancel()
        state = queue_behind(queue.handle.op, session.resources)
        if choose.random() < 0.5:
            session.run("cancel")
        session.close()
        for step in pending:
            with contextlib.suppress(CancelledError, EndOfDataError, FailedPreconditionError):
                step.result(timeout=30)
        assert state.waiting == (0, 0)
    assert not [line for line in blocked_operations() if "FIFOQueue 'q'" in line]


@pytest.mark.parametrize("seed", [random.randrange(2**32)], ids=["seed"])  # pytest shows it where the test fails
def test_elements_are_neither_lost_nor_doubled_by_steps_that_are_cancelled(seed: int) -> None:
    """What was added is what was taken and what is left, whichever takers were cancelled or ran out of time."""
    choose = random.Random(seed)
    with hr.Graph().as_default() as graph:
        queue = hr.FIFOQueue(-1, hr.int32, shapes=[[]])
        number = hr.placeholder(hr.int32, [])
        add, pair, size = queue.enqueue(number), queue.dequeue_many(2), queue.size()
        rest = queue.dequeue_many(size)
    session = hr.Session(graph)
    takers = [session.run_async(pair) for _ in range(60)]
    for value in range(100):
        if choose.random() < 0.4:
            choose.choice(takers).cancel()
        session.run(add, feeds={number: value})
    for taker in takers:
        taker.cancel()
    taken: list[int] = []
    for taker in takers:
        with contextlib.suppress(CancelledError):
            taken += taker.result(timeout=30).tolist()
    assert sorted([*taken, *session.run(rest).tolist()]) == list(range(100))
