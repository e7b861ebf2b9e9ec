"""Every operation case of core, through the native backend."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import pytest

from headrace.testing import check_backend

FAMILIES = [module.name for module in iter_modules(import_module("headrace.testing.cases").__path__)]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_cases_of_a_family_hold(family: str) -> None:
    cases = import_module(f"headrace.testing.cases.{family}").CASES
    assert check_backend("cpu", cases) == len(cases)
