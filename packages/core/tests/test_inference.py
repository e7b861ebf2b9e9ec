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
DIFFERENT_AXES = "it does not sum over the last axes of its input"


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


def convolved(x: Array, filters: Array, stride: int, groups: int) -> Array:
    """The sums of a convolution padded as SAME, one by one."""
    taps, _, depth, count = filters.shape
    sizes = [-(-size // stride) for size in x.shape[1:3]]
    needed = [max((n - 1) * stride + taps - size, 0) for n, size in zip(sizes, x.shape[1:3], strict=True)]
    x = np.pad(x, ((0, 0), *((n // 2, n - n // 2) for n in needed), (0, 0)))
    y = np.zeros((len(x), *sizes, count))
    for i, j, f in np.ndindex(y.shape[1:]):
        first = f * groups // count * depth
        window = x[:, i * stride : i * stride + taps, j * stride : j * stride + taps, first : first + depth]
        y[:, i, j, f] = (window * filters[..., f]).sum(axis=(1, 2, 3))
    return y


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("groups", "multiplier"), [(2, 0), (4, 0), (8, 1), (8, 3)])
def test_groups_and_depthwise_convolutions_are_the_formula(groups: int, multiplier: int, stride: int) -> None:
    """Integers summed in float64, padded with the zero point, a scale for each filter: images are far from 0."""
    filters = normal(3, 3, 8, multiplier) if multiplier else normal(3, 3, 8 // groups, 12)
    filters = filters * np.arange(1, filters.shape[-1] + 1, dtype=np.float32)
    plain = filters.reshape(3, 3, -1, (8 * multiplier) or 12)
    bias = normal(plain.shape[-1])
    values = normal(7, 6, 9, 8, scale=0.2) + 2

    def build(x: hr.Tensor) -> hr.Tensor:
        convolution = hr.nn.depthwise_conv2d if multiplier else hr.nn.conv2d
        return convolution(x, hr.Variable(filters), strides=stride, padding="SAME") + hr.Variable(bias)

    model, found, exact = quantized(build, values)
    (product,) = model.report.products
    assert product.type == ("DepthwiseConv2dNative" if multiplier else "Conv2D")
    assert product.zero_point != 0
    assert len(product.weight_scales) == len(bias)
    assert types(model)[:4] == [
        "UniformQuantize", "UniformQuantizedConvolution", "UniformQuantizedAdd", "UniformDequantize",
    ]  # fmt: skip
    s, w = np.float64(product.scale), np.array(product.weight_scales)
    q = np.clip(np.floor(values / s + 0.5) + product.zero_point, -128, 127) - product.zero_point
    sums = convolved(q, np.rint(plain / w), stride, groups) + np.rint(bias / (s * w))
    np.testing.assert_allclose(found, sums * s * w, rtol=1e-6)
    np.testing.assert_allclose(found, exact, atol=0.02 * np.abs(exact).max())


def test_blocks_of_depthwise_and_pointwise_convolutions_are_in_int8_as_a_whole() -> None:
    """As in MobileNet: each with batch norm and relu6, which leave nothing behind but the limit of the numbers."""

    def normed(y: hr.Tensor) -> hr.Tensor:
        numbers = np.random.default_rng(y.shape[3]).uniform(0.5, 1.5, (4, y.shape[3])).astype(np.float32)
        return hr.nn.relu6(hr.nn.batch_norm(y, *map(hr.Variable, numbers), training=False)[0])

    def build(x: hr.Tensor) -> hr.Tensor:
        y = normed(hr.nn.conv2d(x, hr.Variable(normal(3, 3, 3, 8, scale=0.3)), strides=2))
        for inputs, outputs, multiplier in ((8, 16, 1), (16, 12, 2)):
            filters = hr.Variable(normal(3, 3, inputs, multiplier, scale=0.3))
            y = normed(hr.nn.depthwise_conv2d(y, filters, padding="SAME"))
            y = normed(hr.nn.conv2d(y, hr.Variable(normal(1, 1, inputs * multiplier, outputs, scale=0.3))))
        return layer(hr.mean(y, axis=[1, 2]), 12, 5)

    model, found, exact = quantized(build, normal(12, 16, 16, 3))
    assert not model.report.left
    assert [item.type for item in model.report.products] == [
        "Conv2D", *["DepthwiseConv2dNative", "Conv2D"] * 2, "MatMul",
    ]  # fmt: skip
    one = ["UniformQuantize", "UniformQuantizedConvolution", "UniformQuantizedAdd", "UniformDequantize", "Relu6"]
    assert types(model)[:25] == one * 5
    assert model.report.errors[0].relative < 0.03
    np.testing.assert_allclose(found, exact, atol=0.04 * np.abs(exact).max())


@pytest.mark.parametrize(
    ("equation", "shape", "weights", "bias"),
    [
        ("...k,kn->...n", (5, 6), (6, 4), (4,)),
        ("btd,dhk->bthk", (5, 6), (6, 2, 4), (2, 4)),
        ("bthk,hkd->btd", (3, 2, 4), (2, 4, 5), (5,)),
        ("bthk,dkh->btd", (3, 4, 2), (5, 2, 4), (5,)),
        ("abk,k->ab", (3, 5), (5,), None),
        ("ij,jk->ik", (6,), (6, 4), (4,)),
    ],
)
def test_einstein_sums_with_a_matrix_are_products_of_rows(
    equation: str, shape: tuple[int, ...], weights: tuple[int, ...], bias: tuple[int, ...] | None
) -> None:
    values, w = normal(12, *shape) + 1, normal(*weights)

    def build(x: hr.Tensor) -> hr.Tensor:
        y = hr.einsum(equation, x, hr.Variable(w))
        return y if bias is None else y + hr.Variable(normal(*bias))

    model, found, exact = quantized(build, values)
    (product,) = model.report.products
    given, second, labels = equation.replace("->", ",").split(",")
    columns = "".join(label for label in labels if label not in given)
    s, scales = np.float64(product.scale), np.array(product.weight_scales).reshape(bias or ())
    steps = np.einsum(f"{second},{columns}->{second}", np.ones(weights), scales)  # the scale of each weight
    q = np.clip(np.floor(values / s + 0.5) + product.zero_point, -128, 127) - product.zero_point
    sums = np.einsum(equation, q, np.rint(w / steps))
    sums += 0 if bias is None else np.rint(normal(*bias) / (s * scales))
    np.testing.assert_allclose(found, sums * s * scales, rtol=1e-6)
    np.testing.assert_allclose(found, exact, atol=0.03 * np.abs(exact).max())


def test_a_sum_over_all_axes_is_a_product_of_one_row() -> None:
    values, w = normal(5, 6), normal(5, 6, 3)
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, values.shape)
        y = hr.einsum("ab,abk->k", x, hr.Variable(w))
    model = hr.to_int8(hr.Session(graph), y, [{x: values}])
    found = hr.Session(model.graph).run(model.outputs, feeds={model.inputs[x]: values})
    exact = np.einsum("ab,abk->k", values, w)
    np.testing.assert_allclose(found, exact, atol=0.03 * np.abs(exact).max())


@pytest.mark.parametrize(("turn", "lead"), [(False, ()), (True, ()), (False, (1,)), (True, (1, 1))])
def test_stacks_times_one_matrix_are_products_of_rows(turn: bool, lead: tuple[int, ...]) -> None:
    """The integers of a stack of rows, whose sizes no one knows before the step, in the shape of the result."""
    w, values = normal(*lead, *((4, 6) if turn else (6, 4))), normal(10, 3, 2, 6)

    def build(x: hr.Tensor) -> hr.Tensor:
        return hr.nn.relu(hr.matmul(x, hr.Variable(w), transpose_b=turn) + hr.Variable(normal(4)))

    model, found, exact = quantized(build, values)
    (product,) = model.report.products
    assert product.type == "BatchMatMulV2"
    assert types(model) == [
        "UniformQuantize", "Reshape", "UniformQuantizedDot", "Reshape", "UniformQuantizedAdd", "UniformDequantize",
        "Relu",
    ]  # fmt: skip
    np.testing.assert_allclose(found, exact, atol=0.02 * np.abs(exact).max())
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, None, None, 6])
        y = build(x)
    open_model = hr.to_int8(hr.Session(graph), y, [{x: values}])
    run = hr.Session(open_model.graph).make_callable(open_model.outputs, [open_model.inputs[x]])
    np.testing.assert_array_equal(run(values), found)
    np.testing.assert_array_equal(run(values[:2, :1]), found[:2, :1])


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
    assert reasons["BatchMatMulV2"] == "its weights are not constant"
    found = sorted(item.reason for item in model.report.left if item.type == "MatMul")
    assert found == ["it does not sum over the last axes of its input", "its weights are not constant"]
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


def test_entropy_leaves_far_numbers_out_where_that_costs_less_than_it_gains() -> None:
    """One number of a million is 100: what it loses is less than what all others gain, in the product of all."""
    values = normal(20_000, 64)
    values[7, 3] = 100
    build: Callable[[hr.Tensor], hr.Tensor] = lambda x: layer(x, 64, 8, bias=False)  # noqa: E731  # used twice
    wide, coarse, exact = quantized(build, values)
    narrow, fine, _ = quantized(build, values, method="entropy")
    assert wide.report.products[0].high > 99
    assert np.abs(values[values < 50]).max() < narrow.report.products[0].high < 100 / 8
    squares = [np.square(found.astype(np.float64) - exact) for found in (coarse, fine)]
    assert squares[1].mean() < 0.6 * squares[0].mean()
    others = np.arange(20_000) != 7
    assert squares[1][others].mean() < squares[0][others].mean() / 25


def test_entropy_keeps_all_numbers_where_they_are_spread_evenly() -> None:
    values = np.random.default_rng(3).uniform(-2, 2, (1000, 16)).astype(np.float32)
    build: Callable[[hr.Tensor], hr.Tensor] = lambda x: layer(x, 16, 4)  # noqa: E731  # used twice
    wide, plain, _ = quantized(build, values)
    narrow, found, _ = quantized(build, values, method="entropy")
    assert narrow.report.products == wide.report.products
    np.testing.assert_array_equal(found, plain)


@pytest.mark.parametrize("method", ["minmax", "percentile", "entropy"])
@pytest.mark.parametrize(
    "values", [np.zeros((10, 4), np.float32), np.full((10, 4), 3, np.float32), -np.ones((10, 4), np.float32)]
)
def test_inputs_of_one_number_have_a_range(values: Array, method: Any) -> None:
    _, found, exact = quantized(lambda x: layer(x, 4, 3), values, method=method)
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
    methods: Any = ("minmax", "entropy")
    for method in methods:
        with pytest.raises(hr.errors.InvalidArgumentError, match=message):
            hr.to_int8(session, y, batches, method=method)


def test_a_placeholder_that_is_not_fed_is_named() -> None:
    session, _, y = placed()
    with pytest.raises(hr.errors.FeedError, match="placeholder 'x' needs a value"):
        hr.to_int8(session, y, [{}])


def test_wrong_options_and_outputs_are_refused() -> None:
    session, x, y = placed()
    batches = [{x: np.ones((2, 4))}]
    method: Any = "middle"
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
        (
            lambda x: hr.reshape(x, [2, 1, 4]) @ hr.Variable(normal(2, 4, 3)),
            "it has a matrix for each part of its input",
        ),
        (lambda x: x @ hr.Variable(normal(1, 4, 3)), "it has a matrix for each part of its input"),
        (lambda x: hr.einsum("ij,ik->jk", x, hr.Variable(normal(2, 3))), DIFFERENT_AXES),
        (lambda x: hr.einsum("ij,jk->ki", x, hr.Variable(normal(4, 3))), DIFFERENT_AXES),
        (lambda x: hr.einsum("ij,kl->ijkl", x, hr.Variable(normal(4, 3))), DIFFERENT_AXES),
        (lambda x: hr.einsum("ij,j...->i...", x, hr.Variable(normal(4, 3))), "its weights are not used as a matrix"),
        (lambda x: hr.einsum("ij,jkl->ik", x, hr.Variable(normal(4, 3, 2))), "its weights are not used as a matrix"),
        (lambda x: hr.einsum("ij,jj->i", x, hr.Variable(normal(4, 4))), "its weights are not used as a matrix"),
        (lambda x: hr.apply_op("Einsum", [x], equation="ij->i"), "it has not two factors"),
    ],
)
def test_reasons(build: Callable[[hr.Tensor], hr.Tensor], reason: str) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 4])
        outputs = [build(x), layer(x, 4, 3)]
    model = hr.to_int8(hr.Session(graph), outputs, [{x: np.ones((2, 4))}])
    assert [item.reason for item in model.report.left] == [reason]


