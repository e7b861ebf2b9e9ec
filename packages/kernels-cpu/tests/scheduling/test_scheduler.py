"""What is chosen to compute a line: a view, loops, a call of a library, a loop or branch, or NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from laid_out import scheduled

import headrace as hr
from headrace.plan import Line
from headrace_cpu.onednn import LibraryCall, Request
from headrace_cpu.primitives.gathering import Gather
from headrace_cpu.primitives.indices import RangeCheck
from headrace_cpu.primitives.scans import Scan
from headrace_cpu.primitives.scattering import Rows
from headrace_cpu.scheduling.schedule import Schedule

MATRIX = hr.float32, (4, 8)


def types(schedule: Schedule) -> list[str]:
    """The types of the operations that items stand for."""
    return [schedule.program.lines[position].op.type for position in schedule.lines]


def kinds(schedule: Schedule) -> list[type[Any]]:
    return [type(call) for call in schedule.library.values()]


def nothing_of(*op_types: str) -> Any:
    """A library that has a call for operations of some types."""
    return lambda request: LibraryCall(()) if request.op.type in op_types else None


def test_a_view_needs_no_item_and_shares_the_memory_of_what_it_views() -> None:
    schedule = scheduled(lambda x: hr.exp(hr.reshape(x, [32])), MATRIX)
    assert types(schedule) == ["Exp"]
    (view,) = (line for line in schedule.program.lines if line.op.type == "Reshape")
    assert schedule.root(view.outputs[0]) == schedule.root(view.inputs[0])
    assert schedule.items[0].reads == (schedule.root(view.inputs[0]),)


def test_who_waits_for_a_view_waits_for_what_made_what_it_views() -> None:
    def build(x: hr.Tensor) -> hr.Tensor:
        with hr.control_dependencies([hr.reshape(hr.sort(x), [32])]):
            return hr.exp(x)

    schedule = scheduled(build, MATRIX)
    exp = schedule.items[types(schedule).index("Exp")]
    assert {types(schedule)[item] for item in exp.after} & {"TopKV2", "ReverseV2"}


def test_loops_go_before_a_library() -> None:
    asked: list[str] = []

    def library(request: Request) -> None:
        asked.append(request.op.type)

    schedule = scheduled(lambda x: hr.exp(x) @ x, (hr.float32, (8, 8)), library=library)
    assert "MatMul" in asked
    assert "Exp" not in asked
    assert not schedule.library


def test_a_library_computes_what_it_has_a_call_for() -> None:
    schedule = scheduled(lambda x: hr.sort(x @ x), (hr.float32, (8, 8)), library=nothing_of("MatMul"))
    (item,) = schedule.library
    assert types(schedule)[item] == "MatMul"
    assert schedule.memory[item][0] == schedule.items[item].reads * 2
    assert not schedule.nested
    assert [kind for kind, _ in schedule.order][-1] == "host"


def test_a_library_is_not_asked_to_add_alone() -> None:
    asked: list[str] = []

    def library(request: Request) -> None:
        asked.append(request.op.type)

    empty = hr.float32, (0, 8)  # of which there are no loops
    schedule = scheduled(lambda x, y: hr.add_n([x, y, x]), empty, empty, library=library)
    assert "AddN" in types(schedule)
    assert not asked


def test_a_branch_in_native_code_is_asked_for_last() -> None:
    asked: list[str] = []

    def nested(line: Line) -> Any:
        asked.append(line.op.type)
        return "a branch" if line.op.type == "TopKV2" else None

    schedule = scheduled(lambda x: hr.exp(hr.topk(x @ x, 2)[0]), (hr.float32, (8, 8)), nested=nested)
    assert asked == ["MatMul", "TopKV2"]
    (item,) = schedule.nested
    assert types(schedule)[item] == "TopKV2"
    assert schedule.library == {item: "a branch"}


def test_work_on_rows_needs_no_library() -> None:
    ids = hr.int32, (3,)
    assert kinds(scheduled(lambda x, i: hr.gather(x, i), MATRIX, ids)) == [Gather]
    assert kinds(scheduled(lambda x: hr.cumulative_sum(x, axis=1), MATRIX)) == [Scan]
    assert kinds(scheduled(lambda x, i: hr.unsorted_segment_sum(x, i, 5), MATRIX, (hr.int32, (4,)))) == [Rows]


def test_indices_are_looked_at_before_rows_of_a_variable_change() -> None:
    def build(ids: hr.Tensor, rows: hr.Tensor) -> Any:
        return hr.Variable(np.zeros((6, 8), np.float32)).rows(ids).assign_add(rows)

    schedule = scheduled(build, (hr.int32, (4,)), MATRIX)
    assert kinds(schedule) == [RangeCheck, Rows]
    check, change = schedule.library
    assert check in schedule.items[change].after
    assert schedule.items[check].writes == ()
    assert schedule.items[change].writes == (("variable", 0),)
    assert schedule.memory[change][1] == (("variable", 0),)


def test_what_nothing_else_computes_is_left_to_numpy() -> None:
    schedule = scheduled(lambda x: hr.topk(x, 2)[0], MATRIX)
    assert not schedule.library
    assert [kind for kind, _ in schedule.order] == ["host"]
