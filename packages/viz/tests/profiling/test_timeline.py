"""Timelines: what is taken from core's records, stalls and the memory in use."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import headrace as hr
from headrace_viz.profiling.timeline import Stall, traced_steps

from .timelines import step, timeline


def test_steps_of_one_plan_share_its_operations() -> None:
    with hr.Graph().as_default() as graph, hr.device("/device:CPU:1"):
        x = hr.placeholder(hr.float32, [None, 4])
        y = hr.exp(x, name="exp")
    session = hr.Session(graph, config=hr.config(virtual_devices={"CPU": 2}))
    with hr.Trace().all_steps() as trace:
        for rows in (2, 2, 3):
            session.run(y, feeds={x: np.zeros((rows, 4), np.float32)})
    ops, steps, threads = traced_steps(trace.steps)
    assert [(op.name, op.type, op.device, op.input_bytes, op.output_bytes) for op in ops] == [
        ("exp", "Exp", "CPU:1", 32, 32),
        ("exp", "Exp", "CPU:1", 48, 48),
    ]
    assert [[event.op for event in step.events] for step in steps] == [[0], [0], [1]]
    assert all(step.op_ns <= step.end_ns - step.start_ns for step in steps)
    assert set(threads) == {step.thread_id for step in steps}


def test_a_group_has_its_members_and_what_it_reads_and_writes_as_a_whole() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [4, 8], name="x")
        w = hr.placeholder(hr.float32, [8, 2], name="w")
        y = hr.exp(hr.square(hr.tanh(hr.matmul(x, w, name="product"))), name="exp")
    feeds = {x: np.zeros((4, 8), np.float32), w: np.zeros((8, 2), np.float32)}
    trace = hr.Trace()
    hr.Session(graph).run(y, feeds=feeds, trace=trace)
    (record,) = trace.steps
    (segment,) = record.segments
    assert [op.type for op in segment.operations] == ["MatMul", "Tanh", "Square", "Exp"]
    grouped = dataclasses.replace(segment, positions=[0, 3], starts_ns=[segment.starts_ns[0], segment.starts_ns[3]])
    ops, (found,), _ = traced_steps([dataclasses.replace(record, segments=[grouped])])
    group, alone = (ops[event.op] for event in found.events)
    assert (group.type, len(group.members), group.members[0]) == ("MatMul + Tanh + Square", 3, "product")
    # It reads x and w, and gives what exp reads.
    assert (group.input_bytes, group.output_bytes) == (4 * 8 * 4 + 8 * 2 * 4, 4 * 2 * 4)
    assert group.flops == 2 * 4 * 8 * 2 + 4 * 2  # nobody counts those of tanh
    assert (alone.title, alone.members) == ("exp", ())


def _record(build: Callable[[hr.Tensor], Any], *shape: int) -> hr.StepRecord:
    """A step on the NumPy backend: one run for each operation."""
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, shape, name="x")
        outputs = build(x)
    trace = hr.Trace()
    hr.Session(graph).run(outputs, feeds={x: np.ones(shape, np.float32)}, trace=trace)
    return trace.steps[0]


def _regrouped(record: hr.StepRecord, *groups: str, kernels: Mapping[str, str] | None = None) -> hr.StepRecord:
    """The same step as a backend records it that runs operations in groups, some of which may be in several.

    Args:
      record: of a step.
      groups: the types of each group, separated by blanks.
      kernels: of operations, by type; "own" for all others.
    """
    (segment,) = record.segments
    of_type = {op.type: op for op in segment.operations}
    operations = [of_type[name] for group in groups for name in group.split()]
    sizes = [len(group.split()) for group in groups]
    positions = [sum(sizes[:number]) for number in range(len(sizes))]
    starts = [segment.start_ns + number for number in range(len(sizes))]
    segment = dataclasses.replace(segment, operations=operations, positions=positions, starts_ns=starts)
    names = [(kernels or {}).get(op.type, "own") for op in operations]
    return dataclasses.replace(record, operations=operations, kernels=names, segments=[segment])


def test_what_is_only_viewed_between_members_of_a_group_stays_inside() -> None:
    """A backend does not run a reshape; what reads it reads what it views."""
    record = _record(lambda x: hr.exp(hr.reshape(hr.square(x), [8])) * 2.0, 2, 4)
    ops, _, _ = traced_steps([_regrouped(record, "Square Exp", "Mul")])
    assert [(op.type, op.input_bytes, op.output_bytes) for op in ops] == [("Square + Exp", 32, 32), ("Mul", 36, 32)]


def test_what_is_only_computed_as_a_part_of_others_is_neither_read_nor_written() -> None:
    record = _record(lambda x: [hr.exp(hr.nn.relu(hr.square(x))), hr.tanh(hr.nn.relu(hr.square(x)))], 4, 4)
    ops, _, _ = traced_steps([_regrouped(record, "Square", "Relu Exp", "Tanh", kernels={"Relu": ""})])
    assert [(op.type, op.kernel, op.input_bytes, op.output_bytes) for op in ops] == [
        ("Square", "own", 64, 64),
        ("Relu + Exp", "own", 64, 64),
        ("Tanh", "own", 64, 64),
    ]
    assert ops[1].members == (record_name(record, "Relu"), record_name(record, "Exp"))
    unnamed = dataclasses.replace(_regrouped(record, "Square", "Relu Exp", "Tanh"), kernels=[])
    ops, _, _ = traced_steps([unnamed])  # who names nothing says nothing about what is written
    assert [op.output_bytes for op in ops] == [64, 128, 64]


def record_name(record: hr.StepRecord, kind: str) -> str:
    """The name of the last operation of a type."""
    return [op.name for op in record.operations if op.type == kind][-1]


def test_pieces_of_an_operation_that_follow_each_other_are_one_run() -> None:
    record = _record(lambda x: hr.exp(hr.square(x)), 8, 4)
    ops, (found,), _ = traced_steps([_regrouped(record, "Square", "Square", "Exp")])
    assert [(op.type, op.members, op.flops, op.input_bytes, op.output_bytes) for op in ops] == [
        ("Square", (), 32, 128, 128),
        ("Exp", (), None, 128, 128),
    ]
    assert [event.op for event in found.events] == [0, 1]
    assert found.events[0].end_ns == found.events[1].start_ns


def test_pieces_of_an_operation_count_once_together() -> None:
    record = _record(lambda x: hr.exp(hr.square(x)), 8, 4)
    ops, (found,), _ = traced_steps([_regrouped(record, "Square", "Exp", "Square")])
    assert [event.op for event in found.events] == [0, 1, 0]
    assert [(op.flops, op.output_bytes) for op in ops] == [(16, 64), (None, 128)]


def test_an_update_reads_and_writes_its_variable() -> None:
    def build(x: hr.Tensor) -> hr.Tensor:
        return hr.Variable(np.zeros(6, np.float32), name="v").assign_add(x)

    ops, _, _ = traced_steps([_record(build, 6)])
    (update,) = (op for op in ops if op.type == "AssignAddVariableOp")
    assert (update.flops, update.input_bytes, update.output_bytes) == (6, 48, 24)


def test_the_first_step_of_each_plan_is_marked() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None])
        y = hr.exp(x)
    trace = hr.Trace()
    with hr.Session(graph) as session:
        for size in (2, 2, 3, 2, 3):
            session.run(y, feeds={x: np.zeros(size, np.float32)}, trace=trace)
    _, steps, _ = traced_steps(trace.steps)
    assert [step.is_first for step in steps] == [True, False, True, False, False]


def test_devices_segments_and_transfers_of_a_divided_step() -> None:
    with hr.Graph().as_default() as graph:
        with hr.device("CPU:0"):
            x = hr.placeholder(hr.float32, [8, 4], name="x")
            product = hr.matmul(x, x, transpose_b=True, name="product")
        with hr.device("CPU:1"):
            y = hr.exp(product, name="exp")
    session = hr.Session(graph, config=hr.config(virtual_devices={"CPU": 2}))
    trace = hr.Trace()
    for _ in range(2):
        session.run(y, feeds={x: np.zeros((8, 4), np.float32)}, trace=trace)
    ops, steps, threads = traced_steps(trace.steps)
    assert {op.name: op.device for op in ops if not op.type.startswith("_")} == {"product": "CPU:0", "exp": "CPU:1"}
    for found in steps:
        thread_of = {ops[run.op].name: run.thread_id for run in found.events}
        assert {segment.device: segment.thread_id for segment in found.segments} == {
            "CPU:0": thread_of["product"],
            "CPU:1": thread_of["exp"],
        }
        assert len(set(thread_of.values())) == 2
        assert set(thread_of.values()) <= set(threads)
        (transfer,) = found.transfers
        assert (transfer.tensor, transfer.source, transfer.target) == ("product:0", "CPU:0", "CPU:1")
        assert transfer.bytes == 8 * 8 * 4
        assert (transfer.source_thread, transfer.target_thread) == (thread_of["product"], thread_of["exp"])
        assert found.start_ns <= transfer.sent_ns <= transfer.received_ns <= found.end_ns
    assert len({op.name for op in ops}) == len(ops)  # both steps share them


def test_transfers_in_loops_are_joined_by_iteration() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [2], name="x")

        def body(i: hr.Tensor, value: hr.Tensor) -> tuple[hr.Tensor, hr.Tensor]:
            with hr.device("CPU:1"):
                there = hr.exp(value, name="there")
            with hr.device("CPU:0"):
                return i + 1, hr.negative(there)

        _, y = hr.while_loop(lambda i, _: i < 5, body, (0, x))
    session = hr.Session(graph, config=hr.config(virtual_devices={"CPU": 2}))
    trace = hr.Trace()
    session.run(y, feeds={x: [0.0, 1.0]}, trace=trace)
    _, (only,), _ = traced_steps(trace.steps)
    moved = [transfer for transfer in only.transfers if transfer.tensor.endswith("there:0")]
    assert sorted(transfer.bytes or 0 for transfer in moved) == [0, 8, 8, 8, 8, 8]  # the loop ends with a dead value
    assert all(transfer.source_thread and transfer.target_thread for transfer in moved)
    assert all(transfer.sent_ns <= transfer.received_ns for transfer in only.transfers)
    assert {segment.iteration for segment in only.segments} > {"0:0"}
    assert all(segment.queue_ns >= 0 for segment in only.segments)


def test_operations_that_may_wait_are_marked() -> None:
    with hr.Graph().as_default() as graph:
        queue = hr.FIFOQueue(2, [hr.float32], [[]], name="inputs")
        put = queue.enqueue(hr.constant(1.0))
        y = hr.exp(queue.dequeue(name="taken"))
    trace = hr.Trace()
    with hr.Session(graph) as session:
        session.run(put)
        session.run(y, trace=trace)
    ops, _, _ = traced_steps(trace.steps)
    assert [(op.type, op.waits) for op in ops] == [("QueueDequeueV2", True), ("Exp", False)]


def test_the_half_of_a_transfer_that_a_process_sees_is_shown() -> None:
    with hr.Graph().as_default() as graph:
        with hr.device("CPU:0"):
            product = hr.negative(hr.placeholder(hr.float32, [3], name="x"), name="product")
        with hr.device("CPU:1"):
            y = hr.exp(product, name="exp")
    trace = hr.Trace()
    session = hr.Session(graph, config=hr.config(virtual_devices={"CPU": 2}))
    session.run(y, feeds={"x:0": np.zeros(3, np.float32)}, trace=trace)
    (record,) = trace.steps
    halves = {}
    for segment in record.segments:
        _, (half,), _ = traced_steps([dataclasses.replace(record, segments=[segment])])
        (halves[segment.device[-5:]],) = half.transfers
    sent, received = halves["CPU:0"], halves["CPU:1"]
    assert (sent.bytes, sent.target_thread, sent.waited_ns) == (12, None, 0)
    assert (received.bytes, received.source_thread) == (12, None)
    assert received.waited_ns == received.received_ns - received.sent_ns > 0
    assert sent.source_thread is not None
    assert received.target_thread is not None


def test_stalls_are_the_gaps_between_steps_of_a_thread() -> None:
    found = timeline(step(1, 1000), step(2, 1050, thread=12), step(3, 1400, called_ns=1350), step(4, 1500))
    assert list(found.stalls()) == [Stall(11, 1100, 1350)]


def test_a_step_inside_another_one_is_no_end_of_it() -> None:
    inner = step(2, 1010)
    outer = dataclasses.replace(step(1, 1000), end_ns=1400)
    assert list(timeline(inner, outer, step(3, 1500)).stalls()) == [Stall(11, 1400, 1500)]


def test_steps_that_overlap_have_an_arena_each() -> None:
    found = timeline(step(1, 1000), step(2, 1050, thread=12))
    assert list(found.arena_use()) == [(1000, 128), (1050, 256), (1100, 128), (1150, 0)]


def test_bytes_moved_are_not_known_where_nothing_moves() -> None:
    product, unknown, read = timeline().ops
    assert (product.moved_bytes, unknown.moved_bytes, read.moved_bytes) == (500, None, None)
