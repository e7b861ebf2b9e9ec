"""The frequencies of discrete Fourier transforms: their values, and their order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace import types
from headrace.errors import InvalidArgumentError
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.operation import Tensor
from headrace.ops.axes import known_rank
from headrace.ops.shapes import normalize_axes
from headrace.types import Array, DTypeLike, as_dtype

__all__ = ["fftfreq", "fftshift", "ifftshift", "positive_length", "rfftfreq"]


def positive_length(n: int) -> int:
    """The length of a transform; raises InvalidArgumentError unless it is positive."""
    if n < 1:
        raise InvalidArgumentError(
            "the length of a transform must be positive",
            expected=">= 1",
            got=str(n),
            hint="pass a larger n; without one, irfft takes 2 * (m - 1) of m values",
        )
    return n


def fftfreq(n: int, *, d: float = 1.0, dtype: DTypeLike = types.float32, name: str | None = None) -> Tensor:
    """The frequencies of the elements of a transform, in cycles per unit of `d`.

    Args:
      n: the length of the transform.
      d: the distance of samples.
      dtype: a floating dtype.
      name: the operation's name.
    Returns:
      A vector `[n]`: 0, 1, ... then the negative ones, each divided by n d.
    Raises:
      InvalidArgumentError: n is not positive.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     f = hr.fft.fftfreq(4)
      >>> print(hr.Session(graph).run(f))
      [ 0.    0.25 -0.5  -0.25]
    """
    return _constant(np.fft.fftfreq(positive_length(n), d), dtype, name)


def rfftfreq(n: int, *, d: float = 1.0, dtype: DTypeLike = types.float32, name: str | None = None) -> Tensor:
    """The frequencies of the elements of `rfft`, `[n / 2 + 1]`; see `fftfreq`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     f = hr.fft.rfftfreq(4)
      >>> print(hr.Session(graph).run(f))
      [0.   0.25 0.5 ]
    """
    return _constant(np.fft.rfftfreq(positive_length(n), d), dtype, name)


def fftshift(x: TensorLike, *, axes: int | Sequence[int] | None = None, name: str | None = None) -> Tensor:
    """`x` with frequency 0 moved to the middle.

    Args:
      x: any dtype, of known rank.
      axes: the axes along which to move it; by default all.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.fft.fftshift([0, 1, 2, -2, -1])
      >>> print(hr.Session(graph).run(y))
      [-2 -1  0  1  2]
    """
    return _shifted(x, axes, 1, name)


def ifftshift(x: TensorLike, *, axes: int | Sequence[int] | None = None, name: str | None = None) -> Tensor:
    """The inverse of `fftshift`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.fft.ifftshift([-2, -1, 0, 1, 2])
      >>> print(hr.Session(graph).run(y))
      [ 0  1  2 -2 -1]
    """
    return _shifted(x, axes, -1, name)


def _shifted(x: TensorLike, axes: int | Sequence[int] | None, sign: int, name: str | None) -> Tensor:
    tensor = convert_to_tensor(x)
    rank = known_rank(tensor, "fftshift")
    given = range(rank) if axes is None else [axes] if isinstance(axes, int) else axes
    chosen = normalize_axes(given, rank)
    if not chosen:
        return tensor
    halves = apply_op("FloorDiv", apply_op("GatherV2", apply_op("Shape", tensor), list(chosen), 0), 2)
    result: Tensor = apply_op("Roll", tensor, apply_op("Mul", halves, sign), list(chosen), name=name)
    return result


def _constant(values: Array, dtype: DTypeLike, name: str | None) -> Tensor:
    given = convert_to_tensor(values.astype(as_dtype(dtype).array_type))
    result: Tensor = apply_op("Identity", given, name=name)
    return result
