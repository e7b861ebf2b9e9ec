"""The entries of the table."""

from __future__ import annotations

from headrace_cpu.driver.table import ACTIVE, FIRST_HANDLE, entry, set_entry
from headrace_cpu.llvm.text import Text


def test_entries_of_the_table_are_read_and_written_at_their_positions() -> None:
    t = Text()
    entry(t, ACTIVE)
    set_entry(t, FIRST_HANDLE, "5")
    places = [line for line in t.lines if "getelementptr" in line]
    assert [line.rsplit(" ", 1)[1] for line in places] == [str(ACTIVE), str(FIRST_HANDLE)]
    assert t.lines[-1].startswith("  store i64 5, ptr ")
