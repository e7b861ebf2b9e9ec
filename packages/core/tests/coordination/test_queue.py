"""Queues as users hold them: rows A34 to A38 of what the paper's system does, and the forms of their components."""

from __future__ import annotations

import os
import threading
import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import CancelledError, EndOfDataError, InvalidArgumentError, OutOfRangeError
from headrace.kernels.queues import Queue as QueueState
from headrace.kernels.queues import queue_behind
from headrace.testing.threads import Call, until


def state_of(queue, session: hr.Session) -> QueueState:
    """The queue of a session, to watch who waits for it."""
    return queue_behind(queue.handle.op, session.resources)


def test_A34_a_full_queue_blocks_who_adds_and_an_empty_one_who_takes() -> None:
    with hr.Graph().as_default() as graph:
        queue = hr.FIFOQueue(2, hr.int32, shapes=[[]])
        x = hr.placeholder(hr.int32, [])
        add, take = queue.enqueue(x), queue.dequeue()
    session = hr.Session(graph)
    state = state_of(queue, session)
    session.run(add, feeds={x: 1})
    session.run(add, feeds={x: 2})
    third = Call(lambda: session.run(add, feeds={x: 3}))
    until(lambda: state.waiting == (1, 0))
    assert not third.is_done
    assert session.run(take) == 1
    third.result()
    assert [session.run(take) for _ in range(2)] == [2, 3]

    empty = Call(lambda: session.run(take))
    until(lambda: state.waiting == (0, 1))
    assert not empty.is_done
    session.run(add, feeds={x: 4})
    assert empty.result() == 4


ELEMENTS = [10_000, *([100_000] if "HEADRACE_LONG_TESTS" in os.environ else [])]


