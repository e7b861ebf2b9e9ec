"""Read event files, ours and others': events as they are, or the values of runs in one form whatever form they have.

Strict reading raises at the first damaged byte; lenient reading takes what is whole and reports the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from headrace.errors import DataLossError, NotFoundError
from headrace_viz.proto.event_pb2 import Event, HistogramProto, SessionLog, Summary
from headrace_viz.records import read_records
from headrace_viz.storage import Place, files_below, is_url
from headrace_viz.tensors import array_of

__all__ = ["LoggedValue", "find_runs", "read_events", "read_run"]

OnDamage = Callable[[DataLossError], None]


@dataclass(frozen=True, slots=True)
class LoggedValue:
    """What one tag had at one step.

    Attributes:
      tag: its name.
      step: training step.
      wall_time: seconds since the epoch.
      kind: name of the plugin that shows it: "scalars", "histograms", "images", "audio", "text", "pr_curves" and so on;
        "tensor" where it has none.
      value: a float for scalars; float64 `[buckets, 3]` (left, right, count) for histograms; for images and audio the
        encoded files, bytes; text as an array of str; else an array.
    """

    tag: str
    step: int
    wall_time: float
    kind: str
    value: Any


def find_runs(logdir: str | os.PathLike[str]) -> dict[str, list[Place]]:
    """Return the event files of every run in a folder and the folders in it, by the run's name.

    Args:
      logdir: the folder, or one event file; a path, or a URL that fsspec knows.
    Returns:
      Names are paths in `logdir`, "." for itself; both runs and files are sorted by name.
    Raises:
      NotFoundError: there is no event file.
    """
    if not is_url(logdir) and Path(logdir).is_file():
        return {".": [Path(logdir)]}
    below = files_below(logdir)
    runs = {folder: named for folder, files in below.items() if (named := list(filter(_is_event_file, files)))}
    if not runs:
        raise NotFoundError(
            f"there are no event files in '{os.fspath(logdir)}'",
            expected="files with 'tfevents' in their names",
            got=f"{sum(map(len, below.values()))} other files" if below else "no such folder, or an empty one",
            hint="give the folder that tensorboard --logdir is given",
        )
    return runs


def _is_event_file(place: Place) -> bool:
    return "tfevents" in str(place).rpartition("/")[2]


def read_events(
    path: str | os.PathLike[str], *, strict: bool = True, on_damage: OnDamage | None = None
) -> Iterator[Event]:
    """Iterate over the events of a file.

    Args:
      path: the file, or its URL.
      strict: raise at the first damage. False takes all whole events; a record that the end of the file cuts off is
        then no damage, since a writer may be at work.
      on_damage: where not strict, is told of each damage.
    Raises:
      DataLossError: a checksum is wrong, a record is cut off, or holds no event.
      OSError: the file cannot be read.

    Example:
      >>> import headrace_viz, tempfile
      >>> with tempfile.TemporaryDirectory() as logdir:
      ...     with headrace_viz.EventWriter(logdir) as writer:
      ...         writer.scalar("loss", 0.5, step=1)
      ...     print([event.step for event in read_events(writer.path)])
      [0, 1]
    """
    told = None if strict else on_damage or (lambda _: None)
    for number, data in enumerate(read_records(path, torn_tail_ok=not strict, on_damage=told)):
        try:
            yield Event.FromString(data)
        except DecodeError as cause:
            error = DataLossError(
                "a record of an event file holds no event",
                where=f"{os.fspath(path)}, whole record {number}",
                expected="a serialised Event",
                got=f"{data!r:.60}",
                hint="it may be another kind of record file",
            )
            if told is None:
                raise error from cause
            told(error)


def read_run(
    files: Sequence[Place],
    *,
    strict: bool = True,
    on_damage: OnDamage | None = None,
    kinds: frozenset[str] = frozenset(),
) -> list[LoggedValue]:
    """Return the values of a run in the order in which they were written, as TensorBoard would show them.

    A run that was resumed does not show what its earlier files have of the steps that were done again.

    Args:
      files: of one run, in order; see `find_runs`.
      strict: see `read_events`.
      on_damage: see `read_events`.
      kinds: which to return; none: all.
    Raises:
      DataLossError: see `read_events`; or a tensor is damaged.
    """
    values: list[LoggedValue] = []
    for event, resumed in _with_restarts(files, strict, on_damage):
        if resumed:
            values = [value for value in values if value.step < event.step]
        for value, kind in _kinds_of(event):
            if kinds and kind not in kinds:
                continue
            try:
                read = _value_of(value, kind)
            except DataLossError as error:
                error.at(f"tag '{value.tag}', step {event.step}")
                if strict:
                    raise
                (on_damage or (lambda _: None))(error)
                continue
            values.append(LoggedValue(value.tag, event.step, event.wall_time, kind, read))
    return values


def whole_events(files: Sequence[Place], *, strict: bool = True, on_damage: OnDamage | None = None) -> list[Event]:
    """Return the events of a run but for marks of files and restarts, without those that were done again.

    Args:
      files: see `read_run`.
      strict: see `read_events`.
      on_damage: see `read_events`.
    Raises:
      DataLossError: see `read_events`.
    """
    events: list[Event] = []
    for event, resumed in _with_restarts(files, strict, on_damage):
        if resumed:
            events = [kept for kept in events if kept.step < event.step or not kept.HasField("summary")]
        if event.WhichOneof("what") not in ("file_version", "session_log"):
            events.append(event)
    return events


def _with_restarts(files: Sequence[Place], strict: bool, on_damage: OnDamage | None) -> Iterator[tuple[Event, bool]]:
    """Yield each event and whether it says to forget what has its step or a later one."""
    started = False
    for path in files:
        plugins: dict[str, str] = {}
        for event in read_events(path, strict=strict, on_damage=on_damage):
            start = event.HasField("session_log") and event.session_log.status == SessionLog.START
            for value in event.summary.value:  # what a tag is, only its first value in a file needs to say
                if value.metadata.plugin_data.plugin_name:
                    plugins[value.tag] = value.metadata.plugin_data.plugin_name
                elif value.tag in plugins:
                    value.metadata.plugin_data.plugin_name = plugins[value.tag]
            yield event, start and started
            started = started or start


def _kinds_of(event: Event) -> Iterator[tuple[Summary.Value, str]]:
    old = {"simple_value": "scalars", "histo": "histograms", "image": "images", "audio": "audio"}
    for value in event.summary.value:
        form = value.WhichOneof("value")
        if form is not None:
            yield value, old.get(form) or value.metadata.plugin_data.plugin_name or "tensor"


def _value_of(value: Summary.Value, kind: str) -> Any:
    match value.WhichOneof("value"):
        case "simple_value":
            return value.simple_value
        case "histo":
            return _rows(value.histo)
        case "image":
            return [value.image.encoded_image_string]
        case "audio":
            return [value.audio.encoded_audio_string]
    array = array_of(value.tensor)
    if kind == "scalars" and array.size == 1 and array.dtype.kind in "biuf":
        return float(array.reshape(()))
    if kind == "images" and array.dtype == object and array.ndim == 1:
        return array[2:].tolist()
    if kind == "audio" and array.dtype == object:
        labelled = array.ndim > 1 and array.size > 0
        return (array.reshape(len(array), -1)[:, 0] if labelled else array.ravel()).tolist()
    if kind == "text" and array.dtype == object:
        return np.array([item.decode(errors="replace") for item in array.ravel()], str).reshape(array.shape)
    return array


def _rows(histogram: HistogramProto) -> Any:
    limits, counts = np.array(histogram.bucket_limit), np.array(histogram.bucket)
    if limits.size != counts.size:
        raise DataLossError(
            "a histogram of an event file is damaged",
            expected=f"{limits.size} counts, as there are edges",
            got=str(counts.size),
            hint="read the event as it is, or leave it out",
        )
    if not limits.size:
        return np.zeros([0, 3])
    return np.stack([np.concatenate([[min(histogram.min, limits[0])], limits[:-1]]), limits, counts], axis=1)
