"""NumPy kernels of the random operations that are functions of their seed; also the checks all random kernels share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.interfaces import OpContext
from headrace.kernels import distributions
from headrace.kernels.distributions import Out
from headrace.kernels.philox import PhiloxState
from headrace.kernels.registry import register_kernel
from headrace.types import Array

__all__ = ["integer_bounds", "number_of_draws", "requested_shape", "usable"]

_PHILOX = 1
_AUTOMATIC = 3
_LARGEST_TENSOR = 2**63 - 1  # bytes


def requested_shape(op: OpContext, shape: Array) -> tuple[int, ...]:
    """Read the input that says which shape to make; raises ShapeError if it cannot be one."""
    if shape.ndim != 1:
        raise ShapeError(
            f"{op.type} '{op.name}' was given a shape that is not a vector",
            expected="[rank]",
            got=str(list(shape.shape)),
        )
    sizes = tuple(int(size) for size in shape)
    if min(sizes, default=0) < 0:
        raise ShapeError(
            f"{op.type} '{op.name}' cannot make a tensor with a negative size",
            expected="sizes of at least 0",
            got=str(list(sizes)),
        )
    if math.prod(sizes) * op.outputs[0].dtype.size > _LARGEST_TENSOR:
        raise ShapeError(
            f"{op.type} '{op.name}' cannot make a tensor that large",
            expected="less than 2**63 bytes",
            got=str(list(sizes)),
        )
    return sizes


def usable(out: Out, shape: tuple[int, ...]) -> Out:
    """The planned buffer, unless a fed shape differs from the one it was planned for."""
    return out if out is not None and out.shape == shape else None


def integer_bounds(op: OpContext, shape: tuple[int, ...], minval: Array, maxval: Array) -> tuple[int, int]:
    """Read the bounds of random integers; raises InvalidArgumentError if there is no integer between them."""
    if minval.ndim or maxval.ndim:
        raise ShapeError(
            f"{op.type} '{op.name}' takes its bounds as scalars",
            expected="minval [], maxval []",
            got=f"minval {list(minval.shape)}, maxval {list(maxval.shape)}",
        )
    low, high = int(minval), int(maxval)
    if low >= high and math.prod(shape) > 0:
        raise InvalidArgumentError(
            f"{op.type} '{op.name}' has no integer to draw", expected="minval < maxval", got=f"{low} and {high}"
        )
    return low, max(high, low + 1)


def number_of_draws(op: OpContext, logits: Array, num_samples: Array) -> int:
    """Check the inputs of a draw of classes and read how many draws per row are wanted."""
    if logits.ndim != 2 or logits.shape[1] == 0 or num_samples.ndim:
        raise ShapeError(
            f"{op.type} '{op.name}' cannot draw classes from these inputs",
            expected="logits [batch, classes] with at least one class, num_samples []",
            got=f"logits {list(logits.shape)}, num_samples {list(num_samples.shape)}",
        )
    draws = int(num_samples)
    if draws < 0:
        raise InvalidArgumentError(
            f"{op.type} '{op.name}' cannot draw a negative number of times", expected=">= 0", got=str(draws)
        )
    return draws


def _state_of_seed(op: OpContext, seed: Array) -> PhiloxState:
    if seed.shape != (2,):
        raise ShapeError(f"{op.type} '{op.name}' has a wrong seed", expected="[2]", got=str(list(seed.shape)))
    return PhiloxState.from_stateless_seed((int(seed[0]), int(seed[1])))


def _state_of_key(op: OpContext, key: Array, counter: Array, alg: Array) -> PhiloxState:
    if alg.ndim or int(alg) not in (_PHILOX, _AUTOMATIC):
        raise InvalidArgumentError(
            f"{op.type} '{op.name}' asks for another generator",
            expected="alg 1 (Philox) or 3 (automatic)",
            got=str(alg.tolist()),
            hint="draw with hr.random.stateless_uniform and its kin, whose generator is Philox",
        )
    if key.shape != (1,) or counter.ndim != 1 or counter.size < 2:
        raise ShapeError(
            f"{op.type} '{op.name}' has a wrong state",
            expected="key [1], counter [2]",
            got=f"key {list(key.shape)}, counter {list(counter.shape)}",
        )
    return PhiloxState(int(key[0]), int(counter[0]) | int(counter[1]) << 64)


def _register_float(op_type: str, draw: Callable[..., Array]) -> None:
    @register_kernel(op_type, takes_out=True)
    def from_seed(op: OpContext, shape: Array, seed: Array, out: Out = None) -> Array:
        sizes = requested_shape(op, shape)
        return draw(_state_of_seed(op, seed), sizes, op.outputs[0].dtype.array_type, usable(out, sizes))

    @register_kernel(f"{op_type}V2", takes_out=True)
    def from_key(op: OpContext, shape: Array, key: Array, counter: Array, alg: Array, out: Out = None) -> Array:
        sizes = requested_shape(op, shape)
        return draw(_state_of_key(op, key, counter, alg), sizes, op.outputs[0].dtype.array_type, usable(out, sizes))


_register_float("StatelessRandomUniform", distributions.uniform)
_register_float("StatelessRandomNormal", distributions.normal)
_register_float("StatelessTruncatedNormal", distributions.truncated_normal)
_register_float("StatelessRandomUniformFullInt", distributions.uniform_full_int)


@register_kernel("StatelessRandomUniformInt", takes_out=True)
def _uniform_int(op: OpContext, shape: Array, seed: Array, minval: Array, maxval: Array, out: Out = None) -> Array:
    sizes = requested_shape(op, shape)
    low, high = integer_bounds(op, sizes, minval, maxval)
    dtype = op.outputs[0].dtype.array_type
    return distributions.uniform_int(_state_of_seed(op, seed), sizes, low, high, dtype, usable(out, sizes))


@register_kernel("StatelessRandomUniformIntV2", takes_out=True)
def _uniform_int_v2(
    op: OpContext,
    shape: Array,
    key: Array,
    counter: Array,
    alg: Array,
    minval: Array,
    maxval: Array,
    out: Out = None,
) -> Array:
    sizes = requested_shape(op, shape)
    low, high = integer_bounds(op, sizes, minval, maxval)
    dtype = op.outputs[0].dtype.array_type
    return distributions.uniform_int(_state_of_key(op, key, counter, alg), sizes, low, high, dtype, usable(out, sizes))


@register_kernel("StatelessMultinomial")
def _multinomial(op: OpContext, logits: Array, num_samples: Array, seed: Array) -> Array:
    draws = number_of_draws(op, logits, num_samples)
    return distributions.categorical(_state_of_seed(op, seed), logits, draws, op.outputs[0].dtype.array_type)


@register_kernel("StatelessRandomGetAlg")
def _get_alg(op: OpContext) -> Array:
    return np.array(_PHILOX, np.int32)


@register_kernel("StatelessRandomGetKeyCounter")
def _get_key_counter(op: OpContext, seed: Array) -> tuple[Array, ...]:
    state = _state_of_seed(op, seed)
    words = [state.counter & 0xFFFF_FFFF_FFFF_FFFF, state.counter >> 64]
    return np.array([state.key], np.uint64), np.array(words, np.uint64)


@register_kernel("StatelessRandomGetKeyCounterAlg")
def _get_key_counter_alg(op: OpContext, seed: Array) -> tuple[Any, ...]:
    return *_get_key_counter(op, seed), _get_alg(op)
