"""Real processes that save, delete and read in one directory at once: no error, no lost step, no wrong value."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace_checkpoint.store import StoredStep, list_steps, read_newest_step

WRITE = """
import sys
import numpy as np
import headrace as hr
from headrace_checkpoint import CheckpointManager
directory, number, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
v = hr.Variable(np.zeros(5000), name="v")
with CheckpointManager(directory, 2, variables=[v], asynchronous=number % 2 == 0) as manager:
    for step in range(count):
        v.assign(np.full(5000, float(step)))
        manager.save(None, step)
"""
READ = """
import sys, warnings
from headrace.errors import NotFoundError
from headrace_checkpoint.store import StoredStep, read_newest_step
warnings.simplefilter("error")
newest = -1
while newest < int(sys.argv[2]) - 1:
    try:
        step, arrays = read_newest_step(sys.argv[1], StoredStep.read_all)
    except NotFoundError:
        assert newest < 0, "the steps are gone"
        continue
    assert step.manifest.step >= newest, "an older step than before"
    assert (arrays["v"] == step.manifest.step).all()
    newest = step.manifest.step
"""


@pytest.mark.slow
def test_D26_several_processes_save_delete_and_read_the_same_steps(tmp_path: Path) -> None:
    count = 40
    programs = [[WRITE, str(tmp_path), str(number), str(count)] for number in range(4)]
    programs += [[READ, str(tmp_path), str(count)] for _ in range(2)]
    children = [
        subprocess.Popen([sys.executable, "-W", "error", "-c", *program], stderr=subprocess.PIPE, text=True)
        for program in programs
    ]
    errors = [child.communicate(timeout=300)[1] for child in children]
    assert errors == [""] * len(programs)
    assert {name.step for name in list_steps(tmp_path)} == {count - 2, count - 1}
    newest, arrays = read_newest_step(tmp_path, StoredStep.read_all)
    assert (arrays["v"] == newest.manifest.step).all()
