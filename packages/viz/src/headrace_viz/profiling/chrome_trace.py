"""Timelines as the JSON that chrome://tracing and Perfetto open: one row per thread of a device.

A process is a group of rows, with the steps and what runs on its default device; every other device is a group of its
own. What waits in queues and what goes between devices may overlap, so it is written as asynchronous events; arrows
lead from each send to its receive.

Source: "Trace Event Format", the format's document at
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from headrace_viz.devices import DEFAULT_DEVICE
from headrace_viz.profiling.clock import wall_offsets
from headrace_viz.profiling.timeline import SegmentEvent, StepEvent, Timeline, Transfer

_Json = dict[str, Any]
_EVENTS_PER_PIECE = 5000


def write_chrome_trace(path: Path, timelines: Sequence[Timeline]) -> None:
    """Write timelines of one or several processes, brought onto one time axis; compressed if the name ends in `.gz`.

    Times count from the start of the first recording, because browsers keep fewer digits than a time since the epoch
    needs; that start is in `otherData`.

    Args:
      path: the file, which appears when it is whole.
      timelines: at least one.
    Raises:
      OSError: the file cannot be written.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with gzip.open(partial, "wb", compresslevel=3) if path.suffix == ".gz" else partial.open("wb") as file:
            for text in _json_text(timelines):
                file.write(text.encode())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _json_text(timelines: Sequence[Timeline]) -> Iterator[str]:
    """Yield the trace piece by piece: as one value it would take twenty times the memory of the timeline."""
    offsets = wall_offsets([timeline.clock for timeline in timelines])
    origin = min(timeline.start_ns + offset for timeline, offset in zip(timelines, offsets, strict=True))
    about = {"start_ns": str(origin), "processes": [timeline.title for timeline in timelines]}
    yield f'{{"displayTimeUnit":"ms","otherData":{json.dumps(about)},"traceEvents":['
    separator = ""
    rows = itertools.count(len(timelines) + 1)
    identities = itertools.count(1)
    for number, (timeline, offset) in enumerate(zip(timelines, offsets, strict=True), start=1):
        # Numbers of processes may be the same on two hosts, so rows are numbered here.
        events = _Process(timeline, number, rows, identities, origin - offset).events()
        while piece := list(itertools.islice(events, _EVENTS_PER_PIECE)):
            yield separator + json.dumps(piece, separators=(",", ":"))[1:-1]
            separator = ","
    yield "]}"


