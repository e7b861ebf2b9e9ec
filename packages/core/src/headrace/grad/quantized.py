"""Quantised tensors are integers: they have no derivatives."""

from __future__ import annotations

from headrace.grad.registry import no_gradient

_REASON = "its result is integers; hr.quantization.fake_quant passes rounding over"
for _name in (
    "QuantizedMatMul",
    "QuantizedConv2D",
    "QuantizedBiasAdd",
    "QuantizedRelu",
    "RequantizationRange",
    "Requantize",
    "Dequantize",
    "QuantizeV2",
):
    no_gradient(_name, _REASON)
