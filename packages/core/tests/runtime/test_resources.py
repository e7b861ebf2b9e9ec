"""Variables and other objects of a session."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

import headrace as hr
from headrace.runtime.resources import ResourceManager, VariableBuffer


def _buffer() -> VariableBuffer:
    return ResourceManager().variable("", "v", hr.float32, hr.Shape([2]))


def test_before_the_first_assignment_nothing_can_be_read_or_changed() -> None:
    buffer = _buffer()
    for use in (buffer.read, lambda: buffer.update(lambda old: old)):
        with pytest.raises(hr.errors.FailedPreconditionError, match="'v' has no value yet(.|\\n)*write_variables"):
            use()
    assert repr(buffer) == "<variable 'v' float32[2], uninitialised>"
    buffer.assign(np.ones(2, np.float32))
    assert repr(buffer) == "<variable 'v' float32[2], initialised>"


def test_a_new_value_given_by_an_update_is_copied_and_must_fit() -> None:
    buffer = _buffer()
    buffer.assign(np.ones(2, np.float32))
    given = np.full(2, 5, np.float32)
    buffer.update(lambda old: given)
    given[:] = 9
    assert buffer.read().tolist() == [5, 5]
    for wrong, error in ((np.ones(3, np.float32), hr.errors.ShapeError), (np.ones(2), hr.errors.DTypeError)):
        with pytest.raises(error, match="'v' cannot take the value"):
            buffer.update(lambda old, wrong=wrong: wrong)
    assert buffer.read().tolist() == [5, 5]


def test_who_holds_a_value_or_a_view_of_it_keeps_it() -> None:
    buffer = _buffer()
    buffer.assign(np.ones(2, np.float32))
    held, view = buffer.read(), buffer.read()[::-1]
    buffer.update(lambda value: value.__iadd__(1))
    buffer.assign(np.full(2, 7, np.float32))
    assert (held.tolist(), view.tolist(), buffer.read().tolist()) == ([1, 1], [1, 1], [7, 7])


def test_an_adopted_array_is_the_value_itself_until_the_first_update_which_writes_elsewhere() -> None:
    mapped = np.arange(2, dtype=np.float32)
    mapped.flags.writeable = False
    changes: list[Callable[[VariableBuffer], None]] = [
        lambda buffer: buffer.assign(np.full(2, 7, np.float32)),
        lambda buffer: buffer.update(lambda value: value.__iadd__(1)),
        lambda buffer: buffer.release(buffer.acquire(None)),
    ]
    for change in changes:
        buffer = _buffer()
        buffer.adopt(mapped)
        assert np.shares_memory(buffer.read(), mapped)
        change(buffer)
        assert not np.shares_memory(buffer.read(), mapped)
        own = buffer.acquire(None)
        buffer.release(own)
        assert own.flags.writeable
    assert mapped.tolist() == [0, 1]


def test_only_an_array_that_nobody_can_write_to_is_adopted() -> None:
    buffer = _buffer()
    scattered = np.zeros(4, np.float32)[::2]
    scattered.flags.writeable = False
    for wrong, got in ((np.zeros(2, np.float32), "writable"), (scattered, "not laid out so")):
        with pytest.raises(hr.errors.InvalidArgumentError, match=f"'v' cannot hold the array itself(.|\\n)*{got}"):
            buffer.adopt(wrong)
    assert not buffer.is_initialized


def test_new_variables_get_names_of_their_own_from_any_number_of_threads() -> None:
    manager = ResourceManager()
    names: list[str] = []

    def work() -> None:
        names.extend(manager.new_variable("", "w", hr.float32, hr.Shape([])).name for _ in range(100))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(names)) == 400


def test_an_acquired_variable_is_written_in_place_unless_somebody_reads_it() -> None:
    buffer = _buffer()
    buffer.assign(np.zeros(2, np.float32))
    taken = buffer.acquire(None)
    taken[:] = 1
    buffer.release(taken)
    del taken
    reader = buffer.read()
    taken = buffer.acquire(None)
    assert taken is not reader
    taken[:] = 2
    buffer.release(taken)
    assert (reader.tolist(), buffer.read().tolist()) == ([1, 1], [2, 2])


def test_a_variable_without_a_value_is_acquired_only_to_be_written_whole() -> None:
    buffer = _buffer()
    with pytest.raises(hr.errors.FailedPreconditionError, match="'v' has no value yet"):
        buffer.acquire(None)
    taken = buffer.acquire((2,))
    buffer.release(None)
    assert not buffer.is_initialized
    taken = buffer.acquire((2,))
    taken[:] = 3
    buffer.release(taken)
    assert buffer.read().tolist() == [3, 3]


def test_an_acquired_array_has_no_gaps() -> None:
    buffer = ResourceManager().variable("", "v", hr.float32, hr.Shape([2, 3]))
    buffer.assign(np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)))
    taken = buffer.acquire(None)
    assert taken.flags.c_contiguous
    buffer.release(taken)
    assert buffer.read().tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("threads", [1, 2, 3, 64])
@pytest.mark.parametrize("shape", [(1 << 20,), (5, 300_007), (3,), ()])
def test_several_threads_move_a_value_that_somebody_reads(threads: int, shape: tuple[int, ...]) -> None:
    buffer = ResourceManager().variable("", "v", hr.float32, hr.Shape(shape))
    value = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    buffer.assign(value)
    for _ in range(3):
        held = buffer.read()
        moved = buffer.acquire(None, threads)
        assert not np.shares_memory(held, moved)
        np.testing.assert_array_equal(moved, value)
        buffer.release(moved)
        place = moved.ctypes.data
        del held, moved
        again = buffer.acquire(None, threads)
        assert again.ctypes.data == place  # no thread that copied is taken for a reader any more
        buffer.release(again)
        del again


def test_strings_and_values_with_gaps_are_moved_by_one_thread() -> None:
    words = ResourceManager().variable("", "words", hr.string, hr.Shape([1 << 20]))
    words.assign(np.full(1 << 20, b"a", object))
    held = words.read()
    moved = words.acquire(None, 4)
    words.release(moved)
    assert (held is not moved, set(moved.tolist())) == (True, {b"a"})
