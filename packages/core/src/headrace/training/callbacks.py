"""Callback: what a trainer calls between steps and epochs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.errors import InvalidArgumentError, NotFoundError, known_names

if TYPE_CHECKING:
    from headrace.graph.operation import Tensor
    from headrace.training.trainer import Trainer

__all__ = ["Callback", "EarlyStopping"]


class Callback:
    """Base class of callbacks; each method does nothing unless a subclass says otherwise.

    A callback may read everything of the trainer (`graph`, `gradients`, `session`, `step`, `epoch`, `dataset`,
    `history`, and of the last step `fetched`, `batch_examples`, `input_seconds` and `step_seconds`), call its `stop`,
    and in `on_fit_begin` its `restore`. An error it raises ends `fit`.

    Example:
      >>> import headrace as hr
      >>> class StopWhenGood(hr.Callback):
      ...     def on_epoch_end(self, trainer, epoch, logs):
      ...         if logs["accuracy"] > 0.99:
      ...             trainer.stop()
    """

    runs_last = False
    """True for a callback that must see what the others did, as one that saves their state."""

    def on_fit_begin(self, trainer: Trainer) -> None:
        """Called once the graph and the session are there, before the first step."""

    def fetches(self, trainer: Trainer, step: int) -> Mapping[str, Tensor]:
        """Name tensors of the trainer's graph whose values the coming step is to fetch too, besides loss and metrics.

        Their values are in `trainer.fetched`, by these names, when `on_step_end` is called. Each new set of tensors
        compiles the step anew, so let it be always the same one, or none in most steps.

        Args:
          trainer: who calls.
          step: the number of the coming step, from 1.
        """
        return {}

    def on_step_end(self, trainer: Trainer, step: int, logs: Mapping[str, float]) -> None:
        """Called after each step.

        Args:
          trainer: who calls.
          step: how many steps are done in all.
          logs: "loss" and the metrics of this step's batch.
        """

    def on_epoch_end(self, trainer: Trainer, epoch: int, logs: Mapping[str, float]) -> None:
        """Called after each epoch.

        Args:
          trainer: who calls.
          epoch: how many epochs are done in all.
          logs: "loss" and the metrics, their means over the epoch; with validation also "val_loss" and so on.
        """

    def on_fit_end(self, trainer: Trainer) -> None:
        """Called after the last step, also where Ctrl-C or SIGTERM ended the training, but not after an error."""

    def state(self) -> dict[str, Any]:
        """What the callback needs in order to go on in a resumed run: JSON values."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""


class EarlyStopping(Callback):
    """Stops the training when a value no longer gets better.

    Args:
      monitor: the name of the value in the logs of an epoch.
      patience: how many epochs in a row may pass without a better value before the one that ends the training.
      min_delta: by how much a value must be better to count.
      mode: "min" if a smaller value is better, "max" if a larger one; "auto" takes "min" for losses and errors.
    Raises:
      InvalidArgumentError: the mode is none of these.
    """

    def __init__(
        self, monitor: str = "val_loss", *, patience: int = 0, min_delta: float = 0.0, mode: str = "auto"
    ) -> None:
        if mode not in ("auto", "min", "max"):
            raise InvalidArgumentError(
                "the mode of EarlyStopping is not known",
                expected="auto, min or max",
                got=repr(mode),
                hint='"max" for values that should rise',
            )
        self.monitor = monitor
        self.patience = patience
        self.min_delta = min_delta
        smaller = mode == "min" or (mode == "auto" and monitor.endswith(("loss", "error")))
        self._sign = -1.0 if smaller else 1.0
        self._best = -math.inf
        self._waited = 0

    def on_epoch_end(self, trainer: Trainer, epoch: int, logs: Mapping[str, float]) -> None:
        """Compare the value with the best one.

        Raises:
          NotFoundError: the logs have no such value.
        """
        if self.monitor not in logs:
            raise NotFoundError(
                f"EarlyStopping watches '{self.monitor}', which is not measured",
                expected=known_names(self.monitor, logs),
                got=self.monitor,
                hint="fit(..., validation=...) measures the val_ values",
            )
        score = self._sign * logs[self.monitor]
        if score > self._best + self.min_delta:
            self._best, self._waited = score, 0
            return
        self._waited += 1
        if self._waited > self.patience:
            trainer.stop()

    def state(self) -> dict[str, Any]:
        """The best value so far, and how long ago it was."""
        return {"best": None if self._best == -math.inf else self._best, "waited": self._waited}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        self._best = -math.inf if state["best"] is None else float(state["best"])
        self._waited = int(state["waited"])
