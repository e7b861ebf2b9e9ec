"""Which steps stay."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InvalidArgumentError
from headrace_checkpoint.retention import Best, Retention, SavedStep

LOSSES = [SavedStep(step, {"loss": loss}) for step, loss in ((10, 0.5), (20, 0.1), (30, 0.4), (40, 0.2), (50, 0.3))]


def test_A94_the_newest_are_kept() -> None:
    assert Retention(2, None).steps_to_keep(LOSSES) == {40, 50}
    assert Retention(None, None).steps_to_keep(LOSSES) == {10, 20, 30, 40, 50}
    assert Retention(2, Best("loss")).steps_to_keep([]) == set()


def test_A94_the_best_are_kept_beside_the_newest() -> None:
    assert Retention(1, Best("loss", 2)).steps_to_keep(LOSSES) == {20, 40, 50}
    assert Retention(1, Best("loss", 2, higher=True)).steps_to_keep(LOSSES) == {10, 30, 50}


def test_the_newest_is_always_kept() -> None:
    assert Retention(1).steps_to_keep(LOSSES) == {50}
    for wrong in ({"latest": 0}, {"every_steps": 0}, {"every_hours": 0}, {"every_hours": math.nan}):
        with pytest.raises(InvalidArgumentError, match=f"keep_{next(iter(wrong))} >"):
            Retention(**wrong)


def test_A94_steps_that_are_multiples_are_kept_for_good() -> None:
    assert Retention(1, every_steps=20).steps_to_keep(LOSSES) == {20, 40, 50}


def test_A94_a_step_is_kept_for_each_span_of_hours_also_after_others_were_deleted() -> None:
    rule = Retention(1, every_hours=1)
    steps: list[SavedStep] = []
    for number in range(40):  # every quarter of an hour; what is not kept is gone when the next is saved
        steps.append(SavedStep(number, {}, time=900.0 * number))
        kept = rule.steps_to_keep(steps)
        steps = [saved for saved in steps if saved.step in kept]
    assert [saved.step for saved in steps] == [0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 39]


def test_the_union_of_the_rules_is_kept() -> None:
    assert Retention(1, Best("loss", 1), every_steps=30).steps_to_keep(LOSSES) == {20, 30, 50}


def test_of_equal_steps_the_later_is_better() -> None:
    equal = [SavedStep(step, {"accuracy": 0.5}) for step in (1, 2, 3)]
    assert Retention(1, Best("accuracy")).steps_to_keep([*equal, SavedStep(4, {})]) == {3, 4}


def test_steps_without_the_metric_or_with_nan_are_never_best() -> None:
    steps = [SavedStep(1, {}), SavedStep(2, {"loss": math.nan}), SavedStep(3, {"loss": 9.0}), SavedStep(4, {})]
    assert Retention(1, Best("loss", 3)).steps_to_keep(steps) == {3, 4}


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
    kept = Retention(latest, Best("m", best)).steps_to_keep(steps)
    assert kept <= {saved.step for saved in steps}
    rated = sum(not math.isnan(value) for _, value in pairs)
    assert len(kept) >= max(min(len(steps), latest), min(rated, best))


@pytest.mark.parametrize("value", [5, ("loss", 1, True, 4), (), ("loss", "3"), (3, "loss"), b"loss", ["loss", 1]])
def test_what_does_not_say_which_steps_are_the_best(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"which steps are the best[^$]*\(name, count\) or a Best"):
        Best.of(value)


@pytest.mark.parametrize("rule", [{"latest": 1.5}, {"every_steps": 10.0}, {"latest": "3"}])
def test_numbers_of_steps_are_whole(rule: dict[str, Any]) -> None:
    """A directory with `keep_latest=1.5` saved once, and then failed to choose."""
    with pytest.raises(InvalidArgumentError, match="a rule for keeping steps is wrong"):
        Retention(**rule)
