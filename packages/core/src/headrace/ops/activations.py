"""Element-wise nonlinearities and their gradients."""

from __future__ import annotations

from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.attr import AttrSpec
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.types import Shape, float32

__all__ = [
    "elu",
    "gelu",
    "leaky_relu",
    "relu",
    "relu6",
    "selu",
    "silu",
    "softplus",
    "softsign",
]

_FEATURES = {"features": "T"}
_ACTIVATIONS = {"activations": "T"}
_BY_FEATURES = {"gradients": "T", "features": "T"}
_BY_OUTPUTS = {"gradients": "T", "outputs": "T"}
_BACKPROPS = {"backprops": "T"}
_ORDERED = {"T": attr.ordered}
_FLOATING = {"T": attr.floating}
_LEAKY = {"alpha": attr.float(0.2), "T": AttrSpec("type", default=float32, allowed=attr.floating.allowed)}


def _same(op: InferenceContext) -> list[Shape]:
    return [op.inputs[0].shape]


def _both(op: InferenceContext) -> list[Shape]:
    return [op.inputs[0].shape.merge(op.inputs[1].shape)]


@register_op("Relu", inputs=_FEATURES, outputs=_ACTIVATIONS, attrs=_ORDERED)
def _relu_shape(op: InferenceContext) -> list[Shape]:
    """max(x, 0); NaN stays NaN."""
    return _same(op)


@register_op("ReluGrad", inputs=_BY_FEATURES, outputs=_BACKPROPS, attrs=_ORDERED)
def _relu_grad_shape(op: InferenceContext) -> list[Shape]:
    """gradients where features > 0, else 0 times them."""
    return _both(op)


@register_op("Relu6", inputs=_FEATURES, outputs=_ACTIVATIONS, attrs=_ORDERED)
def _relu6_shape(op: InferenceContext) -> list[Shape]:
    """min(max(x, 0), 6); NaN stays NaN."""
    return _same(op)


@register_op("Relu6Grad", inputs=_BY_FEATURES, outputs=_BACKPROPS, attrs=_ORDERED)
def _relu6_grad_shape(op: InferenceContext) -> list[Shape]:
    """gradients where 0 < features < 6, else 0 times them."""
    return _both(op)


@register_op("LeakyRelu", inputs=_FEATURES, outputs=_ACTIVATIONS, attrs=_LEAKY)
def _leaky_relu_shape(op: InferenceContext) -> list[Shape]:
    """x where x > 0, else alpha * x."""
    return _same(op)


@register_op("LeakyReluGrad", inputs=_BY_FEATURES, outputs=_BACKPROPS, attrs=_LEAKY)
def _leaky_relu_grad_shape(op: InferenceContext) -> list[Shape]:
    """gradients where features > 0, else alpha * gradients."""
    return _both(op)


@register_op("Elu", inputs=_FEATURES, outputs=_ACTIVATIONS, attrs=_FLOATING)
def _elu_shape(op: InferenceContext) -> list[Shape]:
    """x where x >= 0, else exp(x) - 1."""
    return _same(op)


@register_op("EluGrad", inputs=_BY_OUTPUTS, outputs=_BACKPROPS, attrs=_FLOATING)
def _elu_grad_shape(op: InferenceContext) -> list[Shape]:
    """gradients * (outputs + 1) where outputs < 0, else gradients."""
    return _both(op)


@register_op("Selu", inputs=_FEATURES, outputs=_ACTIVATIONS, attrs=_FLOATING)
def _selu_shape(op: InferenceContext) -> list[Shape]:
    """scale * x where x >= 0, else scale * alpha * (exp(x) - 1), with constants that keep mean 0 and variance 1."""
    return _same(op)


@register_op("SeluGrad", inputs=_BY_OUTPUTS, outputs=_BACKPROPS, attrs=_FLOATING)
def _selu_grad_shape(op: InferenceContext) -> list[Shape]:
    """gradients * (outputs + scale * alpha) where outputs < 0, else gradients * scale."""
    return _both(op)


@register_op("Gelu", inputs=_FEATURES, outputs=_ACTIVATIONS, attrs={**_FLOATING, "approximate": attr.bool(False)})
def _gelu_shape(op: InferenceContext) -> list[Shape]:
    """x times the probability that a standard normal number is below x, in one piece; or its tanh approximation."""
    return _same(op)


@register_op("GeluGrad", inputs=_BY_FEATURES, outputs=_BACKPROPS, attrs={**_FLOATING, "approximate": attr.bool(False)})
def _gelu_grad_shape(op: InferenceContext) -> list[Shape]:
    """The gradient of Gelu by its features."""
    return _both(op)


@register_op("Softplus", inputs=_FEATURES, outputs=_ACTIVATIONS, attrs=_FLOATING)
def _softplus_shape(op: InferenceContext) -> list[Shape]:
    """log(1 + exp(x)), without overflow."""
    return _same(op)


@register_op("SoftplusGrad", inputs=_BY_FEATURES, outputs=_BACKPROPS, attrs=_FLOATING)
def _softplus_grad_shape(op: InferenceContext) -> list[Shape]:
    """gradients / (1 + exp(-features))."""
    return _both(op)


@register_op("Softsign", inputs=_FEATURES, outputs=_ACTIVATIONS, attrs=_FLOATING)
def _softsign_shape(op: InferenceContext) -> list[Shape]:
    """x / (1 + |x|)."""
    return _same(op)


