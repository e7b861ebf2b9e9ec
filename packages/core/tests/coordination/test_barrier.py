"""Barriers: elements put together by key, closing, and what is refused; as TensorFlow's, seen in its version 2.21."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.errors import (
    CancelledError,
    DeadlineExceededError,
    DTypeError,
    EndOfDataError,
    InvalidArgumentError,
    ShapeError,
    UnimplementedError,
)
from headrace.testing.threads import Call

FIRST = -(2**63)


def test_an_element_is_ready_when_all_its_components_are_there() -> None:
    with hr.Graph().as_default() as graph:
        barrier = hr.Barrier([hr.float32, hr.string], shapes=[[2], []])
        numbers = barrier.insert_many(0, ["a", "b"], [[1.0, 2.0], [3.0, 4.0]])
        words = barrier.insert_many(1, ["b", "c", "a"], ["B", "C", "A"])
        late = barrier.insert_many(0, ["c"], [[5.0, 6.0]])
        sizes = [barrier.ready_size(), barrier.incomplete_size()]
        pair, one = barrier.take_many(2), barrier.take_many(1)
        assert [str(tensor.shape) for tensor in (pair.indices, pair.keys, *pair.values)] == [
            "[2]",
            "[2]",
            "[2, 2]",
            "[2]",
        ]
    session = hr.Session(graph)
    session.run(numbers)
    assert session.run(sizes) == [0, 2]
    waiting = Call(lambda: session.run([one.keys, one.indices]))
    session.run(words)
    keys, indices = waiting.result()
    assert (keys.tolist(), indices.tolist()) == ([b"b"], [FIRST])
    session.run(late)
    assert session.run(sizes) == [2, 0]
    indices, keys, values, texts = session.run([pair.indices, pair.keys, *pair.values])
    assert indices.tolist() == [FIRST, FIRST + 1]
    assert keys.tolist() == [b"a", b"c"]
    assert values.tolist() == [[1, 2], [5, 6]]
    assert texts.tolist() == [b"A", b"C"]


def test_after_closing_pending_elements_may_still_be_completed() -> None:
    with hr.Graph().as_default() as graph:
        barrier = hr.Barrier([hr.float32, hr.float32])
        first, second = barrier.insert_many(0, ["k"], [1.0]), barrier.insert_many(1, ["k"], [2.0])
        new, close = barrier.insert_many(0, ["new"], [1.0]), barrier.close()
        cancel = barrier.close(cancel_pending_enqueues=True)
        five, rest = barrier.take_many(5), barrier.take_many(5, allow_small_batch=True)
    session = hr.Session(graph)
    session.run(first)
    session.run(close)
    with pytest.raises(CancelledError, match=r"is closed(.|\n)*the key of a pending element(.|\n)*b'new'"):
        session.run(new)
    with pytest.raises(EndOfDataError, match=r"too few elements(.|\n)*5 elements(.|\n)*0 ready, 1 incomplete"):
        session.run(five.keys)
    session.run(second)
    assert session.run(rest.keys).tolist() == [b"k"]
    with pytest.raises(EndOfDataError, match="too few elements"):
        session.run(rest.keys)
    with pytest.raises(CancelledError, match="closed already"):
        session.run(close)
    session.run(cancel)
    with pytest.raises(CancelledError, match="closed already"):
        session.run(cancel)


def test_closing_with_cancel_drops_pending_elements_and_keeps_ready_ones() -> None:
    with hr.Graph().as_default() as graph:
        barrier = hr.Barrier([hr.float32, hr.float32])
        both = barrier.insert_many(0, ["k", "l"], [1.0, 2.0])
        one, other = barrier.insert_many(1, ["k"], [3.0]), barrier.insert_many(1, ["l"], [4.0])
        cancel, sizes = barrier.close(cancel_pending_enqueues=True), [barrier.ready_size(), barrier.incomplete_size()]
        take = barrier.take_many(1)
    session = hr.Session(graph)
    for operation in (both, one, cancel):
        session.run(operation)
    assert session.run(sizes) == [1, 0]
    with pytest.raises(CancelledError, match="is closed"):
        session.run(other)
    assert session.run(take.keys).tolist() == [b"k"]
    with pytest.raises(EndOfDataError, match="too few elements"):
        session.run(take.keys)


def test_closing_ends_the_wait_of_who_cannot_be_served() -> None:
    with hr.Graph().as_default() as graph:
        barrier = hr.Barrier([hr.float32])
        insert, close = barrier.insert_many(0, ["k"], [1.0]), barrier.close()
        pair, rest = barrier.take_many(2), barrier.take_many(2, allow_small_batch=True)
    session = hr.Session(graph)
    session.run(insert)
    waiting = Call(lambda: session.run(pair.keys))
    session.run(close)
    with pytest.raises(EndOfDataError, match="too few elements"):
        waiting.result()
    assert session.run(rest.keys).tolist() == [b"k"]


def test_an_insertion_that_is_refused_changes_nothing() -> None:
    with hr.Graph().as_default() as graph:
        barrier = hr.Barrier([hr.float32, hr.float32], name="barrier")
        keys, values = hr.placeholder(hr.string, None), hr.placeholder(hr.float32, None)
        insert = barrier.insert_many(0, keys, values)
        nowhere = barrier.insert_many(5, ["k"], [1.0])
        incomplete = barrier.incomplete_size()
    session = hr.Session(graph)
    for wrong in (["a", "b", "a"], ["b", "a", "a"]):
        with pytest.raises(InvalidArgumentError, match="has component 0 already"):
            session.run(insert, feeds={keys: wrong, values: [1, 2, 3]})
    with pytest.raises(ShapeError, match="values do not fit the barrier"):
        session.run(insert, feeds={keys: ["a", "b"], values: [1]})
    with pytest.raises(ShapeError, match="values do not fit the barrier"):
        session.run(insert, feeds={keys: ["a"], values: [[1]]})
    with pytest.raises(InvalidArgumentError, match="'barrier' has no component 5"):
        session.run(nowhere)
    assert session.run(incomplete) == 0
    session.run(insert, feeds={keys: ["a", "b"], values: [1, 2]})
    with pytest.raises(InvalidArgumentError, match=r"has component 0 already(.|\n)*b'b'"):
        session.run(insert, feeds={keys: ["c", "b"], values: [1, 2]})
    assert session.run(incomplete) == 2


def test_G17_a_wrong_number_of_elements_is_refused() -> None:
    with hr.Graph().as_default() as graph:
        barrier = hr.Barrier([hr.float32])
        n = hr.placeholder(hr.int32, None)
        take = barrier.take_many(n)
        with pytest.raises(InvalidArgumentError, match="number of elements is negative"):
            barrier.take_many(-1)
        with pytest.raises(ShapeError, match="num_elements must be a scalar"):
            barrier.take_many([1, 2])
    session = hr.Session(graph)
    with pytest.raises(InvalidArgumentError, match="number of elements is negative"):
        session.run(take.keys, feeds={n: -1})
    with pytest.raises(ShapeError, match="num_elements must be a scalar"):
        session.run(take.keys, feeds={n: [1, 2]})
    assert session.run(take.keys, feeds={n: 0}).tolist() == []
    with pytest.raises(DeadlineExceededError, match="Barrier 'barrier' holds 0 elements"):
        session.run(take.keys, feeds={n: 1}, timeout=0.01)


def test_wrong_barriers_fail_where_they_are_written() -> None:
    with hr.Graph().as_default() as graph:
        with pytest.raises(InvalidArgumentError, match="shapes of a barrier's components are wrong"):
            hr.Barrier([hr.float32], shapes=[[None]])
        with pytest.raises(InvalidArgumentError, match="shapes of a barrier's components are wrong"):
            hr.Barrier([hr.float32], shapes=[])
        with pytest.raises(UnimplementedError, match="a barrier has no bound"):
            hr.apply_op("Barrier", component_types=[hr.float32], shapes=[[]], capacity=3)
        barrier = hr.Barrier([hr.float32], shapes=[[2]])
        with pytest.raises(UnimplementedError, match="timeout_ms is not supported"):
            hr.apply_op("BarrierTakeMany", barrier.handle, 1, component_types=[hr.float32], timeout_ms=1)
        with pytest.raises(ShapeError, match="values do not fit the barrier"):
            barrier.insert_many(0, ["a"], [[1.0, 2.0, 3.0]])
        assert "float32[2]" in repr(barrier)
        same = {"shared_name": "b"}
        (hidden,) = hr.apply_op("IdentityN", [hr.Barrier([hr.float32], **same).handle])
        wrong = hr.apply_op("BarrierInsertMany", hidden, ["a"], np.ones(1), component_index=0)
        unknown = hr.apply_op("BarrierTakeMany", hidden, 1, component_types=[hr.float64])
        other = hr.Barrier([hr.int32], **same).ready_size()
    session = hr.Session(graph)
    with pytest.raises(DTypeError, match="component 0 of barrier 'b' has another dtype"):
        session.run(wrong)
    with pytest.raises(DTypeError, match="components of barrier 'b' have other dtypes"):
        session.run(unknown)
    with pytest.raises(InvalidArgumentError, match="'b' exists with other components"):
        session.run(other)
