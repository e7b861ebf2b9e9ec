"""Which rows go together, and when: decisions only, at times that the tests make up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InvalidArgumentError
from headrace_serving.batch_queue import BatchingOptions, BatchQueue, CostModel
from headrace_serving.errors import QueueFullError


def taken(queue: BatchQueue[str]) -> list[tuple[str, int, int]]:
    return [(piece.item, piece.start, piece.stop) for piece in queue.take()]


def test_whole_requests_up_to_the_largest_batch() -> None:
    queue: BatchQueue[str] = BatchQueue(BatchingOptions(max_batch_size=4))
    for item, rows in [("a", 2), ("b", 1), ("c", 2), ("d", 1)]:
        queue.add(item, rows, now=0)
    assert (len(queue), queue.rows) == (4, 6)
    assert taken(queue) == [("a", 0, 2), ("b", 0, 1)]
    assert taken(queue) == [("c", 0, 2), ("d", 0, 1)]
    assert (taken(queue), queue.ready_at(), queue.rows) == ([], None, 0)


def test_a_larger_request_is_taken_in_pieces_and_its_rest_with_others() -> None:
    queue: BatchQueue[str] = BatchQueue(BatchingOptions(max_batch_size=4))
    for item, rows in [("a", 1), ("b", 9), ("c", 3)]:
        queue.add(item, rows, now=0)
    assert taken(queue) == [("a", 0, 1)]
    assert taken(queue) == [("b", 0, 4)]
    assert taken(queue) == [("b", 4, 8)]
    assert taken(queue) == [("b", 8, 9), ("c", 0, 3)]


@given(st.lists(st.integers(1, 20), max_size=30), st.integers(1, 8))
def test_every_row_is_taken_once_and_in_order(sizes: list[int], largest: int) -> None:
    queue: BatchQueue[int] = BatchQueue(BatchingOptions(max_batch_size=largest, max_queued_batches=1000))
    for item, rows in enumerate(sizes):
        queue.add(item, rows, now=0)
    rows_taken: list[tuple[int, int]] = []
    while pieces := queue.take():
        assert 0 < sum(piece.rows for piece in pieces) <= largest
        rows_taken += [(piece.item, row) for piece in pieces for row in range(piece.start, piece.stop)]
    assert rows_taken == [(item, row) for item, rows in enumerate(sizes) for row in range(rows)]
    assert (queue.rows, len(queue)) == (0, 0)


def test_priorities_go_first_and_the_default_last() -> None:
    queue: BatchQueue[str] = BatchQueue(BatchingOptions(max_batch_size=2))
    for item, priority in [("default", 0), ("low", 7), ("high", 1), ("high too", 1)]:
        queue.add(item, 1, now=0, priority=priority)
    assert taken(queue) == [("high", 0, 1), ("high too", 0, 1)]
    assert taken(queue) == [("low", 0, 1), ("default", 0, 1)]


def test_the_queue_is_bounded_by_rows_but_takes_any_request_when_empty() -> None:
    queue: BatchQueue[str] = BatchQueue(BatchingOptions(max_batch_size=2, max_queued_batches=2))
    queue.add("huge", 100, now=0)
    with pytest.raises(
        QueueFullError, match=r"the server has too much to do\n.*at most 4 rows that wait\n.*100 rows, and 1"
    ):
        queue.add("late", 1, now=0)
    queue.discard("huge")
    queue.discard("huge")
    for item in "abcd":
        queue.add(item, 1, now=0)
    with pytest.raises(QueueFullError, match="4 rows, and 1 more"):
        queue.add("e", 1, now=0)


def test_requests_whose_deadline_is_over_are_given_back() -> None:
    queue: BatchQueue[str] = BatchQueue(BatchingOptions(max_batch_size=2, timeout=10))
    queue.add("a", 1, now=0, deadline=3)
    queue.add("b", 9, now=0)
    assert queue.late(2.9) == []
    assert taken(queue) == [("a", 0, 1)]
    queue.add("c", 1, now=1, deadline=3)
    assert queue.late(3) == ["c"]
    assert queue.rows == 9


def test_a_batch_is_ready_when_full_or_when_its_first_request_has_waited() -> None:
    queue: BatchQueue[str] = BatchQueue(BatchingOptions(max_batch_size=3, timeout=5))
    queue.add("a", 1, now=10)
    queue.add("b", 1, now=12)
    assert queue.ready_at() == 15
    queue.add("c", 1, now=13, deadline=14)
    assert queue.ready_at() == 10
    queue.take()
    queue.add("d", 1, now=13, deadline=14)
    assert queue.ready_at() == 14


def test_the_line_through_the_calls() -> None:
    model = CostModel()
    assert model.fixed == 0
    model.called(4, 0.5)
    assert model.fixed == 0
    for rows in (1, 2, 8):
        model.called(rows, 0.1 * rows + 0.1)
    assert model.fixed == pytest.approx(0.1)
    for rows in range(100):
        model.called(rows, 0.2 * rows)
    assert model.fixed == pytest.approx(0, abs=1e-9)


def test_adaptive_waiting_only_if_it_pays() -> None:
    queue: BatchQueue[str] = BatchQueue(BatchingOptions(max_batch_size=100, timeout=1, adaptive=True))
    queue.add("a", 1, now=0)
    assert queue.ready_at() == 0  # nothing is known yet
    for rows in (1, 2, 4):
        queue.cost.called(rows, 0.1 + 0.001 * rows)
    queue.add("b", 1, now=0.03)
    assert queue.ready_at() == pytest.approx(0.03 + 0.06)  # a call costs 0.1 s, and the next may come in 0.03 s
    for number in range(3):
        queue.add(f"c{number}", 1, now=0.06 + 0.03 * number)
    assert queue.ready_at() == pytest.approx(0.12)  # five that wait would lose more than one call costs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_batch_size": 0}, r"batching cannot be so\n.*of 1 or more.*\n.*0, 10 and 0.0"),
        ({"max_queued_batches": 0}, "batching cannot be so"),
        ({"timeout": -1.0}, "batching cannot be so"),
        ({"timeout": float("nan")}, "batching cannot be so"),
        ({"allowed_sizes": (2, 1, 32)}, r"the allowed batch sizes cannot be so\n.*the largest batch, 32\n.*2, 1, 32"),
        ({"allowed_sizes": (2, 16)}, "the allowed batch sizes cannot be so"),
        ({"allowed_sizes": (0, 32)}, "the allowed batch sizes cannot be so"),
    ],
)
def test_options_that_cannot_be(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        BatchingOptions(**options)  # type: ignore[arg-type]  # wrong on purpose


def test_padding_goes_up_to_the_next_allowed_size() -> None:
    options = BatchingOptions(max_batch_size=8, allowed_sizes=(2, 4, 8))
    assert [options.padded(rows) for rows in (1, 2, 3, 5, 8)] == [2, 2, 4, 8, 8]
    assert BatchingOptions().padded(5) == 5
