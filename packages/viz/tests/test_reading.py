"""Readers: the values of runs in one form, whoever wrote them; whole ones from damaged files; nothing from noise."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import DataLossError, NotFoundError
from headrace.graph.proto.tensor_pb2 import TensorProto, TensorShapeProto
from headrace.graph.proto.types_pb2 import DT_STRING
from headrace_viz import EventWriter, SummaryWriter
from headrace_viz.proto.event_pb2 import Event, HistogramProto, Summary, SummaryMetadata
from headrace_viz.reading import find_runs, read_events, read_run, whole_events
from headrace_viz.records import frame, read_records


def _write(path: Path, *events: Event) -> Path:
    path.write_bytes(b"".join(frame(event.SerializeToString()) for event in events))
    return path


def _one(path: Path, value: Summary.Value) -> Path:
    return _write(path, Event(step=3, wall_time=1.5, summary=Summary(value=[value])))


def test_values_of_every_kind(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        for step in (1, 2):
            writer.add_scalar("loss", step / 4, step)
        writer.add_histogram("weights", [0, 1, 1, 4], 3, bins=2)
        writer.add_images("digits", np.zeros([2, 3, 4, 5], np.uint8), 3)
        writer.add_audio("tone", np.zeros(10, np.float32), 3)
        writer.add_text("note", ["a", "损失"], 3)
        writer.add_tensor("table", np.eye(2, dtype=np.int32), 3)
    values = {(value.tag, value.step): value for value in read_run(find_runs(tmp_path)["."])}
    kinds = {tag: value.kind for (tag, _), value in values.items()}
    expected = dict(loss="scalars", weights="histograms", digits="images", tone="audio", note="text", table="tensor")
    assert kinds == expected
    assert [values["loss", step].value for step in (1, 2)] == [0.25, 0.5]
    assert values["weights", 3].value.tolist() == [[0, 2, 3], [2, 4, 1]]
    assert [data[1:4] for data in values["digits", 3].value] == [b"PNG"] * 2
    assert [data[:4] for data in values["tone", 3].value] == [b"RIFF"]
    assert values["note", 3].value.tolist() == ["a", "损失"]
    np.testing.assert_array_equal(values["table", 3].value, np.eye(2))


@pytest.mark.parametrize(
    ("shape", "sounds"),
    [([], [b"0"]), ([2], [b"0", b"1"]), ([2, 2], [b"0", b"2"]), ([0], []), ([3, 0], []), ([0, 2], [])],
)
def test_sounds_of_every_shape(tmp_path: Path, shape: list[int], sounds: list[bytes]) -> None:
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="audio"))
    items = [b"%d" % number for number in range(math.prod(shape))]
    dims = TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in shape])
    data = TensorProto(dtype=DT_STRING, tensor_shape=dims, string_val=items)
    path = _one(tmp_path / "events.tfevents", Summary.Value(tag="tone", tensor=data, metadata=metadata))
    (value,) = read_run([path])
    assert value.value == sounds


def test_values_in_the_form_of_tensorflow_1(tmp_path: Path) -> None:
    histogram = HistogramProto(min=-1, max=2, num=3, bucket_limit=[0, 2], bucket=[1, 2])
    summary = Summary(
        value=[
            Summary.Value(tag="a", simple_value=math.inf),
            Summary.Value(tag="b", histo=histogram),
            Summary.Value(tag="c", image=Summary.Image(encoded_image_string=b"png")),
            Summary.Value(tag="d", audio=Summary.Audio(encoded_audio_string=b"wav")),
            Summary.Value(tag="e", histo=HistogramProto()),
            Summary.Value(tag="f"),
        ]
    )
    path = _write(tmp_path / "tfevents", Event(step=3, wall_time=1.5, summary=summary))
    a, b, c, d, e = read_run([path])
    assert (a.kind, a.value, a.step, a.wall_time) == ("scalars", math.inf, 3, 1.5)
    assert (b.kind, b.value.tolist()) == ("histograms", [[-1, 0, 1], [0, 2, 2]])
    assert (c.kind, c.value, d.kind, d.value) == ("images", [b"png"], "audio", [b"wav"])
    assert e.value.shape == (0, 3)


def test_files_of_tensorboardx(tmp_path: Path) -> None:
    tensorboardx = pytest.importorskip("tensorboardX")
    with tensorboardx.SummaryWriter(str(tmp_path)) as writer:
        writer.add_scalar("loss", 0.5, 7)
        writer.add_histogram("weights", np.arange(10), 7)
        writer.add_text("note", "text", 7)
    values = {value.tag.split("/")[0]: value for value in read_run(find_runs(tmp_path)["."])}
    assert (values["loss"].value, values["loss"].step) == (0.5, 7)
    assert values["weights"].value[:, 2].sum() == 10
    assert values["note"].value.tolist() == ["text"]


def test_a_resumed_run_shows_each_step_once(tmp_path: Path) -> None:
    with EventWriter(tmp_path, purge_step=0) as writer:
        for step in range(6):
            writer.scalar("loss", step, step)
    with EventWriter(tmp_path, purge_step=3) as writer:
        writer.scalar("loss", 103, 3)
    files = find_runs(tmp_path)["."]
    assert [(value.step, value.value) for value in read_run(files)] == [(0, 0), (1, 1), (2, 2), (3, 103)]
    assert [event.step for event in whole_events(files)] == [0, 1, 2, 3]


def test_kinds_that_are_wanted(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("a", 1, 1)
        writer.add_text("b", "text", 1)
    assert [value.tag for value in read_run(find_runs(tmp_path)["."], kinds=frozenset({"text"}))] == ["b"]


def test_runs_of_a_folder(tmp_path: Path) -> None:
    for run in ("", "b/c", "a"):
        EventWriter(tmp_path / run).close()
    runs = find_runs(tmp_path)
    assert list(runs) == [".", "a", "b/c"]
    (file,) = runs["a"]
    assert find_runs(file) == {".": [file]}


def test_no_runs(tmp_path: Path) -> None:
    with pytest.raises(
        NotFoundError, match=r"there are no event files in (.|\n)*got: +no such folder, or an empty one"
    ):
        find_runs(tmp_path)
    with pytest.raises(NotFoundError, match="no such folder"):
        find_runs(tmp_path / "absent")


def test_a_record_that_holds_no_event(tmp_path: Path) -> None:
    path = tmp_path / "tfevents"
    good = Event(step=1).SerializeToString()
    path.write_bytes(frame(good) + frame(b"\xff\xff") + frame(good))
    with pytest.raises(DataLossError, match=r"holds no event\n.*whole record 1"):
        list(read_events(path))
    told: list[DataLossError] = []
    assert len(list(read_events(path, strict=False, on_damage=told.append))) == 2
    assert len(told) == 1


@pytest.mark.parametrize(
    "value",
    [
        Summary.Value(tag="a", tensor=TensorProto(dtype=1, float_val=[1, 2])),
        Summary.Value(tag="a", histo=HistogramProto(bucket_limit=[1, 2], bucket=[1])),
    ],
)
def test_a_damaged_value(tmp_path: Path, value: Summary.Value) -> None:
    path = _one(tmp_path / "tfevents", value)
    with pytest.raises(DataLossError, match=r"of an event file is damaged\n  where: +tag 'a', step 3"):
        read_run([path])
    told: list[DataLossError] = []
    assert read_run([path], strict=False, on_damage=told.append) == []
    assert len(told) == 1


def test_a_file_that_is_still_being_written_is_not_damaged(tmp_path: Path) -> None:
    path = tmp_path / "tfevents"
    path.write_bytes(frame(Event(step=1).SerializeToString()) + b"\x05")
    with pytest.raises(DataLossError, match="ends inside a record"):
        list(read_events(path))
    told: list[DataLossError] = []
    assert len(list(read_events(path, strict=False, on_damage=told.append))) == 1
    assert told == []


@pytest.fixture(name="whole", scope="module")
def _whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz")
    with SummaryWriter(folder) as writer:
        writer.add_scalar("a", 1, 1)
        writer.add_histogram("b", [1, 2], 1)
        writer.add_text("c", ["x"], 1)
    (path,) = find_runs(folder)["."]
    return path


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_fuzz_of_the_readers(whole: Path, data: st.DataObject) -> None:
    records = [bytearray(record) for record in read_records(whole)]
    for _ in range(data.draw(st.integers(1, 4))):  # records whose checksums are right and whose content is not
        record = records[data.draw(st.integers(0, len(records) - 1))]
        place = data.draw(st.integers(0, len(record)))
        record[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    path = whole.with_name("fuzzed")
    path.write_bytes(b"".join(frame(bytes(record)) for record in records) + data.draw(st.binary(max_size=20)))
    read_run([path], strict=False)
    with contextlib.suppress(DataLossError):
        read_run([path])
