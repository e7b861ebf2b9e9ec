"""Complex numbers: their parts, absolute values and angles."""

from __future__ import annotations

from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.promotion import promoted
from headrace.types import DType, Shape, broadcast_shapes, complex64, complex128, float32, float64

__all__ = ["angle", "apply_part", "complex", "conj", "imag", "part_dtype", "real"]

_COMPLEX = attr.type(complex64, complex128, default=complex64)
_REAL = attr.type(float32, float64, default=float32)


def _register_part(name: str, argument: str, result: str, doc: str) -> None:
    """Register an operation from complex numbers of type `T` to real ones of type `Tout`."""

    def shape(op: InferenceContext) -> list[Shape]:
        return [op.inputs[0].shape]

    shape.__doc__ = doc
    attrs = {"T": _COMPLEX, "Tout": _REAL}
    register_op(name, inputs={argument: "T"}, outputs={result: "Tout"}, attrs=attrs)(shape)


_register_part("Real", "input", "output", "The real part.")
_register_part("Imag", "input", "output", "The imaginary part.")
_register_part("Angle", "input", "output", "The angle in radians from -pi to pi; 0 of 0.")
_register_part("ComplexAbs", "x", "y", "The absolute value, which does not overflow where the squares would.")


@register_op("Conj", inputs={"input": "T"}, outputs={"output": "T"}, attrs={"T": _COMPLEX})
def _conj_shape(op: InferenceContext) -> list[Shape]:
    """The complex conjugate."""
    return [op.inputs[0].shape]


@register_op(
    "Complex", inputs={"real": "T", "imag": "T"}, outputs={"out": "Tout"}, attrs={"T": _REAL, "Tout": _COMPLEX}
)
def _complex_shape(op: InferenceContext) -> list[Shape]:
    """real + i imag."""
    return [broadcast_shapes(op.inputs[0].shape, op.inputs[1].shape)]


def part_dtype(dtype: DType) -> DType:
    """The dtype of the real and imaginary parts of a complex dtype."""
    return float64 if dtype is complex128 else float32


def apply_part(op_type: str, x: Tensor, name: str | None = None) -> Tensor:
    """Apply an operation that takes complex numbers to real ones of half the width."""
    result: Tensor = apply_op(op_type, x, Tout=part_dtype(x.dtype), name=name)
    return result


def real(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The real part of x, element by element; real numbers are given back as they are.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.real([1 + 2j, 3 - 4j])
      >>> print(hr.Session(graph).run(y))
      [1. 3.]
    """
    value = convert_to_tensor(x)
    return apply_part("Real", value, name) if value.dtype.is_complex else value


def imag(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The imaginary part of x, element by element; zeros of real numbers.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.imag([1 + 2j, 3 - 4j])
      >>> print(hr.Session(graph).run(y))
      [ 2. -4.]
    """
    value = convert_to_tensor(x)
    return apply_part("Imag", value, name) if value.dtype.is_complex else apply_op("ZerosLike", value, name=name)


def conj(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The complex conjugate of x, element by element; real numbers are given back as they are.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.conj([1 + 2j])
      >>> print(hr.Session(graph).run(y))
      [1.-2.j]
    """
    value = convert_to_tensor(x)
    if not value.dtype.is_complex:
        return value
    result: Tensor = apply_op("Conj", value, name=name)
    return result


def angle(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The angle of x in radians, from -pi to pi, element by element; x is complex; 0 of 0.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.angle([1j, 2.0 + 0j])
      >>> print(hr.Session(graph).run(y).round(4))
      [1.5708 0.    ]
    """
    return apply_part("Angle", convert_to_tensor(x), name)


def complex(real: TensorLike, imag: TensorLike, *, name: str | None = None) -> Tensor:
    """real + i imag, element by element.

    Args:
      real: float32 or float64, any shape.
      imag: the same dtype, a shape that broadcasts with that of `real`.
      name: the operation's name.
    Returns:
      complex64 or complex128, the broadcast shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.complex([1.0, 3.0], [2.0, -4.0])
      >>> print(hr.Session(graph).run(y))
      [1.+2.j 3.-4.j]
    """
    parts = promoted(real, imag)
    wide = complex128 if parts[0].dtype is float64 else complex64
    result: Tensor = apply_op("Complex", *parts, Tout=wide, name=name)
    return result
