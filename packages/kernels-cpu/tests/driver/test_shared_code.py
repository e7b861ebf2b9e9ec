"""One call of what threads share: its table of pointers, and when threads are woken."""

from __future__ import annotations

import pytest
from laid_out import laid_out

import headrace as hr
from headrace_cpu.driver.module import Module
from headrace_cpu.driver.shared_code import SharedCall, shared_call, write_shared
from headrace_cpu.llvm.text import Text


def written(calls: list[SharedCall], *, openmp: bool = True) -> Text:
    module = Module(8, openmp, lambda value: 0, lambda: 0, lambda *given: "")
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


def test_regions_of_one_form_have_one_function_which_is_as_the_switches_say(monkeypatch: pytest.MonkeyPatch) -> None:
    def functions() -> list[str]:
        module = Module(8, True, lambda value: 0, lambda: 0, lambda *given: "")
        t = module.text()
        for _ in range(2):
            layout = laid_out(lambda x: hr.nn.softmax(x), (hr.float32, (1 << 16, 256)))
            (unit,) = (unit for run in layout.runs for unit in run.units if unit.region is not None)
            shared_call(module, t, unit, 0, [])
        return [t.functions[symbol] for symbol in module.regions.values()]

    (pipelined,) = functions()
    monkeypatch.setenv("HEADRACE_PIPELINING", "off")
    (plain,) = functions()
    assert plain != pipelined
