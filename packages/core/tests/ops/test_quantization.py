"""Quantisation: gradients pass rounding over, and training moves the ends of the range."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.graph.proto.tensor_pb2 import TensorProto
from headrace.graph.tensor_proto import decode_tensor


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


def test_gradient_of_each_channel_goes_to_its_own_range() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.constant([[-3.0, 0.5], [0.2, 9.0], [0.6, 1.0]])
        low, high = hr.constant([-1.0, 0.0]), hr.constant([1.0, 2.0])
        weights = np.array([[1, 2], [4, 8], [16, 32]], np.float32)
        y = hr.quantization.fake_quant(x, low, high)
        found = hr.gradients(hr.sum(y * weights), [x, low, high])
    assert y.op.type == "FakeQuantWithMinMaxVarsPerChannel"
    dx, dlow, dhigh = hr.Session(graph).run(found)
    assert dx.tolist() == [[0, 2], [4, 0], [16, 32]]
    assert (dlow.tolist(), dhigh.tolist()) == ([1, 0], [0, 8])


@pytest.mark.parametrize("dtype", ["quint8", "qint8", "quint16", "qint16", "qint32"])
@pytest.mark.parametrize("mode", ["MIN_COMBINED", "MIN_FIRST", "SCALED"])
def test_numbers_come_back_within_a_step(dtype: str, mode: str) -> None:
    values = np.linspace(-1.5, 2.5, 40, dtype=np.float32)
    with hr.Graph().as_default() as graph:
        low, high = (0.0, 2.5) if mode == "SCALED" and dtype.startswith("qu") else (-1.5, 2.5)
        quantized = hr.quantization.quantize(values, low, high, dtype, mode=mode)
        back = hr.quantization.dequantize(*quantized, mode=mode)
    step = (high - low) / 250 if dtype.endswith("8") else (high - low) / 60000
    np.testing.assert_allclose(hr.Session(graph).run(back), np.clip(values, low, high), atol=step)


def test_quantized_values_are_fed_fetched_and_kept_in_graph_files() -> None:
    values = np.array([0, 7, 255], np.uint8).view(hr.quint8.array_type)
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.quint8, [3], name="x")
        hr.identity(x, name="same")
        hr.constant(values, name="kept")
        hr.constant(values[:1].repeat(100), name="repeated")
    read = hr.from_graph_def(hr.to_graph_def(graph))
    found = hr.Session(read).run(["same:0", "kept:0", "repeated:0"], feeds={"x:0": values})
    assert [item.dtype for item in found] == [hr.quint8.array_type] * 3
    assert found[0].tobytes() == found[1].tobytes() == values.tobytes()
    assert found[2].tobytes() == bytes(100)


def test_quantized_constants_of_other_programs_are_read() -> None:
    """They may list integers one by one; the last stands for all that follow."""
    proto = TensorProto(dtype=12, int_val=[3, 200])
    proto.tensor_shape.dim.add().size = 4
    assert decode_tensor(proto).view(np.uint8).tolist() == [3, 200, 200, 200]
    proto.int_val[:] = [256]
    with pytest.raises(hr.errors.DataLossError, match="values that fit quint8"):
        decode_tensor(proto)


def test_a_quantized_layer_agrees_with_the_floating_one() -> None:
    numbers = np.random.default_rng(0)
    x, w = numbers.uniform(-1, 2, (4, 8)).astype(np.float32), numbers.uniform(-1, 1, (8, 3)).astype(np.float32)
    with hr.Graph().as_default() as graph:
        a, b = hr.quantization.quantize(x, -1.0, 2.0), hr.quantization.quantize(w, -1.0, 1.0)
        product = hr.apply_op("QuantizedMatMul", a[0], b[0], *a[1:], *b[1:])
        narrow = hr.apply_op("Requantize", *product, *hr.apply_op("RequantizationRange", *product), out_type="quint8")
        y = hr.quantization.dequantize(*hr.apply_op("QuantizedRelu", *narrow), mode="MIN_FIRST")
    np.testing.assert_allclose(hr.Session(graph).run(y), np.maximum(x @ w, 0), atol=0.08)


def test_ranges_per_channel_need_channels() -> None:
    with (
        hr.Graph().as_default(),
        pytest.raises(hr.errors.ShapeError, match=r"there is no axis of channels(.|\n)*rank >= 1"),
    ):
        hr.apply_op("FakeQuantWithMinMaxVarsPerChannel", hr.zeros([]), hr.zeros([1]), hr.ones([1]))
