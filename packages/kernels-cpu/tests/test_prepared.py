"""Copies of factors: one of each form, as long as somebody reads it; those of variables follow what these hold."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

import headrace as hr
from headrace.runtime.resources import VariableBuffer
from headrace.types import Array, Shape
from headrace_cpu.prepared import Copies, PreparedCopy, Snapshots


@dataclass(frozen=True)
class Plus:
    """Makes a copy to which a number is added."""

    number: float = 1.0
    made: list[int] = field(default_factory=list, compare=False)

    def __call__(self, value: Array) -> Array:
        self.made.append(1)
        return value + self.number


def test_who_asks_for_the_same_form_gets_the_same_copy() -> None:
    copies, value = Copies(), np.zeros(3)
    first = copies.of(value, Plus())
    assert copies.of(value, Plus()) is first
    assert copies.of(value, Plus(2)) is not first
    assert copies.of(np.zeros(3), Plus()) is not first


def test_a_copy_ends_with_those_who_read_it() -> None:
    copies, value, plus = Copies(), np.zeros(3), Plus()
    for _ in range(2):
        copies.of(value, plus)
        gc.collect()
    assert len(plus.made) == 2


def test_another_array_at_the_same_place_has_copies_of_its_own() -> None:
    """A key that outlived its array would give a copy of something else, since ids are used again."""
    copies = Copies()
    for number in range(100):
        value = np.full(3, float(number))
        assert (copies.of(value, Plus()) == number + 1).all()


def test_plans_share_what_gives_the_copy_of_a_variable() -> None:
    copies, variable = Copies(), VariableBuffer("v", hr.float32, Shape([3]))
    first = copies.of_variable(variable, Plus())
    assert copies.of_variable(variable, Plus()) is first
    assert copies.of_variable(variable, Plus(2)) is not first
    assert copies.of_variable(VariableBuffer("v", hr.float32, Shape([3])), Plus()) is not first


def changes() -> list[Callable[[VariableBuffer, Array], None]]:
    """All ways in which a variable gets another value."""

    def acquired(variable: VariableBuffer, value: Array) -> None:
        variable.acquire(None)[...] = value
        variable.release(variable._value)

    def adopted(variable: VariableBuffer, value: Array) -> None:
        value.flags.writeable = False
        variable.adopt(value)

    def destroyed(variable: VariableBuffer, value: Array) -> None:
        variable.destroy()
        variable.assign(value)

    return [
        VariableBuffer.assign,
        lambda variable, value: variable.update(lambda old: value),
        lambda variable, value: variable.update(lambda old: np.copyto(old, value)),
        lambda variable, value: variable.rewrite(lambda old, new: np.copyto(new, value)),
        acquired,
        adopted,
        destroyed,
    ]


@pytest.mark.parametrize("change", changes())
def test_a_copy_of_a_variable_is_made_again_when_that_has_changed(
    change: Callable[[VariableBuffer, Array], None],
) -> None:
    """Also where the new value lies in the memory of the old one."""
    variable, plus = VariableBuffer("v", hr.float32, Shape([3])), Plus()
    snapshots = Snapshots(variable, (PreparedCopy(plus),))
    variable.assign(np.zeros(3, np.float32))
    assert [array[0] for array in snapshots()] == [0, 1]
    assert snapshots()[1] is snapshots()[1]
    assert len(plus.made) == 1
    change(variable, np.full(3, 5, np.float32))
    assert [array[0] for array in snapshots()] == [5, 6]
    assert len(plus.made) == 2


def test_an_older_value_has_an_older_copy() -> None:
    """Threads that read at different moments share what makes the copies."""
    copy = PreparedCopy(Plus())
    for value, version in ((0, 1), (5, 2), (0, 1), (5, 2)):
        assert copy.of(np.full(3, value), version)[0] == value + 1


def test_of_a_variable_without_a_value_there_is_no_copy() -> None:
    variable = VariableBuffer("v", hr.float32, Shape([3]))
    snapshots = Snapshots(variable, (PreparedCopy(Plus()),))
    for _ in range(2):
        with pytest.raises(hr.errors.FailedPreconditionError, match="has no value yet"):
            snapshots()
    variable.assign(np.zeros(3, np.float32))
    snapshots()
    variable.destroy()
    with pytest.raises(hr.errors.FailedPreconditionError, match="has no value yet"):
        snapshots()
