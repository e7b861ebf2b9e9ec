"""Which saved steps to keep: a decision over values; deleting is somebody else's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.errors import InvalidArgumentError

__all__ = ["Best", "SavedStep", "best_steps", "steps_to_keep"]

_LOWER_IS_BETTER = ("loss", "error", "perplexity")


@dataclass(frozen=True, slots=True)
class SavedStep:
    """A step as retention sees it."""

    step: int
    metrics: Mapping[str, float]


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
        if isinstance(value, tuple):
            best: Best | None = cls(*value)
        else:
            best = cls(value) if isinstance(value, str) else value
        if best is not None and best.count < 1:
            raise InvalidArgumentError(
                "at least one best step must be kept",
                expected="count >= 1",
                got=str(best.count),
                hint="keep_best=None keeps none",
            )
        return best


def steps_to_keep(steps: Iterable[SavedStep], *, keep_latest: int | None, keep_best: Best | None) -> set[int]:
    """Choose the steps to keep: those that any rule wants, and always the newest.

    Args:
      steps: all that are there.
      keep_latest: how many of the newest; None: all.
      keep_best: which of the others.
    Returns:
      The steps' numbers.

    Example:
      >>> steps = [SavedStep(step, {"loss": loss}) for step, loss in ((1, 0.5), (2, 0.1), (3, 0.4), (4, 0.3))]
      >>> sorted(steps_to_keep(steps, keep_latest=1, keep_best=Best("loss")))
      [2, 4]
    """
    ordered = sorted(steps, key=lambda saved: saved.step)
    if keep_latest is None:
        return {saved.step for saved in ordered}
    kept = {saved.step for saved in ordered[-max(1, keep_latest) :]}
    if keep_best is not None:
        kept.update(best_steps(ordered, keep_best))
    return kept


def best_steps(steps: Iterable[SavedStep], best: Best) -> list[int]:
    """The best steps, the very best first; of equal ones the later is better."""
    sign = 1 if best.higher_is_better else -1
    rated = [(sign * saved.metrics.get(best.metric, math.nan), saved.step) for saved in steps]
    return [step for value, step in sorted((r for r in rated if not math.isnan(r[0])), reverse=True)][: best.count]
