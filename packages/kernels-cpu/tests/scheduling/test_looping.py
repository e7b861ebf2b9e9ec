"""Lines as loops: what they read and write, where they are cut, and what has no form in native code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from laid_out import scheduled

import headrace as hr
from headrace_cpu.scheduling.looping import LineLoops, line_loops

VECTOR = hr.float32, (8,)


def loops_of(kind: str, build: Callable[..., Any], *inputs: tuple[hr.DType, tuple[int, ...]]) -> LineLoops | None:
    """The loops of the only line of a type."""
    schedule = scheduled(build, *inputs)
    (line,) = (line for line in schedule.program.lines if line.op.type == kind)
    return line_loops(schedule, line, frozenset({7}))


def found(kind: str, build: Callable[..., Any], *inputs: tuple[hr.DType, tuple[int, ...]]) -> LineLoops:
    loops = loops_of(kind, build, *inputs)
    assert loops is not None
    return loops


def test_an_operation_element_by_element_is_one_item() -> None:
    loops = found("Mul", lambda x, y: x * y, VECTOR, VECTOR)
    (item,) = loops.items
    assert len(item.reads) == 2
    assert len(item.writes) == len(item.outputs) == 1
    assert item.after == frozenset({7})
    assert not item.partial
    assert not item.mutable
    assert loops.check is None


def test_a_constant_of_one_number_is_not_read() -> None:
    everywhere, elsewhere = np.full(8, 0.5, np.float32), np.arange(8, dtype=np.float32)
    (item,) = found("Mul", lambda x: x * hr.constant(everywhere), VECTOR).items
    assert len(item.reads) == 1
    (item,) = found("Mul", lambda x: x * hr.constant(elsewhere), VECTOR).items
    assert len(item.reads) == 2


def test_what_is_joined_is_cut_where_its_parts_differ_in_shape() -> None:
    loops = found("ConcatV2", lambda x, y: hr.concat([x, y, x], 0), VECTOR, (hr.float32, (3,)))
    assert [[output.value.shape for output in item.outputs] for item in loops.items] == [[(8,), (8,)], [(3,)]]
    assert all(item.partial for item in loops.items)
    assert loops.items[0].writes == loops.items[1].writes
    assert [len(item.reads) for item in loops.items] == [1, 1]


def test_what_stands_between_the_parts_comes_first() -> None:
    loops = found("Pad", lambda x: hr.pad(x, [[1, 2]]), VECTOR)
    assert [item.partial for item in loops.items] == [False, True]
    assert loops.items[0].outputs[0].value.shape == (11,)


def test_a_reduction_stays_one_item() -> None:
    (item,) = found("Softmax", lambda x: hr.nn.softmax(x), (hr.float32, (4, 8))).items
    assert len(item.reads) == 1


def test_labels_are_checked_and_lie_in_memory_before() -> None:
    def build(logits: hr.Tensor, labels: hr.Tensor) -> hr.Tensor:
        return hr.nn.sparse_softmax_cross_entropy(labels=labels, logits=logits)

    loops = found("SparseSoftmaxCrossEntropyWithLogits", build, (hr.float32, (4, 10)), (hr.int32, (4,)))
    assert loops.check is not None
    key, bound = loops.check
    assert bound == 10
    assert key in loops.items[0].reads
    assert key in loops.items[0].mutable


def test_labels_that_are_one_number_everywhere_are_left_to_numpy() -> None:
    def build(logits: hr.Tensor) -> hr.Tensor:
        return hr.nn.sparse_softmax_cross_entropy(labels=np.zeros(4, np.int32), logits=logits)

    assert loops_of("SparseSoftmaxCrossEntropyWithLogits", build, (hr.float32, (4, 10))) is None


@pytest.mark.parametrize(
    ("kind", "build", "dtype"),
    [
        ("TopKV2", lambda x: hr.topk(x, 2)[0], hr.float32),  # no rule
        ("Mul", lambda x: x * x, hr.complex64),  # no form of the operator in this dtype
    ],
)
def test_what_has_no_loops(kind: str, build: Callable[..., Any], dtype: hr.DType) -> None:
    assert loops_of(kind, build, (dtype, (8,))) is None


def test_empty_results_are_left_to_numpy() -> None:
    assert loops_of("Exp", lambda x: hr.exp(x), (hr.float32, (0, 3))) is None


def test_an_update_writes_its_variable_which_nothing_moves_around() -> None:
    def build(x: hr.Tensor) -> hr.Operation:
        update = hr.Variable(np.zeros(8, np.float32), name="v").assign_add(x)
        assert update is not None
        return update

    (item,) = found("AssignAddVariableOp", build, VECTOR).items
    assert item.writes == (("variable", 0),)
    assert item.mutable == frozenset(item.writes)
    assert set(item.writes) < set(item.reads)
