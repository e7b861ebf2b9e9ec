"""The CTC loss: its gradient, which has no gradient of its own, and the functions around it."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.errors import GradientError
from headrace.testing import check_gradient
from headrace.testing.reference import numbers

FRAMES = numbers("float64", 5, 2, 4, low=-1, high=1)


def labels():
    return hr.SparseTensor([[0, 0], [0, 1], [1, 0]], np.array([2, 2, 0], np.int32), [2, 2])


@pytest.mark.parametrize("options", [{}, {"merge_repeated": False}, {"collapse_labels": True}])
def test_gradient_of_the_loss_agrees_with_central_differences(options):
    check_gradient(lambda xs: [hr.nn.ctc_loss(labels(), xs[0], [5, 3], **options)], [FRAMES], second_order=False)


def test_second_derivative_is_refused():
    with hr.Graph().as_default():
        x = hr.constant(FRAMES)
        (first,) = hr.gradients(hr.nn.ctc_loss(labels(), x, [5, 3]), [x])
        with pytest.raises(GradientError, match="CTCLoss has no second derivative"):
            hr.gradients(first, [x])


def test_training_on_the_loss_makes_the_decoder_spell_the_labels():
    with hr.Graph().as_default() as graph:
        frames = hr.Variable(np.zeros((6, 1, 3), np.float32))
        wanted = hr.SparseTensor([[0, 0], [0, 1], [0, 2]], [1, 1, 0], [1, 3])
        loss = hr.sum(hr.nn.ctc_loss(wanted, frames.read(), [6]))
        step = hr.optim.SGD(1.0).minimize(loss)
        decoded, _ = hr.nn.ctc_greedy_decoder(frames.read(), [6])
        distance = hr.nn.edit_distance(decoded, hr.SparseTensor(wanted.indices, np.array([1, 1, 0]), wanted.shape))
    with hr.Session(graph) as session:
        assert session.run(distance) == pytest.approx([2 / 3])  # all frames say 0
        for _ in range(200):
            session.run(step)
        assert session.run(decoded.values).tolist() == [1, 1, 0]
        assert session.run(distance) == [0.0]
