"""Gradient rules of the quantization family: rounding is passed over, since its derivative is 0 almost everywhere."""

from __future__ import annotations

from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.apply import apply_op, constant
from headrace.graph.operation import Operation, Tensor
from headrace.types import float32


@register_gradient("FakeQuantWithMinMaxVars")
def _fake_quant(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Inputs inside the range have the derivative 1; those beyond an end are that end."""
    attrs = {name: op.attrs[name] for name in ("num_bits", "narrow_range")}
    return list(apply_op("FakeQuantWithMinMaxVarsGradient", g, *op.inputs, **attrs))


@register_gradient("FakeQuantWithMinMaxVarsPerChannel")
def _fake_quant_per_channel(op: Operation, g: Tensor) -> list[Tensor | None]:
    """As for one range, channel by channel."""
    attrs = {name: op.attrs[name] for name in ("num_bits", "narrow_range")}
    return list(apply_op("FakeQuantWithMinMaxVarsPerChannelGradient", g, *op.inputs, **attrs))


@register_gradient("FakeQuantWithMinMaxArgs")
def _fake_quant_args(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Inputs inside the range have the derivative 1, others 0."""
    attrs = {name: op.attrs[name] for name in ("num_bits", "narrow_range")}
    low, high = (constant(op.attrs[name], float32) for name in ("min", "max"))
    return [apply_op("FakeQuantWithMinMaxVarsGradient", g, op.inputs[0], low, high, **attrs)[0]]


for _name in ("FakeQuantWithMinMaxVarsGradient", "FakeQuantWithMinMaxVarsPerChannelGradient"):
    no_gradient(_name, "a gradient that passes rounding over has no derivative of its own")


@register_gradient("QuantizeAndDequantizeV3")
def _quantize_and_dequantize(op: Operation, g: Tensor) -> list[Tensor | None]:
    """As if nothing had been rounded."""
    return [g, None, None, None]
