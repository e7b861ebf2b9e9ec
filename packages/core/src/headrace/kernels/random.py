"""NumPy kernels of the random operations that have a stream of their own."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels import distributions
from headrace.kernels.distributions import RESERVED_BLOCKS_PER_ELEMENT, Out
from headrace.kernels.draws import integer_bounds, number_of_draws, requested_shape, usable
from headrace.kernels.philox import PhiloxState, PhiloxStream
from headrace.kernels.registry import register_kernel
from headrace.kernels.rejection import gamma, poisson
from headrace.types import Array

__all__: list[str] = []


def _reserve(op: OpContext, blocks: int) -> PhiloxState:
    """The next `blocks` blocks of the operation's stream, which the session keeps under the operation's name."""
    seeds = (op.attr("seed"), op.attr("seed2"))

    def start() -> PhiloxStream:
        chosen = (secrets.randbits(64), secrets.randbits(64)) if seeds == (0, 0) else seeds
        return PhiloxStream(PhiloxState.from_seeds(*chosen))

    stream: PhiloxStream = op.resources.lookup_or_create((PhiloxStream, op.name, seeds), start)
    return stream.reserve(blocks)


def _register_float(op_type: str, draw: Callable[..., Array]) -> None:
    @register_kernel(op_type, takes_out=True)
    def kernel(op: OpContext, shape: Array, out: Out = None) -> Array:
        sizes = requested_shape(op, shape)
        state = _reserve(op, math.prod(sizes) * RESERVED_BLOCKS_PER_ELEMENT)
        return draw(state, sizes, op.outputs[0].dtype.array_type, usable(out, sizes))


_register_float("RandomUniform", distributions.uniform)
_register_float("RandomStandardNormal", distributions.normal)
_register_float("TruncatedNormal", distributions.truncated_normal)


@register_kernel("_NextRandom")
def _next_random(op: OpContext) -> tuple[Array, Array]:
    state = _reserve(op, op.attr("count") * RESERVED_BLOCKS_PER_ELEMENT)
    halves = state.counter & (2**64 - 1), state.counter >> 64
    return np.array([state.key], np.uint64), np.array(halves, np.uint64)


@register_kernel("RandomUniformInt", takes_out=True)
def _uniform_int(op: OpContext, shape: Array, minval: Array, maxval: Array, out: Out = None) -> Array:
    sizes = requested_shape(op, shape)
    low, high = integer_bounds(op, sizes, minval, maxval)
    state = _reserve(op, math.prod(sizes) * RESERVED_BLOCKS_PER_ELEMENT)
    return distributions.uniform_int(state, sizes, low, high, op.outputs[0].dtype.array_type, usable(out, sizes))


@register_kernel("RandomShuffle", aliases=[0])
def _shuffle(op: OpContext, value: Array) -> Array:
    if value.size <= 1 or len(value) <= 1:
        return value  # uses no random numbers, as in TensorFlow
    order = distributions.permutation(_reserve(op, (len(value) + 2) // 4), len(value))
    return value[order]


@register_kernel("Multinomial")
def _multinomial(op: OpContext, logits: Array, num_samples: Array) -> Array:
    draws = number_of_draws(op, logits, num_samples)
    rounded = -(-draws // 4) * 4
    state = _reserve(op, len(logits) * rounded * 2 * RESERVED_BLOCKS_PER_ELEMENT)
    return distributions.categorical(state, logits, draws, op.outputs[0].dtype.array_type)


def _register_by_parameter(op_type: str, draw: Callable[[PhiloxState, Array], Array]) -> None:
    """`shape` numbers for each element of a parameter, computed in float64."""

    @register_kernel(op_type)
    def kernel(op: OpContext, shape: Array, parameter: Array) -> Array:
        wanted = requested_shape(op, shape) + parameter.shape
        state = _reserve(op, math.prod(wanted) * RESERVED_BLOCKS_PER_ELEMENT)
        flat = np.broadcast_to(np.asarray(parameter, np.float64), wanted).reshape(-1)
        target = op.outputs[0].dtype.array_type
        drawn = draw(state, flat).reshape(wanted)
        if target.kind == "i":
            drawn = np.where(np.isnan(drawn), 0, drawn)  # a rate that is no number has no count
        return np.asarray(drawn).astype(target)


_register_by_parameter("RandomGamma", gamma)
_register_by_parameter("RandomPoissonV2", poisson)
