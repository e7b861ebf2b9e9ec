"""The library as a whole: what the environment asks for when it is loaded."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from headrace_cpu.onednn import onednn

REFUSED = """
import os
import pytest
from headrace.errors import InvalidArgumentError
from headrace_cpu.onednn import onednn

for _ in range(2):
    with pytest.raises(InvalidArgumentError, match="instructions that are not known"):
        onednn()
del os.environ["HEADRACE_INSTRUCTIONS"]
assert onednn() is not None
"""


@pytest.mark.skipif(onednn() is None, reason="oneDNN is not installed")
def test_who_asks_for_instructions_that_are_not_known_is_told_each_time() -> None:
    """After the first time all steps went on without the library."""
    environment = {**os.environ, "HEADRACE_INSTRUCTIONS": "avx9"}
    done = subprocess.run([sys.executable, "-c", REFUSED], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
