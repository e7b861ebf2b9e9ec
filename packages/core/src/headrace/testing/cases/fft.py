"""Cases of discrete Fourier transforms; what is expected is summed up by the definition."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.testing.reference import numbers


def _waves(size: int, sign: float) -> Any:
    k = np.arange(size)
    return np.exp(sign * 2j * np.pi * (np.outer(k, k) % max(size, 1)) / max(size, 1))


def _fft(x: Any) -> Any:
    return (x.astype(np.complex128) @ _waves(x.shape[-1], -1)).astype(x.dtype)


def _ifft(x: Any) -> Any:
    return (x.astype(np.complex128) @ _waves(x.shape[-1], 1) / max(x.shape[-1], 1)).astype(x.dtype)


def _resized(x: Any, size: int) -> Any:
    result = np.zeros((*x.shape[:-1], size), x.dtype)
    kept = min(size, x.shape[-1])
    result[..., :kept] = x[..., :kept]
    return result


def _rfft(x: Any, length: Any) -> Any:
    rows = _resized(x, int(length[0])).astype(np.complex128)
    wide = np.complex64 if x.dtype == np.float32 else np.complex128
    return (rows @ _waves(rows.shape[-1], -1))[..., : rows.shape[-1] // 2 + 1].astype(wide)


def _irfft(x: Any, length: Any) -> Any:
    """The other half is the conjugate of the first, and what must be real counts by its real part."""
    size = int(length[0])
    half = _resized(x, size // 2 + 1).astype(np.complex128)
    half[..., 0] = half[..., 0].real
    if size % 2 == 0:
        half[..., -1] = half[..., -1].real
    whole = np.concatenate([half, np.conj(half[..., (size - 1) // 2 : 0 : -1])], -1)
    return (whole @ _waves(size, 1) / size).real.astype(np.float32 if x.dtype == np.complex64 else np.float64)


def _i32(*values: int) -> Any:
    return np.array(values, np.int32)


def _along(function: Any, axes: int) -> Any:
    """One axis after the other."""

    def expected(x: Any) -> Any:
        wide = x.astype(np.complex128)
        for axis in range(-axes, 0):
            wide = np.moveaxis(function(np.moveaxis(wide, axis, -1)), -1, axis)
        return wide.astype(x.dtype)

    return expected


_SEVERAL = [
    *(
        OpCase(
            f"{op}{axes}D/{dtype} {list(shape)}",
            f"{op}{axes}D",
            [numbers(dtype, *shape)],
            {"Tcomplex": dtype},
            _along(function, axes),
        )
        for axes in (2, 3)
        for op, function in (("FFT", _fft), ("IFFT", _ifft))
        for dtype in ("complex64", "complex128")
        for shape in ((2, 3, 4), (1, 5, 2, 2), (2, 0, 3))
    ),
    *(
        OpCase(f"{op}/too few axes", op, [np.ones(3, np.complex64)], raises=r"transforms [23] axes")
        for op in ("FFT2D", "IFFT3D")
    ),
]

CASES = [
    *_SEVERAL,
    *(
        OpCase(f"{op}/{dtype} {size}", op, [numbers(dtype, 2, size)], {"Tcomplex": dtype}, function)
        for op, function in (("FFT", _fft), ("IFFT", _ifft))
        for dtype in ("complex64", "complex128")
        for size in (1, 2, 5, 8)
    ),
    *(
        OpCase(f"{op}/empty", op, [np.zeros((2, 0), np.complex64)], expected=np.zeros((2, 0), np.complex64))
        for op in ("FFT", "IFFT")
    ),
    *(OpCase(f"{op}/scalar", op, [np.complex64(1)], raises="a scalar has no transform") for op in ("FFT", "IFFT")),
    *(
        OpCase(
            f"RFFT/{dtype} {size} to {length}",
            "RFFT",
            [numbers(dtype, 2, size), _i32(length)],
            {"Tcomplex": "complex64" if dtype == "float32" else "complex128"},
            _rfft,
            differentiate=(),  # complex results: tests/ops/test_fft.py takes them part by part
        )
        for dtype in ("float32", "float64")
        for size, length in ((1, 1), (5, 5), (8, 8), (6, 4), (3, 6), (3, 7))
    ),
    *(
        OpCase(
            f"IRFFT/{dtype} {size} to {length}",
            "IRFFT",
            [numbers(dtype, 2, size), _i32(length)],
            {"Treal": "float32" if dtype == "complex64" else "float64"},
            _irfft,
        )
        for dtype in ("complex64", "complex128")
        for size, length in ((1, 1), (3, 4), (3, 5), (5, 4), (2, 6), (2, 7))
    ),
    OpCase(
        "RFFT/no rows",
        "RFFT",
        [np.zeros((0, 4), np.float32), _i32(4)],
        expected=np.zeros((0, 3), np.complex64),
        differentiate=(),
    ),
    OpCase("RFFT/no length", "RFFT", [np.ones(4, np.float32), _i32(0)], raises="must be positive"),
    OpCase("RFFT/two lengths", "RFFT", [np.ones(4, np.float32), _i32(4, 4)], raises="one number for the last axis"),
    OpCase("IRFFT/no length", "IRFFT", [np.ones(4, np.complex64), _i32(-1)], raises="must be positive"),
    OpCase("RFFT/scalar", "RFFT", [np.float32(1), _i32(1)], raises="a scalar has no transform"),
]
