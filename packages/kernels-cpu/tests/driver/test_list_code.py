"""The code of operations on lists, run on records and stores that are made by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from written import compiled

from headrace.types import Array
from headrace_cpu.driver.list_code import ListWriter
from headrace_cpu.llvm.text import Text
from headrace_cpu.scheduling.lists import ListOp

SIZE = 8
"""Bytes of an element: two float32."""
FAILED, FULL = 7, 9
"""What the functions of these tests answer."""


def operation(kind: str, pointers: int, count: int = 0) -> Callable[..., int]:
    """An operation as a function of its inputs and outputs, and of the store that it makes and what it asks for."""

    def write(t: Text, given: list[str]) -> None:
        *own, store, asked = given

        def answer(fine: str, number: int) -> None:
            right, wrong = t.label("right"), t.label("wrong")
            t.line(f"br i1 {fine}, label %{right}, label %{wrong}")
            t.start(wrong)
            t.line(f"ret i32 {number}")
            t.start(right)

        def ask_room(fits: str, place: str, needed: str) -> None:
            t.line(f"store i64 {place}, ptr {asked}")
            t.line(f"store i64 {needed}, ptr {t.put(f'getelementptr i64, ptr {asked}, i64 1')}")
            answer(fits, FULL)

        def fail_if(wrong: str) -> None:
            answer(t.put(f"xor i1 {wrong}, true"), FAILED)

        def make_store() -> str:
            return t.put(f"ptrtoint ptr {store} to i64")

        op = ListOp(kind, SIZE, count, ())
        ListWriter(t, op, own, make_store, ask_room, fail_if).write()

    return compiled(write, pointers + 2)


class Store:
    """The memory of a list, with room for some elements, and the record of a list in it."""

    def __init__(self, *elements: float, room: int = 4) -> None:
        self.data = np.full((room, 2), -1, np.float32)
        self.data[: len(elements)] = np.array(elements, np.float32).reshape(-1, 1)
        self.entries = np.array([self.data.ctypes.data, self.data.nbytes], np.int64)
        self.record = np.array([self.entries.ctypes.data, len(elements)], np.int64)


def blank() -> Array:
    return np.zeros(2, np.int64)


def test_an_empty_list_has_a_store_of_its_own_and_no_elements() -> None:
    made, record = Store(), blank()
    assert operation("EmptyTensorList", 1)(record, made.entries, blank()) == 0
    assert record.tolist() == [made.entries.ctypes.data, 0]


def test_a_push_writes_behind_the_last_element() -> None:
    held, item = Store(1, 2), np.array([5, 6], np.float32)
    assert operation("TensorListPushBack", 2)(held.record, item, Store().entries, blank()) == 0
    assert held.record[1] == 3
    assert held.data.tolist() == [[1, 1], [2, 2], [5, 6], [-1, -1]]


def test_a_push_into_a_full_store_changes_nothing_and_says_what_it_needs() -> None:
    held, asked = Store(1, 2, room=2), blank()
    before = held.data.copy()
    assert operation("TensorListPushBack", 2)(held.record, np.ones(2, np.float32), Store().entries, asked) == FULL
    assert asked.tolist() == [held.entries.ctypes.data, 3 * SIZE]
    assert held.record[1] == 2
    np.testing.assert_array_equal(held.data, before)


def test_a_pop_gives_the_last_element_and_a_shorter_list_of_the_same_store() -> None:
    held, shorter, item = Store(1, 2), blank(), np.zeros(2, np.float32)
    assert operation("TensorListPopBack", 3)(held.record, shorter, item, Store().entries, blank()) == 0
    assert item.tolist() == [2, 2]
    assert shorter.tolist() == [held.record[0], 1]
    assert held.record[1] == 2  # the list itself stays as it is


def test_a_pop_from_an_empty_list_fails() -> None:
    arguments = Store().record, blank(), np.zeros(2, np.float32), Store().entries, blank()
    assert operation("TensorListPopBack", 3)(*arguments) == FAILED


@pytest.mark.parametrize(("index", "answer"), [(0, 0), (1, 0), (2, FAILED), (-1, FAILED), (-(2**31), FAILED)])
@pytest.mark.parametrize("kind", ["TensorListGetItem", "TensorListSetItem"])
def test_an_index_has_to_be_in_the_list(kind: str, index: int, answer: int) -> None:
    held, item = Store(1, 2), np.array([8, 9], np.float32)
    before = held.data.copy()
    found = operation(kind, 3)(held.record, np.array([index], np.int32), item, Store().entries, blank())
    assert found == answer
    if answer == 0 and kind == "TensorListGetItem":
        np.testing.assert_array_equal(item, before[index])
    if answer == 0 and kind == "TensorListSetItem":
        before[index] = [8, 9]
    np.testing.assert_array_equal(held.data, before)


def test_a_list_of_a_tensor_has_its_rows() -> None:
    made, record, rows = Store(room=3), blank(), np.arange(6, dtype=np.float32)
    assert operation("TensorListFromTensor", 2, count=3)(rows, record, made.entries, blank()) == 0
    assert made.data.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert record.tolist() == [made.entries.ctypes.data, 3]


@pytest.mark.parametrize("kind", ["TensorListFromTensor", "TensorListReserve"])
def test_what_does_not_fit_is_not_written(kind: str) -> None:
    made, record, asked = Store(room=2), blank(), blank()
    given: list[Any] = [record] if kind == "TensorListReserve" else [np.ones(6, np.float32), record]
    assert operation(kind, len(given), count=3)(*given, made.entries, asked) == FULL
    assert asked.tolist() == [made.entries.ctypes.data, 3 * SIZE]
    assert (made.data == -1).all()


def test_reserved_elements_are_zero() -> None:
    made, record = Store(room=4), blank()
    assert operation("TensorListReserve", 1, count=3)(record, made.entries, blank()) == 0
    assert made.data.tolist() == [[0, 0], [0, 0], [0, 0], [-1, -1]]
    assert record[1] == 3


def test_zeros_like_has_as_many_elements_and_a_store_of_its_own() -> None:
    held, made, record = Store(1, 2), Store(room=4), blank()
    assert operation("ZerosLike", 2)(held.record, record, made.entries, blank()) == 0
    assert record.tolist() == [made.entries.ctypes.data, 2]
    assert made.data.tolist() == [[0, 0], [0, 0], [-1, -1], [-1, -1]]
    assert held.data[:2].tolist() == [[1, 1], [2, 2]]


@pytest.mark.parametrize(("count", "answer"), [(2, 0), (1, FAILED), (3, FAILED)])
def test_a_stack_has_to_have_as_many_elements_as_the_graph_says(count: int, answer: int) -> None:
    held, out = Store(1, 2), np.zeros(6, np.float32)
    assert operation("TensorListStack", 2, count=count)(held.record, out, Store().entries, blank()) == answer
    assert out.tolist() == ([1, 1, 2, 2, 0, 0] if answer == 0 else [0] * 6)


def test_a_length_is_an_int32() -> None:
    out = np.full(2, -1, np.int32)
    assert operation("TensorListLength", 2)(Store(1, 2, 3).record, out, Store().entries, blank()) == 0
    assert out.tolist() == [3, -1]
