"""The trainer fits, evaluates, predicts, stops and resumes: one graph, stepped by one callable."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import headrace as hr
from headrace.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError, ShapeError

Array = npt.NDArray[Any]


def blobs(n: int = 120, seed: int = 0) -> tuple[Array, Array]:
    """Three classes of points in the plane."""
    numbers = np.random.default_rng(seed)
    labels = (np.arange(n) % 3).astype(np.int32)
    centers = np.array([[0, 2], [2, -1], [-2, -1]], np.float32)
    return (centers[labels] + numbers.normal(0, 0.6, (n, 2))).astype(np.float32), labels


def classifier(**options: Any) -> hr.Trainer:
    """With dropout and batch normalisation, so that it has random streams and statistics."""
    model = hr.layers.Sequential(
        [
            hr.layers.Dense(16, activation="relu"),
            hr.layers.BatchNorm(momentum=0.9),
            hr.layers.Dropout(0.2),
            hr.layers.Dense(3),
        ]
    )
    options = {"optimizer": hr.optim.Adam(0.02), "metrics": ["accuracy"], "seed": 7, **options}
    return hr.Trainer(model, "sparse_softmax_cross_entropy", **options)


def batches(n: int = 120) -> hr.data.Dataset:
    return hr.data.from_arrays(*blobs(n)).shuffle(n, seed=5).batch(16)


def test_fit_learns_and_reports_each_epoch() -> None:
    trainer = classifier()
    history = trainer.fit(batches(), epochs=8, validation=blobs(60, seed=9), progress=False)
    assert list(history) == ["loss", "accuracy", "val_loss", "val_accuracy"]
    assert {len(values) for values in history.values()} == {8}
    assert history["val_accuracy"][-1] > 0.9
    assert history["loss"][-1] < history["loss"][0]
    assert (trainer.step, trainer.epoch) == (64, 8)


def test_a_graph_is_built_once_and_does_not_grow() -> None:
    trainer = classifier()
    trainer.fit(batches(), epochs=1, progress=False)
    graph, operations = trainer.graph, len(trainer.graph.operations)
    trainer.fit(batches(), epochs=2, validation=batches(), progress=False)
    trainer.evaluate(blobs())
    trainer.predict(blobs()[0])
    assert trainer.graph is graph
    assert len(graph.operations) == operations


def test_evaluate_measures_means_over_all_examples() -> None:
    trainer = classifier()
    trainer.fit(batches(), progress=False)
    x, y = blobs(100, seed=3)
    outputs = trainer.predict(x)
    shifted = outputs - outputs.max(axis=1, keepdims=True)
    losses = np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(100), y]
    for measured in (trainer.evaluate((x, y), batch_size=33), trainer.evaluate(hr.data.from_arrays(x, y).batch(7))):
        assert measured["loss"] == pytest.approx(losses.mean(), rel=1e-5)
        assert measured["accuracy"] == pytest.approx((outputs.argmax(axis=1) == y).mean(), rel=1e-6)


def test_evaluation_changes_nothing() -> None:
    trainer = classifier()
    trainer.fit(batches(), progress=False)
    before = trainer.state()
    trainer.evaluate(blobs())
    after = trainer.state()
    assert before["progress"] == after["progress"]
    assert before["streams"] == after["streams"]
    assert all(before["variables"][name].tobytes() == value.tobytes() for name, value in after["variables"].items())


def test_two_runs_of_one_seed_are_equal_bit_for_bit() -> None:
    runs = []
    for _ in range(2):
        trainer = classifier()
        history = trainer.fit(batches(), epochs=2, progress=False)
        runs.append((history, {name: value.tobytes() for name, value in trainer.state()["variables"].items()}))
    assert runs[0] == runs[1]


def test_the_seed_decides() -> None:
    first, second = (classifier(seed=seed).fit(batches(), progress=False)["loss"] for seed in (1, 2))
    assert first != second


class StateAt(hr.Callback):
    """Keeps the state after some step, as it would be read back from a file."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.saved: dict[str, Any] = {}

    def on_step_end(self, trainer: hr.Trainer, step: int, logs: Mapping[str, float]) -> None:
        if step == self.step:
            self.saved = trainer.state()
            self.saved["progress"] = json.loads(json.dumps(self.saved["progress"]))


