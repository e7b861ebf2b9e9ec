"""How devices are named where people read them."""

from __future__ import annotations

from headrace.placement import parse_device

DEFAULT_DEVICE = "CPU:0"


def short_device(name: str) -> str:
    """Return the name of a device as people say it: `CPU:0`, with the task before it in a cluster.

    Args:
      name: a whole or partial name; an empty one stands for the default device.

    Example:
      >>> short_device("/job:localhost/replica:0/task:0/device:CPU:1")
      'CPU:1'
    """
    device = parse_device(name)
    task = "" if device.job in (None, "localhost") else f"job:{device.job}/task:{device.task}/"
    return task + (device.short or DEFAULT_DEVICE)


def device_scope(name: str) -> str:
    """Return the name scope that stands for a device where the graphs of several are shown as one.

    Example:
      >>> device_scope("/job:ps/replica:0/task:1/device:CPU:0")
      'ps_1_CPU_0'
    """
    return short_device(name).replace("job:", "").replace("task:", "").replace("/", "_").replace(":", "_")
