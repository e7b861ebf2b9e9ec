"""Gradient rules of operations that count."""

from __future__ import annotations

from headrace.grad.array import sum_all
from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor

no_gradient("Range", "its bounds decide how many elements there are")


@register_gradient("LinSpace")
def _lin_space(op: Operation, g: Tensor) -> list[Tensor | None]:
    """y[i] = start (1 - t[i]) + stop t[i] with t from 0 to 1."""
    one = apply_op("OnesLike", op.inputs[0])
    zero = apply_op("ZerosLike", op.inputs[0])
    rising = apply_op("LinSpace", zero, one, op.inputs[2])
    falling = apply_op("Sub", one, rising)
    return [sum_all(apply_op("Mul", g, falling)), sum_all(apply_op("Mul", g, rising)), None]
