"""What traced steps took, operation by operation, in the form by which TensorBoard colours a graph."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

import headrace as hr
from headrace_viz.devices import device_scope
from headrace_viz.graph_view import shape_proto
from headrace_viz.proto.run_metadata_pb2 import (
    AllocatorMemoryUsed,
    DeviceStepStats,
    NodeExecStats,
    NodeOutput,
    RunMetadata,
    StepStats,
    TensorDescription,
)

_DEFAULT_DEVICE = "/device:CPU:0"


def run_metadata(trace: hr.Trace, *, scoped: bool = False) -> RunMetadata:
    """Return the compute time and memory of every operation that the trace saw, summed over its steps.

    TensorBoard takes one record for each operation, so the times of several runs of one are added up. What a backend
    runs as a whole has its time at the first operation that is not only a part of others; the other members have none
    of their own, but count as used.

    Args:
      trace: of `session.run(..., trace=trace)`.
      scoped: name operations as the graph of all devices does, see `graph_view.divided_view`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.placeholder(hr.float32, [None])
      ...     y = hr.exp(x, name="y")
      >>> trace = hr.Trace()
      >>> _ = hr.Session(graph).run(y, feeds={x: [0.0, 1.0]}, trace=trace)
      >>> (device,) = run_metadata(trace).step_stats.dev_stats
      >>> [(node.node_name, node.memory[0].total_bytes) for node in device.node_stats]
      [('y', 8)]
    """
    operations: dict[str, hr.Operation] = {}
    spans: dict[str, tuple[int, int]] = {}
    for operation, begin, end in _runs(trace):
        name = f"{device_scope(operation.device)}/{operation.name}" if scoped else operation.name
        operations.setdefault(name, operation)
        start, spent = spans.get(name, (begin, 0))
        spans[name] = min(start, begin), spent + end - begin
    devices: dict[str, DeviceStepStats] = {}
    for name, (start, spent) in spans.items():
        operation = operations[name]
        device = operation.device or _DEFAULT_DEVICE
        stats = devices.setdefault(device, DeviceStepStats(device=device))
        stats.node_stats.append(_node_stats(name, start, spent, operation))
    return RunMetadata(step_stats=StepStats(dev_stats=devices.values()))


def _runs(trace: hr.Trace) -> Iterator[tuple[hr.Operation, int, int]]:
    """The operation whose time a run is, its start and its end; the rest of a group with no time."""
    for step in trace.steps:
        kernels = dict(zip(step.operations, step.kernels, strict=False))
        for segment in step.segments:
            for group, start, end in zip(segment.groups, segment.starts_ns, segment.ends_ns, strict=True):
                first = next((op for op in group if kernels.get(op)), group[0])
                yield first, start, end
                yield from ((op, start, start) for op in group if op is not first)


def _node_stats(name: str, start_ns: int, spent_ns: int, operation: hr.Operation) -> NodeExecStats:
    micros = max(1, round(spent_ns / 1000)) if spent_ns else 0  # a time of zero counts as not measured
    stats = NodeExecStats(
        node_name=name, all_start_micros=start_ns // 1000, op_end_rel_micros=micros, all_end_rel_micros=micros
    )
    sizes = [_output_bytes(tensor) for tensor in operation.outputs]
    if sizes and None not in sizes:
        total = sum(size for size in sizes if size is not None)
        stats.memory.append(AllocatorMemoryUsed(allocator_name="static shapes", total_bytes=total, peak_bytes=total))
    for slot, tensor in enumerate(operation.outputs):
        description = TensorDescription(dtype=tensor.dtype.number, shape=shape_proto(tensor.shape))
        stats.output.append(NodeOutput(slot=slot, tensor_description=description))
    return stats


def _output_bytes(tensor: hr.Tensor) -> int | None:
    dims = tensor.shape.dims
    if dims is None or None in dims:
        return None
    return np.dtype(tensor.dtype.numpy).itemsize * math.prod(dim for dim in dims if dim is not None)
