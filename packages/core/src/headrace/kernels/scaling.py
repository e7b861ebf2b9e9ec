"""NumPy kernels of the scaling family: a matrix of weights for rows and one for columns.

Source of the filters: C. Duchon, "Lanczos filtering in one and two dimensions", 1979; R. Keys, "Cubic convolution
interpolation", 1981; D. Mitchell and A. Netravali, "Reconstruction filters in computer graphics", 1988 (B = C = 1/3).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.ops.image import check_sampled, sampled_size
from headrace.ops.scaling import positive_scale
from headrace.ops.shapes import checked_sizes
from headrace.types import Array, Shape

__all__: list[str] = []


def _lanczos(radius: float) -> Callable[[Array], Array]:
    def weight(x: Array) -> Array:
        turns = np.float32(np.pi) * x
        wave = np.float32(radius) * np.sin(turns) * np.sin(turns / np.float32(radius)) / (turns * turns)
        return np.where(x > radius, np.float32(0), np.where(x <= 1e-3, np.float32(1), wave))

    return weight


def _gaussian(x: Array) -> Array:
    return np.where(x >= 1.5, np.float32(0), np.exp(np.float32(-2) * x * x))


def _box(x: Array) -> Array:
    return np.where(x < 0.5, 1, np.where(x == 0.5, 0.5, 0)).astype(np.float32)


def _triangle(x: Array) -> Array:
    return np.asarray(np.maximum(1 - x, np.float32(0)))


def _keys_cubic(x: Array) -> Array:
    outer = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.where(x >= 2, 0, np.where(x >= 1, outer, (1.5 * x - 2.5) * x * x + 1)).astype(np.float32)


def _mitchell_cubic(x: Array) -> Array:
    outer = ((-7 / 18 * x + 2) * x - 10 / 3) * x + 16 / 9
    return np.where(x >= 2, 0, np.where(x >= 1, outer, (7 / 6 * x - 2) * x * x + 8 / 9)).astype(np.float32)


_FILTERS: dict[str, tuple[float, Callable[[Array], Array]]] = {
    "lanczos1": (1, _lanczos(1)),
    "lanczos3": (3, _lanczos(3)),
    "lanczos5": (5, _lanczos(5)),
    "gaussian": (1.5, _gaussian),
    "box": (1, _box),
    "triangle": (1, _triangle),
    "keyscubic": (2, _keys_cubic),
    "mitchellcubic": (2, _mitchell_cubic),
}


def _weights(op: OpContext, source: int, result: int, scale: float, move: float) -> Array:
    """How much each pixel of the source counts for each one of the result, `[result, source]`, along one axis."""
    radius, weight = _FILTERS[op.attr("kernel_type")]
    back = np.float32(1) / np.float32(scale)
    stretch = np.maximum(back, np.float32(1)) if op.attr("antialias") else np.float32(1)
    places = (np.arange(result, dtype=np.float32) + np.float32(0.5)) * back - back * np.float32(move)
    reach = np.float32(radius) * stretch
    first = np.clip(np.ceil(places - reach - np.float32(0.5)), 0, source - 1)
    last = np.clip(np.floor(places + reach - np.float32(0.5)), 0, source - 1)
    pixels = np.arange(source, dtype=np.float32)
    near = (pixels >= first[:, None]) & (pixels <= last[:, None])
    distances = np.abs(pixels + np.float32(0.5) - places[:, None]) * (np.float32(1) / stretch)
    weights = np.where(near, weight(distances), np.float32(0))
    total = weights.sum(axis=1, keepdims=True)
    inside = (places >= 0) & (places <= source)
    usable = inside[:, None] & (np.abs(total) >= 1000 * np.finfo(np.float32).tiny)
    return np.where(usable, weights / np.where(usable, total, np.float32(1)), np.float32(0)).astype(np.float32)


def _both(op: OpContext, source: tuple[int, ...], result: tuple[int, ...], scale: Array, move: Array) -> list[Array]:
    factors, moves = positive_scale(scale), [float(item) for item in move]
    return [_weights(op, *item) for item in zip(source, result, factors, moves, strict=True)]


@register_kernel("ScaleAndTranslate")
def _scale(op: OpContext, images: Array, size: Array, scale: Array, translation: Array) -> Array:
    wanted = sampled_size(size)
    check_sampled(Shape(images.shape), *wanted)
    down, across = _both(op, images.shape[1:3], wanted, scale, translation)
    rows = np.einsum("ri,bijc->brjc", down, images.astype(np.float32), optimize=True)
    scaled = np.einsum("sj,brjc->brsc", across, rows, optimize=True)
    return np.ascontiguousarray(scaled.reshape(checked_sizes([len(images), *wanted, images.shape[3]])))


@register_kernel("ScaleAndTranslateGrad")
def _scale_gradient(op: OpContext, grads: Array, images: Array, scale: Array, translation: Array) -> Array:
    down, across = _both(op, images.shape[1:3], grads.shape[1:3], scale, translation)
    columns = np.einsum("sj,brsc->brjc", across, grads, optimize=True)
    return np.ascontiguousarray(np.einsum("ri,brjc->bijc", down, columns, optimize=True))
