"""The meaning of the loop IR: a slow interpreter over NumPy. Printers are tested against it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from headrace.kernels.math import truncated_quotient
from headrace.kernels.philox import PhiloxState, philox_planes
from headrace.loops.ir import Access, Accumulate, Expr, Loop, Region, in_order
from headrace.types import Array, DType, bfloat16, float16, float32

__all__ = ["run_region"]

_NARROW = (float16, bfloat16)
_erf = np.frompyfunc(math.erf, 1, 1)


def _sigmoid(x: Array) -> Any:
    decay = np.exp(-np.abs(x))
    return np.where(x < 0, decay, np.ones_like(decay)) / (1 + decay)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs, "ceil": np.ceil, "cos": np.cos, "erf": lambda x: _erf(x.astype(np.float64)).astype(x.dtype),
    "exp": np.exp, "expm1": np.expm1, "floor": np.floor, "isfinite": np.isfinite, "log": np.log, "log1p": np.log1p,
    "neg": np.negative, "not": np.invert, "rint": np.rint, "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": _sigmoid,
    "sign": np.sign, "sin": np.sin, "sqrt": np.sqrt, "tanh": np.tanh, "add": np.add, "and": np.bitwise_and,
    "div": np.divide, "max": np.maximum, "min": np.minimum, "mul": np.multiply, "or": np.bitwise_or, "pow": np.power,
    "quot": truncated_quotient, "rem": np.fmod, "sub": np.subtract, "xor": np.bitwise_xor, "eq": np.equal,
    "ge": np.greater_equal, "gt": np.greater, "le": np.less_equal, "lt": np.less, "ne": np.not_equal,
    "select": np.where,
}  # fmt: skip
_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "all": np.all, "any": np.any, "max": np.max, "min": np.min, "prod": np.prod, "sum": np.sum,
}  # fmt: skip


def _words(key: Array, low: Array, high: Array, number: Array) -> Array:
    """The word of each number in the stream that begins at a state; states are few, so each is taken at once."""
    key, low, high, number = np.broadcast_arrays(key, low, high, number)
    states, stream = np.unique(np.stack([key, low, high]).reshape(3, -1), axis=1, return_inverse=True)
    result = np.empty(number.size, np.uint32)
    flat = number.reshape(-1)
    for position, (own_key, own_low, own_high) in enumerate(states.T.tolist()):
        own = np.flatnonzero(stream.reshape(-1) == position)
        blocks = (flat[own] // 4).astype(np.uint64)
        even, odd = philox_planes(PhiloxState(own_key, own_low | own_high << 64), blocks)
        words = np.stack([even[0], odd[0], even[1], odd[1]])
        result[own] = words[flat[own] % 4, np.arange(own.size)]
    return result.reshape(number.shape)


def run_region(region: Region, buffers: Sequence[Array]) -> None:
    """Run a region.

    Args:
      region: the loops.
      buffers: flat arrays for the buffers that are no row buffers, in order; outputs are written.
    """
    given = iter(buffers)
    memory = [np.empty(b.size, b.dtype.array_type) if b.role == "row" else next(given) for b in region.buffers]
    with np.errstate(all="ignore"):
        for point in np.ndindex(*region.outer):
            locals_: dict[int, Any] = {}
            for loop in region.loops:
                _run_loop(loop, dict(enumerate(point)), memory, locals_)


def _run_loop(loop: Loop, outer: Mapping[int, int], memory: Sequence[Array], locals_: dict[int, Any]) -> None:
    sizes = [
        axis.extent if axis.outer is None else min(axis.extent, axis.total - outer[axis.outer] * axis.extent)
        for axis in loop.axes
    ]
    grids = np.indices(sizes, np.int64, sparse=True) if sizes else ()
    index: dict[int, Any] = {**outer, **{axis.number: grid for axis, grid in zip(loop.axes, grids, strict=True)}}
    for item in loop.accumulates:
        value = np.broadcast_to(_evaluated(item.value, index, memory, locals_, {}), sizes)
        locals_[item.local] = _reduced(item, value)
    for store in loop.stores:
        value = np.broadcast_to(_evaluated(store.value, index, memory, locals_, {}), sizes)
        memory[store.buffer][np.broadcast_to(_place(store.access, index), sizes)] = value
    if loop.after:
        last = loop.axes[-1].number
        index = {**outer, last: np.arange(sizes[-1])}
        for store in loop.after:
            value = np.broadcast_to(_evaluated(store.value, index, memory, locals_, {}), sizes[-1:])
            memory[store.buffer][np.broadcast_to(_place(store.access, index), sizes[-1:])] = value


def _reduced(item: Accumulate, value: Array) -> Any:
    axes = tuple(range(value.ndim - item.keep_last))
    floating = item.value.dtype.is_floating
    if item.op == "sum":
        wide: Any = np.float64 if floating else value.dtype
        return np.sum(value, axis=axes, dtype=wide).astype(value.dtype)
    if item.op == "prod":
        wide = np.float32 if item.value.dtype in _NARROW else value.dtype
        return np.prod(value, axis=axes, dtype=wide).astype(value.dtype)
    return _REDUCTIONS[item.op](value, axis=axes)


def _place(access: Access, index: Mapping[int, Any]) -> Any:
    place: Any = access.constant
    for axis, factor in access.terms:
        place = place + factor * index[axis]
    return place


def _evaluated(
    root: Expr, index: Mapping[int, Any], memory: Sequence[Array], locals_: Mapping[int, Any], done: dict[int, Any]
) -> Any:
    for expr in in_order([root]):
        args = [done[id(arg)] for arg in expr.args]
        if expr.op == "const":
            result: Any = np.asarray(expr.payload).astype(expr.dtype.array_type)
        elif expr.op == "index":
            result = np.asarray(index[expr.payload])
        elif expr.op == "position":
            result = np.asarray(_place(expr.payload, index))
        elif expr.op == "philox":
            result = _words(*args)
        elif expr.op == "local":
            result = locals_[expr.payload]
        elif expr.op == "load":
            buffer, access = expr.payload
            result = memory[buffer][_place(access, index)]
        elif expr.op == "cast":
            result = np.asarray(args[0]).astype(expr.dtype.array_type)
        else:
            result = _applied(expr.op, expr.dtype, args)
        done[id(expr)] = result
    return done[id(root)]


def _applied(op: str, dtype: DType, args: Sequence[Any]) -> Any:
    """Narrow floats are computed in float32 and rounded after each operator."""
    if any(arg.dtype in (float16.array_type, bfloat16.array_type) for arg in args):
        args = [arg.astype(float32.array_type) if arg.dtype != np.bool_ else arg for arg in args]
    return np.asarray(_FUNCTIONS[op](*args)).astype(dtype.array_type, copy=False)