@pytest.mark.parametrize("elements", ELEMENTS)
def test_A35_a_fast_producer_does_not_fill_the_memory(elements: int) -> None:
    """Without a bound the queue would hold 40 kB for each element; ten steps fill what one step takes."""
    with hr.Graph().as_default() as graph:
        queue = hr.FIFOQueue(16, hr.float32, shapes=[[10000]])
        add, take = queue.enqueue(hr.ones([10000])), queue.dequeue_many(10)
    session = hr.Session(graph)
    state = state_of(queue, session)
    produce, consume = session.make_callable(add), session.make_callable(take)

    def fill() -> None:
        for _ in range(elements):
            produce()

    producer = Call(fill)
    consume()
    tracemalloc.start()
    try:
        for _ in range(elements // 10 - 1):
            consume()
            assert state.size <= 16
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    producer.result()
    assert peak < 40_000 * (16 + 10 + 10 + 8)  # in the queue, in a batch that grows and its copy, and in flight


def test_A36_a_shuffling_queue_keeps_its_least_number_and_its_seed() -> None:
    orders = []
    for _ in range(2):
        with hr.Graph().as_default() as graph:
            queue = hr.RandomShuffleQueue(20, 5, hr.int32, shapes=[[]], seed=3)
            fill, take, close = queue.enqueue_many(hr.arange(20)), queue.dequeue(), queue.close()
            size = queue.size()
        session = hr.Session(graph)
        session.run(fill)
        order = [int(session.run(take)) for _ in range(15)]
        assert session.run(size) == 5
        state, waiting = state_of(queue, session), Call(partial(session.run, take))
        until(lambda state=state: state.waiting == (0, 1))
        assert not waiting.is_done
        session.run(close)  # what stays for choice may go now
        order += [int(waiting.result()), *(int(session.run(take)) for _ in range(4))]
        assert sorted(order) == list(range(20))
        assert order != list(range(20))
        orders.append(order)
    assert orders[0] == orders[1]


def test_A36_a_priority_queue_gives_the_lowest_first_and_ties_in_the_order_of_adding() -> None:
    with hr.Graph().as_default() as graph:
        queue = hr.PriorityQueue(20, hr.string, shapes=[[]])
        fill = queue.enqueue_many([[3, 1, 2, 1, 3, 1], ["a", "b", "c", "d", "e", "f"]])
        priorities, words = queue.dequeue_many(4)
        _, last = queue.dequeue()
    session = hr.Session(graph)
    session.run(fill)
    numbers, letters = session.run([priorities, words])
    assert numbers.tolist() == [1, 1, 1, 2]
    assert letters.tolist() == [b"b", b"d", b"f", b"c"]
    assert [session.run(last) for _ in range(2)] == [b"a", b"e"]


def test_A37_a_queue_of_tokens_is_a_barrier() -> None:
    """Each worker hands in a token and takes one of N that are given out together: nobody is a step ahead."""
    workers, rounds = 4, 25
    with hr.Graph().as_default() as graph:
        arrived = hr.FIFOQueue(workers, hr.int32, shapes=[[]])
        released = hr.FIFOQueue(workers, hr.int32, shapes=[[]])
        done = hr.Variable(np.zeros(workers, np.int32))
        place = hr.placeholder(hr.int32, [])
        work = done.assign_add(hr.one_hot(place, workers, dtype=hr.int32))
        with hr.control_dependencies([work]):
            hand_in = arrived.enqueue(0)
        release = released.enqueue_many(arrived.dequeue_many(workers))
        token, seen = released.dequeue(), done.read()
    session = hr.Session(graph)
    session.run(seen)
    views: list[list[int]] = []
    lock = threading.Lock()

    def run_worker(index: int) -> None:
        for number in range(1, rounds + 1):
            session.run(hand_in, feeds={place: index})
            session.run(token)
            view = session.run(seen).tolist()
            with lock:
                views.append(view)
            assert min(view) >= number  # all have ended this round

    calls = [Call(lambda index=index: run_worker(index)) for index in range(workers)]
    for _ in range(rounds):
        session.run(release)
    for call in calls:
        call.result()
    assert all(max(view) - min(view) <= 1 for view in views)
    assert session.run(seen).tolist() == [rounds] * workers


def test_A38_after_closing_the_rest_comes_out_and_then_the_end_of_data() -> None:
    with hr.Graph().as_default() as graph:
        queue = hr.FIFOQueue(5, hr.int32, shapes=[[]])
        fill, take, close = queue.enqueue_many([1, 2, 3]), queue.dequeue(), queue.close()
        pair, rest, is_closed = queue.dequeue_many(2), queue.dequeue_up_to(2), queue.is_closed()
        again = queue.close(cancel_pending_enqueues=True)
    session = hr.Session(graph)
    session.run(fill)
    assert not session.run(is_closed)
    session.run(close)
    assert session.run(is_closed)
    assert session.run(take) == 1
    assert session.run(pair).tolist() == [2, 3]
    for fetch in (take, pair, rest):
        with pytest.raises(OutOfRangeError, match="is closed and has too few elements") as caught:
            session.run(fetch)
        assert type(caught.value) is EndOfDataError
    with pytest.raises(CancelledError, match="is closed"):
        session.run(fill)
    with pytest.raises(CancelledError, match="is closed already"):
        session.run(close)
    session.run(again)


def test_A38_fewer_elements_than_asked_for_stay_for_who_is_content_with_them() -> None:
    with hr.Graph().as_default() as graph:
        queue = hr.FIFOQueue(5, hr.int32, shapes=[[]])
        fill, close = queue.enqueue_many([1]), queue.close()
        pair, rest = queue.dequeue_many(2), queue.dequeue_up_to(2)
    session = hr.Session(graph)
    session.run(fill)
    waiting = Call(lambda: session.run(pair))
    until(lambda: state_of(queue, session).waiting == (0, 1))
    session.run(close)
    with pytest.raises(EndOfDataError, match="too few elements"):
        waiting.result()
    assert session.run(rest).tolist() == [1]


def test_A38_closing_with_cancel_ends_those_who_wait_for_room() -> None:
    with hr.Graph().as_default() as graph:
        queue = hr.FIFOQueue(1, hr.int32, shapes=[[]])
        add, take = queue.enqueue(1), queue.dequeue()
        close, cancel = queue.close(), queue.close(cancel_pending_enqueues=True)
    session = hr.Session(graph)
    session.run(add)
    adding = [Call(lambda: session.run(add)) for _ in range(3)]
    until(lambda: state_of(queue, session).waiting == (3, 0))
    closing = Call(lambda: session.run(close))
    until(lambda: state_of(queue, session).waiting == (4, 0))
    session.run(cancel)
    for call in (*adding, closing):
        with pytest.raises(CancelledError, match="is closed"):
            call.result()
    assert session.run(take) == 1
    with pytest.raises(EndOfDataError, match="too few elements"):
        session.run(take)


def test_closing_a_session_wakes_who_waits_for_its_queues() -> None:
    with hr.Graph().as_default() as graph:
        queue = hr.FIFOQueue(1, hr.int32, shapes=[[]])
        add, take = queue.enqueue(1), queue.dequeue()
        full = hr.FIFOQueue(1, hr.int32, shapes=[[]])
        add_to_full = full.enqueue_many([1, 2])
    session = hr.Session(graph)
    session.run(add)
    session.run(take)
    calls = [Call(lambda: session.run(take)) for _ in range(2)] + [Call(lambda: session.run(add_to_full))]
    until(lambda: state_of(queue, session).waiting == (0, 2) and state_of(full, session).waiting == (1, 0))
    session.close()
    for call in calls:
        with pytest.raises(CancelledError, match="was cancelled"):
            call.result()


def test_components_have_names_or_an_order() -> None:
    with hr.Graph().as_default() as graph:
        named = hr.FIFOQueue(5, [hr.float32, hr.int32], shapes=[[2], []], names=["image", "label"])
        add, both = named.enqueue({"label": 3, "image": [1.0, 2.0]}), named.dequeue()
        ordered = hr.FIFOQueue(5, [hr.float32, hr.int32], shapes=[[2], []])
        fill, pair = ordered.enqueue_many([[[1.0, 2.0]], [3]]), ordered.dequeue()
        single = hr.FIFOQueue(5, [hr.int32])
        listed, alone = single.enqueue([hr.constant(4)]), single.dequeue()
    session = hr.Session(graph)
    session.run([add, fill, listed])
    taken = session.run(both)
    assert taken["image"].tolist() == [1, 2]
    assert taken["label"] == 3
    image, label = session.run(pair)
    assert (image.tolist(), label) == ([1, 2], 3)
    assert session.run(alone) == 4
    assert "float32[2], int32[]" in repr(ordered)


def test_a_sparse_tensor_is_one_component() -> None:
    with hr.Graph().as_default() as graph:
        queue = hr.FIFOQueue(5, [hr.SparseTensor(hr.int64, hr.float32, hr.int64), hr.int32])
        x = hr.sparse.placeholder(hr.float32, [None, None])
        add, (sparse, label) = queue.enqueue([x, 7]), queue.dequeue()
        dense = hr.sparse.to_dense(sparse)
        with pytest.raises(InvalidArgumentError, match="component of queue 'fifo_queue' is of the wrong kind"):
            queue.enqueue([hr.ones([2]), 7])
        padded = hr.PaddingFIFOQueue(
            5, hr.SparseTensor(hr.int64, hr.float32, hr.int64), [hr.SparseTensor([None, 2], [None], [2])]
        )
        into_padded, values = padded.enqueue(x), padded.dequeue().values
    session = hr.Session(graph)
    value = hr.SparseTensor([[0, 1], [2, 0]], [5.0, 6.0], [3, 2])
    session.run([add, into_padded], feeds={x: value})
    assert session.run(values).tolist() == [5, 6]
    matrix, number = session.run([dense, label])
    assert matrix.tolist() == [[0, 5], [0, 0], [6, 0]]
    assert number == 7


def test_elements_of_wrong_form_are_refused_where_they_are_given() -> None:
    with hr.Graph().as_default():
        named = hr.FIFOQueue(5, [hr.float32, hr.int32], names=["image", "label"])
        with pytest.raises(InvalidArgumentError, match=r"is a dict(.|\n)*the keys image, label(.|\n)*image"):
            named.enqueue({"image": 1.0})
        with pytest.raises(InvalidArgumentError, match="is a dict"):
            named.enqueue([1.0, 2])
        with pytest.raises(InvalidArgumentError, match="another number of components"):
            hr.FIFOQueue(5, [hr.float32, hr.int32]).enqueue([1.0])
        with pytest.raises(InvalidArgumentError, match="another number of names than components"):
            hr.FIFOQueue(5, [hr.float32, hr.int32], names=["image"])
        with pytest.raises(InvalidArgumentError, match="shapes of a queue do not go with its dtypes"):
            hr.FIFOQueue(5, hr.float32, shapes=[])
        with pytest.raises(hr.errors.DTypeError, match="wrong dtype"):
            hr.FIFOQueue(5, hr.float32).enqueue(hr.constant(1))


def test_padding_makes_batches_of_elements_that_differ() -> None:
    with hr.Graph().as_default() as graph:
        queue = hr.PaddingFIFOQueue(5, [hr.int32, hr.string], shapes=[[None, 2], [None]])
        x, words = hr.placeholder(hr.int32, [None, 2]), hr.placeholder(hr.string, [None])
        add, both = queue.enqueue([x, words]), queue.dequeue_many(2)
    session = hr.Session(graph)
    session.run(add, feeds={x: np.ones((1, 2), np.int32), words: ["a"]})
    session.run(add, feeds={x: np.ones((3, 2), np.int32), words: ["b", "c"]})
    numbers, texts = session.run(both)
    assert numbers.tolist() == [[[1, 1], [0, 0], [0, 0]], [[1, 1]] * 3]
    assert texts.tolist() == [[b"a", b""], [b"b", b"c"]]


def test_what_is_taken_belongs_to_who_took_it() -> None:
    with hr.Graph().as_default() as graph:
        queue = hr.FIFOQueue(5, hr.float32, shapes=[[2]])
        x = hr.placeholder(hr.float32, [2])
        add, take = queue.enqueue(x * 2.0), queue.dequeue()
    session = hr.Session(graph)
    given = np.ones(2, np.float32)
    session.run(add, feeds={x: given})
    session.run(add, feeds={x: given * 5})
    first = session.run(take)
    first[:] = -1
    assert session.run(take).tolist() == [10, 10]


def test_elements_are_taken_in_loops_and_branches() -> None:
    with hr.Graph().as_default() as graph:
        queue = hr.FIFOQueue(50, hr.int32, shapes=[[]])
        fill, left = queue.enqueue_many(hr.arange(20)), queue.size()
        _, total = hr.while_loop(lambda i, _: i < 10, lambda i, total: (i + 1, total + queue.dequeue()), (0, 0))
        wanted = hr.placeholder(hr.bool, [])
        maybe = hr.cond(wanted, queue.dequeue, lambda: hr.constant(-1))
        pair = hr.cond(wanted, lambda: queue.dequeue_many(2), lambda: hr.constant([-1, -1]))
        assert str(pair.shape) == "[2]"
    session = hr.Session(graph)
    session.run(fill)
    assert session.run(total) == sum(range(10))
    assert [int(session.run(maybe, feeds={wanted: value})) for value in (True, False, True)] == [10, -1, 11]
    assert session.run(pair, feeds={wanted: True}).tolist() == [12, 13]
    assert session.run(left) == 6
    waiting = Call(lambda: session.run(total))
    until(lambda: state_of(queue, session).waiting == (0, 1))
    session.run(fill)
    assert waiting.result() == sum(range(14, 20)) + sum(range(4))


def test_a_function_has_queues_of_its_own() -> None:
    @hr.function
    def twice(x):
        queue = hr.FIFOQueue(5, hr.float32, shapes=[[]])
        queue.enqueue(x)
        queue.enqueue(2.0 * x)
        return queue.dequeue(), queue.dequeue(), queue.size()

    for number in (3.0, 4.0):
        first, second, left = twice(np.float32(number))
        assert (first, second, left) == (number, 2 * number, 0)


def test_a_queue_lives_on_its_device_and_may_be_used_from_others() -> None:
    with hr.Graph().as_default() as graph:
        with hr.device("/device:CPU:1"):
            queue = hr.FIFOQueue(5, hr.float32, shapes=[[]])
        with hr.device("/device:CPU:2"):
            value = hr.constant(3.0) + 1.0
        add, result = queue.enqueue(value), queue.dequeue() * 2.0
    session = hr.Session(graph, config=hr.config(virtual_devices={"CPU": 3}))
    session.run(add)
    assert session.run(result) == 8.0


def test_a_step_that_adds_and_takes_in_order_needs_no_other_step() -> None:
    with hr.Graph().as_default() as graph:
        queue = hr.FIFOQueue(1, hr.int32, shapes=[[]])
        add = queue.enqueue(5)
        with hr.control_dependencies([add]):
            taken = queue.dequeue()
    assert hr.Session(graph).run(taken + 1) == 6


@pytest.mark.parametrize("kind", [hr.FIFOQueue, hr.PaddingFIFOQueue, hr.PriorityQueue])
def test_a_queue_without_room_is_refused(kind: Any) -> None:
    with (
        hr.Graph().as_default() as graph,
        pytest.raises(hr.errors.InvalidArgumentError, match="a queue of capacity 0 takes no element(.|\n)*capacity=1"),
    ):
        kind(0, [hr.float32], [[]])
    assert not graph.operations
