"""Gradient rules of discrete Fourier transforms: they are linear, so each gradient is the adjoint transform of g.

Gradients of complex numbers follow TensorFlow's convention (see `grad/complex.py`); e(t) is exp(2 pi i t).
"""

from __future__ import annotations

from headrace.grad.registry import register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor
from headrace.ops.fft import resized


def _last_size(x: Tensor) -> Tensor:
    size: Tensor = apply_op("Shape", x)[-1]
    return size


def _as(x: Tensor, like: Tensor) -> Tensor:
    result: Tensor = apply_op("Cast", x, DstT=like.dtype)
    return result


@register_gradient("FFT")
def _fft(op: Operation, g: Tensor) -> list[Tensor]:
    """The sums of g[k] e(k n / N): N times the inverse transform."""
    return [apply_op("IFFT", g) * _as(_last_size(g), g)]


@register_gradient("IFFT")
def _ifft(op: Operation, g: Tensor) -> list[Tensor]:
    """The sums of g[n] e(-k n / N), divided by N."""
    return [apply_op("FFT", g) / _as(_last_size(g), g)]


def _register_several(axes: int) -> None:
    def count(x: Tensor) -> Tensor:
        size: Tensor = apply_op("Prod", apply_op("Shape", x)[-axes:], [0])
        return _as(size, x)

    @register_gradient(f"FFT{axes}D")
    def forward(op: Operation, g: Tensor) -> list[Tensor]:
        """As `FFT`, where N is the number of elements that are transformed together."""
        return [apply_op(f"IFFT{axes}D", g) * count(g)]

    @register_gradient(f"IFFT{axes}D")
    def inverse(op: Operation, g: Tensor) -> list[Tensor]:
        """As `IFFT`, likewise."""
        return [apply_op(f"FFT{axes}D", g) / count(g)]


_register_several(2)
_register_several(3)


@register_gradient("RFFT")
def _rfft(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The real part of the sums of g[k] e(k n / N) over the k that were computed, in the length of the input."""
    x, length = op.inputs[0], op.inputs[1][0]
    sums = apply_op("IFFT", resized(g, length))
    by_row: Tensor = apply_op("Real", sums, Tout=x.dtype) * _as(length, x)
    return [resized(by_row, _last_size(x)), None]


@register_gradient("IRFFT")
def _irfft(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The sums of g[n] e(-k n / N) / N; twice those of k that stand for -k too: all but 0 and N / 2."""
    x, length = op.inputs[0], op.inputs[1][0]
    sums: Tensor = apply_op("RFFT", g, op.inputs[1], Tcomplex=x.dtype)
    k = apply_op("Range", 0, _last_size(sums), 1)
    alone = apply_op("LogicalOr", apply_op("Equal", k, 0), apply_op("Equal", apply_op("Mul", k, 2), length))
    weights = apply_op("SelectV2", alone, 1, 2)
    return [resized(sums * _as(weights, sums) / _as(length, sums), _last_size(x)), None]
