"""Ranges of numbers that come batch by batch, for the scales of `hr.to_int8`.

A range that holds every number has the least error where numbers are spread evenly; where a few are far from all others
it wastes most of the integers on nothing. The other two methods look at a histogram. It has a fixed number of bins, and
when a number lies beyond them they are joined in pairs to bins of twice the width: its memory does not depend on how
many numbers come, and as bins are joined but never cut, the counts are exact.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from headrace.types import Array

__all__ = ["Method", "Spread"]

Method = Literal["minmax", "percentile", "entropy"]

HALF = 2048
"""Bins on each side of 0."""
LEVELS = 128
"""The numbers from 0 to the largest that an integer of 8 bits with a sign tells apart."""


class Spread:
    """How the numbers of one tensor are spread. Mutable.

    Zeros are counted by themselves: an integer stands for them exactly, whatever the scale, and after relu they are
    most of all numbers.
    """

    def __init__(self, method: Method, percentile: float = 100.0) -> None:
        """Start without numbers.

        Args:
          method: how a range is chosen: see `hr.to_int8`.
          percentile: per cent of the numbers that it keeps on each side, for the method of that name.
        """
        self._method, self._kept = method, percentile / 100
        self._low = self._high = 0.0
        self._zeros = 0
        self._counts = np.zeros(2 * HALF, np.int64)
        self._reach = 0.0
        """The bins go from minus this number to this number."""

    def add(self, values: Array) -> None:
        """Add numbers: finite, at least one."""
        self._low, self._high = min(self._low, float(values.min())), max(self._high, float(values.max()))
        if self._method == "minmax":
            return
        others = values[values != 0].astype(np.float64)
        self._zeros += values.size - others.size
        if others.size:
            self._stretch(max(-self._low, self._high))
            self._counts += np.histogram(others, 2 * HALF, (-self._reach, self._reach))[0]

    def _stretch(self, furthest: float) -> None:
        """Let the bins reach beyond a number."""
        self._reach = self._reach or float(np.nextafter(furthest, 2 * furthest))
        while self._reach <= furthest:
            joined = self._counts.reshape(HALF, 2).sum(axis=1)
            self._counts = np.pad(joined, HALF // 2)
            self._reach *= 2

    def range(self) -> tuple[float, float]:
        """The lowest and the highest number that integers should stand for, with 0 between them."""
        if self._low == self._high or self._method == "minmax":
            return self._low, self._high
        low, high = self._by_percentile() if self._method == "percentile" else self._by_entropy()
        return max(low, self._low), min(high, self._high)

    def _by_percentile(self) -> tuple[float, float]:
        counts = self._counts.copy()
        counts[HALF] += self._zeros
        below = np.cumsum(counts)
        first = int(np.searchsorted(below, (1 - self._kept) * below[-1], side="right"))
        last = int(np.searchsorted(below, self._kept * below[-1], side="left")) + 1
        low, high = ((place - HALF) * self._reach / HALF for place in (first, last))
        return min(low, 0.0), max(high, 0.0)

    def _by_entropy(self) -> tuple[float, float]:
        """The first so many bins of absolute values of which the levels lose least; of several the most."""
        counts = self._counts[HALF:] + self._counts[:HALF][::-1]
        lost = [_divergence(counts, bins) for bins in range(HALF, LEVELS - 1, -1)]
        end = (HALF - int(np.argmin(lost))) * self._reach / HALF
        return -end, end


def _divergence(counts: Array, bins: int) -> float:
    """What is lost if only the first bins are kept, and these as levels, in nats for each number.

    This is the divergence of Kullback and Leibler from p to q. In p the numbers beyond the bins that are kept lie in
    the last of these. In q they are missing, and each level is spread evenly over those of its bins that p uses. q is
    not scaled to a sum of 1: where nearly all numbers are far from 0, to leave them all out would cost nothing then.
    The last bin counts for at least one number, so that what lies beyond an empty one costs something finite.
    """
    used = counts[:bins].copy()
    used[-1] += counts[bins:].sum()
    starts = -(-np.arange(LEVELS) * bins // LEVELS)
    levels = np.add.reduceat(counts[:bins], starts)
    sharing = np.add.reduceat((used > 0).astype(np.int64), starts)
    each = np.maximum(levels, 1) / np.maximum(sharing, 1)
    places = np.flatnonzero(used)
    p, q = used[places], each[places * LEVELS // bins]
    return float((p * np.log(p / q)).sum() / used.sum())
