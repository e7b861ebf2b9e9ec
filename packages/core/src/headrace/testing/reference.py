"""Independent definitions for the expectations of cases: integers by Python's own, floats in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.types import Array, as_dtype

__all__ = ["in_float64", "in_integers", "numbers"]


def in_integers(function: Callable[..., int]) -> Callable[..., Array]:
    """An expectation that applies `function` to Python integers and wraps the result into the inputs' dtype."""

    def expected(*inputs: Any) -> Array:
        dtype = np.asarray(inputs[0]).dtype
        arrays = np.broadcast_arrays(*inputs)
        bits = 8 * dtype.itemsize
        lowest = int(np.iinfo(dtype).min)
        values = [
            (function(*map(int, items)) - lowest) % (1 << bits) + lowest
            for items in zip(*(array.reshape(-1) for array in arrays), strict=True)
        ]
        return np.array(values, object).reshape(arrays[0].shape).astype(dtype)

    return expected


def in_float64(function: Callable[..., Any]) -> Callable[..., Array]:
    """An expectation that applies a NumPy function to the inputs in float64 (complex128) and rounds the result once."""

    def expected(*inputs: Any) -> Array:
        arrays: list[Any] = [np.asarray(item) for item in inputs]
        wide = [array.astype(np.complex128 if array.dtype.kind == "c" else np.float64) for array in arrays]
        with np.errstate(all="ignore"):
            result = np.asarray(function(*wide))
            return result if result.dtype == np.bool_ else result.astype(arrays[0].dtype)

    return expected


def numbers(dtype: str, *shape: int, low: float = -4.0, high: float = 4.0, seed: int = 0) -> Array:
    """Reproducible numbers of a dtype, spread over a range (unsigned integers from 0 on)."""
    rng = np.random.default_rng(seed)
    kind = as_dtype(dtype)
    if kind.is_integer:
        lowest = max(round(low), 0) if kind.kind == "uint" else round(low)
        return np.asarray(rng.integers(lowest, round(high) + 1, shape)).astype(kind.array_type)
    values = rng.uniform(low, high, shape)
    if kind.is_complex:
        return np.asarray(values + 1j * rng.uniform(low, high, shape)).astype(kind.array_type)
    return np.asarray(values).astype(kind.array_type)
