"""Timelines as the JSON that chrome://tracing and Perfetto open: one process per process, one row per thread.

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

from headrace_viz.profiling.clock import wall_offsets
from headrace_viz.profiling.timeline import StepEvent, Timeline

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
    for number, (timeline, offset) in enumerate(zip(timelines, offsets, strict=True), start=1):
        # Numbers of processes may be the same on two hosts, so rows are numbered here.
        events = _process_events(timeline, number, origin - offset)
        while piece := list(itertools.islice(events, _EVENTS_PER_PIECE)):
            yield separator + json.dumps(piece, separators=(",", ":"))[1:-1]
            separator = ","
    yield "]}"


def _process_events(timeline: Timeline, process: int, origin: int) -> Iterator[_Json]:
    yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": timeline.title}}
    for thread, name in timeline.threads.items():
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": name}}

    def complete(name: str, kind: str, thread: int, start_ns: int, end_ns: int, arguments: _Json) -> _Json:
        return {
            "ph": "X",
            "name": name,
            "cat": kind,
            "pid": process,
            "tid": thread,
            "ts": (start_ns - origin) / 1000,
            "dur": (end_ns - start_ns) / 1000,
            "args": arguments,
        }

    for step in timeline.steps:
        if step.called_ns < step.start_ns:
            number = {"step": step.step}
            yield complete("prepare", "prepare", step.thread_id, step.called_ns, step.start_ns, number)
        yield complete(f"step {step.step}", "step", step.thread_id, step.start_ns, step.end_ns, _step_arguments(step))
        for run in step.events:
            op = timeline.ops[run.op]
            about: _Json = {
                "step": step.step,
                "name": op.name,
                "device": op.device,
                "kernel": op.kernel,
                "input bytes": op.input_bytes,
                "output bytes": op.output_bytes,
                "floating-point operations": op.flops,
            }
            known = {name: value for name, value in about.items() if value not in (None, "")}
            yield complete(op.type, "operation", step.thread_id, run.start_ns, run.end_ns, known)
    for stall in timeline.stalls():
        yield complete("between steps", "stall", stall.thread_id, stall.start_ns, stall.end_ns, {})
    for sample in timeline.memory:
        yield _counter("resident memory", process, sample.time_ns - origin, {"bytes": sample.resident_bytes})
    for time_ns, arena_bytes in timeline.arena_use():
        yield _counter("arenas", process, time_ns - origin, {"bytes": arena_bytes})


def _step_arguments(step: StepEvent) -> _Json:
    arguments = {
        "backend": step.backend,
        "fed bytes": step.argument_bytes,
        "fetched bytes": step.result_bytes,
        "arena bytes": step.arena_bytes,
    }
    return {**arguments, "error": step.error} if step.error else arguments


def _counter(name: str, process: int, time_ns: int, values: _Json) -> _Json:
    return {"ph": "C", "name": name, "pid": process, "tid": 0, "ts": time_ns / 1000, "args": values}
