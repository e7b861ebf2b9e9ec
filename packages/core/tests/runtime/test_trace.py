"""Traces: what they record of steps, of which steps, and that a trace changes nothing else."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.runtime import step_definition
from headrace.runtime.trace import SegmentRecorder, active_traces


def _product() -> tuple[hr.Graph, hr.Tensor, hr.Tensor]:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 4], name="x")
        w = hr.Variable(np.ones((4, 3), np.float32), name="w")
        y = hr.tanh(hr.matmul(x, w))
    return graph, x, y


def _ones(rows: int) -> np.ndarray:
    return np.ones((rows, 4), np.float32)


def test_a_step_is_recorded_with_its_times_bytes_and_thread() -> None:
    graph, x, y = _product()
    trace = hr.Trace()
    before = time.perf_counter_ns()
    hr.Session(graph).run(y, feeds={x: _ones(5)}, trace=trace)
    after = time.perf_counter_ns()
    (step,) = trace.steps
    assert before <= step.called_ns <= step.start_ns <= step.starts_ns[0] <= step.starts_ns[-1] <= step.end_ns <= after
    assert [op.type for op in step.operations] == ["ReadVariableOp", "MatMul", "Tanh"]
    assert list(step.positions) == [0, 1, 2]
    assert (step.argument_bytes, step.result_bytes, step.error) == (5 * 4 * 4, 5 * 3 * 4, "")
    assert (step.backend, step.thread_id) == ("numpy", threading.get_native_id())
    assert step.thread_name == threading.current_thread().name
    assert step.arena_bytes >= 5 * 3 * 4
    assert [kernel.rpartition(".")[0] for kernel in step.kernels[:2]] == [
        "headrace.kernels.state",
        "headrace.kernels.linalg",
    ]
    assert len(step.kernels) == 3


def test_operations_follow_each_other_without_gaps() -> None:
    graph, x, y = _product()
    trace = hr.Trace()
    hr.Session(graph).run(y, feeds={x: _ones(5)}, trace=trace)
    records = trace.records
    assert [record.name for record in records][1:] == ["MatMul", "Tanh"]
    assert [record.end_ns for record in records[:-1]] == [record.start_ns for record in records[1:]]
    assert records[-1].end_ns == trace.steps[0].end_ns


def _by_run(session: hr.Session, x: hr.Tensor, y: hr.Tensor) -> Callable[[np.ndarray], object]:
    return lambda value: session.run(y, feeds={x: value})


def _by_callable(session: hr.Session, x: hr.Tensor, y: hr.Tensor) -> Callable[[np.ndarray], object]:
    return session.make_callable(y, [x])


def _in_background(session: hr.Session, x: hr.Tensor, y: hr.Tensor) -> Callable[[np.ndarray], object]:
    return lambda value: session.run_async(y, feeds={x: value}).result(10)


@pytest.mark.parametrize("way", [_by_run, _by_callable, _in_background])
def test_all_steps_records_every_way_to_run_one(way: Callable[..., Callable[[np.ndarray], object]]) -> None:
    graph, x, y = _product()
    step = way(hr.Session(graph), x, y)
    step(_ones(2))
    with hr.Trace().all_steps() as trace:
        result = step(_ones(2))
    step(_ones(2))
    assert len(trace.steps) == 1
    np.testing.assert_array_equal(np.asarray(result), np.tanh(np.full((2, 3), 4, np.float32)))


def test_all_steps_records_functions_and_other_threads() -> None:
    @hr.function
    def double(x: hr.Tensor) -> hr.Tensor:
        return x * 2.0

    with hr.Trace().all_steps() as trace:
        thread = threading.Thread(target=lambda: double(np.float32(1)), name="another")
        thread.start()
        thread.join()
    (step,) = trace.steps
    assert step.thread_name == "another"
    assert step.thread_id != threading.get_native_id()


def test_a_step_is_recorded_once_per_trace() -> None:
    graph, x, y = _product()
    session = hr.Session(graph)
    with hr.Trace().all_steps() as outer, hr.Trace().all_steps() as inner:
        session.run(y, feeds={x: _ones(1)}, trace=outer)
    assert (len(outer.steps), len(inner.steps)) == (1, 1)
    assert outer.steps[0] is inner.steps[0]


def test_nothing_stays_active_after_the_block_also_on_an_error() -> None:
    with pytest.raises(ZeroDivisionError, match="mine"), hr.Trace().all_steps():
        raise ZeroDivisionError("mine")
    assert active_traces == []


def test_steps_without_a_trace_are_not_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("observed")

    graph, x, y = _product()
    step = hr.Session(graph).make_callable(y, [x])
    monkeypatch.setattr(step_definition, "run_step", refuse)
    step(_ones(1))
    with hr.Trace().all_steps(), pytest.raises(AssertionError, match="observed"):
        step(_ones(1))


def test_a_step_that_fails_is_recorded_up_to_the_operation_that_failed() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None])
        y = hr.exp(hr.check_numerics(hr.log(x), "log"))
    trace = hr.Trace()
    with pytest.raises(hr.errors.InvalidArgumentError, match="log"):
        hr.Session(graph).run(y, feeds={x: [-1.0]}, trace=trace)
    (step,) = trace.steps
    assert [record.type for record in step.op_records()] == ["Log", "CheckNumerics"]
    assert (step.error, step.result_bytes) == ("InvalidArgumentError", 0)


def test_the_deadline_of_the_configuration_holds_for_traced_steps() -> None:
    graph, x, y = _product()
    session = hr.Session(graph, config=hr.config(timeout=1e-9))
    trace = hr.Trace()
    with pytest.raises(hr.errors.DeadlineExceededError, match="did not end in time"):
        session.run(y, feeds={x: _ones(1)}, trace=trace)
    assert trace.steps[0].error == "DeadlineExceededError"


def test_traced_steps_work_in_the_memory_of_the_others() -> None:
    graph, x, y = _product()
    session = hr.Session(graph)
    traced = [session.run(y, feeds={x: _ones(3) * number}, trace=hr.Trace()) for number in (0, 1)]
    np.testing.assert_array_equal(traced[0], np.zeros((3, 3), np.float32))
    np.testing.assert_array_equal(traced[1], session.run(y, feeds={x: _ones(3)}))


def test_the_plan_made_by_the_first_step_counts_as_its_preparation() -> None:
    graph, x, y = _product()
    session = hr.Session(graph)
    with hr.Trace().all_steps() as trace:
        for _ in range(2):
            session.run(y, feeds={x: _ones(1)})
    first, second = (step.start_ns - step.called_ns for step in trace.steps)
    assert first > second >= 0
    assert trace.steps[0].operations is trace.steps[1].operations


def _queue_step() -> tuple[hr.Session, list[Any]]:
    """A step of several segments and operations that wait, in more than one thread."""
    with hr.Graph().as_default() as graph:
        queue = hr.FIFOQueue(2, [hr.float32], [[3]], name="q")
        other = hr.FIFOQueue(2, [hr.float32], [[3]], name="r")
        put = queue.enqueue([hr.exp(hr.ones([3]) * 2.0)])
        with hr.control_dependencies([other.enqueue([hr.zeros([3])])]):
            taken = other.dequeue() + 1.0
        got = hr.tanh(queue.dequeue())
    return hr.Session(graph), [put, taken, got]


def test_the_segments_of_a_step_say_when_where_and_on_how_much_they_worked() -> None:
    session, fetches = _queue_step()
    trace = hr.Trace()
    session.run(fetches, trace=trace)
    (step,) = trace.steps
    assert {segment.operations[0].type for segment in step.segments if segment.waits} == {
        "QueueEnqueueV2",
        "QueueDequeueV2",
    }
    tanh = next(segment for segment in step.segments if any(op.type == "Tanh" for op in segment.operations))
    assert (tanh.bytes_in, tanh.bytes_out, tanh.waits, tanh.iteration) == (12, 12, False, "0:0")
    assert all(step.start_ns <= s.ready_ns <= s.start_ns <= s.end_ns <= step.end_ns for s in step.segments)
    assert all(segment.queue_ns >= 0 for segment in step.segments)
    recorded = [record.name for record in step.op_records()]
    assert len(recorded) == len(set(recorded)) == sum(len(segment.positions) for segment in step.segments)
    assert all(record.end_ns >= record.start_ns for record in step.op_records())
    assert list(step.starts_ns) == sorted(step.starts_ns)


def test_iterations_of_loops_of_primitives_are_told_apart() -> None:
    with hr.Graph().as_default() as graph:
        i = hr.apply_op("Merge", [hr.apply_op("Enter", hr.constant(0), frame_name="loop")])[0]
        done, go = hr.apply_op("Switch", i, hr.apply_op("LoopCond", i < 2))
        graph.close_loop(i.op, hr.apply_op("NextIteration", go + 1))
        result = hr.apply_op("Exit", done)
    trace = hr.Trace()
    hr.Session(graph, config=hr.config(passes=[])).run(result, trace=trace)
    assert [s.iteration for s in trace.steps[0].segments if s.operations[0].type == "Less"] == [
        "loop:0",
        "loop:1",
        "loop:2",
    ]


def test_without_detail_segments_alone_are_recorded() -> None:
    graph, x, y = _product()
    trace = hr.Trace(detail=False)
    session = hr.Session(graph)
    session.run(y, feeds={x: _ones(1)}, trace=trace)
    (step,) = trace.steps
    (segment,) = step.segments
    assert (list(step.op_records()), len(segment.operations) > 0, list(segment.positions)) == ([], True, [])
    session, fetches = _queue_step()
    session.run(fetches, trace=trace, timeout=10)
    assert not any(segment.positions for segment in trace.steps[1].segments)
    with hr.Trace().all_steps() as outer:
        hr.Session(graph).run(y, feeds={x: _ones(1)}, trace=trace)
    assert len(list(outer.steps[0].op_records())) > 0


def test_a_trace_is_written_for_chrome(tmp_path: Path) -> None:
    session, fetches = _queue_step()
    trace = hr.Trace()
    session.run(fetches, trace=trace)
    trace.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    by_kind = Counter(event.get("cat", event["name"]) for event in events)
    assert by_kind["step"] == 1
    assert by_kind["wait"] == 4
    assert by_kind["operation"] == len(list(trace.steps[0].op_records()))
    assert by_kind["thread_name"] == len({event["tid"] for event in events if event["ph"] == "X"})
    assert all(event["dur"] >= 0 for event in events if event["ph"] == "X")
    waits = [event["args"] for event in events if event.get("cat") == "wait"]
    assert {(args["bytes_out"], args["device"], args["iteration"]) for args in waits} == {
        (0, "", "0:0"),
        (12, "", "0:0"),
    }


class _Grouped:
    """A compiled segment that runs its first operation alone and the others as one group, and fails if told to."""

    def __init__(self, operations: Sequence[hr.Operation], error: Exception | None = None) -> None:
        self.operations = operations
        self._error = error

    def __call__(self, arguments: Sequence[Any], /) -> Sequence[Any]:
        return []

    def run_with_hook(self, arguments: Sequence[Any], hook: Callable[[int], None], /) -> Sequence[Any]:
        hook(0)
        hook(1)
        if self._error is not None:
            raise self._error
        return []


def _grouped_step(error: Exception | None = None) -> hr.StepRecord:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [], name="x")
        for name in "abcde":
            x = hr.apply_op("Exp", x, name=name)
    recorder = SegmentRecorder(detail=True)
    with contextlib.suppress(RuntimeError):
        recorder.run(_Grouped(graph.operations[1:], error), [], None)
    segment = recorder.segments[0]
    return hr.StepRecord(
        step=1, backend="grouped", operations=segment.operations, kernels=(), positions=segment.positions,
        starts_ns=segment.starts_ns, ends_ns=segment.ends_ns, segments=recorder.segments, called_ns=segment.start_ns,
        start_ns=segment.start_ns, end_ns=segment.end_ns, thread_id=1, thread_name="main", argument_bytes=0,
        result_bytes=0, arena_bytes=0, error=segment.error,
    )  # fmt: skip


def test_the_members_of_a_group_are_named() -> None:
    step = _grouped_step()
    alone, group = step.op_records()
    assert (alone.name, alone.type, alone.names) == ("a", "Exp", ("a",))
    assert (group.name, group.type, group.names) == ("b", "Exp x4", ("b", "c", "d", "e"))
    assert [len(operations) for operations in step.segments[0].groups] == [1, 4]
    trace = hr.Trace()
    trace.add(step)
    slices = [event for event in trace.chrome_trace()["traceEvents"] if event.get("cat") == "operation"]
    assert [event["args"].get("operations") for event in slices] == [None, ["b", "c", "d", "e"]]
    assert "Exp x4" in trace.summary()


def test_a_group_is_called_by_its_first_types_and_one_in_several_pieces_counts_once() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [], name="x")
        for op_type in ("Exp", "Tanh", "Exp", "Sqrt", "Sin", "Sqrt", "Cos"):
            x = hr.apply_op(op_type, x)
    segment = dataclasses.replace(
        _grouped_step().segments[0],
        operations=[*graph.operations[1:], graph.operations[1]],
        positions=[0],
        starts_ns=[5],
    )
    (record,) = segment.op_records(1)
    assert (record.type, len(record.names)) == ("Exp x2 + Tanh + Sqrt x2 + 2 more", 7)


def test_of_a_group_that_fails_one_operation_is_known() -> None:
    step = _grouped_step(RuntimeError("no"))
    assert (step.error, step.segments[0].error) == ("RuntimeError", "RuntimeError")
    assert [record.names for record in step.op_records()] == [("a",), ("b",)]
