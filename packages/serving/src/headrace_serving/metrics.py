"""Counters and histograms, and their text in Prometheus' exposition format.

Names that begin with a colon are TensorFlow Serving's, so that dashboards made for it go on working.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

State = dict[tuple[str, ...], list[float]]
"""Numbers by the values of labels."""
MICROSECOND_BOUNDS = tuple(10 * 1.8**exponent for exponent in range(33))
"""Upper bounds of TensorFlow Serving's latency buckets, in microseconds."""
ROW_BOUNDS = tuple(float(2**exponent) for exponent in range(11))


class Counter:
    """Numbers that only grow, one for each combination of labels. Mutable; thread-safe.

    Args:
      name: of the metric.
      help: what it counts.
      labels: names of the labels.

    Example:
      >>> counter = Counter("answers_total", "Answers.", ["code"])
      >>> counter.add("200"); print(exposition([counter]).decode(), end="")
      # HELP answers_total Answers.
      # TYPE answers_total counter
      answers_total{code="200"} 1
    """

    def __init__(self, name: str, help: str, labels: Sequence[str]) -> None:
        self._name = name
        self._help = help
        self._labels = labels
        self._lock = threading.Lock()
        self._values: dict[tuple[str, ...], int] = {}

    def add(self, *labels: str, amount: int = 1) -> None:
        """Count something.

        Args:
          *labels: values of the labels, in their order.
          amount: how much of it.
        """
        with self._lock:
            self._values[labels] = self._values.get(labels, 0) + amount

    def state(self) -> State:
        """Return the numbers, for adding them to those of other processes."""
        with self._lock:
            return {labels: [float(value)] for labels, value in self._values.items()}

    def lines(self, state: State | None = None) -> Iterable[str]:
        """Return the lines of the exposition, of these numbers or of others."""
        values = sorted(
            (labels, _number(numbers[0])) for labels, numbers in (self.state() if state is None else state).items()
        )
        samples = [f"{self._name}{_labelled(zip(self._labels, labels, strict=True))} {v}" for labels, v in values]
        return [*_head(self._name, self._help, "counter"), *samples]


class Histogram:
    """How many observations lie below bounds, one series for each combination of labels. Mutable; thread-safe.

    Args:
      name: of the metric.
      help: what it observes, and in which unit.
      labels: names of the labels.
      bounds: upper bounds of the buckets, ascending.
    """

    def __init__(self, name: str, help: str, labels: Sequence[str], bounds: Sequence[float]) -> None:
        self._name = name
        self._help = help
        self._labels = labels
        self._bounds = bounds
        self._lock = threading.Lock()
        self._series: dict[tuple[str, ...], tuple[list[int], list[float]]] = {}

    def observe(self, value: float, *labels: str) -> None:
        """Remember an observation.

        Args:
          value: in the metric's unit.
          *labels: values of the labels, in their order.
        """
        with self._lock:
            if labels not in self._series:
                self._series[labels] = ([0] * (len(self._bounds) + 1), [0.0])
            counts, total = self._series[labels]
            counts[bisect.bisect_left(self._bounds, value)] += 1
            total[0] += value

    def state(self) -> State:
        """Return the numbers, for adding them to those of other processes: the buckets, then the sum."""
        with self._lock:
            return {labels: [*map(float, counts), total[0]] for labels, (counts, total) in self._series.items()}

    def lines(self, state: State | None = None) -> Iterable[str]:
        """Return the lines of the exposition, of these numbers or of others."""
        found = self.state() if state is None else state
        series = sorted((labels, [*map(int, numbers[:-1])], numbers[-1]) for labels, numbers in found.items())
        lines = _head(self._name, self._help, "histogram")
        for labels, counts, total in series:
            named = list(zip(self._labels, labels, strict=True))
            below = 0
            for bound, count in zip([*map(_number, self._bounds), "+Inf"], counts, strict=True):
                below += count
                lines.append(f"{self._name}_bucket{_labelled([*named, ('le', bound)])} {below}")
            lines += [
                f"{self._name}_sum{_labelled(named)} {_number(total)}",
                f"{self._name}_count{_labelled(named)} {below}",
            ]
        return lines


class Gauge:
    """Numbers that are what they are now.

    Args:
      name: of the metric.
      help: what it tells.
      labels: names of the labels.
      read: returns the number now of each combination of labels.
      shared: whether all processes have the same numbers, so that they must not be added.
    """

    def __init__(
        self,
        name: str,
        help: str,
        labels: Sequence[str],
        read: Callable[[], Mapping[tuple[str, ...], float]],
        *,
        shared: bool = False,
    ) -> None:
        self._shared = shared
        self._name = name
        self._help = help
        self._labels = labels
        self._read = read

    def state(self) -> State:
        """Return the numbers, for adding them to those of other processes."""
        return {labels: [float(value)] for labels, value in self._read().items()}

    def lines(self, state: State | None = None) -> Iterable[str]:
        """Return the lines of the exposition, of these numbers or of others."""
        found = self.state() if state is None or self._shared else state
        samples = [
            f"{self._name}{_labelled(zip(self._labels, labels, strict=True))} {_number(numbers[0])}"
            for labels, numbers in sorted(found.items())
        ]
        return [*_head(self._name, self._help, "gauge"), *samples]


def exposition(metrics: Sequence[Counter | Histogram | Gauge], states: Sequence[State] | None = None) -> bytes:
    """Return the text of some metrics, in Prometheus' format 0.0.4.

    Args:
      metrics: what they are.
      states: their numbers; their own if left out.
    """
    given = [None] * len(metrics) if states is None else states
    return "".join(
        f"{line}\n" for metric, state in zip(metrics, given, strict=True) for line in metric.lines(state)
    ).encode()


def added(states: Iterable[State]) -> State:
    """Return the sums of the numbers of several processes.

    Example:
      >>> added([{("a",): [1.0]}, {("a",): [2.0], ("b",): [3.0]}])
      {('a',): [3.0], ('b',): [3.0]}
    """
    sums: State = {}
    for state in states:
        for labels, numbers in state.items():
            known = sums.get(labels)
            sums[labels] = list(numbers) if known is None else [a + b for a, b in zip(known, numbers, strict=True)]
    return sums


def _head(name: str, help: str, kind: str) -> list[str]:
    return [f"# HELP {name} {help}", f"# TYPE {name} {kind}"]


def _labelled(labels: Iterable[tuple[str, str]]) -> str:
    text = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{text}}}" if text else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return f"{value:.15g}"
