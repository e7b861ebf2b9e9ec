"""The trainer's callback: curves of steps and epochs, the graph once, and one clean curve after a resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.graph.proto.graph_pb2 import GraphDef
from headrace_viz import TensorBoard
from headrace_viz.event_file import event_files
from headrace_viz.proto.event_pb2 import Event
from headrace_viz.records import read_records

INPUTS = np.linspace(-1, 1, 32, dtype=np.float32).reshape(-1, 1)
DATASET = hr.data.from_arrays(INPUTS, 3 * INPUTS + 2).batch(8)
STEPS = 4
"""Steps of an epoch."""


class Collect(hr.Callback):
    """Keeps what the trainer tells."""

    def __init__(self) -> None:
        self.steps: dict[int, float] = {}
        self.epochs: dict[int, dict[str, float]] = {}

    def on_step_end(self, trainer: hr.Trainer, step: int, logs: Any) -> None:
        """Keep the loss of a step."""
        self.steps[step] = float(np.float32(logs["loss"]))

    def on_epoch_end(self, trainer: hr.Trainer, epoch: int, logs: Any) -> None:
        """Keep the values of an epoch."""
        self.epochs[trainer.step] = dict(logs)


def _trainer(*callbacks: hr.Callback) -> hr.Trainer:
    return hr.Trainer(hr.layers.Dense(1), "mean_squared_error", hr.optim.SGD(0.1), callbacks=callbacks, seed=1)


def _fit(trainer: hr.Trainer, epochs: int, **options: Any) -> None:
    trainer.fit(DATASET, epochs=epochs, progress=False, **options)


def _events(run: Path) -> list[list[Event]]:
    return [[Event.FromString(data) for data in read_records(path)] for path in event_files(run)]


def _curve(events: list[Event], tag: str) -> dict[int, float]:
    return {
        event.step: value.tensor.float_val[0] for event in events for value in event.summary.value if value.tag == tag
    }


def test_steps_epochs_and_validation(tmp_path: Path) -> None:
    collect = Collect()
    _fit(_trainer(TensorBoard(tmp_path), collect), 3, validation=(INPUTS, 3 * INPUTS + 2))
    (train,), (validation,) = _events(tmp_path / "train"), _events(tmp_path / "validation")
    assert list(collect.steps) == list(range(1, 3 * STEPS + 1))
    assert _curve(train, "step/loss") == collect.steps
    epochs = {step: float(np.float32(logs["loss"])) for step, logs in collect.epochs.items()}
    assert _curve(train, "epoch/loss") == epochs
    assert list(epochs) == [STEPS, 2 * STEPS, 3 * STEPS]
    assert _curve(validation, "epoch/loss") == {
        s: float(np.float32(logs["val_loss"])) for s, logs in collect.epochs.items()
    }
    assert {value.tag for event in train for value in event.summary.value} == {"step/loss", "epoch/loss"}


def test_the_graph_is_written_once(tmp_path: Path) -> None:
    trainer = _trainer(TensorBoard(tmp_path))
    _fit(trainer, 2, validation=(INPUTS, INPUTS))
    (train,), (validation,) = _events(tmp_path / "train"), _events(tmp_path / "validation")
    (data,) = [event.graph_def for event in train if event.graph_def]
    assert {node.name for node in GraphDef.FromString(data).node} == {op.name for op in trainer.graph.operations}
    assert not any(event.graph_def for event in validation)


def test_another_fit_goes_on_in_another_file(tmp_path: Path) -> None:
    trainer = _trainer(TensorBoard(tmp_path))
    _fit(trainer, 1)
    _fit(trainer, 1)
    first, second = _events(tmp_path / "train")
    assert list(_curve(first, "step/loss")) == [1, 2, 3, 4]
    assert list(_curve(second, "step/loss")) == [5, 6, 7, 8]
    assert [event.step for event in second if event.HasField("session_log")] == [5, 5]


class RestoreLate(hr.Callback):
    """Restores as a checkpoint callback does: after the other callbacks have begun."""

    runs_last = True

    def __init__(self, state: Any) -> None:
        self._state = state

    def on_fit_begin(self, trainer: hr.Trainer) -> None:
        """Restore."""
        trainer.restore(self._state)


class StopAt(hr.Callback):
    """Ends the training after a step."""

    def __init__(self, step: int) -> None:
        self._step = step

    def on_step_end(self, trainer: hr.Trainer, step: int, logs: Any) -> None:
        """Stop if it is time to."""
        if step == self._step:
            trainer.stop()


def test_a_resumed_training_purges_what_is_done_again(tmp_path: Path) -> None:
    saved = _trainer(StopAt(3))
    _fit(saved, 2)
    state = {"variables": saved.session.read_variables(), "progress": {**saved.progress(), "callbacks": [{}, {}]}}
    _fit(_trainer(TensorBoard(tmp_path), StopAt(6)), 2)
    _fit(_trainer(TensorBoard(tmp_path), RestoreLate(state)), 2)
    first, second = _events(tmp_path / "train")
    assert list(_curve(first, "step/loss")) == [1, 2, 3, 4, 5, 6]
    assert list(_curve(second, "step/loss")) == [4, 5, 6, 7, 8]
    assert [event.step for event in second if event.HasField("session_log")] == [4, 4]


def test_values_are_there_as_soon_as_an_epoch_ends(tmp_path: Path) -> None:
    class Look(hr.Callback):
        """Reads the files while the training is going on."""

        runs_last = True

        def __init__(self) -> None:
            self.seen: list[int] = []

        def on_epoch_end(self, trainer: hr.Trainer, epoch: int, logs: Any) -> None:
            """Read."""
            (events,) = _events(tmp_path / "train")
            self.seen.append(len(_curve(events, "step/loss")))

    look = Look()
    _fit(_trainer(TensorBoard(tmp_path), look), 2)
    assert look.seen == [STEPS, 2 * STEPS]


def test_a_folder_that_cannot_be_made_ends_the_training(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        _fit(_trainer(TensorBoard(tmp_path / "file" / "logs")), 1)
