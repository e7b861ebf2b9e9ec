"""Copies of factors: one of each form, as long as somebody reads it; those of variables follow what these hold."""

from __future__ import annotations

import gc
import operator
from collections.abc import Callable

import numpy as np
import pytest

import headrace as hr
from headrace.runtime.resources import VariableBuffer
from headrace.types import Array, Shape
from headrace_cpu.prepared import Copies, Prepared, PreparedCopy


def plus_one(form: object, make: Callable[[Array], Array] = lambda value: value + 1) -> Prepared:
    return Prepared(1, form, make, operator.eq)


def test_who_asks_for_the_same_form_gets_the_same_copy() -> None:
    copies, value = Copies(), np.zeros(3)
    first = copies.of(value, plus_one("a"))
    assert copies.of(value, plus_one("a")) is first
    assert copies.of(value, plus_one("b")) is not first
    assert copies.of(np.zeros(3), plus_one("a")) is not first


def test_whether_forms_are_the_same_may_be_asked() -> None:
    copies, value = Copies(), np.zeros(3)
    first = copies.of(value, plus_one(1))
    same = Prepared(1, 3, lambda value: value, lambda a, b: a % 2 == b % 2)
    assert copies.of(value, same) is first


def test_a_copy_ends_with_those_who_read_it() -> None:
    copies, value, count = Copies(), np.zeros(3), []

    def counted(value: Array) -> Array:
        count.append(1)
        return value + 1

    for _ in range(2):
        copies.of(value, plus_one("a", counted))
        gc.collect()
    assert len(count) == 2


def test_another_array_at_the_same_place_has_copies_of_its_own() -> None:
    """A key that outlived its array would give a copy of something else, since ids are used again."""
    copies = Copies()
    for number in range(100):
        value = np.full(3, float(number))
        assert (copies.of(value, plus_one("a")) == number + 1).all()


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
    variable, made = VariableBuffer("v", hr.float32, Shape([3])), []

    def make(value: Array) -> Array:
        made.append(1)
        return value + 1

    copy = PreparedCopy(variable, make)
    variable.assign(np.zeros(3, np.float32))
    assert (copy() == 1).all()
    assert copy() is copy()
    assert len(made) == 1
    change(variable, np.full(3, 5, np.float32))
    assert (copy() == 6).all()
    assert len(made) == 2


def test_of_a_variable_without_a_value_there_is_no_copy() -> None:
    variable = VariableBuffer("v", hr.float32, Shape([3]))
    copy = PreparedCopy(variable, lambda value: value)
    for _ in range(2):
        with pytest.raises(hr.errors.FailedPreconditionError, match="has no value yet"):
            copy()
    variable.assign(np.zeros(3, np.float32))
    copy()
    variable.destroy()
    with pytest.raises(hr.errors.FailedPreconditionError, match="has no value yet"):
        copy()
