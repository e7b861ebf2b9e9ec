"""Gradient accumulators: the state with which several workers' gradients become one step (paper, section 4.4).

A gradient is computed from values of some step. It is added if that step is not older than the accumulator's, and
dropped otherwise. Whoever takes waits until enough are there and gets their mean or sum; the accumulator then stands at
the next step, so that what was computed from older values is dropped from now on.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.interfaces import StepControl
from headrace.types import Array, DType, Shape

__all__ = ["DenseSum", "DroppedGradient", "GradientAccumulator", "SparseGradient", "SparseSum"]

Gradient = TypeVar("Gradient")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DroppedGradient:
    """A gradient that came too late.

    Attributes:
      accumulator: the name of the accumulator.
      local_step: the step whose values it was computed from.
      global_step: the step at which the accumulator stood.
    """

    accumulator: str
    local_step: int
    global_step: int

    @property
    def staleness(self) -> int:
        """By how many steps it came too late."""
        return self.global_step - self.local_step


class _Sum(Protocol[Gradient]):
    """The gradients since the last one was taken. Mutable, and guarded by the accumulator that owns it."""

    def add(self, gradient: Gradient) -> None:
        """Add one; raises ShapeError, and stays as it was, if it does not fit."""

    def take(self, *, mean: bool) -> Gradient:
        """The sum or mean of at least one gradient; empty from now on."""


class GradientAccumulator(Generic[Gradient]):
    """Gradients that are added until enough are there to take one. Mutable and thread-safe.

    Args:
      name: its name, for errors.
      total: adds gradients up.
      mean: give their mean, not their sum.
    """

    def __init__(self, name: str, total: _Sum[Gradient], *, mean: bool) -> None:
        self.name = name
        self.mean = mean
        self._total = total
        self._count = 0
        self._step = 0
        self._dropped = 0
        self._observers: list[Callable[[DroppedGradient], None]] = []
        self._takers: deque[_Taker[Gradient]] = deque()
        self._lock = threading.RLock()  # a signal handler that ends a step may come while its thread is inside

    @property
    def count(self) -> int:
        """How many gradients were added since one was taken."""
        return self._count

    @property
    def step(self) -> int:
        """The step at which it stands."""
        return self._step

    @property
    def dropped(self) -> int:
        """How many gradients came too late so far."""
        return self._dropped

    @property
    def waiting(self) -> int:
        """How many callers wait to take."""
        return len(self._takers)

    def set_step(self, step: int) -> None:
        """Let it stand at another step; an earlier one is unusual, and logged."""
        with self._lock:
            if step < self._step:
                _log.warning("accumulator '%s' goes back from step %d to step %d", self.name, self._step, step)
            self._step = step

    def observe(self, observer: Callable[[DroppedGradient], None]) -> None:
        """Call `observer` for each gradient that comes too late, in the thread of the step that brought it."""
        with self._lock:
            self._observers.append(observer)

    def add(self, gradient: Gradient, local_step: int) -> None:
        """Add a gradient, or drop it if it comes too late.

        Args:
          gradient: the gradient.
          local_step: the step whose values it was computed from.
        Raises:
          ShapeError: it does not fit.
        """
        with self._lock:
            if local_step >= self._step:
                self._total.add(gradient)
                self._count += 1
                self._serve()
                return
            self._dropped += 1
            late = DroppedGradient(self.name, local_step, self._step)
            observers = list(self._observers)
        _log.info("accumulator '%s' at step %d dropped a gradient of step %d", self.name, late.global_step, local_step)
        for observer in observers:
            observer(late)

    def take(self, required: int, step: StepControl) -> Gradient:
        """Wait until enough gradients are there, and take the mean or sum of all; first come, first served.

        Args:
          required: how many at least.
          step: the step that waits.
        Raises:
          InvalidArgumentError: `required` is not positive.
          CancelledError: the step was cancelled.
          DeadlineExceededError: the step's time is over.
        """
        if required <= 0:
            raise InvalidArgumentError(
                "the number of gradients to wait for is not positive",
                expected="at least 1",
                got=str(required),
                hint="take_grad(num_required=number_of_workers)",
            )
        with self._lock:
            taker = _Taker[Gradient](required, threading.Condition(self._lock))
            self._takers.append(taker)
            self._serve()
            try:
                step.wait(taker.wakes, lambda: taker.gradient is not None, self.describe)
            except BaseException:
                if taker in self._takers:
                    self._takers.remove(taker)
                    self._serve()  # the next in line may be content with fewer
                raise
            assert taker.gradient is not None
            return taker.gradient

    def _serve(self) -> None:
        while self._takers and self._count >= self._takers[0].required:
            taker = self._takers.popleft()
            taker.gradient = self._total.take(mean=self.mean)
            self._count = 0
            self._step += 1
            taker.wakes.notify_all()

    def describe(self) -> str:
        """One line: what it holds and who waits."""
        with self._lock:
            wanted = ", ".join(str(taker.required) for taker in self._takers)
            return (
                f"accumulator '{self.name}' at step {self._step} holds {self._count} gradients "
                f"and has dropped {self._dropped}; waiting to take: {len(self._takers)}"
                + (f", for {wanted} gradients" if wanted else "")
            )


@dataclass(slots=True, eq=False)
class _Taker(Generic[Gradient]):
    required: int
    wakes: threading.Condition
    gradient: Gradient | None = None


class DenseSum:
    """The sum of dense gradients of one shape. Mutable.

    Args:
      dtype: their dtype.
      shape: what is known of their shape.
    """

    def __init__(self, dtype: DType, shape: Shape) -> None:
        self._dtype = dtype
        self._shape = shape
        self._sum: Array | None = None
        self._count = 0

    def add(self, gradient: Array) -> None:
        """Add one; all since the last `take` must have one shape."""
        shape = np.shape(gradient)
        _check_fits(self._shape, shape)
        if self._sum is None:
            self._sum = np.array(gradient, self._dtype.array_type)
        else:
            _check_fits(Shape(self._sum.shape), shape)
            self._sum += gradient
        self._count += 1

    def take(self, *, mean: bool) -> Array:
        """The sum or mean of at least one gradient."""
        total, count, self._sum, self._count = self._sum, self._count, None, 0
        assert total is not None
        return total / total.dtype.type(count) if mean else total


def _check_fits(expected: Shape, got: tuple[int, ...]) -> None:
    if not expected.is_compatible_with(Shape(got)):
        raise ShapeError(
            "the gradient does not fit the accumulator",
            expected=str(expected),
            got=str(list(got)),
            hint="one accumulator takes the gradients of one variable",
        )


@dataclass(frozen=True, slots=True)
class SparseGradient:
    """Some rows of a gradient.

    Attributes:
      indices: int64 `[n]`, which rows.
      values: `[n, ...]`, the rows.
      shape: int64 `[rank]`, the shape of the whole, or empty where it is not known.
    """

    indices: Array
    values: Array
    shape: Array


class SparseSum:
    """The sum of sparse gradients, row by row; the mean of a row is over those gradients that have it. Mutable.

    Args:
      dtype: their dtype.
      shape: what is known of the shape of the whole.
    """

    def __init__(self, dtype: DType, shape: Shape) -> None:
        self._dtype = dtype
        self._shape = shape
        self._sum: _Rows | None = None

    def add(self, gradient: SparseGradient) -> None:
        """Add one; rows of one index in it are added up first."""
        self._check(gradient)
        kind = self._dtype.array_type
        indices, places = np.unique(np.asarray(gradient.indices), return_inverse=True)
        values = np.zeros((len(indices), *gradient.values.shape[1:]), kind)
        np.add.at(values, places, gradient.values)
        added = _Rows(indices, values, np.ones(len(indices), np.int64))
        self._sum = added if self._sum is None else self._sum.merged(added)

    def take(self, *, mean: bool) -> SparseGradient:
        """The rows in ascending order, each the sum or mean of the gradients that have it."""
        total, self._sum = self._sum, None
        assert total is not None
        values = total.values
        if mean:
            values = values / total.counts.reshape(-1, *(1,) * (values.ndim - 1)).astype(values.dtype)
        first = self._shape.dims[0] if self._shape.dims else None
        whole = (-1 if first is None else first, *values.shape[1:])
        return SparseGradient(total.indices, values, np.array(whole, np.int64))

    def _check(self, gradient: SparseGradient) -> None:
        rows, values, whole = np.shape(gradient.indices), np.shape(gradient.values), tuple(gradient.shape.tolist())
        known = self._shape.dims or (None, *(self._sum.values.shape[1:] if self._sum is not None else ()))
        expected = Shape((*rows, *known[1:])) if self._shape.dims or self._sum is not None else Shape()
        if len(rows) != 1 or not values or values[:1] != rows or not expected.is_compatible_with(Shape(values)):
            raise ShapeError(
                "the rows of the gradient do not fit the accumulator",
                expected=f"indices [n], values [n, ...] of {self._shape}",
                got=f"indices {list(rows)}, values {list(values)}",
                hint="give each index one row of values; one accumulator takes the gradients of one variable",
            )
        if whole and not (self._shape.is_compatible_with(Shape(whole)) and whole[1:] == values[1:]):
            raise ShapeError(
                "the shape of the whole gradient does not fit the accumulator",
                expected=f"{self._shape}, rows of {list(values[1:])}",
                got=str(list(whole)),
                hint="leave the shape out if it is not known",
            )
        bounds = [size for size in (known[0], *whole[:1]) if size is not None and size >= 0]
        wrong = [row for row in np.asarray(gradient.indices).tolist() if row < 0 or any(row >= size for size in bounds)]
        if wrong:
            raise InvalidArgumentError(
                "an index of the gradient is out of range",
                expected=f"0 <= index < {min(bounds)}" if bounds else "0 <= index",
                got=str(wrong[0]),
                hint="count rows from 0",
            )


@dataclass(frozen=True, slots=True)
class _Rows:
    """Sums of rows: their indices in ascending order, the sums, and how many gradients each sum is of."""

    indices: Array
    values: Array
    counts: Array

    def merged(self, other: _Rows) -> _Rows:
        indices = np.union1d(self.indices, other.indices)
        values = np.zeros((len(indices), *self.values.shape[1:]), self.values.dtype)
        counts = np.zeros(len(indices), np.int64)
        for part in (self, other):
            places = np.searchsorted(indices, part.indices)
            values[places] += part.values
            counts[places] += part.counts
        return _Rows(indices, values, counts)
