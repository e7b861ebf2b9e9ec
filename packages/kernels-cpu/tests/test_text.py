"""What is written for the smallest parts of functions."""

from __future__ import annotations

from headrace_cpu.text import Text


def test_a_copy_declares_what_it_calls() -> None:
    t = Text()
    t.copy_bytes("%a", "%b", 12)
    assert list(t.functions) == ["llvm.memcpy.p0.p0.i64"]
    assert "ptr %a, ptr %b, i64 12" in t.lines[0]


def test_clearing_declares_what_it_calls() -> None:
    t = Text()
    t.clear_bytes("%a", "%size")
    assert list(t.functions) == ["llvm.memset.p0.i64"]
    assert "ptr %a, i8 0, i64 %size" in t.lines[0]
