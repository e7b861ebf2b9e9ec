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
        (
            PASSED + "nox > Running session alone-core\n== 4 passed in 1.00s ==\n",
            0,
            "=== 12 passed, 2 skipped in 3.50s ===",
        ),
        (PASSED + "nox > * lint: failed\n", 1, "=== 1 failed, 12 passed, 2 skipped in 3.50s ==="),
        ("== 1 failed, 11 passed in 2.0s ==\nnox > * joint: failed\n", 1, "=== 1 failed, 11 passed in 2.00s ==="),
        ("== 1 error in 2.0s ==\nnox > * joint: failed\n", 1, "=== 1 error in 2.00s ==="),
        ("Traceback\n", 1, "=== 1 failed in 0.00s ==="),
    ],
)
def test_line_says_what_the_run_did(log: str, code: int, line: str) -> None:
    assert closing_line(log, code) == line


JOINT = """nox > Running session joint
SKIPPED [1] packages/viz/tests/test_browser.py:162: HEADRACE_BROWSER is not set
SKIPPED [2] packages/serving/tests/test_browser.py:90: HEADRACE_BROWSER is not set
SKIPPED [1] packages/core/tests/test_gpu.py:3: no device
=== 12 passed, 4 skipped in 3.50s ===
nox > Running session alone-viz
SKIPPED [1] packages/viz/tests/test_browser.py:162: HEADRACE_BROWSER is not set
=== 5 passed, 1 skipped in 1.00s ===
nox > Running session browser
"""
VIZ = "nox > Running session browser-viz\n=== 1 passed, 5 deselected in 2.00s ===\n"
SERVING = "nox > Running session browser-serving\n=== 1 passed, 1 failed, 3 skipped, 7 deselected in 1.25s ===\n"
STOPPED = "nox > Running session browser-serving\nnox > Session browser-serving failed.\n"
LISTED = "nox > * browser: success\nnox > * browser-viz: success\nnox > * browser-serving: failed\n"


@pytest.mark.parametrize(
    ("log", "code", "line"),
    [
        (JOINT, 0, "=== 12 passed, 4 skipped in 3.50s ==="),
        (JOINT + VIZ, 0, "=== 13 passed, 3 skipped in 5.50s ==="),
        (JOINT + VIZ + SERVING + LISTED, 1, "=== 1 failed, 14 passed, 1 skipped in 6.75s ==="),
        (JOINT + VIZ + STOPPED + LISTED, 1, "=== 1 failed, 13 passed, 3 skipped in 5.50s ==="),
        (JOINT + VIZ + STOPPED, 1, "=== 1 failed, 13 passed, 3 skipped in 5.50s ==="),
    ],
)
def test_tests_in_a_browser_count_instead_of_their_skips(log: str, code: int, line: str) -> None:
    assert closing_line(log, code) == line
