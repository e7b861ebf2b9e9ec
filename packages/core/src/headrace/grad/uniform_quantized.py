"""Integers that stand for multiples of a number have no derivatives."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

_REASON = "it computes with integers; hr.quantization.fake_quant passes rounding over"
for _name in (
    "UniformQuantize",
    "UniformDequantize",
    "UniformQuantizedDot",
    "UniformQuantizedConvolution",
    "UniformQuantizedAdd",
):
    no_gradient(_name, _REASON)
