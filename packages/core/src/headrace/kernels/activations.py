"""NumPy kernels of the element-wise nonlinearities."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from headrace.graph.operation import Operation
from headrace.interfaces import OpContext
from headrace.kernels.accumulation import in_blocks, stored, widened
from headrace.kernels.registry import register_kernel
from headrace.kernels.special import erfc
from headrace.types import Array

__all__: list[str] = []

SELU_SCALE = 1.0507009873554805
SELU_SCALE_ALPHA = 1.7580993408473766  # scale * alpha, alpha = 1.6732632423543772


@register_kernel("Relu", takes_out=True, in_place=True)
def _relu(op: OpContext, x: Array, out: Array | None = None) -> Array:
    return np.asarray(np.maximum(x, x.dtype.type(0), out=out))


def _mask_bytes(op: Operation) -> int:
    """What `_masked` allocates: a bool and a number for each element."""
    return math.prod(op.outputs[0].shape.as_tuple()) * (1 + op.outputs[0].dtype.size)


@register_kernel("ReluGrad", takes_out=True, in_place=True, workspace=_mask_bytes)
def _relu_grad(op: OpContext, g: Array, x: Array, out: Array | None = None) -> Array:
    return _masked(g, np.greater(x, x.dtype.type(0)), out)


@register_kernel("Relu6", takes_out=True, in_place=True)
def _relu6(op: OpContext, x: Array, out: Array | None = None) -> Array:
    above = np.maximum(x, x.dtype.type(0), out=out)
    return np.asarray(np.minimum(above, x.dtype.type(6), out=out))


@register_kernel("Relu6Grad", takes_out=True, in_place=True, workspace=_mask_bytes)
def _relu6_grad(op: OpContext, g: Array, x: Array, out: Array | None = None) -> Array:
    return _masked(g, (x > x.dtype.type(0)) & (x < x.dtype.type(6)), out)


def _masked(g: Array, mask: Array, out: Array | None) -> Array:
    """g where the mask is true, else 0 * g: so TensorFlow defines it, and an infinite gradient shows as NaN."""
    return np.asarray(np.multiply(g, mask.astype(g.dtype), out=out))


def _register(op_type: str, compute: Callable[..., Array]) -> None:
    """A kernel that computes in float32 or wider and rounds once."""

    @register_kernel(op_type, takes_out=True, in_place=True)
    def kernel(op: OpContext, x: Array, out: Array | None = None) -> Array:
        return in_blocks(compute, x.dtype, out, x)


def _register_gradient(op_type: str, compute: Callable[..., Array]) -> None:
    """As `_register`, for a gradient and the features or outputs it belongs to."""

    @register_kernel(op_type, takes_out=True, in_place=True)
    def kernel(op: OpContext, g: Array, x: Array, out: Array | None = None) -> Array:
        return in_blocks(compute, g.dtype, out, g, x)


@register_kernel("LeakyRelu", takes_out=True, in_place=True)
def _leaky_relu(op: OpContext, x: Array, out: Array | None = None) -> Array:
    wide = widened(x)
    return stored(np.where(wide > 0, wide, wide.dtype.type(op.attr("alpha")) * wide), x.dtype, out)


@register_kernel("LeakyReluGrad", takes_out=True, in_place=True)
def _leaky_relu_grad(op: OpContext, g: Array, x: Array, out: Array | None = None) -> Array:
    wide = widened(g)
    return stored(np.where(widened(x) > 0, wide, wide.dtype.type(op.attr("alpha")) * wide), g.dtype, out)


def _elu(x: Array) -> Array:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def _elu_grad(g: Array, y: Array) -> Array:
    return np.where(y < 0, g * (y + 1), g)


def _selu(x: Array) -> Array:
    return np.where(x > 0, SELU_SCALE * x, SELU_SCALE_ALPHA * np.expm1(np.minimum(x, 0)))


def _selu_grad(g: Array, y: Array) -> Array:
    return np.where(y < 0, g * (y + SELU_SCALE_ALPHA), g * SELU_SCALE)


_ROOT_TWO_BY_PI = math.sqrt(2 / math.pi)
_CUBIC = 0.044715


def _below(x: Array) -> Array:
    """The probability that a standard normal number is below x."""
    return np.asarray(0.5 * erfc(x.astype(np.float64) * -math.sqrt(0.5)), x.dtype)


def _bent(x: Array) -> Array:
    return np.tanh(_ROOT_TWO_BY_PI * (x + _CUBIC * x * x * x))


def _bent_share(x: Array) -> Array:
    return np.asarray(0.5 * (1 + _bent(x)))


@register_kernel("Gelu", takes_out=True, in_place=True)
def _gelu(op: OpContext, x: Array, out: Array | None = None) -> Array:
    share = _bent_share if op.attr("approximate") else _below
    return in_blocks(lambda wide: wide * share(wide), x.dtype, out, x)


@register_kernel("GeluGrad", takes_out=True)
def _gelu_grad(op: OpContext, g: Array, x: Array, out: Array | None = None) -> Array:
    slope = _bent_slope if op.attr("approximate") else _slope
    return in_blocks(lambda g, x: g * slope(x), g.dtype, out, g, x)


def _slope(x: Array) -> Array:
    """d/dx x F(x) = F(x) + x f(x), with the density f."""
    return np.asarray(_below(x) + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi))


def _bent_slope(x: Array) -> Array:
    """The same of the approximation with tanh."""
    bent = _bent(x)
    inner = _ROOT_TWO_BY_PI * (1 + 3 * _CUBIC * x * x)
    return np.asarray(0.5 * (1 + bent) + 0.5 * x * (1 - bent * bent) * inner)


def _softplus(x: Array) -> Array:
    """max(x, 0) + log(1 + exp(-|x|)): no exponential overflows."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _softplus_grad(g: Array, x: Array) -> Array:
    return np.asarray(g / (np.exp(-x) + 1))


def _softsign(x: Array) -> Array:
    return np.asarray(x / (np.abs(x) + 1))


def _softsign_grad(g: Array, x: Array) -> Array:
    return np.asarray(g / np.square(np.abs(x) + 1))


_register("Elu", _elu)
_register("Selu", _selu)
_register("Softplus", _softplus)
_register("Softsign", _softsign)
_register_gradient("EluGrad", _elu_grad)
_register_gradient("SeluGrad", _selu_grad)
_register_gradient("SoftplusGrad", _softplus_grad)
_register_gradient("SoftsignGrad", _softsign_grad)