def bits(trainer: hr.Trainer) -> dict[str, bytes]:
    return {name: value.tobytes() for name, value in trainer.state()["variables"].items()}


@pytest.mark.parametrize("step", [1, 7, 8, 9, 15, 16])
def test_C21_a_resumed_run_equals_an_uninterrupted_one(step: int) -> None:
    """8 steps an epoch: in the middle, at the last step of an epoch, after the first of the next."""
    keeper = StateAt(step)
    whole = classifier(callbacks=[keeper])
    history = whole.fit(batches(), epochs=3, validation=blobs(30), progress=False)
    resumed = classifier(callbacks=[StateAt(-1)])
    resumed.restore(keeper.saved)
    assert resumed.fit(batches(), epochs=3, validation=blobs(30), progress=False) == history
    assert bits(resumed) == bits(whole)
    assert resumed.state()["streams"] == whole.state()["streams"]
    assert (resumed.step, resumed.epoch) == (24, 3)


class RestoreAtBegin(hr.Callback):
    def __init__(self, state: dict[str, Any]) -> None:
        self.saved = state

    def on_fit_begin(self, trainer: hr.Trainer) -> None:
        trainer.restore(self.saved)


def test_a_callback_may_restore_when_the_fit_begins() -> None:
    keeper = StateAt(11)
    whole = classifier(callbacks=[keeper])
    history = whole.fit(batches(), epochs=2, progress=False)
    resumed = classifier(callbacks=[RestoreAtBegin(keeper.saved)])
    assert resumed.fit(batches(), epochs=2, progress=False) == history
    assert bits(resumed) == bits(whole)


def test_a_state_taken_after_the_last_epoch_trains_no_further() -> None:
    first = classifier()
    first.fit(batches(), epochs=2, progress=False)
    resumed = classifier()
    resumed.restore(first.state())
    resumed.fit(batches(), epochs=2, progress=False)
    assert resumed.step == 16
    resumed.fit(batches(), epochs=1, progress=False)  # an ordinary call again
    assert (resumed.step, resumed.epoch) == (24, 3)


def test_a_second_fit_goes_on_with_the_next_epochs() -> None:
    whole, parts = classifier(), classifier()
    whole.fit(batches(), epochs=3, progress=False)
    parts.fit(batches(), epochs=1, progress=False)
    assert parts.fit(batches(), epochs=2, progress=False) == whole.history
    assert bits(parts) == bits(whole)


def test_early_stopping_counts_across_a_resumption() -> None:
    def stopping() -> hr.EarlyStopping:
        return hr.EarlyStopping("val_loss", patience=1, min_delta=10.0)

    first = classifier(callbacks=[stopping()])
    first.fit(batches(), epochs=2, validation=blobs(30), progress=False)
    resumed = classifier(callbacks=[stopping()])
    resumed.restore(first.state())
    resumed.fit(batches(), epochs=2, validation=blobs(30), progress=False)
    assert resumed.epoch == 2
    resumed.fit(batches(), epochs=9, validation=blobs(30), progress=False)
    assert resumed.epoch == 3  # the first was better than nothing, then one of patience, then the end


def test_restoring_another_model_changes_nothing() -> None:
    trainer = classifier()
    trainer.fit(batches(), progress=False)
    before = bits(trainer)
    state = trainer.state()
    state["variables"]["layers/0/kernel"] = np.zeros((3, 16), np.float32)
    with pytest.raises(ShapeError, match="variable 'layers/0/kernel' cannot take the value"):
        trainer.restore(state)
    assert bits(trainer) == before
    state = trainer.state()
    state["variables"]["layers/0/kernel"] += 1
    with pytest.raises(InvalidArgumentError, match="a trainer with other callbacks"):
        trainer.restore({**state, "progress": {**state["progress"], "callbacks": [{}]}})
    with pytest.raises(NotFoundError, match="no operation 'another'"):
        trainer.restore({**state, "streams": {"another": (0, 0)}})
    assert bits(trainer) == before


