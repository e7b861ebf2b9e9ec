"""Device names: `/job:worker/replica:0/task:1/device:GPU:0`, whole or in part.

A partial name is a constraint: it matches every device that agrees with the fields it has. It lies with the graph, not
with the placer, because operations carry such names and a wrong one must fail at the line that wrote it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from headrace.errors import InvalidArgumentError

__all__ = ["ANY_DEVICE", "DeviceName", "canonical_device", "parse_device"]

_FIELD = re.compile(r"(?P<key>job|replica|task):(?P<value>[^/:;]+)\Z")
_JOB = re.compile(r"[A-Za-z][A-Za-z0-9_-]*\Z")
_NUMBER = re.compile(r"\d{1,9}\Z")
_DEVICE = re.compile(r"(?:device:)?(?P<type>[A-Za-z_][A-Za-z0-9_]*)(?::(?P<index>\d{1,9}|\*))?\Z")
_KNOWN_TYPES = frozenset({"CPU", "GPU"})
"""Types that may stand alone, without `device:` or an index."""


@dataclass(frozen=True, slots=True)
class DeviceName:
    """The name of a device, or of all devices that agree with the fields that are not None.

    Attributes:
      job: the job, e.g. `worker`.
      replica: always 0 in a cluster of Headrace; kept for graphs of TensorFlow.
      task: the number of the task in its job.
      type: the device type in capitals, e.g. `GPU`.
      index: the number of the device of that type in its task.

    Example:
      >>> from headrace.graph.device_name import parse_device
      >>> print(parse_device("/job:ps/task:1").merge(parse_device("cpu:0")))
      /job:ps/task:1/device:CPU:0
    """

    job: str | None = None
    replica: int | None = None
    task: int | None = None
    type: str | None = None
    index: int | None = None

    def merge(self, inner: DeviceName) -> DeviceName:
        """The fields of `inner`, and where it has none those of this name. Type and index go together."""
        return DeviceName(
            job=self.job if inner.job is None else inner.job,
            replica=self.replica if inner.replica is None else inner.replica,
            task=self.task if inner.task is None else inner.task,
            type=self.type if inner.type is None else inner.type,
            index=self.index if inner.type is None else inner.index,
        )

    def matches(self, device: DeviceName) -> bool:
        """True if `device` has every field that this name has, with the same value."""
        pairs = (
            (self.job, device.job),
            (self.replica, device.replica),
            (self.task, device.task),
            (self.type, device.type),
            (self.index, device.index),
        )
        return all(wanted is None or wanted == given for wanted, given in pairs)

    @property
    def task_name(self) -> DeviceName:
        """The task in which the device lives: the name without type and index."""
        return replace(self, type=None, index=None)

    @property
    def short(self) -> str:
        """The last part, e.g. `GPU:0`, as backends and people in one process name devices."""
        return f"{self.type}:{'*' if self.index is None else self.index}" if self.type else ""

    def __str__(self) -> str:
        fields = (("job", self.job), ("replica", self.replica), ("task", self.task), ("device", self.short or None))
        return "".join(f"/{key}:{value}" for key, value in fields if value is not None)


ANY_DEVICE = DeviceName()
"""The name without fields, which every device matches."""


@functools.lru_cache(maxsize=4096)
def parse_device(text: str) -> DeviceName:
    """Read a device name.

    Args:
      text: a whole or partial name; `*` stands for any value; type names may be in small letters; `GPU:0`, `/gpu:0` and
        `/device:GPU:0` are one; `""` is any device.
    Raises:
      InvalidArgumentError: the text is no device name.
    """
    if not text:
        return ANY_DEVICE
    fields: dict[str, str | int | None] = {}
    for part in text.removeprefix("/").split("/"):
        for key, value in _read_part(part, text):
            if key in fields:
                raise _wrong(text, f"'{key}' twice")
            fields[key] = value
    return DeviceName(**fields)  # type: ignore[arg-type]  # _read_part gives each field its type


@functools.lru_cache(maxsize=4096)
def canonical_device(text: str) -> str:
    """The one way to write a device name; raises InvalidArgumentError for what is none."""
    return str(parse_device(text)) if text else ""


def _read_part(part: str, text: str) -> Iterable[tuple[str, str | int | None]]:
    found = _FIELD.match(part)
    if found:
        key, value = found["key"], found["value"]
        if value == "*":
            return [(key, None)]
        if not (_JOB if key == "job" else _NUMBER).match(value):
            raise _wrong(text, f"{key} '{value}'")
        return [(key, value if key == "job" else int(value))]
    found = _DEVICE.match(part)
    if not found or (found["index"] is None and not _stands_alone(part, found["type"])):
        raise _wrong(text, f"'{part}'")
    index = found["index"]
    return [("type", found["type"].upper()), ("index", None if index in (None, "*") else int(index))]


def _stands_alone(part: str, device_type: str) -> bool:
    return part.startswith("device:") or device_type.upper() in _KNOWN_TYPES


def _wrong(text: str, what: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"'{text}' is no device name",
        expected='a name like "/job:worker/task:1/device:GPU:0", or a part of one: "/job:ps", "GPU:0", "GPU:*"',
        got=what,
        hint="`headrace devices` lists the devices of this process",
    )
