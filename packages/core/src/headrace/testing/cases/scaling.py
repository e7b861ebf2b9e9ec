"""Cases of the scaling family. Expectations come from the filters, pixel by pixel, in float64.

Gradients are checked in tests/ops/test_scaling.py: results are float32, which is too little for differences.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.testing.reference import numbers


def _lanczos(radius: int) -> Callable[[float], float]:
    return lambda x: 0 if x > radius else 1 if x <= 1e-3 else float(np.sinc(x) * np.sinc(x / radius))


def _cubic(b: float, c: float) -> Callable[[float], float]:
    """Mitchell and Netravali, equation 8."""

    def weight(x: float) -> float:
        if x < 1:
            return ((12 - 9 * b - 6 * c) * x**3 + (-18 + 12 * b + 6 * c) * x**2 + 6 - 2 * b) / 6
        outer = (-b - 6 * c) * x**3 + (6 * b + 30 * c) * x**2 + (-12 * b - 48 * c) * x + 8 * b + 24 * c
        return outer / 6 if x < 2 else 0

    return weight


_FILTERS: dict[str, tuple[float, Callable[[float], float]]] = {
    "lanczos1": (1, _lanczos(1)),
    "lanczos3": (3, _lanczos(3)),
    "lanczos5": (5, _lanczos(5)),
    "gaussian": (1.5, lambda x: math.exp(-2 * x * x) if x < 1.5 else 0),
    "box": (1, lambda x: 1 if x < 0.5 else 0.5 if x == 0.5 else 0),
    "triangle": (1, lambda x: max(1 - x, 0)),
    "keyscubic": (2, _cubic(0, 0.5)),
    "mitchellcubic": (2, _cubic(1 / 3, 1 / 3)),
}


def _row(source: int, place: float, stretch: float, radius: float, weight: Callable[[float], float]) -> Any:
    if not 0 <= place <= source:
        return np.zeros(source)
    first = min(max(math.ceil(place - radius * stretch - 0.5), 0), source - 1)
    last = min(max(math.floor(place + radius * stretch - 0.5), 0), source - 1)
    values = [weight(abs(i + 0.5 - place) / stretch) if first <= i <= last else 0 for i in range(source)]
    total = sum(values)
    return np.array(values) / total if total else np.zeros(source)


def _weights(kernel: str, antialias: bool, source: int, result: int, scale: float, move: float) -> Any:
    stretch = max(1 / scale, 1) if antialias else 1
    return np.array([_row(source, (x + 0.5 - move) / scale, stretch, *_FILTERS[kernel]) for x in range(result)])


def _scaled(kernel: str, antialias: bool) -> Callable[..., Any]:
    def expected(images: Any, size: Any, scale: Any, move: Any) -> Any:
        axes = zip(images.shape[1:3], size, scale, move, strict=True)
        down, across = (_axis(kernel, antialias, *axis) for axis in axes)
        return np.einsum("ri,sj,bijc->brsc", down, across, images.astype(np.float64)).astype(np.float32)

    return expected


def _axis(kernel: str, antialias: bool, source: int, result: Any, scale: Any, move: Any) -> Any:
    return _weights(kernel, antialias, source, int(result), float(scale), float(move))


def _case(
    what: str,
    size: Any,
    scale: Any,
    move: Any = (0, 0),
    *,
    kernel: str = "triangle",
    antialias: bool = True,
    images: Any = None,
    raises: str | None = None,
) -> OpCase:
    images = numbers("float32", 2, 5, 6, 2) if images is None else images
    inputs = [images, np.array(size, np.int32), np.array(scale, np.float32), np.array(move, np.float32)]
    attrs = {"kernel_type": kernel, "antialias": antialias}
    name = f"ScaleAndTranslate/{what}"
    if raises is not None:
        return OpCase(name, "ScaleAndTranslate", inputs, attrs, raises=raises)
    return OpCase(name, "ScaleAndTranslate", inputs, attrs, _scaled(kernel, antialias), differentiate=())


_IMAGE = numbers("float32", 1, 5, 6, 1)
_CASES = [
    *(_case(f"smaller, {kernel}", (2, 4), (0.40625, 0.65625), kernel=kernel) for kernel in _FILTERS),
    *(_case(f"larger, {kernel}", (7, 8), (1.40625, 1.34375), kernel=kernel) for kernel in _FILTERS),
    _case("smaller, aliased", (2, 3), (0.40625, 0.5), antialias=False),
    _case("moved", (5, 6), (1, 1), (1.25, -2.5), kernel="keyscubic"),
    _case("beyond the image", (4, 4), (0.5, 0.5), (2, 2)),
    *(
        _case(np.dtype(dtype).name, (3, 3), (0.5, 0.5), images=(_IMAGE * 10).astype(dtype))
        for dtype in (np.int8, np.uint8, np.int32, np.float16, np.float64)
    ),
    _case("no images", (2, 2), (1, 1), images=_IMAGE[:0]),
    _case("no size", (0, 2), (1, 1), raises=r"an image has rows and columns"),
    _case("scaled by nothing", (2, 2), (0, 1), raises=r"an image is scaled by nothing"),
    _case("one factor", (2, 2), (1,), raises=r"'scale' of ScaleAndTranslate is no pair"),
    _case("one image", (2, 2), (1, 1), images=_IMAGE[0], raises=r"the rank is wrong"),
]


def _gradient(kernel: str, antialias: bool) -> Callable[..., Any]:
    def expected(grads: Any, images: Any, scale: Any, move: Any) -> Any:
        axes = zip(images.shape[1:3], grads.shape[1:3], scale, move, strict=True)
        down, across = (_axis(kernel, antialias, *axis) for axis in axes)
        return np.einsum("ri,sj,brsc->bijc", down, across, grads.astype(np.float64)).astype(np.float32)

    return expected


_PLACED = np.array([[0.640625, 0.71875], [0.5, -0.6875]], np.float32)
"""A scale and a move by which no pixel is read just where the filter ends."""
_GRADIENTS = [
    OpCase(
        f"ScaleAndTranslateGrad/{kernel}",
        "ScaleAndTranslateGrad",
        [
            numbers("float32", 1, 3, 4, 2),
            numbers("float32", 1, 5, 6, 2),
            *_PLACED,
        ],
        {"kernel_type": kernel, "antialias": antialias},
        _gradient(kernel, antialias),
        differentiate=(),
    )
    for kernel, antialias in (("lanczos3", True), ("box", False), ("triangle", True))
]

CASES = [*_CASES, *_GRADIENTS]
