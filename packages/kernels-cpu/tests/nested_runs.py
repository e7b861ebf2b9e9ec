"""Run loops and branches natively and by their kernels, and compare: what the tests of nesting and of lists share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import headrace as hr
from headrace.types import Array

CPU = hr.config(backend="cpu")
NESTED = {"While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase"}


def computed(build: Callable[..., Any], *arrays: Any, types: Any = NESTED) -> tuple[list[Array], set[str]]:
    """What is built, run twice with the same result, and what computes the operations of some types.

    Kernels of NumPy are all called `headrace.kernels`.
    """
    with hr.Graph().as_default() as graph:
        inputs = [hr.placeholder(array.dtype, array.shape) for array in arrays]
        outputs = build(*inputs)
        outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    trace = hr.Trace()
    with hr.Session(graph, config=CPU) as session:
        feeds = dict(zip(inputs, arrays, strict=True))
        results = session.run(outputs, feeds=feeds, trace=trace)
        again = session.run(outputs, feeds=feeds)
    assert [one.tobytes() for one in results] == [one.tobytes() for one in again]
    (record,) = trace.steps
    by = zip(record.operations, record.kernels, strict=True)
    names = {kernel for op, kernel in by if op.type in types}
    return results, {"headrace.kernels" if name.startswith("headrace.kernels.") else name for name in names}


def native(monkeypatch: pytest.MonkeyPatch, build: Callable[..., Any], *arrays: Any) -> list[Array]:
    """The results, after a check that loops are native and have the bits that they have without."""
    results, kernels = computed(build, *arrays)
    assert kernels
    assert kernels <= {"headrace_cpu.loop", "headrace_cpu.branch"}
    assert [one.tobytes() for one in results] == [one.tobytes() for one in by_kernels(monkeypatch, build, *arrays)]
    return results


def by_kernels(monkeypatch: pytest.MonkeyPatch, build: Callable[..., Any], *arrays: Any) -> list[Array]:
    """The results where each iteration is a call of its own."""
    with monkeypatch.context() as patched:
        patched.setenv("HEADRACE_NATIVE_LOOPS", "off")
        results, kernels = computed(build, *arrays)
    assert kernels <= {"headrace.kernels"}
    return results
