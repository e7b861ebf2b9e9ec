"""The examples in docstrings run and print what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

PACKAGES = ("headrace", "headrace_checkpoint", "headrace_cpu", "headrace_serving", "headrace_viz")
MODULES = [
    info.name
    for package in PACKAGES
    for info in pkgutil.walk_packages(importlib.import_module(package).__path__, package + ".")
    if not info.name.endswith(("_pb2", "__main__"))
]


@pytest.mark.parametrize("name", [*PACKAGES, *MODULES])
def test_examples_of_a_module_run(name: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))
    found = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0