class Recorder(hr.Callback):
    def __init__(self) -> None:
        self.events: list[str] = []

    def on_fit_begin(self, trainer: hr.Trainer) -> None:
        self.events.append(f"begin {len(trainer.graph.operations) > 0} {trainer.dataset is not None}")

    def on_step_end(self, trainer: hr.Trainer, step: int, logs: Mapping[str, float]) -> None:
        self.events.append(f"step {step} {trainer.step} {sorted(logs)}")

    def on_epoch_end(self, trainer: hr.Trainer, epoch: int, logs: Mapping[str, float]) -> None:
        self.events.append(f"epoch {epoch} {trainer.epoch} {sorted(logs)}")

    def on_fit_end(self, trainer: hr.Trainer) -> None:
        self.events.append("end")


def test_callbacks_are_called_in_order() -> None:
    recorder = Recorder()
    classifier(callbacks=[recorder]).fit(batches(32), epochs=1, validation=blobs(9), progress=False)
    assert recorder.events == [
        "begin True True",
        "step 1 1 ['accuracy', 'loss']",
        "step 2 2 ['accuracy', 'loss']",
        "epoch 1 1 ['accuracy', 'loss', 'val_accuracy', 'val_loss']",
        "end",
    ]


def test_a_callback_that_must_see_the_others_comes_last() -> None:
    last, first = Recorder(), Recorder()
    last.runs_last = True
    assert classifier(callbacks=[last, first]).callbacks == [first, last]


class Failing(hr.Callback):
    def on_epoch_end(self, trainer: hr.Trainer, epoch: int, logs: Mapping[str, float]) -> None:
        raise OSError("the disk is full")


def test_an_error_of_a_callback_names_it() -> None:
    trainer = classifier(callbacks=[Failing()])
    with pytest.raises(OSError, match="the disk is full") as caught:
        trainer.fit(batches(), progress=False)
    assert caught.value.__notes__ == ["in callback Failing.on_epoch_end"]
    assert trainer.step == 8


class FetchGradients(hr.Callback):
    """Fetches the gradients of every other step."""

    def __init__(self) -> None:
        self.seen: dict[int, dict[str, Array]] = {}
        self.spent: list[tuple[int, float, float]] = []

    def fetches(self, trainer: hr.Trainer, step: int) -> Mapping[str, hr.Tensor]:
        return trainer.gradients if step % 2 == 0 else {}

    def on_step_end(self, trainer: hr.Trainer, step: int, logs: Mapping[str, float]) -> None:
        self.seen[step] = dict(trainer.fetched)
        self.spent.append((trainer.batch_examples, trainer.input_seconds, trainer.step_seconds))


def test_a_callback_fetches_with_the_step_what_it_wants() -> None:
    x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(-1, 1)
    data, fetch, before = hr.data.from_arrays(x, 3 * x + 2).batch(8), FetchGradients(), []

    class Before(hr.Callback):
        def on_step_end(self, trainer: hr.Trainer, step: int, logs: Mapping[str, float]) -> None:
            before.append(trainer.session.read_variables())

    trainer = hr.Trainer(
        hr.layers.Dense(1), "mean_squared_error", hr.optim.SGD(0.5), callbacks=[fetch, Before()], seed=1
    )
    trainer.fit(data, progress=False)
    assert [sorted(seen) for seen in fetch.seen.values()] == [[], sorted(trainer.gradients)] * 2
    assert len(trainer.gradients) == 2
    for name, gradient in fetch.seen[4].items():  # plain descent moves by the rate times the gradient
        np.testing.assert_allclose(before[2][name] - before[3][name], 0.5 * gradient, rtol=1e-5, atol=1e-6)
    assert [examples for examples, _, _ in fetch.spent] == [8] * 4
    assert all(waited > 0 and ran > 0 for _, waited, ran in fetch.spent)


