"""The cost model: how long an operation takes, and how long it takes to move a tensor, as far as shapes tell.

The numbers need only be right against each other: computing an element costs about a nanosecond, a message between
devices as much as ten thousand of them. So small operations stay together and large ones are worth a transfer.
"""

from __future__ import annotations

from headrace.graph.operation import Operation
from headrace.passes.cost import arithmetic, is_free
from headrace.placement.device import Device

__all__ = ["compute_seconds", "is_copied", "transfer_seconds"]

_MESSAGE = {"process": (2e-5, 5e9), "cluster": (2e-4, 1e9)}
"""Seconds for a message and bytes per second: between devices of one task, and between tasks."""

COPIED_BYTES = 1024
"""Constants up to this size are repeated on the devices that read them: a message costs more."""


def is_copied(op: Operation) -> bool:
    """True if an operation is repeated on every device that reads it, rather than sent there."""
    if op.control_inputs or "_target" in op.attrs:
        return False
    return op.type == "_Arg" or (op.type == "Const" and op.attrs["value"].nbytes <= COPIED_BYTES)


def compute_seconds(op: Operation, device: Device) -> float:
    """What one run of an operation takes on a device."""
    if is_free(op):
        return 0.0
    return device.launch_seconds + arithmetic(op) / device.flops


def transfer_seconds(byte_count: int, source: Device, destination: Device) -> float:
    """What moving bytes from one device to another takes; nothing if they are one."""
    if source.name == destination.name:
        return 0.0
    near = source.name.task_name == destination.name.task_name
    latency, rate = _MESSAGE["process" if near else "cluster"]
    return latency + byte_count / rate
