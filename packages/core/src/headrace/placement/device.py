"""Device: what the placer knows of one device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.errors import InvalidArgumentError
from headrace.graph.device_name import DeviceName, parse_device

__all__ = ["LOCAL_TASK", "Device", "local_devices"]

LOCAL_TASK = parse_device("/job:localhost/replica:0/task:0")
"""The task that a session without a cluster runs in."""

LOCAL_INCARNATION = 1
"""Devices of this process live as long as it does, so none is ever mistaken for its successor."""


_CPU_SPEED = (2e10, 1e-6)
_SPEEDS = {"GPU": (1e13, 5e-6)}
"""Operations per second and launch cost in seconds by device type; only their orders of magnitude matter."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device that operations may be placed on.

    Attributes:
      name: its whole name.
      incarnation: a number that is another one each time the device starts anew; it is part of the keys of transfers.
      flops: floating-point operations per second that the cost model assumes.
      launch_seconds: what starting one operation costs.
    """

    name: DeviceName
    incarnation: int = LOCAL_INCARNATION
    flops: float = _CPU_SPEED[0]
    launch_seconds: float = _CPU_SPEED[1]

    @property
    def type(self) -> str:
        """The device type, e.g. `GPU`, by which kernels are registered."""
        return self.name.type or ""

    def __str__(self) -> str:
        return str(self.name)


def local_devices(names: Sequence[str], virtual: Mapping[str, int]) -> list[Device]:
    """The devices of this process.

    Args:
      names: what the backends offer, e.g. `["CPU:0", "GPU:0"]`, the preferred one first.
      virtual: for device types the number of devices to make of the first one of that type.
    Returns:
      The devices in the order of `names`, virtual ones in place of the one that they share.
    Raises:
      InvalidArgumentError: a virtual device is asked of a type that there is not.
    """
    shorts = list(dict.fromkeys(parse_device(name).short for name in names))
    types = {parse_device(name).type for name in shorts}
    for device_type in virtual:
        if device_type not in types:
            raise InvalidArgumentError(
                f"there is no device of type '{device_type}' to divide into virtual ones",
                expected="one of: " + ", ".join(sorted(map(str, types))),
                got=f"virtual_devices={dict(virtual)}",
                hint="hr.config(virtual_devices={'CPU': 4})",
            )
    found: dict[str, None] = {}
    for short in shorts:
        device_type = parse_device(short).type or ""
        count = virtual.get(device_type)
        found.update(dict.fromkeys([short] if count is None else [f"{device_type}:{i}" for i in range(count)]))
    return [_local(short) for short in found]


def _local(short: str) -> Device:
    name = LOCAL_TASK.merge(parse_device(short))
    flops, launch_seconds = _SPEEDS.get(name.type or "", _CPU_SPEED)
    return Device(name, flops=flops, launch_seconds=launch_seconds)
