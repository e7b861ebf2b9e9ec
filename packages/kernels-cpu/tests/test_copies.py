"""Copies of constants: one of each form, as long as somebody reads it."""

from __future__ import annotations

import gc

import numpy as np

from headrace.types import Array
from headrace_cpu.copies import Copies


def made(value: Array) -> Array:
    return value + 1


def test_who_asks_for_the_same_form_gets_the_same_copy() -> None:
    copies, value = Copies(), np.zeros(3)
    first = copies.of(value, "a", lambda: made(value))
    assert copies.of(value, "a", lambda: made(value)) is first
    assert copies.of(value, "b", lambda: made(value)) is not first
    assert copies.of(np.zeros(3), "a", lambda: made(value)) is not first


def test_whether_forms_are_the_same_may_be_asked() -> None:
    copies, value = Copies(), np.zeros(3)
    first = copies.of(value, 1, lambda: made(value))
    assert copies.of(value, 3, lambda: made(value), lambda a, b: a % 2 == b % 2) is first


def test_a_copy_ends_with_those_who_read_it() -> None:
    copies, value, count = Copies(), np.zeros(3), []

    def counted() -> Array:
        count.append(1)
        return made(value)

    for _ in range(2):
        copies.of(value, "a", counted)
        gc.collect()
    assert len(count) == 2


def test_another_array_at_the_same_place_has_copies_of_its_own() -> None:
    """A key that outlived its array would give a copy of something else, since ids are used again."""
    copies = Copies()
    for number in range(100):
        value = np.full(3, float(number))
        assert (copies.of(value, "a", lambda value=value: made(value)) == number + 1).all()  # type: ignore[misc]