class _Process:
    """Mutable, used once: the events of one process, with the numbers of its groups of rows.

    Args:
      timeline: the process.
      number: the number of its own group.
      groups: gives the numbers of the groups of its other devices.
      identities: gives each asynchronous event and arrow a number.
      origin: the time, of its clock, at which the trace begins.
    """

    def __init__(
        self, timeline: Timeline, number: int, groups: Iterator[int], identities: Iterator[int], origin: int
    ) -> None:
        self._timeline = timeline
        self._number = number
        self._identities = identities
        self._origin = origin
        used = {DEFAULT_DEVICE: {step.thread_id for step in timeline.steps}}
        for step in timeline.steps:
            for run in step.events:
                used.setdefault(timeline.ops[run.op].device, set()).add(run.thread_id)
            for segment in step.segments:
                used.setdefault(segment.device, set()).add(segment.thread_id)
        self._threads = {device: used[device] for device in sorted(used)}
        self._groups = {device: number if device == DEFAULT_DEVICE else next(groups) for device in self._threads}

    def events(self) -> Iterator[_Json]:
        """Yield all events."""
        timeline, number = self._timeline, self._number
        for device, group in self._groups.items():
            title = timeline.title if group == number else f"{timeline.title} {device}"
            yield {"ph": "M", "name": "process_name", "pid": group, "tid": 0, "args": {"name": title}}
            for thread in sorted(self._threads[device]):
                name = timeline.threads.get(thread, str(thread))
                yield {"ph": "M", "name": "thread_name", "pid": group, "tid": thread, "args": {"name": name}}
        for step in timeline.steps:
            yield from self._step(step)
        for stall in timeline.stalls():
            yield self._slice("between steps", "stall", number, stall.thread_id, stall.start_ns, stall.end_ns, {})
        for sample in timeline.memory:
            yield self._counter("resident memory", sample.time_ns, sample.resident_bytes)
        for time_ns, arena_bytes in timeline.arena_use():
            yield self._counter("arenas", time_ns, arena_bytes)

    def _step(self, step: StepEvent) -> Iterator[_Json]:
        number, thread = self._number, step.thread_id
        if step.called_ns < step.start_ns:
            about: _Json = {"step": step.step}
            yield self._slice("prepare", "prepare", number, thread, step.called_ns, step.start_ns, about)
        about = _step_arguments(step)
        yield self._slice(f"step {step.step}", "step", number, thread, step.start_ns, step.end_ns, about)
        for segment in step.segments:
            yield from self._segment(segment, step.step)
        for run in step.events:
            op = self._timeline.ops[run.op]
            about = {
                "step": step.step,
                "name": op.name,
                "device": op.device,
                "kernel": op.kernel,
                "input bytes": op.input_bytes,
                "output bytes": op.output_bytes,
                "floating-point operations": op.flops,
            }
            known = {name: value for name, value in about.items() if value not in (None, "")}
            if op.members:
                known["operations"] = list(op.members)
            group = self._groups[op.device]
            yield self._slice(op.type, "operation", group, run.thread_id, run.start_ns, run.end_ns, known)
        for transfer in step.transfers:
            yield from self._transfer(transfer, step.step)

    def _segment(self, segment: SegmentEvent, step: int) -> Iterator[_Json]:
        group, thread = self._groups[segment.device], segment.thread_id
        about = {
            "step": step,
            "device": segment.device,
            "iteration": segment.iteration,
            "bytes in": segment.bytes_in,
            "bytes out": segment.bytes_out,
            "ns in queue": segment.queue_ns,
        }
        kind = "wait" if segment.waits else "segment"
        yield self._slice(segment.name, kind, group, thread, segment.start_ns, segment.end_ns, about)
        if segment.queue_ns:
            times = segment.ready_ns, segment.start_ns
            yield from self._asynchronous(segment.name, "queue", group, thread, *times, {"step": step})

    def _transfer(self, transfer: Transfer, step: int) -> Iterator[_Json]:
        source = self._groups.get(transfer.source, self._number)
        target = self._groups.get(transfer.target, self._number)
        about = {
            "step": step,
            "from": transfer.source,
            "to": transfer.target,
            "bytes": transfer.bytes,
            "ns the receiver waited": transfer.waited_ns,
        }
        name, times = transfer.tensor, (transfer.sent_ns, transfer.received_ns)
        thread = transfer.target_thread or transfer.source_thread or 0
        yield from self._asynchronous(name, "transfer", target, thread, *times, about)
        if transfer.source_thread is not None and transfer.target_thread is not None:
            arrow = {"name": name, "cat": "transfer", "id": next(self._identities)}
            start, end = (self._place(group, time_ns) for group, time_ns in zip((source, target), times, strict=True))
            yield {"ph": "s", **arrow, **start, "tid": transfer.source_thread}
            # An arrow belongs to the slice around its end, and a slice does not contain the moment at which it ends.
            end["ts"] -= 0.001
            yield {"ph": "f", "bp": "e", **arrow, **end, "tid": transfer.target_thread}

    def _place(self, group: int, time_ns: int) -> _Json:
        return {"pid": group, "ts": (time_ns - self._origin) / 1000}

    def _slice(
        self, name: str, kind: str, group: int, thread: int, start_ns: int, end_ns: int, arguments: _Json
    ) -> _Json:
        place = self._place(group, start_ns)
        return {
            "ph": "X",
            "name": name,
            "cat": kind,
            **place,
            "tid": thread,
            "dur": (end_ns - start_ns) / 1000,
            "args": arguments,
        }

    def _asynchronous(
        self, name: str, kind: str, group: int, thread: int, start_ns: int, end_ns: int, arguments: _Json
    ) -> Iterator[_Json]:
        shared = {"name": name, "cat": kind, "id": next(self._identities), "tid": thread}
        yield {"ph": "b", **shared, **self._place(group, start_ns), "args": arguments}
        yield {"ph": "e", **shared, **self._place(group, end_ns)}

    def _counter(self, name: str, time_ns: int, value: int) -> _Json:
        return {"ph": "C", "name": name, **self._place(self._number, time_ns), "tid": 0, "args": {"bytes": value}}


def _step_arguments(step: StepEvent) -> _Json:
    arguments = {
        "backend": step.backend,
        "fed bytes": step.argument_bytes,
        "fetched bytes": step.result_bytes,
        "arena bytes": step.arena_bytes,
    }
    return {**arguments, "error": step.error} if step.error else arguments
