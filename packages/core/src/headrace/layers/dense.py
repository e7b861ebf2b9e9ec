"""The fully connected layer."""

from __future__ import annotations

from typing import Any

import numpy as np

import headrace as hr
from headrace.errors import InvalidArgumentError
from headrace.layers import activation as activations
from headrace.layers.activation import Activation
from headrace.layers.initializers import Initializer
from headrace.layers.module import Module, required_size

__all__ = ["Dense"]


class Dense(Module):
    """y = activation(x @ kernel + bias).

    Args:
      units: the size of the last axis of y.
      activation: the name of one ("relu", "tanh", "sigmoid", "softmax"), or a function of a tensor.
      use_bias: whether there is a bias.
      kernel_initializer: of the kernel `[inputs, units]`.
      bias_initializer: of the bias `[units]`.
      name: see `Module`.
    Raises:
      InvalidArgumentError: units is no whole number above 0.
      NotFoundError: there is no activation of that name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     print(hr.layers.Dense(10)(hr.placeholder(hr.float32, [None, 784])).spec)
      float32[?, 10]
    """

    kernel: hr.Variable
    bias: hr.Variable

    def __init__(
        self,
        units: int,
        activation: Activation = None,
        *,
        use_bias: bool = True,
        kernel_initializer: str | Initializer = "glorot_uniform",
        bias_initializer: str | Initializer = "zeros",
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        given: Any = units
        if not isinstance(given, (int, np.integer)) or given < 1:
            raise InvalidArgumentError(
                "units of Dense cannot be used", expected="a whole number above 0", got=repr(units), hint="10, say"
            )
        self.units = int(units)
        self.activation = activations.lookup(activation)
        self.use_bias = use_bias
        self.kernel_initializer = kernel_initializer
        self.bias_initializer = bias_initializer

    def build(self, shape: hr.Shape) -> None:
        """Make the kernel and the bias.

        Raises:
          ShapeError: the size of the input's last axis is not known.
        """
        self.add_parameter("kernel", [required_size(self, shape, -1), self.units], self.kernel_initializer)
        if self.use_bias:
            self.add_parameter("bias", [self.units], self.bias_initializer)

    def call(self, x: Any, *, training: bool = False) -> Any:
        """Apply the layer to x `[..., inputs]`; gives `[..., units]`."""
        y = x @ self.kernel
        return self.activation(hr.nn.bias_add(y, self.bias) if self.use_bias else y)
