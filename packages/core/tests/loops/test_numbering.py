"""Numbering: the buffers of a region, and which of its inputs may be its output."""

from __future__ import annotations

from headrace import loops
from headrace.loops.lowering import Output, Partial, lower
from headrace.loops.value import Value
from headrace.types import float32


def value_of(key: object, *shape: int) -> Value:
    return Value("input", float32, shape, (), key)


def test_what_a_second_region_reads_is_an_input_of_it() -> None:
    x = value_of("x", 100_000)
    first, second = lower(x.shape, (0,), {}, [Output("y", loops.sum(x))])
    partial = Partial(0)
    assert [(key, kind.role) for key, kind in zip(first.keys, first.region.buffers, strict=True)] == [
        ("x", "in"), (partial, "out")
    ]  # fmt: skip
    assert [(key, kind.role) for key, kind in zip(second.keys, second.region.buffers, strict=True)] == [
        ("y", "out"), (partial, "in")
    ]  # fmt: skip


def test_row_buffers_come_last_and_have_no_key() -> None:
    x = value_of("x", 64, 10)
    exps = loops.exp(x)
    (softmax,) = lower(x.shape, (1,), {}, [Output("y", exps / loops.sum(exps, 1, keepdims=True))])
    assert [buffer.role for buffer in softmax.region.buffers] == ["out", "in", "row"]
    assert softmax.keys == ("y", "x")


def test_an_input_that_is_read_only_where_it_is_written_may_be_the_output() -> None:
    x = value_of("x", 2, 3, 4)
    (double,) = lower(x.shape, (), {}, [Output("y", x + x)])
    assert double.identity == {"x"}
    (turned,) = lower((4, 3), (), {}, [Output("y", loops.transpose(value_of("x", 3, 4), (1, 0)))])
    assert turned.identity == frozenset()


def test_a_row_may_be_written_over_one_that_is_read_for_the_last_time() -> None:
    x, bias = value_of("x", 64, 10), value_of("bias", 10)
    exps = loops.exp(x)
    (softmax,) = lower((64, 10), (1,), {}, [Output("y", exps / loops.sum(exps, 1, keepdims=True))])
    assert softmax.identity == {"x"}
    (scaled,) = lower((64, 10), (1,), {}, [Output("y", (x + bias) / loops.sum(x, 1, keepdims=True))])
    assert scaled.identity == {"x"}
    early = [Output("z", x * 2.0), Output("y", x - loops.sum(x, 1, keepdims=True))]
    (two,) = lower((64, 10), (1,), {}, early)
    assert two.identity == frozenset()  # z is written when the row is still to be read


def test_what_is_walked_across_is_not_written_over() -> None:
    x = value_of("x", 8, 10)
    (columns,) = lower(x.shape, (0,), {}, [Output("y", x * 2.0), Output("z", loops.sum(x, 0))])
    assert columns.identity == frozenset()
