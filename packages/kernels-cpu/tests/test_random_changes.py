"""What is read of a variable stays what it was, whatever changes the variable before it is used: by random graphs."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import headrace as hr

SHAPE = (4, 4)


def bounded(x: hr.Tensor) -> hr.Tensor:
    """Whole numbers from -2 to 2, so that every order of sums gives the same."""
    return hr.minimum(hr.maximum(x, -2.0), 2.0)


@dataclass
class Program:
    """A graph of square matrices that are read, moved, multiplied and assigned. Every change follows what it changes.

    Attributes:
      rng: chooses.
      variables: what is read and changed.
      found: values to go on with.
      reads: what was read since the last change.
      changes: what changes variables, in order.
    """

    rng: random.Random
    variables: list[hr.Variable]
    found: list[hr.Tensor]
    reads: list[hr.Tensor] = field(default_factory=list)
    changes: list[Any] = field(default_factory=list)

    def grow(self) -> None:
        """Add a read, a change, or something made of values."""
        x, y = (self.rng.choice(self.found[-8:]) for _ in range(2))
        made = [
            lambda: -x,
            lambda: hr.nn.relu(x),
            lambda: bounded(x + y),
            lambda: hr.permute_dims(x, (1, 0)),
            lambda: x[::-1],
            lambda: hr.concat(hr.split(x, 2, axis=1)[::-1], axis=1),
            lambda: bounded(hr.matmul(x, y, transpose_a=self.rng.random() < 0.5)),
            self.read,
            self.read,
        ]
        if self.rng.random() < 0.2:
            self.change(x)
        else:
            self.found.append(self.rng.choice(made)())

    def read(self) -> hr.Tensor:
        """Read a variable after the last change."""
        with hr.control_dependencies(self.changes[-1:]):
            self.reads.append(self.rng.choice(self.variables).read())
        return self.reads[-1]

    def change(self, x: hr.Tensor) -> None:
        """Change a variable after all that was read."""
        variable = self.rng.choice(self.variables)
        with hr.control_dependencies([*self.reads, *self.changes[-1:]]):
            if self.rng.random() < 0.7:
                self.changes.append(variable.assign(x))
            else:
                self.changes.append(variable.assign_sub(variable.read() - x))
        self.reads = []


def program_of(seed: int) -> tuple[hr.Graph, hr.Tensor, list[Any]]:
    graph, rng = hr.Graph(), random.Random(seed)
    with graph.as_default():
        x = hr.placeholder(hr.float32, SHAPE)
        numbers = np.random.default_rng(seed).integers(-2, 3, (2, *SHAPE)).astype(np.float32)
        program = Program(rng, [hr.Variable(value) for value in numbers], [x])
        for _ in range(28):
            program.grow()
    return graph, x, [*rng.sample(program.found, min(5, len(program.found))), *program.changes[-1:]]


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_that_change_variables_have_the_bits_of_the_kernels(seed: int) -> None:
    graph, x, fetches = program_of(seed)
    value = np.random.default_rng(seed).integers(-2, 3, SHAPE).astype(np.float32)
    found = []
    for backend in ("numpy", "cpu"):
        with hr.Session(graph, config=hr.config(backend=backend)) as session:
            step = session.make_callable(fetches, [x])
            made = [array for _ in range(2) for array in step(value) if array is not None]
            found.append([*made, *(session.read_variables().values())])
    for theirs, ours in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)
