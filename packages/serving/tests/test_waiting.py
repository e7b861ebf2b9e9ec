"""Waiting in the event loop for what threads compute."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from headrace.errors import DeadlineExceededError
from headrace_serving.errors import ClientGoneError, QueueTimeoutError
from headrace_serving.execution import Outputs
from headrace_serving.waiting import Begun, Waiter

OUTPUTS: Outputs = {"y": np.ones(1, np.float32)}


async def stays() -> dict[str, Any]:
    """Be the channel of a client that waits."""
    await asyncio.Event().wait()
    return {}


async def leaves() -> dict[str, Any]:
    """Be the channel of a client that is gone."""
    return {"type": "http.disconnect"}


def test_futures_of_one_call_wake_the_loop_together() -> None:
    waiter = Waiter()
    futures: list[Future[Outputs]] = [Future() for _ in range(5)]

    def settle() -> None:
        for future in futures:
            future.set_result(OUTPUTS)
        waiter.wake()

    async def wait() -> list[Outputs]:
        end = time.monotonic() + 30
        waiting = [asyncio.ensure_future(waiter.outcome(future, stays, end, 30)) for future in futures]
        await asyncio.sleep(0)  # so that each has begun to wait
        threading.Thread(target=settle).start()
        return await asyncio.gather(*waiting)

    assert asyncio.run(wait()) == [OUTPUTS] * 5


def test_a_future_that_is_done_already_and_one_that_fails() -> None:
    done: Future[Outputs] = Future()
    done.set_result(OUTPUTS)
    failed: Future[Outputs] = Future()
    failed.set_exception(ZeroDivisionError("oops"))
    waiter = Waiter()

    async def wait(future: Future[Outputs]) -> Outputs:
        return await waiter.outcome(future, stays, time.monotonic() + 30, 30)

    assert asyncio.run(wait(done)) == OUTPUTS
    with pytest.raises(ZeroDivisionError):
        asyncio.run(wait(failed))


def test_who_waits_no_more() -> None:
    async def wait(future: Future[Outputs], receive: Any, seconds: float) -> Outputs:
        return await Waiter().outcome(future, receive, time.monotonic() + seconds, seconds)

    queued: Future[Outputs] = Future()
    with pytest.raises(ClientGoneError, match="the client went away before its answer was there"):
        asyncio.run(wait(queued, leaves, 30))
    assert queued.cancelled()
    late: Future[Outputs] = Future()
    with pytest.raises(QueueTimeoutError, match="timeout exceeded while waiting in batching queue"):
        asyncio.run(wait(late, stays, 0.01))
    assert late.cancelled()
    running: Future[Outputs] = Future()
    running.set_running_or_notify_cancel()
    with pytest.raises(DeadlineExceededError, match="the request took too long"):
        asyncio.run(wait(running, stays, 0.01))


def test_waking_a_loop_that_has_ended_does_nothing() -> None:
    waiter = Waiter()
    future: Future[Outputs] = Future()

    async def leave() -> None:
        task = asyncio.ensure_future(waiter.outcome(future, stays, time.monotonic() + 30, 30))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(leave())
    future.set_result(OUTPUTS)
    waiter.wake()


def test_a_coroutine_that_has_begun() -> None:
    async def add(first: Awaitable[int], second: Awaitable[int]) -> int:
        return await first + await second

    async def both() -> int:
        loop = asyncio.get_running_loop()
        numbers: list[asyncio.Future[int]] = [loop.create_future(), loop.create_future()]
        begun = Begun(add(*numbers))
        assert not begun.done
        loop.call_soon(numbers[0].set_result, 1)
        loop.call_later(0.001, numbers[1].set_result, 2)
        return await begun

    assert asyncio.run(both()) == 3


def test_a_coroutine_that_has_begun_is_cancelled_with_who_awaits_it() -> None:
    seen: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("ended")

    async def give_up() -> None:
        async with asyncio.timeout(0.001):
            await Begun(wait())

    with pytest.raises(TimeoutError):
        asyncio.run(give_up())
    assert seen == ["ended"]
