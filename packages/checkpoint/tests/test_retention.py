"""Which steps stay."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InvalidArgumentError
from headrace_checkpoint.retention import Best, SavedStep, steps_to_keep

LOSSES = [SavedStep(step, {"loss": loss}) for step, loss in ((10, 0.5), (20, 0.1), (30, 0.4), (40, 0.2), (50, 0.3))]


def test_A94_the_newest_are_kept() -> None:
    assert steps_to_keep(LOSSES, keep_latest=2, keep_best=None) == {40, 50}
    assert steps_to_keep(LOSSES, keep_latest=None, keep_best=None) == {10, 20, 30, 40, 50}
    assert steps_to_keep([], keep_latest=2, keep_best=Best("loss")) == set()


def test_A94_the_best_are_kept_beside_the_newest() -> None:
    assert steps_to_keep(LOSSES, keep_latest=1, keep_best=Best("loss", 2)) == {20, 40, 50}
    assert steps_to_keep(LOSSES, keep_latest=1, keep_best=Best("loss", 2, higher=True)) == {10, 30, 50}


def test_the_newest_is_always_kept() -> None:
    assert steps_to_keep(LOSSES, keep_latest=0, keep_best=Best("loss", 1)) == {20, 50}


def test_of_equal_steps_the_later_is_better() -> None:
    equal = [SavedStep(step, {"accuracy": 0.5}) for step in (1, 2, 3)]
    assert steps_to_keep([*equal, SavedStep(4, {})], keep_latest=1, keep_best=Best("accuracy")) == {3, 4}


def test_steps_without_the_metric_or_with_nan_are_never_best() -> None:
    steps = [SavedStep(1, {}), SavedStep(2, {"loss": math.nan}), SavedStep(3, {"loss": 9.0}), SavedStep(4, {})]
    assert steps_to_keep(steps, keep_latest=1, keep_best=Best("loss", 3)) == {3, 4}


@pytest.mark.parametrize(
    ("metric", "higher"),
    [("loss", False), ("val_loss", False), ("mean_error", False), ("perplexity", False), ("val_accuracy", True)],
)
def test_the_direction_follows_the_name(metric: str, higher: bool) -> None:
    assert Best(metric).higher_is_better is higher
    assert Best(metric, higher=not higher).higher_is_better is not higher


def test_best_is_accepted_in_short_forms() -> None:
    assert Best.of("loss") == Best("loss", 1)
    assert Best.of(("loss", 3)) == Best("loss", 3)
    assert Best.of(None) is None
    with pytest.raises(InvalidArgumentError, match="at least one best step"):
        Best.of(("loss", 0))


@given(
    st.lists(st.tuples(st.integers(0, 50), st.floats()), unique_by=lambda pair: pair[0]),
    st.integers(1, 4),
    st.integers(1, 4),
)
def test_what_is_kept_is_there_and_enough(pairs: list[tuple[int, float]], latest: int, best: int) -> None:
    steps = [SavedStep(step, {"m": value}) for step, value in pairs]
    kept = steps_to_keep(steps, keep_latest=latest, keep_best=Best("m", best))
    assert kept <= {saved.step for saved in steps}
    rated = sum(not math.isnan(value) for _, value in pairs)
    assert len(kept) >= max(min(len(steps), latest), min(rated, best))
