"""Validated requests, and threads that compute their outputs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from headrace.errors import HeadraceError, InternalError
from headrace_serving.model import Array, Signature

Outputs = Mapping[str, Array]

_CALLS_IN_A_ROW = 16
_SHORT_SECONDS = 0.0005  # waking a thread and coming back takes some 0.2 ms
_SHORT_WAIT_SECONDS = 0.02
_REMEMBERED_SIGNATURES = 1000


@dataclass(slots=True)
class Work:
    """Inputs that a signature takes, and what tells when and with which others it may be called. Mutable.

    Its deadline is known later than the rest, and a copy would cost as much as a short call.

    Attributes:
      signature: what is to be called.
      inputs: tensors by alias.
      priority: 1 is the highest; 0 stands for the default, which is the lowest.
      deadline: on the executor's clock, in seconds; None for none.
      model: name and version of what it is for, for statistics.
      started: when its computation began, on the monotonic clock; None before.
    """

    signature: Signature
    inputs: dict[str, Array]
    priority: int = 0
    deadline: float | None = None
    model: tuple[str, int] = ("", 0)
    started: float | None = None

    @property
    def input_bytes(self) -> int:
        """How many bytes the inputs have."""
        return sum(tensor.nbytes for tensor in self.inputs.values())


Observe = Callable[[Work, int, int, float], None]
"""Is told of a call: one of its works, the rows, the rows with padding, and the seconds that it has taken."""


def ignore_call(work: Work, rows: int, padded: int, seconds: float) -> None:
    """Do nothing about a call, for whoever counts none."""


class ShortCalls:
    """Which signatures answer so soon that a thread for them would cost more than the call. Mutable; thread-safe.

    A signature counts as short, for inputs of about the same size, after some calls in a row that were; one that was
    not ends that. What it is known by may come to mean another signature once its model is gone, which costs no more
    than one call that is not short.

    Example:
      >>> calls = ShortCalls()
      >>> for _ in range(16):
      ...     calls.called(7, 1000, 0.0001, 0.0001)
      >>> calls.is_short(7, 1010), calls.is_short(7, 5000)
      (True, False)
    """

    def __init__(self) -> None:
        self._in_a_row: dict[tuple[int, int], int] = {}

    def is_short(self, signature: int, input_bytes: int) -> bool:
        """Return whether a signature, known by its identity, has been short for a while with inputs of this size."""
        return self._in_a_row.get((signature, input_bytes.bit_length()), 0) >= _CALLS_IN_A_ROW

    def called(self, signature: int, input_bytes: int, computing: float, waiting: float) -> None:
        """Remember a call.

        Args:
          signature: its identity.
          input_bytes: bytes of its inputs.
          computing: seconds that it has computed.
          waiting: seconds from its beginning to its end; more, where other threads had their turn.
        """
        if len(self._in_a_row) > _REMEMBERED_SIGNATURES:
            self._in_a_row.clear()
        key = (signature, input_bytes.bit_length())
        short = computing < _SHORT_SECONDS and waiting < _SHORT_WAIT_SECONDS
        self._in_a_row[key] = self._in_a_row.get(key, 0) + 1 if short else 0

    def called_here(self, signature: int, input_bytes: int, waiting: float) -> None:
        """Remember a call that no thread was woken for.

        How long it has computed is not asked, for that takes as long as a short call. One that has taken long may have
        been interrupted: the next one goes to a thread, which finds out.

        Args:
          signature: its identity.
          input_bytes: bytes of its inputs.
          waiting: seconds from its beginning to its end.
        """
        if waiting >= _SHORT_SECONDS:
            self._in_a_row[signature, input_bytes.bit_length()] = _CALLS_IN_A_ROW - 1


class Executor(Protocol):
    """Computes the outputs of works, on threads of its own unless that would take longer than the call.

    Attributes:
      settled: called on such a thread after the futures of one or more works are done.
    """

    settled: Callable[[], None]

    def submit(self, work: Work) -> Future[Outputs]:
        """Take in a work; a future that is cancelled before its work has begun takes it out again.

        Raises:
          HeadraceError: there is no room for it, or it comes too late.
        """
        ...

    def compute_if_short(self, work: Work) -> Outputs | None:
        """Return the outputs of a work that is known to be short, computed by the caller's thread; None for others.

        Raises:
          HeadraceError: the model's own.
        """
        ...

    def close(self) -> None:
        """Finish what was taken in, then end the threads."""
        ...


class ThreadExecutor:
    """Calls signatures with each work by itself.

    Args:
      threads: how many may be computed at once.
      observe: is told of each call.
    """

    def __init__(self, threads: int, observe: Observe = ignore_call) -> None:
        self.settled: Callable[[], None] = do_nothing
        self._observe = observe
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="headrace-serving")
        self._short = ShortCalls()

    def submit(self, work: Work) -> Future[Outputs]:
        """Take in a work."""
        future: Future[Outputs] = Future()
        self._threads.submit(self._settle, work, future)
        return future

    def compute_if_short(self, work: Work) -> Outputs | None:
        """Return the outputs of a work that is known to be short; None for others."""
        input_bytes = work.input_bytes
        if not self._short.is_short(id(work.signature), input_bytes):
            return None
        work.started = time.monotonic()
        try:
            return call_signature(work.signature, work.inputs)
        finally:
            waiting = time.monotonic() - work.started
            self._short.called_here(id(work.signature), input_bytes, waiting)
            rows = _rows(work)
            self._observe(work, rows, rows, waiting)

    def _settle(self, work: Work, future: Future[Outputs]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(self._call(work))
        except Exception as error:
            future.set_exception(error)
        self.settled()

    def _call(self, work: Work) -> Outputs:
        work.started, thread_start = time.monotonic(), time.thread_time()
        try:
            return call_signature(work.signature, work.inputs)
        finally:
            computing, waiting = time.thread_time() - thread_start, time.monotonic() - work.started
            self._short.called(id(work.signature), work.input_bytes, computing, waiting)
            rows = _rows(work)
            self._observe(work, rows, rows, waiting)

    def close(self) -> None:
        """Finish what was taken in, then end the threads."""
        self._threads.shutdown()


def limit_blas(threads: int) -> None:
    """Let each call of NumPy's linear algebra use so many threads, in the whole process.

    By default it uses as many as there are cores, and lets them wait for each other in loops: where other threads or
    processes want a core too, a call that takes 0.05 ms alone takes 50.
    """
    threadpool_limits(limits=threads, user_api="blas")


def do_nothing() -> None:
    """Do nothing, for whoever does not listen."""


def _rows(work: Work) -> int:
    tensor = next(iter(work.inputs.values()), None)
    return len(tensor) if tensor is not None and tensor.ndim else 1


def shares_calls(signature: Signature) -> bool:
    """Return whether requests may share a call: no input or output has a first dimension that is fixed, or none."""
    return all(
        info.shape.dims and info.shape.dims[0] is None
        for info in (*signature.inputs.values(), *signature.outputs.values())
    )


def call_signature(signature: Signature, inputs: Mapping[str, Array]) -> Outputs:
    """Return a signature's outputs.

    Raises:
      InternalError: the model failed with an error that is not about its inputs.
      HeadraceError: the model's own.
    """
    try:
        return signature(**inputs)
    except HeadraceError:
        raise
    except Exception as error:
        raise InternalError(
            "the model failed",
            expected="an answer, or an error that tells what is wrong with the inputs",
            got=f"{type(error).__name__}: {error}",
            hint="please report it with the model",
        ) from error
