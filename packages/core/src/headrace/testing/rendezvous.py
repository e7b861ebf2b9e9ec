"""What every rendezvous must do, for whoever implements one."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.errors import AbortedError, CancelledError, DeadlineExceededError, InvalidArgumentError
from headrace.interfaces import OpContext, Rendezvous, StepControl
from headrace.runtime.step_control import Cancellation, StepController

__all__ = ["check_rendezvous"]

LIMIT = 20.0
"""Seconds after which a receiver that should have ended counts as hanging."""


def check_rendezvous(create: Callable[[], Rendezvous]) -> int:
    """Check an implementation of `interfaces.Rendezvous` and raise AssertionError where it does not do what it must.

    Args:
      create: makes the rendezvous of a new step; what is sent into it is received from it.
    Returns:
      The number of properties that were checked.

    Example:
      >>> from headrace.runtime.rendezvous import LocalRendezvous
      >>> from headrace.testing import check_rendezvous
      >>> check_rendezvous(lambda: LocalRendezvous(1)) > 5
      True
    """
    properties = (
        _values_wait_for_their_receiver,
        _receivers_wait_for_their_value,
        _keys_do_not_mix,
        _one_key_keeps_its_order,
        _dead_tensors_travel,
        _steps_do_not_mix,
        _an_abort_wakes_who_waits,
        _after_an_abort_nothing_goes_through,
        _a_wait_can_be_cancelled,
        _a_wait_ends_at_its_deadline,
        _what_is_no_key_is_refused,
        _many_threads_find_their_values,
    )
    for check in properties:
        check(create)
    return len(properties)


def _key(name: str, frame: str = "0:0") -> str:
    task = "/job:worker/replica:0/task:0/device"
    return f"{task}:CPU:0;1f;{task}:CPU:1;{name};{frame}"


class _Receiver:
    """Receives one key in a thread of its own."""

    def __init__(self, rendezvous: Rendezvous, key: str, step: StepController | None = None) -> None:
        self.waits = threading.Event()
        self.result: tuple[Any, bool] = (None, False)
        self.error: Exception | None = None
        self._rendezvous, self._key, self._step = rendezvous, key, step or StepController()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def rendezvous(self) -> Rendezvous:
        return self._rendezvous

    def wait(self, condition: threading.Condition, ready: Callable[[], bool], describe: Callable[[], str]) -> None:
        self.waits.set()
        self._step.wait(condition, ready, describe)

    def of(self, operation: OpContext) -> StepControl:
        return self

    def give_up(self, reason: str) -> None:
        self._step.give_up(reason)

    def check(self) -> None:
        self._step.check()

    def _run(self) -> None:
        try:
            self.result = self._rendezvous.recv(self._key, self)
        except Exception as error:  # looked at by the thread that started this one
            self.error = error

    def must_wait(self) -> None:
        """Return once it waits."""
        _require(self.waits.wait(LIMIT), "recv does not wait by step.wait")

    def end(self) -> tuple[Any, bool]:
        self._thread.join(LIMIT)
        _require(not self._thread.is_alive(), f"recv of {self._key!r} hangs")
        if self.error is not None:
            raise self.error
        return self.result


def _values_wait_for_their_receiver(create: Callable[[], Rendezvous]) -> None:
    rendezvous = create()
    rendezvous.send(_key("x:0"), np.arange(3), False)
    value, is_dead = rendezvous.recv(_key("x:0"), StepController())
    _require(not is_dead, "a live value came out dead")
    _require(np.array_equal(value, np.arange(3)), "another value came out")


def _receivers_wait_for_their_value(create: Callable[[], Rendezvous]) -> None:
    rendezvous = create()
    receiver = _Receiver(rendezvous, _key("x:0"))
    receiver.must_wait()
    rendezvous.send(_key("x:0"), np.float32(2), False)
    _require(receiver.end()[0] == 2, "another value came out")


def _keys_do_not_mix(create: Callable[[], Rendezvous]) -> None:
    rendezvous = create()
    names = [("a:0", "0:0"), ("b:0", "0:0"), ("b:0", "1:3"), ("^a", "0:0")]
    for index in (2, 0, 3, 1):  # neither a queue nor a stack would give them back in their order
        rendezvous.send(_key(*names[index]), np.int64(index), False)
    received = [int(_Receiver(rendezvous, _key(*name)).end()[0]) for name in names]
    _require(received == [0, 1, 2, 3], "values came out under other keys")


def _one_key_keeps_its_order(create: Callable[[], Rendezvous]) -> None:
    rendezvous = create()
    for number in range(5):
        rendezvous.send(_key("x:0"), np.int64(number), False)
    received = [int(rendezvous.recv(_key("x:0"), StepController())[0]) for _ in range(5)]
    _require(received == [0, 1, 2, 3, 4], f"values of one key came out as {received}")


def _dead_tensors_travel(create: Callable[[], Rendezvous]) -> None:
    rendezvous = create()
    rendezvous.send(_key("x:0"), None, True)
    _require(rendezvous.recv(_key("x:0"), StepController())[1], "a dead tensor came out alive")


def _steps_do_not_mix(create: Callable[[], Rendezvous]) -> None:
    first, second = create(), create()
    receiver = _Receiver(first, _key("x:0"))
    receiver.must_wait()
    second.send(_key("x:0"), np.int64(2), False)
    first.send(_key("x:0"), np.int64(1), False)
    _require((int(receiver.end()[0]), int(second.recv(_key("x:0"), StepController())[0])) == (1, 2), "steps mix")


def _an_abort_wakes_who_waits(create: Callable[[], Rendezvous]) -> None:
    rendezvous = create()
    receivers = [_Receiver(rendezvous, _key(f"x:{index}")) for index in range(3)]
    for receiver in receivers:
        receiver.must_wait()
    rendezvous.start_abort(AbortedError("the root cause"))
    rendezvous.start_abort(AbortedError("a consequence"))
    for receiver in receivers:
        _expect(AbortedError, receiver.end, "the root cause")


def _after_an_abort_nothing_goes_through(create: Callable[[], Rendezvous]) -> None:
    rendezvous = create()
    rendezvous.send(_key("x:0"), np.int64(1), False)
    rendezvous.start_abort(AbortedError("given up"))
    _expect(AbortedError, lambda: rendezvous.send(_key("y:0"), np.int64(1), False), "given up")
    _expect(AbortedError, _Receiver(rendezvous, _key("x:0")).end, "given up")


def _a_wait_can_be_cancelled(create: Callable[[], Rendezvous]) -> None:
    rendezvous, cancellation = create(), Cancellation()
    receiver = _Receiver(rendezvous, _key("x:0"), StepController(cancellation=cancellation))
    receiver.must_wait()
    cancellation.cancel()
    _expect(CancelledError, receiver.end, "x:0", "CPU:0", "CPU:1")


def _a_wait_ends_at_its_deadline(create: Callable[[], Rendezvous]) -> None:
    receiver = _Receiver(create(), _key("x:0"), StepController(timeout=0.01))
    _expect(DeadlineExceededError, receiver.end, "x:0", "CPU:0", "CPU:1")


def _what_is_no_key_is_refused(create: Callable[[], Rendezvous]) -> None:
    rendezvous = create()
    for key in ("", "x", "a;1;b;x:0", "a;1;b;x:0;", "a;1;b;x;y;0:0"):
        _expect(InvalidArgumentError, functools.partial(rendezvous.send, key, None, False), repr(key))
        _expect(InvalidArgumentError, _Receiver(rendezvous, key).end, repr(key))


def _many_threads_find_their_values(create: Callable[[], Rendezvous]) -> None:
    rendezvous, count = create(), 64
    receivers = [_Receiver(rendezvous, _key(f"x:{index}")) for index in range(count)]

    def send_every_fourth(start: int) -> None:
        for index in range(start, count, 4):
            rendezvous.send(_key(f"x:{index}"), np.int64(index), False)

    senders = [threading.Thread(target=send_every_fourth, args=(start,)) for start in range(4)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    received = [int(receiver.end()[0]) for receiver in receivers]
    _require(received == list(range(count)), "values were lost or mixed")


def _expect(kind: type[Exception], call: Callable[[], Any], *parts: str) -> None:
    try:
        call()
    except kind as error:
        text = str(error)
    else:
        raise AssertionError(f"no {kind.__name__}")
    missing = [part for part in parts if part not in text]
    _require(not missing, f"the error does not name {missing}:\n{text}")


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise AssertionError(what)
