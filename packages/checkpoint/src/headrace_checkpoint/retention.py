"""Which saved steps to keep: a decision over values; deleting is somebody else's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from headrace.errors import InvalidArgumentError

__all__ = ["Best", "Retention", "SavedStep", "best_steps"]

_LOWER_IS_BETTER = ("loss", "error", "perplexity")


@dataclass(frozen=True, slots=True)
class SavedStep:
    """A step as retention sees it.

    Attributes:
      step: the training step.
      metrics: numbers that were saved with it.
      time: when it was saved, in seconds since 1970.
    """

    step: int
    metrics: Mapping[str, float]
    time: float = 0.0


@dataclass(frozen=True, slots=True)
class Best:
    """Keep the steps that are best by a metric.

    Attributes:
      metric: its name. Steps saved without it are never among the best, nor is one where it is NaN.
      count: how many to keep.
      higher: whether a higher value is better; None: unless the name ends in loss, error or perplexity.
    """

    metric: str
    count: int = 1
    higher: bool | None = None

    @property
    def higher_is_better(self) -> bool:
        """Which direction counts, decided."""
        return not self.metric.endswith(_LOWER_IS_BETTER) if self.higher is None else self.higher

    @classmethod
    def of(cls, value: Best | str | tuple[str, int] | None) -> Best | None:
        """Accept a name or `(name, count)` for a `Best`.

        Raises:
          InvalidArgumentError: it is none of these, or the count is below 1.
        """
        if value is None:
            return None
        given: Any = (value,) if isinstance(value, str) else value
        best: Any = cls(*given) if isinstance(given, tuple) and len(given) in (1, 2) else given
        name: Any = getattr(best, "metric", None)
        if not (isinstance(best, Best) and isinstance(name, str) and _is_integer(best.count)):
            raise InvalidArgumentError(
                "this does not say which steps are the best",
                expected="a metric's name, (name, count) or a Best",
                got=repr(value),
                hint='keep_best=("loss", 3)',
            )
        if best.count < 1:
            raise InvalidArgumentError(
                "at least one best step must be kept",
                expected="count >= 1",
                got=str(best.count),
                hint="keep_best=None keeps none",
            )
        return best


@dataclass(frozen=True, slots=True)
class Retention:
    """The rules by which steps are kept: a step stays if any of them wants it, and the newest always does.

    Attributes:
      latest: how many of the newest; None: all.
      best: the best by a metric, or None.
      every_hours: besides, one step for each so many hours, for good; None: none.
      every_steps: besides, each step whose number is a multiple of this, for good; None: none.
    """

    latest: int | None = 5
    best: Best | None = None
    every_hours: float | None = None
    every_steps: int | None = None

    def __post_init__(self) -> None:
        for name, value, least in (("latest", self.latest, 1), ("every_steps", self.every_steps, 1)):
            if value is not None and not (_is_integer(value) and value >= least):
                raise _wrong_rule(name, f">= {least}, or None", value)
        if self.every_hours is not None and not self.every_hours > 0:
            raise _wrong_rule("every_hours", "> 0, or None", self.every_hours)

    def steps_to_keep(self, steps: Iterable[SavedStep]) -> set[int]:
        """Choose among the steps that are there.

        The choice looks at nothing but them, so it is the same after a restart.

        Example:
          >>> steps = [SavedStep(step, {"loss": loss}) for step, loss in ((1, 0.5), (2, 0.1), (3, 0.4), (4, 0.3))]
          >>> sorted(Retention(latest=1, best=Best("loss")).steps_to_keep(steps))
          [2, 4]
        """
        ordered = sorted(steps, key=lambda saved: saved.step)
        if self.latest is None:
            return {saved.step for saved in ordered}
        kept = {saved.step for saved in ordered[-self.latest :]}
        if self.best is not None:
            kept.update(best_steps(ordered, self.best))
        if self.every_steps is not None:
            kept.update(saved.step for saved in ordered if saved.step % self.every_steps == 0)
        if self.every_hours is not None:
            kept.update(_spaced(ordered, self.every_hours * 3600))
        return kept


def _spaced(ordered: Iterable[SavedStep], seconds: float) -> Iterator[int]:
    """The first step, and each that was saved so many seconds after the one before of these."""
    due = -math.inf
    for saved in ordered:
        if saved.time >= due:
            due = saved.time + seconds
            yield saved.step


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral)  # NumPy's too


def _wrong_rule(name: str, expected: str, got: object) -> InvalidArgumentError:
    return InvalidArgumentError(
        "a rule for keeping steps is wrong",
        expected=f"keep_{name} {expected}",
        got=str(got),
        hint="keep_latest=None keeps every step",
    )


def best_steps(steps: Iterable[SavedStep], best: Best) -> list[int]:
    """The best steps, the very best first; of equal ones the later is better."""
    sign = 1 if best.higher_is_better else -1
    rated = [(sign * saved.metrics.get(best.metric, math.nan), saved.step) for saved in steps]
    return [step for value, step in sorted((r for r in rated if not math.isnan(r[0])), reverse=True)][: best.count]
