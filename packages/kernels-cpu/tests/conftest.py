"""Compiled code of the tests goes to a folder of its own, which lasts as long as the checkout."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("HEADRACE_CACHE", str(Path(__file__).parents[3] / ".cache" / "kernels-cpu"))
