"""Layers one after the other, and what turns images into vectors between them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import headrace as hr
from headrace.errors import InvalidArgumentError, ShapeError
from headrace.layers.module import Module

__all__ = ["Flatten", "Sequential"]


class Sequential(Module):
    """Modules applied one after the other.

    Args:
      layers: the modules, first to last.
      name: see `Module`.
    Raises:
      InvalidArgumentError: one of them is not a Module.
    """

    def __init__(self, layers: Iterable[Module], *, name: str | None = None) -> None:
        super().__init__(name=name)
        self.layers = list(layers)
        for index, layer in enumerate(self.layers):
            if not isinstance(layer, Module):
                raise InvalidArgumentError(
                    f"item {index} of a Sequential is not a layer",
                    expected="hr.layers.Module",
                    got=repr(layer),
                    hint="a subclass of hr.layers.Module whose call applies a function",
                )

    def call(self, x: Any, *, training: bool = False) -> Any:
        """Apply the modules in turn."""
        for layer in self.layers:
            x = layer(x, training=training)
        return x


class Flatten(Module):
    """All axes but the first made one: `[batch, a, b, ...]` becomes `[batch, a * b * ...]`."""

    def call(self, x: Any, *, training: bool = False) -> Any:
        """Apply the layer to x `[batch, ...]`.

        Raises:
          ShapeError: the size of an axis other than the first is not known.
        """
        dims = x.shape.dims
        if not dims or any(size is None for size in dims[1:]):
            raise ShapeError(
                "Flatten needs to know all sizes of its input but the first",
                expected="a shape [batch, ...] with known sizes",
                got=f"static shape {x.shape}",
                hint="give the placeholder those sizes, e.g. hr.placeholder(hr.float32, [None, 28, 28, 1])",
            )
        return hr.reshape(x, [-1 if dims[0] is None else dims[0], math.prod(dims[1:])])
