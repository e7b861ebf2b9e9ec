"""Clipping of gradients, dense and sparse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import headrace as hr
from headrace.errors import InvalidArgumentError
from headrace.training.optim.optimizer import add_repeated_rows

__all__ = ["clip_by_global_norm", "clip_by_norm", "clip_by_value", "global_norm"]


def clip_by_value(grad: Any, minimum: Any, maximum: Any) -> Any:
    """Bring every element into [minimum, maximum]; NaN stays.

    Args:
      grad: a floating tensor, or `IndexedSlices`, whose repeated rows are added up first.
      minimum: scalar.
      maximum: scalar.
    Returns:
      The same kind of gradient.
    """
    return _mapped(_once(grad), lambda values: hr.minimum(hr.maximum(values, minimum), maximum))


def clip_by_norm(grad: Any, limit: Any) -> Any:
    """Scale a gradient down to a Euclidean norm of at most `limit`.

    Args:
      grad: a floating tensor, or `IndexedSlices`, whose repeated rows are added up first.
      limit: the norm, above 0.
    Returns:
      The same kind of gradient; unchanged where its norm is within the limit.
    Raises:
      InvalidArgumentError: the limit is a number that is not above 0.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     clipped = hr.clip_by_norm(hr.constant([3.0, 4.0]), 1.0)
      >>> print(hr.Session(graph).run(clipped))
      [0.6 0.8]
    """
    _check_limit(limit)
    return _mapped(_once(grad), lambda values: values * _scale(hr.sqrt(hr.sum(hr.square(values))), limit))


def global_norm(grads: Sequence[Any]) -> hr.Tensor:
    """The Euclidean norm of all gradients together; None counts as nothing.

    Args:
      grads: tensors, `IndexedSlices` or None, of one dtype.
    Raises:
      InvalidArgumentError: there is no gradient.
    """
    return _norm([_once(grad) for grad in grads])


def _norm(grads: Sequence[Any]) -> hr.Tensor:
    parts = [hr.sum(hr.square(_values(grad))) for grad in grads if grad is not None]
    if not parts:
        raise InvalidArgumentError(
            "there is no gradient to take the norm of",
            expected="at least one that is not None",
            got=f"{len(grads)} times None",
            hint="hr.explain_gradient(loss, variable) says why a gradient is None",
        )
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return hr.sqrt(total)


def clip_by_global_norm(grads: Sequence[Any], limit: Any) -> tuple[list[Any], hr.Tensor]:
    """Scale gradients down by one factor, so that their norm taken together is at most `limit`.

    Args:
      grads: tensors, `IndexedSlices` or None, of one dtype.
      limit: the norm, above 0.
    Returns:
      The gradients in the same order, None where None was given; and their norm before. If that is not finite, neither
      is any element that is returned.
    Raises:
      InvalidArgumentError: the limit is a number that is not above 0, or there is no gradient.
    Source: Pascanu, Mikolov, Bengio, *On the difficulty of training recurrent neural networks*, ICML 2013, algorithm 1.
    """
    _check_limit(limit)
    once = [_once(grad) for grad in grads]
    norm = _norm(once)
    scale = _scale(norm, limit)
    return [None if grad is None else _mapped(grad, lambda values: values * scale) for grad in once], norm


def _scale(norm: hr.Tensor, limit: Any) -> hr.Tensor:
    """limit / norm where that is below 1; norm - norm is 0 unless the norm is not finite, and then NaN."""
    scale: hr.Tensor = limit / hr.maximum(norm, limit) + (norm - norm)
    return scale


def _once(grad: Any) -> Any:
    return add_repeated_rows(grad) if isinstance(grad, hr.IndexedSlices) else grad


def _values(grad: Any) -> Any:
    return grad.values if isinstance(grad, hr.IndexedSlices) else grad


def _mapped(grad: Any, function: Any) -> Any:
    if isinstance(grad, hr.IndexedSlices):
        return hr.IndexedSlices(function(grad.values), grad.indices, grad.dense_shape)
    return function(grad)


def _check_limit(limit: Any) -> None:
    if isinstance(limit, (int, float)) and not limit > 0:
        raise InvalidArgumentError(
            "a norm cannot be clipped to this limit",
            expected="a number above 0",
            got=repr(limit),
            hint="leave the clipping out to have no limit",
        )
