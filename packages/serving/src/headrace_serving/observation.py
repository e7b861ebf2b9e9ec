"""What the server tells about its work: metrics and the access log."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from headrace_serving.codes import Code
from headrace_serving.metrics import MICROSECOND_BOUNDS, ROW_BOUNDS, Counter, Gauge, Histogram, State, added, exposition
from headrace_serving.repository import ModelRepository, ModelSpec

_access = logging.getLogger("headrace_serving.access")


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and what became of it.

    Attributes:
      verb: HTTP method.
      path: as the client sent it.
      model: name of the model; empty if none is known by it.
      code: HTTP status of the answer.
      seconds: from the arrival to the answer.
      answer_bytes: length of the answer's body.
      client: address of the client; empty if unknown.
    """

    verb: str
    path: str
    model: str
    code: int
    seconds: float
    answer_bytes: int
    client: str


class Observer:
    """Counts what happens, and logs exchanges. Mutable; thread-safe.

    Args:
      repository: the models.
      active: tells how many requests to models are in the server.
      waiting: tells how many rows wait for a batch.
      clock: tells the time in seconds since 1970.
    """

    def __init__(
        self,
        repository: ModelRepository,
        *,
        active: Callable[[], int] = lambda: 0,
        waiting: Callable[[], int] = lambda: 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._repository = repository
        self._clock = clock
        serving = ":tensorflow:serving:"
        self._requests = Counter(f"{serving}request_count", "Requests to models.", ["model_name", "status"])
        self._latency = Histogram(
            f"{serving}request_latency",
            "Microseconds from a request's arrival to its answer.",
            ["model_name", "API", "entrypoint"],
            MICROSECOND_BOUNDS,
        )
        self._runtime = Histogram(
            f"{serving}runtime_latency",
            "Microseconds from the end of a request's check to its outputs.",
            ["model_name", "API", "runtime"],
            MICROSECOND_BOUNDS,
        )
        self._batches = Histogram(
            f"{serving}batching_session:processed_batch_size", "Rows of each call, padding included.", [], ROW_BOUNDS
        )
        self._rows = Histogram(
            f"{serving}batching_session:input_batch_size", "Rows of each call that were asked for.", [], ROW_BOUNDS
        )
        self._answers = Counter("headrace_serving_answers_total", "Answers to all requests.", ["code"])
        self._active = Gauge(
            "headrace_serving_active_requests", "Requests to models in the server.", [], lambda: {(): active()}
        )
        self._waiting = Gauge(
            "headrace_serving_waiting_rows", "Rows that wait for a batch.", [], lambda: {(): waiting()}
        )
        self._versions = Gauge(
            "headrace_serving_versions", "Versions of models.", ["model_name", "state"], self._states, shared=True
        )

        self._metrics: tuple[Counter | Histogram | Gauge, ...] = (
            self._requests,
            self._latency,
            self._runtime,
            self._batches,
            self._rows,
            self._answers,
            self._active,
            self._waiting,
            self._versions,
        )

    def batch(self, rows: int, padded: int) -> None:
        """Count a call of a model for several requests."""
        self._rows.observe(rows)
        self._batches.observe(padded)

    def computed(self, model: str, api: str, seconds: float) -> None:
        """Count the computing of a request's outputs, its wait included."""
        self._runtime.observe(seconds * 1e6, model, api, "Headrace")

    def answered(self, code: Code, seconds: float, api: str, model: str, entrypoint: str) -> None:
        """Count a request that is answered.

        Args:
          code: what became of it.
          seconds: from its arrival to the answer.
          api: what was asked of a model, such as `Predict`; empty if something else was.
          model: name of the model; empty if none is known by it.
          entrypoint: `REST` or `GRPC`.
        """
        self._answers.add(str(code.http))
        if api:
            self._requests.add(model, code.name)
            self._latency.observe(seconds * 1e6, model, api, entrypoint)

    def log(self, exchange: Exchange) -> None:
        """Log an exchange as a line of JSON, by the logger `headrace_serving.access`."""
        line = {
            "time": datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds"),
            "client": exchange.client,
            "method": exchange.verb,
            "path": exchange.path,
            "model": exchange.model,
            "status": exchange.code,
            "bytes": exchange.answer_bytes,
            "ms": round(exchange.seconds * 1e3, 3),
        }
        _access.info(json.dumps(line))

    def states(self) -> list[State]:
        """Return the numbers of all metrics, for adding them to those of other processes."""
        return [metric.state() for metric in self._metrics]

    def counts(self) -> list[State]:
        """Return the numbers that only grow, with nothing in the place of those that tell how it is now."""
        return [{} if isinstance(metric, Gauge) else metric.state() for metric in self._metrics]

    def text(self, others: Sequence[Sequence[State]] = ()) -> bytes:
        """Return all metrics in Prometheus' format.

        Args:
          others: the `states` of other processes that serve the same.
        """
        if not others:
            return exposition(self._metrics)
        sums = [added(states) for states in zip(self.states(), *others, strict=True)]
        return exposition(self._metrics, sums)

    def _states(self) -> dict[tuple[str, ...], float]:
        states: dict[tuple[str, ...], float] = {}
        for name in self._repository.names:
            for version in self._repository.versions(ModelSpec(name)):
                key = (name, version.state.value)
                states[key] = states.get(key, 0) + 1
        return states
