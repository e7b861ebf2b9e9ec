"""The trainer's callback: curves of steps and epochs, the graph once, and one clean curve after a resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import InvalidArgumentError
from headrace.graph.proto.graph_pb2 import GraphDef
from headrace_viz import TensorBoard
from headrace_viz.proto.event_pb2 import Event
from headrace_viz.reading import find_runs, read_run
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
    return [[Event.FromString(data) for data in read_records(path)] for path in find_runs(run)["."]]


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
    assert {value.tag for event in train for value in event.summary.value} == {
        "step/loss",
        "epoch/loss",
        "epoch/learning_rate",
        "epoch/examples_per_second",
        "epoch/input_stall",
    }
    assert {value.tag for event in validation for value in event.summary.value} == {"epoch/loss"}


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


def test_learning_rate_and_how_time_is_spent(tmp_path: Path) -> None:
    _fit(_trainer(TensorBoard(tmp_path)), 2)
    (train,) = _events(tmp_path / "train")
    assert list(_curve(train, "epoch/learning_rate").values()) == [np.float32(0.1)] * 2
    assert all(rate > 0 for rate in _curve(train, "epoch/examples_per_second").values())
    assert all(0 < share < 1 for share in _curve(train, "epoch/input_stall").values())


def test_without_throughput(tmp_path: Path) -> None:
    _fit(_trainer(TensorBoard(tmp_path, throughput=False)), 1)
    (train,) = _events(tmp_path / "train")
    assert {value.tag for event in train for value in event.summary.value} == {"step/loss", "epoch/loss"}


def test_a_learning_rate_that_changes_is_a_curve_of_steps(tmp_path: Path) -> None:
    optimizer = hr.optim.SGD(lambda step: 0.1 * hr.pow(0.5, hr.astype(step, hr.float32)))
    trainer = hr.Trainer(hr.layers.Dense(1), "mean_squared_error", optimizer, callbacks=[TensorBoard(tmp_path)], seed=1)
    _fit(trainer, 1)
    (train,) = _events(tmp_path / "train")
    rates = _curve(train, "step/learning_rate")
    np.testing.assert_allclose([rates[step] for step in (1, 2, 3, 4)], [0.1, 0.05, 0.025, 0.0125], rtol=1e-6)
    assert _curve(train, "epoch/learning_rate")[4] == rates[4]


def test_gradient_norms_and_histograms(tmp_path: Path) -> None:
    callback = TensorBoard(tmp_path, gradient_norms_every=2, histograms_every=4)
    trainer = _trainer(callback)
    _fit(trainer, 1)
    values = {(value.tag, value.step): value.value for value in read_run(find_runs(tmp_path / "train")["."])}
    names = list(trainer.gradients)
    assert len(names) == 2
    norms = {step: [values[f"gradient_norm/{name}", step] for name in names] for step in (2, 4)}
    for step, parts in norms.items():
        assert all(part > 0 for part in parts)
        np.testing.assert_allclose(values["gradient_norm/all", step], np.linalg.norm(parts), rtol=1e-6)
    variables = trainer.session.read_variables()
    for name in names:
        parameter, gradient = values[f"parameter/{name}", 4], values[f"gradient/{name}", 4]
        assert parameter[:, 2].sum() == gradient[:, 2].sum() == variables[name].size
        middle = (parameter[0, 0] + parameter[-1, 1]) / 2  # of a single value
        np.testing.assert_allclose(middle, variables[name].ravel()[0], rtol=1e-6)
    assert {step for tag, step in values if tag.startswith(("gradient", "parameter"))} == {2, 4}
    assert not [tag for tag, _ in values if tag.startswith("not_finite")]


def test_the_graph_grows_once_however_often_it_is_fitted(tmp_path: Path) -> None:
    trainer = _trainer(TensorBoard(tmp_path, gradient_norms_every=1))
    _fit(trainer, 1)
    count = len(trainer.graph.operations)
    _fit(trainer, 1)
    assert len(trainer.graph.operations) == count


def test_what_is_looked_at_does_not_change_the_training(tmp_path: Path) -> None:
    plain, watched = _trainer(), _trainer(TensorBoard(tmp_path, gradient_norms_every=1, histograms_every=1))
    for trainer in (plain, watched):
        _fit(trainer, 2)
    assert plain.history == watched.history


def test_B03_gradients_that_are_not_finite_are_counted_and_the_training_goes_on(tmp_path: Path) -> None:
    optimizer = hr.optim.SGD(1e30)
    callback = TensorBoard(tmp_path, histograms_every=1, gradient_norms_every=1)
    trainer = hr.Trainer(hr.layers.Dense(1), "mean_squared_error", optimizer, callbacks=[callback], seed=1)
    with np.errstate(all="ignore"):
        _fit(trainer, 1)
    values = {(value.tag, value.step): value.value for value in read_run(find_runs(tmp_path / "train")["."])}
    (name,) = [name for name in trainer.gradients if "kernel" in name]
    assert values[f"not_finite/parameter/{name}", STEPS] == 1
    assert values[f"parameter/{name}", STEPS].shape == (0, 3)


def test_sinks_get_every_scalar(tmp_path: Path) -> None:
    taken: list[tuple[int, dict[str, float]]] = []

    class Sink:
        """Keeps what it gets."""

        def write_scalars(self, step: int, wall_time: float, values: Any) -> None:
            """Keep."""
            assert wall_time > 1e9
            taken.append((step, dict(values)))

    collect = Collect()
    trainer = _trainer(TensorBoard(tmp_path, sinks=[Sink()], throughput=False), collect)
    _fit(trainer, 1, validation=(INPUTS, INPUTS))
    *steps, epoch, validation = taken
    assert [(step, float(np.float32(values["step/loss"]))) for step, values in steps] == list(collect.steps.items())
    assert epoch == (STEPS, {"epoch/loss": collect.epochs[STEPS]["loss"]})
    assert validation == (STEPS, {"validation/epoch/loss": collect.epochs[STEPS]["val_loss"]})


def test_what_is_no_option(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="gradient_norms_every cannot be used"):
        TensorBoard(tmp_path, gradient_norms_every=-1)
    with pytest.raises(InvalidArgumentError, match="histograms_every cannot be used"):
        TensorBoard(tmp_path, histograms_every=-1)
    with pytest.raises(InvalidArgumentError, match="a sink of the TensorBoard callback cannot be used"):
        TensorBoard(tmp_path, sinks=[print])  # type: ignore[list-item]  # the point of the test


def test_runs_on_a_remote_store(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    _fit(_trainer(TensorBoard(f"memory:/{tmp_path}/logs")), 1)
    (file,) = fsspec.filesystem("memory").ls(f"{tmp_path}/logs/train", detail=False)
    assert "tfevents" in file
