"""A timeline as an XSpace, the file of TensorBoard's profile plugin, and back.

There is one plane per device, with one line per thread, and one for what waits in its queue and one for what it
receives from others. A step is an event around those of its segments, and these are around those of their operations.
What the format has no place for, such as clocks, stands as JSON in one value of a plane of our own.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from headrace.errors import DataLossError, InvalidArgumentError
from headrace_viz.devices import DEFAULT_DEVICE
from headrace_viz.profiling.ceilings import Ceilings
from headrace_viz.profiling.clock import ClockPair, ProcessClock, wall_offsets
from headrace_viz.profiling.timeline import (
    MemorySample,
    OpEvent,
    SegmentEvent,
    StepEvent,
    Timeline,
    TracedOp,
    Transfer,
    in_order,
    sent_order,
)
from headrace_viz.proto.xspace_pb2 import XEvent, XEventMetadata, XLine, XPlane, XSpace, XStat

_HOST_PLANE = "/host:CPU"
_DEVICE_PLANE = "^/device:(CUSTOM:)?"
_OWN_PLANE = "/headrace:process"
_OWN_STAT = "process"
_STEP = "Step"
_PREPARE = "Prepare"
_FORMAT = 1
_STEP_STATS = ("backend", "argument_bytes", "result_bytes", "arena_bytes", "error")
_FIRST_STAT = "first_of_plan"
_OP_STATS = ("type", "kernel", "input_bytes", "output_bytes", "flops")
_MEMBERS_STAT = "members"
"""The names of a group's operations, which have no blanks."""
_WAITS_STAT = "waits"
_SEGMENT_STATS = ("iteration", "queue_ns", "bytes_in", "bytes_out")
_TRANSFER_STATS = ("tensor", "source", "target", "bytes", "source_thread", "target_thread", "waited_ns")
_TEXT_STATS = frozenset(
    {"backend", "error", "iteration", "kernel", "kind", "members", "source", "target", "tensor", "type"}
)
_QUEUE_LINE, _TRANSFER_LINE = 2**40, 2**40 + 1
"""Numbers of lines that are no threads: greater than any number of one."""
_LINES = {_QUEUE_LINE: "queue", _TRANSFER_LINE: "transfers"}


def to_xspace(timeline: Timeline) -> XSpace:
    """Return a timeline as an XSpace whose times are those of the wall clock."""
    (offset,) = wall_offsets([timeline.clock])
    space = XSpace(hostnames=[timeline.host])
    planes: dict[str, _PlaneWriter] = {}

    def plane_of(device: str) -> _PlaneWriter:
        plane = planes.get(device)
        if plane is None:
            added = space.planes.add(id=len(planes) + 1, name=_plane_name(device))
            plane = planes[device] = _PlaneWriter(added, timeline, offset)
        return plane

    host = plane_of(DEFAULT_DEVICE)
    for step in timeline.steps:
        if step.called_ns < step.start_ns:
            host.add(step.thread_id, host.event(_PREPARE), step.called_ns, step.start_ns, step.step)
        event = host.add(step.thread_id, host.event(_STEP), step.start_ns, step.end_ns, step.step)
        host.stat(event, "_r", 1)  # marks what TensorBoard counts as a step
        for name in _STEP_STATS:
            host.stat(event, name, getattr(step, name))
        host.stat(event, _FIRST_STAT, int(step.is_first))
        for run in step.events:
            plane = plane_of(timeline.ops[run.op].device)
            plane.add(run.thread_id, plane.op(run.op), run.start_ns, run.end_ns, step.step)
        for segment in step.segments:
            plane_of(segment.device).add_segment(segment, step.step)
        for transfer in step.transfers:
            plane_of(transfer.target).add_transfer(transfer, step.step)
    _add_own_plane(space, timeline)
    return space


def _plane_name(device: str) -> str:
    """Return a name that TensorBoard's plugin shows: of the host, of a GPU, or of a device that is not known to it."""
    if device == DEFAULT_DEVICE:
        return _HOST_PLANE
    return f"/device:{device}" if device.startswith("GPU:") else f"/device:CUSTOM:{device}"


