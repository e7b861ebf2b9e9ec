"""Layers that make training harder on purpose."""

from __future__ import annotations

from typing import Any

import headrace as hr
from headrace.errors import InvalidArgumentError
from headrace.layers.module import Module

__all__ = ["Dropout"]


class Dropout(Module):
    """In training set each element to 0 with a probability, and scale the others so that the mean stays.

    Args:
      rate: the probability, in [0, 1).
      seed: of the random operation; by default the graph's seed decides.
      name: see `Module`.
    Raises:
      InvalidArgumentError: the rate is outside [0, 1).
    Source: Srivastava et al., *Dropout: a simple way to prevent neural networks from overfitting*, JMLR 15, 2014,
      section 10.
    """

    def __init__(self, rate: float, *, seed: int | None = None, name: str | None = None) -> None:
        super().__init__(name=name)
        if not 0 <= rate < 1:
            raise InvalidArgumentError(
                "the rate of Dropout is a probability",
                expected="0 <= rate < 1",
                got=repr(rate),
                hint="0.25 drops a quarter of the elements",
            )
        self.rate = rate
        self.seed = seed

    def call(self, x: Any, *, training: bool = False) -> Any:
        """Apply the layer to x of any shape; without training it gives x itself."""
        if not training or not self.rate:
            return x
        return hr.nn.dropout(x, self.rate, seed=self.seed)
