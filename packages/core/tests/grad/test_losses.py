"""Derivatives of the losses and activations in closed form."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr


def _hessian(build, point):
    """Second derivatives of a scalar function of a vector."""
    graph = hr.Graph()
    with graph.as_default():
        x = hr.constant(np.asarray(point, np.float64))
        (slope,) = hr.gradients(build(x), [x])
        rows = [hr.gradients(slope, [x], grad_ys=[row])[0] for row in np.eye(len(point))]
    return np.array(hr.Session(graph).run(rows))


@pytest.mark.parametrize("sparse", [True, False])
def test_g09_hessian_of_cross_entropy(sparse) -> None:
    def loss(x):
        logits = hr.reshape(x, [1, 2])
        if sparse:
            return hr.nn.sparse_softmax_cross_entropy(labels=[0], logits=logits)
        return hr.nn.softmax_cross_entropy(labels=[[1.0, 0.0]], logits=logits)

    np.testing.assert_allclose(_hessian(loss, [0, 0]), [[0.25, -0.25], [-0.25, 0.25]], rtol=1e-13)


def test_g09_second_derivative_of_elu() -> None:
    np.testing.assert_allclose(_hessian(lambda x: 2.0 * hr.nn.elu(-x), [1]), [[0.7357588823428847]], rtol=1e-13)


def test_a_gradient_that_nobody_needs_adds_no_softmax() -> None:
    graph = hr.Graph()
    with graph.as_default():
        logits = hr.placeholder(hr.float32, [None, 3])
        hr.gradients(hr.nn.sparse_softmax_cross_entropy(labels=[0], logits=logits), [logits])
    assert "Softmax" not in [op.type for op in graph.operations]
