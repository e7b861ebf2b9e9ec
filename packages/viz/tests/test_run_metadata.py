"""Times and sizes of operations, in the form by which TensorBoard colours a graph."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import headrace as hr
from headrace_viz.run_metadata import run_metadata


def _trace(graph: hr.Graph, *runs: tuple[str, int, int]) -> Any:
    named = {operation.name: operation for operation in graph.operations}
    segment = SimpleNamespace(
        groups=[[named[name] for name in names.split()] for names, _, _ in runs],
        starts_ns=[start for _, start, _ in runs],
        ends_ns=[end for _, _, end in runs],
    )
    kernels = ["" if operation.name == "part" else "own" for operation in graph.operations]
    return SimpleNamespace(steps=[SimpleNamespace(operations=graph.operations, kernels=kernels, segments=[segment])])


def test_a_group_has_its_time_at_the_first_operation_that_is_not_only_a_part_of_others() -> None:
    with hr.Graph().as_default() as graph:
        hr.identity(hr.identity(hr.constant(1.0, name="part"), name="a"), name="b")
    (device,) = run_metadata(_trace(graph, ("part a b", 10_000, 13_000), ("part", 13_000, 14_000))).step_stats.dev_stats
    times = {node.node_name: node.all_end_rel_micros for node in device.node_stats}
    assert times == {"a": 3, "part": 1, "b": 0}
    assert all(node.output for node in device.node_stats)  # else TensorBoard hatches it, as what was not used


def test_times_of_one_operation_are_added_up() -> None:
    with hr.Graph().as_default() as graph:
        hr.identity(hr.constant(1.0, name="a"), name="b")
    trace = _trace(graph, ("a", 10_000, 13_000), ("b", 13_000, 13_100), ("a", 50_000, 54_000))
    (device,) = run_metadata(trace).step_stats.dev_stats
    assert device.device == "/device:CPU:0"
    times = {node.node_name: (node.all_start_micros, node.all_end_rel_micros) for node in device.node_stats}
    assert times == {"a": (10, 7), "b": (13, 1)}


def test_devices_shapes_and_bytes_are_those_of_the_operations_that_ran() -> None:
    with hr.Graph().as_default() as graph, hr.device("/device:CPU:1"):
        x = hr.placeholder(hr.float32, [None, 3], name="x")
        hr.split(hr.zeros([4, 6], dtype=hr.float64), 2, axis=0, name="parts")
        hr.identity(x, name="unknown")
    (split,) = [operation for operation in graph.operations if operation.type == "Split"]
    (device,) = run_metadata(_trace(graph, (split.name, 0, 1000), ("unknown", 0, 1000))).step_stats.dev_stats
    assert device.device == "/device:CPU:1"
    parts, unknown = device.node_stats
    assert parts.memory[0].total_bytes == 4 * 6 * 8
    sizes = [[dim.size for dim in output.tensor_description.shape.dim] for output in parts.output]
    assert sizes == [[2, 6], [2, 6]]
    assert not unknown.memory
    assert [dim.size for dim in unknown.output[0].tensor_description.shape.dim] == [-1, 3]


def test_devices_are_those_where_operations_were_placed() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None], name="x")
        with hr.device("CPU:1"):
            y = hr.exp(x, name="there")
        with hr.device("CPU:0"):
            z = hr.negative(y, name="here")
    trace = hr.Trace()
    with hr.Session(graph, config=hr.config(virtual_devices={"CPU": 2})) as session:
        session.run(z, feeds={x: np.ones(3, np.float32)}, trace=trace)
    for scoped, here, there in ((False, "here", "there"), (True, "CPU_0/here", "CPU_1/there")):
        found = {device.device[-5:]: device for device in run_metadata(trace, scoped=scoped).step_stats.dev_stats}
        assert here in {node.node_name for node in found["CPU:0"].node_stats}
        (exp,) = [node for node in found["CPU:1"].node_stats if node.node_name == there]
        assert exp.memory[0].total_bytes == 12  # the shape that was fed


def test_nothing_traced() -> None:
    assert not run_metadata(hr.Trace()).step_stats.dev_stats
