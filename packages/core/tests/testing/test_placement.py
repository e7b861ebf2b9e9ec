"""Every operation case and every gradient, scattered over three devices at random: the same bits."""

from __future__ import annotations

import os

import pytest

from headrace.testing import OpCase, all_cases, check_case_placed, check_gradient_placed

CASES = [case for case in all_cases() if case.raises is None]
FIRST = list({case.op: case for case in reversed(CASES)}.values())
"""One case of each type."""


def _chunks(cases: list[OpCase]) -> list[list[OpCase]]:
    return [cases[start : start + 100] for start in range(0, len(cases), 100)]


def _name(cases: list[OpCase]) -> str:
    return f"{cases[0].id} and {len(cases) - 1} more"


@pytest.mark.parametrize("cases", _chunks(FIRST), ids=_name)
def test_A55_operations_give_the_same_bits_over_three_devices(cases: list[OpCase]) -> None:
    assert sum(check_case_placed(case) for case in cases) > 0


@pytest.mark.parametrize("cases", _chunks(FIRST), ids=_name)
def test_A55_gradients_give_the_same_bits_over_three_devices(cases: list[OpCase]) -> None:
    assert sum(check_gradient_placed(case, seed=1) for case in cases) > 0


@pytest.mark.skipif("HEADRACE_LONG_TESTS" not in os.environ, reason="minutes; HEADRACE_LONG_TESTS=1 runs it")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("cases", _chunks(CASES), ids=_name)
def test_A55_all_cases_and_gradients_give_the_same_bits_over_three_devices(cases: list[OpCase], seed: int) -> None:
    for case in cases:
        check_case_placed(case, seed=seed)
        check_gradient_placed(case, seed=seed)
