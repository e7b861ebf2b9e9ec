"""Threads that put the rows of several requests into one call of a signature: the shell around `batch_queue`.

Requests share a call only if the same signature of the same version would take both: there is a queue for each
signature, its inputs' dtypes and the shapes of their rows. Requests have been checked before they come here, so a call
fails by the model's fault or by one request's values; then each request is computed by itself, and only those that fail
alone get the error.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np

from headrace.errors import InternalError
from headrace_serving.batch_queue import BatchingOptions, BatchQueue, Piece
from headrace_serving.errors import QueueTimeoutError
from headrace_serving.execution import (
    Observe,
    Outputs,
    ThreadExecutor,
    Work,
    call_signature,
    do_nothing,
    ignore_call,
    shares_calls,
)
from headrace_serving.facts import Facts
from headrace_serving.model import Array

_log = logging.getLogger(__name__)

_KEPT_QUEUES = 64
_Key = tuple[int, frozenset[tuple[str, tuple[int, ...]]]]


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Request:
    work: Work
    rows: int
    future: Future[Outputs] = field(default_factory=Future)
    done: dict[int, Outputs] = field(default_factory=dict)  # by first row
    started: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)  # its pieces may be computed at once


class Batcher:
    """Computes works together where it can. Threads may submit at once.

    Works that have no rows in common with others, because an input or output of their signature has a first dimension
    that is fixed or none at all, are computed by themselves.

    Args:
      options: how works are put together.
      threads: how many calls may run at once.
      clock: tells the time in seconds.
      observe: is told of each call.
    """

    def __init__(
        self,
        options: BatchingOptions,
        threads: int,
        clock: Callable[[], float] = time.monotonic,
        observe: Observe = ignore_call,
    ) -> None:
        self._options = options
        self._clock = clock
        self._observe = observe
        self._changed = threading.Condition()
        self._queues: dict[_Key, BatchQueue[_Request]] = {}
        self._closed = False
        self._settled: Callable[[], None] = do_nothing
        self._alone = ThreadExecutor(threads, observe)
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    @property
    def settled(self) -> Callable[[], None]:
        """What is called after the futures of one call of a model are done."""
        return self._settled

    @settled.setter
    def settled(self, listen: Callable[[], None]) -> None:
        self._settled = self._alone.settled = listen

    def compute_if_short(self, work: Work) -> Outputs | None:
        """Return the outputs of a work that is known to be short and cannot share a call; None for others."""
        return None if batch_rows(work) is not None else self._alone.compute_if_short(work)

    def submit(self, work: Work) -> Future[Outputs]:
        """Take in a work; a future that is cancelled before its work has begun takes it out again.

        Raises:
          QueueFullError: too many rows wait already.
          QueueTimeoutError: its deadline is over.
        """
        rows = batch_rows(work)
        if rows is None:
            return self._alone.submit(work)
        now = self._clock()
        if work.deadline is not None and work.deadline <= now:
            raise _too_late()
        request = _Request(work, rows)
        key = _key(work)
        with self._changed:
            queue = self._queues.get(key)
            if queue is None:
                queue = self._queues[key] = BatchQueue(self._options)
            queue.add(request, rows, now=now, priority=work.priority, deadline=work.deadline)
            self._changed.notify()
        # A request has its future: if that had the request, each would wait for a collection to be freed.
        own = weakref.ref(request)
        request.future.add_done_callback(lambda future: self._forget(key, own()) if future.cancelled() else None)
        return request.future

    def close(self) -> None:
        """Finish what was taken in, then end the threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        self._alone.close()

    @property
    def waiting_rows(self) -> int:
        """How many rows wait in all queues."""
        with self._changed:
            return sum(queue.rows for queue in self._queues.values())

    def _forget(self, key: _Key, request: _Request | None) -> None:
        with self._changed:
            queue = self._queues.get(key)
            if queue is not None and request is not None:
                queue.discard(request)
                self._drop_if_empty(key, queue)

    def _serve(self) -> None:
        while self._serve_batch():
            pass

    def _serve_batch(self) -> bool:
        """Wait for a batch and compute it; False when all is done. What waits for the next one keeps none of it."""
        taken = self._next()
        if taken is None:
            return False
        queue, pieces, late = taken
        for request in late:
            if _start(request):
                _fail(request, _too_late())
        live = [piece for piece in pieces if _start(piece.item)]
        if live:
            self._run_guarded(queue, live)
        self._settled()
        return True

    def _next(self) -> tuple[BatchQueue[_Request], Sequence[Piece[_Request]], list[_Request]] | None:
        """Wait until a batch is ready and take it; None when all is done."""
        with self._changed:
            while True:
                now = self._clock()
                times = [(at, key) for key, queue in self._queues.items() if (at := queue.ready_at()) is not None]
                if not times and self._closed:
                    return None
                if not times:
                    self._changed.wait()
                    continue
                at, key = min(times, key=lambda time_and_key: time_and_key[0])
                if at > now and not self._closed:
                    self._changed.wait(at - now)
                    continue
                queue = self._queues[key]
                late = queue.late(now)
                pieces = queue.take()
                self._drop_if_empty(key, queue)
                self._changed.notify()  # another thread may take what is left
                return queue, pieces, late

    def _drop_if_empty(self, key: _Key, queue: BatchQueue[_Request]) -> None:
        # Queues of shapes that nobody sends any more would pile up; a few that adapt keep what they have learnt.
        if not len(queue) and (not self._options.adaptive or len(self._queues) > _KEPT_QUEUES):
            self._queues.pop(key, None)

    def _run_guarded(self, queue: BatchQueue[_Request], pieces: Sequence[Piece[_Request]]) -> None:
        """Run a batch so that a fault of ours costs its requests, not the thread and all that come after."""
        try:
            self._run(queue, pieces)
        except Exception as error:
            _log.exception("a batch of %d requests failed by a fault of the server", len(pieces))
            for piece in pieces:
                _fail(piece.item, error)

    def _run(self, queue: BatchQueue[_Request], pieces: Sequence[Piece[_Request]]) -> None:
        signature = pieces[0].item.work.signature
        rows = sum(piece.rows for piece in pieces)
        padded = self._options.padded(rows)
        start = self._clock()
        for piece in pieces:
            piece.item.work.started = start
        try:
            inputs = {alias: _joined(alias, pieces, padded - rows) for alias in pieces[0].item.work.inputs}
            outputs = call_signature(signature, inputs)
            _check_rows(outputs, padded)
        except Exception as error:
            if len(pieces) == 1 and pieces[0].rows == pieces[0].item.rows and padded == rows:
                self._run_alone(pieces[0], error)
                return
            _log.info("a batch of %d requests failed, so each is computed by itself: %s", len(pieces), error)
            for piece in pieces:
                self._run_alone(piece, None)
            return
        seconds = self._clock() - start
        self._observe(pieces[0].item.work, rows, padded, seconds)
        with self._changed:
            queue.cost.called(padded, seconds)
        first = 0
        for piece in pieces:
            _finish(piece, {alias: output[first : first + piece.rows] for alias, output in outputs.items()})
            first += piece.rows

    def _run_alone(self, piece: Piece[_Request], known: Exception | None) -> None:
        """Compute one request's rows, unless it is known to fail for a reason other than the number of rows."""
        request = piece.item
        if known is not None and not isinstance(known, _RowsError):
            _fail(request, known)
            return
        inputs = {alias: tensor[piece.start : piece.stop] for alias, tensor in request.work.inputs.items()}
        start = self._clock()
        try:
            outputs = call_signature(request.work.signature, inputs)
            if piece.rows != request.rows:
                _check_rows(outputs, piece.rows)
        except Exception as error:
            _fail(request, error)
            return
        self._observe(request.work, piece.rows, piece.rows, self._clock() - start)
        _finish(piece, outputs)


