"""TensorBoard: the trainer's callback that writes curves, histograms and the graph."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import headrace as hr
from headrace.errors import InvalidArgumentError
from headrace_viz import values
from headrace_viz.histograms import histogram_rows
from headrace_viz.sinks import ScalarSink
from headrace_viz.training_probe import TrainingProbe
from headrace_viz.writer import EventWriter

__all__ = ["TensorBoard"]

_VALIDATION_PREFIX = "val_"


class TensorBoard(hr.Callback):
    """Mutable: writes the values of each step and epoch, and the graph, for TensorBoard.

    In `logdir` there are two runs, `train` and, with validation, `validation`, so that TensorBoard draws both into one
    chart. Curves `step/loss`, `step/accuracy` and so on have a point for each step; `epoch/loss` and so on have one for
    each epoch, at the number of steps done by then, as have `epoch/learning_rate`, `epoch/examples_per_second` and
    `epoch/input_stall`, the share of the time in which steps waited for their batch. A learning rate that may change is
    written at each step too, as `step/learning_rate`.

    A training that goes on from a checkpoint goes on with its curves: what an earlier attempt wrote of the steps that
    are now done again is no longer shown. So is what another training wrote into the same folder.

    Args:
      logdir: folder of the two runs; made at the first step. A URL is reached by fsspec.
      gradient_norms_every: steps from one writing of `gradient_norm/all` and `gradient_norm/<variable>` to the next; 0
        for none. They are computed in the graph, in those steps.
      histograms_every: steps from one writing of the histograms `parameter/<variable>` and `gradient/<variable>` to the
        next; 0 for none. Values that are not finite are left out of them and counted by `not_finite/...` curves.
      throughput: whether to write learning rate, examples per second and input stall.
      sinks: where all scalars go too; those of validation as `validation/...`. Whoever made them closes them.
    Raises:
      InvalidArgumentError: a number of steps is negative, or a sink is none.

    Example:
      >>> import pathlib, tempfile
      >>> import headrace as hr, headrace_viz, numpy as np
      >>> logdir = tempfile.mkdtemp()
      >>> x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(-1, 1)
      >>> trainer = hr.Trainer(
      ...     hr.layers.Dense(1), "mean_squared_error", hr.optim.SGD(0.5), callbacks=[headrace_viz.TensorBoard(logdir)]
      ... )
      >>> history = trainer.fit(hr.data.from_arrays(x, 3 * x + 2).batch(8), progress=False)
      >>> sorted(run.name for run in pathlib.Path(logdir).iterdir())
      ['train']
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        *,
        gradient_norms_every: int = 0,
        histograms_every: int = 0,
        throughput: bool = True,
        sinks: Sequence[ScalarSink] = (),
    ) -> None:
        for name, every in (("gradient_norms_every", gradient_norms_every), ("histograms_every", histograms_every)):
            if every < 0:
                raise InvalidArgumentError(
                    f"{name} cannot be used", expected="a number of steps, or 0", got=repr(every), hint="100 is usual"
                )
        for sink in sinks:
            if not isinstance(sink, ScalarSink):
                raise InvalidArgumentError(
                    "a sink of the TensorBoard callback cannot be used",
                    expected="an object with write_scalars(step, wall_time, values)",
                    got=repr(sink),
                    hint="headrace_viz.JsonLinesSink('scalars.jsonl')",
                )
        self.logdir = logdir if "://" in os.fspath(logdir) else Path(logdir)
        self._gradient_norms_every = gradient_norms_every
        self._histograms_every = histograms_every
        self._throughput = throughput
        self._sinks = tuple(sinks)
        self._writers: dict[str, EventWriter] = {}
        self._probe: TrainingProbe | None = None

    def fetches(self, trainer: hr.Trainer, step: int) -> Mapping[str, hr.Tensor]:
        """Name the gradients, or their norms, in the steps in which they are to be written."""
        wanted: dict[str, hr.Tensor] = {}
        if _is_due(step, self._gradient_norms_every):
            wanted |= self._probed(trainer).gradient_norms
        if _is_due(step, self._histograms_every):
            wanted |= self._probed(trainer).gradients
        return wanted

    def on_step_end(self, trainer: hr.Trainer, step: int, logs: Mapping[str, float]) -> None:
        """Write the step's values.

        Raises:
          OSError: the files cannot be made.
        """
        probe = self._probed(trainer)
        curves: dict[str, Any] = {f"step/{name}": value for name, value in logs.items()}
        if self._throughput:
            probe.count(trainer.batch_examples, trainer.input_seconds, trainer.step_seconds)
            if not probe.rate_is_constant:
                curves["step/learning_rate"] = probe.learning_rate(step)
        if _is_due(step, self._gradient_norms_every):
            curves |= {tag: trainer.fetched[tag] for tag in probe.gradient_norms}
        arrays: dict[str, Any] = {}
        if _is_due(step, self._histograms_every):
            arrays = {tag: trainer.fetched[tag] for tag in probe.gradients} | probe.parameters()
            curves |= _counts_of_not_finite(arrays)
        # A checkpoint is restored after every callback's `on_fit_begin`, so only now is it known where the run goes on.
        self._write(trainer, "train", curves, step, first_step=step)
        if arrays:
            self._writers["train"].values(_histograms(arrays), step)

    def on_epoch_end(self, trainer: hr.Trainer, epoch: int, logs: Mapping[str, float]) -> None:
        """Write the epoch's values.

        Raises:
          OSError: the files cannot be made.
        """
        probe = self._probed(trainer)
        extra: dict[str, float] = {}
        if self._throughput:
            extra = {"learning_rate": probe.learning_rate(trainer.step), **probe.take_throughput()}
        for run, by_name in _by_run({**logs, **extra}).items():
            curves = {f"epoch/{name}": value for name, value in by_name.items()}
            self._write(trainer, run, curves, trainer.step, first_step=trainer.step)
            self._writers[run].flush()

    def on_fit_end(self, trainer: hr.Trainer) -> None:
        """Close the files; another `fit` makes new ones."""
        writers, self._writers = self._writers, {}
        for writer in writers.values():
            writer.close()

    def _write(self, trainer: hr.Trainer, run: str, curves: Mapping[str, Any], step: int, *, first_step: int) -> None:
        self._writer(trainer, run, first_step=first_step).scalars(curves, step)
        prefix = "" if run == "train" else f"{run}/"
        for sink in self._sinks:
            sink.write_scalars(step, time.time(), {prefix + tag: float(value) for tag, value in curves.items()})

    def _writer(self, trainer: hr.Trainer, run: str, *, first_step: int) -> EventWriter:
        writer = self._writers.get(run)
        if writer is None:
            in_background = self._histograms_every > 0  # counting large parameters would hold up the steps
            place = os.path.join(self.logdir, run)
            writer = self._writers[run] = EventWriter(place, purge_step=first_step, background=in_background)
            if run == "train":
                writer.graph(trainer.graph)
        return writer

    def _probed(self, trainer: hr.Trainer) -> TrainingProbe:
        if self._probe is None or self._probe.trainer is not trainer:
            self._probe = TrainingProbe(trainer)
        return self._probe


def _is_due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def _by_run(logs: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Return the values of training and, where there are any, those of validation."""
    runs: dict[str, dict[str, float]] = {}
    for name, value in logs.items():
        run = "validation" if name.startswith(_VALIDATION_PREFIX) else "train"
        runs.setdefault(run, {})[name.removeprefix(_VALIDATION_PREFIX)] = value
    return runs


def _counts_of_not_finite(arrays: Mapping[str, Any]) -> dict[str, int]:
    counts = {tag: int(array.size - np.isfinite(array).sum()) for tag, array in arrays.items()}
    return {f"not_finite/{tag}": count for tag, count in counts.items() if count}


def _histograms(arrays: Mapping[str, Any]) -> Callable[[], list[values.Value]]:
    def make() -> list[values.Value]:
        found = []
        for tag, array in arrays.items():
            finite = np.isfinite(array)
            found.append(values.histogram(tag, histogram_rows(array if finite.all() else array[finite])))
        return found

    return make
