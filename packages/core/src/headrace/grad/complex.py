"""Gradient rules of the complex family.

The gradient of a real function of z = a + ib is (d/da) + i (d/db), TensorFlow's convention: g arrives in that form.
"""

from __future__ import annotations

from headrace.grad.broadcast import broadcast_gradients
from headrace.grad.registry import register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor
from headrace.ops.complex import apply_part
from headrace.types import DType


def _complex(real: Tensor, imag: Tensor, dtype: DType) -> Tensor:
    result: Tensor = apply_op("Complex", real, imag, Tout=dtype)
    return result


def _zeros(x: Tensor) -> Tensor:
    result: Tensor = apply_op("ZerosLike", x)
    return result


@register_gradient("Real")
def _real(op: Operation, g: Tensor) -> list[Tensor]:
    """Only the real part is seen."""
    return [_complex(g, _zeros(g), op.inputs[0].dtype)]


@register_gradient("Imag")
def _imag(op: Operation, g: Tensor) -> list[Tensor]:
    """Only the imaginary part is seen."""
    return [_complex(_zeros(g), g, op.inputs[0].dtype)]


@register_gradient("Conj")
def _conj(op: Operation, g: Tensor) -> list[Tensor]:
    """The gradient by the imaginary part changes its sign."""
    result: Tensor = apply_op("Conj", g)
    return [result]


@register_gradient("Complex")
def _complex_gradient(op: Operation, g: Tensor) -> list[Tensor]:
    """Each part gets its own part of g."""
    real, imag = op.inputs
    return broadcast_gradients(real, imag, apply_part("Real", g), apply_part("Imag", g))


@register_gradient("ComplexAbs")
def _complex_abs(op: Operation, g: Tensor) -> list[Tensor]:
    """x / |x|, and 0 where x is 0."""
    x = op.inputs[0]
    slope: Tensor = apply_op("DivNoNan", g, op.outputs[0])
    return [_complex(slope, _zeros(slope), x.dtype) * x]


@register_gradient("Angle")
def _angle(op: Operation, g: Tensor) -> list[Tensor]:
    """d angle(a + ib) = (a db - b da) / |x|**2; 0 where x is 0."""
    x = op.inputs[0]
    a, b = apply_part("Real", x), apply_part("Imag", x)
    slope: Tensor = apply_op("DivNoNan", g, a * a + b * b)
    return [_complex(-slope * b, slope * a, x.dtype)]
