"""SummaryWriter: the methods that people know from PyTorch, over an `EventWriter` with a thread of its own.

One class with many methods, since that is the interface that people know; each hands its arguments to the module that
owns what they mean, and is long for its docstring only.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

import headrace as hr
from headrace.errors import InvalidArgumentError
from headrace_viz import values
from headrace_viz.events import checked_step, checked_tag
from headrace_viz.graph_view import graph_of
from headrace_viz.histograms import DEFAULT_BUCKETS, counts_between, histogram_rows, real_array, rows_of_limits
from headrace_viz.hyperparameters import hparams_values, layout_value
from headrace_viz.images import draw_boxes, enlarge, figure_pixels, to_batch, to_pixels
from headrace_viz.projector import add_embedding
from headrace_viz.writer import EventWriter

__all__ = ["SummaryWriter"]

Layout = Mapping[str, Mapping[str, Sequence[Any]]]


class SummaryWriter:
    """Mutable: writes a run for TensorBoard by the methods of PyTorch's class of this name. Thread-safe.

    `global_step` is 0 where it is None, and `walltime`, in seconds since the epoch, is then now. Arrays are anything
    that `np.asarray` takes. Values are stored in the new form, scalars as float32, the only one that both loaders of
    TensorBoard show; images and histograms are made in the writer's thread from copies.

    Args:
      log_dir: folder of the run, or a URL that fsspec reaches; by default `runs/<time>_<host><comment>`.
      comment: end of the default folder's name.
      purge_step: what earlier files hold at this step or later is no longer shown.
      max_queue: how many images, histograms and the like may wait before the caller does.
      flush_secs: how long a record may wait, in seconds.
      filename_suffix: end of the files' names.
    Raises:
      OSError: the folder or a file cannot be made. A disk that is full later on gives an `EventWriteWarning` only.

    Example:
      >>> import numpy as np, tempfile
      >>> with tempfile.TemporaryDirectory() as logdir, SummaryWriter(logdir) as writer:
      ...     writer.add_scalar("loss", 0.5, global_step=1)
      ...     writer.add_histogram("weights", np.linspace(-1, 1, 100), global_step=1)
      ...     writer.add_image("noise", np.zeros([3, 8, 8], np.uint8), global_step=1)
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        name = f"{time.strftime('%b%d_%H-%M-%S')}_{socket.gethostname()}{comment}"
        self.log_dir = os.fspath(log_dir) if log_dir is not None else str(Path("runs") / name)
        self._options: dict[str, Any] = dict(
            purge_step=purge_step,
            max_queue=max_queue,
            flush_seconds=flush_secs,
            filename_suffix=filename_suffix,
            background=True,
        )
        self._writer = EventWriter(self.log_dir, **self._options)
        self._others: dict[str, EventWriter] = {}
        self._lock = threading.Lock()

    def get_logdir(self) -> str:
        """Return the folder of the run."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = True,
        double_precision: bool = False,
    ) -> None:
        """Write one point of a curve.

        Args:
          tag: name of the curve; `/` groups curves.
          scalar_value: a real number, or an array of one.
          global_step: training step.
          walltime: see the class.
          new_style: taken for PyTorch's sake; the form is always the new one.
          double_precision: taken for PyTorch's sake; TensorBoard's default loader leaves float64 out without a word, so
            the value is always stored as float32.
        Raises:
          HeadraceError: see `EventWriter.scalar`.
        """
        self._writer.scalar(tag, scalar_value, global_step or 0, wall_time=walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write points of several curves into one chart: each curve has a run of its own, a folder in that of the run.

        Args:
          main_tag: name of the chart.
          tag_scalar_dict: value by name of the curve.
          global_step: training step.
          walltime: see the class.
        Raises:
          HeadraceError: see `EventWriter.scalar`.
        """
        for tag, value in tag_scalar_dict.items():
            run = f"{checked_tag(main_tag)}_{checked_tag(tag)}".replace("/", "_")
            self._run(run).scalar(main_tag, value, global_step or 0, wall_time=walltime)

    def add_tensor(self, tag: str, tensor: Any, global_step: int | None = None, walltime: float | None = None) -> None:
        """Write an array as it is; readers find it, dashboards show none.

        Raises:
          DTypeError: its elements are neither numbers nor text.
        """
        self._add([values.tensor(tag, tensor)], global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Write a histogram.

        Args:
          tag: its name.
          values: real numbers of any shape, all finite.
          global_step: training step.
          bins: how many buckets of equal width, or their edges; any name, such as "tensorflow" and "auto", stands for
            30, as TensorBoard itself takes.
          walltime: see the class.
          max_bins: at most so many of them, at least 1.
        Raises:
          DTypeError: no real numbers.
          InvalidArgumentError: NaN or infinities among them, or bins that cannot be used.
        """
        array = real_array(values)
        named = isinstance(bins, str)
        if not named and np.ndim(bins):
            rows = counts_between(array, bins)
        else:
            count = DEFAULT_BUCKETS if named else int(bins)
            try:
                rows = histogram_rows(array, count if max_bins is None else min(count, max_bins))
            except InvalidArgumentError as error:
                raise error.at(f"tag '{tag}'") from None
        self._add([_histogram(tag, rows)], global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: float,
        sum: float,
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write a histogram that was counted elsewhere.

        Args:
          tag: its name.
          min: left edge of the first bucket.
          max: taken for PyTorch's sake, as are `num`, `sum` and `sum_squares`: the new form has no place for them.
          num: see `max`.
          sum: see `max`.
          sum_squares: see `max`.
          bucket_limits: right edges, `[buckets]`.
          bucket_counts: `[buckets]`.
          global_step: training step.
          walltime: see the class.
        Raises:
          InvalidArgumentError: limits and counts are not equally many.
        """
        self._add([_histogram(tag, rows_of_limits(min, bucket_limits, bucket_counts))], global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Write a picture.

        Args:
          tag: its name.
          img_tensor: uint8, or floating-point between 0 and 1.
          global_step: training step.
          walltime: see the class.
          dataformats: "CHW", "HWC" or "HW".
        Raises:
          HeadraceError: see `headrace_viz.images.to_pixels`.
        """
        pixels = to_pixels(img_tensor, dataformats)
        self._add(lambda: [values.images(tag, pixels[np.newaxis])], global_step, walltime, tag)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Write several pictures of one size; TensorBoard shows each by itself.

        Args:
          tag: their name.
          img_tensor: uint8, or floating-point between 0 and 1.
          global_step: training step.
          walltime: see the class.
          dataformats: "NCHW", "NHWC" or "NHW".
        Raises:
          HeadraceError: see `headrace_viz.images.to_pixels`.
        """
        pixels = to_batch(img_tensor, dataformats)
        if pixels.ndim != 4:
            raise InvalidArgumentError(
                f"'{tag}' has frames, as films have",
                expected="NCHW, NHWC or NHW",
                got=dataformats,
                hint="add_video shows films",
            )
        self._add(lambda: [values.images(tag, pixels)], global_step, walltime, tag)

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: Sequence[str] | None = None,
    ) -> None:
        """Write a picture with the outlines of boxes.

        Args:
          tag: its name.
          img_tensor: uint8, or floating-point between 0 and 1.
          box_tensor: `[boxes, 4]`: left, top, right and bottom, in pixels of `img_tensor`.
          global_step: training step.
          walltime: see the class.
          rescale: how much larger to draw it.
          dataformats: "CHW", "HWC" or "HW".
          labels: a text for each box; needs `headrace-viz[images]`.
        Raises:
          HeadraceError: see `headrace_viz.images.to_pixels` and `draw_boxes`.
        """
        boxes = np.asarray(box_tensor, np.float64) * rescale
        drawn = draw_boxes(enlarge(to_pixels(img_tensor, dataformats), rescale), boxes, labels)
        self._add(lambda: [values.images(tag, drawn[np.newaxis])], global_step, walltime, tag)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Write a matplotlib figure, or a list of figures of one size, as pictures.

        Args:
          tag: its name.
          figure: the figure or figures.
          global_step: training step.
          close: whether to close it, so that pyplot forgets it.
          walltime: see the class.
        Raises:
          NotFoundError: matplotlib is not installed.
        """
        figures = figure if isinstance(figure, list | tuple) else [figure]
        pixels = np.stack([figure_pixels(each, close=close) for each in figures])
        self._add(lambda: [values.images(tag, pixels)], global_step, walltime, tag)

    def add_video(
        self,
        tag: str,
        vid_tensor: Any,
        global_step: int | None = None,
        fps: float = 4,
        walltime: float | None = None,
        dataformats: str = "NTCHW",
    ) -> None:
        """Write films, as animated PNG.

        Args:
          tag: their name.
          vid_tensor: uint8, or floating-point between 0 and 1.
          global_step: training step.
          fps: frames per second, more than 0.
          walltime: see the class.
          dataformats: "NTCHW", "NTHWC" or "NTHW".
        Raises:
          HeadraceError: see `headrace_viz.images.to_pixels`.
          InvalidArgumentError: `fps` is not positive, or the format has no frames.
        """
        films = to_batch(vid_tensor, dataformats)
        if films.ndim != 5 or not fps > 0:
            raise InvalidArgumentError(
                f"film '{tag}' cannot be played",
                expected="axes N and T in the format, and more than 0 frames per second",
                got=f"{dataformats}, {fps!r}",
                hint="vid_tensor[np.newaxis] is a batch of one film",
            )
        self._add(lambda: [values.video(tag, films, fps)], global_step, walltime, tag)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: int | None = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Write a sound.

        Args:
          tag: its name.
          snd_tensor: floating-point between -1 and 1: `[frames]`, `[1, frames]` as in PyTorch, or `[frames, 2]`.
          global_step: training step.
          sample_rate: frames per second.
          walltime: see the class.
        Raises:
          HeadraceError: see `headrace_viz.values.audio`.
        """
        array = np.asarray(snd_tensor)
        samples = array[0] if array.ndim == 2 and array.shape[0] == 1 else array
        self._add([values.audio(tag, samples, sample_rate)], global_step, walltime)

    def add_text(
        self, tag: str, text_string: Any, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Write text in Markdown; a list of texts, or of lists, becomes a table.

        Raises:
          HeadraceError: see `headrace_viz.values.text`.
        """
        self._add([values.text(tag, text_string)], global_step, walltime)

    def add_graph(
        self,
        model: Any,
        input_to_model: Any = None,
        verbose: bool = False,
        use_strict_trace: bool = True,
        *,
        tag: str | None = None,
    ) -> None:
        """Write the graph of the run, or another one beside it.

        Args:
          model: a `hr.Graph`, a `hr.Session` or a `hr.Trainer`; or a function of tensors, such as a `hr.layers.Module`.
          input_to_model: for a function, an array, or a tuple of them, like those that it is to be applied to.
          verbose: print the graph too.
          use_strict_trace: taken for PyTorch's sake.
          tag: None for the graph of the run; else the name by which TensorBoard offers this one.
        Raises:
          InvalidArgumentError: the model is a function and `input_to_model` is missing, or is nothing of these.
        """
        graph = graph_of(model, input_to_model)
        if verbose:
            print("\n".join(map(repr, graph.operations)))  # noqa: T201  # asked for
        self._writer.graph(graph, tag=tag)

    def add_step_graphs(
        self,
        session: hr.Session,
        fetches: Any,
        feeds: Mapping[Any, Any] | None = None,
        *,
        tag: str = "step",
        trace: hr.Trace | None = None,
    ) -> None:
        """Write the graphs of a step as built, optimised and divided, see `EventWriter.step_graphs`."""
        self._writer.step_graphs(session, fetches, feeds, tag=tag, trace=trace)

    def add_run_metadata(self, trace: hr.Trace, tag: str) -> None:
        """Write what traced steps took, see `EventWriter.run_metadata`."""
        self._writer.run_metadata(trace, tag)

    def add_embedding(
        self,
        mat: Any,
        metadata: Sequence[Any] | None = None,
        label_img: Any = None,
        global_step: int | None = None,
        tag: str = "default",
        metadata_header: Sequence[str] | None = None,
    ) -> None:
        """Write points for the projector.

        Args:
          mat: real numbers `[points, size]`.
          metadata: a text, or with `metadata_header` a row of texts, for each point.
          label_img: a small picture for each point, `[points, channels, height, width]`.
          global_step: training step.
          tag: name of the embedding.
          metadata_header: names of the columns of `metadata`.
        Raises:
          HeadraceError: see `headrace_viz.projector.add_embedding`.
          OSError: the files cannot be written.
        """
        step = checked_step(global_step or 0)
        with self._lock:  # the list of embeddings is read and written anew
            add_embedding(self._writer.folder, mat, metadata, label_img, step, checked_tag(tag), metadata_header)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write a curve of precision over recall.

        Args:
          tag: its name.
          labels: 0 and 1, any shape.
          predictions: probabilities between 0 and 1, of that shape.
          global_step: training step.
          num_thresholds: how many thresholds.
          weights: of the examples.
          walltime: see the class.
        Raises:
          HeadraceError: see `headrace_viz.values.pr_curve`.
        """
        value = values.pr_curve(tag, labels, predictions, thresholds=num_thresholds, weights=weights)
        self._add([value], global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write a curve of precision over recall that was counted elsewhere.

        Args:
          tag: its name.
          true_positive_counts: `[thresholds]`, as are the others.
          false_positive_counts: see there.
          true_negative_counts: see there.
          false_negative_counts: see there.
          precision: see there.
          recall: see there.
          global_step: training step.
          num_thresholds: taken for PyTorch's sake; the length of the vectors counts.
          weights: taken for PyTorch's sake.
          walltime: see the class.
        Raises:
          ShapeError: they are not equally many numbers.
        """
        counts = (true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts)
        self._add([values.pr_curve_counts(tag, *counts, precision, recall)], global_step, walltime)

    def add_custom_scalars(self, layout: Layout) -> None:
        """Write which curves share charts.

        Args:
          layout: see `headrace_viz.hyperparameters.layout_value`; a later one takes its place.
        Raises:
          InvalidArgumentError: a chart is not known.
        """
        self._add([layout_value(layout)], None, None)

    def add_custom_scalars_multilinechart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Write that these curves share a chart: the layout `{category: {title: ["Multiline", tags]}}`."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Write that the second and third of these curves bound the first: `{category: {title: ["Margin", tags]}}`."""
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_mesh(
        self,
        tag: str,
        vertices: Any,
        colors: Any = None,
        faces: Any = None,
        config_dict: Mapping[str, Any] | None = None,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write point clouds or meshes.

        Args:
          tag: their name.
          vertices: real numbers `[meshes, vertices, 3]`.
          colors: 0 to 255, `[meshes, vertices, 3]`.
          faces: indices of vertices, `[meshes, faces, 3]`.
          config_dict: of the scene, for three.js.
          global_step: training step.
          walltime: see the class.
        Raises:
          ShapeError: other axes.
        """
        self._add(values.mesh(tag, vertices, colors, faces, config_dict), global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Write hyper-parameters with what they led to, as a run of its own in the folder of the run.

        Args:
          hparam_dict: Booleans, numbers and text by name.
          metric_dict: a number by tag.
          hparam_domain_discrete: the values that a hyper-parameter may have, by its name.
          run_name: folder of that run; by default the time.
          global_step: of the metrics.
        Raises:
          DTypeError: a hyper-parameter or a metric is something else.
        """
        now = time.time()
        records = hparams_values(hparam_dict, list(metric_dict), now, hparam_domain_discrete)
        options = {**self._options, "purge_step": None}
        with EventWriter(_inside(self.log_dir, run_name or repr(now)), **options) as writer:
            for record in records:
                writer.values([record], 0)
            writer.scalars(metric_dict, global_step or 0)

    def flush(self) -> None:
        """Wait until all is written."""
        for writer in self._all():
            writer.flush()

    def close(self) -> None:
        """Write all and close the files. Doing so again does nothing."""
        for writer in self._all():
            writer.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _add(
        self,
        made: Sequence[values.Value] | Callable[[], Sequence[values.Value]],
        step: int | None,
        walltime: float | None,
        tag: str = "",
    ) -> None:
        checked_tag(tag)  # of values that are yet to be made, so that what is wrong is told here
        self._writer.values(made, step or 0, wall_time=walltime)

    def _run(self, name: str) -> EventWriter:
        with self._lock:
            writer = self._others.get(name)
            if writer is None:
                writer = self._others[name] = EventWriter(_inside(self.log_dir, name), **self._options)
            return writer

    def _all(self) -> list[EventWriter]:
        with self._lock:
            return [self._writer, *self._others.values()]


def _inside(logdir: str, name: str) -> str:
    parts = [re.sub(r"^[.]+$", "_", part) for part in name.split("/")]
    return f"{logdir.rstrip('/')}/{'/'.join(parts)}"


_histogram = values.histogram  # the methods' argument `values` hides the module
