"""Events as bytes: what a scalar, a graph or a mark of a run is in an event file. Nothing here touches files or clocks.

A scalar is a rank-0 DT_FLOAT tensor of the plugin `scalars`: the one form that every TensorBoard loader shows. (The
fast loader leaves out float64 scalars without a word.)
"""

from __future__ import annotations

import functools
import math
import operator
import struct
from collections.abc import Sequence
from typing import SupportsIndex

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from headrace.errors import DTypeError, InvalidArgumentError, ShapeError
from headrace.graph.proto.tensor_pb2 import TensorProto, TensorShapeProto
from headrace.graph.proto.types_pb2 import DT_FLOAT
from headrace_viz.proto.event_pb2 import (
    Event,
    SessionLog,
    SourceMetadata,
    Summary,
    SummaryMetadata,
    TaggedRunMetadata,
)

SerializedSummary = bytes | NDArray[np.object_]

_FLOAT_BYTES = 4
_SCALAR_METADATA = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="scalars"))


def file_version_event(wall_time: float) -> bytes:
    """Return the event that every file must begin with.

    Args:
      wall_time: seconds since the epoch.
    """
    return Event(
        wall_time=wall_time, file_version="brain.Event:2", source_metadata=SourceMetadata(writer="headrace-viz")
    ).SerializeToString()


def session_start_event(wall_time: float, step: SupportsIndex) -> bytes:
    """Return the event that says: forget what earlier files of this run hold at `step` and later.

    A reader takes the first of these that it meets in a run for the start of the run and forgets nothing, so a writer
    that resumes gives two.

    Args:
      wall_time: seconds since the epoch.
      step: first step that is to be forgotten.
    """
    return Event(
        wall_time=wall_time, step=checked_step(step), session_log=SessionLog(status=SessionLog.START)
    ).SerializeToString()


def graph_event(wall_time: float, graph_def: bytes) -> bytes:
    """Return the event of a run's graph.

    Args:
      wall_time: seconds since the epoch.
      graph_def: a serialised GraphDef.
    """
    return Event(wall_time=wall_time, graph_def=graph_def).SerializeToString()


def summary_event(wall_time: float, step: SupportsIndex, summary: SerializedSummary) -> bytes:
    """Return the event of a serialised `Summary`, as summary operations give it.

    Args:
      wall_time: seconds since the epoch.
      step: training step.
      summary: a serialised Summary, or a string array `[]` of one, as `session.run` gives it.
    Raises:
      InvalidArgumentError: `summary` is no serialised Summary, or the step is no 64-bit integer.
    """
    try:
        parsed = Summary.FromString(summary.item() if isinstance(summary, np.ndarray) else summary)
    except (DecodeError, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            "cannot write a summary",
            expected="bytes of a serialised Summary, as a summary operation gives them",
            got=f"{type(summary).__name__} {summary!r:.60}",
            hint="pass the fetched value of hr.apply_op('ScalarSummary', ...) itself",
        ) from error
    return Event(wall_time=wall_time, step=checked_step(step), summary=parsed).SerializeToString()


def values_event(wall_time: float, step: int, values: Sequence[Summary.Value]) -> bytes:
    """Return the event of some values.

    Args:
      wall_time: seconds since the epoch.
      step: training step.
      values: at least one.
    """
    return Event(wall_time=wall_time, step=step, summary=Summary(value=values)).SerializeToString()


def run_metadata_event(wall_time: float, tag: str, metadata: bytes) -> bytes:
    """Return the event of what a step took.

    Args:
      wall_time: seconds since the epoch.
      tag: by which it is chosen in TensorBoard.
      metadata: a serialised RunMetadata.
    """
    record = TaggedRunMetadata(tag=tag, run_metadata=metadata)
    return Event(wall_time=wall_time, tagged_run_metadata=record).SerializeToString()


def first_scalar_event(wall_time: float, step: int, tag: str, value: bytes) -> bytes:
    """Return the event of a tag's first scalar in a file, which tells the plugin that it belongs to.

    Args:
      wall_time: seconds since the epoch.
      step: training step.
      tag: the name of the curve, kept as it is.
      value: float32, little-endian, as `scalar_bytes` gives it.
    """
    tensor = TensorProto(dtype=DT_FLOAT, tensor_shape=TensorShapeProto(), float_val=struct.unpack("<f", value))
    summary = Summary(value=[Summary.Value(tag=tag, tensor=tensor, metadata=_SCALAR_METADATA)])
    return Event(wall_time=wall_time, step=step, summary=summary).SerializeToString()


