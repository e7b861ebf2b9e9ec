"""The event loop's side of futures that other threads settle.

asyncio's own bridge writes to a pipe for each future, and watching for a client that goes away takes a task for each
request: together they cost more than a small model. Here one write wakes the loop for all futures of a call, and a
request is watched only once it has waited for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Coroutine, Generator
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from starlette.types import Receive

from headrace.errors import DeadlineExceededError
from headrace_serving.errors import ClientGoneError, QueueTimeoutError
from headrace_serving.execution import Outputs

R = TypeVar("R")

_PATIENCE = 0.05
"""Seconds after which it is worth knowing whether the client is still there."""


class Begun(Generic[R]):
    """A coroutine that has run until it is done or waits for the first time; await it to let it go on.

    Example:
      >>> async def answer():
      ...     return 42
      >>> begun = Begun(answer())
      >>> begun.done, begun.result()
      (True, 42)
    """

    def __init__(self, coroutine: Coroutine[Any, Any, R]) -> None:
        self._coroutine = coroutine
        self._results: list[R] = []
        try:
            self._waits_for = coroutine.send(None)
        except StopIteration as end:
            self._results.append(end.value)

    @property
    def done(self) -> bool:
        """Whether it needs not to be awaited."""
        return bool(self._results)

    def result(self) -> R:
        """Return what it has returned; only if it is done."""
        return self._results[0]

    def __await__(self) -> Generator[Any, Any, R]:
        waits_for = self._waits_for
        try:
            while True:
                try:
                    sent = yield waits_for
                except BaseException as error:
                    waits_for = self._coroutine.throw(error)
                else:
                    waits_for = self._coroutine.send(sent)
        except StopIteration as end:
            result: R = end.value
            return result


class Waiter:
    """Waits in an event loop for futures that an executor's threads settle. Mutable; `wake` is for those threads."""

    def __init__(self) -> None:
        self._settled: deque[asyncio.Future[None]] = deque()
        self._awake = False

    def wake(self) -> None:
        """Let the loop see the futures that have been settled since it was woken the last time."""
        if self._settled and not self._awake:
            self._awake = True
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits any more
                self._settled[0].get_loop().call_soon_threadsafe(self._see)

    def _see(self) -> None:
        self._awake = False  # before the futures are taken: one that comes later wakes the loop again
        while self._settled:
            _tell(self._settled.popleft())

    async def outcome(self, future: Future[Outputs], receive: Receive, deadline: float, seconds: float) -> Outputs:
        """Return what a future gives.

        Args:
          future: from an executor whose `settled` is this waiter's `wake`. It is cancelled if nobody waits any more.
          receive: the ASGI channel, for watching the client.
          deadline: on the monotonic clock.
          seconds: what was granted, for error texts.
        Raises:
          ClientGoneError: the client went away.
          QueueTimeoutError: the deadline was over before the computation began.
          DeadlineExceededError: it was over before the computation ended.
          HeadraceError: the model's own.
        """
        loop = asyncio.get_running_loop()
        told: asyncio.Future[None] = loop.create_future()
        future.add_done_callback(lambda _: self._settled.append(told))
        watch = loop.call_later(max(0.0, min(_PATIENCE, deadline - time.monotonic())), _tell, told)
        try:
            await told
        finally:
            watch.cancel()
        return future.result() if future.done() else await _watched(future, receive, deadline, seconds)


def _tell(told: asyncio.Future[None]) -> None:
    if not told.done():
        told.set_result(None)


async def _watched(future: Future[Outputs], receive: Receive, deadline: float, seconds: float) -> Outputs:
    """Wait until a future is done, its client gone or the deadline over, whatever comes first."""
    outputs = asyncio.wrap_future(future)
    gone = asyncio.ensure_future(_disconnect(receive))
    first: set[asyncio.Future[Any]] = {outputs, gone}
    await asyncio.wait(first, timeout=max(0.0, deadline - time.monotonic()), return_when=asyncio.FIRST_COMPLETED)
    if outputs.done():
        gone.cancel()
        return outputs.result()
    queued = future.cancel()
    if gone.done():
        raise ClientGoneError(
            "the client went away before its answer was there",
            expected="a connection that stays open",
            got="its end",
            hint="grant the server more time",
        )
    gone.cancel()
    if queued:
        raise waited_too_long(seconds)
    raise too_slow("an answer of the model", seconds)


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def waited_too_long(seconds: float) -> QueueTimeoutError:
    """Return the error of a request whose computation has not begun in time.

    Args:
      seconds: how long it waited.
    """
    return QueueTimeoutError(
        "Run() timeout exceeded while waiting in batching queue",
        expected=f"a free thread within {seconds:g} seconds",
        got="none",
        hint="grant the request more time, or start more servers",
    )


def too_slow(what: str, seconds: float) -> DeadlineExceededError:
    """Return the error of a request that took too long.

    Args:
      what: what was waited for.
      seconds: how long.
    """
    return DeadlineExceededError(
        "the request took too long",
        expected=f"{what} within {seconds:g} seconds of the request's arrival",
        got="none in time",
        hint="send less at a time, or start the server with a longer --request-timeout",
    )