def test_products_of_unknown_rank_and_of_volumes_stay() -> None:
    with hr.Graph().as_default() as graph:
        x, any_rank = hr.placeholder(hr.float32, [None, 4]), hr.placeholder(hr.float32)
        volumes = hr.apply_op(
            "Conv3D", hr.reshape(x, [-1, 1, 1, 1, 4]), normal(1, 1, 1, 4, 2), strides=[1] * 5, padding="SAME"
        )
        outputs = [hr.apply_op("BatchMatMulV2", any_rank, normal(4, 2)), volumes, layer(x, 4, 3)]
    model = hr.to_int8(hr.Session(graph), outputs, [{x: np.ones((2, 4)), any_rank: np.ones((2, 2, 4))}])
    reasons = {item.type: item.reason for item in model.report.left}
    assert reasons == {
        "BatchMatMulV2": "the rank of its result is not known",
        "Conv3D": "convolutions of volumes have no int8 form",
    }


@pytest.mark.parametrize(
    ("shape", "filters", "options", "reason"),
    [
        ([None, 3, 6, 6], (3, 3, 3, 4), {"data_format": "NCHW"}, "its channels come first"),
        ([None, 6, 6, None], (3, 3, 4, 4), {}, "the number of its channels is not known"),
    ],
)
def test_reasons_of_convolutions(shape: Any, filters: Any, options: Any, reason: str) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, shape)
        y = hr.apply_op("Conv2D", x, normal(*filters), strides=[1, 1, 1, 1], padding="SAME", **options)
        flat = layer(hr.reshape(y, [-1, 36 * 4]), 36 * 4, 2)
    model = hr.to_int8(hr.Session(graph), flat, [{x: normal(2, *(size or 4 for size in shape[1:]))}])
    assert [item.reason for item in model.report.left] == [reason]