class _PlaneWriter:
    """Mutable: a plane that is being filled, with the numbers given so far."""

    def __init__(self, plane: XPlane, timeline: Timeline, offset: int) -> None:
        self._plane = plane
        self._timeline = timeline
        self._wall_start_ns = timeline.start_ns + offset
        self._lines: dict[int, XLine] = {}
        self._events: dict[tuple[str, str], int] = {}
        self._ops: dict[int, int] = {}
        self._stats: dict[str, int] = {}

    def event(self, name: str, kind: str = "") -> int:
        """Return the number of an event's name; the kind tells it from steps and operations."""
        number = self._events.get((name, kind))
        if number is None:
            metadata = self._new_event(name)
            self.stat(metadata, "kind", kind)
            number = self._events[name, kind] = metadata.id
        return number

    def add_segment(self, segment: SegmentEvent, step: int) -> None:
        """Add a segment, and before it the time in which it waited in the queue."""
        event = self.event(segment.name, "wait" if segment.waits else "segment")
        added = self.add(segment.thread_id, event, segment.start_ns, segment.end_ns, step)
        for name in _SEGMENT_STATS:
            self.stat(added, name, getattr(segment, name))
        if segment.queue_ns:
            queued = self.event(f"{segment.name} waits", "queue")
            self.add(_QUEUE_LINE, queued, segment.ready_ns, segment.start_ns, step)

    def add_transfer(self, transfer: Transfer, step: int) -> None:
        """Add a tensor that was received here."""
        event = self.event(f"{transfer.tensor} from {transfer.source}", "transfer")
        added = self.add(_TRANSFER_LINE, event, transfer.sent_ns, transfer.received_ns, step)
        for name in _TRANSFER_STATS:
            self.stat(added, name, getattr(transfer, name))

    def op(self, position: int) -> int:
        """Return the number of an operation's events."""
        number = self._ops.get(position)
        if number is None:
            op = self._timeline.ops[position]
            kind = re.sub(r"\W+", "_", op.type)  # that of a group has blanks
            metadata = self._new_event(f"{op.name}:{kind}")  # so TensorBoard's table of operations finds the type
            metadata.display_name = op.title
            self.stat(metadata, _MEMBERS_STAT, " ".join(op.members))
            self.stat(metadata, _WAITS_STAT, int(op.waits))
            for name in _OP_STATS:
                self.stat(metadata, name, getattr(op, name))
            number = self._ops[position] = metadata.id
        return number

    def _new_event(self, name: str) -> XEventMetadata:
        number = len(self._plane.event_metadata) + 1
        metadata = self._plane.event_metadata[number]
        metadata.id, metadata.name = number, name
        return metadata

    def add(self, thread: int, event: int, start_ns: int, end_ns: int, step: int) -> XEvent:
        """Add an event to the line of a thread."""
        line = self._lines.get(thread)
        if line is None:
            name = _LINES.get(thread) or self._timeline.threads.get(thread, str(thread))
            line = self._plane.lines.add(id=thread, name=name, timestamp_ns=self._wall_start_ns)
            self._lines[thread] = line
        offset_ps = (start_ns - self._timeline.start_ns) * 1000
        added = line.events.add(metadata_id=event, offset_ps=offset_ps, duration_ps=(end_ns - start_ns) * 1000)
        self.stat(added, "step_num", step)
        return added

    def stat(self, owner: XEvent | XEventMetadata, name: str, value: int | str | None) -> None:
        """Add a named value to what is being written; None adds nothing."""
        number = self._stats.get(name)
        if number is None:
            number = self._stats[name] = len(self._stats) + 1
            self._plane.stat_metadata[number].id = number
            self._plane.stat_metadata[number].name = name
        if isinstance(value, int):
            owner.stats.add(metadata_id=number, int64_value=value)
        elif value:
            owner.stats.add(metadata_id=number, str_value=value)


