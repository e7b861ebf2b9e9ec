"""Cases of the convolutions of volumes. What must come out is summed up product by product in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.testing.reference import numbers
from headrace.types import Array, bfloat16


def _products(attrs: dict[str, Any], x: Array, w: Array) -> tuple[tuple[int, ...], Iterator[tuple[Any, Any, Any]]]:
    """The shape of the output, channels last, and the places (of x, of w, of y) whose products make it up."""
    strides, dilations = attrs["inner_strides"], attrs["inner_dilations"]
    sizes, taps = x.shape[1:4], w.shape[:3]
    outputs, before = [], []
    for size, count, stride, dilation in zip(sizes, taps, strides, dilations, strict=True):
        reach = (count - 1) * dilation + 1
        made = -(-size // stride) if attrs["padding"] == "SAME" else (size - reach) // stride + 1
        outputs.append(made)
        before.append(max((made - 1) * stride + reach - size, 0) // 2 if attrs["padding"] == "SAME" else 0)
    groups = x.shape[4] // w.shape[3]
    share = w.shape[4] // groups

    def places() -> Iterator[tuple[Any, Any, Any]]:
        for n, *place, f in np.ndindex(x.shape[0], *outputs, w.shape[4]):
            for *tap, c in np.ndindex(*taps, w.shape[3]):
                source = [
                    p * s + t * d - b for p, s, t, d, b in zip(place, strides, tap, dilations, before, strict=True)
                ]
                if all(0 <= at < size for at, size in zip(source, sizes, strict=True)):
                    channel = f // share * w.shape[3] + c
                    yield (n, *source, channel), (*tap, c, f), (n, *place, f)

    return (x.shape[0], *outputs, w.shape[4]), places()


def _first(x: Array) -> Array:
    return np.ascontiguousarray(np.moveaxis(x, -1, 1))


def _cases() -> Iterator[OpCase]:
    for label, sizes, taps, strides, dilations, padding, dtype in (
        ("valid", (2, 3, 4, 3, 2), (2, 2, 2, 2, 3), (1, 1, 1), (1, 1, 1), "VALID", "float32"),
        ("same and strides", (1, 3, 4, 3, 2), (2, 3, 2, 2, 2), (1, 2, 2), (1, 1, 1), "SAME", "float32"),
        ("dilations", (1, 4, 3, 5, 1), (2, 1, 2, 1, 2), (1, 1, 1), (2, 1, 3), "VALID", "float32"),
        ("groups", (1, 2, 2, 2, 4), (1, 2, 1, 2, 2), (1, 1, 1), (1, 1, 1), "VALID", "float32"),
        ("float64", (1, 2, 2, 3, 1), (2, 1, 2, 1, 1), (1, 1, 1), (1, 1, 1), "VALID", "float64"),
        ("float16", (1, 2, 2, 3, 1), (2, 1, 2, 1, 1), (1, 1, 1), (1, 1, 1), "VALID", "float16"),
        ("no volumes", (0, 2, 2, 2, 1), (1, 1, 1, 1, 1), (1, 1, 1), (1, 1, 1), "VALID", "float32"),
    ):
        x = numbers(dtype, *sizes, low=-2, high=2, seed=1)
        w = numbers(dtype, *taps, low=-2, high=2, seed=2)
        inner = {"inner_strides": strides, "inner_dilations": dilations, "padding": padding}
        shape, _ = _products(inner, x, w)
        g = numbers(dtype, *shape, low=-2, high=2, seed=3)
        for data_format in ("NDHWC", "NCDHW") if label == "same and strides" else ("NDHWC",):
            attrs = _attrs(strides, dilations, padding, data_format)
            yield from _three(f"{label} {data_format}", inner, attrs, x, w, g, data_format)


def _attrs(strides: Any, dilations: Any, padding: str, data_format: str) -> dict[str, Any]:
    def five(values: Any) -> list[int]:
        return [1, 1, *values] if data_format == "NCDHW" else [1, *values, 1]

    return {
        "strides": five(strides),
        "dilations": five(dilations),
        "padding": padding,
        "data_format": data_format,
    }


def _three(
    label: str, inner: dict[str, Any], attrs: dict[str, Any], x: Array, w: Array, g: Array, data_format: str
) -> Iterator[OpCase]:
    turn: Callable[[Array], Array] = _first if data_format == "NCDHW" else np.asarray
    y, dx, dw = np.zeros(g.shape), np.zeros(x.shape), np.zeros(w.shape)
    for source, tap, place in _products(inner, x, w)[1]:
        y[place] += float(x[source]) * float(w[tap])
        dx[source] += float(g[place]) * float(w[tap])
        dw[tap] += float(g[place]) * float(x[source])
    oracle = data_format == "NDHWC" and "groups" not in label and x.size > 0
    sizes = np.array(turn(x).shape, np.int32)
    yield OpCase(f"Conv3D/{label}", "Conv3D", [turn(x), w], attrs, expected=turn(y), oracle=oracle)
    yield OpCase(
        f"Conv3DBackpropInputV2/{label}", "Conv3DBackpropInputV2", [sizes, w, turn(g)], attrs, expected=turn(dx),
        oracle=oracle,
    )  # fmt: skip
    filter_sizes = np.array(w.shape, np.int32)
    yield OpCase(
        f"Conv3DBackpropFilterV2/{label}", "Conv3DBackpropFilterV2", [turn(x), filter_sizes, turn(g)], attrs,
        expected=dw, oracle=oracle,
    )  # fmt: skip


_PLAIN = _attrs((1, 1, 1), (1, 1, 1), "VALID", "NDHWC")
_X, _W = np.ones((1, 3, 3, 3, 2), np.float32), np.ones((2, 2, 2, 2, 1), np.float32)

CASES = [
    *_cases(),
    OpCase(
        "Conv3D/bfloat16",
        "Conv3D",
        [_X.astype(bfloat16.array_type), _W.astype(bfloat16.array_type)],
        _PLAIN,
        expected=np.full((1, 2, 2, 2, 1), 16.0),
    ),
    OpCase("Conv3D/rank 4", "Conv3D", [_X[0], _W], _PLAIN, raises="rank is wrong"),
    OpCase("Conv3D/window too large", "Conv3D", [_X[:, :1], _W], _PLAIN, raises="does not fit into the volume"),
    OpCase("Conv3D/O39 empty filter", "Conv3D", [_X, _W[:0]], _PLAIN, raises="filter has no elements"),
    OpCase("Conv3D/channels", "Conv3D", [_X, _W[:, :, :, :0]], _PLAIN, raises="filter has no elements"),
    OpCase(
        "Conv3D/channels of another number",
        "Conv3D",
        [_X, np.ones((1, 1, 1, 3, 1), np.float32)],
        _PLAIN,
        raises="does not fit the channels",
    ),
    OpCase("Conv3D/O39 stride 0", "Conv3D", [_X, _W], {**_PLAIN, "strides": [1, 0, 1, 1, 1]}, raises="five positive"),
    OpCase(
        "Conv3D/stride over channels", "Conv3D", [_X, _W], {**_PLAIN, "strides": [1, 1, 1, 1, 2]}, raises="channels"
    ),
    OpCase(
        "Conv3DBackpropInputV2/gradient of another shape",
        "Conv3DBackpropInputV2",
        [np.array([1, 3, 3, 3, 2], np.int32), _W, np.ones((1, 2, 2, 3, 1), np.float32)],
        _PLAIN,
        raises="gradient does not fit",
    ),
    OpCase(
        "Conv3DBackpropInputV2/one size",
        "Conv3DBackpropInputV2",
        [np.array(3, np.int32), _W, np.ones((1, 2, 2, 2, 1), np.float32)],
        _PLAIN,
        raises="input_sizes is not a vector|rank is wrong|must be a vector",
    ),
    OpCase(
        "Conv3DBackpropFilterV2/gradient of another shape",
        "Conv3DBackpropFilterV2",
        [_X, np.array([2, 2, 2, 2, 1], np.int32), np.ones((1, 2, 2, 3, 1), np.float32)],
        _PLAIN,
        raises="gradient does not fit",
    ),
]
