"""Batch norm by given statistics: what it becomes, when it stays, and that results are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import headrace as hr

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 5, 5, 3), np.float32)
K = RNG.standard_normal((3, 3, 3, 4), np.float32)
STATISTICS = [RNG.uniform(0.5, 1.5, 4).astype(np.float32) for _ in range(4)]


def normed(y: Any, values: Any = STATISTICS, **options: Any) -> Any:
    return hr.nn.batch_norm(y, *values, training=False, **options)


def types_and_result(build: Callable[[hr.Tensor], Any]) -> list[str]:
    """The types of the operations that run; the result is that of the graph without passes."""
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, X.shape)
        result = build(x)
    session = hr.Session(graph, config=hr.config(verify=True))
    plain = hr.Session(graph, config=hr.config(passes=())).run(result, feeds={x: X})
    np.testing.assert_allclose(session.run(result, feeds={x: X}), plain, rtol=2e-5, atol=2e-5)
    operations = session.optimized_graph(result, {x: X}).operations
    return sorted(op.type for op in operations if op.type not in ("_Arg", "_Retval", "Const", "ReadVariableOp"))


def test_after_a_constant_convolution_only_a_sum_is_left() -> None:
    assert types_and_result(lambda x: normed(hr.nn.conv2d(x, K))[0]) == ["AddV2", "Conv2D"]


def test_after_a_depthwise_convolution_only_a_sum_is_left() -> None:
    values = [RNG.uniform(0.5, 1.5, 6).astype(np.float32) for _ in range(4)]
    filters = RNG.standard_normal((3, 3, 3, 2), np.float32)
    found = types_and_result(lambda x: normed(hr.nn.depthwise_conv2d(x, filters, padding="SAME"), values)[0])
    assert found == ["AddV2", "DepthwiseConv2dNative"]


def test_a_convolution_with_channels_elsewhere_keeps_its_filters() -> None:
    """Its last axis, which batch norm scales, is one of pixels."""
    filters, values = RNG.standard_normal((1, 1, 5, 3), np.float32), [item[:3] for item in STATISTICS]
    found = types_and_result(lambda x: normed(hr.nn.conv2d(x, filters, data_format="NCHW"), values)[0])
    assert found == ["AddV2", "Conv2D", "Mul"]


def test_elsewhere_a_product_and_a_sum_are_left() -> None:
    assert types_and_result(lambda x: normed(hr.concat([x, x[..., :1]], axis=3))[0]).count("Mul") == 1


def test_a_convolution_that_is_read_elsewhere_keeps_its_filters() -> None:
    def build(x: hr.Tensor) -> Any:
        y = hr.nn.conv2d(x, K)
        return normed(y)[0] + y

    assert types_and_result(build) == ["AddV2", "AddV2", "Conv2D", "Mul"]


def test_variables_make_factors_in_the_step_and_filters_stay() -> None:
    def build(x: hr.Tensor) -> Any:
        values = [hr.Variable(value).value for value in STATISTICS]
        return normed(hr.nn.conv2d(x, K), values)[0]

    found = types_and_result(build)
    assert "FusedBatchNormV3" not in found
    assert found.count("Conv2D") == 1


def test_where_statistics_are_wanted_it_stays() -> None:
    def build(x: hr.Tensor) -> Any:
        y, mean, _ = normed(hr.nn.conv2d(x, K))
        return y + mean

    assert "FusedBatchNormV3" in types_and_result(build)


def test_channels_first_and_training_stay() -> None:
    def first(x: hr.Tensor) -> Any:
        return normed(hr.permute_dims(hr.nn.conv2d(x, K), (0, 3, 1, 2)), data_format="NCHW")[0]

    assert "FusedBatchNormV3" in types_and_result(first)
    trained = types_and_result(lambda x: hr.nn.batch_norm(hr.nn.conv2d(x, K), *STATISTICS)[0])
    assert "FusedBatchNormV3" in trained


def test_its_gradient_needs_the_statistics_so_it_stays_in_training() -> None:
    def build(x: hr.Tensor) -> Any:
        return hr.gradients(hr.sum(hr.square(normed(hr.nn.conv2d(x, K))[0])), [x])[0]

    assert "FusedBatchNormV3" in types_and_result(build)
