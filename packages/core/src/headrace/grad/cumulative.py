"""Gradient rules of the cumulative family."""

from __future__ import annotations

import math

from headrace.errors import GradientError
from headrace.grad.broadcast import conjugate
from headrace.grad.registry import register_gradient
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.operation import Operation, Tensor
from headrace.graph.shape_value import constant_value


def _op(op_type: str, *inputs: TensorLike, **attrs: object) -> Tensor:
    result: Tensor = apply_op(op_type, *inputs, name=None, **attrs)
    return result


@register_gradient("Cumsum")
def _cumsum(op: Operation, g: Tensor) -> list[Tensor | None]:
    """An element is in every sum from its own place on: the gradients are summed the other way round."""
    reverse = not op.attr("reverse")
    return [_op("Cumsum", g, op.inputs[1], exclusive=op.attr("exclusive"), reverse=reverse), None]


@register_gradient("Cumprod")
def _cumprod(op: Operation, g: Tensor) -> list[Tensor | None]:
    """dx[i] = before[i] * s[i] with before[i] = x[0] ... x[i-1] and s[i] = g[i] + x[i+1] s[i+1].

    The usual form, a sum divided by x[i], is wrong where x[i] is 0, which the gradient of a product along an axis meets
    in second order. An exclusive product has g[i+1] in the place of g[i].
    """
    x, axis = conjugate(op.inputs[0]), op.inputs[1]
    reverse = op.attr("reverse")
    if reverse:
        x, g = (_op("ReverseV2", tensor, _op("ExpandDims", axis, 0)) for tensor in (x, g))
    position, size = _static_axis(op)
    terms = _shifted(g, position, 1) if op.attr("exclusive") else g
    gradient = _op("Cumprod", x, axis, exclusive=True) * _recurrence(_shifted(x, position, 1), terms, position, size)
    return [_op("ReverseV2", gradient, _op("ExpandDims", axis, 0)) if reverse else gradient, None]


def _static_axis(op: Operation) -> tuple[int, int]:
    """The axis and its size, which decide how many operations the gradient takes."""
    x, axis = op.inputs[0], constant_value(op.inputs[1])
    position = 0 if axis is None or x.shape.rank is None else int(axis) % x.shape.rank
    size = x.shape[position] if axis is not None and x.shape.rank is not None else None
    if size is None:
        raise GradientError(
            f"'{op.name}' runs along an axis whose size is not known while the graph is built",
            where=op.location,
            expected="a known rank, a constant axis and a known size of it",
            got=f"{x.spec}, axis '{op.inputs[1].name}'",
            hint="x.set_shape(...), or give the placeholder a shape",
        )
    return position, size


def _shifted(x: Tensor, axis: int, distance: int) -> Tensor:
    """x[i + distance] along an axis, 0 beyond the end."""
    rank = len(x.shape)
    begin, padding = [0] * rank, [[0, 0] for _ in range(rank)]
    begin[axis], padding[axis][1] = distance, distance
    return _op("Pad", _op("Slice", x, begin, [-1] * rank), padding)


def _recurrence(factor: Tensor, term: Tensor, axis: int, size: int) -> Tensor:
    """s[i] = term[i] + factor[i] * s[i + 1], in about log2(size) steps that each double the reach.

    Source: prefix sums of an associative operation; W. Hillis and G. Steele, Data Parallel Algorithms, CACM 1986.
    """
    distance = 1
    while distance < size:
        term = term + factor * _shifted(term, axis, distance)
        factor = factor * _shifted(factor, axis, distance)
        distance *= 2
    return term


@register_gradient("CumulativeLogsumexp")
def _cumulative_logsumexp(op: Operation, g: Tensor) -> list[Tensor | None]:
    """dx[i] = sum over j >= i of g[j] exp(x[i] - z[j]).

    The sums are taken of logarithms, so that nothing overflows; those of the positive and of the negative g apart.
    """
    x, axis = op.inputs
    attrs = {"exclusive": op.attr("exclusive"), "reverse": not op.attr("reverse")}

    def part(g: Tensor) -> Tensor:
        positive = _op("Greater", g, _op("ZerosLike", g))
        logarithm = _op("Log", _op("SelectV2", positive, g, _op("OnesLike", g)))
        exponents = _op("SelectV2", positive, logarithm - op.outputs[0], _op("OnesLike", g) * -math.inf)
        return _op("Exp", _op("CumulativeLogsumexp", exponents, axis, **attrs) + x)

    return [part(g) - part(-g), None]
