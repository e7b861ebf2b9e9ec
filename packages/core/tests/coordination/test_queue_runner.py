"""Queue runners: filling a queue, ending with the data, failing, stopping; D06, D07 and the paper's Figure 1 (A43)."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import headrace as hr
from headrace.errors import AbortedError, CancelledError, DeadlineExceededError, EndOfDataError, InvalidArgumentError
from headrace.kernels.queues import queue_behind
from headrace.testing.threads import Call, until


def test_a_runner_fills_the_queue_and_the_end_of_the_block_stops_it() -> None:
    with hr.Graph().as_default() as graph:
        queue = hr.RandomShuffleQueue(20, 5, [hr.float32, hr.int32], shapes=[[2], []], seed=7)
        fill = queue.enqueue_many([hr.ones([4, 2]), hr.arange(4)])
        images, labels = queue.dequeue_many(8)
    with hr.Session(graph) as session, hr.Coordinator() as coordinator:
        threads = hr.QueueRunner(queue, [fill] * 2).start(session, coordinator)
        for _ in range(10):
            values, numbers = session.run([images, labels])
            assert values.shape == (8, 2)
            assert set(numbers.tolist()) <= {0, 1, 2, 3}
    assert [thread.name for thread in threads] == ["random_shuffle_queue/0", "random_shuffle_queue/1"]
    assert not any(thread.is_alive() for thread in threads)


def test_the_data_end_when_every_thread_has_come_to_its_end() -> None:
    """Two threads move numbers from one queue to the next; the last of them closes it."""
    with hr.Graph().as_default() as graph:
        first = hr.FIFOQueue(100, hr.int32, shapes=[[]])
        second = hr.FIFOQueue(4, hr.int32, shapes=[[]])
        fill, close = first.enqueue_many(hr.arange(100)), first.close()
        move, take = second.enqueue(first.dequeue() * 2), second.dequeue()
    taken: list[int] = []
    with hr.Session(graph) as session, hr.Coordinator() as coordinator:
        session.run(fill)
        session.run(close)
        hr.QueueRunner(second, [move] * 2).start(session, coordinator)
        while not coordinator.should_stop():
            taken.append(int(session.run(take)))
    assert sorted(taken) == list(range(0, 200, 2))


def test_a_runner_without_operations_would_leave_its_queue_empty_and_is_refused() -> None:
    with hr.Graph().as_default():
        queue = hr.FIFOQueue(4, hr.int32, shapes=[[]])
        fill = queue.enqueue(1)
    with pytest.raises(InvalidArgumentError, match=r"(?s)needs operations to run.*got:      \[\]"):
        hr.QueueRunner(queue, [])
    with pytest.raises(InvalidArgumentError, match=r"(?s)a list of operations.*got:.*Operation 'enqueue'"):
        hr.QueueRunner(queue, fill)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="(?s)a list of operations.*got:      enqueue"):
        hr.QueueRunner(queue, "enqueue")


def failing_graph() -> tuple[hr.Graph, hr.FIFOQueue, hr.Operation, hr.Tensor]:
    """A queue whose producer fails when a variable has counted to three."""
    with hr.Graph().as_default() as graph:
        queue = hr.FIFOQueue(10, hr.int32, shapes=[[]], name="numbers")
        count = hr.Variable(np.int32(0))
        with hr.control_dependencies([count.assign_add(1)]):
            checked = hr.gather(hr.constant([7, 7, 7, 7]), count.read())  # the fourth time beyond the end
        fill, take = queue.enqueue(checked), queue.dequeue()
    return graph, queue, fill, take


def test_D07_the_error_of_a_producer_reaches_the_consumer_and_is_not_the_end_of_data() -> None:
    graph, queue, fill, take = failing_graph()
    consumers: list[AbortedError] = []

    def consume() -> None:
        with hr.Session(graph) as session, hr.Coordinator() as coordinator:
            hr.QueueRunner(queue, [fill]).start(session, coordinator)
            assert [int(session.run(take)) for _ in range(3)] == [7, 7, 7]
            with pytest.raises(AbortedError, match="'numbers' was closed because its producer failed") as aborted:
                session.run(take)
            consumers.append(aborted.value)

    with pytest.raises(hr.errors.OutOfRangeError, match="index is out of range") as caught:
        consume()
    assert not isinstance(caught.value, EndOfDataError)
    assert consumers[0].__cause__ is caught.value
    assert "raised in thread 'numbers/0'" in caught.value.__notes__[-1]


def test_D07_the_error_passes_through_a_chain_of_queues() -> None:
    graph, queue, fill, take = failing_graph()
    with graph.as_default():
        second = hr.FIFOQueue(10, hr.int32, shapes=[[]], name="second")
        move, last = second.enqueue(take), second.dequeue()

    def consume() -> None:
        with hr.Session(graph) as session, hr.Coordinator() as coordinator:
            hr.QueueRunner(queue, [fill]).start(session, coordinator)
            hr.QueueRunner(second, [move]).start(session, coordinator)
            while True:
                session.run(last)

    with pytest.raises(hr.errors.OutOfRangeError, match="index is out of range"):
        consume()


def test_D06_who_waits_without_a_producer_is_told_which_queue_and_that_nobody_fills_it() -> None:
    with hr.Graph().as_default() as graph:
        queue = hr.FIFOQueue(10, hr.int32, shapes=[[]], name="numbers")
        fill, batch = queue.enqueue(1), queue.dequeue_many(4, name="batch")
    session = hr.Session(graph, config=hr.config(stall_timeout=0.05))
    with pytest.raises(DeadlineExceededError, match="QueueDequeueManyV2 'batch' made no progress") as caught:
        session.run(batch)
    assert "FIFOQueue 'numbers' holds 0 of 10 elements" in str(caught.value)
    assert "producers: none known, no hr.QueueRunner was started for it" in str(caught.value)
    with hr.Coordinator() as coordinator:
        hr.QueueRunner(queue, [fill]).start(session, coordinator)
        assert session.run(batch).tolist() == [1] * 4
        assert "thread 'numbers/0' (running)" in queue_behind(queue.handle.op, session.resources).describe()


def test_D08_of_two_steps_that_wait_for_each_other_each_names_both_queues() -> None:
    """One holds the last place of a full queue and wants from the empty one, whose producer wants that place."""
    with hr.Graph().as_default() as graph:
        full = hr.FIFOQueue(1, hr.int32, shapes=[[]], name="full")
        empty = hr.FIFOQueue(1, hr.int32, shapes=[[]], name="empty")
        take = empty.dequeue(name="take")
        with hr.control_dependencies([full.enqueue(1, name="add")]):
            give = empty.enqueue(1)
    session = hr.Session(graph, config=hr.config(stall_timeout=0.5))
    session.run("add")
    giver = Call(lambda: session.run(give))
    until(lambda: queue_behind(full.handle.op, session.resources).waiting == (1, 0))
    taker = Call(lambda: session.run(take))
    until(lambda: queue_behind(empty.handle.op, session.resources).waiting == (0, 1))
    with pytest.raises(DeadlineExceededError, match="QueueEnqueueV2 'add' made no progress") as caught:
        giver.result()
    assert "FIFOQueue 'full' holds 1 of 1 elements; 1 waiting to add, 0 to take" in str(caught.value)
    assert "FIFOQueue 'empty' holds 0 of 1 elements; 0 waiting to add, 1 to take" in str(caught.value)
    with pytest.raises(DeadlineExceededError, match="QueueDequeueV2 'take' made no progress"):
        taker.result()


def test_a_producer_that_waits_for_room_is_woken_when_the_coordinator_stops() -> None:
    with hr.Graph().as_default() as graph:
        queue = hr.FIFOQueue(1, hr.int32, shapes=[[]])
        fill, take = queue.enqueue(1), queue.dequeue()
    session = hr.Session(graph)
    state = queue_behind(queue.handle.op, session.resources)
    with hr.Coordinator() as coordinator:
        hr.QueueRunner(queue, [fill] * 3).start(session, coordinator)
        until(lambda: state.waiting == (3, 0))
    assert session.run(take) == 1
    with pytest.raises(EndOfDataError, match="too few elements"):
        session.run(take)


def test_the_end_of_a_runner_serves_others_that_still_wait_for_room() -> None:
    with hr.Graph().as_default() as graph:
        queue = hr.FIFOQueue(1, hr.int32, shapes=[[]])
        empty = hr.FIFOQueue(1, hr.int32, shapes=[[]])
        close_empty = empty.close()
        fill, add, take = queue.enqueue(empty.dequeue()), queue.enqueue(5), queue.dequeue()
    session = hr.Session(graph)
    state = queue_behind(queue.handle.op, session.resources)
    session.run(add)
    waiting = Call(lambda: session.run(add))
    until(lambda: state.waiting == (1, 0))
    coordinator = hr.Coordinator()
    (thread,) = hr.QueueRunner(queue, [fill]).start(session, coordinator)
    session.run(close_empty)
    thread.join(30)
    assert [session.run(take) for _ in range(2)] == [5, 5]
    waiting.result()
    with pytest.raises(EndOfDataError, match="too few elements"):
        session.run(take)
    coordinator.join()


def test_a_runner_whose_session_is_closed_ends_with_that_error() -> None:
    with hr.Graph().as_default() as graph:
        source = hr.FIFOQueue(1, hr.int32, shapes=[[]])
        queue = hr.FIFOQueue(1, hr.int32, shapes=[[]])
        fill = queue.enqueue(source.dequeue())
    session, coordinator = hr.Session(graph), hr.Coordinator()
    state = queue_behind(source.handle.op, session.resources)
    hr.QueueRunner(queue, [fill]).start(session, coordinator)
    until(lambda: state.waiting == (0, 1))
    session.close()
    with pytest.raises(CancelledError, match="was cancelled"):
        coordinator.join()


def test_A43_reading_preprocessing_training_and_saving_are_concurrent_steps_of_one_graph() -> None:
    """The paper's Figure 1: two threads preprocess, one trains, one saves now and then; the end of data ends it all."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(600, 3)).astype(np.float32)
    weights = np.array([[2.0], [-1.0], [0.5]], np.float32)
    records = [row.tobytes() for row in np.concatenate([inputs, inputs @ weights], 1)]
    with hr.Graph(seed=1).as_default() as graph:
        raw = hr.FIFOQueue(50, hr.string, shapes=[[]], name="reader")
        lines = hr.placeholder(hr.string, [None])
        read, end_of_input = raw.enqueue_many(lines), raw.close()

        examples = hr.RandomShuffleQueue(100, 20, [hr.float32, hr.float32], shapes=[[3], [1]], seed=1, name="examples")
        record = hr.reshape(hr.strings.decode_raw(raw.dequeue(), hr.float32), [4])
        preprocess = examples.enqueue([record[:3], record[3:]])

        x, y = examples.dequeue_up_to(20)
        w = hr.Variable(np.zeros((3, 1), np.float32), name="w")
        steps = hr.Variable(np.int32(0), name="steps")
        loss = hr.mean(hr.square(x @ w - y))
        with hr.control_dependencies([hr.optim.Momentum(0.1, momentum=0.5).minimize(loss)]):
            train = steps.assign_add(1)
    saved: list[dict[str, np.ndarray]] = []
    trained = threading.Semaphore(0)
    with hr.Session(graph) as session:
        with hr.Coordinator() as coordinator:

            def feed() -> None:
                for start in range(0, len(records), 25):
                    session.run(read, feeds={lines: records[start : start + 25]})
                session.run(end_of_input)

            def save() -> None:
                if trained.acquire(timeout=0.01):
                    saved.append(session.read_variables())

            coordinator.start(feed)
            hr.QueueRunner(examples, [preprocess] * 2).start(session, coordinator)
            coordinator.start_loop(save)
            first, _ = session.run([loss, train])
            while not coordinator.should_stop():
                trained.release()
                last, _ = session.run([loss, train])
                until(lambda: bool(saved))
        final = session.read_variables()
    assert final["steps"] == 600 // 20  # every record, once
    assert last < first / 100
    np.testing.assert_allclose(final["w"], weights, atol=0.1)
    assert [int(values["steps"]) for values in saved] == sorted(int(values["steps"]) for values in saved)
