"""docs/memory-model.md, sentence by sentence."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from headrace.kernels.queues import queue_behind
from headrace.testing.threads import Call, until

DOCUMENT = Path(__file__).parents[3] / "docs" / "memory-model.md"


def token_queue(name: str) -> hr.FIFOQueue:
    """A queue by which a test holds a step at one place."""
    return hr.FIFOQueue(-1, hr.int32, shapes=[[]], name=name)


def someone_waits(queue: hr.FIFOQueue, session: hr.Session) -> None:
    """Return when a step waits for an element of the queue."""
    until(lambda: queue_behind(queue.handle.op, session.resources).waiting[1] > 0)


def test_each_sentence_has_a_test_and_each_test_a_sentence() -> None:
    stated = re.findall(r"\*\*(M\d+)\*\*", DOCUMENT.read_text())
    tested = re.findall(r"^def test_(M\d+)_", Path(__file__).read_text(), re.MULTILINE)
    assert stated == tested


def test_M1_an_operation_runs_after_its_inputs_and_control_inputs() -> None:
    with hr.Graph().as_default() as graph:
        v = hr.Variable(np.float32(1))
        with hr.control_dependencies([v.assign(2.0)]):
            doubled = v.read() * 2.0
        with hr.control_dependencies([doubled]), hr.control_dependencies([v.assign(doubled + 3.0)]):
            last = v.read()
    assert hr.Session(graph).run([doubled, last]) == [4, 7]


def test_M2_an_operation_that_waits_holds_up_only_what_comes_after_it() -> None:
    with hr.Graph().as_default() as graph:
        gate = token_queue("gate")
        v = hr.Variable(np.int32(0))
        both = hr.group([gate.dequeue(), v.assign(1)])
        opened, seen = gate.enqueue(0), v.read()
    session = hr.Session(graph)
    session.run(seen)
    step = Call(lambda: session.run(both))
    until(lambda: session.run(seen) == 1)
    assert not step.is_done
    session.run(opened)
    step.result()


def test_M3_a_function_keeps_the_order_of_the_program() -> None:
    v = hr.Variable(np.int32(0))

    @hr.function
    def steps(x):
        v.assign(x)
        first = v.read()
        v.assign_add(10)
        second = v.read()
        v.assign(7)
        return first, second, v.read()

    assert steps(np.int32(1)) == (1, 11, 7)
    assert steps(np.int32(2)) == (2, 12, 7)


def test_M4_A44_a_read_may_see_an_update_of_a_step_that_still_runs() -> None:
    with hr.Graph().as_default() as graph:
        gate = token_queue("gate")
        v = hr.Variable(np.int32(0))
        with hr.control_dependencies([v.assign(5)]):
            slow = gate.dequeue()
        seen, opened = v.read(), gate.enqueue(1)
    session = hr.Session(graph)
    step = Call(lambda: session.run(slow))
    someone_waits(gate, session)
    assert session.run(seen) == 5
    assert not step.is_done
    session.run(opened)
    assert step.result() == 1


def test_M5_A45_a_later_step_sees_what_an_earlier_one_has_assigned() -> None:
    """One subgraph trains, another one that overlaps it evaluates between the steps."""
    with hr.Graph().as_default() as graph:
        w = hr.Variable(np.float32(8))
        loss = hr.square(w)
        (gradient,) = hr.gradients(loss, [w])
        train = w.assign_sub(0.25 * gradient)
    session = hr.Session(graph)
    losses = []
    for _ in range(3):
        losses.append(float(session.run(loss)))
        session.run(train)
    assert losses == [64, 16, 4]


def test_M6_a_read_gives_a_whole_value() -> None:
    with hr.Graph().as_default() as graph:
        number = hr.placeholder(hr.float32, [])
        v = hr.Variable(np.zeros(20_000, np.float32))
        fill, add, seen = v.assign(hr.zeros([20_000]) + number), v.assign_add(hr.ones([20_000])), v.read()
    session = hr.Session(graph)
    session.run(seen)
    done = threading.Event()

    def write() -> None:
        for value in range(150):
            session.run(fill, feeds={number: float(value)})
            session.run(add)
        done.set()

    writer = Call(write)
    while not done.is_set() and not writer.is_done:
        value = session.run(seen)
        assert (value == value[0]).all()
    writer.result()


def test_M7_no_update_of_many_at_once_is_lost() -> None:
    with hr.Graph().as_default() as graph:
        total, rows = hr.Variable(np.int64(0)), hr.Variable(np.zeros((2, 3), np.int64))
        add = total.assign_add(np.int64(1))
        scatter = hr.apply_op("ResourceScatterAdd", rows.handle, [1, 1], np.ones((2, 3), np.int64))
        both = hr.group([add, scatter])
        values = [total.read(), rows.read()]
    session = hr.Session(graph)
    session.run(values)
    calls = [Call(lambda: [session.run(both) for _ in range(250)]) for _ in range(8)]
    for call in calls:
        call.result()
    count, table = session.run(values)
    assert count == 2000
    assert table.tolist() == [[0] * 3, [4000] * 3]


def test_M8_a_value_that_was_read_stays_for_its_step() -> None:
    with hr.Graph().as_default() as graph:
        gate = token_queue("gate")
        v = hr.Variable(np.arange(4, dtype=np.int32))
        before = v.read()
        with hr.control_dependencies([before]):
            token = gate.dequeue()
        result = before * token
        change, opened = v.assign_add(np.full(4, 100, np.int32)), gate.enqueue(2)
    session = hr.Session(graph)
    session.run(v.read())
    step = Call(lambda: session.run(result))
    someone_waits(gate, session)
    session.run(change)
    session.run(opened)
    assert step.result().tolist() == [0, 2, 4, 6]


def test_M9_a_variable_gets_its_initial_value_once() -> None:
    with hr.Graph().as_default() as graph:
        v = hr.Variable(hr.random.uniform([4]))
        seen = v.read()
    session = hr.Session(graph)
    calls = [Call(lambda: session.run(seen).tolist()) for _ in range(8)]
    results = [call.result() for call in calls]
    assert all(result == results[0] for result in results)


def test_M10_a_fetched_value_belongs_to_the_caller() -> None:
    with hr.Graph().as_default() as graph:
        v = hr.Variable(np.zeros(3, np.float32))
        seen, change = v.read(), v.assign_add(hr.ones([3]))
    session = hr.Session(graph)
    value = session.run(seen)
    value[:] = 7
    assert session.run(seen).tolist() == [0, 0, 0]
    value = session.run(seen)
    session.run(change)
    assert value.tolist() == [0, 0, 0]


def test_M11_a_queue_holds_copies() -> None:
    with hr.Graph().as_default() as graph:
        v = hr.Variable(np.zeros(2, np.float32))
        queue = hr.FIFOQueue(5, hr.float32, shapes=[[2]])
        add, change, take = queue.enqueue(v.read()), v.assign_add(hr.ones([2])), queue.dequeue()
    session = hr.Session(graph)
    session.run(add)
    session.run(change)
    assert session.run(take).tolist() == [0, 0]


def test_M12_an_element_is_taken_once_and_in_order() -> None:
    with hr.Graph().as_default() as graph:
        queue = hr.FIFOQueue(8, hr.int32, shapes=[[]])
        number = hr.placeholder(hr.int32, [])
        add, take = queue.enqueue(number), queue.dequeue()
    session = hr.Session(graph)
    takers = [Call(lambda: [int(session.run(take)) for _ in range(100)]) for _ in range(4)]
    for value in range(400):
        session.run(add, feeds={number: value})
    taken = [taker.result() for taker in takers]
    assert sorted(number for numbers in taken for number in numbers) == list(range(400))
    assert all(numbers == sorted(numbers) for numbers in taken)


def test_M13_an_element_brings_what_was_assigned_before_it() -> None:
    with hr.Graph().as_default() as graph:
        queue = hr.FIFOQueue(1, hr.int32, shapes=[[]])
        v = hr.Variable(np.int32(0))
        number = hr.placeholder(hr.int32, [])
        with hr.control_dependencies([v.assign(number)]):
            send = queue.enqueue(number)
        received = queue.dequeue()
        with hr.control_dependencies([received]):
            seen = v.read()
    session = hr.Session(graph)
    session.run(v.read())

    def produce() -> None:
        for value in range(1, 201):
            session.run(send, feeds={number: value})

    producer = Call(produce)
    for _ in range(200):
        element, value = session.run([received, seen])
        assert value >= element
    producer.result()


@pytest.mark.parametrize("end", ["cancel", "timeout", "failure"])
def test_M14_a_step_that_ends_early_keeps_what_it_has_assigned(end: str) -> None:
    with hr.Graph().as_default() as graph:
        gate = token_queue("gate")
        v = hr.Variable(np.zeros(3, np.int32))
        with hr.control_dependencies([v.assign(np.full(3, 4, np.int32))]):
            token = gate.dequeue()
        late = v.assign(hr.zeros([3], hr.int32) + hr.gather(hr.constant([9]), token))
        right, wrong, seen = gate.enqueue(0), gate.enqueue(5), v.read()
    session = hr.Session(graph)
    session.run(right)
    session.run(late)
    assert session.run(seen).tolist() == [9, 9, 9]
    pending = session.run_async(late, timeout=0.2 if end == "timeout" else None)
    if end == "cancel":
        someone_waits(gate, session)
        pending.cancel()
    elif end == "failure":
        session.run(wrong)
    with pytest.raises(hr.errors.HeadraceError, match=r"was cancelled|did not end in time|index is out of range"):
        pending.result(timeout=30)
    assert session.run(seen).tolist() == [4, 4, 4]


def test_M15_a_step_that_is_cancelled_while_it_waits_takes_no_element() -> None:
    with hr.Graph().as_default() as graph:
        queue = hr.FIFOQueue(5, hr.int32, shapes=[[]])
        fill, four, pair = queue.enqueue_many([1, 2]), queue.dequeue_many(4), queue.dequeue_many(2)
    session = hr.Session(graph)
    session.run(fill)
    pending = session.run_async(four)
    someone_waits(queue, session)
    pending.cancel()
    with pytest.raises(hr.errors.CancelledError, match="was cancelled"):
        pending.result(timeout=30)
    assert session.run(pair).tolist() == [1, 2]
