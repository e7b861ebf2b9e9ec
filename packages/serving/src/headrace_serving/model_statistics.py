"""What the models of a server have done, in the words of the Open Inference Protocol's extension for statistics."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_PARTS = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output")
_Times = dict[str, list[float]]


@dataclass(slots=True)
class _Version:
    """Sums of one version. Mutable."""

    last: float = 0.0
    rows: int = 0
    calls: int = 0
    times: _Times = field(default_factory=lambda: {part: [0, 0.0] for part in _PARTS})
    batches: dict[int, list[float]] = field(default_factory=dict)


class ModelStatistics:
    """Sums of what requests and calls have taken, for each version of each model. Mutable; thread-safe.

    Args:
      clock: tells the time in seconds since 1970.

    Example:
      >>> statistics = ModelStatistics(clock=lambda: 1.0)
      >>> statistics.answered("m", 1, {"success": 0.002, "compute_infer": 0.001})
      >>> statistics.called("m", 1, rows=2, seconds=0.001)
      >>> entry = statistics.entry("m", 1)
      >>> entry["inference_count"], entry["execution_count"], entry["last_inference"]
      (2, 1, 1000)
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._versions: dict[tuple[str, int], _Version] = {}

    def answered(self, model: str, version: int, seconds: Mapping[str, float]) -> None:
        """Count a request.

        Args:
          model: name of the model.
          version: its version.
          seconds: what it has taken, by part: `success` or `fail` for all of it, `queue`, `compute_input`,
            `compute_infer` and `compute_output`.
        """
        with self._lock:
            entry = self._entry(model, version)
            entry.last = self._clock()
            for part, taken in seconds.items():
                times = entry.times[part]
                times[0] += 1
                times[1] += taken

    def called(self, model: str, version: int, rows: int, seconds: float) -> None:
        """Count a call of a model, which may have been for several requests."""
        with self._lock:
            entry = self._entry(model, version)
            entry.rows += rows
            entry.calls += 1
            batch = entry.batches.setdefault(rows, [0, 0.0])
            batch[0] += 1
            batch[1] += seconds

    def _entry(self, model: str, version: int) -> _Version:
        entry = self._versions.get((model, version))
        if entry is None:
            entry = self._versions[model, version] = _Version()
        return entry

    def add(self, state: Sequence[Any]) -> None:
        """Add what another process has counted, as its `state` tells it."""
        with self._lock:
            for model, version, last, rows, calls, times, batches in state:
                entry = self._entry(model, version)
                entry.last = max(entry.last, last)
                entry.rows += rows
                entry.calls += calls
                for part, (count, seconds) in times.items():
                    entry.times[part][0] += count
                    entry.times[part][1] += seconds
                for size, (count, seconds) in batches:
                    batch = entry.batches.setdefault(size, [0, 0.0])
                    batch[0] += count
                    batch[1] += seconds

    def state(self) -> list[Any]:
        """Return all sums as plain lists, for `add` in another process."""
        with self._lock:
            return [
                [model, version, entry.last, entry.rows, entry.calls, entry.times, list(entry.batches.items())]
                for (model, version), entry in self._versions.items()
            ]

    def entry(self, model: str, version: int) -> dict[str, object]:
        """Return the object of a version, with zeros if nobody has asked it."""
        with self._lock:
            found = self._versions.get((model, version), _Version())
            return {
                "name": model,
                "version": str(version),
                "last_inference": int(found.last * 1e3),
                "inference_count": found.rows,
                "execution_count": found.calls,
                "inference_stats": {
                    **{part: _duration(found.times[part]) for part in _PARTS},
                    "cache_hit": _duration([0, 0.0]),
                    "cache_miss": _duration([0, 0.0]),
                },
                "batch_stats": [
                    {
                        "batch_size": rows,
                        "compute_input": _duration([0, 0.0]),
                        "compute_infer": _duration(times),
                        "compute_output": _duration([0, 0.0]),
                    }
                    for rows, times in sorted(found.batches.items())
                ],
            }


def parts(arrival: float, submitted: float, started: float | None, computed: float, end: float) -> dict[str, float]:
    """Return what a request has taken, by part, from when each of them was over.

    Args:
      arrival: when it came.
      submitted: when it had been checked.
      started: when its computation began; None if that is not known.
      computed: when its outputs were there.
      end: when its answer was there.
    """
    began = submitted if started is None else started
    return {
        "success": end - arrival,
        "queue": began - submitted,
        "compute_input": submitted - arrival,
        "compute_infer": computed - began,
        "compute_output": end - computed,
    }


def _duration(times: list[float]) -> dict[str, int]:
    return {"count": int(times[0]), "ns": int(times[1] * 1e9)}
