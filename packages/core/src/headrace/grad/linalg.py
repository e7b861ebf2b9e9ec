"""Gradient rules of the linalg family."""

from __future__ import annotations

from headrace.grad.broadcast import conjugate
from headrace.grad.registry import register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor


def _product(a: Tensor, b: Tensor, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    result: Tensor = apply_op("MatMul", a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    return result


@register_gradient("MatMul")
def _matmul(op: Operation, g: Tensor) -> list[Tensor]:
    """d(A B) = dA B + A dB: dA gets g B', dB gets A' g, each transposed as the operand was."""
    a, b = conjugate(op.inputs[0]), conjugate(op.inputs[1])
    match op.attr("transpose_a"), op.attr("transpose_b"):
        case False, False:
            return [_product(g, b, transpose_b=True), _product(a, g, transpose_a=True)]
        case False, True:
            return [_product(g, b), _product(g, a, transpose_a=True)]
        case True, False:
            return [_product(b, g, transpose_b=True), _product(a, g)]
        case _:
            return [_product(b, g, True, True), _product(g, a, True, True)]
