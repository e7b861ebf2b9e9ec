"""Errors of kernels, as the user gets them: with their place, their cause, and the kind that says what to do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import headrace as hr
from headrace.plan.failure import exhausted, explained


@pytest.mark.parametrize(
    ("use", "kind"),
    [
        (lambda: hr.apply_op("QueueSizeV2", hr.Variable(1.0).handle), "VariableBuffer"),
        (lambda: hr.apply_op("ReadVariableOp", hr.FIFOQueue(1, hr.int32).handle, dtype=hr.int32), "Queue"),
        (lambda: hr.apply_op("VarIsInitializedOp", hr.apply_op("MutexV2")), "Mutex"),
        (lambda: hr.apply_op("BarrierReadySize", hr.apply_op("StackV2", 1, elem_type=hr.int32)), "StackState"),
        (lambda: hr.apply_op("LookupTableSizeV2", hr.FIFOQueue(1, hr.int32).handle), "Queue"),
    ],
)
def test_a_handle_of_another_kind_is_refused_with_what_it_is(use: Callable[[], hr.Tensor], kind: str) -> None:
    """Graph files may hold such a graph: no signature tells kinds of resources apart."""
    with hr.Graph().as_default() as graph:
        wrong = use()
    message = rf"does not work with the kind of resource(.|\n)*where:    {wrong.op.type}(.|\n)*got:      a \w*{kind}"
    with pytest.raises(hr.errors.InvalidArgumentError, match=message) as caught:
        hr.Session(graph).run(wrong)
    assert isinstance(caught.value.__cause__, AttributeError)


def test_a_fault_of_the_resource_itself_stays_what_it_is() -> None:
    class Resource:
        __module__ = "headrace.somewhere"

        def size(self) -> int:
            return self.missing  # type: ignore[attr-defined, no-any-return]

    with hr.Graph().as_default():
        op = hr.FIFOQueue(1, hr.int32).size().op
    with pytest.raises(AttributeError) as caught:
        Resource().size()
    assert explained(caught.value, op) is caught.value
    assert any("while computing QueueSizeV2" in note for note in caught.value.__notes__)


def test_a_lack_of_memory_keeps_its_cause_and_its_place() -> None:
    def fail(_: np.ndarray) -> np.ndarray:
        raise MemoryError("no room")

    with hr.Graph().as_default() as graph:
        y = hr.py_function(fail, [1.0], hr.float32, name="large")
    with pytest.raises(
        hr.errors.ResourceExhaustedError, match="not enough memory(.|\n)*'large'(.|\n)*no room"
    ) as caught:
        hr.Session(graph).run(y)
    assert isinstance(caught.value.__cause__, MemoryError)
    assert exhausted("here", MemoryError("x")).where == "here"