def _add_own_plane(space: XSpace, timeline: Timeline) -> None:
    facts = {
        "format": _FORMAT,
        "host": timeline.host,
        "process_id": timeline.process_id,
        "clock_identity": timeline.clock.identity,
        "clock_pairs": [[pair.steady_ns, pair.wall_ns, pair.error_ns] for pair in timeline.clock.pairs],
        "start_ns": timeline.start_ns,
        "end_ns": timeline.end_ns,
        "threads": {str(number): name for number, name in timeline.threads.items()},
        "skipped_steps": timeline.skipped_steps,
        "ceilings": None if timeline.ceilings is None else [timeline.ceilings.gflops, timeline.ceilings.gbytes],
        "memory": [[sample.time_ns, sample.resident_bytes] for sample in timeline.memory],
    }
    plane = space.planes.add(id=len(space.planes) + 1, name=_OWN_PLANE)
    plane.stat_metadata[1].id, plane.stat_metadata[1].name = 1, _OWN_STAT
    plane.stats.add(metadata_id=1, str_value=json.dumps(facts, separators=(",", ":")))


def read_xspace(path: str | os.PathLike[str]) -> Timeline:
    """Read a timeline from a file that a profile has written.

    Args:
      path: the `.xplane.pb` file.
    Raises:
      DataLossError: the file is damaged.
      InvalidArgumentError: it is the profile of another program.
      OSError: it cannot be read.
    """
    try:
        space = XSpace.FromString(Path(path).read_bytes())
    except DecodeError as error:
        raise _damaged(path, str(error)) from error
    facts = _own_facts(space, path)
    try:
        return _timeline(space, facts)
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from error


def _own_facts(space: XSpace, path: str | os.PathLike[str]) -> dict[str, Any]:
    for plane in space.planes:
        if plane.name == _OWN_PLANE and plane.stats:
            try:
                facts = json.loads(plane.stats[0].str_value)
            except ValueError as error:
                raise _damaged(path, f"no JSON in plane {_OWN_PLANE}") from error
            if isinstance(facts, dict) and facts.get("format") == _FORMAT:
                return facts
    raise InvalidArgumentError(
        "this is no profile of Headrace",
        where=os.fspath(path),
        expected=f"a plane {_OWN_PLANE} of format {_FORMAT}",
        got="planes " + (", ".join(plane.name for plane in space.planes) or "none"),
        hint="name a *.xplane.pb file that headrace_viz.profile has written, or its folder",
    )


def _damaged(path: str | os.PathLike[str], got: str) -> DataLossError:
    return DataLossError(
        "a profile is damaged",
        where=os.fspath(path),
        expected="a whole file as headrace_viz.profile writes it",
        got=got[:200],
        hint="copy the file again, or record the profile again",
    )


def _timeline(space: XSpace, facts: dict[str, Any]) -> Timeline:
    reader = _Reader(int(facts["start_ns"]))
    for plane in space.planes:
        if plane.name != _OWN_PLANE:
            reader.read(plane)
    return Timeline(
        host=facts["host"],
        process_id=facts["process_id"],
        clock=ProcessClock(facts["clock_identity"], tuple(ClockPair(*map(int, pair)) for pair in facts["clock_pairs"])),
        start_ns=int(facts["start_ns"]),
        end_ns=int(facts["end_ns"]),
        threads={int(number): name for number, name in facts["threads"].items()},
        ops=tuple(reader.ops),
        steps=tuple(reader.step_events()),
        memory=tuple(MemorySample(*map(int, sample)) for sample in facts["memory"]),
        skipped_steps=int(facts["skipped_steps"]),
        ceilings=None if facts["ceilings"] is None else Ceilings(*map(float, facts["ceilings"])),
    )


