"""Learning-rate schedules, compared with their formulas at every step."""

from __future__ import annotations

import math

import numpy as np
import pytest

import headrace as hr
from headrace.errors import InvalidArgumentError
from headrace.training.optim import schedules


def rates(schedule: schedules.Schedule, steps: int) -> list[float]:
    graph = hr.Graph()
    with graph.as_default():
        step = hr.placeholder(hr.int64, [])
        rate = schedule(step)
    assert rate.dtype is hr.float64
    with hr.Session(graph) as session:
        run = session.make_callable(rate, [step])
        return [float(run(np.int64(number))) for number in range(steps)]


def test_a_constant_rate_stays() -> None:
    assert rates(schedules.constant(0.3), 3) == [0.3, 0.3, 0.3]


def test_an_exponential_rate_decays_at_every_step() -> None:
    expected = [0.1 * 0.5 ** (step / 4) for step in range(20)]
    assert rates(schedules.exponential(0.1, 0.5, 4), 20) == pytest.approx(expected, rel=1e-12)


def test_exponential_in_stairs() -> None:
    expected = [0.1 * 0.5 ** (step // 4) for step in range(20)]
    assert rates(schedules.exponential(0.1, 0.5, 4, staircase=True), 20) == pytest.approx(expected, rel=1e-12)


def test_a_piecewise_rate_changes_after_each_boundary() -> None:
    assert rates(schedules.piecewise([2, 5], [1.0, 0.1, 0.01]), 7) == [1.0, 1.0, 0.1, 0.1, 0.1, 0.01, 0.01]


def test_a_polynomial_rate_ends_at_its_last_value() -> None:
    expected = [0.9 * (1 - min(step, 10) / 10) ** 2 + 0.1 for step in range(15)]
    assert rates(schedules.polynomial(1.0, 10, 0.1, power=2.0), 15) == pytest.approx(expected, rel=1e-12)


def test_cosine_with_warm_up() -> None:
    def formula(step: int) -> float:
        if step < 5:
            return 2.0 * step / 5
        return 0.5 + (2.0 - 0.5) * 0.5 * (1 + math.cos(math.pi * min(step - 5, 10) / 10))

    got = rates(schedules.cosine(2.0, 10, 0.5, warmup_steps=5), 20)
    assert got == pytest.approx([formula(step) for step in range(20)], rel=1e-12)
    assert rates(schedules.cosine(2.0, 10), 11)[-1] == pytest.approx(0.0, abs=1e-15)


def test_pieces_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"do not fit together\n.*\n.*boundaries \[1\], rates \[1\.0\]"):
        schedules.piecewise([1], [1.0])
    with pytest.raises(InvalidArgumentError, match="ascending boundaries"):
        schedules.piecewise([2, 1], [1.0, 0.5, 0.1])


def test_decay_needs_steps() -> None:
    with pytest.raises(InvalidArgumentError, match=r"decay_steps of a schedule cannot be used\n.*\n.*0"):
        schedules.cosine(1.0, 0)
    with pytest.raises(InvalidArgumentError, match=r"decay_steps of a schedule cannot be used\n.*\n.*-1"):
        schedules.polynomial(1.0, -1)
