"""Row buffers: what is kept for a later loop over the same row, and what is computed again."""

from __future__ import annotations

from headrace import loops
from headrace.loops.lowering import Output, lower
from headrace.loops.value import Value
from headrace.types import float32


def value_of(key: object, *shape: int) -> Value:
    return Value("input", float32, shape, (), key)


def rows_of(value: Value, *others: Output) -> list[int]:
    """Sizes of the row buffers where values of rows are divided by their sum."""
    outputs = [Output("y", value / loops.sum(value, 1, keepdims=True)), *others]
    (lowered,) = lower(value.shape, (1,), {}, outputs)
    return [buffer.size for buffer in lowered.region.buffers if buffer.role == "row"]


def test_what_is_costly_is_kept_and_what_is_cheap_is_computed_again() -> None:
    x = value_of("x", 64, 10)
    assert rows_of(loops.exp(x)) == [10]
    assert rows_of(x * 2.0 + 1.0) == []


def test_a_costly_operator_of_what_a_row_shares_is_not_kept() -> None:
    x = value_of("x", 64, 10)
    assert rows_of(x * loops.exp(loops.max(x, 1, keepdims=True))) == []


def test_what_is_written_anyway_is_read_from_there() -> None:
    exps = loops.exp(value_of("x", 64, 10))
    assert rows_of(exps, Output("z", exps)) == []


def test_rows_that_the_stack_cannot_hold_are_computed_again() -> None:
    assert rows_of(loops.exp(value_of("x", 64, 1 << 16))) == [1 << 16]
    assert rows_of(loops.exp(value_of("x", 64, (1 << 16) + 1))) == []
