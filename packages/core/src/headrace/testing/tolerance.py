"""The one tolerance table: how far a computed value may be from the expected one, by dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.types import DType, as_dtype

__all__ = ["assert_close", "tolerance"]

_RELATIVE = {
    "float16": 2e-3,
    "bfloat16": 1.6e-2,
    "float32": 2e-6,
    "float64": 1e-13,
    "complex64": 2e-6,
    "complex128": 1e-13,
}
"""A few units in the last place; anything not listed must be equal."""


def tolerance(dtype: DType) -> float:
    """The relative tolerance of a dtype; 0 for integers, bools and strings."""
    return _RELATIVE.get(dtype.name, 0.0)


def assert_close(actual: Any, expected: Any, *, what: str, exact: bool = False) -> None:
    """Raise AssertionError unless two arrays have the same dtype and shape and close values.

    NaN equals NaN, and -0.0 equals 0.0.

    Args:
      actual: the computed array.
      expected: the expected array; a wider dtype is rounded to that of `actual`.
      what: names the comparison in the error.
      exact: ask for equal bits.
    """
    actual, expected = np.asarray(actual), np.asarray(expected)
    if actual.shape != expected.shape:
        raise AssertionError(f"{what}: shape {list(actual.shape)}, expected {list(expected.shape)}")
    dtype = as_dtype(actual.dtype)
    if actual.dtype == object:
        if actual.tolist() != expected.tolist():
            raise AssertionError(f"{what}: {actual.tolist()}, expected {expected.tolist()}")
        return
    with np.errstate(all="ignore"):
        rounded = expected.astype(actual.dtype)
    if exact:
        if actual.tobytes() != rounded.tobytes():
            raise AssertionError(f"{what}: {actual}, expected exactly {rounded}")
        return
    limit = tolerance(dtype)
    wide = np.complex128 if dtype.is_complex else np.float64
    if not limit:
        np.testing.assert_array_equal(actual, rounded, err_msg=what)
        return
    np.testing.assert_allclose(
        actual.astype(wide), rounded.astype(wide), rtol=limit, atol=limit, err_msg=what, equal_nan=True
    )
