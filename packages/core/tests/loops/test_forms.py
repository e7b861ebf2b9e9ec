"""Affine forms mean what the indices of NumPy mean."""

from __future__ import annotations

import itertools

import numpy as np

from headrace.loops.forms import ZERO, Form, aligned, along, flat_access, moved, scaled
from headrace.loops.ir import Access


def index_of(form: Form, point: tuple[int, ...]) -> int:
    return form[0] + sum(point[axis] * factor for axis, factor in form[1])


def place_of(access: Access, point: tuple[int, ...]) -> int:
    return index_of((access.constant, access.terms), point)


def test_an_axis_of_one_index_is_in_no_form() -> None:
    assert along(2, 5) == (0, ((2, 1),))
    assert along(2, 1) == ZERO


def test_steps_and_starts_are_those_of_a_slice() -> None:
    assert scaled((3, ((0, 2), (1, -1))), -4, 5) == (-7, ((0, -8), (1, 4)))
    assert moved(Access(3, ((0, 2),)), 10, 1) == Access(31, ((0, 20),))


def test_an_operand_is_broadcast_from_the_last_axis_on() -> None:
    index = along(0, 2), along(1, 3), along(2, 4)
    assert aligned((3, 1), index) == (along(1, 3), ZERO)
    assert aligned((), index) == ()


def test_a_place_is_that_in_the_order_of_memory() -> None:
    shape = (7, 5, 6)
    index = scaled(along(0, 3), 2, 1), along(1, 5), scaled(along(0, 3), -1, 4)
    access = flat_access(shape, index)
    assert access.terms == ((0, 2 * 30 - 1), (1, 6))
    for point in itertools.product(range(3), range(5)):
        own = [index_of(form, point) for form in index]
        assert place_of(access, point) == np.ravel_multi_index(own, shape)


def test_axes_that_cancel_out_are_not_in_a_place() -> None:
    assert flat_access((4, 3), [along(0, 3), scaled(along(0, 3), -3, 2)]) == Access(2, ())
