"""TensorBoard: the trainer's callback that writes curves and the graph."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import headrace as hr
from headrace_viz.writer import EventWriter

__all__ = ["TensorBoard"]

_VALIDATION_PREFIX = "val_"


class TensorBoard(hr.Callback):
    """Mutable: writes the values of each step and epoch, and the graph, for TensorBoard.

    In `logdir` there are two runs, `train` and, with validation, `validation`, so that TensorBoard draws both into one
    chart. Curves `step/loss`, `step/accuracy` and so on have a point for each step; `epoch/loss` and so on have one for
    each epoch, at the number of steps done by then.

    A training that goes on from a checkpoint goes on with its curves: what an earlier attempt wrote of the steps that
    are now done again is no longer shown. So is what another training wrote into the same folder.

    Args:
      logdir: folder of the two runs; made at the first step.

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

    def __init__(self, logdir: str | os.PathLike[str]) -> None:
        self.logdir = Path(logdir)
        self._writers: dict[str, EventWriter] = {}

    def on_step_end(self, trainer: hr.Trainer, step: int, logs: Mapping[str, float]) -> None:
        """Write the step's values.

        Raises:
          OSError: the files cannot be made or written.
        """
        # A checkpoint is restored after every callback's `on_fit_begin`, so only now is it known where the run goes on.
        writer = self._writer(trainer, "train", first_step=step)
        writer.scalars({f"step/{name}": value for name, value in logs.items()}, step)

    def on_epoch_end(self, trainer: hr.Trainer, epoch: int, logs: Mapping[str, float]) -> None:
        """Write the epoch's values.

        Raises:
          OSError: the files cannot be made or written.
        """
        for run, values in _by_run(logs).items():
            writer = self._writer(trainer, run, first_step=trainer.step)
            writer.scalars({f"epoch/{name}": value for name, value in values.items()}, trainer.step)
            writer.flush()

    def on_fit_end(self, trainer: hr.Trainer) -> None:
        """Close the files; another `fit` makes new ones.

        Raises:
          OSError: the files cannot be written.
        """
        writers, self._writers = self._writers, {}
        for writer in writers.values():
            writer.close()

    def _writer(self, trainer: hr.Trainer, run: str, *, first_step: int) -> EventWriter:
        writer = self._writers.get(run)
        if writer is None:
            writer = self._writers[run] = EventWriter(self.logdir / run, purge_step=first_step)
            if run == "train":
                writer.graph(trainer.graph)
        return writer


def _by_run(logs: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Return the values of training and, where there are any, those of validation."""
    runs: dict[str, dict[str, float]] = {}
    for name, value in logs.items():
        run = "validation" if name.startswith(_VALIDATION_PREFIX) else "train"
        runs.setdefault(run, {})[name.removeprefix(_VALIDATION_PREFIX)] = value
    return runs
