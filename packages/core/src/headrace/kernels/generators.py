"""Kernels of the generators family: a variable holds the state from which Philox goes on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.interfaces import OpContext, VariableStorage
from headrace.kernels import distributions
from headrace.kernels.distributions import RESERVED_BLOCKS_PER_ELEMENT
from headrace.kernels.draws import integer_bounds, requested_shape
from headrace.kernels.philox import PhiloxState
from headrace.kernels.registry import register_kernel
from headrace.types import Array

_PHILOX = 1
_AUTOMATIC = 3
_HALF = 64
_LOWER = (1 << _HALF) - 1


def _reserve(op: OpContext, variable: VariableStorage, algorithm: Array, elements: int) -> PhiloxState:
    """Move the generator on past the numbers of so many elements, and return where it was."""
    if int(algorithm) not in (_PHILOX, _AUTOMATIC):
        raise InvalidArgumentError(
            f"{op.type} '{op.name}' asks for another generator",
            expected="1 (Philox) or 3 (automatic)",
            got=str(int(algorithm)),
            hint="make the generator with alg='philox' before the model is saved",
        )
    found: list[PhiloxState] = []

    def move(old: Array, new: Array) -> None:
        if old.ndim != 1 or old.size < 3:
            raise ShapeError(
                f"the state of the generator of {op.type} '{op.name}' is too short",
                expected="[3]: the counter's lower and upper half, and the key",
                got=str(list(old.shape)),
                hint="make the state with hr.Variable([0, 0, seed], dtype=hr.int64)",
            )
        low, high, key = (int(word) & _LOWER for word in old[:3])
        state = PhiloxState(key, low | high << _HALF)
        found.append(state)
        counter = state.skip(elements * RESERVED_BLOCKS_PER_ELEMENT).counter
        new[...] = old
        new[:2] = np.array([counter & _LOWER, counter >> _HALF], np.uint64).view(np.int64)

    variable.rewrite(move)
    return found[0]


def _register(op_type: str, draw: Callable[..., Array]) -> None:
    @register_kernel(op_type)
    def kernel(op: OpContext, variable: VariableStorage, algorithm: Array, shape: Array) -> Array:
        sizes = requested_shape(op, shape)
        dtype = op.outputs[0].dtype.array_type
        if 0 in sizes:
            return np.empty(sizes, dtype)
        return draw(_reserve(op, variable, algorithm, int(np.prod(sizes, dtype=object))), sizes, dtype)


_register("StatefulUniform", distributions.uniform)
_register("StatefulStandardNormalV2", distributions.normal)
_register("StatefulTruncatedNormal", distributions.truncated_normal)
_register("StatefulUniformFullInt", distributions.uniform_full_int)


@register_kernel("StatefulUniformInt")
def _uniform_int(
    op: OpContext, variable: VariableStorage, algorithm: Array, shape: Array, minval: Array, maxval: Array
) -> Array:
    sizes = requested_shape(op, shape)
    low, high = integer_bounds(op, sizes, minval, maxval)
    dtype = op.outputs[0].dtype.array_type
    if 0 in sizes:
        return np.empty(sizes, dtype)
    state = _reserve(op, variable, algorithm, int(np.prod(sizes, dtype=object)))
    return distributions.uniform_int(state, sizes, low, high, dtype)


@register_kernel("RngReadAndSkip")
def _read_and_skip(op: OpContext, variable: VariableStorage, alg: Array, delta: Array) -> Array:
    state = _reserve(op, variable, alg, int(delta))
    return np.array([state.counter & _LOWER, state.counter >> _HALF, state.key], np.uint64).view(np.int64)


@register_kernel("RngSkip")
def _skip(op: OpContext, variable: VariableStorage, algorithm: Array, delta: Array) -> None:
    _reserve(op, variable, algorithm, int(delta))
