"""Rows that are tests: a part of a package's suite runs, and its closing line is what was measured."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from measure.environments import run, tail
from measure.report import Row

CLOSING = re.compile(r"(\d+ (?:passed|failed|error).*) in [0-9.]+s")


def run_tests(
    what: str,
    asked: str,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    python: str = "",
    may_skip: bool = False,
) -> Row:
    """Run some tests.

    Args:
      what: see `Row`.
      asked: see `Row`.
      arguments: for pytest.
      env: variables to add to the environment.
      python: whose pytest to use; this one's by default.
      may_skip: tests may say that this machine lacks what they need.
    Returns:
      A row that holds if all passed and, unless they may, none was skipped.
    """
    command = [python or sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    done = run(command, env={**os.environ, **(env or {})})
    closing = CLOSING.findall(done.stdout) or [tail(done.stdout, 1)]
    holds = done.returncode == 0 and (may_skip or "skipped" not in closing[-1])
    return Row(what, asked, closing[-1], holds, "" if holds else tail(done.stdout))


def hard_cases(tests: Path, letter: str, cases: Sequence[str], *arguments: str) -> Row:
    """Run the tests that name hard cases, and count the cases that none names.

    Args:
      tests: the folder of the tests.
      letter: with which the cases of the group begin.
      cases: their ids.
      arguments: more of pytest's.
    """
    asked = "a test names each case, and passes"
    listing = run([sys.executable, "-m", "pytest", "--collect-only", "-q", str(tests)]).stdout
    named = set(re.findall(rf"(?<![A-Za-z0-9])({letter}\d\d)(?![0-9])", listing))
    missing = [case for case in cases if case not in named]
    row = run_tests("hard cases", asked, "-k", " or ".join(cases), *arguments, str(tests))
    measured = f"{len(cases) - len(missing)} of {len(cases)} cases named; {row.measured}"
    return Row(row.what, asked, measured, row.holds and not missing, row.detail)
