"""Placement: the device of each operation of a bounded graph, and the part of the graph that each device gets.

What is listed here is what a runtime of several processes builds on: pure functions over graphs, which know no process.
"""

from headrace.graph.device_name import ANY_DEVICE, DeviceName, canonical_device, parse_device
from headrace.placement.device import LOCAL_TASK, Device, local_devices
from headrace.placement.partition import Partition, partition
from headrace.placement.placer import Placement, place
from headrace.placement.replica_device import ReplicaDevice, replica_device

__all__ = [
    "ANY_DEVICE",
    "LOCAL_TASK",
    "Device",
    "DeviceName",
    "Partition",
    "Placement",
    "ReplicaDevice",
    "canonical_device",
    "local_devices",
    "parse_device",
    "partition",
    "place",
    "replica_device",
]
