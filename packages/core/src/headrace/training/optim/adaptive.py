"""Optimisers that scale the gradient element by element with its own history.

Symbols: g gradient, w variable, all products and roots element by element. Every decay is a mean m <- d * m + (1 - d) *
  x.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import headrace as hr
from headrace.training.optim.optimizer import LearningRate, Optimizer

__all__ = ["Adadelta", "Adagrad", "Adam", "AdamW", "RMSProp"]


def _decayed(mean: hr.Tensor, value: hr.Tensor, decay: float) -> hr.Tensor:
    """The mean after one more value: decay * mean + (1 - decay) * value."""
    return decay * mean + (1 - decay) * value


def _correction(decay: float, step: hr.Tensor) -> hr.Tensor:
    """1 - decay^step, by which a mean that began at 0 is too small after so many updates: float64, a scalar.

    By expm1 the digits that 1 - decay^step loses for a decay close to 1 are kept, and backends that generate code have
    it as an instruction sequence where they have no power.
    """
    return -hr.expm1(hr.astype(step, hr.float64) * (math.log(decay) if decay else -math.inf))


class Adagrad(Optimizer):
    """a <- a + g²; w <- w - rate * g / (sqrt(a) + epsilon).

    Args:
      learning_rate: see `Optimizer`.
      initial_accumulator: what a starts from.
      epsilon: keeps the quotient finite where a is 0.
    Source: Duchi, Hazan, Singer, *Adaptive subgradient methods*, JMLR 12, 2011.
    """

    def __init__(
        self, learning_rate: LearningRate, initial_accumulator: float = 0.1, *, epsilon: float = 1e-10
    ) -> None:
        super().__init__(learning_rate)
        self.initial_accumulator = float(initial_accumulator)
        self.epsilon = epsilon

    def slots(self, variable: hr.Variable) -> Mapping[str, Any]:
        """The accumulator a."""
        return {"Accumulator": self.initial_accumulator}

    def update(self, variable: Any, grad: hr.Tensor, slots: Mapping[str, Any], step: hr.Tensor) -> Iterable[Any]:
        """Add one update; see `Optimizer.update`."""
        total = slots["Accumulator"].read() + hr.square(grad)
        change = self.rate(step, variable.dtype) * grad / (hr.sqrt(total) + self.epsilon)
        return [slots["Accumulator"].assign(total), variable.assign_sub(change)]


class Adadelta(Optimizer):
    """a <- mean of g²; d = g * sqrt(b + epsilon) / sqrt(a + epsilon); b <- mean of d²; w <- w - rate * d.

    Args:
      learning_rate: see `Optimizer`.
      decay: of both means.
      epsilon: what the roots start from.
    Source: Zeiler, *ADADELTA: an adaptive learning rate method*, arXiv 1212.5701.
    """

    def __init__(self, learning_rate: LearningRate = 1.0, decay: float = 0.95, *, epsilon: float = 1e-6) -> None:
        super().__init__(learning_rate)
        self.decay = decay
        self.epsilon = epsilon

    def slots(self, variable: hr.Variable) -> Mapping[str, Any]:
        """The means a of squared gradients and b of squared changes."""
        return {"Accumulator": 0.0, "AccumulatedChange": 0.0}

    def update(self, variable: Any, grad: hr.Tensor, slots: Mapping[str, Any], step: hr.Tensor) -> Iterable[Any]:
        """Add one update; see `Optimizer.update`."""
        squares = _decayed(slots["Accumulator"].read(), hr.square(grad), self.decay)
        changes = slots["AccumulatedChange"].read()
        change = hr.sqrt(changes + self.epsilon) / hr.sqrt(squares + self.epsilon) * grad
        return [
            slots["Accumulator"].assign(squares),
            slots["AccumulatedChange"].assign(_decayed(changes, hr.square(change), self.decay)),
            variable.assign_sub(self.rate(step, variable.dtype) * change),
        ]


class RMSProp(Optimizer):
    """s <- mean of g²; d = g / sqrt(s + epsilon); with momentum mu: m <- mu * m + d, d = m; w <- w - rate * d.

    `centered` takes the variance s - (mean of g)² in the place of s. By rounding that can fall below 0 where the
    gradient hardly changes, and is then taken as 0.

    Args:
      learning_rate: see `Optimizer`.
      decay: of the means.
      momentum: mu; 0 keeps no momentum.
      epsilon: keeps the root above 0.
      centered: divide by the deviation from the mean gradient.
    Source: Tieleman, Hinton, *Lecture 6.5: RMSProp*, 2012; centred: Graves, arXiv 1308.0850, equations 38 to 45.
    """

    def __init__(
        self,
        learning_rate: LearningRate,
        decay: float = 0.9,
        *,
        momentum: float = 0.0,
        epsilon: float = 1e-10,
        centered: bool = False,
    ) -> None:
        super().__init__(learning_rate)
        self.decay = decay
        self.momentum = momentum
        self.epsilon = epsilon
        self.centered = centered

    def slots(self, variable: hr.Variable) -> Mapping[str, Any]:
        """The mean square s and, where they are used, the mean gradient and the momentum m."""
        optional = {"MeanGradient": self.centered, "Momentum": bool(self.momentum)}
        return {"MeanSquare": 0.0, **{name: 0.0 for name, used in optional.items() if used}}

    def update(self, variable: Any, grad: hr.Tensor, slots: Mapping[str, Any], step: hr.Tensor) -> Iterable[Any]:
        """Add one update; see `Optimizer.update`."""
        spread = _decayed(slots["MeanSquare"].read(), hr.square(grad), self.decay)
        updates = [slots["MeanSquare"].assign(spread)]
        if self.centered:
            mean = _decayed(slots["MeanGradient"].read(), grad, self.decay)
            updates.append(slots["MeanGradient"].assign(mean))
            spread = hr.maximum(spread - hr.square(mean), 0.0)
        change = grad / hr.sqrt(spread + self.epsilon)
        if self.momentum:
            change = self.momentum * slots["Momentum"].read() + change
            updates.append(slots["Momentum"].assign(change))
        return [*updates, variable.assign_sub(self.rate(step, variable.dtype) * change)]


class Adam(Optimizer):
    """m <- mean of g; v <- mean of g²; w <- w - rate * m' / (sqrt(v') + epsilon), m', v' corrected for their start.

    m' = m / (1 - beta1^t) and v' = v / (1 - beta2^t) in update t: algorithm 1 of the paper, as PyTorch and optax have
    it. `epsilon_hat` chooses the form that ends the paper's section 2, as TensorFlow's ApplyAdam has it: epsilon is
    added to sqrt(v) instead of sqrt(v'), which makes it larger by 1 / sqrt(1 - beta2^t) in early updates.

    Args:
      learning_rate: see `Optimizer`.
      beta1: decay of m.
      beta2: decay of v.
      epsilon: keeps the quotient finite where v is 0.
      epsilon_hat: add epsilon before the correction.
    Source: Kingma, Ba, *Adam: a method for stochastic optimization*, ICLR 2015.
    """

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        *,
        epsilon: float = 1e-8,
        epsilon_hat: bool = False,
    ) -> None:
        super().__init__(learning_rate)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.epsilon_hat = epsilon_hat
        self.weight_decay = 0.0

    def slots(self, variable: hr.Variable) -> Mapping[str, Any]:
        """The means m and v."""
        return {"Mean": 0.0, "MeanSquare": 0.0}

    def update(self, variable: Any, grad: hr.Tensor, slots: Mapping[str, Any], step: hr.Tensor) -> Iterable[Any]:
        """Add one update; see `Optimizer.update`."""
        rate = self.rate(step, variable.dtype)
        mean = _decayed(slots["Mean"].read(), grad, self.beta1)
        square = _decayed(slots["MeanSquare"].read(), hr.square(grad), self.beta2)
        # Both corrections are scalars, and m' / (sqrt(v') + epsilon) = scale * m / (sqrt(v) + epsilon * root): they
        # cost no pass over the variable.
        root = hr.sqrt(_correction(self.beta2, step))
        scale = hr.astype(root / _correction(self.beta1, step), variable.dtype) * rate
        epsilon = self.epsilon if self.epsilon_hat else hr.astype(self.epsilon * root, variable.dtype)
        change = scale * mean / (hr.sqrt(square) + epsilon)
        if self.weight_decay:
            change = change + rate * self.weight_decay * variable.read()
        return [slots["Mean"].assign(mean), slots["MeanSquare"].assign(square), variable.assign_sub(change)]


class AdamW(Adam):
    """Adam with decoupled weight decay: also w <- w - rate * weight_decay * w, which the means do not see.

    Args:
      learning_rate: see `Optimizer`.
      beta1: see `Adam`.
      beta2: see `Adam`.
      weight_decay: per unit of learning rate.
      epsilon: see `Adam`.
    Source: Loshchilov, Hutter, *Decoupled weight decay regularization*, ICLR 2019, algorithm 2.
    """

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        *,
        weight_decay: float = 0.01,
        epsilon: float = 1e-8,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon=epsilon)
        self.weight_decay = weight_decay
