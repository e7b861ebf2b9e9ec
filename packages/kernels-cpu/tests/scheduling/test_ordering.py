"""The order of runs: few of them, each variable locked as shortly as that allows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from laid_out import laid_out

import headrace as hr
from headrace_cpu.onednn import onednn

LARGE = 1 << 20
"""Numbers of a variable that is as large as what is applied before more is made."""


def variable(size: int, name: str) -> hr.Variable:
    return hr.Variable(hr.zeros([size]), name=name)


def kinds(build: Any, *inputs: Any) -> list[str]:
    return [run.kind for run in laid_out(build, *inputs).runs]


def test_small_updates_share_one_run_at_the_end() -> None:
    def build(x: Any) -> list[Any]:
        updates = [variable(8, f"v{n}").assign_add(hr.cumulative_sum(x * float(n))) for n in range(3)]
        return [*updates, hr.sum(hr.tanh(x))]

    assert kinds(build, (hr.float32, (8,))) == ["compute", "update"]


@pytest.mark.parametrize(("size", "runs"), [(8, 1), (LARGE, 3)])
def test_large_values_are_applied_before_more_are_made(size: int, runs: int) -> None:
    def build(x: Any) -> list[Any]:
        sums = [hr.cumulative_sum(x + float(n)) for n in range(3)]  # a scan, which is no part of the update
        return [variable(size, f"v{n}").assign_add(value) for n, value in enumerate(sums)]

    assert kinds(build, (hr.float32, (size,))) == ["compute", "update"] * runs


def test_numpy_comes_after_what_computes_and_before_updates() -> None:
    def build(x: Any) -> list[Any]:
        eigenvalues = hr.linalg.eigvalsh(x @ hr.matrix_transpose(x))
        return [variable(4, "v").assign_add(eigenvalues), hr.sum(hr.tanh(x))]

    found = kinds(build, (hr.float32, (4, 4)))
    assert found[0] == "compute"
    assert found[-1] == "update"
    assert "host" in found


@pytest.mark.skipif(onednn() is None, reason="oneDNN is not installed")
@pytest.mark.parametrize(("side", "apart"), [(1023, False), (1024, True)])
def test_a_large_product_that_is_added_up_in_a_variable_is_a_run_of_its_own(side: int, apart: bool) -> None:
    """Its lock is held for long, so no other one is held with it."""
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [4, side])
        w, bias = hr.Variable(hr.zeros([side, side])), hr.Variable(hr.zeros([side]))
        loss = hr.mean(hr.tanh(x @ w.value + bias.value))
        train = hr.optim.Momentum(0.1, momentum=0.9).minimize(loss)
    with hr.Session(graph, config=hr.config(backend="cpu")) as session:
        trace = hr.Trace()
        session.run([loss, train], feeds={x: np.ones((4, side), np.float32)}, trace=trace)
    updates = [r for r in trace.steps[0].op_records() if any("Assign" in name for name in r.names)]
    products = [r for r in updates if any("MatMul" in name for name in r.names)]
    assert len(products) == 1
    assert (sum("AssignVariableOp" in name for name in products[0].names) == 1) is apart
