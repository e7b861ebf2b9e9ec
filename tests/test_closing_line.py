"""The last line of a whole run never says less than its exit code."""

from __future__ import annotations

import pytest

from closing_line import closing_line

PASSED = "\x1b[32m======= \x1b[1m12 passed\x1b[0m, 2 skipped in 3.50s (0:00:03) =======\x1b[0m\n"


@pytest.mark.parametrize(
    ("log", "code", "line"),
    [
        (PASSED, 0, "=== 12 passed, 2 skipped in 3.50s ==="),
        (PASSED + "== 4 passed in 1.00s ==\nnox > * alone-core: success\n", 0, "=== 12 passed, 2 skipped in 3.50s ==="),
        (PASSED + "nox > * lint: failed\n", 1, "=== 1 failed, 12 passed, 2 skipped in 3.50s ==="),
        ("== 1 failed, 11 passed in 2.0s ==\nnox > * joint: failed\n", 1, "=== 1 failed, 11 passed in 2.0s ==="),
        ("== 1 error in 2.0s ==\nnox > * joint: failed\n", 1, "=== 1 error in 2.0s ==="),
        ("Traceback\n", 1, "=== 1 failed in 0.00s ==="),
    ],
)
def test_line_says_what_the_run_did(log: str, code: int, line: str) -> None:
    assert closing_line(log, code) == line
