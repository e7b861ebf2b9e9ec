"""NumPy kernels of the random operations that are functions of their seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.interfaces import OpContext
from headrace.kernels import distributions
from headrace.kernels.distributions import Out
from headrace.kernels.draws import integer_bounds, number_of_draws, requested_shape, usable
from headrace.kernels.philox import PhiloxState
from headrace.kernels.registry import register_kernel
from headrace.types import Array

_PHILOX = 1
_AUTOMATIC = 3


def _state_of_seed(seed: Array) -> PhiloxState:
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
            hint="draw with hr.random.stateless_uniform, which takes two integers as its seed instead",
        )
    return PhiloxState(int(key[0]), int(counter[0]) | int(counter[1]) << 64)


def _register_float(op_type: str, draw: Callable[..., Array]) -> None:
    @register_kernel(op_type, takes_out=True)
    def from_seed(op: OpContext, shape: Array, seed: Array, out: Out = None) -> Array:
        sizes = requested_shape(op, shape)
        return draw(_state_of_seed(seed), sizes, op.outputs[0].dtype.array_type, usable(out, sizes))

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
    return distributions.uniform_int(_state_of_seed(seed), sizes, low, high, dtype, usable(out, sizes))


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
    return distributions.categorical(_state_of_seed(seed), logits, draws, op.outputs[0].dtype.array_type)


@register_kernel("StatelessRandomGetAlg")
def _get_alg(op: OpContext) -> Array:
    return np.array(_PHILOX, np.int32)


@register_kernel("StatelessRandomGetKeyCounter")
def _get_key_counter(op: OpContext, seed: Array) -> tuple[Array, ...]:
    state = _state_of_seed(seed)
    words = [state.counter & 0xFFFF_FFFF_FFFF_FFFF, state.counter >> 64]
    return np.array([state.key], np.uint64), np.array(words, np.uint64)


@register_kernel("StatelessRandomGetKeyCounterAlg")
def _get_key_counter_alg(op: OpContext, seed: Array) -> tuple[Any, ...]:
    return *_get_key_counter(op, seed), _get_alg(op)
