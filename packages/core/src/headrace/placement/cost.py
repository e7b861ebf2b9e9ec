"""The cost model: how long an operation takes, and how long it takes to move a tensor, as far as shapes tell.

The numbers need only be right against each other: computing an element costs about a nanosecond, a message between
devices as much as ten thousand of them. So small operations stay together and large ones are worth a transfer.
"""

from __future__ import annotations

import math

from headrace.graph.frames import TOKEN_TYPES
from headrace.graph.operation import Operation, Tensor
from headrace.placement.device import Device
from headrace.types import variant

__all__ = ["compute_seconds", "is_copied", "tensor_bytes", "transfer_seconds"]

_WORD = 8
"""Bytes that a string is taken for."""

_LIST = 1 << 20
"""Bytes that a list of tensors is taken for: nothing tells its length, and it is better left where it is."""

_MESSAGE = {"process": (2e-5, 5e9), "cluster": (2e-4, 1e9)}
"""Seconds for a message and bytes per second: between devices of one task, and between tasks."""

_FREE = frozenset({"_Arg", "_Retval", "Const", "Identity", "NoOp", "Placeholder", "ReadVariableOp", "VarHandleOp"})


COPIED_BYTES = 1024
"""Constants up to this size are repeated on the devices that read them: a message costs more."""


def is_copied(op: Operation) -> bool:
    """True if an operation is repeated on every device that reads it, rather than sent there."""
    if op.control_inputs or "_target" in op.attrs:
        return False
    return op.type == "_Arg" or (op.type == "Const" and op.attrs["value"].nbytes <= COPIED_BYTES)


def tensor_bytes(tensor: Tensor) -> int:
    """Bytes of a tensor; dimensions that are not known count as 1."""
    return _elements(tensor) * (tensor.dtype.size or (_LIST if tensor.dtype is variant else _WORD))


def compute_seconds(op: Operation, device: Device) -> float:
    """What one run of an operation takes on a device."""
    if op.type in _FREE or op.type in TOKEN_TYPES:
        return 0.0
    return device.launch_seconds + _operations(op) / device.flops


def transfer_seconds(byte_count: int, source: Device, destination: Device) -> float:
    """What moving bytes from one device to another takes; nothing if they are one."""
    if source.name == destination.name:
        return 0.0
    near = source.name.task_name == destination.name.task_name
    latency, rate = _MESSAGE["process" if near else "cluster"]
    return latency + byte_count / rate


def _elements(tensor: Tensor) -> int:
    return math.prod(1 if size is None else size for size in tensor.shape.dims or ())


def _operations(op: Operation) -> float:
    """Floating-point operations: products count the axis that they sum over, everything else one for each element."""
    outputs = sum(map(_elements, op.outputs))
    inputs = sum(map(_elements, op.inputs))
    if "MatMul" in op.type and len(op.inputs) >= 2:
        return 2.0 * outputs * _summed(op.inputs[0], _adjoined(op))
    if op.type.startswith(("Conv2D", "Conv3D", "DepthwiseConv")) and len(op.inputs) >= 2:
        return 2.0 * max(outputs, inputs) * math.sqrt(min(map(_elements, op.inputs)))
    return float(max(outputs, inputs))


def _adjoined(op: Operation) -> bool:
    return bool(op.attrs.get("transpose_a") or op.attrs.get("adj_x"))


def _summed(left: Tensor, transposed: bool) -> int:
    dims = left.shape.dims
    if dims is None or len(dims) < 2:
        return 1
    return dims[-2 if transposed else -1] or 1