class _Reader:
    """Mutable: what has been read of the planes so far."""

    def __init__(self, start_ns: int) -> None:
        self._start_ns = start_ns
        self.ops: list[TracedOp] = []
        self._steps: dict[int, dict[str, Any]] = {}
        self._runs: dict[int, list[OpEvent]] = {}
        self._called: dict[int, int] = {}
        self._segments: dict[int, list[SegmentEvent]] = {}
        self._transfers: dict[int, list[Transfer]] = {}

    def read(self, plane: XPlane) -> None:
        names = {number: metadata.name for number, metadata in plane.stat_metadata.items()}
        device = DEFAULT_DEVICE if plane.name == _HOST_PLANE else re.sub(_DEVICE_PLANE, "", plane.name)
        positions: dict[int, int] = {}
        marks: dict[int, tuple[str, str]] = {}
        for number, metadata in sorted(plane.event_metadata.items()):
            stats = _values(metadata.stats, names)
            if "type" in stats:
                positions[number] = len(self.ops)
                values: dict[str, Any] = {name: stats.get(name) for name in _OP_STATS}
                values["kernel"] = values["kernel"] or ""
                members = tuple((stats.get(_MEMBERS_STAT) or "").split())
                waits = bool(stats.get(_WAITS_STAT))
                name = members[0] if members else metadata.display_name
                self.ops.append(TracedOp(name=name, device=device, members=members, waits=waits, **values))
            else:
                marks[number] = metadata.name, stats.get("kind", "")
        for line in plane.lines:
            for event in line.events:
                stats = _values(event.stats, names)
                start = self._start_ns + event.offset_ps // 1000
                span = start, start + event.duration_ps // 1000
                if event.metadata_id in positions:
                    run = OpEvent(positions[event.metadata_id], *span, line.id)
                    self._runs.setdefault(stats["step_num"], []).append(run)
                else:
                    self._read_mark(*marks[event.metadata_id], device, line.id, *span, stats)

    def _read_mark(
        self, name: str, kind: str, device: str, thread: int, start: int, end: int, stats: dict[str, Any]
    ) -> None:
        step = stats["step_num"]
        match kind:
            case "segment" | "wait":
                sizes = stats["bytes_in"], stats["bytes_out"]
                ready = start - stats["queue_ns"]
                segment = SegmentEvent(
                    name, kind == "wait", device, stats["iteration"], thread, ready, start, end, *sizes
                )
                self._segments.setdefault(step, []).append(segment)
            case "transfer":
                facts: dict[str, Any] = {key: stats.get(key) for key in _TRANSFER_STATS}
                self._transfers.setdefault(step, []).append(Transfer(sent_ns=start, received_ns=end, **facts))
            case "queue":
                pass  # the segment that waited tells it too
            case _ if name == _PREPARE:
                self._called[step] = start
            case _:
                given = {key: stats.get(key, "") if key in _TEXT_STATS else stats[key] for key in _STEP_STATS}
                facts = {"step": step, "thread_id": thread, "is_first": bool(stats[_FIRST_STAT])}
                self._steps[step] = {**facts, "start_ns": start, "end_ns": end, **given}

    def step_events(self) -> Iterator[StepEvent]:
        for step, values in sorted(self._steps.items(), key=lambda item: (item[1]["end_ns"], item[0])):
            yield StepEvent(
                called_ns=self._called.get(step, values["start_ns"]),
                events=tuple(sorted(self._runs.get(step, ()), key=in_order)),
                segments=tuple(sorted(self._segments.get(step, ()), key=in_order)),
                transfers=tuple(sorted(self._transfers.get(step, ()), key=sent_order)),
                **values,
            )


def _values(stats: Any, names: dict[int, str]) -> dict[str, Any]:
    """Return named values.

    Raises:
      TypeError: one has another kind than a profile gives it.
    """

    def value(stat: XStat) -> Any:
        kind = stat.WhichOneof("value")
        if kind is None or (kind == "str_value") != (names[stat.metadata_id] in _TEXT_STATS):
            raise TypeError(f"{kind} of {names[stat.metadata_id]}")
        return getattr(stat, kind)

    return {names[stat.metadata_id]: value(stat) for stat in stats}
