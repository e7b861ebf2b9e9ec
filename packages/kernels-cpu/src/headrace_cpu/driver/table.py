"""The table: numbers of one process and context that drivers read and write, and the answers that go with them.

It begins with entries of one use each; after these come the handles of library primitives.
"""

from __future__ import annotations

from headrace_cpu.llvm.text import Text

__all__ = [
    "ACTIVE",
    "ARRAY_TYPE",
    "BUDGET",
    "DONE",
    "FAILED",
    "FIRST_HANDLE",
    "GROW",
    "GROW_BYTES",
    "GROW_STORE",
    "LIBRARY_THREADS",
    "PAUSED",
    "RESUMED",
    "STORES",
    "THREADS",
    "TRACED",
    "entry",
    "set_entry",
]

(
    ARRAY_TYPE, THREADS, LIBRARY_THREADS, TRACED, BUDGET, RESUMED, ACTIVE, STORES, GROW_STORE, GROW_BYTES, FAILED,
    DONE, FIRST_HANDLE,
) = range(13)  # fmt: skip
"""Positions in the table: the type object of arrays; how many threads regions may use, and libraries; whether somebody
follows the step, how many nanoseconds are left until a pause, whether the driver goes on where it paused, and the state
that says where; the stores of lists, which of them is to grow, and to how many bytes; one more than the position of a
unit that failed on one of the threads; whether the driver has come to its end; the first handle."""
PAUSED, GROW = -2, -3
"""The answers of a function that wants to be called again."""


def entry(t: Text, position: int, kind: str = "i64") -> str:
    """An entry of the table."""
    return t.put(f"load {kind}, ptr {t.put(f'getelementptr i64, ptr %table, i64 {position}')}")


def set_entry(t: Text, position: int, value: str) -> None:
    """Write an entry of the table."""
    t.line(f"store i64 {value}, ptr {t.put(f'getelementptr i64, ptr %table, i64 {position}')}")
