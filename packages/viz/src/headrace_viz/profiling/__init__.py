"""The profiler: record what steps do, write it for the tools that show it, and say where the time went.

In the order of the data: `clock` and `cost` say what a moment and an operation are; `timeline` is what one process
did; `xspace` and `chrome_trace` write it; `op_table` sums it up; `profiler` records; `cli` is `headrace profile`.
"""

from __future__ import annotations

from headrace_viz.profiling.profiler import Profile, profile

__all__ = ["Profile", "profile"]
