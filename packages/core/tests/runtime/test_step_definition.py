"""Steps that run once are not worth compiling, except where values must be made in memory of another kind."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import headrace as hr
from headrace.interfaces import INTERFACE_VERSION, Compiled, Functions, Resources
from headrace.plan.plan import backends, find_backend, register_backend


class NotingBackend:
    """Compiles as the NumPy backend does, and notes what."""

    interface_version = INTERFACE_VERSION

    def __init__(self, name: str, device: str) -> None:
        self.name, self._devices = name, [device]
        self.compiled: list[list[str]] = []

    def devices(self) -> list[str]:
        return self._devices

    def compile(self, segment: hr.Graph, resources: Resources, functions: Functions) -> Compiled:
        self.compiled.append([op.type for op in segment.operations])
        return find_backend("numpy").compile(segment, resources, functions)


@pytest.fixture
def noting() -> Iterator[NotingBackend]:
    backend = NotingBackend("noting", "CPU:0")
    register_backend(backend)
    yield backend
    del backends()["noting"]


def test_initial_values_are_made_by_numpy_where_the_backend_has_the_same_memory(noting: NotingBackend) -> None:
    with hr.Graph().as_default() as graph:
        v = hr.Variable(hr.ones([2]) * 3.0, name="v")
        w = hr.Variable(v.value + 1.0, name="w")
        y = v.value * w.value
    with hr.Session(graph, config=hr.config(backend="noting")) as session:
        np.testing.assert_array_equal(session.run(y), [12, 12])
        np.testing.assert_array_equal(session.run(y), [12, 12])
    (segment,) = noting.compiled
    assert "Mul" in segment
    assert "AssignVariableOp" not in segment


def test_a_backend_with_memory_of_its_own_makes_initial_values(noting: NotingBackend) -> None:
    noting._devices[0] = "OTHER:0"
    with hr.Graph().as_default() as graph:
        v = hr.Variable(hr.ones([2]) * 3.0, name="v")
        y = v.value * 2.0
    with hr.Session(graph, config=hr.config(backend="noting")) as session:
        np.testing.assert_array_equal(session.run(y), [6, 6])
    assert ["AssignVariableOp" in segment for segment in noting.compiled] == [False, True]  # the step comes first
