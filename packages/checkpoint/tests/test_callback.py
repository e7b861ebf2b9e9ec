"""Checkpoints of a trainer: a resumed run ends as an uninterrupted one, bit for bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError, ShapeError
from headrace_checkpoint.callback import Checkpoints
from headrace_checkpoint.store import CheckpointWarning

X = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
Y = (X.sum(axis=1) > 0).astype(np.int32)


class Killed(Exception):
    """Stands for the end of the process."""


class Killer(hr.Callback):
    """Ends the training after a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, trainer: hr.Trainer, step: int, logs: Any) -> None:
        if step == self.step:
            raise Killed


def _trainer(*callbacks: hr.Callback, width: int = 8) -> hr.Trainer:
    """With dropout, shuffling and Adam: three kinds of state."""
    layers = [hr.layers.Dense(width, activation="relu"), hr.layers.Dropout(0.5), hr.layers.Dense(2)]
    model, optimizer = hr.layers.Sequential(layers), hr.optim.Adam(0.01)
    return hr.Trainer(
        model, "sparse_softmax_cross_entropy", optimizer, metrics=["accuracy"], callbacks=callbacks, seed=3
    )


def _fit(trainer: hr.Trainer, epochs: int = 4) -> dict[str, list[float]]:
    data = hr.data.from_arrays(X, Y).shuffle(40, seed=5).batch(8)  # 5 steps per epoch
    history: dict[str, list[float]] = trainer.fit(data, epochs=epochs, validation=(X, Y), progress=False)
    return history


def _variables(trainer: hr.Trainer) -> dict[str, bytes]:
    return {name: value.tobytes() for name, value in trainer.session.read_variables().items()}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], dict[str, list[float]]]:
    trainer = _trainer(Killer(-1), Checkpoints(tmp_path_factory.mktemp("whole")))
    history = _fit(trainer)
    return _variables(trainer), history


@pytest.mark.parametrize(("step", "every_steps"), [(step, (1, 3, None)[step % 3]) for step in range(1, 21)])
def test_A92_a_killed_and_resumed_run_equals_an_uninterrupted_one(
    tmp_path: Path, uninterrupted: tuple[dict[str, bytes], dict[str, list[float]]], step: int, every_steps: int | None
) -> None:
    with pytest.raises(Killed):
        _fit(_trainer(Killer(step), Checkpoints(tmp_path, every_steps=every_steps)))
    trainer = _trainer(Killer(-1), Checkpoints(tmp_path, every_steps=every_steps, resume=True))
    history = _fit(trainer)
    assert (_variables(trainer), history) == uninterrupted
    assert trainer.step == 20


def test_a_resume_of_nothing_is_a_start(
    tmp_path: Path, uninterrupted: tuple[dict[str, bytes], dict[str, list[float]]]
) -> None:
    trainer = _trainer(Killer(-1), Checkpoints(tmp_path, resume=True))
    assert (_fit(trainer), _variables(trainer)) == (uninterrupted[1], uninterrupted[0])


def test_a_resume_of_a_finished_run_does_nothing(tmp_path: Path) -> None:
    first = _trainer(Checkpoints(tmp_path))
    history = _fit(first)
    again = _trainer(Checkpoints(tmp_path, resume=True))
    assert _fit(again) == history
    assert _variables(again) == _variables(first)


def test_A94_the_newest_and_the_best_epochs_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=1, best="val_loss")
    history = _fit(_trainer(checkpoints))
    best = 5 * (int(np.argmin(history["val_loss"])) + 1)
    assert checkpoints.manager.best_step == best
    assert checkpoints.manager.steps == tuple(sorted({best, 20}))


def test_the_end_of_a_fit_is_saved_once(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=None)
    trainer = _trainer(checkpoints)
    _fit(trainer, epochs=2)
    assert [entry.name for entry in sorted(tmp_path.iterdir())] == ["step-00000005", "step-00000010"]
    _fit(trainer, epochs=1)  # the same trainer goes on, in the same directory
    assert checkpoints.manager.steps == (5, 10, 15)


def test_a_stop_in_the_middle_of_an_epoch_is_saved(tmp_path: Path) -> None:
    class Stopper(hr.Callback):
        def on_step_end(self, trainer: hr.Trainer, step: int, logs: Any) -> None:
            if step == 7:
                trainer.stop()

    checkpoints = Checkpoints(tmp_path)
    _fit(_trainer(Stopper(), checkpoints))
    assert checkpoints.manager.steps == (5, 7)