@register_op("SoftsignGrad", inputs=_BY_FEATURES, outputs=_BACKPROPS, attrs=_FLOATING)
def _softsign_grad_shape(op: InferenceContext) -> list[Shape]:
    """gradients / (1 + |features|)**2."""
    return _both(op)


def _apply(op_type: str, x: TensorLike, name: str | None, **attrs: float) -> Tensor:
    result: Tensor = apply_op(op_type, x, name=name, **attrs)
    return result


def relu(x: TensorLike, *, name: str | None = None) -> Tensor:
    """max(x, 0), element by element; its derivative at 0 is taken as 0.

    Args:
      x: an ordered dtype, any shape.
      name: the operation's name.
    Returns:
      The same dtype and shape; NaN stays NaN.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.nn.relu([-1.0, 2.0])
      >>> print(hr.Session(graph).run(y))
      [0. 2.]
    """
    return _apply("Relu", x, name)


def relu6(x: TensorLike, *, name: str | None = None) -> Tensor:
    """min(max(x, 0), 6), element by element; see `relu`.

    Args:
      x: an ordered dtype, any shape.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.nn.relu6([-1.0, 2.0, 9.0])
      >>> print(hr.Session(graph).run(y))
      [0. 2. 6.]
    """
    return _apply("Relu6", x, name)


def leaky_relu(x: TensorLike, alpha: float = 0.2, *, name: str | None = None) -> Tensor:
    """x where it is positive, else alpha * x.

    Args:
      x: floating, any shape.
      alpha: the slope below 0.
      name: the operation's name.
    Returns:
      The same dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.nn.leaky_relu([-1.0, 2.0], alpha=0.5)
      >>> print(hr.Session(graph).run(y))
      [-0.5  2. ]
    """
    return _apply("LeakyRelu", x, name, alpha=alpha)


def elu(x: TensorLike, *, name: str | None = None) -> Tensor:
    """x where it is not negative, else exp(x) - 1.

    Args:
      x: floating, any shape.
      name: the operation's name.
    Returns:
      The same dtype and shape.
    Source: Clevert et al., "Fast and Accurate Deep Network Learning by Exponential Linear Units", 2016.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.nn.elu([0.0, 2.0])
      >>> print(hr.Session(graph).run(y))
      [0. 2.]
    """
    return _apply("Elu", x, name)


def selu(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The scaled `elu` under which a deep network keeps mean 0 and variance 1.

    Args:
      x: floating, any shape.
      name: the operation's name.
    Returns:
      The same dtype and shape.
    Source: Klambauer et al., "Self-Normalizing Neural Networks", 2017.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.nn.selu([0.0])
      >>> print(hr.Session(graph).run(y))
      [0.]
    """
    return _apply("Selu", x, name)


_GELU_ROOT = 0.7978845608028654  # sqrt(2 / pi)


def gelu(x: TensorLike, *, approximate: bool = False, name: str | None = None) -> Tensor:
    """x times the probability that a standard normal number is below x.

    Args:
      x: floating, any shape.
      approximate: use 0.5 x (1 + tanh(u)) with u = sqrt(2 / pi) (x + 0.044715 x**3) instead of the error function. This
        is computed as x sigmoid(2 u), which is the same: less to compute, and negative x lose no digits.
      name: the operation's name.
    Returns:
      The same dtype and shape.
    Source: Hendrycks, Gimpel, "Gaussian Error Linear Units", 2016.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.nn.gelu([0.0])
      >>> print(hr.Session(graph).run(y))
      [0.]
    """
    if approximate:
        slope = apply_op("AddV2", apply_op("Mul", apply_op("Square", x), 2 * _GELU_ROOT * 0.044715), 2 * _GELU_ROOT)
        gate = apply_op("Sigmoid", apply_op("Mul", x, slope))
        approximated: Tensor = apply_op("Mul", x, gate, name=name)
        return approximated
    half = apply_op("Mul", x, 0.5)
    share = apply_op("Erf", apply_op("Mul", half, 1.4142135623730951))
    result: Tensor = apply_op("Mul", half, apply_op("AddV2", share, 1.0), name=name)
    return result


def silu(x: TensorLike, *, name: str | None = None) -> Tensor:
    """x * sigmoid(x), also called swish.

    Args:
      x: floating, any shape.
      name: the operation's name.
    Returns:
      The same dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.nn.silu([0.0])
      >>> print(hr.Session(graph).run(y))
      [0.]
    """
    gate: Tensor = apply_op("Sigmoid", x)
    result: Tensor = apply_op("Mul", x, gate, name=name)
    return result


def softplus(x: TensorLike, *, name: str | None = None) -> Tensor:
    """log(1 + exp(x)), without overflow for large x.

    Args:
      x: floating, any shape.
      name: the operation's name.
    Returns:
      The same dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.nn.softplus([-1000.0, 1000.0])
      >>> print(hr.Session(graph).run(y))
      [   0. 1000.]
    """
    return _apply("Softplus", x, name)


def softsign(x: TensorLike, *, name: str | None = None) -> Tensor:
    """x / (1 + |x|).

    Args:
      x: floating, any shape.
      name: the operation's name.
    Returns:
      The same dtype and shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.nn.softsign([-1.0, 3.0])
      >>> print(hr.Session(graph).run(y))
      [-0.5   0.75]
    """
    return _apply("Softsign", x, name)
