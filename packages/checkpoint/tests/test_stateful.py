"""Objects that are saved beside variables, by their own word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import InvalidArgumentError, NotFoundError
from headrace_checkpoint.saver import CheckpointManager, Saver


class Meter:
    """Counts; its state must be below 100."""

    def __init__(self) -> None:
        self.count = 0

    def state(self) -> Any:
        return {"count": self.count}

    def restore(self, state: Any) -> None:
        if state["count"] >= 100:
            raise InvalidArgumentError("too many", expected="< 100", got=str(state), hint="count less")
        self.count = state["count"]


def test_an_iterator_and_objects_of_ones_own_go_on_where_they_stood(tmp_path: Path) -> None:
    data = hr.data.from_arrays(np.arange(40)).shuffle(40, seed=3).batch(4)
    w = hr.Variable(0, name="stateful/w")
    manager = CheckpointManager(tmp_path, variables=[w])
    batches, meter = data.iterator(), Meter()
    for _ in range(3):
        next(batches)
        meter.count += 1
    manager.save(None, 3, objects={"data": batches, "meter": meter, "epoch": 7})
    rest = [batch.tolist() for batch in batches]
    again, other = data.iterator(), Meter()
    report = manager.restore(None, objects={"data": again, "meter": other})
    assert (report.objects["epoch"], other.count) == (7, 3)
    assert [batch.tolist() for batch in again] == rest


def test_objects_that_were_not_saved_or_refuse_their_state_leave_the_variables(tmp_path: Path) -> None:
    w = hr.Variable(1, name="stateful/v")
    meter = Meter()
    meter.count = 100
    saver = Saver([w])
    saver.save(None, tmp_path, step=1, objects={"meter": meter})
    w.assign(2)
    with pytest.raises(NotFoundError, match=r"no state of the object 'metre', and nothing was changed[^$]*meter"):
        saver.restore(None, tmp_path, objects={"metre": Meter()})
    with pytest.raises(InvalidArgumentError, match="too many"):
        saver.restore(None, tmp_path, objects={"meter": Meter()})
    assert w.numpy() == 2
    saver.restore(None, tmp_path, strict=False, objects={"metre": Meter()})
    assert w.numpy() == 1