def test_checkpoints_of_another_run_are_not_mixed_in(tmp_path: Path) -> None:
    _fit(_trainer(Checkpoints(tmp_path)), epochs=1)
    with pytest.raises(AlreadyExistsError, match=r"of another run[^$]*no step after 0[^$]*step 5[^$]*resume=True"):
        _fit(_trainer(Checkpoints(tmp_path)))


def test_checkpoints_of_another_model_are_refused(tmp_path: Path) -> None:
    _fit(_trainer(Checkpoints(tmp_path)), epochs=1)
    with pytest.raises(ShapeError, match="does not fit the variables, and nothing was changed"):
        _fit(_trainer(Checkpoints(tmp_path, resume=True), width=4))


def test_a_damaged_newest_step_is_passed_over(
    tmp_path: Path, uninterrupted: tuple[dict[str, bytes], dict[str, list[float]]]
) -> None:
    with pytest.raises(Killed):
        _fit(_trainer(Killer(12), Checkpoints(tmp_path)))
    (tmp_path / "step-00000010" / "MANIFEST.json").write_bytes(b"")
    trainer = _trainer(Killer(-1), Checkpoints(tmp_path, resume=True))
    with pytest.warns(CheckpointWarning, match="step-00000010") as caught:
        history = _fit(trainer)
    assert caught[0].filename == __file__
    assert (_variables(trainer), history) == uninterrupted


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="every so many steps"):
        Checkpoints(tmp_path, every_steps=0)
    with pytest.raises(InvalidArgumentError, match="keep_latest >= 1"):
        Checkpoints(tmp_path, keep=0)


TRAIN = """
import runpy, sys
tests = runpy.run_path(sys.argv[1])
class Announcer(tests["hr"].Callback):
    def on_step_end(self, trainer, step, logs):
        print(step, flush=True)
checkpoints = tests["Checkpoints"](sys.argv[2], every_steps=1, resume=True)
tests["_fit"](tests["_trainer"](Announcer(), checkpoints), epochs=10_000)
"""


@pytest.mark.slow
def test_A92_a_process_killed_with_signal_9_is_resumed(
    tmp_path: Path, uninterrupted: tuple[dict[str, bytes], dict[str, list[float]]]
) -> None:
    command = [sys.executable, "-c", TRAIN, __file__, str(tmp_path)]
    last = 0
    for target in (3, 8):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for line in child.stdout:
                last = int(line)
                if last >= target:
                    break
            os.kill(child.pid, signal.SIGKILL)
    trainer = _trainer(Killer(-1), Checkpoints(tmp_path, resume=True))
    history = _fit(trainer)
    assert trainer.step == max(20, last)
    if trainer.step == 20:
        assert (_variables(trainer), history) == uninterrupted


TERMINATE = """
import os, runpy, signal, sys
tests = runpy.run_path(sys.argv[1])
class Preemption(tests["hr"].Callback):
    def on_step_end(self, trainer, step, logs):
        if step == 7:
            os.kill(os.getpid(), signal.SIGTERM)
checkpoints = tests["Checkpoints"](sys.argv[2], asynchronous=True)
tests["_fit"](tests["_trainer"](Preemption(), checkpoints))
"""


def test_A92_a_process_that_gets_sigterm_saves_and_ends(
    tmp_path: Path, uninterrupted: tuple[dict[str, bytes], dict[str, list[float]]]
) -> None:
    ended = subprocess.run([sys.executable, "-c", TERMINATE, __file__, str(tmp_path)], timeout=60)
    assert ended.returncode == 128 + signal.SIGTERM
    checkpoints = Checkpoints(tmp_path, resume=True)
    assert checkpoints.manager.latest_step == 7
    trainer = _trainer(Killer(-1), checkpoints)
    history = _fit(trainer)
    assert (_variables(trainer), history) == uninterrupted


def test_a_training_that_saves_asynchronously_has_saved_all_when_it_ends(
    tmp_path: Path, uninterrupted: tuple[dict[str, bytes], dict[str, list[float]]]
) -> None:
    checkpoints = Checkpoints(tmp_path, keep=None, every_steps=3, asynchronous=True)
    trainer = _trainer(Killer(-1), checkpoints)
    history = _fit(trainer)
    assert checkpoints.manager.steps == (3, 5, 6, 9, 10, 12, 15, 18, 20)
    assert (_variables(trainer), history) == uninterrupted


def test_a_value_for_the_best_that_is_not_measured_is_named_after_the_epoch_is_saved(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, best="val_acuracy")
    with pytest.raises(NotFoundError, match="kept by 'val_acuracy', which is not measured\n.*close ones: val_accuracy"):
        _fit(_trainer(checkpoints))
    assert checkpoints.manager.steps == (5,)
