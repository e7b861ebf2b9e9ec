"""Gradients of random programs over lists, of second order too."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_gradient

ROW = [2]
STEPS = 25


class _Program:
    """Values and lists that a random program has made so far. Mutable.

    Attributes:
      values: tensors `[2]`.
      lists: handles, each with its length.
    """

    def __init__(self, dice: random.Random, inputs: Sequence[hr.Tensor]) -> None:
        self.dice = dice
        self.values = [*inputs, inputs[0] * inputs[1]]
        empty = hr.apply_op("EmptyTensorList", -1, -1, element_dtype=hr.float64)
        self.lists: list[tuple[hr.Tensor, int]] = [(empty, 0)]

    def value(self) -> hr.Tensor:
        return self.dice.choice(self.values)

    def rows(self) -> hr.Tensor:
        return hr.stack([self.value() for _ in range(3)])

    def step(self) -> None:
        handle, length = self.dice.choice(self.lists)
        makers = [self._push, self._resize, self._from_tensor, self._scatter, self._join, self._compute]
        readers = [self._pop, self._get, self._set, self._stack, self._concat, self._gather, self._scatter_into]
        self.dice.choice(makers + readers if length else makers)(handle, length)

    def _push(self, handle: hr.Tensor, length: int) -> None:
        self.lists.append((hr.apply_op("TensorListPushBack", handle, self.value()), length + 1))

    def _pop(self, handle: hr.Tensor, length: int) -> None:
        shorter, last = hr.apply_op("TensorListPopBack", handle, ROW, element_dtype=hr.float64)
        self.lists.append((shorter, length - 1))
        self.values.append(last)

    def _get(self, handle: hr.Tensor, length: int) -> None:
        index = self.dice.randrange(length)
        self.values.append(hr.apply_op("TensorListGetItem", handle, index, ROW, element_dtype=hr.float64))

    def _set(self, handle: hr.Tensor, length: int) -> None:
        index = self.dice.randrange(length)
        self.lists.append((hr.apply_op("TensorListSetItem", handle, index, self.value()), length))

    def _resize(self, handle: hr.Tensor, length: int) -> None:
        size = self.dice.randrange(length + 3)
        self.lists.append((hr.apply_op("TensorListResize", handle, size), size))

    def _stack(self, handle: hr.Tensor, length: int) -> None:
        self.values.append(hr.sum(hr.apply_op("TensorListStack", handle, ROW, element_dtype=hr.float64), axis=0))

    def _concat(self, handle: hr.Tensor, length: int) -> None:
        sizes = np.full(length, 2, np.int64)
        self.values.append(hr.apply_op("TensorListConcatV2", handle, ROW, sizes, element_dtype=hr.float64)[0][:2])

    def _gather(self, handle: hr.Tensor, length: int) -> None:
        indices = [self.dice.randrange(length) for _ in range(3)]
        rows = hr.apply_op("TensorListGather", handle, indices, ROW, element_dtype=hr.float64)
        self.values.append(hr.sum(rows * rows, axis=0))

    def _from_tensor(self, handle: hr.Tensor, length: int) -> None:
        self.lists.append((hr.apply_op("TensorListFromTensor", self.rows(), ROW), 3))

    def _scatter(self, handle: hr.Tensor, length: int) -> None:
        indices = [self.dice.randrange(4) for _ in range(3)]
        self.lists.append((hr.apply_op("TensorListScatterV2", self.rows(), indices, ROW, 5), 5))

    def _scatter_into(self, handle: hr.Tensor, length: int) -> None:
        indices = [self.dice.randrange(length + 2) for _ in range(3)]
        changed = hr.apply_op("TensorListScatterIntoExistingList", handle, self.rows(), indices)
        self.lists.append((changed, max(length, *(index + 1 for index in indices))))

    def _join(self, handle: hr.Tensor, length: int) -> None:
        other, count = self.dice.choice(self.lists)
        joined = hr.apply_op("TensorListConcatLists", handle, other, element_dtype=hr.float64)
        self.lists.append((joined, length + count))

    def _compute(self, handle: hr.Tensor, length: int) -> None:
        self.values.append(hr.tanh(self.value() * self.value()))

    def outputs(self) -> list[hr.Tensor]:
        lists = [handle for handle, length in self.lists[-3:] if length]
        stacked = [hr.apply_op("TensorListStack", handle, ROW, element_dtype=hr.float64) for handle in lists]
        return [self.values[-1] + self.values[-2], *stacked]


def _program(seed: int) -> Callable[[Sequence[hr.Tensor]], Sequence[hr.Tensor]]:
    def build(inputs: Sequence[hr.Tensor]) -> list[hr.Tensor]:
        program = _Program(random.Random(seed), inputs)
        for _ in range(STEPS):
            program.step()
        return program.outputs()

    return build


@pytest.mark.parametrize("seed", range(12))
def test_gradients_of_random_programs_agree_with_differences(seed: int) -> None:
    check_gradient(_program(seed), [[0.5, -0.7], [0.9, 0.3]], seed=seed)
