"""Events as bytes: TensorBoard's own messages must read from them what was meant."""

from __future__ import annotations

import math
import struct

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import DTypeError, InvalidArgumentError, ShapeError
from headrace_viz import events
from headrace_viz.proto.event_pb2 import Event, Summary

STEPS = st.integers(-(2**63), 2**63 - 1)
TAGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@settings(deadline=None)
@given(st.floats(0, 2e9), STEPS, TAGS, st.floats(width=32, allow_nan=False))
def test_spliced_event_equals_the_message(wall_time: float, step: int, tag: str, value: float) -> None:
    number = events.scalar_bytes(value)
    spliced = Event.FromString(events.scalar_event(wall_time, step, events.scalar_head(tag), number))
    whole = Event.FromString(events.first_scalar_event(wall_time, step, tag, number))
    assert whole.summary.value[0].metadata.plugin_data.plugin_name == "scalars"
    whole.summary.value[0].ClearField("metadata")
    assert spliced == whole
    assert (spliced.wall_time, spliced.step, spliced.summary.value[0].tag) == (wall_time, step, tag)
    assert list(spliced.summary.value[0].tensor.float_val) == [value]


def test_messages_are_tensorboards() -> None:
    event_pb2 = pytest.importorskip("tensorboard.compat.proto.event_pb2")
    scalar = event_pb2.Event.FromString(events.first_scalar_event(12.5, 7, "loss", events.scalar_bytes(0.25)))
    (value,) = scalar.summary.value
    assert (scalar.wall_time, scalar.step, value.tag) == (12.5, 7, "loss")
    assert (value.tensor.dtype, len(value.tensor.tensor_shape.dim), list(value.tensor.float_val)) == (1, 0, [0.25])
    assert value.metadata.plugin_data.plugin_name == "scalars"
    assert event_pb2.Event.FromString(events.file_version_event(1.0)).file_version == "brain.Event:2"
    start = event_pb2.Event.FromString(events.session_start_event(1.0, 9))
    assert (start.step, start.session_log.status) == (9, event_pb2.SessionLog.START)
    assert event_pb2.Event.FromString(events.graph_event(1.0, b"abc")).graph_def == b"abc"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.1, np.float32(0.1)),
        (np.float64(0.1), np.float32(0.1)),
        (np.float16(0.5), 0.5),
        (ml_dtypes.bfloat16(0.5), 0.5),
        (3, 3.0),
        (True, 1.0),
        (np.array([2.5]), 2.5),
        (np.array(7, np.int64), 7.0),
        (1e39, math.inf),
        (-1e39, -math.inf),
        (2**200, math.inf),
        (-(10**400), -math.inf),
        (math.inf, math.inf),
    ],
)
def test_numbers_become_float32(value: object, expected: float) -> None:
    assert struct.unpack("<f", events.scalar_bytes(value)) == (expected,)


@pytest.mark.parametrize("value", [math.nan, np.float32(math.nan), np.array(math.nan)])
def test_B05_nan_stays_nan(value: object) -> None:
    (number,) = struct.unpack("<f", events.scalar_bytes(value))
    assert math.isnan(number)


@pytest.mark.parametrize("value", ["1.5", None, 1j, b"1", {}, np.array(["a"]), [object()]])
def test_what_is_no_real_number(value: object) -> None:
    with pytest.raises(DTypeError, match=r"needs a real number\n(.*\n)*.*got:"):
        events.scalar_bytes(value)


@pytest.mark.parametrize("value", [[1.0, 2.0], np.zeros([0]), np.zeros([2, 1])])
def test_more_or_less_than_one_number(value: object) -> None:
    with pytest.raises(ShapeError, match=r"needs one number\n(.*\n)*.*got: +shape"):
        events.scalar_bytes(value)


@pytest.mark.parametrize("step", [2**63, -(2**63) - 1, 1.0, "1", None])
def test_what_is_no_step(step: int) -> None:
    with pytest.raises(InvalidArgumentError, match="an event needs a step"):
        events.checked_step(step)


def test_numpy_integers_are_steps() -> None:
    assert events.checked_step(np.int32(5)) == 5


@pytest.mark.parametrize("time", [math.nan, -math.inf, "now", [1.0], 10**400])
def test_what_is_no_time(time: float) -> None:
    with pytest.raises(InvalidArgumentError, match=r"an event needs a time\n.*\n +got: "):
        events.checked_wall_time(time)


@pytest.mark.parametrize("time", [None, 0, -1.5, np.float32(3)])
def test_times_are_finite_numbers_or_left_out(time: float | None) -> None:
    events.checked_wall_time(time)


@pytest.mark.parametrize("tag", ["\ud800", b"loss", None, 3])
def test_what_is_no_tag(tag: str) -> None:
    with pytest.raises(InvalidArgumentError, match="an event needs a tag"):
        events.scalar_head(tag)


@pytest.mark.parametrize("data", [b"\xff\xff", "text", None, np.array([b"", b""], object)])
def test_what_is_no_summary(data: bytes) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot write a summary"):
        events.summary_event(0.0, 0, data)


def test_summary_of_an_operation_is_kept() -> None:
    made = Summary(value=[Summary.Value(tag="a", simple_value=2.0)])
    event = Event.FromString(events.summary_event(1.0, 5, made.SerializeToString()))
    assert (event.step, event.summary) == (5, made)
    array = np.array(made.SerializeToString(), object)
    assert events.summary_event(1.0, 5, array) == event.SerializeToString()
