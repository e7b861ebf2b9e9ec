"""Critical sections: one step at a time, and free again after errors."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import headrace as hr
from headrace.errors import DeadlineExceededError, FailedPreconditionError, InvalidArgumentError


def test_steps_do_not_overlap_in_a_section():
    with hr.Graph().as_default() as graph:
        v = hr.Variable(np.int64(0))
        section = hr.CriticalSection()

        def grow():
            with hr.control_dependencies([v.assign(v.read() + 1)]):  # a read and a write that others could come between
                return hr.identity(v.read())

        step = section.execute(grow)
    session = hr.Session(graph)
    session.run(v)
    threads = [threading.Thread(target=lambda: [session.run(step) for _ in range(100)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session.run(v) == 400


def test_a_section_is_free_again_after_an_error():
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [])
        section = hr.CriticalSection(name="section")
        y = section.execute(lambda: hr.check_numerics(x * 2, "bad"))
    session = hr.Session(graph)
    with pytest.raises(InvalidArgumentError, match="bad"):
        session.run(y, feeds={x: np.nan})
    assert session.run(y, feeds={x: 2.0}, timeout=10) == 4.0


def test_waiting_ends_with_the_time_of_the_step():
    with hr.Graph().as_default() as graph:
        section = hr.CriticalSection()
        inner = section.execute(lambda: section.execute(lambda: hr.identity(1.0)))
    with hr.Session(graph) as session, pytest.raises(DeadlineExceededError, match="did not end in time"):
        session.run(inner, timeout=0.1)


def test_a_lock_is_let_go_once():
    with hr.Graph().as_default() as graph:
        lock = hr.apply_op("MutexLock", hr.apply_op("MutexV2"))
        first = hr.apply_op("ConsumeMutexLock", lock)
        with hr.control_dependencies([first]):
            second = hr.apply_op("ConsumeMutexLock", lock)
    with hr.Session(graph) as session, pytest.raises(FailedPreconditionError, match="let go already"):
        session.run(second)


def test_what_is_no_function_is_refused_before_the_lock_is_asked_for():
    with hr.Graph().as_default() as graph:
        section = hr.CriticalSection()
        count = len(graph.operations)
        with pytest.raises(InvalidArgumentError, match="CriticalSection.execute was given is no function"):
            section.execute(hr.constant(1.0))
        assert [op.type for op in graph.operations[count:]] == ["Const"]
