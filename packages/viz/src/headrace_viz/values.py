"""Values of every kind that TensorBoard shows, ready to be written by `EventWriter.values`. Pure: no files, no clocks.

Each function returns what one tag, or the parts of one thing, have at one step. All use the form that TensorBoard calls
new: a tensor and the name of the plugin that it is for.
"""

from __future__ import annotations

import io
import json
import wave
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import headrace as hr
from headrace.errors import DTypeError, InvalidArgumentError, ShapeError
from headrace.graph.proto.graph_pb2 import GraphDef
from headrace.graph.proto.tensor_pb2 import TensorProto
from headrace_viz.events import checked_tag
from headrace_viz.histograms import real_array
from headrace_viz.png import encode_animated_png, encode_png
from headrace_viz.proto.event_pb2 import Summary, SummaryMetadata
from headrace_viz.proto.plugin_data_pb2 import AudioPluginData, MeshPluginData, PrCurvePluginData
from headrace_viz.proto.run_metadata_pb2 import RunMetadata
from headrace_viz.tensors import tensor_proto

__all__ = ["audio", "histogram", "images", "mesh", "pr_curve", "pr_curve_counts", "tensor", "text", "video"]

Value = Summary.Value

_WAV = 11
_BYTE_SAMPLES = 32767
_SMALLEST_SUM = 1e-7


def plugin_value(tag: str, plugin: str, content: bytes, data: TensorProto) -> Value:
    """Return the value of a tag for one plugin.

    Raises:
      InvalidArgumentError: the tag is no text.
    """
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=plugin, content=content))
    return Value(tag=checked_tag(tag), tensor=data, metadata=metadata)


def tensor(tag: str, value: Any) -> Value:
    """Return an array as it is, of no plugin: kept for readers, shown by no dashboard.

    Args:
      tag: its name.
      value: numbers or strings of any shape.
    Raises:
      DTypeError: the elements are of another kind.
    """
    return Value(tag=checked_tag(tag), tensor=tensor_proto(value))


def histogram(tag: str, rows: Any) -> Value:
    """Return a histogram.

    Args:
      tag: its name.
      rows: float64 `[buckets, 3]`: left edge, right edge, count; see `headrace_viz.histograms`.
    Raises:
      ShapeError: the rows have no three numbers.

    Example:
      >>> from headrace_viz.histograms import histogram_rows
      >>> histogram("weights", histogram_rows([1.0, 2.0])).metadata.plugin_data.plugin_name
      'histograms'
    """
    array = np.asarray(rows, np.float64)
    if array.ndim != 2 or array.shape[1] != 3:
        raise ShapeError(
            f"histogram '{tag}' needs rows of three numbers",
            expected="[buckets, 3]: left edge, right edge, count",
            got=f"shape {list(array.shape)}",
            hint="headrace_viz.histograms.histogram_rows(values)",
        )
    return plugin_value(tag, "histograms", b"", tensor_proto(array))


def images(tag: str, pictures: NDArray[np.uint8], *, level: int = 1) -> Value:
    """Return pictures of one size, stored as PNG.

    Args:
      tag: their name.
      pictures: uint8 `[pictures, height, width, 1 to 4]`, see `headrace_viz.images.to_batch`.
      level: of the compression, 0 to 9.
    """
    height, width = pictures.shape[1:3]
    return _encoded_images(tag, [encode_png(picture, level) for picture in pictures], height, width)


def video(tag: str, films: NDArray[np.uint8], frames_per_second: float, *, level: int = 1) -> Value:
    """Return films of one size, stored as animated PNG, in full colour.

    Args:
      tag: their name.
      films: uint8 `[films, frames, height, width, 1 to 4]`, see `headrace_viz.images.to_batch`.
      frames_per_second: how fast to play them.
      level: of the compression, 0 to 9.
    """
    height, width = films.shape[2:4]
    return _encoded_images(tag, [encode_animated_png(film, frames_per_second, level) for film in films], height, width)


def _encoded_images(tag: str, encoded: Sequence[bytes], height: int, width: int) -> Value:
    return plugin_value(tag, "images", b"", tensor_proto([b"%d" % width, b"%d" % height, *encoded]))


