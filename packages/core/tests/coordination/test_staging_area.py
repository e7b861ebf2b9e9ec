"""Staging areas, with and without keys: order, bounds, what stays and what goes."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.errors import DeadlineExceededError, DTypeError, InvalidArgumentError, ResourceExhaustedError, ShapeError
from headrace.testing.threads import Call


def test_elements_come_out_in_the_order_in_which_they_were_put_in() -> None:
    with hr.Graph().as_default() as graph:
        area = hr.StagingArea([hr.float32, hr.string], [[2], []])
        x = hr.placeholder(hr.float32, [2])
        put, got, peeked = area.put([x, "a"]), area.get(), area.peek(1)
        size, clear = area.size(), area.clear()
        assert str(got[0].shape) == "[2]"
        assert "float32[2]" in repr(area)
    session = hr.Session(graph)
    for number in (1, 2, 3):
        session.run(put, feeds={x: [number, number]})
    assert session.run(size) == 3
    first = session.run(peeked)
    first[0][:] = -1  # what stays is not what was given out
    assert [session.run(got)[0].tolist() for _ in range(2)] == [[1, 1], [2, 2]]
    session.run(clear)
    assert session.run(size) == 0


def test_who_gets_waits_for_an_element_and_who_puts_for_room() -> None:
    with hr.Graph().as_default() as graph:
        area = hr.StagingArea([hr.int32], capacity=1)
        put, (got,), (peeked,), clear = area.put([7]), area.get(), area.peek(0), area.clear()
    session = hr.Session(graph)
    for fetch in (got, peeked):
        with pytest.raises(DeadlineExceededError, match="'staging_area_0' holds 0 of 1 elements, 0 of any number of"):
            session.run(fetch, timeout=0.01)
        waiting = Call(lambda fetch=fetch: session.run(fetch))
        session.run(put)
        assert waiting.result() == 7
    with pytest.raises(DeadlineExceededError, match="holds 1 of 1 elements, 4 of any number of bytes"):
        session.run(put, timeout=0.01)
    waiting = Call(lambda: session.run(put))
    session.run(clear)
    waiting.result()


def test_bytes_are_bounded_too() -> None:
    with hr.Graph().as_default() as graph:
        area = hr.StagingArea([hr.float32], memory_limit=20)
        x = hr.placeholder(hr.float32, [None])
        put, (got,) = area.put([x]), area.get()
    session = hr.Session(graph)
    with pytest.raises(
        ResourceExhaustedError, match=r"element is larger than staging area(.|\n)*20 bytes(.|\n)*24 bytes"
    ):
        session.run(put, feeds={x: np.ones(6)})
    session.run(put, feeds={x: np.ones(4)})
    waiting = Call(lambda: session.run(put, feeds={x: np.ones(3)}))
    with pytest.raises(DeadlineExceededError, match="16 of 20 bytes"):
        session.run(put, feeds={x: np.ones(2)}, timeout=0.01)
    assert session.run(got).tolist() == [1] * 4
    waiting.result()


def test_two_areas_of_a_graph_are_apart_and_those_of_one_name_are_not() -> None:
    with hr.Graph().as_default() as graph:
        areas = [hr.StagingArea([hr.int32]) for _ in range(2)]
        puts, sizes = [area.put([1]) for area in areas], [area.size() for area in areas]
        shared = [hr.StagingArea([hr.int32], shared_name="s") for _ in range(2)]
        put, (got,) = shared[0].put([5]), shared[1].get()
    session = hr.Session(graph)
    session.run(puts[0])
    assert session.run(sizes) == [1, 0]
    session.run(put)
    assert session.run(got) == 5


def test_wrong_elements_are_refused() -> None:
    with hr.Graph().as_default() as graph:
        area = hr.StagingArea([hr.float32], [[2]], shared_name="s")
        with pytest.raises(ShapeError, match="contradict"):
            area.put([[1.0, 2.0, 3.0]])
        put = area.put([[1.0, 2.0]])
        (other,) = hr.StagingArea([hr.int32], shared_name="s").get()
        before = area.peek(-1)
    session = hr.Session(graph)
    session.run(put)
    with pytest.raises(DTypeError, match="components in staging area 's' have other dtypes"):
        session.run(other)
    with pytest.raises(InvalidArgumentError, match="place in a staging area is negative"):
        session.run(before)


class Map:
    """The operations on a staging area with keys."""

    def __init__(self, prefix: str, dtypes: list[object], **attrs: object) -> None:
        self.prefix = prefix
        self.dtypes = dtypes
        self.attrs = {"shared_name": "m", **attrs}

    def put(self, key: object, indices: object, values: list[object]) -> hr.Operation:
        return hr.apply_op(f"{self.prefix}MapStage", np.int64(key), indices, values, dtypes=self.dtypes, **self.attrs)

    def take(self, name: str, *inputs: object, dtypes: list[object] | None = None) -> object:
        return hr.apply_op(f"{self.prefix}{name}", *inputs, dtypes=dtypes or self.dtypes, **self.attrs)


@pytest.mark.parametrize("prefix", ["", "Ordered"])
def test_elements_of_a_map_are_complete_when_all_components_are_there(prefix: str) -> None:
    with hr.Graph().as_default() as graph:
        area = Map(prefix, [hr.int32, hr.string], capacity=2)
        half, rest = area.put(5, [1], ["five"]), area.put(5, [0], [5])
        whole = area.put(3, [0, 1], [3, "three"])
        sizes = [area.take("MapSize"), area.take("MapIncompleteSize")]
        five = area.take("MapUnstage", np.int64(5), [0, 1])
        peeked = area.take("MapPeek", np.int64(5), [1], dtypes=[hr.string])
        anyone = area.take("MapUnstageNoKey", [0, 1])
        word = area.take("MapUnstage", np.int64(5), [1], dtypes=[hr.string])
        number = area.take("MapUnstage", np.int64(5), [0], dtypes=[hr.int32])
        clear = area.take("MapClear")
    session = hr.Session(graph)
    session.run(half)
    assert session.run(sizes) == [0, 1]
    with pytest.raises(InvalidArgumentError, match="component 1 of an element of staging area 'm' cannot be put"):
        session.run(half)
    waiting = Call(lambda: session.run(five))
    with pytest.raises(DeadlineExceededError, match="did not end in time"):
        session.run(anyone, timeout=0.01)
    session.run(rest)
    assert waiting.result() == (5, b"five")
    for operation in (half, rest, whole):
        session.run(operation)
    assert session.run(sizes) == [2, 0]
    assert session.run(peeked) == (b"five",)
    first = 3 if prefix else 5  # without an order, the one that was complete first
    assert session.run(anyone)[0] == first
    if prefix:
        assert session.run(word) == (b"five",)
        with pytest.raises(InvalidArgumentError, match=r"has no such component(.|\n)*different ones of \[0\]"):
            session.run(word)
        assert session.run(number) == (5,)
    session.run(clear)
    assert session.run(sizes) == [0, 0]


def test_a_map_refuses_components_that_are_not_told_apart() -> None:
    with hr.Graph().as_default() as graph:
        area = Map("", [hr.int32, hr.int32], capacity=1)
        wrong = [area.put(1, indices, [1, 2]) for indices in ([0, 0], [0], [0, 2])]
        put, other = area.put(1, [0, 1], [1, 2]), area.put(2, [0, 1], [1, 2])
        twice = area.take("MapUnstage", np.int64(1), [0, 0])
        half = area.take("MapUnstage", np.int64(1), [0], dtypes=[hr.int32])
        size = area.take("MapSize")
    session = hr.Session(graph)
    for operation, message in zip(wrong, ["not told apart", "not told apart", "cannot be put"], strict=True):
        with pytest.raises(InvalidArgumentError, match=message):
            session.run(operation)
    session.run(put)
    with pytest.raises(InvalidArgumentError, match="has no such component"):
        session.run(twice)
    assert session.run(half) == (1,)
    assert session.run(size) == 1  # an element that is partly taken still takes its place
    with pytest.raises(DeadlineExceededError, match="holds 1 of 1 elements"):
        session.run(other, timeout=0.01)
