"""Early stopping decides by the values of epochs alone."""

from __future__ import annotations

from typing import Any

import pytest

import headrace as hr
from headrace.errors import InvalidArgumentError, NotFoundError


class Stopped:
    """Stands for a trainer that is asked to stop."""

    stopped = False

    def stop(self) -> None:
        self.stopped = True


def epochs_until_stop(stopping: hr.EarlyStopping, name: str, values: list[float]) -> int | None:
    trainer: Any = Stopped()
    for epoch, value in enumerate(values, 1):
        stopping.on_epoch_end(trainer, epoch, {name: value})
        if trainer.stopped:
            return epoch
    return None


def test_a_loss_stops_when_it_no_longer_falls() -> None:
    assert epochs_until_stop(hr.EarlyStopping("val_loss"), "val_loss", [3.0, 2.0, 2.0, 1.0]) == 3
    assert epochs_until_stop(hr.EarlyStopping("val_loss"), "val_loss", [3.0, 2.0, 1.0]) is None


def test_patience_waits_for_a_better_value() -> None:
    values = [3.0, 4.0, 4.0, 2.0, 5.0, 5.0, 5.0]
    assert epochs_until_stop(hr.EarlyStopping("val_loss", patience=2), "val_loss", values) == 7


def test_other_values_stop_when_they_no_longer_rise() -> None:
    assert epochs_until_stop(hr.EarlyStopping("accuracy"), "accuracy", [0.1, 0.2, 0.2]) == 3
    assert epochs_until_stop(hr.EarlyStopping("accuracy", mode="min"), "accuracy", [0.3, 0.2, 0.1]) is None
    assert epochs_until_stop(hr.EarlyStopping("val_mean_absolute_error"), "val_mean_absolute_error", [2, 1, 3]) == 3


def test_a_small_step_does_not_count() -> None:
    assert epochs_until_stop(hr.EarlyStopping("loss", min_delta=0.5), "loss", [2.0, 1.4, 1.0]) == 3


def test_nan_is_never_better() -> None:
    assert epochs_until_stop(hr.EarlyStopping("loss", patience=1), "loss", [float("nan"), float("nan")]) == 2


def test_the_state_goes_on() -> None:
    first, second = (hr.EarlyStopping("loss", patience=1) for _ in range(2))
    second.restore(first.state())
    assert epochs_until_stop(first, "loss", [1.0, 1.0]) is None
    second.restore(first.state())
    assert epochs_until_stop(second, "loss", [1.0]) == 1


def test_a_value_that_is_not_measured_is_named() -> None:
    with pytest.raises(NotFoundError, match=r"watches 'val_los', which is not measured\n.*close ones: val_loss"):
        epochs_until_stop(hr.EarlyStopping("val_los"), "val_loss", [1.0])


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="the mode of EarlyStopping is not known"):
        hr.EarlyStopping(mode="least")