def audio(tag: str, samples: Any, sample_rate: int) -> Value:
    """Return a sound, stored as WAV of 16 bits.

    Args:
      tag: its name.
      samples: floating-point between -1 and 1, what is outside is cut off; `[frames]`, or `[frames, 1 or 2 channels]`.
      sample_rate: frames per second.
    Raises:
      ShapeError: other axes.
      DTypeError: another dtype.
      InvalidArgumentError: the rate is not positive.
    """
    array = np.asarray(samples)
    if array.dtype.kind != "f":
        raise DTypeError(
            f"sound '{tag}' needs another dtype",
            expected="a floating-point dtype with values between -1 and 1",
            got=str(array.dtype),
            hint="divide 16-bit samples by 32768",
        )
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.shape[1] not in (1, 2)):
        raise ShapeError(
            f"sound '{tag}' has other axes than a sound",
            expected="[frames], or [frames, 1 or 2 channels]",
            got=f"shape {list(array.shape)}",
            hint="samples.T where the channels come first",
        )
    if not 0 < sample_rate < 2**31:
        raise InvalidArgumentError(
            f"sound '{tag}' cannot be played",
            expected="a sample rate > 0",
            got=repr(sample_rate),
            hint="44100 is usual",
        )
    clipped = np.clip(np.nan_to_num(array.astype(np.float64)), -1, 1)
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1 if array.ndim == 1 else array.shape[1])
        sound.setsampwidth(2)
        sound.setframerate(sample_rate)
        sound.writeframes((clipped * _BYTE_SAMPLES).astype("<i2").tobytes())
    content = AudioPluginData(encoding=_WAV).SerializeToString()
    return plugin_value(tag, "audio", content, tensor_proto([file.getvalue()]))


def text(tag: str, value: Any) -> Value:
    """Return text in Markdown; arrays of text become tables.

    Args:
      tag: its name.
      value: text or bytes, `[]`, `[rows]` or `[rows, columns]`.
    Raises:
      ShapeError: more axes, which TensorBoard does not show.
      DTypeError: no text.
    """
    data = tensor_proto(value)
    if data.dtype != hr.string.number:
        raise DTypeError(
            f"'{tag}' is no text", expected="text or bytes", got=f"{value!r:.60}", hint="str(value) makes text of it"
        )
    if len(data.tensor_shape.dim) > 2:
        raise ShapeError(
            f"text '{tag}' has too many axes",
            expected="text, a list, or a table",
            got=f"{len(data.tensor_shape.dim)} axes",
            hint="write one table for each index of the first axis",
        )
    return plugin_value(tag, "text", b"", data)


def pr_curve(tag: str, labels: Any, predictions: Any, *, thresholds: int = 127, weights: Any = None) -> Value:
    """Return the curve of precision over recall.

    Args:
      tag: its name.
      labels: Boolean, or 0 and 1, any shape.
      predictions: probabilities between 0 and 1, of that shape; equal to a threshold counts as above it.
      thresholds: how many, evenly from 0 to 1, at least 2.
      weights: of the examples, of that shape or a number.
    Raises:
      ShapeError: labels and predictions differ in shape.
      InvalidArgumentError: a prediction is not between 0 and 1, or there are too few thresholds.

    Example:
      >>> from headrace_viz.tensors import array_of
      >>> array_of(pr_curve("pr", [1, 0], [0.9, 0.1], thresholds=3).tensor)[4].tolist()  # precision at 0, 0.5 and 1
      [0.5, 1.0, 0.0]
    """
    truth, guesses = np.asarray(labels).astype(bool).ravel(), np.asarray(predictions, np.float64).ravel()
    if truth.shape != guesses.shape:
        raise ShapeError(
            f"labels and predictions of '{tag}' do not match",
            expected=f"{truth.size} predictions",
            got=f"{guesses.size}",
            hint="give each label one probability",
        )
    if thresholds < 2 or not ((guesses >= 0) & (guesses <= 1)).all():
        raise InvalidArgumentError(
            f"curve '{tag}' cannot be made",
            expected="predictions between 0 and 1, and at least 2 thresholds",
            got=f"{thresholds} thresholds, predictions from {guesses.min()} to {guesses.max()}",
            hint="apply a sigmoid to logits first",
        )
    share = np.broadcast_to(np.asarray(1.0 if weights is None else weights, np.float64).ravel(), truth.shape)
    bucket = np.floor(guesses * (thresholds - 1)).astype(np.intp)
    above = [
        np.bincount(bucket, share * chosen, minlength=thresholds)[::-1].cumsum()[::-1] for chosen in (truth, ~truth)
    ]
    true_positives, false_positives = above
    return pr_curve_counts(
        tag,
        true_positives,
        false_positives,
        false_positives[0] - false_positives,
        true_positives[0] - true_positives,
        true_positives / np.maximum(_SMALLEST_SUM, true_positives + false_positives),
        true_positives / np.maximum(_SMALLEST_SUM, true_positives[0]),
    )


