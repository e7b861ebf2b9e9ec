"""Convolution and pooling of images, `[batch, height, width, channels]`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import headrace as hr
from headrace.errors import InvalidArgumentError, ShapeError
from headrace.layers import activation as activations
from headrace.layers.activation import Activation
from headrace.layers.initializers import Initializer
from headrace.layers.module import Module, required_size

__all__ = ["AvgPool2D", "Conv2D", "MaxPool2D"]


def _pair(value: int | Sequence[int], what: str) -> tuple[int, int]:
    pair = (value, value) if isinstance(value, int) else tuple(value)
    if len(pair) != 2 or any(size < 1 for size in pair):
        raise InvalidArgumentError(
            f"{what} cannot be used", expected="a size above 0, or two", got=repr(value), hint="3 stands for (3, 3)"
        )
    return pair[0], pair[1]


class Conv2D(Module):
    """y = activation(convolution of x with the kernel, plus bias).

    Args:
      filters: channels of y.
      kernel_size: height and width of the window, or one number for both.
      activation: see `Dense`.
      strides: how far the window moves, one number or two.
      padding: "VALID": only where the window fits; "SAME": everywhere, zeros around the image.
      use_bias: whether there is a bias.
      kernel_initializer: of the kernel `[height, width, channels, filters]`.
      bias_initializer: of the bias `[filters]`.
      name: see `Module`.
    """

    kernel: hr.Variable
    bias: hr.Variable

    def __init__(
        self,
        filters: int,
        kernel_size: int | Sequence[int],
        activation: Activation = None,
        *,
        strides: int | Sequence[int] = 1,
        padding: str = "VALID",
        use_bias: bool = True,
        kernel_initializer: str | Initializer = "glorot_uniform",
        bias_initializer: str | Initializer = "zeros",
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        self.filters = filters
        self.kernel_size = _pair(kernel_size, "kernel_size of Conv2D")
        self.activation = activations.lookup(activation)
        self.strides = _pair(strides, "strides of Conv2D")
        self.padding = padding
        self.use_bias = use_bias
        self.kernel_initializer = kernel_initializer
        self.bias_initializer = bias_initializer

    def build(self, shape: hr.Shape) -> None:
        """Make the kernel and the bias.

        Raises:
          ShapeError: the input is no batch of images, or the number of channels is not known.
        """
        if shape.rank not in (None, 4):
            raise ShapeError(
                "Conv2D takes images with channels",
                expected="an input [batch, height, width, channels]",
                got=str(shape),
                hint="x[..., np.newaxis] gives images without channels one",
            )
        channels = required_size(self, shape, -1)
        self.add_parameter("kernel", [*self.kernel_size, channels, self.filters], self.kernel_initializer)
        if self.use_bias:
            self.add_parameter("bias", [self.filters], self.bias_initializer)

    def call(self, x: Any, *, training: bool = False) -> Any:
        """Apply the layer to x `[batch, height, width, channels]`; gives `[batch, height', width', filters]`."""
        y = hr.nn.conv2d(x, self.kernel, strides=self.strides, padding=self.padding)
        return self.activation(hr.nn.bias_add(y, self.bias) if self.use_bias else y)


class MaxPool2D(Module):
    """The largest value in each window.

    Args:
      pool_size: height and width of the window, or one number for both.
      strides: how far the window moves; by default its size.
      padding: "VALID" or "SAME", see `Conv2D`.
      name: see `Module`.
    """

    def __init__(
        self,
        pool_size: int | Sequence[int] = 2,
        *,
        strides: int | Sequence[int] | None = None,
        padding: str = "VALID",
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        self.pool_size = _pair(pool_size, f"pool_size of {type(self).__name__}")
        self.strides = self.pool_size if strides is None else _pair(strides, f"strides of {type(self).__name__}")
        self.padding = padding

    def call(self, x: Any, *, training: bool = False) -> Any:
        """Apply the layer to x `[batch, height, width, channels]`; gives `[batch, height', width', channels]`."""
        return hr.nn.max_pool2d(x, self.pool_size, strides=self.strides, padding=self.padding)


class AvgPool2D(MaxPool2D):
    """The mean of the values in each window; padding does not count. Arguments as of `MaxPool2D`."""

    def call(self, x: Any, *, training: bool = False) -> Any:
        """Apply the layer to x `[batch, height, width, channels]`; gives `[batch, height', width', channels]`."""
        return hr.nn.avg_pool2d(x, self.pool_size, strides=self.strides, padding=self.padding)