def scalar_head(tag: str) -> bytes:
    """Return what all later scalars of a tag have in common, see `scalar_event`.

    Raises:
      InvalidArgumentError: the tag is no text that UTF-8 can hold.
    """
    checked_tag(tag)
    tensor = TensorProto(dtype=DT_FLOAT, tensor_shape=TensorShapeProto(), float_val=[0.0])
    event = Event(summary=Summary(value=[Summary.Value(tag=tag, tensor=tensor)])).SerializeToString()
    return event[:-_FLOAT_BYTES]


def scalar_event(wall_time: float, step: int, head: bytes, value: bytes) -> bytes:
    """Return the event of a scalar: 1 us, where filling the messages anew costs 5 us.

    Fields of a message stand in any order, and a float32 is stored in 4 bytes; so an event that has only the field
    `summary`, and in it only the value still missing at the end, becomes any scalar event of that tag by putting time
    and step before it and the value behind it.

    Args:
      wall_time: seconds since the epoch.
      step: training step.
      head: from `scalar_head`.
      value: float32, little-endian, as `scalar_bytes` gives it.
    """
    return struct.pack("<Bd", 0x09, wall_time) + _step_field(step) + head + value


@functools.lru_cache(maxsize=64)  # many tags are written at one step
def _step_field(step: int) -> bytes:
    return Event(step=step).SerializeToString()


def scalar_bytes(value: object) -> bytes:
    """Return a number as the 4 bytes of a little-endian float32. NaN and infinities stay what they are.

    Args:
      value: a real number or an array `[]` or of one element; beyond float32's range it becomes an infinity, as a cast
        would make it.
    Raises:
      DTypeError: not a real number.
      ShapeError: an array of more or fewer than one element.
    """
    number = value if isinstance(value, float | int) else _real_number(value)
    try:
        return struct.pack("<f", float(number))
    except OverflowError:
        return struct.pack("<f", math.inf if number > 0 else -math.inf)


def _real_number(value: object) -> float:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        raise DTypeError(
            "a scalar summary needs a real number",
            expected="an integer, floating-point or Boolean value",
            got=f"{type(value).__name__} {value!r:.60}",
            hint="fetch the tensor and pass its value",
        )
    if array.size != 1:
        raise ShapeError(
            "a scalar summary needs one number",
            expected="shape []",
            got=f"shape {list(array.shape)}",
            hint="reduce it first, for instance by its mean",
        )
    return float(array.reshape(()))


def checked_step(step: SupportsIndex) -> int:
    """Return `step` as an int.

    Raises:
      InvalidArgumentError: it is no integer of 64 bits.
    """
    try:
        number = operator.index(step)
    except TypeError:
        number = None
    if number is None or not -(2**63) <= number < 2**63:
        raise InvalidArgumentError(
            "an event needs a step",
            expected="an integer that fits into 64 bits",
            got=f"{type(step).__name__} {step!r:.60}",
            hint="pass the number of steps done so far",
        )
    return number


def checked_wall_time(wall_time: float | None) -> None:
    """See that a time is one.

    Args:
      wall_time: seconds since the epoch; None for now.
    Raises:
      InvalidArgumentError: it is no finite number.
    """
    if wall_time is None:
        return
    try:
        is_time = math.isfinite(wall_time)
    except (TypeError, OverflowError):
        is_time = False
    if not is_time:
        raise InvalidArgumentError(
            "an event needs a time",
            expected="seconds since the epoch, a finite number",
            got=f"{type(wall_time).__name__} {wall_time!r:.60}",
            hint="leave it out: the time is then now",
        )


def checked_tag(tag: str) -> str:
    """Return `tag` itself.

    Raises:
      InvalidArgumentError: it is no text, or has surrogates, which UTF-8 cannot hold.
    """
    try:
        tag.encode()
    except (AttributeError, UnicodeEncodeError) as error:
        raise InvalidArgumentError(
            "an event needs a tag",
            expected="text that UTF-8 can hold",
            got=f"{type(tag).__name__} {tag!r:.60}",
            hint="pass a name such as 'train/loss'",
        ) from error
    return tag