def test_what_callbacks_fetch_changes_nothing() -> None:
    x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(-1, 1)
    data = hr.data.from_arrays(x, 3 * x + 2).batch(8)
    histories = [
        hr.Trainer(hr.layers.Dense(1), "mean_squared_error", hr.optim.SGD(0.5), callbacks=callbacks, seed=1).fit(
            data, 2, progress=False
        )
        for callbacks in ([], [FetchGradients()])
    ]
    assert histories[0] == histories[1]


class FailingFetch(hr.Callback):
    def fetches(self, trainer: hr.Trainer, step: int) -> Mapping[str, hr.Tensor]:
        raise LookupError("no such tensor")


def test_an_error_of_what_a_callback_wants_names_it() -> None:
    trainer = classifier(callbacks=[FailingFetch()])
    with pytest.raises(LookupError, match="no such tensor") as caught:
        trainer.fit(batches(), progress=False)
    assert caught.value.__notes__ == ["in callback FailingFetch.fetches"]
    assert trainer.step == 0


class PressCtrlC(hr.Callback):
    def __init__(self, step: int) -> None:
        self.at = step
        self.ended = False

    def on_step_end(self, trainer: hr.Trainer, step: int, logs: Mapping[str, float]) -> None:
        if step == self.at:
            os.kill(os.getpid(), signal.SIGINT)

    def on_fit_end(self, trainer: hr.Trainer) -> None:
        self.ended = True


def test_ctrl_c_ends_after_the_step_and_the_trainer_can_go_on() -> None:
    press = PressCtrlC(3)
    trainer = classifier(callbacks=[press])
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match="interrupted after step 3"):
        trainer.fit(batches(), epochs=2, progress=False)
    assert signal.getsignal(signal.SIGINT) is handler
    assert press.ended
    assert trainer.step == 3
    assert trainer.session.read_variables()["Adam/step"] == 3
    state = trainer.state()
    whole, resumed = classifier(callbacks=[Recorder()]), classifier(callbacks=[Recorder()])
    whole.fit(batches(), epochs=2, progress=False)
    resumed.restore(state)
    resumed.fit(batches(), epochs=2, progress=False)
    assert bits(resumed) == bits(whole)


@pytest.mark.parametrize("epochs", [1.5, -1, "2", True, None])
def test_epochs_are_a_whole_number(epochs: Any) -> None:
    with pytest.raises(hr.errors.InvalidArgumentError, match=r"epochs are counted(.|\n)*got: *" + repr(epochs)):
        classifier().fit(batches(), epochs=epochs, progress=False)


class StopAt(hr.Callback):
    def __init__(self, step: int) -> None:
        self.at = step

    def on_step_end(self, trainer: hr.Trainer, step: int, logs: Mapping[str, float]) -> None:
        if step == self.at:
            trainer.stop()


def test_stop_ends_after_the_step() -> None:
    trainer = classifier(callbacks=[StopAt(3)])
    assert trainer.fit(batches(), epochs=2, progress=False) == {}
    assert (trainer.step, trainer.epoch) == (3, 0)


def test_stop_at_the_last_step_of_an_epoch_completes_it() -> None:
    trainer = classifier(callbacks=[StopAt(8)])
    trainer.fit(batches(), epochs=2, progress=False)
    assert (trainer.step, trainer.epoch, len(trainer.history["loss"])) == (8, 1, 1)


@pytest.mark.parametrize(
    ("loss", "labels"),
    [
        ("mean_squared_error", lambda x: x[:, :1] * 2 - x[:, 1:]),
        ("mean_squared_error", lambda x: (x[:, :1] * 2 - x[:, 1:]).astype(np.float64)),
        ("sigmoid_cross_entropy", lambda x: (x[:, :1] > 0).astype(np.int32)),
        (lambda labels, outputs: hr.abs(labels - outputs), lambda x: x[:, :1]),
    ],
)
def test_every_named_loss_falls_in_training(loss: Any, labels: Any) -> None:
    x = np.random.default_rng(0).normal(size=(64, 2)).astype(np.float32)
    trainer = hr.Trainer(hr.layers.Dense(1), loss, hr.optim.Adam(0.05), ["mean_absolute_error"], seed=1)
    history = trainer.fit(hr.data.from_arrays(x, labels(x)).batch(16), epochs=30, progress=False)
    assert history["loss"][-1] < 0.5 * history["loss"][0]
    measured = trainer.evaluate((x, labels(x)))["mean_absolute_error"]
    assert measured == pytest.approx(np.abs(trainer.predict(x) - labels(x)).mean(), rel=1e-5)


