"""NumPy kernels of the bias."""

from __future__ import annotations

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.accumulation import column_sums, stored, widened
from headrace.kernels.registry import register_kernel
from headrace.ops.nn import bias_axis
from headrace.types import Array

__all__: list[str] = []


@register_kernel("BiasAdd", takes_out=True, in_place=True)
def _bias_add(op: OpContext, value: Array, bias: Array, out: Array | None = None) -> Array:
    axis = bias_axis(op.attr("data_format"), value.ndim)
    aligned = bias.reshape(-1, *(1,) * (value.ndim - 1 - axis))
    return np.asarray(np.add(value, aligned, out=out))


@register_kernel("BiasAddGrad", takes_out=True)
def _bias_add_grad(op: OpContext, gradient: Array, out: Array | None = None) -> Array:
    axis = bias_axis(op.attr("data_format"), gradient.ndim)
    rows = widened(np.moveaxis(gradient, axis, -1))
    return stored(column_sums(rows.reshape(-1, rows.shape[-1])), gradient.dtype, out)
