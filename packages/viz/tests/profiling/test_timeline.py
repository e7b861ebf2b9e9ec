"""Timelines: what is taken from core's records, stalls and the memory in use."""

from __future__ import annotations

import dataclasses

import numpy as np

import headrace as hr
from headrace_viz.profiling.timeline import Stall, traced_steps

from .timelines import step, timeline


def test_steps_of_one_plan_share_its_operations() -> None:
    with hr.Graph().as_default() as graph, hr.device("/device:CPU:1"):
        x = hr.placeholder(hr.float32, [None, 4])
        y = hr.exp(x, name="exp")
    session = hr.Session(graph)
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
