"""Gradients of images seen through projective transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr

TRANSFORMS = np.array(
    [[0.875, 0.125, 0.5, -0.25, 1.125, -0.75, 0.03125, -0.0625], [1, 0, -2.3, 0, 1, 1.4, 0, 0]], np.float32
)
MODES = [(way, mode) for way in ("NEAREST", "BILINEAR") for mode in ("CONSTANT", "REFLECT", "WRAP", "NEAREST")]


def _seen(images: hr.Tensor, interpolation: str, mode: str) -> hr.Tensor:
    seen: hr.Tensor = hr.apply_op(
        "ImageProjectiveTransformV3",
        images,
        TRANSFORMS,
        np.array([4, 5], np.int32),
        np.float32(0),
        interpolation=interpolation,
        fill_mode=mode,
    )
    return seen


@pytest.mark.parametrize(("interpolation", "mode"), MODES)
def test_A70_the_gradient_is_the_transpose_of_what_the_transform_reads(interpolation: str, mode: str) -> None:
    rng = np.random.default_rng(7)
    x, g = rng.normal(size=(2, 3, 4, 2)), rng.normal(size=(2, 4, 5, 2))
    with hr.Graph().as_default() as graph:
        images, gradient = hr.placeholder(hr.float64, x.shape), hr.placeholder(hr.float64, g.shape)
        seen = _seen(images, interpolation, mode)
        back: Any = hr.gradients(seen, [images], grad_ys=[gradient])[0]
        again: Any = hr.gradients(back, [gradient], grad_ys=[images])[0]
    with hr.Session(graph) as session:
        forward, backward, twice = session.run([seen, back, again], feeds={images: x, gradient: g})
    # the transform is linear: <T x, g> = <x, T' g> for any x and g, and its second derivative is T itself
    np.testing.assert_allclose((forward * g).sum(), (backward * x).sum(), rtol=1e-6)
    np.testing.assert_array_equal(twice, forward)


def test_transforms_get_no_gradient() -> None:
    with hr.Graph().as_default():
        transforms = hr.constant(TRANSFORMS)
        seen = hr.apply_op(
            "ImageProjectiveTransformV2",
            np.ones((2, 3, 4, 1), np.float32),
            transforms,
            np.array([4, 5], np.int32),
            interpolation="BILINEAR",
        )
        assert hr.gradients(seen, [transforms]) == [None]
