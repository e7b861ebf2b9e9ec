"""Losses by name: functions of labels and outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import headrace as hr
from headrace.errors import NotFoundError, ShapeError, known_names

__all__ = ["Loss", "like_outputs", "lookup"]

Loss = str | Callable[[Any, Any], Any]


def _sparse_softmax_cross_entropy(labels: Any, outputs: Any) -> Any:
    """Labels are class numbers `[batch]`, outputs logits `[batch, classes]`; gives nats `[batch]`."""
    return hr.nn.sparse_softmax_cross_entropy(labels=labels, logits=outputs)


def _softmax_cross_entropy(labels: Any, outputs: Any) -> Any:
    """Labels are probabilities `[batch, classes]`, outputs logits of that shape; gives nats `[batch]`."""
    return hr.nn.softmax_cross_entropy(labels=hr.astype(labels, outputs.dtype), logits=outputs)


def _sigmoid_cross_entropy(labels: Any, outputs: Any) -> Any:
    """Labels are probabilities, outputs logits of that shape; gives nats of each."""
    return hr.nn.sigmoid_cross_entropy(labels=like_outputs(labels, outputs), logits=outputs)


def _mean_squared_error(labels: Any, outputs: Any) -> Any:
    """Labels and outputs have one shape; gives the squared difference of each."""
    return hr.square(outputs - like_outputs(labels, outputs))


def like_outputs(labels: Any, outputs: Any) -> Any:
    """Return the labels in the outputs' dtype.

    Args:
      labels: of the outputs' shape.
      outputs: what the model gives.
    Raises:
      ShapeError: the shapes differ. Labels `[batch]` and outputs `[batch, 1]` would else broadcast to `[batch, batch]`:
        a loss of every label with every output, which falls but teaches nothing.
    """
    if not labels.shape.is_compatible_with(outputs.shape):
        raise ShapeError(
            "the labels do not have the shape of the model's outputs",
            where=outputs.op.location,
            expected=f"labels {outputs.shape}",
            got=f"labels {labels.shape}",
            hint="labels.reshape(-1, 1) where the model has one output",
        )
    return hr.astype(labels, outputs.dtype)


_BY_NAME: dict[str, Callable[[Any, Any], Any]] = {
    "mean_squared_error": _mean_squared_error,
    "sigmoid_cross_entropy": _sigmoid_cross_entropy,
    "softmax_cross_entropy": _softmax_cross_entropy,
    "sparse_softmax_cross_entropy": _sparse_softmax_cross_entropy,
}


def lookup(loss: Loss) -> Callable[[Any, Any], Any]:
    """Return the loss of a name; a function is returned as it is.

    Raises:
      NotFoundError: there is none of that name.
    """
    if not isinstance(loss, str):
        return loss
    if loss not in _BY_NAME:
        raise NotFoundError(
            f"there is no loss '{loss}'",
            expected=known_names(loss, _BY_NAME),
            got=loss,
            hint="any function of labels and outputs will do",
        )
    return _BY_NAME[loss]
