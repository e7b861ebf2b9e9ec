"""Times and sizes of operations, in the form by which TensorBoard colours a graph."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import headrace as hr
from headrace_viz.run_metadata import run_metadata


def _trace(*records: tuple[str, int, int]) -> Any:
    return SimpleNamespace(records=[SimpleNamespace(name=name, start_ns=a, end_ns=b) for name, a, b in records])


def test_times_of_one_operation_are_added_up() -> None:
    trace = _trace(("a", 10_000, 13_000), ("b", 13_000, 13_100), ("a", 50_000, 54_000))
    (device,) = run_metadata(trace).step_stats.dev_stats
    assert device.device == "/device:CPU:0"
    times = {node.node_name: (node.all_start_micros, node.all_end_rel_micros) for node in device.node_stats}
    assert times == {"a": (10, 7), "b": (13, 1)}


def test_devices_shapes_and_bytes_come_from_the_graph() -> None:
    with hr.Graph().as_default() as graph, hr.device("/device:CPU:1"):
        x = hr.placeholder(hr.float32, [None, 3], name="x")
        hr.split(hr.zeros([4, 6], dtype=hr.float64), 2, axis=0, name="parts")
        hr.identity(x, name="unknown")
    (split,) = [operation for operation in graph.operations if operation.type == "Split"]
    (device,) = run_metadata(_trace((split.name, 0, 1000), ("unknown", 0, 1000)), graph).step_stats.dev_stats
    assert device.device == "/device:CPU:1"
    parts, unknown = device.node_stats
    assert parts.memory[0].total_bytes == 4 * 6 * 8
    sizes = [[dim.size for dim in output.tensor_description.shape.dim] for output in parts.output]
    assert sizes == [[2, 6], [2, 6]]
    assert not unknown.memory
    assert [dim.size for dim in unknown.output[0].tensor_description.shape.dim] == [-1, 3]


def test_nothing_traced() -> None:
    assert not run_metadata(hr.Trace()).step_stats.dev_stats
