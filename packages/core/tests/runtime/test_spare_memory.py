"""Memory that variables leave while somebody reads them is used again, and never while somebody does."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

import headrace as hr
from headrace.runtime.resources import ResourceManager, VariableBuffer
from headrace.types import Array

SIZE = 1 << 18


def _buffer(name: str = "v") -> VariableBuffer:
    buffer = ResourceManager().variable("", name, hr.float32, hr.Shape([SIZE]))
    buffer.assign(np.zeros(SIZE, np.float32))
    return buffer


def _add_one(target: Array) -> None:
    target += 1


def _update(buffer: VariableBuffer) -> None:
    buffer.update(_add_one)


def _rewrite(buffer: VariableBuffer) -> None:
    def add_one(old: Array, new: Array) -> None:
        np.add(old, 1, out=new)

    buffer.rewrite(add_one)


def _acquire(buffer: VariableBuffer) -> None:
    taken = buffer.acquire(None)
    taken += 1
    buffer.release(taken)


def _fill_anew(buffer: VariableBuffer) -> None:
    value = buffer.read()[0] + 1
    taken = buffer.acquire((SIZE,))
    taken[:] = value
    buffer.release(taken)


CHANGES = [_update, _rewrite, _acquire, _fill_anew]


def _address(array: Array) -> int:
    return array.__array_interface__["data"][0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("change", CHANGES)
def test_two_memories_take_turns(change: Callable[[VariableBuffer], None]) -> None:
    buffer, spare = _buffer(), hr.SpareMemory()
    places = []
    for number in range(6):
        held = buffer.read(spare)
        spare.reserve([held])
        spare.fill()
        places.append(_address(held))
        for _ in range(3):
            change(buffer)
        assert set(held.tolist()) == {3 * number}
        assert buffer.read()[0] == 3 * (number + 1)
        del held
    assert len(set(places)) == 2
    assert places[::2] == [places[0]] * 3


@pytest.mark.parametrize("change", CHANGES)
def test_memory_that_somebody_still_reads_is_not_given(change: Callable[[VariableBuffer], None]) -> None:
    buffer, spare = _buffer(), hr.SpareMemory()
    readers = []
    for _ in range(4):
        view = buffer.read(spare)[::2]
        spare.reserve([buffer.read()])
        spare.fill()
        change(buffer)
        readers.append(view)
    assert [set(view.tolist()) for view in readers] == [{0}, {1}, {2}, {3}]


def test_there_is_never_more_than_one_more_copy() -> None:
    buffers, spare = [_buffer(str(number)) for number in range(4)], hr.SpareMemory()
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(8):
            held = [buffer.read(spare) for buffer in buffers]
            spare.reserve(held)
            _update(buffers[0])  # before the memory is there
            spare.fill()
            for buffer in buffers[:3]:
                _update(buffer)
            del held
        assert tracemalloc.get_traced_memory()[1] < (4 + 1.1) * 4 * SIZE
        spare.close()
        assert tracemalloc.get_traced_memory()[0] < 4.1 * 4 * SIZE
    finally:
        tracemalloc.stop()


def test_variables_of_one_kind_share_it_and_kinds_that_are_gone_are_given_back() -> None:
    one, other, spare = _buffer("one"), _buffer("other"), hr.SpareMemory()
    held = one.read(spare)
    other.read(spare)
    spare.reserve([held])
    _update(one)
    place = _address(held)
    del held
    reader = other.read()
    _update(other)
    assert _address(other.read()) == place
    del reader
    spare.reserve([np.zeros(3)])
    tracemalloc.start()
    spare.fill()
    spare.reserve([])
    assert tracemalloc.get_traced_memory()[0] < 4 * SIZE
    tracemalloc.stop()


def test_memory_of_others_is_never_written() -> None:
    buffer, spare = _buffer(), hr.SpareMemory()
    mapped = np.zeros(SIZE, np.float32)
    mapped.flags.writeable = False
    for _ in range(3):
        buffer.adopt(mapped)
        spare.reserve([buffer.read(spare)])
        for change in CHANGES:
            change(buffer)
    assert not mapped.any()


def test_values_of_other_shapes_and_of_objects_get_fresh_memory() -> None:
    manager, spare = ResourceManager(), hr.SpareMemory()
    grows = manager.variable("", "grows", hr.float32, hr.Shape([None]))
    grows.assign(np.ones(2, np.float32))
    held = grows.read(spare)
    spare.reserve([held])
    taken = grows.acquire((5,))
    taken[:] = 7
    grows.release(taken)
    assert (held.tolist(), grows.read().tolist()) == ([1, 1], [7] * 5)
    words = manager.variable("", "words", hr.string, hr.Shape([1]))
    words.assign(np.array([b"a"], object))
    before = words.read(spare)
    spare.reserve([before])
    spare.fill()
    words.rewrite(lambda old, new: new.__setitem__(0, old[0] + b"b"))
    assert (before[0], words.read()[0]) == (b"a", b"ab")


def test_many_threads_read_and_update() -> None:
    buffer, spare, wrong = _buffer(), hr.SpareMemory(), []

    def save() -> None:
        for _ in range(50):
            held = buffer.read(spare)
            spare.reserve([held])
            spare.fill()
            if held[0] != held[-1] or len(set(held[:: SIZE // 16].tolist())) > 1:
                wrong.append(held[0])
            del held

    savers = [threading.Thread(target=save) for _ in range(3)]
    for thread in savers:
        thread.start()
    for change in CHANGES * 10:
        change(buffer)
    for thread in savers:
        thread.join()
    assert wrong == []
    assert set(buffer.read().tolist()) == {40}


def test_a_session_and_a_variable_of_the_process_take_it() -> None:
    graph = hr.Graph()
    with graph.as_default():
        v = hr.Variable(hr.zeros([SIZE]), name="v")
        more = v.assign_add(hr.ones([SIZE]))
    outside, spare = hr.Variable(np.zeros(SIZE, np.float32), name="spare/outside"), hr.SpareMemory()
    places: set[int] = set()
    with hr.Session(graph) as session:
        for step in range(4):
            held = [session.read_variables(copy=False, spare=spare)["v"], outside.numpy(copy=False, spare=spare)]
            spare.reserve(held)
            places |= {_address(value) for value in held}
            session.run(more)
            outside.assign_add(np.ones(SIZE, np.float32))
            assert [set(value.tolist()) for value in held] == [{step}, {step}]
            del held
    assert len(places) <= 4
    spare.close()


def test_memory_whose_owner_is_gone_is_given_back() -> None:
    buffer = _buffer()
    gc.collect()
    tracemalloc.start()
    try:
        spare: hr.SpareMemory | None = hr.SpareMemory()
        held = buffer.read(spare)
        assert spare is not None
        spare.reserve([held])
        spare.fill()
        del spare
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < SIZE
        _update(buffer)
        assert (held[0], buffer.read()[0]) == (0, 1)
    finally:
        tracemalloc.stop()


def test_the_bytes_are_those_of_one_copy() -> None:
    spare = hr.SpareMemory()
    assert spare.bytes == 0
    spare.reserve([np.zeros((3, 4), np.float32), np.zeros((3, 4), np.float32), np.zeros(5), np.array(["a"], object)])
    assert spare.bytes == 2 * 48 + 40
    spare.close()
    assert spare.bytes == 0
