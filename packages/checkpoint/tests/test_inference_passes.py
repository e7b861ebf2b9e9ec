"""Products by constants move into the weights before them, and results agree to rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.passes import optimize, prune
from headrace_checkpoint.inference_passes import LEVELS, drop_waits, fold_scales

RNG = np.random.default_rng(3)


def weights(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def images(*shape: int | None) -> hr.Tensor:
    return hr.placeholder(hr.float32, list(shape), name="x")


def attrs(data_format: str = "NHWC") -> dict[str, Any]:
    return {"strides": [1, 1, 1, 1], "padding": "VALID", "data_format": data_format}


def conv(x: Any, data_format: str = "NHWC") -> Any:
    return hr.apply_op("Conv2D", x, weights(3, 3, 3, 4), **attrs(data_format))


def depthwise(x: Any) -> Any:
    return hr.apply_op("DepthwiseConv2dNative", x, weights(3, 3, 3, 2), **attrs())


def norm(x: Any, channels: int, data_format: str = "NHWC", training: bool = False) -> Any:
    statistics = [weights(channels), weights(channels), weights(channels), np.abs(weights(channels)) + 0.5]
    return hr.apply_op("FusedBatchNormV3", x, *statistics, data_format=data_format, is_training=training, epsilon=1e-3)[
        0
    ]


def bias(x: Any, channels: int, data_format: str = "NHWC") -> Any:
    return hr.apply_op("BiasAdd", x, weights(channels), data_format=data_format)


IMAGES, FIRST = (None, 6, 6, 3), (None, 3, 6, 6)
FOLDED: dict[str, tuple[tuple[int | None, ...], Callable[[Any], Any], list[str]]] = {
    "batch norm after a convolution": (IMAGES, lambda x: norm(conv(x), 4), ["Conv2D", "AddV2"]),
    "batch norm after a bias": (IMAGES, lambda x: norm(bias(conv(x), 4), 4), ["Conv2D", "AddV2"]),
    "two batch norms": (IMAGES, lambda x: norm(norm(conv(x), 4), 4), ["Conv2D", "AddV2"]),
    "channels first": (FIRST, lambda x: norm(bias(conv(x, "NCHW"), 4, "NCHW"), 4, "NCHW"), ["Conv2D", "AddV2"]),
    "depthwise": (IMAGES, lambda x: norm(depthwise(x), 6), ["DepthwiseConv2dNative", "AddV2"]),
    "matrix product": ((None, 3), lambda x: (x @ weights(3, 5) + weights(5)) * weights(5), ["MatMul", "AddV2"]),
    "turned matrix": (
        (None, 3),
        lambda x: hr.apply_op("MatMul", x, weights(5, 3), transpose_b=True) * weights(1, 5),
        ["MatMul"],
    ),
    "a scalar factor": (IMAGES, lambda x: 3.0 * conv(x), ["Conv2D"]),
    "differences": (IMAGES, lambda x: (conv(x) - weights(4)) * weights(4) - 1.0, ["Conv2D", "AddV2"]),
}
KEPT: dict[str, tuple[tuple[int | None, ...], Callable[[Any], Any], list[str]]] = {
    "in training": (IMAGES, lambda x: norm(conv(x), 4, training=True), ["Conv2D", "FusedBatchNormV3"]),
    "a nonlinearity between": (IMAGES, lambda x: hr.nn.relu(conv(x)) * weights(4), ["Conv2D", "Relu", "Mul"]),
    "a factor for each pixel": (IMAGES, lambda x: conv(x) * weights(4, 4, 1), ["Conv2D", "Mul"]),
    "a factor of higher rank": (IMAGES, lambda x: conv(x) * weights(1, 1, 1, 1, 4), ["Conv2D", "Mul"]),
    "an overflow": (IMAGES, lambda x: (conv(x) * np.float32(1e38)) * np.float32(1e38), ["Conv2D", "Mul"]),
    "integers": (
        (None, 3),
        lambda x: hr.astype(x, hr.int32) @ np.ones((3, 2), np.int32) * 3,
        ["Cast", "MatMul", "Mul"],
    ),
    "constants that would grow": ((None, 3), lambda x: (x + weights(7, 1)) + weights(1, 3), ["AddV2", "AddV2"]),
}


def passed(shape: Any, build: Callable[[Any], Any], level: str = "extended") -> tuple[list[str], Any, Any, Any]:
    graph = hr.Graph()
    with graph.as_default():
        x = images(*shape)
        y = hr.identity(build(x))
    bounded = optimize(prune(graph, [y], [], [x]), hr.config(passes=LEVELS[level], verify=True))
    types = [op.type for op in bounded.operations if op.type not in ("Const", "_Arg", "_Retval")]
    value = RNG.standard_normal([5 if size is None else size for size in shape]).astype(np.float32)
    return types, graph, (x, y), value


@pytest.mark.parametrize("case", FOLDED)
def test_scales_are_folded(case: str) -> None:
    shape, build, expected = FOLDED[case]
    types, graph, (x, y), value = passed(shape, build)
    assert types == expected
    with hr.Session(graph) as plain, hr.Session(graph, config=hr.config(passes=LEVELS["extended"])) as folded:
        wanted = plain.run(y, feeds={x: value})
        np.testing.assert_allclose(folded.run(y, feeds={x: value}), wanted, rtol=2e-5, atol=2e-5)
    assert passed(shape, build, "basic")[0] != expected


@pytest.mark.parametrize("case", KEPT)
def test_what_is_no_scale_stays(case: str) -> None:
    shape, build, expected = KEPT[case]
    assert passed(shape, build)[0] == expected


def test_weights_whose_product_is_read_otherwise_too_stay() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = images(*IMAGES)
        y = conv(x)
        both = [y * weights(4), hr.nn.relu(y)]
    bounded = optimize(prune(graph, both, [], [x]), hr.config(passes=LEVELS["extended"]))
    assert sorted(op.type for op in bounded.operations if op.type in ("Conv2D", "Mul")) == ["Conv2D", "Mul"]


def test_statistics_that_are_fed_stay() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x, mean = images(*IMAGES), hr.placeholder(hr.float32, [4])
        y = hr.apply_op(
            "FusedBatchNormV3", conv(x), weights(4), weights(4), mean, np.ones(4, np.float32), is_training=False
        )[0]
    bounded = optimize(prune(graph, [y], [], [x, mean]), hr.config(passes=LEVELS["all"]))
    assert "FusedBatchNormV3" in {op.type for op in bounded.operations}


def test_a_graph_without_scales_stays_the_same_object() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = images(None, 3)
        y = hr.tanh(x)
    bounded = prune(graph, [y], [], [x])
    assert fold_scales(bounded) is bounded


def test_nothing_waits_for_what_has_no_effect() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = images(None)
        with hr.control_dependencies([hr.group([hr.tanh(x)])]):
            y = hr.identity(x, name="y")
        with hr.control_dependencies([hr.print(x)]):
            z = hr.identity(x, name="z")
    bounded = drop_waits(prune(graph, [y, z], [], [x]))
    controls = {op.name: len(op.control_inputs) for op in bounded.operations}
    assert (controls["y"], controls["z"]) == (0, 1)
    assert "Tanh" not in {op.type for op in bounded.operations}


def test_waiting_stays_where_values_may_be_dead() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x, p = images(None), hr.placeholder(hr.bool, [])
        off, on = hr.apply_op("Switch", x, p)
        with hr.control_dependencies([hr.identity(on).op]):
            alive = hr.constant(1.0)
        y = hr.apply_op("Merge", [off, alive])[0]
    bounded = prune(graph, [y], [], [x, p])
    assert drop_waits(bounded) is bounded
