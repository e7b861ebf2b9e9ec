"""What every package's tests run under: the watch of tools/stall_watch.py."""

from __future__ import annotations

pytest_plugins = ["stall_watch"]
