"""Gradients of scaled images."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr


@pytest.mark.parametrize("kernel", ["lanczos3", "triangle", "box"])
def test_A70_the_gradient_is_the_transpose_of_the_weights(kernel: str) -> None:
    rng = np.random.default_rng(3)
    x, g = rng.normal(size=(2, 5, 6, 2)).astype(np.float32), rng.normal(size=(2, 3, 7, 2)).astype(np.float32)
    with hr.Graph().as_default() as graph:
        images, gradient = hr.placeholder(hr.float32, x.shape), hr.placeholder(hr.float32, g.shape)
        scale, move = np.array([0.6, 1.2], np.float32), np.array([0.5, -1], np.float32)
        scaled = hr.apply_op("ScaleAndTranslate", images, np.array([3, 7], np.int32), scale, move, kernel_type=kernel)
        back: Any = hr.gradients(scaled, [images], grad_ys=[gradient])[0]
        again: Any = hr.gradients(back, [gradient], grad_ys=[images])[0]
    with hr.Session(graph) as session:
        forward, backward, twice = session.run([scaled, back, again], feeds={images: x, gradient: g})
    # it is linear: <S x, g> = <x, S' g> for any x and g, and its second derivative is S itself
    np.testing.assert_allclose((forward * g).sum(), (backward * x).sum(), rtol=1e-4)
    np.testing.assert_array_equal(twice, forward)
