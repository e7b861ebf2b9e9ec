"""Initial values: several variables are filled in one step, what needs another variable after that one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.runtime import initialization, step_definition


@pytest.fixture(name="steps")
def _steps(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The variables that each step of initial values fills."""
    found: list[list[str]] = []
    run_once = step_definition.StepDefinition._run_once

    def noted(self: Any, targets: Sequence[hr.Operation]) -> None:
        found.append([target.inputs[0].op.name for target in targets])
        run_once(self, targets)

    monkeypatch.setattr(step_definition.StepDefinition, "_run_once", noted)
    return found


def test_so_many_variables_are_filled_together_as_have_few_bytes(
    steps: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(initialization, "TOGETHER_BYTES", 4 * 10)
    with hr.Graph().as_default() as graph:
        for name, size in (("a", 3), ("b", 7), ("c", 1), ("d", 10), ("e", 11), ("f", 2)):
            hr.Variable(hr.full([size], np.float32(size)), name=name)
        total = hr.add_n([hr.sum(variable.value) for variable in graph.variables])
    with hr.Session(graph) as session:
        assert session.run(total) == 9 + 49 + 1 + 100 + 121 + 4
    assert steps == [["e"], ["d"], ["b", "a"], ["f", "c"]]  # the largest first: what it is computed in goes again


def test_a_value_that_needs_another_comes_after_it(steps: list[list[str]]) -> None:
    with hr.Graph().as_default() as graph:
        first = hr.Variable(hr.random.normal([4], seed=1), name="first")
        hr.Variable(hr.ones([2]), name="between")
        second = hr.Variable(2.0 * first.value, name="second")
        third = hr.Variable(hr.ones([4]), name="third")
        total = [second.value, first.value, third.value + hr.sum(graph.variables[1].value)]
    with hr.Session(graph) as session:
        doubled, once, _ = session.run(total)
    np.testing.assert_array_equal(doubled, 2.0 * once)
    assert steps == [["first"], ["second"], ["third", "between"]]


def test_values_drawn_together_are_those_drawn_alone() -> None:
    def drawn(size: int) -> list[Any]:
        with hr.Graph().as_default() as graph:
            variables = [hr.Variable(hr.random.normal([size], seed=3 + n), name=f"v{n}") for n in range(3)]
        with hr.Session(graph) as session:
            return [value[:8] for value in session.run([variable.value for variable in variables])]

    for together, alone in zip(drawn(8), drawn(1 << 21), strict=True):
        np.testing.assert_array_equal(together, alone)


def test_what_has_a_value_is_left_as_it_is(steps: list[list[str]]) -> None:
    with hr.Graph().as_default() as graph:
        a, b = (hr.Variable(hr.ones([2]), name=name) for name in "ab")
        total = a.value + b.value
    with hr.Session(graph) as session:
        session.write_variables({"a": np.full(2, 5, np.float32)})
        np.testing.assert_array_equal(session.run(total), [6, 6])
    assert steps == [["b"]]