class _RowsError(InternalError):
    """A signature whose outputs have not a row for each row of the inputs."""


def batch_rows(work: Work) -> int | None:
    """Return how many rows a work has; None if it cannot share a call.

    It can if each input and output of the signature has a first dimension that is not fixed, and all its inputs have
    the same number of rows, at least one.
    """
    if not _SHARES_CALLS.of(work.signature):
        return None
    rows = {len(tensor) for tensor in work.inputs.values()}
    return rows.pop() or None if len(rows) == 1 else None


_SHARES_CALLS = Facts(shares_calls)


def _key(work: Work) -> _Key:
    # Their dtypes are those of the signature.
    return id(work.signature), frozenset([(alias, tensor.shape[1:]) for alias, tensor in work.inputs.items()])


def _start(request: _Request) -> bool:
    """Return whether somebody still waits for a request, which from now on cannot be cancelled."""
    with request.lock:
        if not request.started:
            request.started = request.future.set_running_or_notify_cancel()
        return request.started and not request.future.done()


def _joined(alias: str, pieces: Sequence[Piece[_Request]], padding: int) -> Array:
    parts = [piece.item.work.inputs[alias][piece.start : piece.stop] for piece in pieces]
    if padding:  # by a row that the model can take, which zeros need not be
        parts.append(np.repeat(parts[-1][:1], padding, axis=0))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _check_rows(outputs: Outputs, rows: int) -> None:
    for alias, output in outputs.items():
        if output.ndim == 0 or len(output) != rows:
            raise _RowsError(
                f"output '{alias}' has not a row for each row of the inputs",
                expected=f"{rows} rows",
                got=f"shape {list(output.shape)}",
                hint="serve this model without batching, or send fewer rows at a time",
            )


def _finish(piece: Piece[_Request], outputs: Outputs) -> None:
    request = piece.item
    if piece.rows == request.rows:
        request.future.set_result(outputs)
        return
    with request.lock:
        request.done[piece.start] = outputs
        rows = sum(len(next(iter(part.values()))) for part in request.done.values())
        if rows == request.rows and not request.future.done():
            parts = [part for _, part in sorted(request.done.items())]
            request.future.set_result({alias: np.concatenate([part[alias] for part in parts]) for alias in outputs})


def _fail(request: _Request, error: Exception) -> None:
    with request.lock:
        if not request.future.done():  # another of its pieces may have failed before
            request.future.set_exception(error)


def _too_late() -> QueueTimeoutError:
    return QueueTimeoutError(
        "Run() timeout exceeded while waiting in batching queue",
        expected="a call before the request's deadline",
        got="none in time",
        hint="grant it more time, or start more servers",
    )
