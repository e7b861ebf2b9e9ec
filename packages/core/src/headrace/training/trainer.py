"""Trainer: fits a model to a dataset, in one graph that is stepped by one callable."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import headrace as hr
from headrace.data import Dataset, DatasetIterator
from headrace.errors import FailedPreconditionError, InvalidArgumentError
from headrace.layers.module import Module
from headrace.training import losses, training_graph
from headrace.training import metrics as metric_functions
from headrace.training.callbacks import Callback
from headrace.training.interruption import Interruption
from headrace.training.optim.optimizer import Optimizer
from headrace.training.progress import Progress
from headrace.training.running_means import RunningMeans

__all__ = ["Trainer"]


class Trainer:
    """Fits a model. It owns a graph, a session and the position in the training, all mutable state.

    Args:
      model: a `hr.layers.Module`.
      loss: "sparse_softmax_cross_entropy", "softmax_cross_entropy", "sigmoid_cross_entropy", "mean_squared_error", or a
        function of labels and outputs; its mean over the batch is made smaller.
      optimizer: a `hr.optim.Optimizer`.
      metrics: "accuracy", "mean_absolute_error", or functions of labels and outputs, whose means are reported.
      callbacks: called between steps and epochs, in this order.
      seed: of the graph; with it two runs are equal bit for bit.
    Attributes:
      step: steps done so far.
      epoch: epochs done so far.
      dataset: what the last `fit` trains on, or None before the first.
      history: what `fit` returns.
      fetched: what callbacks asked for, by their names, with its values in the last step.
      batch_examples: examples in the last batch.
      input_seconds: how long the last step waited for its batch.
      step_seconds: how long the last step ran.
    Raises:
      InvalidArgumentError: the model, the optimizer or a callback is not one, or metrics or callbacks are no list.
      NotFoundError: there is no loss or metric of that name.

    Example:
      >>> import headrace as hr, numpy as np
      >>> x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(-1, 1)
      >>> trainer = hr.Trainer(hr.layers.Dense(1), "mean_squared_error", hr.optim.SGD(0.5), seed=1)
      >>> history = trainer.fit(hr.data.from_arrays(x, 3 * x + 2).batch(8), epochs=20, progress=False)
      >>> history["loss"][-1] < 1e-6
      True
      >>> trainer.predict(np.float32([[10.0]])).round(2)
      array([[32.]], dtype=float32)
    """

    def __init__(
        self,
        model: Module,
        loss: losses.Loss,
        optimizer: Optimizer,
        metrics: Sequence[metric_functions.Metric] = (),
        callbacks: Sequence[Callback] = (),
        *,
        seed: int | None = None,
    ) -> None:
        _check_kind(model, Module, "model", "hr.layers.Module")
        _check_kind(optimizer, Optimizer, "optimizer", "hr.optim.Optimizer")
        if isinstance(metrics, str) or not isinstance(metrics, Iterable):
            raise _no_list("metrics", metrics)
        if not isinstance(callbacks, Iterable):
            raise _no_list("callbacks", callbacks)
        for callback in callbacks:
            _check_kind(callback, Callback, "callback", "hr.Callback")
        self.model = model
        self.optimizer = optimizer
        self.callbacks = sorted(callbacks, key=lambda callback: callback.runs_last)
        self.seed = seed
        self.step = 0
        self.epoch = 0
        self.dataset: Dataset | None = None
        self.history: dict[str, list[float]] = {}
        self.fetched: Mapping[str, Any] = {}
        self.batch_examples = 0
        self.input_seconds = 0.0
        self.step_seconds = 0.0
        self._loss = losses.lookup(loss)
        self._metrics = dict(metric_functions.lookup(metric) for metric in metrics)
        self._running: _Running | None = None
        self._pending: Mapping[str, Any] | None = None
        self._first_epoch = 0
        self._resumed = False
        self._stopping = False
        self._means = RunningMeans()
        self._iterator: DatasetIterator | None = None
        self._position: Mapping[str, int] | None = None

    @property
    def graph(self) -> hr.Graph:
        """The graph of model, loss, update and metrics."""
        return self._built().parts.graph

    @property
    def gradients(self) -> Mapping[str, Any]:
        """The gradients of the loss by the variables' names: tensors, or `IndexedSlices` where few rows have one."""
        return self._built().parts.gradients

    @property
    def session(self) -> hr.Session:
        """The session that holds the values of the variables."""
        return self._built().session

    def build(self, dataset: Dataset, *, target: str = "") -> None:
        """Make the graph and the session; `fit` and `evaluate` do so by themselves.

        Args:
          dataset: of batches like those to come: pairs of inputs `[batch, ...]` and labels `[batch, ...]`.
          target: see `hr.Session`.
        Raises:
          InvalidArgumentError: the dataset is empty or its elements are no such pairs.
        """
        if self._running is not None:
            return
        example = next(dataset.iterator(), None)
        if example is None:
            raise InvalidArgumentError(
                "the dataset is empty",
                expected="at least one batch",
                got=repr(dataset),
                hint="batch(..., drop_remainder=True) drops the only batch of a small dataset",
            )
        parts = training_graph.build(self.model, self._loss, self.optimizer, self._metrics, self.seed, example)
        self._running = _Running(parts, hr.Session(parts.graph, target))
        if self._pending is not None:
            self.restore(self._pending)

    def fit(
        self,
        dataset: Dataset,
        epochs: int = 1,
        *,
        validation: Dataset | tuple[Any, Any] | None = None,
        target: str = "",
        progress: bool = True,
    ) -> dict[str, list[float]]:
        """Train.

        Ctrl-C lets the step that runs finish, calls the callbacks' `on_fit_end` and raises KeyboardInterrupt; the
        trainer can go on afterwards. So does SIGTERM, with SystemExit or the program's own handler. After a `restore`,
        made before this call or in a callback's `on_fit_begin`, the training goes on from the very next batch and ends
        where the interrupted call would have ended.

        Args:
          dataset: of batches, pairs of inputs `[batch, ...]` and labels `[batch, ...]`.
          epochs: how many times to go through it.
          validation: what to evaluate after each epoch: such a dataset, or two arrays.
          target: "" to train in this process, or the address of a cluster.
          progress: whether to show a bar (on a terminal) or a line per epoch (elsewhere).
        Returns:
          "loss", the metrics and, with validation, "val_loss" and so on: one value per epoch, all fits together.
        Raises:
          InvalidArgumentError: the dataset is none, empty, endless, or not of such pairs, or epochs are no number.
          HeadraceError: a step failed.
        """
        _check_dataset(dataset)
        _check_epochs(epochs)
        length = dataset.length
        if length is None:
            raise InvalidArgumentError(
                "an endless dataset has no epochs",
                expected="a dataset that ends",
                got=repr(dataset),
                hint="dataset.take(steps_per_epoch)",
            )
        self.dataset = dataset
        self.build(dataset, target=target)
        if not self._resumed:
            self._first_epoch, self._iterator, self._position, self._means = self.epoch, None, None, RunningMeans()
        self._stopping = False
        display = Progress(enabled=progress)
        with Interruption() as interruption:
            self._notify("on_fit_begin")
            last = self._first_epoch + epochs
            try:
                while self.epoch < last and not self._stopping and not interruption.requested:
                    self._run_epoch(dataset, length, last, validation, display, interruption)
            finally:
                display.close()
                self._resumed = False
            self._notify("on_fit_end")
        interruption.pass_on(f"training was interrupted after step {self.step}")
        return self.history

    def _run_epoch(
        self,
        dataset: Dataset,
        length: int,
        last: int,
        validation: Dataset | tuple[Any, Any] | None,
        display: Progress,
        interruption: Interruption,
    ) -> None:
        iterator = self._iterator = self._iterator_of(dataset)
        display.start_epoch(self.epoch + 1, last, length, iterator.state()["position"])
        running, means = self._built(), self._means
        names, waiting_since = running.parts.names, time.perf_counter()
        for inputs, labels in iterator:
            started = time.perf_counter()
            wanted = self._wanted()
            *values, _ = running.train(tuple(wanted.values()))(inputs, labels)
            self.fetched = dict(zip(wanted, values[len(names) :], strict=True))
            self.batch_examples, self.input_seconds = len(labels), started - waiting_since
            self.step_seconds = time.perf_counter() - started
            logs = {name: float(value) for name, value in zip(names, values, strict=False)}
            means.add(logs, len(labels))
            self.step += 1
            display.step(logs)
            self._notify("on_step_end", self.step, logs)
            if self._stopping or interruption.requested:
                if iterator.state()["position"] < length:
                    return
                break
            waiting_since = time.perf_counter()
        logs = means.result()
        if validation is not None:
            logs |= {f"val_{name}": value for name, value in self.evaluate(validation).items()}
        display.end_epoch(logs)
        for name, value in logs.items():
            self.history.setdefault(name, []).append(value)
        self.epoch += 1
        self._iterator, self._means = None, RunningMeans()
        self._notify("on_epoch_end", self.epoch, logs)

    def _iterator_of(self, dataset: Dataset) -> DatasetIterator:
        """The epoch that is to be gone through, from where a restored state left it."""
        iterator = dataset.iterator(epoch=self.epoch)
        if self._position is not None:
            iterator.restore(self._position)
            self._position = None
        return iterator

    def evaluate(self, dataset: Dataset | tuple[Any, Any], *, batch_size: int = 256) -> dict[str, float]:
        """Measure loss and metrics, without training.

        Args:
          dataset: of batches, or a pair of arrays, inputs and labels.
          batch_size: of the batches that arrays are cut into.
        Returns:
          "loss" and the metrics: means over all examples.
        """
        batches = hr.data.from_arrays(*dataset).batch(batch_size) if isinstance(dataset, tuple) else dataset
        _check_dataset(batches)
        self.build(batches)
        running, means = self._built(), RunningMeans()
        for inputs, labels in batches.iterator():
            values = running.evaluate(inputs, labels)
            means.add(dict(zip(running.parts.names, map(float, values), strict=True)), len(labels))
        return means.result()

    def predict(self, inputs: Any, *, batch_size: int = 256) -> np.ndarray[Any, Any]:
        """Apply the model.

        Args:
          inputs: array `[n, ...]`.
          batch_size: how many to do at a time.
        Returns:
          The model's outputs `[n, ...]`.
        Raises:
          FailedPreconditionError: the trainer has no graph yet.
        """
        running, array = self._built(), np.asarray(inputs)
        starts = range(0, max(1, len(array)), batch_size)
        return np.concatenate([running.predict(array[start : start + batch_size]) for start in starts])

    def stop(self) -> None:
        """End `fit` after the step that runs, or at the end of the epoch where it is called from `on_epoch_end`."""
        self._stopping = True

    def progress(self) -> dict[str, Any]:
        """Where the training stands, besides what the session holds: JSON values."""
        position = self._position or {"epoch": self.epoch, "position": 0}
        return {
            "step": self.step,
            "epoch": self.epoch,
            "first_epoch": self._first_epoch,
            "dataset": dict(position) if self._iterator is None else self._iterator.state(),
            "means": self._means.state(),
            "history": {name: list(values) for name, values in self.history.items()},
            "callbacks": [callback.state() for callback in self.callbacks],
        }

    def state(self) -> dict[str, Any]:
        """All that a run needs in order to go on bit for bit.

        Returns:
          "variables": copies of all values by name; "streams": as `hr.Session.read_streams`; "progress": as `progress`.
        Raises:
          FailedPreconditionError: the trainer has no graph yet.
        """
        return {
            "variables": self.session.read_variables(),
            "streams": self.session.read_streams(),
            "progress": self.progress(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave, in a trainer made in the same way.

        Args:
          state: all of it, or some of its three parts; where the graph is still to be built it waits until then.
        Raises:
          HeadraceError: a variable, stream or position does not fit; variables keep their values then.
        """
        if self._running is None:
            self._pending = state
            return
        self._pending = None
        progress, streams = state.get("progress"), state.get("streams", {})
        if progress is not None and len(progress["callbacks"]) != len(self.callbacks):
            raise InvalidArgumentError(
                "the state is of a trainer with other callbacks",
                expected=f"{len(self.callbacks)} of them",
                got=str(len(progress["callbacks"])),
                hint="make the trainer as it was made for the first run",
            )
        for name in streams:
            self.graph.operation(name)
        self.session.write_variables(state.get("variables", {}))
        self.session.write_streams(streams)
        if progress is not None:
            self._restore_progress(progress)

    def _restore_progress(self, progress: Mapping[str, Any]) -> None:
        self.step, self.epoch, self._first_epoch = progress["step"], progress["epoch"], progress["first_epoch"]
        self._means = RunningMeans(progress["means"])
        self.history = {name: list(values) for name, values in progress["history"].items()}
        for callback, callback_state in zip(self.callbacks, progress["callbacks"], strict=True):
            callback.restore(callback_state)
        self._iterator, self._position, self._resumed = None, dict(progress["dataset"]), True

    def close(self) -> None:
        """Close the session; the values of the variables go with it."""
        if self._running is not None:
            self._running.session.close()

    def _built(self) -> _Running:
        if self._running is None:
            raise FailedPreconditionError(
                "the trainer has no graph yet",
                expected="a batch of data, which says what the model is applied to",
                got="none so far",
                hint="fit, evaluate, or trainer.build(dataset)",
            )
        return self._running

    def _wanted(self) -> dict[str, hr.Tensor]:
        """What the callbacks want to be fetched with the coming step."""
        wanted: dict[str, hr.Tensor] = {}
        for callback in self.callbacks:
            wanted |= self._call(callback, "fetches", self.step + 1)
        return wanted

    def _notify(self, event: str, *arguments: Any) -> None:
        for callback in self.callbacks:
            self._call(callback, event, *arguments)

    def _call(self, callback: Callback, event: str, *arguments: Any) -> Any:
        try:
            return getattr(callback, event)(self, *arguments)
        except Exception as error:
            error.add_note(f"in callback {type(callback).__name__}.{event}")
            raise


class _Running:
    """A graph with the session that runs it, and a callable for each thing to do."""

    def __init__(self, parts: training_graph.TrainingGraph, session: hr.Session) -> None:
        self.parts = parts
        self.session = session
        self._train: dict[tuple[hr.Tensor, ...], Callable[..., Any]] = {}
        self.train(())
        self.evaluate = session.make_callable(list(parts.evaluated), [parts.inputs, parts.labels])
        self.predict = session.make_callable(parts.outputs, [parts.inputs])

    def train(self, extra: tuple[hr.Tensor, ...]) -> Callable[..., Any]:
        """The update, which returns the measured values, those of `extra`, and nothing more of use."""
        found = self._train.get(extra)
        if found is None:
            parts = self.parts
            fetches = [*parts.measured, *extra, parts.train]
            found = self._train[extra] = self.session.make_callable(fetches, [parts.inputs, parts.labels])
        return found


def _check_dataset(dataset: Any) -> None:
    if not isinstance(dataset, Dataset):
        raise InvalidArgumentError(
            "there is no dataset to go through",
            expected="a hr.data.Dataset of batches",
            got=f"a {type(dataset).__name__}",
            hint="hr.data.from_arrays(inputs, labels).shuffle(len(inputs)).batch(64)",
        )


def _check_epochs(epochs: Any) -> None:
    if isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 0:
        raise InvalidArgumentError(
            "epochs are counted",
            expected="how many times to go through the dataset, a whole number, at least 0",
            got=repr(epochs),
            hint="dataset.take(steps) makes a shorter epoch",
        )


def _no_list(what: str, value: Any) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the {what} of a trainer are no list", expected="a list", got=repr(value), hint=f"{what}=[{value!r}]"
    )


def _check_kind(value: Any, kind: type, what: str, name: str) -> None:
    if not isinstance(value, kind):
        hint = f"help({name}) tells how to write one"
        if isinstance(value, type) and issubclass(value, kind):
            hint = f"call the class: {value.__name__}(...)"
        elif issubclass(kind, Optimizer):
            hint = "hr.optim.Adam(1e-3), say"
        raise InvalidArgumentError(
            f"the {what} of a trainer cannot be used",
            expected=f"an object of {name} or a subclass",
            got=repr(value),
            hint=hint,
        )
