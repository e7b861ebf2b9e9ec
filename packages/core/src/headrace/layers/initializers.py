"""Initial values of parameters (`hr.layers.initializers`): functions from a shape and a dtype to a tensor.

A layer takes such a function, or the name of one here, which then has no seed of its own and follows the graph's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import headrace as hr
from headrace.errors import NotFoundError, known_names

__all__ = ["Initializer", "constant", "glorot_uniform", "he_normal", "lookup", "ones", "truncated_normal", "zeros"]

Initializer = Callable[[Sequence[int], Any], Any]

_DEVIATION_LEFT = 0.8796256610342398
"""The standard deviation of a standard normal number that is drawn again beyond two deviations."""


def constant(value: float) -> Initializer:
    """Every element is `value`."""
    return lambda shape, dtype: hr.full(shape, hr.constant(value, dtype))


def zeros() -> Initializer:
    """Every element is 0."""
    return constant(0.0)


def ones() -> Initializer:
    """Every element is 1."""
    return constant(1.0)


def truncated_normal(stddev: float = 0.05, mean: float = 0.0, *, seed: int | None = None) -> Initializer:
    """Normal numbers, drawn again beyond two deviations.

    Args:
      stddev: the standard deviation before that.
      mean: the mean.
      seed: of the operation; by default the graph's seed decides.
    """
    return lambda shape, dtype: hr.random.truncated_normal(shape, mean, stddev, dtype, seed=seed)


def glorot_uniform(*, seed: int | None = None) -> Initializer:
    """Uniform in [-a, a), a = sqrt(6 / (inputs + outputs)): keeps the variance of linear layers in both directions.

    Args:
      seed: of the operation; by default the graph's seed decides.
    Source: Glorot, Bengio, *Understanding the difficulty of training deep feedforward neural networks*, AISTATS 2010,
      equation 16.
    """

    def initialize(shape: Sequence[int], dtype: Any) -> Any:
        limit = math.sqrt(6 / sum(_fans(shape)))
        return hr.random.uniform(shape, -limit, limit, dtype, seed=seed)

    return initialize


def he_normal(*, seed: int | None = None) -> Initializer:
    """Truncated normal of standard deviation sqrt(2 / inputs): keeps the variance through layers with relu.

    Args:
      seed: of the operation; by default the graph's seed decides.
    Source: He et al., *Delving deep into rectifiers*, ICCV 2015, equation 10.
    """

    def initialize(shape: Sequence[int], dtype: Any) -> Any:
        deviation = math.sqrt(2 / _fans(shape)[0]) / _DEVIATION_LEFT
        return hr.random.truncated_normal(shape, 0.0, deviation, dtype, seed=seed)

    return initialize


def _fans(shape: Sequence[int]) -> tuple[int, int]:
    """How many inputs an output sees and how many outputs an input reaches; shape `[window..., inputs, outputs]`."""
    if len(shape) < 2:
        size = max(1, math.prod(shape))
        return size, size
    window = math.prod(shape[:-2])
    return max(1, window * shape[-2]), max(1, window * shape[-1])


_BY_NAME: dict[str, Callable[[], Initializer]] = {
    "glorot_uniform": glorot_uniform,
    "he_normal": he_normal,
    "ones": ones,
    "truncated_normal": truncated_normal,
    "zeros": zeros,
}


def lookup(initializer: str | Initializer) -> Initializer:
    """Return the initializer of a name; a function is returned as it is.

    Raises:
      NotFoundError: there is none of that name.
    """
    if not isinstance(initializer, str):
        return initializer
    if initializer not in _BY_NAME:
        raise NotFoundError(
            f"there is no initializer '{initializer}'",
            expected=known_names(initializer, _BY_NAME),
            got=initializer,
            hint="any function of a shape and a dtype will do",
        )
    return _BY_NAME[initializer]()
