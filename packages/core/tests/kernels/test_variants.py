"""Sums of values of dtype variant."""

from __future__ import annotations

import time

import numpy as np

import headrace as hr
from headrace.kernels.context import NO_FUNCTIONS, NO_RESOURCES, context_of
from headrace.kernels.list_value import TensorList
from headrace.kernels.registry import find_kernel


def test_adding_up_lists_of_one_element_costs_what_they_are_many() -> None:
    """The gradient of a loop that reads n elements adds up n such lists, one after the other."""
    count = 30_000
    with hr.Graph().as_default():
        lists = [hr.apply_op("EmptyTensorList", -1, -1, element_dtype=hr.float32) for _ in range(2)]
        op = hr.apply_op("AddN", lists).op
    kernel, context = find_kernel("AddN", op.attrs), context_of(op, NO_RESOURCES, NO_FUNCTIONS)
    total = TensorList({}, count, hr.float32, hr.Shape([]))
    started = time.process_time()
    for index in range(count):
        one = TensorList({index: np.float32(index)}, count, hr.float32, hr.Shape([]))
        total = kernel.function(context, [one, total] if index % 2 else [total, one])
    assert time.process_time() - started < 3, "a copy of the sum for each of 30,000 lists takes longer"
    assert total.items() == list(range(count))
