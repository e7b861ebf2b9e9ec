"""Gradient rules of attention; that of second order differentiates a composition that computes the same."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.grad.backprop import gradients
from headrace.grad.registry import register_gradient
from headrace.graph.apply import apply_op
from headrace.graph.operation import Operation, Tensor

__all__: list[str] = []


@register_gradient("Attention")
def _attention(op: Operation, g: Tensor) -> list[Tensor | None]:
    """g: `[batch..., queries, width]`."""
    attrs = {name: op.attrs[name] for name in ("scale", "causal")}
    return [*apply_op("AttentionGrad", *op.inputs, g, **attrs), None]


@register_gradient("AttentionGrad")
def _attention_grad(op: Operation, *arrived: Tensor) -> list[Tensor | None]:
    """The derivative of the gradients of plain operations that compute the same."""
    mask = op.inputs[3]
    own = [apply_op("Identity", tensor) for tensor in (*op.inputs[:3], op.inputs[4])]
    y = _plain(op, own[0], own[1], own[2], mask)
    found: Sequence[Tensor] = gradients([y], own[:3], grad_ys=[own[3]])
    query, key, value, gradient = gradients(found, own, grad_ys=list(arrived))
    return [query, key, value, None, gradient]


def _plain(op: Operation, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """What Attention computes, from plain operations."""
    scores = apply_op("BatchMatMulV2", query, key, adj_y=True)
    scale = op.attrs["scale"]
    if not scale:
        depth = apply_op("Cast", apply_op("GatherV2", apply_op("Shape", query), -1 + _rank(query), 0), DstT=query.dtype)
        scale = apply_op("Rsqrt", depth)
    scores = apply_op("Mul", scores, scale)
    allowed = mask
    if op.attrs["causal"]:
        ones = apply_op("OnesLike", scores)
        sizes = apply_op("Shape", scores)
        rank = _rank(query)
        queries, keys = (apply_op("GatherV2", sizes, rank - 2 + place, 0) for place in (0, 1))
        reach = apply_op("Sub", keys, queries)
        # Row i may look at the columns up to i + keys - queries.
        columns = apply_op("Range", 0, keys, 1)
        rows = apply_op("ExpandDims", apply_op("AddV2", apply_op("Range", 0, queries, 1), reach), 1)
        before = apply_op("LessEqual", columns, rows)
        allowed = apply_op("LogicalAnd", apply_op("LogicalAnd", mask, before), apply_op("Greater", ones, 0.0))
    lowest = apply_op("Cast", float("-inf"), DstT=query.dtype)
    masked = apply_op("SelectV2", allowed, scores, lowest)
    result: Tensor = apply_op("BatchMatMulV2", apply_op("Softmax", masked), value)
    return result


def _rank(tensor: Tensor) -> int:
    return len(tensor.shape)
