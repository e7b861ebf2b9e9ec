"""Every operation case and every gradient, scattered over three devices at random: the same bits."""

from __future__ import annotations

import pytest

from headrace.testing import OpCase, all_cases, check_case_placed, check_gradient_placed

CASES = [case for case in all_cases() if case.raises is None]
CHUNKS = [CASES[start : start + 100] for start in range(0, len(CASES), 100)]
FIRST = list({case.op: case for case in reversed(CASES)}.values())
"""One case of each type, for what takes longer."""
FIRST_CHUNKS = [FIRST[start : start + 100] for start in range(0, len(FIRST), 100)]


def _name(cases: list[OpCase]) -> str:
    return f"{cases[0].id} and {len(cases) - 1} more"


@pytest.mark.parametrize("cases", CHUNKS, ids=_name)
def test_A55_operations_give_the_same_bits_over_three_devices(cases: list[OpCase]) -> None:
    assert sum(check_case_placed(case) for case in cases) > 0


@pytest.mark.parametrize("cases", FIRST_CHUNKS, ids=_name)
def test_A55_gradients_give_the_same_bits_over_three_devices(cases: list[OpCase]) -> None:
    assert sum(check_gradient_placed(case) for case in cases) > 0
