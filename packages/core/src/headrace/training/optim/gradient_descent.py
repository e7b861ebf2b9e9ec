"""Gradient descent, plain and with momentum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import headrace as hr
from headrace.training.optim.optimizer import LearningRate, Optimizer

__all__ = ["SGD", "Momentum"]


class SGD(Optimizer):
    """Plain gradient descent: w <- w - rate * g.

    Args:
      learning_rate: see `Optimizer`.
    """

    def update(self, variable: Any, grad: hr.Tensor, slots: Mapping[str, Any], step: hr.Tensor) -> Iterable[Any]:
        """Add one step down the gradient; see `Optimizer.update`."""
        return [variable.assign_sub(self.rate(step, variable.dtype) * grad)]


class Momentum(Optimizer):
    """Gradient descent with momentum mu: m <- mu * m + g; w <- w - rate * m, or Nesterov's rate * (g + mu * m).

    Args:
      learning_rate: see `Optimizer`.
      momentum: mu, in [0, 1).
      nesterov: look ahead along the momentum.
    Source: Sutskever et al., *On the importance of initialization and momentum in deep learning*, ICML 2013.
    """

    def __init__(self, learning_rate: LearningRate, momentum: float = 0.9, *, nesterov: bool = False) -> None:
        super().__init__(learning_rate)
        self.momentum = momentum
        self.nesterov = nesterov

    def slots(self, variable: hr.Variable) -> Mapping[str, Any]:
        """The momentum m."""
        return {"Momentum": 0.0}

    def update(self, variable: Any, grad: hr.Tensor, slots: Mapping[str, Any], step: hr.Tensor) -> Iterable[Any]:
        """Add one step along the momentum; see `Optimizer.update`."""
        momentum = self.momentum * slots["Momentum"].read() + grad
        direction = grad + self.momentum * momentum if self.nesterov else momentum
        return [slots["Momentum"].assign(momentum), variable.assign_sub(self.rate(step, variable.dtype) * direction)]