def pr_curve_counts(
    tag: str,
    true_positives: Any,
    false_positives: Any,
    true_negatives: Any,
    false_negatives: Any,
    precision: Any,
    recall: Any,
) -> Value:
    """Return a curve of precision over recall that was counted elsewhere.

    Args:
      tag: its name.
      true_positives: `[thresholds]`, for rising thresholds; so are all others.
      false_positives: see there.
      true_negatives: see there.
      false_negatives: see there.
      precision: see there.
      recall: see there.
    Raises:
      ShapeError: they are not equally many numbers.
    """
    parts = [true_positives, false_positives, true_negatives, false_negatives, precision, recall]
    rows = [np.asarray(part, np.float32) for part in parts]
    if {row.shape for row in rows} != {(rows[0].size,)}:
        raise ShapeError(
            f"the parts of curve '{tag}' do not match",
            expected="six vectors with a number for each threshold",
            got=", ".join(str(list(row.shape)) for row in rows),
            hint="compute all of them for the same thresholds",
        )
    content = PrCurvePluginData(num_thresholds=rows[0].size).SerializeToString()
    return plugin_value(tag, "pr_curves", content, tensor_proto(np.stack(rows)))


def mesh(
    tag: str, vertices: Any, colors: Any = None, faces: Any = None, config: Mapping[str, Any] | None = None
) -> list[Value]:
    """Return point clouds or meshes.

    Args:
      tag: their name.
      vertices: real numbers `[meshes, vertices, 3]`.
      colors: integers from 0 to 255, `[meshes, vertices, 3]`, or None.
      faces: indices of vertices, `[meshes, faces, 3]`, or None for a point cloud.
      config: of the scene, for three.js: JSON values.
    Raises:
      ShapeError: other axes.
    """
    parts = [
        (MeshPluginData.VERTEX, "VERTEX", vertices, np.float32),
        (MeshPluginData.FACE, "FACE", faces, np.int32),
        (MeshPluginData.COLOR, "COLOR", colors, np.uint8),
    ]
    present = [part for part in parts if part[2] is not None]
    components = sum(1 << kind for kind, *_ in present)
    values = []
    for kind, name, given, dtype in present:
        array = real_array(given)
        if array.ndim != 3 or array.shape[2] != 3:
            raise ShapeError(
                f"mesh '{tag}' has a part of another shape",
                expected="[meshes, elements, 3]",
                got=f"{name.lower()} {list(array.shape)}",
                hint="array[np.newaxis] for a single mesh",
            )
        content = MeshPluginData(
            name=tag,
            content_type=kind,
            json_config=json.dumps(dict(config or {}), sort_keys=True),
            shape=array.shape,
            components=components,
        )
        part = tensor_proto(array.astype(dtype))
        values.append(plugin_value(f"{tag}_{name}", "mesh", content.SerializeToString(), part))
    return values


def tagged_graph(tag: str, view: GraphDef, took: RunMetadata | None = None) -> Value:
    """Return a graph that is chosen by a tag, beside the graph of the run: one after optimisation, or of a function.

    Args:
      tag: its name.
      view: what to draw, see `headrace_viz.graph_view`.
      took: what its operations took, by which TensorBoard colours it; None leaves that out.
    """
    wrapped = RunMetadata(function_graphs=[RunMetadata.FunctionGraphs(pre_optimization_graph=view)])
    if took is not None:
        wrapped.step_stats.CopyFrom(took.step_stats)
    plugin = "graph_run_metadata_graph" if took is None else "graph_run_metadata"
    return plugin_value(tag, plugin, b"1", tensor_proto([wrapped.SerializeToString()]))
