"""NumPy kernels of the bias."""

from __future__ import annotations

import numpy as np

from headrace.errors import ShapeError
from headrace.interfaces import OpContext
from headrace.kernels.accumulation import column_sums, stored, widened
from headrace.kernels.registry import register_kernel
from headrace.ops.nn import bias_axis
from headrace.types import Array

__all__: list[str] = []


def _axis(op: OpContext, value: Array) -> int:
    if value.ndim < 2:
        raise ShapeError(
            "there is no axis of channels",
            expected="rank >= 2",
            got=str(list(value.shape)),
            hint="hr.expand_dims(x, 0) adds the axis of the batch",
        )
    return bias_axis(op.attr("data_format"), value.ndim)


@register_kernel("BiasAdd", takes_out=True, in_place=True)
def _bias_add(op: OpContext, value: Array, bias: Array, out: Array | None = None) -> Array:
    axis = _axis(op, value)
    if bias.shape != (value.shape[axis],):
        raise ShapeError(
            "the bias does not fit the channels",
            expected=str([value.shape[axis]]),
            got=str(list(bias.shape)),
            hint="check data_format: channels are the last axis in NHWC, the second in NCHW",
        )
    aligned = bias.reshape(-1, *(1,) * (value.ndim - 1 - axis))
    return np.asarray(np.add(value, aligned, out=out))


@register_kernel("BiasAddGrad", takes_out=True)
def _bias_add_grad(op: OpContext, gradient: Array, out: Array | None = None) -> Array:
    rows = widened(np.moveaxis(gradient, _axis(op, gradient), -1))
    return stored(column_sums(rows.reshape(-1, rows.shape[-1])), gradient.dtype, out)
