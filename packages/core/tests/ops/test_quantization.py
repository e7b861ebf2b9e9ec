"""Quantisation: gradients pass rounding over, and training moves the ends of the range."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr


def test_gradient_goes_to_the_input_or_to_the_end_that_it_is_beyond() -> None:
    with hr.Graph().as_default() as graph:
        x, low, high = hr.constant([-3.0, -0.5, 0.2, 5.0, 9.0]), hr.constant(-1.0), hr.constant(1.0)
        weights = np.array([1, 10, 100, 1000, 10000], np.float32)
        found = hr.gradients(hr.sum(hr.quantization.fake_quant(x, low, high) * weights), [x, low, high])
        fixed = hr.apply_op("FakeQuantWithMinMaxArgs", x, min=-1.0, max=1.0)
        (fixed_gradient,) = hr.gradients(hr.sum(fixed * weights), [x])
    dx, dlow, dhigh, other = hr.Session(graph).run([*found, fixed_gradient])
    assert dx.tolist() == other.tolist() == [0, 10, 100, 0, 0]
    assert (dlow, dhigh) == (1, 11000)


def test_rounding_to_multiples_is_passed_over() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.constant([0.1, 0.26, 7.0])
        y = hr.quantization.quantize_and_dequantize(x, -1.0, 1.0, num_bits=3)
        (g,) = hr.gradients(hr.sum(y * [1.0, 2.0, 3.0]), [x])
    value, gradient = hr.Session(graph).run([y, g])
    np.testing.assert_allclose(value, [0, 1 / 3, 1], rtol=1e-6)
    assert gradient.tolist() == [1, 2, 3]


def test_training_finds_the_range() -> None:
    values = np.linspace(-2, 2, 50, dtype=np.float32)
    with hr.Graph().as_default() as graph:
        low, high = hr.Variable(-0.5), hr.Variable(0.5)
        loss = hr.mean(hr.square(hr.quantization.fake_quant(values, low, high) - values))
        train = hr.optim.SGD(0.5).minimize(loss)
    session = hr.Session(graph)
    for _ in range(100):
        session.run(train)
    ends = session.run([low, high])
    np.testing.assert_allclose(ends, [-2, 2], atol=0.1)


def test_half_of_a_range_is_refused() -> None:
    with hr.Graph().as_default(), pytest.raises(hr.errors.InvalidArgumentError, match="half of a range"):
        hr.quantization.quantize_and_dequantize([1.0], 0.0)


def test_bounds_and_bits_are_checked_where_they_are_known_only_in_the_step() -> None:
    with hr.Graph().as_default() as graph:
        low = hr.placeholder(hr.float32, None)
        faked = hr.quantization.fake_quant([1.0], low, 1.0)
        rounded = hr.quantization.quantize_and_dequantize([1.0], low, np.float32(1))
    session = hr.Session(graph)
    with pytest.raises(hr.errors.ShapeError, match="min must be a scalar"):
        session.run(faked, feeds={low: [0.0]})
    with pytest.raises(hr.errors.ShapeError, match="does not fit the input"):
        session.run(rounded, feeds={low: [0.0]})
    with pytest.raises(hr.errors.InvalidArgumentError, match="range is empty"):
        session.run(rounded, feeds={low: 2.0})
