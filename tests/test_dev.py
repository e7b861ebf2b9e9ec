"""tools/dev.py keeps everything in the checkout and says how it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import dev

ROOT = Path(__file__).parent.parent


def test_every_cache_lies_in_the_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dev, "ROOT", tmp_path)
    variables = dev.environment()
    for name in ("PIP_CACHE_DIR", "TMPDIR", "VIRTUALENV_OVERRIDE_APP_DATA", "XDG_CACHE_HOME"):
        assert Path(variables[name]).is_relative_to(tmp_path / ".cache")
    assert Path(variables["TMPDIR"]).is_dir()


@pytest.mark.parametrize(("arguments", "code"), [([], 2), (["--help"], 0)])
def test_usage_names_the_sessions(arguments: list[str], code: int) -> None:
    command = [sys.executable, str(ROOT / "tools" / "dev.py"), *arguments]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == code
    assert "quickstart, tests" in run.stdout


def test_an_old_python_is_told_what_is_needed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    assert dev.main(["tests"]) == 2
    assert "needs Python 3.11 or later" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["joint", "--", "-k", "x"], ["joint", "-k", "x"]])
def test_what_follows_reaches_the_session_with_or_without_dashes(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(Path, "exists", lambda path: True)
    assert dev.main(arguments) == 0
    assert commands[-1][1:] == ["-m", "nox", "--session", "joint", "--", "-k", "x"]
