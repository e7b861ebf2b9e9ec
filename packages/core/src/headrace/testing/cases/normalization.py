"""Cases of normalisation. What must come out is computed channel by channel in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.types import Array, bfloat16


def _f32(values: Any) -> Array:
    return np.array(values, np.float32)


_BFLOAT16 = bfloat16.array_type
_RNG = np.random.default_rng(7)


def _uniform(*shape: int) -> Array:
    return _RNG.uniform(-2, 2, shape).astype(np.float32)


_IMAGES = _uniform(3, 2, 2, 3)
_SCALE, _OFFSET = _f32([1.5, -0.5, 2.0]), _f32([0.25, 1.0, -1.0])
_MEAN, _VARIANCE = _f32([0.5, -0.25, 0.0]), _f32([1.5, 0.75, 2.0])
_NONE = np.zeros(0, np.float32)


def _axis(data_format: str) -> int:
    return 1 if data_format.startswith("NC") else len(data_format) - 1


def _batch_norm(
    epsilon: float = 1e-4, factor: float = 1.0, training: bool = True, data_format: str = "NHWC"
) -> Callable[..., tuple[Array, ...]]:
    """FusedBatchNormV3 by definition, one channel after the other."""
    epsilon, factor = float(np.float32(epsilon)), float(np.float32(factor))

    def reference(x: Array, scale: Array, offset: Array, mean: Array, variance: Array) -> tuple[Array, ...]:
        last = np.moveaxis(np.asarray(x, np.float64), _axis(data_format), -1)
        y, channels = np.zeros(last.shape), last.shape[-1]
        new_mean, new_variance, used_mean, used_variance = np.zeros((4, channels))
        for c in range(channels):
            values = last[..., c]
            used_mean[c] = values.mean() if training else mean[c]
            used_variance[c] = values.var() if training else variance[c]
            y[..., c] = (values - used_mean[c]) / np.sqrt(used_variance[c] + epsilon) * scale[c] + offset[c]
            new_mean[c], new_variance[c] = used_mean[c], used_variance[c]
            if training:
                new_variance[c] *= values.size / max(values.size - 1, 1)
            if training and factor != 1:
                new_mean[c] = (1 - factor) * mean[c] + factor * new_mean[c]
                new_variance[c] = (1 - factor) * variance[c] + factor * new_variance[c]
        images = np.moveaxis(y, -1, _axis(data_format))
        return images, new_mean, new_variance, used_mean, used_variance, np.zeros(0)

    return reference


def _batch_norm_grad(
    epsilon: float = 1e-4, training: bool = True, data_format: str = "NHWC"
) -> Callable[..., tuple[Array, ...]]:
    """FusedBatchNormGradV3 by definition, one channel after the other."""
    epsilon = float(np.float32(epsilon))

    def reference(g: Array, x: Array, scale: Array, mean: Array, variance: Array, _: Array) -> tuple[Array, ...]:
        gradient, last = (np.moveaxis(np.asarray(item, np.float64), _axis(data_format), -1) for item in (g, x))
        dx, channels = np.zeros(last.shape), last.shape[-1]
        dscale, doffset = np.zeros((2, channels))
        for c in range(channels):
            values, arrived, root = last[..., c], gradient[..., c], np.sqrt(float(variance[c]) + epsilon)
            normal = (values - mean[c]) / root
            dscale[c], doffset[c] = (arrived * normal).sum(), arrived.sum()
            own = arrived.copy()
            if training and values.size:
                own -= (doffset[c] + normal * dscale[c]) / values.size
            dx[..., c] = own * scale[c] / root
        return np.moveaxis(dx, -1, _axis(data_format)), dscale, doffset, np.zeros(()), np.zeros(())

    return reference


def _forward(label: str, inputs: list[Any], attrs: dict[str, Any] | None = None, **options: Any) -> OpCase:
    given = attrs or {}
    expected = _batch_norm(
        given.get("epsilon", 1e-4),
        given.get("exponential_avg_factor", 1.0),
        given.get("is_training", True),
        given.get("data_format", "NHWC"),
    )
    return OpCase(f"FusedBatchNormV3/{label}", "FusedBatchNormV3", inputs, given, **{"expected": expected, **options})


def _backward(label: str, inputs: list[Any], attrs: dict[str, Any] | None = None, **options: Any) -> OpCase:
    given = attrs or {}
    expected = _batch_norm_grad(
        given.get("epsilon", 1e-4), given.get("is_training", True), given.get("data_format", "NHWC")
    )
    # The last input is not used: it has no gradient.
    settings = {"expected": expected, "differentiate": (0, 1, 2, 3, 4), **options}
    return OpCase(f"FusedBatchNormGradV3/{label}", "FusedBatchNormGradV3", inputs, given, **settings)


def _lrn(
    radius: int = 5, bias: float = 1.0, alpha: float = 1.0, beta: float = 0.5
) -> tuple[Callable[[Array], Array], Callable[..., Array]]:
    """LRN by definition and its gradient, one channel after the other."""
    bias, alpha, beta = (float(np.float32(value)) for value in (bias, alpha, beta))

    def near(channels: int, c: int) -> range:
        return range(max(0, c - radius), min(channels, c + radius + 1))

    def base(x: Array, c: int) -> Array:
        return np.asarray(bias + alpha * sum(x[..., d] ** 2 for d in near(x.shape[-1], c)))

    def forward(images: Array) -> Array:
        x = np.asarray(images, np.float64)
        y = np.zeros(x.shape)
        for c in range(x.shape[-1]):
            y[..., c] = x[..., c] / base(x, c) ** beta
        return y

    def backward(gradient: Array, images: Array, outputs: Array) -> Array:
        g, x, y = (np.asarray(item, np.float64) for item in (gradient, images, outputs))
        dx = np.zeros(x.shape)
        for c in range(x.shape[-1]):
            dx[..., c] += g[..., c] * base(x, c) ** -beta
            for d in near(x.shape[-1], c):
                dx[..., d] -= 2 * alpha * beta * x[..., d] * g[..., c] * y[..., c] / base(x, c)
        return dx

    return forward, backward


def _lrn_cases(label: str, images: Array, **attrs: Any) -> list[OpCase]:
    forward, backward = _lrn(
        attrs.get("depth_radius", 5), attrs.get("bias", 1.0), attrs.get("alpha", 1.0), attrs.get("beta", 0.5)
    )
    outputs = np.asarray(forward(images), images.dtype)
    gradient = np.asarray(np.linspace(-1, 1, images.size).reshape(images.shape), images.dtype)
    return [
        OpCase(f"LRN/{label}", "LRN", [images], attrs, expected=forward),
        OpCase(f"LRNGrad/{label}", "LRNGrad", [gradient, images, outputs], attrs, expected=backward),
    ]


def _layer_norm(x: Array, scale: Array, offset: Array, epsilon: float = float(np.float32(1e-5))) -> Array:
    x, scale, offset = (np.asarray(item, np.float64) for item in (x, scale, offset))
    normal = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon)
    return np.asarray(normal * scale + offset)


def _layer_norm_grad(g: Array, x: Array, scale: Array) -> tuple[Array, Array, Array]:
    """The chain rule row by row, with the Jacobian of one normalised row written out."""
    g, x, scale = (np.asarray(item, np.float64) for item in (g, x, scale))
    n = x.shape[-1]
    dx, by_scale = np.zeros(x.shape), np.zeros(n)
    for place in np.ndindex(x.shape[:-1]):
        deviation = np.sqrt(x[place].var() + np.float32(1e-5))
        normal = (x[place] - x[place].mean()) / deviation
        jacobian = (np.eye(n) - 1 / n - np.outer(normal, normal) / n) / deviation
        dx[place] = jacobian @ (g[place] * scale)
        by_scale += g[place] * normal
    return dx, by_scale, g.reshape(-1, n).sum(0)


_LAYER_CASES = [
    *(
        OpCase(
            f"{op}/{np.dtype(dtype).name}",
            op,
            [item.astype(dtype) for item in inputs],
            expected=reference,
        )
        for op, inputs, reference in (
            ("LayerNorm", (_uniform(2, 3), _SCALE, _OFFSET), _layer_norm),
            ("LayerNormGrad", (_uniform(2, 3), _uniform(2, 3), _SCALE), _layer_norm_grad),
        )
        for dtype in (np.float16, np.float32, np.float64)
    ),
    OpCase(
        "LayerNorm/epsilon and rank 3",
        "LayerNorm",
        [_uniform(2, 1, 4), np.ones(4, np.float32), np.zeros(4, np.float32)],
        {"epsilon": 0.5},
        expected=lambda x, scale, offset: _layer_norm(x, scale, offset, 0.5),
    ),
    OpCase(
        "LayerNorm/no rows",
        "LayerNorm",
        [np.zeros((0, 3), np.float32), _SCALE, _OFFSET],
        expected=np.zeros((0, 3), np.float32),
    ),
    OpCase(
        "LayerNormGrad/no features",
        "LayerNormGrad",
        [np.zeros((2, 0), np.float32)] * 2 + [_NONE],
        expected=(np.zeros((2, 0)), np.zeros(0), np.zeros(0)),
    ),
    OpCase("LayerNorm/scalar", "LayerNorm", [_f32(1), _SCALE, _OFFSET], raises="no axis of features"),
    OpCase(
        "LayerNorm/scale of another size",
        "LayerNorm",
        [_uniform(2, 3), _SCALE[:2], _OFFSET],
        raises="does not fit the features|contradict",
    ),
]
_FOUR = [_SCALE, _OFFSET, _MEAN, _VARIANCE]
_GRADIENT = _uniform(3, 2, 2, 3)
_STATISTICS = [_SCALE, _MEAN, _VARIANCE, _NONE]
_ONE = np.ones(1, np.float32)
_ZERO = np.zeros(1, np.float32)
_NAN_PAIR = np.full(2, np.nan, np.float32)
_ZEROS = np.zeros(2, np.float32)
_PAIR = [_f32([2, 3]), _f32([0, 1]), _f32([0.5, 1.5]), _f32([1, 2])]
_RUNNING = {"exponential_avg_factor": 0.25}
_INFERENCE = {"is_training": False}
_CHANNELS_FIRST = np.ascontiguousarray(_IMAGES.transpose(0, 3, 1, 2))
_GRADIENT_FIRST = np.ascontiguousarray(_GRADIENT.transpose(0, 3, 1, 2))
_VOLUMES = _uniform(2, 2, 1, 2, 3)

_ALL = [
    _forward("training", [_IMAGES, _SCALE, _OFFSET, _NONE, _NONE]),
    _forward("training, statistics that are not used", [_IMAGES, *_FOUR]),
    _forward("running statistics", [_IMAGES, *_FOUR], _RUNNING),
    _forward("inference", [_IMAGES, *_FOUR], _INFERENCE),
    _forward("inference, epsilon", [_IMAGES, *_FOUR], {**_INFERENCE, "epsilon": 0.25}),
    _forward("NCHW", [_CHANNELS_FIRST, *_FOUR], {**_RUNNING, "data_format": "NCHW"}),
    # For five axes and for float16 TensorFlow's sixth output is a scalar, else it is empty as here: nobody reads it.
    _forward("NDHWC", [_VOLUMES, *_FOUR], {"data_format": "NDHWC"}, oracle=False),
    _forward(
        "NCDHW", [np.ascontiguousarray(np.moveaxis(_VOLUMES, -1, 1)), *_FOUR], {"data_format": "NCDHW"}, oracle=False
    ),
    _forward("float16", [_IMAGES.astype(np.float16), *_FOUR], _RUNNING, oracle=False),
    _forward("bfloat16", [_IMAGES.astype(_BFLOAT16), *_FOUR], _INFERENCE),
    _forward("float64", [item.astype(np.float64) for item in (_IMAGES, *_FOUR)], _RUNNING, oracle=False),
    _forward("one channel", [_IMAGES[..., :1], *(item[:1] for item in _FOUR)], _RUNNING),
    _forward(
        "T07 Bessel",
        [_f32([1, 2, 3, 4]).reshape(4, 1, 1, 1), _ONE, _ZERO, _ZERO, _ONE],
        {"epsilon": 1e-3},
        expected=(
            _f32([-1.3411044, -0.4470348, 0.4470348, 1.3411044]).reshape(4, 1, 1, 1),
            _f32([2.5]),
            _f32([1.6666667]),
            _f32([2.5]),
            _f32([1.25]),
            _NONE,
        ),
    ),
    # With one pixel the variance is 0 and its root turns sharply: differences of 1e-6 are not small there.
    _forward(
        "T07 one pixel",
        [np.full((1, 1, 1, 2), 5, np.float32), np.ones(2, np.float32), _ZEROS, _ZEROS, np.ones(2, np.float32)],
        {"exponential_avg_factor": 0.01, "epsilon": 1e-3},
        differentiate=(),
        expected=(np.zeros((1, 1, 1, 2)), _f32([0.05, 0.05]), _f32([0.99, 0.99]), _f32([5, 5]), np.zeros(2), _NONE),
    ),
    _forward(
        "T07 no image",
        [np.zeros((0, 1, 1, 2), np.float32), *_PAIR],
        _RUNNING,
        expected=(np.zeros((0, 1, 1, 2)), _NAN_PAIR, _NAN_PAIR, _ZEROS, _ZEROS, _NONE),
    ),
    _forward(
        "T07 no image, inference",
        [np.zeros((0, 1, 1, 2), np.float32), *_PAIR],
        _INFERENCE,
        expected=(np.zeros((0, 1, 1, 2)), _NAN_PAIR, _NAN_PAIR, _ZEROS, _ZEROS, _NONE),
    ),
    _forward("scale of another size", [_IMAGES, _SCALE[:2], *_FOUR[1:]], raises="does not fit the channels"),
    _forward(
        "mean of another size",
        [_IMAGES, _SCALE, _OFFSET, _MEAN[:2], _VARIANCE],
        _INFERENCE,
        raises="does not fit the channels",
    ),
    _forward("no mean", [_IMAGES, _SCALE, _OFFSET, _NONE, _NONE], _INFERENCE, raises="does not fit the channels"),
    _forward("rank 3", [_IMAGES[0], *_FOUR], raises="rank is wrong"),
    _backward("training", [_GRADIENT, _IMAGES, *_STATISTICS]),
    _backward("inference", [_GRADIENT, _IMAGES, *_STATISTICS], _INFERENCE),
    _backward("NCHW", [_GRADIENT_FIRST, _CHANNELS_FIRST, *_STATISTICS], {"data_format": "NCHW"}),
    _backward("epsilon", [_GRADIENT, _IMAGES, *_STATISTICS], {"epsilon": 0.25}),
    _backward("float16", [_GRADIENT.astype(np.float16), _IMAGES.astype(np.float16), *_STATISTICS], oracle=False),
    _backward("bfloat16", [_GRADIENT.astype(_BFLOAT16), _IMAGES.astype(_BFLOAT16), *_STATISTICS], _INFERENCE),
    _backward("float64", [item.astype(np.float64) for item in (_GRADIENT, _IMAGES, *_STATISTICS)], oracle=False),
    _backward("T07 no image", [np.zeros((0, 1, 1, 2), np.float32)] * 2 + [*_PAIR[:3], _NONE]),
    _backward("gradient of another shape", [_GRADIENT[:2], _IMAGES, *_STATISTICS], raises="does not fit x"),
    _backward(
        "scale of another size", [_GRADIENT, _IMAGES, _SCALE[:2], *_STATISTICS[1:]], raises="does not fit the channels"
    ),
    *_lrn_cases("defaults", _uniform(1, 2, 2, 7)),
    *_lrn_cases("radius 2", _uniform(1, 1, 1, 6), depth_radius=2, bias=2.0, alpha=0.5, beta=0.75),
    *_lrn_cases("radius 0", _uniform(2, 1, 2, 3), depth_radius=0),
    *_lrn_cases("radius beyond the channels", _uniform(1, 2, 1, 3), depth_radius=9),
    *_lrn_cases("no image", _uniform(0, 2, 1, 3)),
    *_lrn_cases("float16", _uniform(1, 2, 1, 3).astype(np.float16)),
    *(replace(case, oracle=False) for case in _lrn_cases("bfloat16", _uniform(1, 2, 1, 3).astype(_BFLOAT16))),
    OpCase("LRN/rank 3", "LRN", [_IMAGES[0]], raises="rank is wrong"),
    OpCase(
        "LRN/negative radius", "LRN", [_IMAGES], {"depth_radius": -1}, raises="attr 'depth_radius' has a wrong value"
    ),
    OpCase(
        "LRNGrad/shapes differ",
        "LRNGrad",
        [_IMAGES, _IMAGES, _IMAGES[:2]],
        raises="two shapes contradict each other|different shapes",
    ),
    *_LAYER_CASES,
]


def _before(case: OpCase, suffix: str) -> OpCase:
    """A case of the third version as one of an earlier one, without the last output or the gradient's last input."""
    name = case.op.replace("V3", suffix)
    expected: Any = case.expected
    if "Grad" in name:
        expected = partial(_with_nothing, expected) if callable(expected) else expected
    elif expected is not None:
        expected = partial(_without_last, expected) if callable(expected) else expected[:5]
    return replace(case, id=f"{name}/{case.id.split('/')[1]}", op=name, inputs=case.inputs[:5], expected=expected)


def _with_nothing(function: Callable[..., Any], *inputs: Array) -> Any:
    return function(*inputs, _NONE)


def _without_last(function: Callable[..., Any], *inputs: Array) -> Any:
    return function(*inputs)[:5]


def _is_taken(case: OpCase, suffix: str) -> bool:
    """True if an earlier version has the dtypes and the data format of a case."""
    dtypes = {np.asarray(value).dtype.name for value in case.inputs}
    given = dtypes <= ({"float32"} if not suffix else {"float32", "float16", "bfloat16"})
    plain = all(np.asarray(value).dtype == np.float32 for value in case.inputs[2 if "Grad" in case.op else 1 :])
    return given and plain and len(case.attrs.get("data_format", "NHWC")) == 4


CASES = [
    *_ALL,
    *(
        _before(case, suffix)
        for suffix in ("", "V2")
        for case in _ALL
        if case.op.startswith("FusedBatchNorm") and _is_taken(case, suffix)
    ),
]
