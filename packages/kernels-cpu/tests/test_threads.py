"""Threads: the pool soon sleeps where nobody said otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, ["passive", "2000"]),
        ({"GOMP_SPINCOUNT": "7"}, ["passive", "7"]),
        ({"OMP_WAIT_POLICY": "passive"}, ["passive", "None"]),
        ({"OMP_WAIT_POLICY": "active"}, ["active", "None"]),
    ],
    ids=str,
)
def test_threads_without_work_soon_sleep_unless_the_user_wants_otherwise(
    given: dict[str, str], found: list[str]
) -> None:
    names = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    code = f"import headrace_cpu, os; print(*(os.environ.get(name) for name in {names}))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment | given, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == found