def test_softmax_cross_entropy_of_probabilities_and_a_metric_of_the_user() -> None:
    x, y = blobs()

    def largest(labels: Any, outputs: Any) -> Any:
        return hr.max(outputs)

    trainer = hr.Trainer(hr.layers.Dense(3), "softmax_cross_entropy", hr.optim.Adam(0.1), ["accuracy", largest], seed=1)
    history = trainer.fit(hr.data.from_arrays(x, np.eye(3)[y]).batch(16), epochs=10, progress=False)
    assert history["accuracy"][-1] > 0.9
    assert len(history["largest"]) == 10


def test_frozen_layers_are_not_trained() -> None:
    body = hr.layers.Dense(4, activation="tanh")
    body.freeze()
    trainer = hr.Trainer(
        hr.layers.Sequential([body, hr.layers.Dense(3)]), "sparse_softmax_cross_entropy", hr.optim.SGD(0.1), seed=1
    )
    trainer.build(batches())
    before = trainer.session.read_variables()
    trainer.fit(batches(), progress=False)
    after = trainer.session.read_variables()
    assert after["layers/0/kernel"].tobytes() == before["layers/0/kernel"].tobytes()
    assert after["layers/1/kernel"].tobytes() != before["layers/1/kernel"].tobytes()


def test_predict_needs_a_graph() -> None:
    trainer = classifier()
    with pytest.raises(FailedPreconditionError, match=r"the trainer has no graph yet(.|\n)*trainer.build"):
        trainer.predict(blobs()[0])
    trainer.build(batches())
    assert trainer.predict(blobs(5)[0]).shape == (5, 3)
    assert trainer.predict(np.zeros((0, 2), np.float32)).shape == (0, 3)


def test_a_closed_trainer_says_so() -> None:
    trainer = classifier()
    trainer.fit(batches(), progress=False)
    trainer.close()
    with pytest.raises(FailedPreconditionError, match="the session is closed"):
        trainer.evaluate(blobs())


def test_datasets_that_cannot_be_trained_on() -> None:
    x, y = blobs(12)
    with pytest.raises(InvalidArgumentError, match=r"an endless dataset has no epochs\n(.|\n)*take"):
        classifier().fit(hr.data.from_arrays(x, y).batch(4).repeat())
    with pytest.raises(InvalidArgumentError, match="the dataset is empty"):
        classifier().fit(hr.data.from_arrays(x[:0], y[:0]).batch(4))
    with pytest.raises(InvalidArgumentError, match=r"not a batch to train on\n.*pair of arrays"):
        classifier().fit(hr.data.from_arrays(x).batch(4))
    with pytest.raises(InvalidArgumentError, match=r"not a batch to train on\n.*one batch size\n.*\[2\] and \[\]"):
        classifier().fit(hr.data.from_arrays(x, y))


def test_parts_of_a_trainer_are_checked() -> None:
    good = {"model": hr.layers.Dense(1), "loss": "mean_squared_error", "optimizer": hr.optim.SGD(0.1)}
    for name, value, text in [
        ("model", lambda x: x, "the model of a trainer cannot be used\n.*hr.layers.Module"),
        ("optimizer", "sgd", "the optimizer of a trainer cannot be used\n.*hr.optim.Optimizer(.|\n)*hr.optim.Adam"),
        ("callbacks", [print], "the callback of a trainer cannot be used\n.*hr.Callback"),
    ]:
        with pytest.raises(InvalidArgumentError, match=text):
            hr.Trainer(**{**good, name: value})  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(NotFoundError, match="there is no loss 'mean_square_error'\n.*close ones: mean_squared_error"):
        hr.Trainer(**{**good, "loss": "mean_square_error"})  # type: ignore[arg-type]
    with pytest.raises(NotFoundError, match="there is no metric 'acuracy'\n.*close ones: accuracy"):
        hr.Trainer(**{**good, "metrics": ["acuracy"]})  # type: ignore[arg-type]


