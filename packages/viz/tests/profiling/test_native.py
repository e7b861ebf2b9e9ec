"""Profiles of the native CPU backend, which runs a step as one call and says what is computed together, and when."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
import headrace_viz
from headrace_viz.profiling.op_table import op_rows, totals
from headrace_viz.profiling.xspace import read_xspace
from headrace_viz.run_metadata import run_metadata

onednn = pytest.importorskip("headrace_cpu.onednn")
needs_library = pytest.mark.skipif(onednn.onednn() is None, reason="oneDNN is not installed")

CPU = hr.config(backend="cpu")


def network(side: int) -> Callable[[], Any]:
    """A training step of a small convolutional network."""
    with hr.Graph().as_default() as graph:
        images = hr.placeholder(hr.float32, [8, side, side, 8], name="images")
        labels = hr.placeholder(hr.int32, [8], name="labels")
        model = hr.layers.Sequential(
            [
                hr.layers.Conv2D(16, 3, activation="relu"),
                hr.layers.MaxPool2D(2),
                hr.layers.Flatten(),
                hr.layers.Dense(10),
            ]
        )
        loss = hr.mean(hr.nn.sparse_softmax_cross_entropy(labels=labels, logits=model(images)))
        train = hr.optim.Adam(1e-3).minimize(loss)
    step = hr.Session(graph, config=CPU).make_callable([loss, train], feeds=[images, labels])
    pixels = np.random.default_rng(0).normal(size=(8, side, side, 8)).astype(np.float32)
    return lambda: step(pixels, np.arange(8, dtype=np.int32))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> headrace_viz.Profile:
    step = network(16)
    with headrace_viz.profile(tmp_path_factory.mktemp("profile")) as found:
        for _ in range(5):
            step()
    return found


@needs_library
def test_each_group_is_a_row_with_what_computed_it(recorded: headrace_viz.Profile) -> None:
    kernels = {op.type: op.kernel for op in recorded.timeline.ops}
    assert kernels["Conv2D + BiasAdd"] == "onednn"
    assert kernels["Relu + MaxPool"] == "headrace_cpu.loops" or kernels["MaxPool"] == "headrace_cpu.pooling"
    assert {"onednn", "headrace_cpu.loops"} <= set(kernels.values())
    assert all(op.kernel for op in recorded.timeline.ops)
    assert len(recorded.timeline.steps[0].events) >= 8
    assert "Conv2D + BiasAdd" in recorded.table()


def test_times_of_groups_add_up_to_the_step(recorded: headrace_viz.Profile) -> None:
    for step in recorded.timeline.steps:
        ends = [event.end_ns for event in step.events]
        assert ends[:-1] == [event.start_ns for event in step.events[1:]]  # no time is counted twice, none left out
        assert step.op_ns == ends[-1] - step.events[0].start_ns
        assert step.start_ns <= step.events[0].start_ns < ends[-1] <= step.end_ns


@needs_library
def test_bytes_and_operations_of_groups_are_those_of_the_whole(recorded: headrace_viz.Profile) -> None:
    by_type = {op.type: op for op in recorded.timeline.ops}
    convolution = by_type["Conv2D + BiasAdd"]
    outputs = 8 * 14 * 14 * 16
    assert convolution.flops == 2 * outputs * 3 * 3 * 8 + outputs
    assert convolution.input_bytes == 4 * (8 * 16 * 16 * 8 + 3 * 3 * 8 * 16 + 16)
    assert convolution.output_bytes in (4 * outputs, 2 * outputs)  # it may hand on bfloat16
    (update,) = (op for op in recorded.timeline.ops if op.members and op.members[0].startswith("Adam"))
    parameters = 3 * 3 * 8 * 16 + 16 + 7 * 7 * 16 * 10 + 10
    # Weights and two moments of each are written; gradients, weights and moments are read.
    assert update.output_bytes is not None
    assert update.input_bytes is not None
    assert 12 * parameters <= update.output_bytes <= 12 * parameters + 100
    assert 16 * parameters <= update.input_bytes <= 16 * parameters + 200


def test_no_row_is_far_beyond_what_memory_does(recorded: headrace_viz.Profile) -> None:
    """A group that takes no time because others do its work would be."""
    assert all(row.gbytes is None or row.gbytes < 2000 for row in op_rows([recorded.timeline]))
    assert min(event.end_ns - event.start_ns for step in recorded.timeline.steps for event in step.events) > 100


def test_the_making_of_the_plan_is_told_apart(recorded: headrace_viz.Profile) -> None:
    found = totals([recorded.timeline])
    assert found.plans == 1
    first, *others = recorded.timeline.steps
    assert found.plan_ns == first.start_ns - first.called_ns
    assert found.prepare_ns - found.plan_ns == sum(step.start_ns - step.called_ns for step in others)
    assert [step.is_first for step in recorded.timeline.steps] == [True, False, False, False, False]


@needs_library
def test_files_hold_all_of_it(recorded: headrace_viz.Profile) -> None:
    assert recorded.xspace_path is not None
    assert recorded.trace_path is not None
    back = read_xspace(recorded.xspace_path)
    assert back.steps == recorded.timeline.steps
    assert [op.type for op in back.ops] == [op.type for op in recorded.timeline.ops]
    events = json.loads(gzip.decompress(recorded.trace_path.read_bytes()))["traceEvents"]
    shown = [event for event in events if event.get("cat") == "operation" and event["name"] == "Conv2D + BiasAdd"]
    assert len(shown) == 5
    assert shown[0]["args"]["kernel"] == "onednn"
    assert len(shown[0]["args"]["operations"]) == 2


def test_a_native_loop_is_one_row(tmp_path: Path) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [16])
        _, y = hr.while_loop(lambda i, _: i < 50, lambda i, value: (i + 1, hr.tanh(value * 0.5 + x)), (0, x))
        step = hr.Session(graph, config=CPU).make_callable(y, [x])
    with headrace_viz.profile(tmp_path) as recorded:
        for _ in range(3):
            step(np.ones(16, np.float32))
    loops = [op for op in recorded.timeline.ops if op.kernel == "headrace_cpu.loop"]
    assert [op.type for op in loops] in (["While"], ["StatelessWhile"])
    number = recorded.timeline.ops.index(loops[0])
    assert [sum(event.op == number for event in step.events) for step in recorded.timeline.steps] == [1, 1, 1]


def test_what_numpy_computes_between_native_groups_has_its_own_row(tmp_path: Path) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [64])
        y = hr.exp(hr.sort(hr.tanh(x)))
        step = hr.Session(graph, config=CPU).make_callable(y, [x])
    with headrace_viz.profile(tmp_path) as recorded:
        step(np.ones(64, np.float32))
    kernels = [op.kernel for op in recorded.timeline.ops]
    assert kernels[0] == kernels[-1] == "headrace_cpu.loops"
    assert any(kernel.startswith("headrace.kernels.") for kernel in kernels[1:-1])


def test_run_metadata_times_groups_at_their_first_operations() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [64, 64], name="x")
        y = hr.sum(hr.tanh(hr.matmul(x, x, name="product"), name="curve"), name="total")
    trace = hr.Trace()
    with hr.Session(graph, config=CPU) as session:
        session.run(y, feeds={x: np.ones((64, 64), np.float32)}, trace=trace)
    (device,) = run_metadata(trace).step_stats.dev_stats
    times = {node.node_name: node.all_end_rel_micros for node in device.node_stats}
    assert set(times) == {"product", "curve", "total"}
    assert times["product"] >= 1
