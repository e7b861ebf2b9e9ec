"""One call of what threads share: its table of pointers, and when threads are woken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from laid_out import laid_out

import headrace as hr
from headrace.loops.ir import Region
from headrace_cpu.driver.module import Module
from headrace_cpu.driver.shared_code import SharedCall, shared_call, write_shared
from headrace_cpu.layout import Layout
from headrace_cpu.llvm.text import Text
from headrace_cpu.loops import printer
from headrace_cpu.loops.printer import PrintedRegion, print_region


def written(calls: list[SharedCall], *, openmp: bool = True) -> Text:
    module = Module(8, openmp, lambda value: ("constant", 0), lambda: 0, lambda *given: "")
    t = module.text()
    write_shared(module, t, calls)
    return t


def called(t: Text) -> list[str]:
    return [line.split("@")[1].split("(")[0] for line in t.lines if line.startswith("  call void @")]


def test_pointers_of_several_calls_lie_one_after_the_other() -> None:
    t = written([SharedCall("a", 1, 1.0, ["%p", "%q"]), SharedCall("b", 1, 1.0, ["%r"])])
    stored = [line.split(",")[0].removeprefix("  store ptr ") for line in t.lines if line.startswith("  store ptr")]
    assert stored == ["%p", "%q", "%r"]
    places = [line.rsplit(" ", 1)[1] for line in t.lines if "getelementptr ptr, ptr %args" in line]
    assert places == ["0", "1", "2", "0", "2"]


@pytest.mark.parametrize(
    ("nanoseconds", "points", "openmp"), [(1.0, 64, True), (1e9, 1, True), (1e9, 64, False)], ids=str
)
def test_threads_sleep_on_where_there_is_little_work_or_nothing_to_share(
    nanoseconds: float, points: int, openmp: bool
) -> None:
    assert called(written([SharedCall("a", points, nanoseconds, ["%p"])], openmp=openmp)) == ["a"]


def test_threads_are_woken_once_for_all_that_runs_side_by_side() -> None:
    t = written([SharedCall("a", 8, 1e6, ["%p"]), SharedCall("b", 4, 1e6, ["%q", "%r"])])
    assert called(t) == ["say_where", "GOMP_parallel"]
    (rows,) = (text for name, text in t.functions.items() if name.startswith("rows"))
    assert "[2 x " in rows
    assert "ptr @a, i64 0, i64 8," in rows
    assert "ptr @b, i64 1, i64 4," in rows
    assert any("smin" in line and line.endswith(", i64 12)") for line in t.lines)


@pytest.fixture
def layout() -> Layout:
    """Two groups of one pattern."""
    return laid_out(lambda x, y: [hr.nn.softmax(x), hr.nn.softmax(y)], *[(hr.float32, (1 << 16, 256))] * 2)


def printed(layout: Layout) -> list[str]:
    module = Module(8, True, lambda value: ("constant", 0), lambda: 0, lambda *given: "")
    t = module.text()
    for unit in layout.units:
        shared_call(module, t, unit, 0, [])
    return [t.functions[symbol] for symbol in module.regions.values()]


def test_groups_of_one_pattern_are_printed_once(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    regions = []

    def counted(region: Region, lanes: int) -> PrintedRegion:
        regions.append(region)
        return print_region(region, lanes)

    monkeypatch.setattr(printer, "print_region", counted)
    printer._printed.cache_clear()
    assert len(layout.units) == 2
    assert len(printed(layout)) == len(regions) == 1


def test_the_text_that_is_dumped_has_the_loops_of_each_region(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who reads the machine's text finds above each function what it computes."""
    (before,) = printed(layout)
    monkeypatch.setenv("HEADRACE_DUMP", str(tmp_path))
    (text,) = printed(layout)
    comment = text.removesuffix(before)
    assert comment.startswith("; region0 outer [65536]\n;   buffer b0: ")
    assert all(line.startswith("; ") for line in comment.splitlines())
    assert ";     local1 = sum " in comment


@pytest.mark.parametrize("switch", printer.SWITCHES)
def test_what_is_kept_is_as_the_switches_say(layout: Layout, switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = printed(layout)
    monkeypatch.setenv(switch, "off")
    assert printed(layout) != before


def test_what_breaks_a_rule_is_not_printed(layout: Layout) -> None:
    region = layout.units[0].region
    assert region is not None
    layout.units[0].region = replace(region, buffers=())
    with pytest.raises(hr.errors.InternalError, match="not well formed"):
        printed(layout)