def test_another_target_needs_its_package() -> None:
    trainer = classifier()
    with pytest.raises(NotFoundError, match="session target 'grpc://127.0.0.1:1'"):
        trainer.fit(batches(), target="grpc://127.0.0.1:1", progress=False)
    with pytest.raises(FailedPreconditionError, match="the trainer has no graph yet"):
        trainer.predict(blobs()[0])


def test_train_with_less_typing() -> None:
    """The page's example, with fewer and smaller images."""
    numbers = np.random.default_rng(0)
    images = numbers.normal(size=(40, 28, 28, 1)).astype(np.float32)
    labels = (np.arange(40) % 10).astype(np.int32)
    model = hr.layers.Sequential([
        hr.layers.Conv2D(4, 5, activation="relu"), hr.layers.MaxPool2D(2),
        hr.layers.Conv2D(8, 5, activation="relu"), hr.layers.MaxPool2D(2),
        hr.layers.Flatten(), hr.layers.Dense(16, activation="relu"),
        hr.layers.Dropout(0.5), hr.layers.Dense(10)])  # fmt: skip
    trainer = hr.Trainer(
        model, loss="sparse_softmax_cross_entropy", optimizer=hr.optim.Adam(1e-3), metrics=["accuracy"]
    )
    dataset = hr.data.from_arrays(images, labels).shuffle(40, seed=1).batch(16)
    history = trainer.fit(dataset, epochs=2, validation=(images, labels), progress=False)
    assert len(history["val_accuracy"]) == 2
    assert trainer.evaluate((images, labels))["loss"] == pytest.approx(history["val_loss"][-1])
    assert trainer.predict(images[:3]).shape == (3, 10)


@pytest.mark.parametrize("loss", ["mean_squared_error", "sigmoid_cross_entropy"])
def test_labels_that_would_broadcast_against_the_outputs_are_refused(loss: str) -> None:
    points, labels = blobs(12)
    trainer = hr.Trainer(hr.layers.Dense(1), loss, hr.optim.SGD(0.1))
    with pytest.raises(ShapeError, match=r"the labels do not have the shape.*(.|\n)*expected: labels \[\?, 1\]"):
        trainer.fit(hr.data.from_arrays(points, labels.astype(np.float32)).batch(4), progress=False)


def test_an_error_is_not_measured_of_labels_of_another_shape() -> None:
    points, labels = blobs(12)
    trainer = hr.Trainer(hr.layers.Dense(3), "sparse_softmax_cross_entropy", hr.optim.SGD(0.1), ["mean_absolute_error"])
    with pytest.raises(ShapeError, match="the labels do not have the shape of the model's outputs"):
        trainer.fit(hr.data.from_arrays(points, labels).batch(4), progress=False)


@pytest.mark.parametrize("call", ["fit", "evaluate"])
def test_arrays_in_the_place_of_a_dataset_are_refused(call: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"there is no dataset(.|\n)*got: +a ndarray(.|\n)*from_arrays\("):
        getattr(classifier(), call)(blobs()[0])


def test_what_must_be_in_a_list_is_told() -> None:
    model, optimizer = hr.layers.Dense(1), hr.optim.SGD(0.1)
    with pytest.raises(InvalidArgumentError, match=r"the metrics of a trainer are no list(.|\n)*\['accuracy'\]"):
        hr.Trainer(model, "mean_squared_error", optimizer, metrics="accuracy")
    with pytest.raises(InvalidArgumentError, match="the callbacks of a trainer are no list"):
        hr.Trainer(model, "mean_squared_error", optimizer, callbacks=hr.Callback())


def test_a_class_in_the_place_of_its_object_is_told_to_be_called() -> None:
    with pytest.raises(InvalidArgumentError, match=r"the optimizer of a trainer(.|\n)*call the class: SGD\("):
        hr.Trainer(hr.layers.Dense(1), "mean_squared_error", hr.optim.SGD)
