"""hr.to_int8: what is quantised, with which numbers, what stays, what the report says, and how wrong uses end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.passes.cost import arithmetic

Array = Any
RNG = np.random.default_rng(7)


def normal(*shape: int, scale: float = 1.0) -> Array:
    return (scale * np.random.default_rng(sum(shape)).standard_normal(shape)).astype(np.float32)


def quantized(build: Callable[[hr.Tensor], Any], values: Array, **options: Any) -> tuple[hr.Int8Model, Array, Array]:
    """The model in int8, and its output beside that in float, on the calibration data."""
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, *values.shape[1:]], name="x")
        y = build(x)
    with hr.Session(graph) as session:
        model = hr.to_int8(session, y, [{x: values[:5]}, {x: values[5:]}], **options)
        exact = session.run(y, feeds={x: values})
    found = hr.Session(model.graph).run(model.outputs, feeds={model.inputs[x]: values})
    return model, found, exact


def types(model: hr.Int8Model) -> list[str]:
    return [op.type for op in model.graph.operations if op.type not in ("Const", "Placeholder")]


def layer(x: hr.Tensor, *shape: int, bias: bool = True) -> hr.Tensor:
    product = x @ hr.Variable(normal(*shape, scale=0.3))
    return product + hr.Variable(normal(shape[-1])) if bias else product


def test_a_layer_is_a_product_of_bytes_with_its_bias_in_the_sum() -> None:
    model, found, exact = quantized(lambda x: hr.nn.relu(layer(x, 20, 6)), normal(12, 20))
    assert types(model) == [
        "UniformQuantize",
        "UniformQuantizedDot",
        "UniformQuantizedAdd",
        "UniformDequantize",
        "Relu",
    ]
    np.testing.assert_allclose(found, exact, atol=0.02 * exact.max())
    assert not any(op.type == "VarHandleOp" for op in model.graph.operations)
    assert model.inputs.keys() != model.inputs.values()
    assert [tensor.name for tensor in model.inputs.values()] == ["x:0"]
    assert model.outputs.name == "Relu:0"


def test_the_numbers_of_a_layer_are_those_of_the_formula() -> None:
    """Weights by the largest of each column, the input by its lowest and highest number, the bias by both."""
    weights, bias = normal(4, 3), np.array([1.0, -2.0, 0.25], np.float32)
    values = np.linspace(-1, 3, 40, dtype=np.float32).reshape(10, 4)
    model, found, _ = quantized(lambda x: x @ hr.Variable(weights) + hr.Variable(bias), values)
    (product,) = model.report.products
    assert product.type == "MatMul"
    assert 4 / 255 <= product.scale < 4 / 255 * (1 + 2**-11)
    assert product.zero_point == round(-128 + 1 / product.scale)
    assert product.low <= -1 + product.scale
    assert product.high >= 3 - product.scale
    s, w = np.float64(product.scale), np.array(product.weight_scales)
    largest = np.abs(weights).max(axis=0) / 127
    assert (w >= largest).all()
    assert (w < largest * (1 + 2**-11)).all()
    q = np.clip(np.floor(values / s + 0.5) + product.zero_point, -128, 127) - product.zero_point
    sums = q @ np.rint(weights / w) + np.rint(bias / (s * w))
    np.testing.assert_allclose(found, sums * s * w, rtol=1e-6)


def test_layers_in_a_row_and_products_that_share_an_input() -> None:
    def build(x: hr.Tensor) -> hr.Tensor:
        h = hr.nn.relu(layer(x, 16, 16))
        return hr.concat([layer(h, 16, 5), layer(h, 16, 7, bias=False)], axis=1)

    model, found, exact = quantized(build, normal(30, 16))
    assert types(model).count("UniformQuantize") == 2  # of x and of h
    assert len(model.report.products) == 3
    np.testing.assert_allclose(found, exact, atol=0.03 * np.abs(exact).max())


@pytest.mark.parametrize(
    "options", [{}, {"padding": "VALID", "strides": 2}, {"padding": [(0, 2), (1, 1)], "dilations": 2}]
)
def test_convolutions_pad_with_zeros(options: dict[str, Any]) -> None:
    """Images far from 0, so that a border of another number would be seen."""
    filters = normal(3, 3, 3, 4)
    values = normal(6, 9, 8, 3, scale=0.2) + 2
    model, found, exact = quantized(
        lambda x: hr.nn.conv2d(x, hr.Variable(filters), **{"padding": "SAME", **options}) + hr.Variable(normal(4)),
        values,
    )
    assert "UniformQuantizedConvolution" in types(model)
    np.testing.assert_allclose(found, exact, atol=0.02 * np.abs(exact).max())


def test_products_of_bytes_count_what_they_sum_over() -> None:
    def build(x: hr.Tensor) -> hr.Tensor:
        y = hr.nn.conv2d(x, hr.Variable(normal(3, 2, 4, 5)), padding="VALID")
        return layer(hr.reshape(y, [-1, 30]), 30, 7)

    model, _, _ = quantized(build, normal(6, 4, 4, 4))
    work = {op.type: arithmetic(op) for op in model.graph.operations}
    assert work["UniformQuantizedConvolution"] == 2 * (2 * 3 * 5) * (3 * 2 * 4)
    assert work["UniformQuantizedDot"] == 2 * 7 * 30


def test_long_convolutions_have_their_zero_in_the_middle_so_that_sums_stay_exact() -> None:
    filters = np.where(RNG.uniform(size=(3, 3, 64, 2)) < 0.5, 1, -1).astype(np.float32)
    model, found, exact = quantized(lambda x: hr.nn.conv2d(x, hr.Variable(filters)), normal(6, 5, 5, 64) + 2)
    assert model.report.products[0].zero_point == 0
    np.testing.assert_allclose(found, exact, atol=0.02 * np.abs(exact).max())


@pytest.mark.parametrize(
    ("taps", "padding"), [(1, "SAME"), (3, "VALID"), (3, [(0, 0), (0, 0)])], ids=["pixels", "valid", "explicit"]
)
def test_where_no_padding_is_seen_the_zero_point_goes_into_the_bias(taps: int, padding: Any) -> None:
    depth = 600 // taps**2
    filters = np.where(RNG.uniform(size=(taps, taps, depth, 2)) < 0.5, 1, -1).astype(np.float32)
    model, found, exact = quantized(
        lambda x: hr.nn.conv2d(x, hr.Variable(filters), padding=padding), normal(6, 5, 5, depth) + 2
    )
    assert model.report.products[0].zero_point != 0
    assert "UniformQuantizedAdd" in types(model)
    np.testing.assert_allclose(found, exact, atol=0.02 * np.abs(exact).max())


def test_batch_norm_goes_into_the_convolution_before_it() -> None:
    statistics = [RNG.uniform(0.5, 1.5, 4).astype(np.float32) for _ in range(4)]

    def build(x: hr.Tensor) -> hr.Tensor:
        y, *_ = hr.nn.batch_norm(
            hr.nn.conv2d(x, hr.Variable(normal(3, 3, 3, 4))), *map(hr.Variable, statistics), training=False
        )
        return hr.nn.relu(y)

    model, found, exact = quantized(build, normal(8, 6, 6, 3))
    assert types(model) == [
        "UniformQuantize", "UniformQuantizedConvolution", "UniformQuantizedAdd", "UniformDequantize", "Relu",
    ]  # fmt: skip
    np.testing.assert_allclose(found, exact, atol=0.02 * np.abs(exact).max())


def test_the_report_names_what_stays_in_float_and_why() -> None:
    def build(x: hr.Tensor) -> Any:
        wide = layer(x, 6, 8)
        gathered = hr.matmul(wide, wide, transpose_b=True)
        stacked = hr.matmul(hr.reshape(wide, [-1, 2, 4]), hr.reshape(wide, [-1, 4, 2]))
        turned = hr.matmul(wide, hr.Variable(normal(10, 3)), transpose_a=True)
        return {"a": gathered, "b": stacked, "c": turned, "d": hr.argmax(wide, axis=1)}

    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 6])
        outputs = build(x)
    values = normal(10, 6)
    model = hr.to_int8(hr.Session(graph), outputs, [{x: values}])
    reasons = {item.type: item.reason for item in model.report.left}
    assert reasons["BatchMatMulV2"] == "only MatMul and Conv2D have int8 forms"
    found = sorted(item.reason for item in model.report.left if item.type == "MatMul")
    assert found == ["it transposes its input", "its weights are not constant"]
    assert set(model.outputs) == {"a", "b", "c", "d"}
    assert [error.name for error in model.report.errors] == [outputs[key].name for key in "abc"]
    text = model.report.text()
    assert text.startswith("int8: 1 products, weights 192 -> 48 bytes\n  MatMul 'MatMul': input [")
    assert "float: 3 products and" in text
    assert "its weights are not constant" in text
    assert "error on the calibration batches:\n  'MatMul_1:0': at most 0." in text


def test_the_errors_are_those_of_the_calibration_batches() -> None:
    values = normal(9, 12)
    model, found, exact = quantized(lambda x: layer(x, 12, 5), values)
    (error,) = model.report.errors
    difference = found.astype(np.float64) - exact
    np.testing.assert_allclose(error.largest, np.abs(difference).max(), rtol=1e-6)
    np.testing.assert_allclose(
        error.relative, np.sqrt((difference**2).sum() / (exact.astype(float) ** 2).sum()), rtol=1e-6
    )
    assert 0 < error.relative < 0.02


def test_percentiles_leave_far_numbers_out() -> None:
    values = np.clip(normal(400, 32), -4, 4)
    values[7, 3] = 1000
    build: Callable[[hr.Tensor], hr.Tensor] = lambda x: layer(x, 32, 8)  # noqa: E731  # used twice
    wide, coarse, exact = quantized(build, values)
    narrow, fine, _ = quantized(build, values, method="percentile")
    assert wide.report.products[0].high > 990
    assert 2 < narrow.report.products[0].high < 5
    others = np.arange(400) != 7
    errors = [np.abs(found - exact)[others].max() for found in (coarse, fine)]
    assert errors[1] < errors[0] / 20
    everything, same, _ = quantized(build, values, method="percentile", percentile=100)
    assert everything.report.products == wide.report.products
    np.testing.assert_array_equal(same, coarse)


@pytest.mark.parametrize(
    "values", [np.zeros((10, 4), np.float32), np.full((10, 4), 3, np.float32), -np.ones((10, 4), np.float32)]
)
def test_inputs_of_one_number_have_a_range(values: Array) -> None:
    _, found, exact = quantized(lambda x: layer(x, 4, 3), values)
    np.testing.assert_allclose(found, exact, atol=0.02)


def test_channels_without_weights_and_tiny_weights() -> None:
    weights = normal(4, 3)
    weights[:, 1] = 0
    weights[:, 2] *= 1e-30
    _, found, exact = quantized(lambda x: x @ hr.Variable(weights), normal(10, 4))
    assert (found[:, 1] == 0).all()
    np.testing.assert_allclose(found, exact, atol=0.02 * np.abs(exact).max())


def test_numbers_that_scales_do_not_hold_stay_in_float() -> None:
    """The scale of the sums would be infinite although the sums are not."""
    values, weights = np.zeros((10, 4), np.float32), np.ones((4, 2), np.float32)
    values[:, 0], weights[1] = 1e22, 1e22
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 4])
        large, small = x @ hr.Variable(weights), layer(x * 1e-22, 4, 3)
    session = hr.Session(graph)
    model = hr.to_int8(session, [large, small], [{x: values}])
    assert [item.reason for item in model.report.left] == ["its numbers are too large for scales in float32"]
    assert len(model.report.products) == 1
    with pytest.raises(hr.errors.GraphError, match=r"nothing to quantise(.|\n)*too large for scales"):
        hr.to_int8(session, large, [{x: values}])


def test_sums_that_int32_does_not_hold_stay_in_float() -> None:
    values, weights = np.ones((2, 70_000), np.float32), np.ones((70_000, 1), np.float32)
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 70_000])
        outputs = [x @ hr.Variable(weights), layer(x[:, :4], 4, 3)]
    model = hr.to_int8(hr.Session(graph), outputs, [{x: values}])
    assert [item.reason for item in model.report.left] == ["its sums are too long for int32"]


def test_a_bias_that_int32_does_not_hold_is_added_in_float() -> None:
    bias = np.array([1e9, 1, 0], np.float32)
    model, found, exact = quantized(
        lambda x: x @ hr.Variable(normal(4, 3, scale=1e-3)) + hr.Variable(bias), normal(10, 4)
    )
    assert "AddV2" in types(model)
    np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-4)


def test_embeddings_and_pooling_stay_and_the_model_needs_no_variables() -> None:
    table = normal(50, 8)
    with hr.Graph().as_default() as graph:
        ids = hr.placeholder(hr.int32, [None, 3])
        rows = hr.nn.embedding_lookup(hr.Variable(table), ids)
        y = layer(hr.mean(rows, axis=1), 8, 4)
    given = RNG.integers(0, 50, (20, 3)).astype(np.int32)
    session = hr.Session(graph)
    model = hr.to_int8(session, [y], [{ids: given}])
    (found,) = hr.Session(model.graph).run(model.outputs, feeds={"Placeholder:0": given})
    exact = session.run(y, feeds={ids: given})
    np.testing.assert_allclose(found, exact, atol=0.02 * np.abs(exact).max())


def test_the_session_and_its_graph_stay_as_they_are() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 4])
        y = layer(x, 4, 3)
    session, count = hr.Session(graph), len(graph.operations)
    before = session.run(y, feeds={x: np.ones((1, 4))})
    hr.to_int8(session, y, [{x: np.ones((2, 4))}])
    assert len(graph.operations) == count
    np.testing.assert_array_equal(session.run(y, feeds={x: np.ones((1, 4))}), before)


def test_a_graph_file_holds_the_weights_as_bytes_and_gives_the_same_numbers() -> None:
    values = normal(12, 64)
    model, found, _ = quantized(lambda x: hr.nn.relu(layer(x, 64, 256)), values)
    written = hr.to_graph_def(model.graph).SerializeToString()
    assert 64 * 256 < len(written) < 2 * 64 * 256
    read = hr.from_graph_def(written)
    again = hr.Session(read).run(model.outputs.name, feeds={"x:0": values})
    np.testing.assert_array_equal(again, found)


def placed() -> tuple[hr.Session, hr.Tensor, hr.Tensor]:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 4], name="x")
        y = layer(x, 4, 3)
    return hr.Session(graph), x, y


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([], "there is no calibration data"),
        ([{"x:0": np.full((2, 4), np.nan)}], "numbers that are not finite"),
        ([{"x:0": np.ones((2, 4))}, {"x:0": np.full((2, 4), np.inf)}], "8 of 8 are NaN or infinite"),
        ([{"x:0": np.ones((0, 4))}], "gives 'x:0' no numbers"),
        ([{"x:0": np.ones((2, 4))}, {}], "calibration batches feed different tensors"),
    ],
)
def test_wrong_batches_are_refused(batches: Any, message: str) -> None:
    session, _, y = placed()
    with pytest.raises(hr.errors.InvalidArgumentError, match=message):
        hr.to_int8(session, y, batches)


def test_a_placeholder_that_is_not_fed_is_named() -> None:
    session, _, y = placed()
    with pytest.raises(hr.errors.FeedError, match="placeholder 'x' needs a value"):
        hr.to_int8(session, y, [{}])


def test_wrong_options_and_outputs_are_refused() -> None:
    session, x, y = placed()
    batches = [{x: np.ones((2, 4))}]
    method: Any = "entropy"
    with pytest.raises(hr.errors.InvalidArgumentError, match="no such way to find ranges"):
        hr.to_int8(session, y, batches, method=method)
    for percentile in (50, 100.1, float("nan")):
        with pytest.raises(hr.errors.InvalidArgumentError, match="more than half of the numbers"):
            hr.to_int8(session, y, batches, percentile=percentile)
    for outputs in (y.op, []):
        with pytest.raises(hr.errors.InvalidArgumentError, match="a model gives tensors"):
            hr.to_int8(session, outputs, batches)


def test_a_model_without_products_is_refused_with_the_reasons() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [4, 4])
        plain, square = hr.nn.relu(x), x @ x
    session, batches = hr.Session(graph), [{x: np.ones((4, 4))}]
    with pytest.raises(hr.errors.GraphError, match=r"nothing to quantise(.|\n)*no products at all"):
        hr.to_int8(session, plain, batches)
    with pytest.raises(hr.errors.GraphError, match=r"nothing to quantise(.|\n)*its weights are not constant"):
        hr.to_int8(session, square, batches)


def test_models_that_change_variables_are_refused() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 4])
        count = hr.Variable(np.float32(0))
        with hr.control_dependencies([count.assign_add(1.0)]):
            y = layer(x, 4, 3) + count
    with pytest.raises(hr.errors.GraphError, match="does something else than read a variable"):
        hr.to_int8(hr.Session(graph), y, [{x: np.ones((2, 4))}])


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (
            lambda x: hr.astype(hr.astype(x, hr.float64) @ hr.Variable(np.ones((4, 2))), hr.float32),
            "it computes in float64",
        ),
        (lambda x: x @ hr.Variable(np.full((4, 2), np.nan, np.float32)), "its weights are not all finite numbers"),
        (lambda x: x @ hr.Variable(np.ones((4, 0), np.float32)), "it has no weights"),
    ],
)
def test_reasons(build: Callable[[hr.Tensor], hr.Tensor], reason: str) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 4])
        outputs = [build(x), layer(x, 4, 3)]
    model = hr.to_int8(hr.Session(graph), outputs, [{x: np.ones((2, 4))}])
    assert [item.reason for item in model.report.left] == [reason]


@pytest.mark.parametrize(
    ("shape", "filters", "options", "reason"),
    [
        ([None, 3, 6, 6], (3, 3, 3, 4), {"data_format": "NCHW"}, "its channels come first"),
        ([None, 6, 6, 4], (3, 3, 2, 4), {}, "its channels are grouped, or their number is not known"),
    ],
)
def test_reasons_of_convolutions(shape: Any, filters: Any, options: Any, reason: str) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, shape)
        y = hr.apply_op("Conv2D", x, normal(*filters), strides=[1, 1, 1, 1], padding="SAME", **options)
        flat = layer(hr.reshape(y, [-1, 36 * 4]), 36 * 4, 2)
    model = hr.to_int8(hr.Session(graph), flat, [{x: normal(2, *shape[1:])}])
    assert [item.reason for item in model.report.left] == [reason]
