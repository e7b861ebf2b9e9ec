"""NumPy kernels of discrete Fourier transforms, in the precision of the input."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.ops.fft import transform_length
from headrace.types import Array


@register_kernel("FFT")
def _fft(op: OpContext, x: Array) -> Any:
    return np.fft.fft(x) if x.size else x.copy()


@register_kernel("IFFT")
def _ifft(op: OpContext, x: Array) -> Any:
    return np.fft.ifft(x) if x.size else x.copy()


def _register_several(axes: int) -> None:
    last = tuple(range(-axes, 0))

    @register_kernel(f"FFT{axes}D")
    def forward(op: OpContext, x: Array) -> Any:
        return np.fft.fftn(x, axes=last) if x.size else x.copy()

    @register_kernel(f"IFFT{axes}D")
    def inverse(op: OpContext, x: Array) -> Any:
        return np.fft.ifftn(x, axes=last) if x.size else x.copy()


_register_several(2)
_register_several(3)


@register_kernel("RFFT")
def _rfft(op: OpContext, x: Array, fft_length: Array) -> Any:
    length, dtype = transform_length(fft_length), op.attr("Tcomplex").array_type
    if not x.size:
        return np.zeros((*x.shape[:-1], length // 2 + 1), dtype)
    return np.fft.rfft(x, length).astype(dtype, copy=False)


@register_kernel("IRFFT")
def _irfft(op: OpContext, x: Array, fft_length: Array) -> Any:
    length, dtype = transform_length(fft_length), op.attr("Treal").array_type
    if not x.size:
        return np.zeros((*x.shape[:-1], length), dtype)
    return np.fft.irfft(x, length).astype(dtype, copy=False)
