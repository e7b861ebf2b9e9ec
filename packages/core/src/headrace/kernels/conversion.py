"""NumPy kernels that convert elements or check them."""

from __future__ import annotations

import numpy as np

from headrace.errors import InvalidArgumentError
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.ops.conversion import bitcast_shape, check_ensured, one_hot_axis, one_hot_depth
from headrace.ops.shapes import checked_sizes
from headrace.types import Array, DType, Shape, int32, int64, uint64

_MANTISSA_BITS = {"bfloat16": 7, "float16": 10, "float32": 23, "float64": 52}


@register_kernel("Cast", aliases=[0])
def _cast(op: OpContext, x: Array) -> Array:
    x = np.asarray(x)
    source, target = op.attr("SrcT"), op.attr("DstT")
    if source is target:
        return x
    if source.is_complex and not target.is_complex:
        return cast_real(np.real(x), target)
    if op.attr("Truncate") and source.is_floating and target.is_floating:
        x = _truncated(x, source, target)
    return cast_real(x, target)


def cast_real(x: Array, target: DType) -> Array:
    """Convert by the rules of `hr.astype`; what NumPy makes of an overflow depends on the array's length."""
    if x.dtype.kind not in "fV" or not target.is_integer:
        return x.astype(target.array_type)
    if target is uint64:
        return _float_to_uint64(x)
    if target in (int32, int64):
        return _float_to_signed(x, target)
    return _float_to_signed(x, int32 if target.size < 4 else int64).astype(target.array_type)


def _float_to_signed(x: Array, target: DType) -> Array:
    """Truncation towards zero; the lowest value for what does not fit. Bounds are powers of two, exact in float64."""
    bound = 2.0 ** (target.size * 8 - 1)
    if x.dtype.itemsize == 2:
        x = x.astype(np.float32)
    if x.size and x.min() >= -bound and x.max() < bound:  # false where there is a NaN
        return x.astype(target.array_type)
    wide = x.astype(np.float64)
    fits = (wide > -bound - 1) & (wide < bound)
    return np.where(fits, np.where(fits, wide, 0).astype(target.array_type), np.iinfo(target.array_type).min)


def _float_to_uint64(x: Array) -> Array:
    wide = x.astype(np.float64)
    high = (wide >= 2.0**63) & (wide < 2.0**64)
    upper = np.where(high, wide - 2.0**63, 0).astype(np.uint64) + np.uint64(2**63)
    return np.where(high, upper, _float_to_signed(x, int64).astype(np.uint64))


def _truncated(x: Array, source: DType, target: DType) -> Array:
    """Clear the bits of the mantissa that the narrower type lacks, so that the conversion rounds towards zero."""
    lost = _MANTISSA_BITS[source.name] - _MANTISSA_BITS[target.name]
    if lost <= 0:
        return x
    bits = np.dtype(f"u{x.dtype.itemsize}")
    mask = np.array(2 ** (8 * x.dtype.itemsize) - 2**lost, bits)
    cleared: Array = (np.ascontiguousarray(x).view(bits) & mask).view(x.dtype).reshape(x.shape)
    return cleared


@register_kernel("Bitcast", aliases=[0])
def _bitcast(op: OpContext, x: Array) -> Array:
    x = np.asarray(x)
    source, target = op.attr("T"), op.attr("type")
    shape = bitcast_shape(Shape(x.shape), source, target).as_tuple()
    if not x.size:
        return np.empty(shape, target.array_type)
    flat = np.ascontiguousarray(x).reshape(-1)
    result: Array = flat.view(target.array_type).reshape(shape)
    return result


@register_kernel("CheckNumerics", aliases=[0])
def _check_numerics(op: OpContext, x: Array) -> Array:
    finite = np.isfinite(x)
    if not finite.all():
        nans = int(np.isnan(x).sum())
        infinities = int(np.size(x) - finite.sum()) - nans
        raise InvalidArgumentError(
            f"{op.attr('message')}: the tensor has elements that are not finite",
            expected="finite numbers",
            got=f"{nans} NaN, {infinities} infinite of {np.size(x)} elements",
            hint="put hr.check_numerics on earlier tensors too, to find where they begin",
        )
    return x


@register_kernel("EnsureShape", aliases=[0])
def _ensure_shape(op: OpContext, x: Array) -> Array:
    check_ensured(op.attr("shape"), Shape(np.shape(x)))
    return x


@register_kernel("OneHot", takes_out=True)
def _one_hot(
    op: OpContext, indices: Array, depth: Array, on_value: Array, off_value: Array, out: Array | None = None
) -> Array:
    indices = np.asarray(indices)
    count = one_hot_depth(depth)
    axis = one_hot_axis(op.attr("axis"), indices.ndim)
    shape = checked_sizes((*indices.shape[:axis], count, *indices.shape[axis:]))
    classes = np.arange(count).reshape((count,) + (1,) * (indices.ndim - axis))
    if out is None:
        out = np.empty(shape, np.asarray(on_value).dtype)
    out[...] = off_value
    np.copyto(out, on_value, where=np.expand_dims(indices, axis) == classes)
    return out
