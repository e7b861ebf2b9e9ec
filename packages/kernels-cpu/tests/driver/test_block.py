"""Blocks: where each memory that units touch is."""

from __future__ import annotations

from typing import Any

import numpy as np
from laid_out import laid_out

import headrace as hr
from headrace.types import Array
from headrace_cpu.driver.block import Block, Place, block_of, integers_of, place_of
from headrace_cpu.layout import Layout

MATRIX = hr.float32, (64, 64)
TABLE = np.arange(64, dtype=np.float32)


class Constants:
    """Gives each constant a place and remembers it."""

    def __init__(self) -> None:
        self.given: list[Array] = []

    def __call__(self, value: Array) -> Place:
        self.given.append(value)
        return "constant", 64 * len(self.given)


def chain(x: hr.Tensor) -> hr.Tensor:
    """Two groups: what the first one gives is reduced along another axis than the second one runs along."""
    return hr.exp(hr.sum(hr.exp(x * TABLE), axis=0)) * 2.0


def whole(layout: Layout, constants: Any, slots: Any = ()) -> Block:
    return block_of(layout, layout.units, constants, slots)


def test_fed_and_fetched_arrays_are_slots_and_what_lies_between_is_in_the_arena() -> None:
    layout, constants = laid_out(chain, MATRIX), Constants()
    block = whole(layout, constants)
    program = layout.schedule.program
    (argument,), (result,) = program.arguments, program.results
    assert block.places[argument] == ("slot", block.slots.index(argument))
    assert block.places[result] == ("slot", block.slots.index(result))
    assert set(block.slots) == {argument, result}
    between = [place for key, place in block.places.items() if key not in block.slots and place[0] != "constant"]
    assert between
    assert all(kind == "arena" and 0 <= start < layout.allocation.size for kind, start in between)


def test_a_constant_is_where_the_driver_says() -> None:
    layout, constants = laid_out(chain, MATRIX), Constants()
    block = whole(layout, constants)
    (place,) = [place for place in block.places.values() if place[0] == "constant"]
    assert place == ("constant", 64)
    (value,) = constants.given  # asked for once, whatever reads it
    np.testing.assert_array_equal(value.ravel(), TABLE)


def test_every_memory_of_every_unit_has_a_place() -> None:
    layout = laid_out(chain, MATRIX)
    block = whole(layout, Constants())
    assert block.units == tuple(layout.units)
    assert set(block.places) == {key for unit in layout.units for key in unit.keys}
    assert len(block.scratch) == len(block.units)


def test_slots_that_are_given_in_any_case_come_first_and_in_their_order() -> None:
    layout = laid_out(chain, MATRIX)
    program = layout.schedule.program
    result, argument = program.results[0], program.arguments[0]
    block = whole(layout, Constants(), slots=[result, "unused", argument])
    assert block.slots[:3] == (result, "unused", argument)
    assert (block.places[result], block.places[argument]) == (("slot", 0), ("slot", 2))


def test_the_place_of_what_is_not_known_is_the_next_pointer() -> None:
    layout, given = laid_out(chain, MATRIX), {"first": 0}
    assert place_of(layout, "first", Constants(), given) == ("slot", 0)
    assert place_of(layout, "new", Constants(), given) == ("slot", 1)
    assert place_of(layout, "new", Constants(), given) == ("slot", 1)
    assert given == {"first": 0, "new": 1}


def test_the_memory_of_integers_that_are_checked_is_described() -> None:
    def build(logits: hr.Tensor, labels: hr.Tensor) -> hr.Tensor:
        return hr.nn.sparse_softmax_cross_entropy(labels=labels, logits=logits)

    layout = laid_out(build, (hr.float32, (5, 3)), (hr.int64, (5,)))
    block = whole(layout, Constants())
    labels = layout.schedule.program.arguments[1]
    assert dict(block.integers) == {labels: (hr.int64, 5)}
    assert integers_of(layout, labels) == (hr.int64, 5)


def test_a_variable_is_described_by_what_it_holds() -> None:
    layout = laid_out(lambda x: hr.Variable(np.zeros((2, 3), np.float32)).assign_add(x), (hr.float32, (2, 3)))
    assert integers_of(layout, ("variable", 0)) == (hr.float32, 6)
    block = whole(layout, Constants())
    assert block.places["variable", 0][0] == "slot"
