"""Activations by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import headrace as hr
from headrace.errors import NotFoundError, known_names

__all__ = ["Activation", "lookup"]

Activation = str | Callable[[Any], Any] | None

_BY_NAME: dict[str, Callable[[Any], Any]] = {
    "relu": lambda x: hr.nn.relu(x),
    "sigmoid": lambda x: hr.sigmoid(x),
    "softmax": lambda x: hr.nn.softmax(x),
    "tanh": lambda x: hr.tanh(x),
}


def lookup(activation: Activation) -> Callable[[Any], Any]:
    """Return the function of a name; a function is returned as it is, None means none.

    Raises:
      NotFoundError: there is none of that name.
    """
    if activation is None:
        return lambda x: x
    if not isinstance(activation, str):
        return activation
    if activation not in _BY_NAME:
        raise NotFoundError(
            f"there is no activation '{activation}'",
            expected=known_names(activation, _BY_NAME),
            got=activation,
            hint="any function of a tensor will do",
        )
    return _BY_NAME[activation]
