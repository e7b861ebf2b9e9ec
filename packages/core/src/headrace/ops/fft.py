"""Discrete Fourier transforms (`hr.fft`), with the array API's names and conventions.

The operations transform the last axis; the user functions compose them for other and for several axes. Half of its
length is the users' documentation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from headrace import types
from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.axes import along_last, known_rank, moveaxis
from headrace.ops.complex import complex as complex_of
from headrace.ops.complex import conj, part_dtype
from headrace.ops.frequencies import fftfreq, fftshift, ifftshift, positive_length, rfftfreq
from headrace.ops.promotion import promoted
from headrace.ops.shapes import normalize_axes
from headrace.types import Array, Shape

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

_COMPLEX = attr.type(types.complex64, types.complex128, default=types.complex64)
_REAL = attr.type(types.float32, types.float64, default=types.float32)


def _row_size(op: InferenceContext) -> tuple[Shape, int | None]:
    """The shape of the input without its last axis, and the size of that."""
    shape = op.inputs[0].shape
    if shape.rank == 0:
        raise ShapeError(
            "a scalar has no transform",
            expected="rank >= 1",
            got="shape []",
            hint="hr.reshape(x, [1]) makes a vector of one element",
        )
    return (shape, None) if shape.dims is None else (Shape(shape.dims[:-1]), shape.dims[-1])


@register_op("FFT", inputs={"input": "Tcomplex"}, outputs={"output": "Tcomplex"}, attrs={"Tcomplex": _COMPLEX})
def _fft_shape(op: InferenceContext) -> list[Shape]:
    """The sums over the last axis of x[n] exp(-2 pi i k n / N), for k from 0 to N - 1."""
    _row_size(op)
    return [op.inputs[0].shape]


@register_op("IFFT", inputs={"input": "Tcomplex"}, outputs={"output": "Tcomplex"}, attrs={"Tcomplex": _COMPLEX})
def _ifft_shape(op: InferenceContext) -> list[Shape]:
    """What `FFT` makes its input from: the sums of x[k] exp(2 pi i k n / N) / N."""
    _row_size(op)
    return [op.inputs[0].shape]


def _register_several(name: str, axes: int, doc: str) -> None:
    def shape(op: InferenceContext) -> list[Shape]:
        given = op.inputs[0].shape
        if given.rank is not None and given.rank < axes:
            raise ShapeError(
                f"{op.type} transforms {axes} axes",
                expected=f"rank >= {axes}",
                got=str(given),
                hint="hr.expand_dims adds an axis",
            )
        return [given]

    shape.__doc__ = doc
    attrs = {"Tcomplex": _COMPLEX}
    register_op(name, inputs={"input": "Tcomplex"}, outputs={"output": "Tcomplex"}, attrs=attrs)(shape)


for _axes in (2, 3):
    _register_several(f"FFT{_axes}D", _axes, f"`FFT` along each of the last {_axes} axes.")
    _register_several(f"IFFT{_axes}D", _axes, f"`IFFT` along each of the last {_axes} axes.")


@register_op(
    "RFFT",
    inputs={"input": "Treal", "fft_length": "int32"},
    outputs={"output": "Tcomplex"},
    attrs={"Treal": _REAL, "Tcomplex": _COMPLEX},
)
def _rfft_shape(op: InferenceContext) -> list[Shape]:
    """The first N / 2 + 1 results of `FFT` of real rows, cut or filled with zeros to the length N."""
    lead, _ = _row_size(op)
    length = op.constant(1)
    return [lead + Shape([None if length is None else transform_length(length) // 2 + 1])]


@register_op(
    "IRFFT",
    inputs={"input": "Tcomplex", "fft_length": "int32"},
    outputs={"output": "Treal"},
    attrs={"Treal": _REAL, "Tcomplex": _COMPLEX},
)
def _irfft_shape(op: InferenceContext) -> list[Shape]:
    """The real rows of length N of which `RFFT` makes the input, cut or filled with zeros to N / 2 + 1 elements."""
    lead, _ = _row_size(op)
    length = op.constant(1)
    return [lead + Shape([None if length is None else transform_length(length)])]


def transform_length(length: Array) -> int:
    """The length N of a transform.

    Raises:
      ShapeError: it is not a vector of one number.
      InvalidArgumentError: it is not positive.
    """
    given = np.asarray(length)
    if given.shape != (1,):
        raise ShapeError(
            "fft_length must have one number for the last axis",
            expected="[1]",
            got=str(list(given.shape)),
            hint="pass [n]; hr.fft.rfft and hr.fft.irfft take it as n=...",
        )
    return positive_length(int(given[0]))


def fft(
    x: TensorLike, *, n: int | None = None, axis: int = -1, norm: str = "backward", name: str | None = None
) -> Tensor:
    """The discrete Fourier transform along an axis.

    Args:
      x: complex (real numbers become complex), of known rank >= 1.
      n: the length to which the axis is cut or filled with zeros first; by default its size.
      axis: the axis.
      norm: where the sums are divided by their length: `"backward"` in the inverse transform, `"forward"` in this one,
        `"ortho"` by its root in both.
      name: the operation's name.
    Returns:
      complex64 or complex128, the shape of `x` with n along the axis.
    Raises:
      InvalidArgumentError: `norm` is something else, or n is not positive.
      ShapeError: the axis is out of range.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.fft.fft([1.0, 0.0, 0.0, 0.0])
      >>> print(hr.Session(graph).run(y))
      [1.+0.j 1.+0.j 1.+0.j 1.+0.j]
    """
    return _complex_transform("FFT", x, n, axis, norm, name)


def ifft(
    x: TensorLike, *, n: int | None = None, axis: int = -1, norm: str = "backward", name: str | None = None
) -> Tensor:
    """The inverse of `fft`; see there.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.fft.ifft([4.0, 0.0, 0.0, 0.0])
      >>> print(hr.Session(graph).run(y))
      [1.+0.j 1.+0.j 1.+0.j 1.+0.j]
    """
    return _complex_transform("IFFT", x, n, axis, norm, name)


def fftn(
    x: TensorLike,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """The discrete Fourier transform along several axes.

    Args:
      x: complex (real numbers become complex), of known rank.
      s: the lengths to which the axes are cut or filled with zeros first; by default their sizes.
      axes: the axes; by default the last ones, as many as `s` has, or all.
      norm: see `fft`.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.fft.fftn([[1.0, 1.0], [1.0, 1.0]])
      >>> print(hr.Session(graph).run(y))
      [[4.+0.j 0.+0.j]
       [0.+0.j 0.+0.j]]
    """
    return _along_axes("FFT", convert_to_tensor(x), s, axes, norm, name)


def ifftn(
    x: TensorLike,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """The inverse of `fftn`; see there.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.fft.ifftn([[4.0, 0.0], [0.0, 0.0]])
      >>> print(hr.Session(graph).run(y))
      [[1.+0.j 1.+0.j]
       [1.+0.j 1.+0.j]]
    """
    return _along_axes("IFFT", convert_to_tensor(x), s, axes, norm, name)


def rfft(
    x: TensorLike, *, n: int | None = None, axis: int = -1, norm: str = "backward", name: str | None = None
) -> Tensor:
    """The first n / 2 + 1 elements of the transform of real numbers, which say all; see `fft`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.fft.rfft([1.0, 0.0, 0.0, 0.0])
      >>> print(hr.Session(graph).run(y))
      [1.+0.j 1.+0.j 1.+0.j]
    """
    rows, position = along_last(_floating(x), axis, "rfft")
    size = _size(rows) if n is None else n
    wide = types.complex128 if rows.dtype is types.float64 else types.complex64
    result: Tensor = apply_op("RFFT", rows, _length(size), Tcomplex=wide)
    return _placed(_scaled(result, size, _forward_factor(norm)), position, name)


def irfft(
    x: TensorLike, *, n: int | None = None, axis: int = -1, norm: str = "backward", name: str | None = None
) -> Tensor:
    """The inverse of `rfft`: real numbers; n is by default 2 (m - 1) for m elements along the axis; see `fft`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.fft.irfft([1.0, 1.0, 1.0])
      >>> print(hr.Session(graph).run(y))
      [1. 0. 0. 0.]
    """
    rows, position = along_last(_complex(x), axis, "irfft")
    size = _real_size(rows) if n is None else n
    result: Tensor = apply_op("IRFFT", rows, _length(size), Treal=part_dtype(rows.dtype))
    return _placed(_scaled(result, size, _inverse_factor(norm)), position, name)


def rfftn(
    x: TensorLike,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """The transform of real numbers along several axes: `rfft` along the last of them, then `fftn` along the others.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.fft.rfftn([[1.0, 1.0], [1.0, 1.0]])
      >>> print(hr.Session(graph).run(y))
      [[4.+0.j 0.+0.j]
       [0.+0.j 0.+0.j]]
    """
    tensor = convert_to_tensor(x)
    sizes, chosen = _sizes_and_axes(tensor, s, axes)
    last = rfft(tensor, n=sizes[-1], axis=chosen[-1], norm=norm)
    return _along_axes("FFT", last, sizes[:-1], chosen[:-1], norm, name)


def irfftn(
    x: TensorLike,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
    name: str | None = None,
) -> Tensor:
    """The inverse of `rfftn`: `ifftn` along all axes but the last, then `irfft` along that.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.fft.irfftn([[4.0, 0.0], [0.0, 0.0]])
      >>> print(hr.Session(graph).run(y))
      [[1. 1.]
       [1. 1.]]
    """
    tensor = convert_to_tensor(x)
    sizes, chosen = _sizes_and_axes(tensor, s, axes)
    others = _along_axes("IFFT", tensor, sizes[:-1], chosen[:-1], norm, None)
    return irfft(others, n=sizes[-1], axis=chosen[-1], norm=norm, name=name)


def hfft(
    x: TensorLike, *, n: int | None = None, axis: int = -1, norm: str = "backward", name: str | None = None
) -> Tensor:
    """The transform of a signal whose second half is the conjugate of the first, given the first: real; see `fft`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.fft.hfft([1.0, 1.0, 1.0])
      >>> print(hr.Session(graph).run(y))
      [4. 0. 0. 0.]
    """
    return irfft(conj(_complex(x)), n=n, axis=axis, norm=_exchanged(norm), name=name)


def ihfft(
    x: TensorLike, *, n: int | None = None, axis: int = -1, norm: str = "backward", name: str | None = None
) -> Tensor:
    """The inverse of `hfft`; see `fft`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.fft.ihfft([4.0, 0.0, 0.0, 0.0])
      >>> print(hr.Session(graph).run(hr.real(y)))
      [1. 1. 1.]
    """
    return conj(rfft(x, n=n, axis=axis, norm=_exchanged(norm)), name=name)


def _complex_transform(op_type: str, x: TensorLike, n: int | None, axis: int, norm: str, name: str | None) -> Tensor:
    factor = _forward_factor(norm) if op_type == "FFT" else _inverse_factor(norm)
    rows, position = along_last(_complex(x), axis, op_type.lower())
    if n is not None:
        rows = resized(rows, positive_length(n))
    result: Tensor = apply_op(op_type, rows)
    return _placed(_scaled(result, _size(rows), factor), position, name)


def _along_axes(
    op_type: str,
    x: Tensor,
    s: Sequence[int | None] | None,
    axes: Sequence[int] | None,
    norm: str,
    name: str | None,
) -> Tensor:
    result = _complex(x)
    for size, axis in zip(*_sizes_and_axes(result, s, axes), strict=True):
        result = _complex_transform(op_type, result, size, axis, norm, None)
    named: Tensor = apply_op("Identity", result, name=name) if name is not None else result
    return named


def _sizes_and_axes(
    x: Tensor, s: Sequence[int | None] | None, axes: Sequence[int] | None
) -> tuple[list[int | None], list[int]]:
    rank = known_rank(x, "a transform along several axes")
    count = rank if s is None else len(s)
    chosen = list(normalize_axes(range(rank - count, rank) if axes is None else axes, rank))
    sizes: list[int | None] = [None] * len(chosen) if s is None else list(s)
    if len(sizes) != len(chosen):
        raise InvalidArgumentError(
            "there must be one length for each axis",
            expected=f"{len(chosen)} lengths",
            got=str(sizes),
            hint="leave out s to keep the sizes, or axes to take the last ones",
        )
    return sizes, chosen


def resized(x: Tensor, size: int | Tensor) -> Tensor:
    """`x` with its last axis cut, or filled with zeros, to a size; its rank must be known."""
    if isinstance(size, int) and x.shape[-1] == size:
        return x
    cut = x[..., :size]
    missing = apply_op("Sub", size, apply_op("Shape", cut)[-1])
    padding = apply_op("Pack", [0, missing])
    none = apply_op("ZerosLike", padding)
    result: Tensor = apply_op("Pad", cut, apply_op("Pack", [none] * (known_rank(x, "a transform") - 1) + [padding]))
    return result


def _size(x: Tensor) -> int | Tensor:
    """The size of the last axis, a number where it is known."""
    static = x.shape[-1]
    dynamic: Tensor = apply_op("Shape", x)[-1]
    return dynamic if static is None else static


def _real_size(x: Tensor) -> int | Tensor:
    size = _size(x)
    if isinstance(size, int):
        return 2 * (size - 1)
    doubled: Tensor = apply_op("Mul", apply_op("Sub", size, 1), 2)
    return doubled


def _length(size: int | Tensor) -> Tensor:
    if isinstance(size, int):
        return convert_to_tensor(np.array([positive_length(size)], np.int32))
    vector: Tensor = apply_op("ExpandDims", size, 0)
    return vector


_NORMS = ("backward", "ortho", "forward")


def _forward_factor(norm: str) -> float:
    """The power of the length by which the sums of a forward transform are multiplied."""
    if norm not in _NORMS:
        raise InvalidArgumentError(
            "the norm is not known",
            expected="one of: " + ", ".join(_NORMS),
            got=repr(norm),
            hint="leave out norm to scale only the inverse transform",
        )
    return {"backward": 0.0, "ortho": -0.5, "forward": -1.0}[norm]


def _inverse_factor(norm: str) -> float:
    """The same for an inverse one, whose operation divides by the length."""
    return _forward_factor(norm) + (0.0 if norm == "backward" else 1.0 if norm == "ortho" else 2.0)


def _exchanged(norm: str) -> str:
    """The norm of a forward transform that an inverse one computes."""
    return {"backward": "forward", "forward": "backward"}.get(norm, norm)


def _scaled(x: Tensor, size: int | Tensor, power: float) -> Tensor:
    if not power:
        return x
    if isinstance(size, int):
        factor: Tensor = convert_to_tensor(math.pow(size, power), x.dtype)
    else:
        factor = apply_op("Pow", apply_op("Cast", size, DstT=x.dtype), convert_to_tensor(power, x.dtype))
    result: Tensor = apply_op("Mul", x, factor)
    return result


def _placed(x: Tensor, position: int, name: str | None) -> Tensor:
    """The transformed axis moved back to where it was."""
    if position != -1:
        return moveaxis(x, -1, position, name=name)
    result: Tensor = apply_op("Identity", x, name=name) if name is not None else x
    return result


def _floating(x: TensorLike) -> Tensor:
    (value,) = promoted(x)
    if value.dtype in (types.float32, types.float64):
        return value
    if value.dtype.is_complex:
        raise InvalidArgumentError(
            "rfft transforms real numbers", where=value.op.location, expected="a real dtype", got=str(value.spec),
            hint="hr.fft.fft",
        )  # fmt: skip
    result: Tensor = apply_op("Cast", value, DstT=types.float32)
    return result


def _complex(x: TensorLike) -> Tensor:
    (value,) = promoted(x)
    if value.dtype.is_complex:
        return value
    real = _floating(value)
    return complex_of(real, apply_op("ZerosLike", real))
