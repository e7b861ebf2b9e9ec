"""Random programs that make, change, shorten and read tensor lists in any order: older versions, loops, branches.

What decides which lists are native must be right for all of them; the results are compared with those of the kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from nested_runs import by_kernels, computed

import headrace as hr

FLOAT: Any = {"element_dtype": hr.float32}
Known = tuple[hr.Tensor, int]
"""A list and how many elements it has."""


class Program:
    """One program, chosen by numbers. Used once."""

    def __init__(self, choices: Iterator[int]) -> None:
        self.choices = choices
        self.lists: list[Known] = []

    def pick(self, count: int) -> int:
        return next(self.choices) % count

    def build(self, x: hr.Tensor) -> list[hr.Tensor]:
        """Some steps; gives a sum of what they read, and all lists that are left."""
        self.lists = [self.made(x)]
        s = x
        for _ in range(14):
            s = self.step(s)
        stacked = [self.stack(items, count) for items, count in self.lists if count]
        return [s, *stacked]

    def made(self, x: hr.Tensor) -> Known:
        kind = self.pick(3)
        if kind == 0:
            return hr.apply_op("EmptyTensorList", [3], -1, **FLOAT), 0
        if kind == 1:
            return hr.apply_op("TensorListReserve", [3], 2, **FLOAT), 2
        return hr.apply_op("TensorListFromTensor", hr.zeros([2, 3]) + x, [3], **FLOAT), 2

    def stack(self, items: hr.Tensor, count: int) -> hr.Tensor:
        stacked: hr.Tensor = hr.apply_op("TensorListStack", items, [3], num_elements=count, **FLOAT)
        return stacked

    def step(self, s: hr.Tensor) -> hr.Tensor:
        kind, place = self.pick(9), self.pick(len(self.lists))
        items, count = self.lists[place]
        if kind == 0:
            self.lists.append(self.made(s))
        elif kind in (1, 2):  # now and then into the place of another list, so that the older version stays
            longer = hr.apply_op("TensorListPushBack", items, s)
            self.lists[place if self.pick(5) else -1] = longer, count + 1
        elif kind == 3 and count:
            shorter, last = hr.apply_op("TensorListPopBack", items, [3], **FLOAT)
            s = hr.tanh(s + last)
            if self.pick(3):
                self.lists[place] = shorter, count - 1
            else:
                self.lists.append((shorter, count - 1))
        elif kind == 4 and count:
            s = hr.tanh(s * 0.5 + hr.apply_op("TensorListGetItem", items, self.pick(count), [3], **FLOAT))
        elif kind == 5 and count:
            self.lists[place] = hr.apply_op("TensorListSetItem", items, self.pick(count), s), count
        elif kind == 6 and count:
            s = s + hr.sum(self.stack(items, count), axis=0)
        elif kind == 7:
            s = self.loop(s)
        elif kind == 8:
            s = hr.cond(hr.sum(s) > 0.0, lambda: s * 0.5, lambda: s + 0.25)
        return s

    def loop(self, s: hr.Tensor) -> hr.Tensor:
        """A loop that does one thing with each list in each iteration."""
        trips = self.pick(4)
        counts = [count for _, count in self.lists]
        uses = [self.use(count, trips) for count in counts]

        def body(i: hr.Tensor, s: hr.Tensor, *lists: hr.Tensor) -> tuple[hr.Tensor, ...]:
            results = []
            for items, use, count in zip(lists, uses, counts, strict=True):
                changed = items
                if use == "push":
                    changed = hr.apply_op("TensorListPushBack", items, s)
                elif use == "pop":
                    changed, last = hr.apply_op("TensorListPopBack", items, [3], **FLOAT)
                    s = hr.tanh(s - last)
                elif use == "get":
                    s = s + hr.apply_op("TensorListGetItem", items, 0, [3], **FLOAT)
                elif use == "set":
                    changed = hr.apply_op("TensorListSetItem", items, count - 1, s)
                results.append(changed)
            return (i + 1, hr.tanh(s), *results)

        _, s, *lists = hr.while_loop(lambda i, s, *_: i < trips, body, (0, s, *(items for items, _ in self.lists)))
        grown = {"push": trips, "pop": -trips}
        self.lists = [(items, count + grown.get(use, 0)) for items, count, use in zip(lists, counts, uses, strict=True)]
        return s

    def use(self, count: int, trips: int) -> str:
        use = ("push", "pop", "get", "set", "keep")[self.pick(5)]
        fits = {"pop": 0 < trips <= count, "get": count > 0, "set": count > 0}
        return use if fits.get(use, True) else "keep"


@pytest.mark.parametrize("seed", range(10))
def test_random_programs_of_lists_give_what_kernels_give(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr("headrace_cpu.step.calling.SLICE", 200)
    monkeypatch.setattr("headrace_cpu.step.calling.SMALLEST_STORE", 1)
    rng = np.random.default_rng(seed)
    choices = rng.integers(0, 10**6, 400).tolist()
    x = rng.normal(size=3).astype(np.float32)

    def build(x: hr.Tensor) -> list[hr.Tensor]:
        return Program(iter(choices)).build(x)

    results, _ = computed(build, x)
    wanted = by_kernels(monkeypatch, build, x)
    assert [one.tobytes() for one in results] == [one.tobytes() for one in wanted]
