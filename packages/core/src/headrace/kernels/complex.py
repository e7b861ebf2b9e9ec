"""NumPy kernels of the complex family."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.math import in_order, ordered
from headrace.kernels.registry import register_kernel, register_ufunc
from headrace.types import Array

register_ufunc("ComplexAbs", in_order(np.absolute))
register_ufunc("Conj", np.conjugate)


@register_kernel("Real", aliases=[0])
def _real(op: OpContext, x: Array) -> Array:
    return np.real(x)


@register_kernel("Imag", aliases=[0])
def _imag(op: OpContext, x: Array) -> Array:
    return np.imag(x)


@register_kernel("Angle", takes_out=True)
def _angle(op: OpContext, x: Array, out: Any = None) -> Any:
    return np.arctan2(ordered(np.imag(x)), ordered(np.real(x)), out=out)


@register_kernel("Complex")
def _complex(op: OpContext, real: Array, imag: Array) -> Array:
    result = np.empty(np.broadcast_shapes(np.shape(real), np.shape(imag)), op.attr("Tout").array_type)
    result.real, result.imag = real, imag
    return result
