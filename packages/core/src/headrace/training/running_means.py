"""Means over the examples of an epoch, batch by batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["RunningMeans"]


class RunningMeans:
    """Sums of values weighted by batch size. Mutable.

    Args:
      state: where to go on, from `state`.
    """

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        self._sums: dict[str, float] = dict(state["sums"]) if state else {}
        self._count: int = state["count"] if state else 0

    def add(self, values: Mapping[str, float], count: int) -> None:
        """Add the means of a batch of `count` examples."""
        self._count += count
        for name, value in values.items():
            self._sums[name] = self._sums.get(name, 0.0) + value * count

    def result(self) -> dict[str, float]:
        """The means so far; nothing if there were no examples."""
        return {name: total / self._count for name, total in self._sums.items()} if self._count else {}

    def state(self) -> dict[str, Any]:
        """JSON values from which the sums can go on."""
        return {"sums": dict(self._sums), "count": self._count}
