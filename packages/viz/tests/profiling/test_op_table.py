"""The table of operations."""

from __future__ import annotations

import dataclasses

import pytest

from headrace_viz.profiling.op_table import OpRow, format_table, op_rows, totals

from .timelines import GROUP, OPS, divided_step, step, timeline

TWO_STEPS = timeline(step(1, 1_000_100), step(2, 1_000_300, called_ns=1_000_250))


def test_rows_have_time_share_and_rates() -> None:
    assert op_rows([TWO_STEPS]) == [
        OpRow("MatMul", 2, 120, 0.6, pytest.approx(4000 / 120), pytest.approx(1000 / 120)),
        OpRow("AddV2", 2, 60, 0.3, pytest.approx(50 / 60), None),
    ]
    assert [row.name for row in op_rows([TWO_STEPS, TWO_STEPS], by="name")] == ["layer/product", "sum"]
    assert [row.name for row in op_rows([TWO_STEPS], by="device")] == ["CPU:0", "GPU:1"]
    assert op_rows([TWO_STEPS, TWO_STEPS])[0].calls == 4


def test_totals_tell_operations_from_what_is_between_them() -> None:
    found = totals([TWO_STEPS])
    assert (found.steps, found.step_ns, found.op_ns, found.prepare_ns, found.stall_ns) == (2, 200, 180, 50, 50)
    assert (found.fed_bytes, found.fetched_bytes) == (128, 16)
    assert found.stall_share == pytest.approx(50 / 300)
    assert totals([timeline()]).stall_share == 0.0


def test_queues_and_transfers_are_summed() -> None:
    found = totals([timeline(divided_step(1, 1_000_100), divided_step(2, 1_000_300))])
    assert (found.queue_ns, found.transfers, found.transfer_bytes, found.transfer_wait_ns) == (10, 4, 800, 24)
    text = format_table([timeline(divided_step(1, 1_000_100))])
    assert "per step 0.000 ms in queues, of all segments together" in text
    assert "per step 2.0 transfers between devices of 0.000 MB, for which they waited 0.000 ms" in text
    assert "operations take 78.0% of that, on all devices together and without waits" in text
    assert "transfers" not in format_table([TWO_STEPS])


def test_operations_that_wait_are_told_from_those_that_work() -> None:
    waiting = dataclasses.replace(TWO_STEPS, ops=(OPS[0], dataclasses.replace(OPS[1], waits=True)))
    assert (totals([waiting]).blocked_ns, totals([TWO_STEPS]).blocked_ns) == (60, 0)
    text = format_table([waiting])
    assert "per step 0.000 ms in operations that wait, such as those of queues" in text
    assert "operations take 60.0% of that, without waits" in text


def test_the_table_says_it_in_words() -> None:
    text = format_table([TWO_STEPS])
    assert [line.split() for line in text.splitlines()[:2]] == [
        ["operation", "calls", "self", "ms", "us/call", "share", "GFLOP/s", "GB/s"],
        ["MatMul", "2", "0.000", "0.1", "60.0%", "33.33", "(", "33%)", "8.33", "(", "83%)"],
    ]
    assert "2 steps of 1 process, 0.000 ms each; operations take 90.0% of that" in text
    assert "16.7% of the threads' time" in text
    assert "memory: 7.0 MB resident at most, arenas of at most 0.000 MB" in text
    assert "100.0 GFLOP/s in a float32 matrix product, 10.0 GB/s read and written in a copy" in text


def test_the_making_of_plans_is_told_apart_from_the_conversion_of_feeds() -> None:
    first = dataclasses.replace(step(1, 9_000_000, called_ns=1_000_000), is_first=True)
    text = format_table([timeline(first, step(2, 9_500_000, called_ns=9_000_500))])
    assert "before the first step of 1 plan 8.000 ms" in text
    assert "before others 0.499 ms to convert feeds" in text
    found = totals([timeline(first, step(2, 9_500_000, called_ns=9_000_500))])
    assert (found.plans, found.plan_ns, found.prepare_ns) == (1, 8_000_000, 8_499_500)


def test_what_is_left_out_is_said() -> None:
    text = format_table([timeline(step(1, 1_000_100), skipped=7), TWO_STEPS], limit=1)
    assert "1 more take 0.000 ms, 30.0% of the time" in text
    assert "AddV2" not in text
    assert "7 more steps ran after the limit" in text
    assert "3 steps of 2 processes" in text


def test_a_table_of_nothing_says_so() -> None:
    assert "no step ran while this was recorded" in format_table([timeline()])


def test_a_group_is_one_row() -> None:
    found = dataclasses.replace(TWO_STEPS, ops=(GROUP, *OPS[1:]))
    assert [row.name for row in op_rows([found])] == [GROUP.type, "AddV2"]
    assert [row.name for row in op_rows([found], by="name")] == ["layer/product and 3 more", "sum"]
