"""The queue behind every kind of queue: lines of callers, closing, giving up; against a model and with threads."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.kernels.element_queue import ElementQueue
from headrace.kernels.element_stores import FifoStore, PriorityStore, RandomStore
from headrace.testing.threads import Call, until


class Impatient:
    """A step that gives up instead of waiting."""

    def wait(self, condition: threading.Condition, ready: Callable[[], bool], describe: Callable[[], str]) -> None:
        if not ready():
            raise hr.errors.DeadlineExceededError(describe())

    def check(self) -> None: ...

    @property
    def rendezvous(self):
        raise NotImplementedError


class Patient(Impatient):
    """A step that waits, and can be told to give up."""

    def __init__(self) -> None:
        self.given_up = False
        self.condition: threading.Condition | None = None

    def wait(self, condition: threading.Condition, ready: Callable[[], bool], describe: Callable[[], str]) -> None:
        self.condition = condition
        if not condition.wait_for(lambda: ready() or self.given_up, timeout=30):
            raise AssertionError(f"stuck: {describe()}")
        if not ready():
            raise hr.errors.CancelledError(describe())

    def give_up(self) -> None:
        assert self.condition is not None
        with self.condition:
            self.given_up = True
            self.condition.notify_all()


IMPATIENT = Impatient()


def fifo(capacity: int = -1) -> ElementQueue:
    return ElementQueue("FIFOQueue", "q", FifoStore(), capacity=capacity)


ACTIONS = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 5)),
    st.tuples(st.just("take"), st.integers(0, 5)),
    st.tuples(st.just("rest"), st.integers(1, 5)),
    st.tuples(st.just("close"), st.booleans()),
)


@pytest.mark.parametrize("kind", ["fifo", "priority", "random"])
@given(actions=st.lists(ACTIONS, max_size=30), capacity=st.sampled_from([-1, 0, 1, 3, 7]), seed=st.integers(0, 9))
def test_a_queue_does_what_a_list_would(kind: str, actions, capacity: int, seed: int) -> None:
    words, model_words = random.Random(seed), random.Random(seed)
    store = {"fifo": FifoStore(), "priority": PriorityStore(), "random": RandomStore(lambda: words.getrandbits(32))}
    queue = ElementQueue(kind, "q", store[kind], capacity=capacity)
    model: list[tuple[np.ndarray, int]] = []
    closed, number = False, 0

    def next_of_model() -> tuple[np.ndarray, int]:
        if kind == "priority":
            return model.pop(min(range(len(model)), key=lambda index: (model[index][0], model[index][1])))
        if kind == "random":
            index = model_words.getrandbits(32) % len(model)
            model[index], model[-1] = model[-1], model[index]
            return model.pop()
        return model.pop(0)

    for action, argument in actions:
        if action == "add":
            elements = [(np.array((number + i) % 3), number + i) for i in range(argument)]
            number += argument
            room = argument if capacity < 0 else min(argument, capacity - len(model))
            if closed and argument:
                with pytest.raises(hr.errors.CancelledError, match="is closed"):
                    queue.add(elements, IMPATIENT)
            elif room < argument:
                with pytest.raises(hr.errors.DeadlineExceededError, match="1 waiting to add"):
                    queue.add(elements, IMPATIENT)
                model += elements[:room]
            else:
                queue.add(elements, IMPATIENT)
                model += elements
        elif action == "close":
            if argument:
                queue.close_now()
            elif closed:
                with pytest.raises(hr.errors.CancelledError, match="closed already"):
                    queue.close(IMPATIENT)
            else:
                queue.close(IMPATIENT)
            closed = True
        elif action == "rest" and closed and 0 < len(model) < argument:
            count = len(model)
            assert queue.take(argument, IMPATIENT, fewer_at_end=True) == [next_of_model() for _ in range(count)]
        elif len(model) >= argument:
            taken = queue.take(argument, IMPATIENT, fewer_at_end=action == "rest")
            assert taken == [next_of_model() for _ in range(argument)]
        else:
            error = hr.errors.EndOfDataError if closed else hr.errors.DeadlineExceededError
            before = queue.size
            with pytest.raises(error, match="too few elements" if closed else "1 to take"):
                queue.take(argument, IMPATIENT, fewer_at_end=action == "rest")
            assert queue.size == before
            if not closed and kind == "random":  # it drew for those that it gave back
                taken_back = [next_of_model() for _ in range(len(model))]
                model += reversed(taken_back)
        assert queue.size == len(model)
        assert queue.is_closed == closed
        assert queue.waiting == (0, 0)


def test_callers_are_served_in_the_order_in_which_they_came() -> None:
    queue = fifo()
    calls = []
    for position in range(5):
        calls.append(Call(lambda: queue.take(2, Patient())))
        until(lambda position=position: queue.waiting == (0, position + 1))
    queue.add([(number,) for number in range(10)], IMPATIENT)
    for position, call in enumerate(calls):
        assert call.result() == [(2 * position,), (2 * position + 1,)]


def test_who_wants_many_is_not_starved_by_those_who_want_one() -> None:
    queue = fifo(capacity=2)
    many = Call(lambda: queue.take(5, Patient()))
    until(lambda: queue.waiting == (0, 1))
    one = Call(lambda: queue.take(1, Patient()))
    until(lambda: queue.waiting == (0, 2))
    for number in range(6):
        queue.add([(number,)], Patient())
    assert many.result() == [(0,), (1,), (2,), (3,), (4,)]  # more than the queue can hold
    assert one.result() == [(5,)]


def test_elements_that_one_caller_adds_stay_together() -> None:
    queue = fifo(capacity=2)
    first = Call(lambda: queue.add([(0,), (1,), (2,), (3,)], Patient()))
    until(lambda: queue.waiting == (1, 0))
    second = Call(lambda: queue.add([(4,)], Patient()))
    until(lambda: queue.waiting == (2, 0))
    assert [queue.take(1, IMPATIENT)[0][0] for _ in range(5)] == [0, 1, 2, 3, 4]
    first.result()
    second.result()


def test_who_gives_up_leaves_the_elements_to_the_next() -> None:
    queue = fifo()
    step = Patient()
    first = Call(lambda: queue.take(3, step))
    until(lambda: queue.waiting == (0, 1))
    second = Call(lambda: queue.take(2, Patient()))
    until(lambda: queue.waiting == (0, 2))
    queue.add([(0,), (1,)], IMPATIENT)
    assert queue.size == 0  # the first has collected both
    step.give_up()
    with pytest.raises(hr.errors.CancelledError, match="holds 0 elements"):
        first.result()
    assert second.result() == [(0,), (1,)]


def test_an_interrupt_after_the_elements_were_handed_over_loses_none() -> None:
    class Interrupted(Impatient):
        def wait(self, condition: threading.Condition, ready: Callable[[], bool], describe: Callable[[], str]) -> None:
            condition.wait_for(ready, 30)
            raise KeyboardInterrupt

    queue = fifo()
    call = Call(lambda: queue.take(1, Interrupted()))
    until(lambda: queue.waiting == (0, 1))
    queue.add([(7,)], IMPATIENT)
    with pytest.raises(KeyboardInterrupt) as caught:
        call.result()
    assert caught.type is KeyboardInterrupt
    assert queue.take(1, IMPATIENT) == [(7,)]


def test_closing_waits_for_those_that_wait_for_room_and_refuses_later_ones() -> None:
    queue = fifo(capacity=1)
    queue.add([(0,)], IMPATIENT)
    adding = Call(lambda: queue.add([(1,)], Patient()))
    until(lambda: queue.waiting == (1, 0))
    closing = Call(lambda: queue.close(Patient()))
    until(lambda: queue.waiting == (2, 0))
    late = Call(lambda: queue.add([(2,)], Patient()))
    until(lambda: queue.waiting == (3, 0))
    assert not queue.is_closed
    assert queue.take(1, IMPATIENT) == [(0,)]
    adding.result()
    closing.result()
    with pytest.raises(hr.errors.CancelledError, match="is closed"):
        late.result()
    assert queue.take(1, IMPATIENT) == [(1,)]
    with pytest.raises(hr.errors.EndOfDataError, match=r"closed and has too few elements(.|\n)*expected: 1 elements"):
        queue.take(1, IMPATIENT)


def test_a_closing_may_be_left_to_its_turn() -> None:
    queue = fifo(capacity=1)
    queue.add([(0,)], IMPATIENT)
    adding = Call(lambda: queue.add([(1,)], Patient()))
    until(lambda: queue.waiting == (1, 0))
    queue.close_in_turn()
    assert not queue.is_closed
    assert [queue.take(1, IMPATIENT) for _ in range(2)] == [[(0,)], [(1,)]]
    adding.result()
    assert queue.is_closed
    queue.close_in_turn()


def test_closing_at_once_ends_those_that_wait_for_room() -> None:
    queue = fifo(capacity=1)
    queue.add([(0,)], IMPATIENT)
    adding = Call(lambda: queue.add([(1,)], Patient()))
    until(lambda: queue.waiting == (1, 0))
    queue.close_now()
    with pytest.raises(hr.errors.CancelledError, match="is closed"):
        adding.result()
    assert queue.take(1, IMPATIENT) == [(0,)]


def test_elements_stay_for_a_random_choice_until_the_queue_is_closed() -> None:
    queue = ElementQueue("RandomShuffleQueue", "q", RandomStore(lambda: 0), min_after_take=2)
    queue.add([(0,), (1,), (2,)], IMPATIENT)
    assert len(queue.take(1, IMPATIENT)) == 1
    with pytest.raises(hr.errors.DeadlineExceededError, match="holds 2 elements of which 2 stay"):
        queue.take(1, IMPATIENT)
    queue.close_now()
    assert len(queue.take(2, IMPATIENT)) == 2


def test_elements_of_equal_priority_that_were_given_back_come_first_again() -> None:
    queue = ElementQueue("PriorityQueue", "q", PriorityStore())
    queue.add([(np.array(1), number) for number in range(3)], IMPATIENT)
    with pytest.raises(hr.errors.DeadlineExceededError, match="1 to take"):
        queue.take(4, IMPATIENT)
    queue.add([(np.array(1), 3)], IMPATIENT)
    assert [number for _, number in queue.take(4, IMPATIENT)] == [0, 1, 2, 3]


def test_a_queue_remembers_the_error_for_which_it_was_closed() -> None:
    queue = fifo()
    queue.add([(0,)], IMPATIENT)
    cause = ValueError("line 3 of the file is broken")
    queue.close_now(cause)
    queue.close_now(RuntimeError("a later one"))
    assert queue.take(1, IMPATIENT) == [(0,)]
    with pytest.raises(hr.errors.AbortedError, match=r"producer failed(.|\n)*ValueError: line 3") as caught:
        queue.take(1, IMPATIENT)
    assert caught.value.__cause__ is cause
    with pytest.raises(hr.errors.CancelledError, match="is closed") as refused:
        queue.add([(1,)], IMPATIENT)
    assert refused.value.__cause__ is cause


def test_who_waits_is_told_what_the_queue_holds_and_who_brings_elements() -> None:
    queue = fifo(capacity=4)
    with pytest.raises(hr.errors.DeadlineExceededError, match=r"'q' holds 0 of 4 elements; .* 1 to take; .* no hr\.Qu"):
        queue.take(1, IMPATIENT)
    queue.note_producer("reader", "running")
    queue.note_producer("decoder", "ended")
    assert queue.describe().endswith("producers: reader (running), decoder (ended)")


@pytest.mark.parametrize("seed", [random.randrange(2**32)], ids=["seed"])  # pytest shows it where the test fails
def test_a_thousand_races_of_opening_closing_and_cancelling_leave_no_thread_blocked(seed: int) -> None:
    choose = random.Random(seed)
    for _ in range(1000):
        queue = fifo(capacity=choose.randrange(3))
        steps = [Patient() for _ in range(3)]
        calls = [
            Call(partial(queue.take, 2, steps[0])),
            Call(partial(queue.add, [(0,)] * choose.randrange(1, 4), steps[1])),
            Call(partial(queue.close, steps[2])),
        ]
        for step in choose.sample(steps, choose.randrange(3)):
            if step.condition is not None:
                step.give_up()
        queue.close_now()
        for call in calls:
            with contextlib.suppress(hr.errors.CancelledError, hr.errors.EndOfDataError):
                call.result()
        assert queue.waiting == (0, 0)
