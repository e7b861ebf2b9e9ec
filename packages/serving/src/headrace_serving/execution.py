"""Validated requests, and threads that compute their outputs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from headrace.errors import HeadraceError, InternalError
from headrace_serving.model import Array, Signature

Outputs = Mapping[str, Array]

_CALLS_IN_A_ROW = 16
_SHORT_SECONDS = 0.0005  # waking a thread and coming back takes some 0.2 ms
_SHORT_WAIT_SECONDS = 0.02
_SHORT_BYTES = 16 << 10
_REMEMBERED_SIGNATURES = 1000


@dataclass(frozen=True, slots=True)
class Work:
    """Inputs that a signature takes, and what else tells when and with which others it may be called.

    Attributes:
      signature: what is to be called.
      inputs: tensors by alias.
      priority: 1 is the highest; 0 stands for the default, which is the lowest.
      deadline: on the executor's clock, in seconds; None for none.
    """

    signature: Signature
    inputs: dict[str, Array]
    priority: int = 0
    deadline: float | None = None

    @property
    def input_bytes(self) -> int:
        """How many bytes the inputs have."""
        return sum(tensor.nbytes for tensor in self.inputs.values())


class ShortCalls:
    """Which signatures answer so soon that a thread for them would cost more than the call. Mutable; thread-safe.

    A signature counts as short after some calls in a row that were; one that was not ends that. What it is known by may
    come to mean another signature once its model is gone, which costs no more than one call that is not short.

    Example:
      >>> calls = ShortCalls()
      >>> for _ in range(16):
      ...     calls.called(7, 0.0001, 0.0001)
      >>> calls.is_short(7)
      True
    """

    def __init__(self) -> None:
        self._in_a_row: dict[int, int] = {}

    def is_short(self, signature: int) -> bool:
        """Return whether a signature, known by its identity, has been short for a while."""
        return self._in_a_row.get(signature, 0) >= _CALLS_IN_A_ROW

    def called(self, signature: int, computing: float, waiting: float) -> None:
        """Remember a call.

        Args:
          signature: its identity.
          computing: seconds that it has computed.
          waiting: seconds from its beginning to its end; more, where other threads had their turn.
        """
        if len(self._in_a_row) > _REMEMBERED_SIGNATURES:
            self._in_a_row.clear()
        short = computing < _SHORT_SECONDS and waiting < _SHORT_WAIT_SECONDS
        self._in_a_row[signature] = self._in_a_row.get(signature, 0) + 1 if short else 0


class Executor(Protocol):
    """Computes the outputs of works on threads of its own."""

    def submit(self, work: Work) -> Future[Outputs]:
        """Take in a work; a future that is cancelled before its work has begun takes it out again.

        Raises:
          HeadraceError: there is no room for it, or it comes too late.
        """
        ...

    def close(self) -> None:
        """Finish what was taken in, then end the threads."""
        ...


class ThreadExecutor:
    """Calls signatures with each work by itself.

    Args:
      threads: how many may be computed at once.
    """

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="headrace-serving")
        self._short = ShortCalls()

    def submit(self, work: Work) -> Future[Outputs]:
        """Take in a work. Where it is known to be short it is computed here, and the future is done already."""
        if not self._short.is_short(id(work.signature)) or work.input_bytes > _SHORT_BYTES:
            return self._threads.submit(self._call, work)
        future: Future[Outputs] = Future()
        try:
            future.set_result(self._call(work))
        except Exception as error:
            future.set_exception(error)
        return future

    def _call(self, work: Work) -> Outputs:
        start, thread_start = time.perf_counter(), time.thread_time()
        try:
            return call_signature(work.signature, work.inputs)
        finally:
            computing, waiting = time.thread_time() - thread_start, time.perf_counter() - start
            self._short.called(id(work.signature), computing, waiting)

    def close(self) -> None:
        """Finish what was taken in, then end the threads."""
        self._threads.shutdown()


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
