"""Learning-rate schedules (`hr.optim.schedules`): functions from the number of updates done to a rate.

Each function here returns such a schedule. It takes an integer scalar tensor, 0 before the first update, and gives a
float64 scalar; any function of the user that does so is a schedule as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import headrace as hr
from headrace.errors import InvalidArgumentError

__all__ = ["Schedule", "constant", "cosine", "exponential", "piecewise", "polynomial"]

Schedule = Callable[[Any], Any]


def constant(rate: float) -> Schedule:
    """The same rate always."""
    return lambda step: hr.constant(rate, hr.float64)


def exponential(initial: float, decay_rate: float, decay_steps: int, *, staircase: bool = False) -> Schedule:
    """rate = initial * decay_rate ** (step / decay_steps).

    Args:
      initial: the first rate.
      decay_rate: the factor per `decay_steps` updates.
      decay_steps: updates.
      staircase: round the exponent down, so that the rate falls in jumps.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     rate = hr.optim.schedules.exponential(0.1, 0.5, 10)(hr.constant(20))
      >>> print(hr.Session(graph).run(rate))
      0.025
    """
    _check_positive("decay_steps", decay_steps)

    def schedule(step: hr.Tensor) -> hr.Tensor:
        exponent = _float(step) / decay_steps
        return initial * decay_rate ** (hr.floor(exponent) if staircase else exponent)

    return schedule


def piecewise(boundaries: Sequence[int], rates: Sequence[float]) -> Schedule:
    """rates[i] from update boundaries[i - 1] on: the rate changes once that many updates are done.

    Args:
      boundaries: numbers of updates, ascending.
      rates: one more than boundaries.
    Raises:
      InvalidArgumentError: the numbers do not fit, or the boundaries do not ascend.
    """
    if len(rates) != len(boundaries) + 1 or any(a >= b for a, b in pairwise(boundaries)):
        raise InvalidArgumentError(
            "the pieces of the schedule do not fit together",
            expected="ascending boundaries and one rate more than boundaries",
            got=f"boundaries {list(boundaries)}, rates {list(rates)}",
            hint="piecewise([1000, 2000], [0.1, 0.01, 0.001])",
        )

    def schedule(step: hr.Tensor) -> hr.Tensor:
        rate = hr.constant(rates[0], hr.float64)
        for boundary, later in zip(boundaries, rates[1:], strict=True):
            rate = hr.where(_float(step) >= float(boundary), hr.constant(later, hr.float64), rate)
        return rate

    return schedule


def polynomial(initial: float, decay_steps: int, end: float = 0.0, *, power: float = 1.0) -> Schedule:
    """rate = (initial - end) * (1 - step / decay_steps) ** power + end, and end from `decay_steps` on.

    Args:
      initial: the first rate.
      decay_steps: updates.
      end: the last rate.
      power: 1 falls along a line.
    """
    _check_positive("decay_steps", decay_steps)

    def schedule(step: hr.Tensor) -> hr.Tensor:
        left = 1.0 - hr.minimum(_float(step) / decay_steps, 1.0)
        return (initial - end) * left**power + end

    return schedule


def cosine(initial: float, decay_steps: int, end: float = 0.0, *, warmup_steps: int = 0) -> Schedule:
    """Half a cosine from `initial` down to `end`, after a rise along a line from 0.

    Args:
      initial: the highest rate.
      decay_steps: updates after the warm-up until `end` is reached.
      end: the last rate.
      warmup_steps: updates in which the rate rises from 0 to `initial`.
    Source: Loshchilov, Hutter, *SGDR: stochastic gradient descent with warm restarts*, ICLR 2017, equation 5.
    """
    _check_positive("decay_steps", decay_steps)

    def schedule(step: hr.Tensor) -> hr.Tensor:
        count = _float(step)
        progress = hr.minimum(hr.maximum(count - warmup_steps, 0.0) / decay_steps, 1.0)
        rate = end + (initial - end) * 0.5 * (1.0 + hr.cos(math.pi * progress))
        if not warmup_steps:
            return rate
        return hr.where(count < float(warmup_steps), initial * count / warmup_steps, rate)

    return schedule


def _float(step: hr.Tensor) -> hr.Tensor:
    return hr.astype(step, hr.float64)


def _check_positive(name: str, value: int) -> None:
    if not value > 0:
        raise InvalidArgumentError(
            f"{name} of a schedule cannot be used",
            expected="a number above 0",
            got=repr(value),
            hint="schedules.constant(rate) never changes",
        )
