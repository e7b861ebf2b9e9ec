"""Checkpoints: the trainer's callback that saves the training and resumes it."""

from __future__ import annotations

import os
from collections.abc import Mapping

import headrace as hr
from headrace.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError, known_names
from headrace_checkpoint.retention import Best
from headrace_checkpoint.saver import CheckpointManager

__all__ = ["Checkpoints"]

_PROGRESS = "trainer"


class Checkpoints(hr.Callback):
    """Saves all that a training needs to go on: variables, random streams, the place in the data, the history.

    A step is saved after each epoch, with the epoch's logs as its metrics; at the end of `fit`, also where Ctrl-C or
    SIGTERM (a machine that is taken away) ended it; and every so many steps, if asked for. A resumed training ends as
    an uninterrupted one would, bit for bit.

    Args:
      directory: where the steps are; made when the first is saved.
      keep: how many of the newest steps to keep; None: all.
      best: keep the best by this value of the epochs' logs too: a name, `(name, count)` or a `Best`.
      every_steps: save after every so many steps too.
      resume: go on from the newest step in the directory, if there is one.
      asynchronous: write in the background while the training goes on; `fit` ends when all is written.
      keep_every_hours: see `CheckpointManager`.
    Raises:
      InvalidArgumentError: a number below 1.

    Example:
      >>> import headrace as hr, headrace_checkpoint, numpy as np, tempfile
      >>> directory = tempfile.mkdtemp()
      >>> x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(-1, 1)
      >>> def train(epochs, **options):
      ...     checkpoints = headrace_checkpoint.Checkpoints(directory, keep=2, best="loss", **options)
      ...     trainer = hr.Trainer(
      ...         hr.layers.Dense(1), "mean_squared_error", hr.optim.SGD(0.5), callbacks=[checkpoints], seed=1
      ...     )
      ...     trainer.fit(hr.data.from_arrays(x, 3 * x + 2).batch(8), epochs=epochs, progress=False)
      ...     return checkpoints.manager.steps
      >>> train(2)
      (4, 8)
      >>> train(4, resume=True)
      (12, 16)
    """

    runs_last = True

    def __init__(
        self,
        directory: str | os.PathLike[str],
        keep: int | None = 3,
        *,
        best: Best | str | tuple[str, int] | None = None,
        every_steps: int | None = None,
        resume: bool = False,
        asynchronous: bool = False,
        keep_every_hours: float | None = None,
    ) -> None:
        if every_steps is not None and every_steps < 1:
            raise InvalidArgumentError(
                "checkpoints are saved every so many steps",
                expected="every_steps >= 1, or None",
                got=str(every_steps),
                hint="None saves after each epoch only",
            )
        self._best = Best.of(best)
        self.manager = CheckpointManager(
            directory, keep, keep_best=self._best, keep_every_hours=keep_every_hours, asynchronous=asynchronous
        )
        self._every_steps = every_steps
        self._resume = resume
        self._saved_step: int | None = None

    def on_fit_begin(self, trainer: hr.Trainer) -> None:
        """Resume from the newest step that is whole.

        Raises:
          AlreadyExistsError: the directory has later steps, of another run, and resuming was not asked for.
          HeadraceError: the step is of another model or trainer; nothing has changed then.
        """
        self._go_on(trainer)
        self.manager.reserve(trainer.session)

    def _go_on(self, trainer: hr.Trainer) -> None:
        latest = self.manager.latest_step
        if latest is None or trainer.step >= latest:
            return
        if not self._resume:
            raise AlreadyExistsError(
                "the directory has checkpoints of another run, which would be taken for later ones",
                where=str(self.manager.directory),
                expected=f"no step after {trainer.step}",
                got=f"step {latest}",
                hint="Checkpoints(..., resume=True) goes on from there; a new run takes another directory",
            )
        report = self.manager.restore(trainer.session)
        if _PROGRESS in report.objects:
            trainer.restore({"progress": report.objects[_PROGRESS]})
        self._saved_step = report.step

    def on_step_end(self, trainer: hr.Trainer, step: int, logs: Mapping[str, float]) -> None:
        """Save if it is time to."""
        if self._every_steps is not None and step % self._every_steps == 0:
            self._save(trainer, {})

    def on_epoch_end(self, trainer: hr.Trainer, epoch: int, logs: Mapping[str, float]) -> None:
        """Save, with the epoch's logs as metrics.

        Raises:
          NotFoundError: the logs lack the value by which the best is kept; the epoch is saved all the same.
        """
        self._save(trainer, logs)
        if self._best is not None and self._best.metric not in logs:
            raise NotFoundError(
                f"the best checkpoint is kept by '{self._best.metric}', which is not measured",
                expected=known_names(self._best.metric, logs),
                got=self._best.metric,
                hint="fit(..., validation=...) measures the val_ values",
            )

    def on_fit_end(self, trainer: hr.Trainer) -> None:
        """Save what was not saved yet, and wait until it is."""
        if self._saved_step != trainer.step:
            self._save(trainer, {})
        self.manager.wait()

    def _save(self, trainer: hr.Trainer, metrics: Mapping[str, float]) -> None:
        self.manager.save(trainer.session, trainer.step, metrics=metrics, objects={_PROGRESS: trainer.progress()})
        self._saved_step = trainer.step
