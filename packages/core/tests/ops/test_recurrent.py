"""Recurrent cells: the gradients of those that run over time."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.errors import GradientError
from headrace.testing import check_gradient
from headrace.testing.reference import numbers

TIME, BATCH, FEATURES, CELLS = 3, 2, 2, 2
SHAPES = [
    (TIME, BATCH, FEATURES),
    (BATCH, CELLS),
    (BATCH, CELLS),
    (FEATURES + CELLS, 4 * CELLS),
    (CELLS,),
    (CELLS,),
    (CELLS,),
    (4 * CELLS,),
]
POINTS = [numbers("float64", *shape, low=-0.7, high=0.7, seed=seed) for seed, shape in enumerate(SHAPES)]


@pytest.mark.parametrize("op", ["BlockLSTM", "BlockLSTMV2"])
@pytest.mark.parametrize(("length", "peephole"), [(3, False), (3, True), (2, False)])
def test_gradient_over_time_agrees_with_central_differences(op, length, peephole):
    def build(xs):
        outputs = hr.apply_op(op, np.int64(length), *xs, use_peephole=peephole)
        return [outputs[1], outputs[6]]

    check_gradient(build, POINTS, second_order=False)


@pytest.mark.parametrize("op", ["BlockLSTM", "BlockLSTMV2"])
def test_gradient_of_a_gate_over_time_is_refused_with_the_way_out(op):
    with hr.Graph().as_default():
        inputs = [hr.constant(point) for point in POINTS]
        gate = hr.apply_op(op, np.int64(TIME), *inputs)[0]
        with pytest.raises(GradientError, match="output 'i'.*\n.*\n.*\n.*\n.*LSTMBlockCell"):
            hr.gradients(gate, inputs)


def test_a_block_of_one_step_is_the_cell():
    x, cs, h, *weights = POINTS
    with hr.Graph().as_default() as graph:
        block = hr.apply_op("BlockLSTM", np.int64(1), x[:1], cs, h, *weights, use_peephole=True)
        cell = hr.apply_op("LSTMBlockCell", x[0], cs, h, *weights, use_peephole=True)
    whole, one = hr.Session(graph).run([list(block), list(cell)])
    for left, right in zip(whole, one, strict=True):
        np.testing.assert_array_equal(left[0], right)
