"""The main job, on fewer digits: it works from end to end, and survives being killed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.patience(300)

SCRIPT = Path(__file__).parent.parent / "examples" / "quickstart.py"
SMALL = ("--train", "500", "--test", "200", "--epochs", "6", "--at-least", "0.6")


def command(folder: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-W", "error", str(SCRIPT), "--folder", str(folder), *SMALL, *arguments]


def complete(folder: Path, *arguments: str) -> tuple[str, dict[str, Any]]:
    run = subprocess.run(command(folder, *arguments), capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout, json.loads((folder / "result.json").read_text())


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    return complete(tmp_path_factory.mktemp("uninterrupted"))


def test_the_served_answers_are_the_models_own(uninterrupted: tuple[str, dict[str, Any]]) -> None:
    output, result = uninterrupted
    assert result["answers_equal"]
    assert result["accuracy"] == result["history"]["val_accuracy"][-1]
    assert "test accuracy" in output
    assert output.count("(truth ") == 10


def test_a_killed_run_that_is_resumed_ends_with_the_same_numbers(
    uninterrupted: tuple[str, dict[str, Any]], tmp_path: Path
) -> None:
    process = subprocess.Popen(command(tmp_path), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = iter(process.stdout.readline, "")
    assert any(line.startswith("epoch 2/") for line in lines)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "result.json").exists()

    output, result = complete(tmp_path, "--resume")
    assert re.search("going on from step [1-9]", output)
    assert "epoch 1/" not in output
    assert result == uninterrupted[1]


def test_a_run_without_resume_starts_anew(uninterrupted: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    first = complete(tmp_path, "--epochs", "1", "--at-least", "0")[1]
    again = complete(tmp_path, "--epochs", "1", "--at-least", "0")[1]
    assert first == again
    assert len(again["history"]["loss"]) == 1


def test_an_accuracy_that_is_too_low_fails_the_command(tmp_path: Path) -> None:
    run = subprocess.run(command(tmp_path, "--epochs", "1", "--at-least", "1.0"), capture_output=True, text=True)
    assert run.returncode == 1
    assert re.search("failed: the test accuracy 0.* is below 1.0 .*--epochs", run.stderr)
