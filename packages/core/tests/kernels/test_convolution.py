"""Convolutions and pooling on random windows: the gradients are the transposes, and blocks of images change nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.kernels import convolution as kernels

_SIZE, _TAPS, _SMALL = st.integers(1, 7), st.integers(1, 4), st.integers(1, 3)


@st.composite
def _convolutions(draw) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """Shapes of images and filters, and the options of a convolution."""
    groups, depth, outputs = draw(_SMALL), draw(_SMALL), draw(_SMALL)
    data_format = draw(st.sampled_from(["NHWC", "NCHW"]))
    pads = st.tuples(st.integers(0, 3), st.integers(0, 3))
    options = {
        "strides": [draw(_SMALL), draw(_SMALL)],
        "dilations": [draw(_SMALL), draw(_SMALL)],
        "padding": draw(st.one_of(st.just("SAME"), st.just("VALID"), st.tuples(pads, pads))),
        "data_format": data_format,
    }
    batch, rows, columns, channels = draw(_SMALL), draw(_SIZE), draw(_SIZE), groups * depth
    images = (batch, rows, columns, channels) if data_format == "NHWC" else (batch, channels, rows, columns)
    return images, (draw(_TAPS), draw(_TAPS), depth, groups * outputs), options


def _numbers(shape, seed: int):
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(np.float64)


def _transposes(build, *values):
    """A function linear in each of its inputs, a gradient, and the gradients by the inputs, as values."""
    graph = hr.Graph()
    with graph.as_default():
        inputs = [hr.placeholder(hr.float64, value.shape) for value in values]
        y = build(*inputs)
        g = hr.constant(_numbers(y.shape.as_tuple(), 3))
        slopes = hr.gradients(y, inputs, grad_ys=[g])
    return hr.Session(graph).run([y, g, slopes], feeds=dict(zip(inputs, values, strict=True)))


@settings(max_examples=60, deadline=None)
@given(_convolutions(), st.booleans())
def test_gradients_are_transposes(convolution, depthwise) -> None:
    images, filters, options = convolution
    if depthwise:
        channels = images[3] if options["data_format"] == "NHWC" else images[1]
        filters = (*filters[:2], channels, filters[3])
    function = hr.nn.depthwise_conv2d if depthwise else hr.nn.conv2d
    x, w = _numbers(images, 1), _numbers(filters, 2)
    try:
        y, g, (dx, dw) = _transposes(lambda x, w: function(x, w, **options), x, w)
    except hr.errors.ShapeError:  # the window does not fit into the image
        reject()
    assert (y * g).sum() == (x * dx).sum() == (w * dw).sum()  # of whole numbers, so exact


@settings(max_examples=30, deadline=None)
@given(_SMALL, _SIZE, _SIZE, _TAPS, _TAPS, _SMALL, st.sampled_from(["SAME", "VALID"]))
def test_average_pooling_gradient_is_the_transpose(batch, rows, columns, height, width, stride, padding) -> None:
    x = _numbers((batch, rows, columns, 2), 1)
    try:
        y, g, (dx,) = _transposes(lambda x: hr.nn.avg_pool2d(x, [height, width], stride, padding), x)
    except hr.errors.ShapeError:  # the window does not fit into the image
        reject()
    np.testing.assert_allclose((x * dx).sum(), (y * g).sum(), rtol=1e-12, atol=1e-12)


def test_both_data_formats_give_the_same() -> None:
    x, w = _numbers((2, 6, 5, 4), 1), _numbers((3, 2, 2, 6), 2)
    options = {"strides": [2, 1], "padding": [[1, 0], [2, 1]]}
    last = _transposes(lambda x, w: hr.nn.conv2d(x, w, **options), x, w)[0]
    first = _transposes(lambda x, w: hr.nn.conv2d(x, w, data_format="NCHW", **options), x.transpose(0, 3, 1, 2), w)[0]
    assert first.transpose(0, 2, 3, 1).tolist() == last.tolist()


@pytest.mark.parametrize("patch_bytes", [1, 3000])
def test_images_may_come_in_blocks(monkeypatch, patch_bytes) -> None:
    x, w = _numbers((5, 4, 4, 2), 1), _numbers((3, 3, 2, 3), 2)
    whole = _transposes(hr.nn.conv2d, x, w)
    monkeypatch.setattr(kernels, "PATCH_BYTES", patch_bytes)
    for blocks, expected in zip(_transposes(hr.nn.conv2d, x, w)[2], whole[2], strict=True):
        assert blocks.tolist() == expected.tolist()
    assert _transposes(hr.nn.conv2d, x, w)[0].tolist() == whole[0].tolist()
