"""The incomplete gamma and beta functions: probabilities of the gamma and beta distributions."""

from __future__ import annotations

from headrace.errors import ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.math import apply_binary
from headrace.types import Shape, broadcast_shapes, float32, float64

__all__ = ["betainc", "igamma", "igammac", "merged_with_scalars"]

_WIDE = attr.type(float32, float64)


def _both(op: InferenceContext) -> list[Shape]:
    return [broadcast_shapes(op.inputs[0].shape, op.inputs[1].shape)]


@register_op("Igamma", inputs={"a": "T", "x": "T"}, outputs={"z": "T"}, attrs={"T": attr.floating})
def _igamma_shape(op: InferenceContext) -> list[Shape]:
    """The probability that a gamma-distributed number of shape a is at most x; NaN for a <= 0 or x < 0."""
    return _both(op)


@register_op("Igammac", inputs={"a": "T", "x": "T"}, outputs={"z": "T"}, attrs={"T": attr.floating})
def _igammac_shape(op: InferenceContext) -> list[Shape]:
    """1 - Igamma(a, x), exact where that is small."""
    return _both(op)


@register_op("IgammaGradA", inputs={"a": "T", "x": "T"}, outputs={"z": "T"}, attrs={"T": _WIDE})
def _igamma_grad_a_shape(op: InferenceContext) -> list[Shape]:
    """The derivative of Igamma(a, x) by a."""
    return _both(op)


@register_op("RandomGammaGrad", inputs={"alpha": "T", "sample": "T"}, outputs={"output": "T"}, attrs={"T": _WIDE})
def _random_gamma_grad_shape(op: InferenceContext) -> list[Shape]:
    """The derivative of a gamma-distributed number by its shape alpha, at the probability that it has."""
    return _both(op)


@register_op("Betainc", inputs={"a": "T", "b": "T", "x": "T"}, outputs={"z": "T"}, attrs={"T": _WIDE})
def _betainc_shape(op: InferenceContext) -> list[Shape]:
    """The probability that a beta-distributed number of shapes a and b is at most x; NaN outside of 0 <= x <= 1."""
    return [merged_with_scalars([spec.shape for spec in op.inputs])]


def merged_with_scalars(shapes: list[Shape]) -> Shape:
    """The one shape of several tensors of which some may be scalars.

    Raises:
      ShapeError: two that are no scalars differ.
    """
    merged = Shape([])
    for shape in shapes:
        if shape.rank is None or merged.rank is None:
            merged = Shape() if merged.rank in (None, 0) else merged
        elif merged.rank == 0:
            merged = shape
        elif shape.rank and not shape.is_compatible_with(merged):
            raise ShapeError(
                "the parameters differ in shape",
                expected=f"{merged}, or a scalar",
                got=str(shape),
                hint="hr.broadcast_to gives all of them one shape",
            )
        elif shape.rank:
            merged = merged.merge(shape)
    return merged


def igamma(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """The probability that a gamma-distributed number of shape x is at most y: the regularised incomplete gamma.

    Element by element; floating, see `hr.add`. Differentiable once by x, and by y as often as needed.

    Source: DLMF 8.2.4.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     p = hr.igamma(1.0, [0.0, 1.0])
      >>> print(hr.Session(graph).run(p).round(4))
      [0.     0.6321]
    """
    return apply_binary("Igamma", x, y, name)


def igammac(x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """1 - igamma(x, y), exact where that is small.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     p = hr.igammac(1.0, [0.0, 1.0])
      >>> print(hr.Session(graph).run(p).round(4))
      [1.     0.3679]
    """
    return apply_binary("Igammac", x, y, name)


def betainc(a: TensorLike, b: TensorLike, x: TensorLike, *, name: str | None = None) -> Tensor:
    """The probability that a beta-distributed number of shapes a and b is at most x: the regularised incomplete beta.

    Args:
      a: float32 or float64, any shape.
      b: the same dtype; the shape of a, or one of the two is a scalar.
      x: the same dtype, in [0, 1]; the shape of the others, or a scalar.
      name: the operation's name.
    Returns:
      The same dtype and shape. It has a gradient by x only.
    Source: DLMF 8.17.2.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     p = hr.betainc(2.0, 2.0, [0.0, 0.5, 1.0])
      >>> print(hr.Session(graph).run(p))
      [0.  0.5 1. ]
    """
    given = [a, b, x]
    dtype = next((item.dtype for item in given if isinstance(item, Tensor)), None)
    result: Tensor = apply_op("Betainc", *(convert_to_tensor(item, dtype) for item in given), name=name)
    return result
