"""Summary operations: what TensorFlow's operations of these names give, and clear refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
import headrace_viz
from headrace.errors import AlreadyExistsError, AttrError, ShapeError
from headrace.testing import OpCase, check_case
from headrace_viz.histograms import histogram_proto
from headrace_viz.png import encode_png
from headrace_viz.proto.event_pb2 import Event, Summary, SummaryMetadata
from headrace_viz.records import read_records
from headrace_viz.tensors import array_of, tensor_proto


def strings(*values: bytes) -> Any:
    """A vector of bytes objects."""
    return np.array(values, object)


def serialized(**values: float) -> Any:
    """A Summary with these values by tag, as an operation gives it."""
    summary = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])
    return np.array(summary.SerializeToString(), object)


PIXELS = np.random.default_rng(1).integers(0, 256, [5, 3, 4, 3], np.uint8)

HALVES = np.float16(
    [2.041, -2.557, 0.4182, -0.568, -0.4526, -0.2156, -2.02, -0.2319, -0.865, 3.322, 0.2258, -0.3525, -0.2812, -0.668]
).reshape(1, 2, 7, 1)
BYTES_OF_HALVES = np.uint8([206, 30, 144, 106, 110, 119, 50, 119, 94, 255, 136, 114, 117, 102]).reshape(1, 2, 7, 1)


def _string(*values: Summary.Value) -> Any:
    return np.array(Summary(value=values).SerializeToString(), object)


def histogram(tag: str, values: list[float]) -> Any:
    """A Summary with a histogram; what is in one is checked in test_histograms.py."""
    return _string(Summary.Value(tag=tag, histo=histogram_proto(np.array(values, np.float64))))


def pictures(tag: str, pixels: Any, limit: int = 3) -> Any:
    """A Summary with pictures; what PNG is, is checked in test_png.py."""
    _, height, width, channels = pixels.shape
    images = [
        Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=encode_png(picture))
        for picture in pixels[:limit]
    ]
    return _string(
        *(
            Summary.Value(tag=f"{tag}/image" + ("" if limit == 1 else f"/{number}"), image=image)
            for number, image in enumerate(images)
        )
    )


def tensor(tag: str, value: Any, metadata: SummaryMetadata | None = None) -> Any:
    """A Summary with a tensor; what is in one is checked in test_tensors.py."""
    return _string(Summary.Value(tag=tag, tensor=tensor_proto(value), metadata=metadata or SummaryMetadata()))


CASES = [
    OpCase("ScalarSummary/scalar", "ScalarSummary", [b"a", np.float32(1.5)], expected=serialized(a=1.5)),
    OpCase(
        "ScalarSummary/vector",
        "ScalarSummary",
        [strings(b"a", b"b"), np.array([1, 2], np.int64)],
        expected=serialized(a=1, b=2),
    ),
    OpCase("ScalarSummary/empty", "ScalarSummary", [strings(), np.zeros(0, np.float16)], expected=serialized()),
    OpCase(
        "ScalarSummary/B05 not finite",
        "ScalarSummary",
        [strings(b"n", b"p", b"m"), np.array([np.nan, np.inf, -np.inf], np.float32)],
        expected=serialized(n=np.nan, p=np.inf, m=-np.inf),
    ),
    OpCase("ScalarSummary/beyond float32", "ScalarSummary", [b"a", np.float64(1e39)], expected=serialized(a=np.inf)),
    OpCase(
        "ScalarSummary/B07 tags are kept",
        "ScalarSummary",
        [strings(b"loss: (a) %", "损失".encode()), np.ones(2, np.float32)],
        expected=serialized(**{"loss: (a) %": 1, "损失": 1}),
    ),
    OpCase(
        "ScalarSummary/other shapes",
        "ScalarSummary",
        [strings(b"a"), np.ones(2, np.float32)],
        expected=None,
        raises="tags and values of (a )?summary .*do not match",
    ),
    OpCase(
        "ScalarSummary/other",
        "ScalarSummary",
        [b"\xff", np.float32(1)],
        expected=None,
        raises="a tag that is no text",
    ),
    OpCase(
        "MergeSummary/several",
        "MergeSummary",
        [[serialized(a=1), strings(serialized(b=2).item(), serialized(c=3).item()), b""]],
        expected=serialized(a=1, b=2, c=3),
    ),
    OpCase(
        "MergeSummary/one tag twice",
        "MergeSummary",
        [[serialized(a=1), serialized(a=1)]],
        expected=None,
        raises="merges two values of one tag\n(.*\n)*.*'a' twice",
    ),
    OpCase(
        "HistogramSummary/B03 zeros",
        "HistogramSummary",
        [b"a", np.zeros([3], np.float32)],
        expected=histogram("a", [0, 0, 0]),
    ),
    OpCase(
        "HistogramSummary/B03 empty", "HistogramSummary", [b"a", np.zeros([0], np.float32)], expected=histogram("a", [])
    ),
    OpCase(
        "HistogramSummary/integers",
        "HistogramSummary",
        ["损失".encode(), np.array([[1, 2], [2, -7]], np.int64)],
        expected=histogram("损失", [1, 2, 2, -7]),
    ),
    OpCase(
        "HistogramSummary/B03 NaN",
        "HistogramSummary",
        [b"loss", np.array([1, np.nan], np.float32)],
        expected=None,
        raises="a histogram needs finite numbers\n.*tag 'loss'(.*\n)*.*1 NaN and 0 infinities",
    ),
    OpCase(
        "HistogramSummary/B03 infinite",
        "HistogramSummary",
        [b"loss", np.array([1, np.inf], np.float32)],
        expected=None,
        raises="a histogram needs finite numbers\n.*tag 'loss'(.*\n)*.*0 NaN and 1 infinities",
    ),
    OpCase(
        "HistogramSummary/several tags",
        "HistogramSummary",
        [strings(b"a", b"b"), np.ones(2, np.float32)],
        expected=None,
        raises="tag of a summary is not a single text",
    ),
    OpCase("ImageSummary/bytes", "ImageSummary", [b"a", PIXELS], expected=pictures("a", PIXELS)),
    OpCase(
        "ImageSummary/one", "ImageSummary", [b"a", PIXELS], {"max_images": 1}, expected=pictures("a", PIXELS, limit=1)
    ),
    OpCase("ImageSummary/no picture", "ImageSummary", [b"a", PIXELS[:0]], expected=pictures("a", PIXELS[:0])),
    OpCase(
        "ImageSummary/all at least zero: the largest becomes 255",
        "ImageSummary",
        [b"a", np.float32([[[[0]], [[1]], [[4]]]])],
        expected=pictures("a", np.uint8([[[[0]], [[63]], [[255]]]])),
    ),
    OpCase(
        "ImageSummary/some below zero: zero becomes 128",
        "ImageSummary",
        [b"a", np.float16([[[[0]], [[1]], [[-2]]]])],
        expected=pictures("a", np.uint8([[[[128]], [[191]], [[1]]]])),
    ),
    OpCase(
        "ImageSummary/float16 rounds as float16: bytes of TensorFlow 2.21",
        "ImageSummary",
        [b"a", HALVES],
        expected=pictures("a", BYTES_OF_HALVES),
    ),
    OpCase(
        "ImageSummary/flat",
        "ImageSummary",
        [b"a", np.float64([[[[1e-9]], [[0]]]])],
        expected=pictures("a", np.uint8([[[[0]], [[0]]]])),
    ),
    OpCase(
        "ImageSummary/not finite",
        "ImageSummary",
        [b"a", np.float32([[[[0, 1, np.nan]], [[1, 1, 1]], [[np.inf, 0, 0]]]])],
        {"bad_color": np.uint8([1, 2, 3])},
        expected=pictures("a", np.uint8([[[[1, 2, 3]], [[255, 255, 255]], [[1, 2, 3]]]])),
    ),
    OpCase(
        "ImageSummary/a short colour",
        "ImageSummary",
        [b"a", PIXELS],
        {"bad_color": np.uint8([1])},
        expected=None,
        raises="has no colour for pixels that are not finite",
    ),
    OpCase(
        "ImageSummary/two channels", "ImageSummary", [b"a", PIXELS[..., :2]], expected=None, raises="has no pictures"
    ),
    OpCase(
        "ImageSummary/no batch",
        "ImageSummary",
        [b"a", PIXELS[0]],
        expected=None,
        raises="an image summary needs a batch",
    ),
    OpCase(
        "TensorSummaryV2/text",
        "TensorSummaryV2",
        [b"a", strings(b"x", b"y"), b""],
        expected=tensor("a", strings(b"x", b"y")),
    ),
    OpCase(
        "TensorSummaryV2/plugin",
        "TensorSummaryV2",
        [b"a", np.arange(6, dtype=np.int32).reshape(2, 3), SummaryMetadata(display_name="A").SerializeToString()],
        expected=tensor("a", np.arange(6, dtype=np.int32).reshape(2, 3), SummaryMetadata(display_name="A")),
    ),
    OpCase(
        "TensorSummaryV2/no metadata",
        "TensorSummaryV2",
        [b"a", np.float32(1), b"\xff"],
        expected=None,
        raises="has metadata that cannot be read",
    ),
    OpCase("MergeSummary/no summary", "MergeSummary", [[b"\xff"]], expected=None, raises="cannot merge its inputs"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases(case: OpCase) -> None:
    check_case(case)


def test_no_gradient_and_the_reason() -> None:
    with hr.Graph().as_default():
        x = hr.constant(1.0)
        summary = headrace_viz.summary.scalar("a", x)
        for stopped in (summary, headrace_viz.summary.merge([summary])):
            assert "a summary is a record for people, not a number" in hr.explain_gradient(stopped, x)


def test_functions_add_operations_and_the_writer_takes_their_values(tmp_path: Path) -> None:
    with hr.Graph().as_default() as graph:
        curves = [headrace_viz.summary.scalar(tag, value) for tag, value in [("loss: (a) %", 0.5), ("损失", 2)]]
        summary = headrace_viz.summary.merge(curves, name="all")
    assert [curve.op.name for curve in curves] == ["loss___a___", "ScalarSummary"]
    assert (summary.name, summary.shape.dims) == ("all:0", ())
    with hr.Session(graph) as session, headrace_viz.EventWriter(tmp_path) as writer:
        writer.summary(session.run(summary), 7)
    _, event = (Event.FromString(data) for data in read_records(writer.path))
    assert event.step == 7
    assert [(value.tag, value.simple_value) for value in event.summary.value] == [("loss: (a) %", 0.5), ("损失", 2.0)]


def test_functions_for_every_kind() -> None:
    with hr.Graph().as_default() as graph:
        merged = headrace_viz.summary.merge(
            [
                headrace_viz.summary.histogram("weights", [1.0, 2.0]),
                headrace_viz.summary.image("digit", hr.zeros([4, 2, 2, 1]), max_images=1),
                headrace_viz.summary.text("note", "**good**"),
                headrace_viz.summary.tensor("table", [[1, 2]]),
            ]
        )
    with hr.Session(graph) as session:
        summary = Summary.FromString(session.run(merged).item())
    weights, digit, note, table = summary.value
    assert (weights.tag, weights.histo.num) == ("weights", 2)
    assert (digit.tag, digit.image.height, digit.image.colorspace) == ("digit/image", 2, 1)
    assert (note.tag, note.metadata.plugin_data.plugin_name, array_of(note.tensor)) == ("note", "text", b"**good**")
    assert (table.tag, array_of(table.tensor).tolist()) == ("table", [[1, 2]])


def test_what_is_no_scalar_fails_where_it_is_written() -> None:
    with hr.Graph().as_default():
        with pytest.raises(ShapeError, match="tags and values of a summary do not match"):
            headrace_viz.summary.scalar("a", [1.0, 2.0])
        with pytest.raises(AttrError, match=r"attr 'T' has a wrong value\n  where: +ScalarSummary 'a'"):
            headrace_viz.summary.scalar("a", "text")


def test_shapes_that_differ_only_when_it_runs() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None])
        values, _ = hr.apply_op("Unique", x)  # how many only the kernel knows
        summary = hr.apply_op("ScalarSummary", hr.constant([b"a", b"b"]), values, name="curves")
    refusal = r"summary do not match\n.*'curves' created at(.*\n)*.*\[2\] tags, \[1\] values"
    with hr.Session(graph) as session, pytest.raises(ShapeError, match=refusal):
        session.run(summary, feeds={x: np.ones(3, np.float32)})


def test_no_tag_may_repeat() -> None:
    with hr.Graph().as_default() as graph:
        twice = headrace_viz.summary.merge([headrace_viz.summary.scalar("a", 1.0)] * 2)
    with hr.Session(graph) as session, pytest.raises(AlreadyExistsError, match="'a' twice"):
        session.run(twice)
