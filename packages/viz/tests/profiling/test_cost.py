"""Bytes and floating-point operations of operations, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace_viz.profiling.cost import (
    floating_operations,
    tensor_bytes,
    variable_bytes_read,
    variable_bytes_written,
)


def _flops(build: object) -> int | None:
    with hr.Graph().as_default():
        return floating_operations(build().op)  # type: ignore[operator]


def test_matrix_products() -> None:
    assert _flops(lambda: hr.matmul(hr.zeros([3, 4]), hr.zeros([4, 5]))) == 2 * 3 * 4 * 5
    assert _flops(lambda: hr.matmul(hr.zeros([4, 3]), hr.zeros([4, 5]), transpose_a=True)) == 2 * 3 * 4 * 5
    assert _flops(lambda: hr.matmul(hr.zeros([7, 3, 4]), hr.zeros([7, 4, 5]))) == 2 * 7 * 3 * 4 * 5


def test_convolution_and_both_its_gradients_take_the_same() -> None:
    with hr.Graph().as_default():
        x = hr.zeros([2, 8, 8, 3])
        w = hr.zeros([5, 5, 3, 4])
        y = hr.nn.conv2d(x, w, padding="SAME")
        gradients = hr.gradients(hr.sum(y), [x, w])
    expected = 2 * (2 * 8 * 8 * 4) * (5 * 5 * 3)
    assert [floating_operations(tensor.op) for tensor in (y, *gradients)] == [expected] * 3


def test_elementwise_operations_and_reductions() -> None:
    assert _flops(lambda: hr.zeros([3, 1]) + hr.zeros([1, 4])) == 12
    assert _flops(lambda: hr.sum(hr.zeros([3, 5]))) == 15


def test_what_is_not_known_is_not_guessed() -> None:
    with hr.Graph().as_default():
        x = hr.placeholder(hr.float32, [None, 4])
        assert floating_operations(hr.matmul(x, hr.zeros([4, 5])).op) is None
        assert floating_operations(hr.reshape(x, [-1]).op) is None
        assert tensor_bytes([x]) is None
        assert tensor_bytes([hr.constant("text")]) is None


@pytest.mark.parametrize(("dtype", "size"), [(hr.float32, 4), (hr.float64, 8), (hr.bool, 1)])
def test_bytes_are_elements_times_their_size(dtype: hr.DType, size: int) -> None:
    with hr.Graph().as_default():
        variable = hr.Variable(np.zeros(3, np.float32))
        tensors = [hr.placeholder(dtype, [2, 3]), hr.placeholder(dtype, [])]
        assert tensor_bytes([*tensors, variable.handle]) == 7 * size


def test_sums_of_several_and_updates_of_variables() -> None:
    assert _flops(lambda: hr.add_n([hr.zeros([3, 5])] * 4)) == 3 * 15
    with hr.Graph().as_default() as graph:
        variable = hr.Variable(np.zeros((2, 3), np.float32))
        variable.assign_add(hr.ones([2, 3]))
        variable.assign(hr.ones([2, 3]))
    ops = {op.type: op for op in graph.operations}
    add, put = ops["AssignAddVariableOp"], ops["AssignVariableOp"]
    assert (floating_operations(add), variable_bytes_read(add), variable_bytes_written(add)) == (6, 24, 24)
    assert (floating_operations(put), variable_bytes_read(put), variable_bytes_written(put)) == (None, 0, 24)
