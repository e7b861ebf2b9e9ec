"""Gradients of the image operations that take or give float32 only, and the user functions' errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr

_WAYS: tuple[dict[str, Any], ...] = ({}, {"align_corners": True}, {"half_pixel_centers": True})


@pytest.mark.parametrize("op", ["ResizeBilinear", "ResizeBicubic"])
@pytest.mark.parametrize("attrs", _WAYS, ids=str)
@pytest.mark.parametrize("size", [(7, 4), (2, 3), (1, 1)])
def test_gradient_of_resizing_is_its_transpose(op: str, attrs: dict[str, Any], size: tuple[int, int]) -> None:
    """<resize(x), g> = <x, gradient(g)> for all x and g; and the gradient of the gradient is resizing again."""
    rng = np.random.default_rng(2)
    images, grads = rng.normal(size=(2, 3, 5, 2)), rng.normal(size=(2, *size, 2)).astype(np.float32)
    other = rng.normal(size=images.shape)
    with hr.Graph().as_default() as graph:
        x, g = hr.constant(images), hr.constant(grads)
        resized = hr.apply_op(op, x, np.array(size, np.int32), **attrs)
        (back,) = hr.gradients([resized], [x], [g])
        (again,) = hr.gradients([back], [g], [other])
        expected = hr.apply_op(op, hr.constant(other), np.array(size, np.int32), **attrs)
    forth, found, forth_again, resized_other = hr.Session(graph).run([resized, back, again, expected])
    assert found.dtype == np.float64
    np.testing.assert_allclose((forth * grads).sum(), (images * found).sum(), rtol=1e-5)
    np.testing.assert_allclose(forth_again, resized_other, rtol=1e-5, atol=1e-5)


def test_integer_images_have_no_gradient() -> None:
    with hr.Graph().as_default():
        x = hr.constant(np.ones((1, 2, 2, 1), np.int32))
        assert hr.gradients(hr.sum(hr.image.resize(x, [3, 3])), [x]) == [None]


@pytest.mark.parametrize("size", [[3, 2], [1, 1]], ids=str)
@pytest.mark.parametrize("method", ["bilinear", "nearest"])
def test_gradient_of_crops(size: list[int], method: str) -> None:
    """By central differences in float32: the pixels are small integers, so that they can be large enough."""
    rng = np.random.default_rng(1)
    image = rng.integers(-8, 8, (2, 4, 5, 2)).astype(np.float32)
    boxes = np.array([[0.11, 0.2, 0.87, 0.77], [0.8, 0.1, 0.33, 0.7], [-0.5, 0.1, 0.6, 0.7]], np.float32)
    weights = rng.integers(-4, 4, (3, *size, 2)).astype(np.float32)
    with hr.Graph().as_default() as graph:
        x, b = hr.placeholder(hr.float32, image.shape), hr.placeholder(hr.float32, boxes.shape)
        total = hr.sum(
            hr.image.crop_and_resize(x, b, [0, 1, 1], size, method=method, extrapolation_value=3.0) * weights
        )
        dx, db = hr.gradients(total, [x, b])
    session = hr.Session(graph)
    run = session.make_callable(total, [x, b])
    found_x = session.run(dx, feeds={x: image, b: boxes})
    for place in [(0, 1, 2, 0), (1, 2, 2, 1), (1, 0, 0, 0), (0, 3, 4, 1)]:
        step = np.zeros_like(image)
        step[place] = 0.5
        np.testing.assert_allclose(found_x[place], run(image + step, boxes) - run(image - step, boxes), atol=2e-4)
    if method == "nearest":
        assert db is None
        return
    found_b = session.run(db, feeds={x: image, b: boxes})
    for place in np.ndindex(*boxes.shape):
        step = np.zeros_like(boxes)
        step[place] = 2e-3
        slope = (float(run(image, boxes + step)) - float(run(image, boxes - step))) / 4e-3
        np.testing.assert_allclose(found_b[place], slope, atol=0.05)


def test_gradient_of_contrast() -> None:
    images = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    weights = np.array([[[1, 2], [0, 1], [3, 1]], [[1, 1], [2, 5], [0, 1]]], np.float32)
    with hr.Graph().as_default() as graph:
        x, factor = hr.constant(images), hr.constant(1.5)
        total = hr.sum(hr.image.adjust_contrast(x, factor) * weights)
        dx, dfactor = hr.gradients(total, [x, factor])
    found = hr.Session(graph).run([dx, dfactor])
    np.testing.assert_allclose(found[0], 1.5 * weights - 0.5 * weights.mean((0, 1)), rtol=1e-5)
    np.testing.assert_allclose(found[1], (weights * (images - images.mean((0, 1)))).sum(), rtol=1e-5)


@pytest.mark.parametrize("method", ["nearest", "bilinear", "bicubic"])
def test_sizes_and_images_are_checked_where_they_are_known_only_in_the_step(method: str) -> None:
    with hr.Graph().as_default() as graph:
        x, size = hr.placeholder(hr.float32, None), hr.placeholder(hr.int32, None)
        y = hr.image.resize(x, size, method=method)
    session = hr.Session(graph)
    assert session.run(y, feeds={x: np.ones((1, 2, 2, 1)), size: [3, 4]}).shape == (1, 3, 4, 1)
    with pytest.raises(hr.errors.InvalidArgumentError, match="rows and columns"):
        session.run(y, feeds={x: np.ones((1, 2, 2, 1)), size: [0, 4]})
    with pytest.raises(hr.errors.ShapeError, match="nothing to sample"):
        session.run(y, feeds={x: np.ones((1, 0, 2, 1)), size: [3, 4]})
    with pytest.raises(hr.errors.ShapeError, match="too many elements"):
        session.run(y, feeds={x: np.ones((1, 1, 1, 1)), size: [2**31 - 1, 2**31 - 1]})


def test_unknown_method_is_refused() -> None:
    with hr.Graph().as_default(), pytest.raises(hr.errors.InvalidArgumentError, match="method is not known"):
        hr.image.resize(np.ones((1, 1, 1, 1), np.float32), [1, 1], method="lanczos")


def test_suppression_takes_every_box_by_default() -> None:
    boxes = np.array([[0, 0, 1, 1], [2, 2, 3, 3]], np.float32)
    with hr.Graph().as_default() as graph:
        kept = hr.image.non_max_suppression(boxes, np.array([-5, -3], np.float32), 9)
    assert hr.Session(graph).run(kept).tolist() == [1, 0]
