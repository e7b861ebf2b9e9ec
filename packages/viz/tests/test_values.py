"""Values of every kind: the right numbers for the right plugin, and clear refusals."""

from __future__ import annotations

import io
import json
import wave

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import DTypeError, InvalidArgumentError, ShapeError
from headrace_viz import values
from headrace_viz.proto.event_pb2 import Summary
from headrace_viz.proto.plugin_data_pb2 import MeshPluginData, PrCurvePluginData
from headrace_viz.tensors import array_of


def _plugin(value: Summary.Value) -> str:
    return value.metadata.plugin_data.plugin_name


def test_B07_tags_are_kept_or_refused() -> None:
    assert values.text("损失 (a) %", "x").tag == "损失 (a) %"
    with pytest.raises(InvalidArgumentError, match="needs a tag"):
        values.text("\ud800", "x")
    with pytest.raises(InvalidArgumentError, match="needs a tag"):
        values.tensor("\ud800", 1)


def test_histogram_rows() -> None:
    value = values.histogram("a", [[0, 1, 5]])
    assert (_plugin(value), array_of(value.tensor).tolist()) == ("histograms", [[0, 1, 5]])
    assert array_of(value.tensor).dtype == np.float64
    with pytest.raises(ShapeError, match="needs rows of three numbers"):
        values.histogram("a", [0, 1, 5])


def test_sizes_of_pictures_come_first() -> None:
    for value in (
        values.images("a", np.zeros([2, 3, 4, 1], np.uint8)),
        values.video("a", np.zeros([2, 5, 3, 4, 1], np.uint8), 4),
    ):
        width, height, *pictures = array_of(value.tensor).tolist()
        assert (_plugin(value), width, height, len(pictures)) == ("images", b"4", b"3", 2)
        assert {data[:4] for data in pictures} == {b"\x89PNG"}


@pytest.mark.parametrize("channels", [None, 1, 2])
def test_sounds(channels: int | None) -> None:
    samples = np.array([0, 0.5, -1, 2, np.nan])
    shaped = samples if channels is None else np.repeat(samples[:, np.newaxis], channels, axis=1)
    (data,) = array_of(values.audio("a", shaped, 8000).tensor)
    with wave.open(io.BytesIO(data)) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getnframes()) == (8000, channels or 1, 5)
        heard = np.frombuffer(sound.readframes(5), "<i2").reshape(5, -1)
    assert heard[:, 0].tolist() == [0, 16383, -32767, 32767, 0]


def test_what_is_no_sound() -> None:
    with pytest.raises(DTypeError, match="sound 'a' needs another dtype"):
        values.audio("a", [1, 2], 8000)
    with pytest.raises(ShapeError, match="sound 'a' has other axes"):
        values.audio("a", np.zeros([2, 3]), 8000)
    with pytest.raises(InvalidArgumentError, match="sound 'a' cannot be played"):
        values.audio("a", np.zeros(3), 0)


def test_text() -> None:
    value = values.text("a", [["x", "损失"], ["y", "z"]])
    assert (_plugin(value), array_of(value.tensor)[0, 1].decode()) == ("text", "损失")
    with pytest.raises(DTypeError, match="'a' is no text"):
        values.text("a", 5)
    with pytest.raises(ShapeError, match="text 'a' has too many axes"):
        values.text("a", [[["x"]]])


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.booleans(), st.floats(0, 1, width=32), st.integers(1, 3).map(float)), min_size=1, max_size=20
    ),
    st.integers(2, 20),
)
def test_curves_of_precision_and_recall(examples: list[tuple[bool, float, float]], thresholds: int) -> None:
    labels, predictions, weights = (np.array(column) for column in zip(*examples, strict=True))
    curve = array_of(values.pr_curve("a", labels, predictions, thresholds=thresholds, weights=weights).tensor)
    for number in range(thresholds):
        above = np.floor(predictions * (thresholds - 1)) >= number
        positive = [weights[above & labels].sum(), weights[above & ~labels].sum()]
        negative = [weights[~above & ~labels].sum(), weights[~above & labels].sum()]
        np.testing.assert_allclose(curve[:4, number], positive + negative)
        np.testing.assert_allclose(curve[4, number], positive[0] / max(1e-7, sum(positive)), rtol=1e-6)
        np.testing.assert_allclose(curve[5, number], positive[0] / max(1e-7, weights[labels].sum()), rtol=1e-6)


def test_the_curve_is_that_of_tensorboardx() -> None:
    summary = pytest.importorskip("tensorboardX.summary")
    numbers = np.random.default_rng(1)
    labels, predictions = numbers.integers(0, 2, 500), numbers.random(500)
    theirs = summary.pr_curve("a", labels, predictions, 127).value[0].tensor
    ours = array_of(values.pr_curve("a", labels, predictions).tensor)
    np.testing.assert_allclose(ours.ravel(), theirs.float_val, rtol=1e-6)


def test_what_is_no_curve() -> None:
    with pytest.raises(ShapeError, match="labels and predictions of 'a' do not match"):
        values.pr_curve("a", [1], [0.5, 0.5])
    with pytest.raises(InvalidArgumentError, match="curve 'a' cannot be made"):
        values.pr_curve("a", [1], [1.5])
    with pytest.raises(InvalidArgumentError, match=r"curve 'a' cannot be made\n(.*\n)*.*1 thresholds"):
        values.pr_curve("a", [1], [0.5], thresholds=1)
    with pytest.raises(ShapeError, match="the parts of curve 'a' do not match"):
        values.pr_curve_counts("a", [1], [1], [1], [1], [1], [1, 2])


def test_counts_from_elsewhere() -> None:
    value = values.pr_curve_counts("a", *np.arange(12).reshape(6, 2))
    assert PrCurvePluginData.FromString(value.metadata.plugin_data.content).num_thresholds == 2
    assert array_of(value.tensor).tolist() == np.arange(12).reshape(6, 2).tolist()


def test_meshes() -> None:
    vertices = np.random.default_rng(1).normal(size=[2, 4, 3])
    faces, colors = np.array([[[0, 1, 2]]] * 2), np.full([2, 4, 3], 200)
    parts = values.mesh("a", vertices, colors, faces, {"lights": []})
    contents = [MeshPluginData.FromString(part.metadata.plugin_data.content) for part in parts]
    assert [(part.tag, content.content_type) for part, content in zip(parts, contents, strict=True)] == [
        ("a_VERTEX", MeshPluginData.VERTEX),
        ("a_FACE", MeshPluginData.FACE),
        ("a_COLOR", MeshPluginData.COLOR),
    ]
    assert {content.components for content in contents} == {0b1110}
    assert [list(content.shape) for content in contents] == [[2, 4, 3], [2, 1, 3], [2, 4, 3]]
    assert json.loads(contents[0].json_config) == {"lights": []}
    assert [array_of(part.tensor).dtype for part in parts] == [np.float32, np.int32, np.uint8]
    np.testing.assert_array_equal(array_of(parts[0].tensor), vertices.astype(np.float32))
    (points,) = values.mesh("a", vertices)
    assert MeshPluginData.FromString(points.metadata.plugin_data.content).components == 0b10
    with pytest.raises(ShapeError, match="mesh 'a' has a part of another shape"):
        values.mesh("a", vertices[0])
