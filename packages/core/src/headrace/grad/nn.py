"""Gradient rules of the bias."""

from __future__ import annotations

from headrace.grad.registry import register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor

__all__: list[str] = []


@register_gradient("BiasAdd")
def _bias_add(op: Operation, g: Tensor) -> list[Tensor]:
    """g: the shape of the value."""
    return [g, apply_op("BiasAddGrad", g, data_format=op.attrs["data_format"])]


@register_gradient("BiasAddGrad")
def _bias_add_grad(op: Operation, g: Tensor) -> list[Tensor]:
    """g: `[channels]`, repeated over everything else."""
    zeros = apply_op("ZerosLike", op.inputs[0])
    return [apply_op("BiasAdd", zeros, g, data_format=op.attrs["data_format"])]
