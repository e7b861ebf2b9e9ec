"""The measuring tools find what they look for."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from measure import curves, execution, hard_cases, raise_sites
from measure.report import Row, report
from oracle.recipes import STATEFUL, recipe

MODULE = """
def f(x):
    if x == 1:
        raise errors.ShapeError("bad", expected="[2]", got="[3]", hint="reshape")
    if x == 2:
        raise ShapeError(
            "bad",
            got="[3]",
        ).at("here")
    if x == 3:
        raise KeyError(x)
    raise
"""


def test_raise_sites_of_our_errors_are_found_with_the_fields_they_lack(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(MODULE)
    first, second = raise_sites.sites(tmp_path, frozenset({"ShapeError"}))
    assert (first.first, first.last, first.missing) == (4, 4, ())
    assert (second.first, second.last, second.missing) == (6, 9, ("expected", "hint"))


def test_raises_without_a_message_are_found(tmp_path: Path) -> None:
    text = (
        "with pytest.raises(ValueError):\n    f()\n"
        "with pytest.raises(ValueError, match='x'):\n    f()\n"
        "with pytest.raises(ValueError) as caught:\n    f()\n"
    )
    (tmp_path / "test_f.py").write_text(text)
    assert raise_sites.unmatched(tmp_path) == ["test_f.py:1"]


def test_a_hard_case_counts_once_one_of_its_operations_exists() -> None:
    assert hard_cases.cases(frozenset({"FloorDiv", "Cumsum"}), frozenset({"Adam"})) == ["O07", "O09", "O53", "T01"]
    assert hard_cases.cases(frozenset(), frozenset()) == []


def test_ids_that_no_test_names_are_found_in_either_case() -> None:
    names = ["a.py::test_A63_loops", "a.py::test_g05_ties[1]", "b.py::test_cases[Cumsum/O53 XR]", "b.py::test_A630_no"]
    assert execution.unnamed(["A63", "G05", "O53"], names) == []
    assert execution.unnamed(["A64", "G0", "O5", "A30"], names) == ["A64", "G0", "O5", "A30"]


def test_the_ids_of_the_execution_model_are_those_of_one_process() -> None:
    assert {"A20", "A38", "A45", "A56", "A68", "A77", "A85", "D14"} <= set(execution.ROWS)
    assert not {"A39", "A57", "A78", "A86", "D11", "D12"} & set(execution.ROWS)
    assert len(execution.HARD_CASES) == 28 + 10 + 5


def test_a_cost_is_judged_on_the_backend_of_a_user_and_shown_beside_that_of_numpy() -> None:
    cost = {"ratio": 100.0, "microseconds": {"headrace": 0.03, "numpy backend": 2.0, "tensorflow": 3.0}}
    row = execution.overhead_row("a loop", cost)
    assert (row.holds, row.measured) == (
        True,
        "TensorFlow takes 100.00 times as long (1.50 times as long as the NumPy backend)",
    )
    slow = execution.overhead_row("a loop", {"ratio": 1.5, "microseconds": {"headrace": 2.0, "tensorflow": 3.0}})
    assert (slow.holds, slow.measured) == (False, "TensorFlow takes 1.50 times as long")
    assert not execution.overhead_row("a loop", None).holds


def test_the_body_of_a_loop_is_judged_on_the_numpy_backend() -> None:
    found = {"iteration": {"microseconds": {"headrace": 0.1}}}
    row = execution.loop_body((found, {"iteration_us_over_numpy": 16.0, "backend": "cpu"}, ""))
    assert not row.holds
    assert row.measured == "16.00 us on the NumPy backend; 0.10 us in all on the native one"


@pytest.mark.parametrize(("holds", "code"), [(True, 0), (False, 1)])
def test_report_fails_when_a_row_falls_short(
    holds: bool, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.json"
    assert report([Row("size", "< 2", "1", holds)], file) == code
    assert json.loads(file.read_text())[0]["holds"] is holds
    assert ("FALLS SHORT" in capsys.readouterr().out) is not holds


def test_a_recipe_follows_from_its_seed_and_uses_only_earlier_values() -> None:
    plan = recipe(5)
    assert plan == recipe(5)
    assert plan != recipe(6)
    for number, step in enumerate(plan.steps, start=len(plan.inputs)):
        assert all(index < number for index in step.inputs)


def test_recipes_put_queues_and_variables_into_graphs_each_with_a_start_of_its_own() -> None:
    plans = [recipe(seed) for seed in range(100)]
    assert {step.op for plan in plans for step in plan.steps} >= set(STATEFUL)
    for plan in plans:
        assert len(set(plan.starts)) == len(plan.starts) == sum(step.op in STATEFUL for step in plan.steps)


def test_every_refusal_that_a_test_of_core_expects_is_looked_at() -> None:
    """Else another error than the one that is meant lets the test pass."""
    assert raise_sites.unmatched(Path(__file__).parent.parent / "packages" / "core" / "tests") == []


@pytest.mark.parametrize("given", [np.zeros((500, 40), np.float32), np.zeros((500, 16, 16, 3), np.float32)])
def test_images_tell_their_class_but_for_noise_of_the_labels(given: Any) -> None:
    (x, y), (x2, y2) = itertools.islice(curves.examples(given, np.zeros(500, np.int32)), 2)
    assert (x.shape, x.dtype, y.dtype) == (given.shape, np.float32, np.int32)
    flat, flat2 = x.reshape(500, -1), x2.reshape(500, -1)
    nearest = ((flat2[:, None] - flat[None]) ** 2).sum(-1).argmin(1)  # its label is right as often as both are
    share = (y[nearest] == y2).mean()
    assert 0.6 < share < 0.8  # (0.8 + 0.02) ** 2 and what is right by chance


def test_words_follow_each_other_but_for_noise() -> None:
    given = np.zeros((400, 20), np.int32)
    x, y = next(curves.examples(given, given))
    following = {word: np.bincount(y[x == word]).argmax() for word in range(curves.WORDS)}
    assert len(set(following.values())) == curves.WORDS
    share = np.mean([following[a] == b for a, b in zip(x.ravel(), y.ravel(), strict=True)])
    assert share == pytest.approx(curves.RIGHT + (1 - curves.RIGHT) / curves.WORDS, abs=0.02)
