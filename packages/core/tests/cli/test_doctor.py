"""The doctor: what it finds where all is well, and where something is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from headrace.cli import doctor as module
from headrace.cli.doctor import Finding, findings
from headrace.cli.main import headrace
from headrace.errors import UnavailableError
from headrace.plan.threads import BlasLibrary


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(headrace, ["doctor", *arguments])
    return result.exit_code, result.output


def about(name: str) -> list[Finding]:
    return [finding for finding in findings() if finding.about == name]


def test_where_all_is_well_it_ends_with_0_and_says_what_there_is() -> None:
    code, text = run()
    assert code == 0
    assert f"numpy {np.__version__}" in text
    assert "numpy (CPU:0)" in text
    assert "a first step took" in text
    assert "steps use up to" in text
    assert text.splitlines()[-1].startswith("0 problems, ")


def test_it_prints_json() -> None:
    code, text = run("--json")
    found = json.loads(text)
    assert code == 0
    assert {item["state"] for item in found} <= {"ok", "advice"}
    assert {"python", "package", "backend", "threads"} <= {item["about"] for item in found}


def test_a_backend_that_computes_wrongly_is_a_problem_and_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(a: Any, b: Any) -> bool:
        return False

    monkeypatch.setattr(np, "allclose", wrong)
    code, text = run()
    assert code == 1
    assert "problem  backend" in text
    assert "numpy (CPU:0) does not compute: expected [[" in text
    assert "try: please report this" in text


def test_a_backend_that_fails_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any, **options: Any) -> None:
        raise ValueError("no memory for code\nand more")

    monkeypatch.setattr(module, "Session", broken)
    (found,) = [finding for finding in about("backend") if "numpy (" in finding.text]
    assert found.state == "problem"
    assert found.text.endswith("does not compute: ValueError: no memory for code")


def test_what_an_error_says_to_do_is_what_is_to_be_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """To install a package again helps nothing where a variable of the environment is wrong."""

    def refused(*arguments: Any, **options: Any) -> None:
        raise UnavailableError("the environment asks for too much", hint="unset IT")

    monkeypatch.setattr(module, "Session", refused)
    (found,) = [finding for finding in about("backend") if "numpy (" in finding.text]
    assert found.try_this == "unset IT"


@pytest.mark.parametrize(("number", "text"), [(0, "0 problems, "), (1, "1 problem, "), (2, "2 problems, ")])
def test_the_last_line_counts(number: int, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "findings", lambda: iter([Finding("x", "problem", "wrong")] * number))
    assert run()[1].splitlines()[-1] == f"{text}0 things that would make it faster"


def test_a_backend_for_another_version_is_a_problem_with_its_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        raise UnavailableError("backend 'x' does not fit", hint="pip install --upgrade x")

    monkeypatch.setattr(module, "backends", refused)
    (found,) = about("backend")
    assert (found.state, found.try_this) == ("problem", "pip install --upgrade x")
    assert run()[0] == 1


def test_a_package_that_does_not_load_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = metadata.EntryPoint("broken", "no_such_module_of_headrace:x", "headrace.commands")
    real: Callable[..., Any] = metadata.entry_points

    def with_broken(*, group: str) -> Any:
        return (entry,) if group == "headrace.commands" else real(group=group)

    monkeypatch.setattr("headrace.cli.doctor.metadata.entry_points", with_broken)
    (found,) = about("plug-in")
    assert found.state == "problem"
    assert "broken of no_such_module_of_headrace:x does not load: ModuleNotFoundError" in found.text


def test_a_package_that_is_missing_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NEEDED", ("no-such-package-of-headrace",))
    (found,) = [finding for finding in about("package") if finding.state != "ok"]
    assert (found.state, found.try_this) == ("problem", "pip install no-such-package-of-headrace")


def test_blas_libraries_are_named_with_their_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    library = BlasLibrary("openblas", "/lib/libopenblas.so", lambda: 7, lambda count: None)
    monkeypatch.setattr(module, "blas_libraries", lambda: (library,))
    assert any("openblas of NumPy uses 7 threads" in finding.text for finding in about("threads"))
    monkeypatch.setattr(module, "blas_libraries", tuple)
    assert any("cannot bound the BLAS" in finding.text for finding in about("threads"))


def test_a_quota_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "own_quota", lambda: 1.5)
    assert any("quota of the control group 1.5" in finding.text for finding in about("threads"))


def test_the_environment_is_shown_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CACHE", "off")
    monkeypatch.setenv("HEADRACE_SERVE_API_KEY", "xyz")
    texts = [finding.text for finding in about("environment")]
    assert "HEADRACE_CACHE=off" in texts
    assert "HEADRACE_SERVE_API_KEY=..." in texts


def test_a_graphics_processor_without_a_backend_is_worth_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.cli.doctor.ctypes.CDLL", lambda name: object())
    (found,) = about("gpu")
    assert (found.state, found.try_this) == ("advice", "pip install headrace-kernels-gpu")


def test_advice_of_backends_comes_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "advice", lambda: ["CPU:0 would be faster: pip install llvmlite"])
    assert about("speed") == [Finding("speed", "advice", "CPU:0 would be faster", "pip install llvmlite")]
