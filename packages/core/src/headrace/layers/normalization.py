"""Batch normalisation, from primitive operations."""

from __future__ import annotations

from typing import Any

import headrace as hr
from headrace.layers.module import Module, required_size

__all__ = ["BatchNorm"]


class BatchNorm(Module):
    """y = gamma * (x - mean) / sqrt(variance + epsilon) + beta, over all axes but the last.

    In training mean and variance are those of the batch, and the running ones move towards them whenever y is computed;
    else the running ones are used. The running variance takes the batch's without bias (n - 1 in the denominator), y
    its plain one, as TensorFlow's fused operation and PyTorch do. A frozen layer behaves as outside of training.

    Args:
      momentum: how much of the running statistics a step keeps.
      epsilon: keeps the root above 0.
      center: whether there is a beta.
      scale: whether there is a gamma.
      name: see `Module`.
    Source: Ioffe, Szegedy, *Batch normalization*, ICML 2015, algorithms 1 and 2.
    """

    gamma: hr.Variable
    beta: hr.Variable
    mean: hr.Variable
    variance: hr.Variable

    def __init__(
        self,
        *,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        self.momentum = momentum
        self.epsilon = epsilon
        self.center = center
        self.scale = scale

    def build(self, shape: hr.Shape) -> None:
        """Make gamma, beta and the running statistics, each `[channels]`.

        Raises:
          ShapeError: the number of channels is not known.
        """
        channels = [required_size(self, shape, -1)]
        if self.scale:
            self.add_parameter("gamma", channels, "ones")
        if self.center:
            self.add_parameter("beta", channels, "zeros")
        self.add_parameter("mean", channels, "zeros", trainable=False)
        self.add_parameter("variance", channels, "ones", trainable=False)

    def call(self, x: Any, *, training: bool = False) -> Any:
        """Apply the layer to x `[..., channels]`."""
        if training and self.trainable:
            axes = list(range(len(x.shape) - 1))
            mean = hr.mean(x, axis=axes)
            centered = x - mean
            variance = hr.mean(hr.square(centered), axis=axes)
            with hr.control_dependencies(self._moves(x, mean, variance)):
                variance = hr.identity(variance)
        else:
            centered, variance = x - self.mean, self.variance.read()
        factor = hr.rsqrt(variance + self.epsilon)
        y = centered * (factor * self.gamma if self.scale else factor)
        return y + self.beta if self.center else y

    def _moves(self, x: Any, mean: Any, variance: Any) -> list[Any]:
        """Move the running statistics; they run because y depends on them, so no one need ask for them."""
        count = hr.astype(hr.size(x), x.dtype) / float(required_size(self, x.shape, -1))
        unbiased = variance * (count / hr.maximum(count - 1.0, 1.0))
        rest = 1 - self.momentum
        return [
            self.mean.assign_sub(rest * (self.mean - hr.stop_gradient(mean))),
            self.variance.assign_sub(rest * (self.variance - hr.stop_gradient(unbiased))),
        ]
