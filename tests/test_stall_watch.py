"""The watch over all tests: a test that hangs fails, and says which operation waits for what."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import stall_watch

WAITING = """
import headrace as hr

def test_waits():
    with hr.Graph().as_default() as graph:
        element = hr.FIFOQueue(2, [hr.float32], name="never_filled").dequeue()
    hr.Session(graph).run(element)

def test_goes_on():
    pass
"""
COMPUTING = """
def test_computes():
    while True:
        pass
"""
STUBBORN = """
import threading

def test_catches_everything():
    while True:
        try:
            threading.Event().wait()
        except BaseException:
            pass
"""
PATIENT = """
import subprocess, sys, pytest

@pytest.mark.patience(60)
def test_waits_for_a_process():
    subprocess.run([sys.executable, "-c", "import time; time.sleep(2)"], check=True)
"""


def watched(folder: Path, text: str, *, grace: float = 10.0) -> subprocess.CompletedProcess[str]:
    """Run one file of tests under a watch of half a second."""
    (folder / "pytest.ini").write_text("[pytest]\n")  # not the settings of the checkout, in which the folder may lie
    (folder / "test_it.py").write_text(text)
    tools = Path(stall_watch.__file__).parent
    program = (
        f"import sys; sys.path.insert(0, {str(tools)!r}); import pytest, stall_watch; stall_watch.GRACE = {grace}; "
        "sys.exit(pytest.main(['-q', '-p', 'stall_watch', '-p', 'no:cacheprovider', '--stall-seconds', '0.5', '.']))"
    )
    return subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_test_that_waits_fails_and_names_the_operation_and_the_queue(tmp_path: Path) -> None:
    done = watched(tmp_path, WAITING)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "no progress for 0.5 s" in done.stdout
    assert "QueueDequeueV2" in done.stdout
    assert "never_filled" in done.stdout
    assert "Thread 'MainThread'" in done.stdout
    assert "1 failed, 1 passed" in done.stdout


def test_a_test_that_computes_for_too_long_fails(tmp_path: Path) -> None:
    done = watched(tmp_path, COMPUTING)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "s in one phase of a test" in done.stdout
    assert "in test_computes" in done.stdout


def test_a_process_that_cannot_be_interrupted_is_ended(tmp_path: Path) -> None:
    done = watched(tmp_path, STUBBORN, grace=0.3)
    assert done.returncode == stall_watch.EXIT_CODE
    assert "no progress for 0.5 s" in done.stderr
    assert "in test_catches_everything" in done.stderr


def test_a_test_may_ask_for_patience(tmp_path: Path) -> None:
    done = watched(tmp_path, PATIENT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_these_tests_are_watched_themselves(pytestconfig: pytest.Config) -> None:
    watched = pytestconfig.pluginmanager.has_plugin("stall_watch_of_session")
    assert watched is bool(pytestconfig.getoption("--stall-seconds") and not pytestconfig.getoption("usepdb"))
