"""Gradient rules of the reduction family: g, of the reduced shape, goes back to every element that took part."""

from __future__ import annotations

from headrace.errors import GradientError
from headrace.grad.broadcast import conjugate
from headrace.grad.registry import no_gradient, register_gradient
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.operation import Operation, Tensor
from headrace.graph.shape_value import constant_value
from headrace.types import int64

for _name in ("Any", "All"):
    no_gradient(_name, "it works on bools")
for _name in ("ArgMax", "ArgMin"):
    no_gradient(_name, "its output is an integer position")


def _op(op_type: str, *inputs: TensorLike, **attrs: object) -> Tensor:
    result: Tensor = apply_op(op_type, *inputs, name=None, **attrs)
    return result


def keep_axes(op: Operation, reduced: Tensor) -> Tensor:
    """Give a tensor of the output's shape the reduced axes back, with size 1, so that it broadcasts with the input."""
    x, axis = op.inputs
    if op.attr("keep_dims"):
        return reduced
    axes = constant_value(axis)
    if axes is None or x.shape.rank is None:
        return _op("Reshape", reduced, _op("Shape", _op("Sum", x, axis, keep_dims=True)))
    for position in sorted(int(item) % x.shape.rank for item in axes.reshape(-1)):
        reduced = _op("ExpandDims", reduced, position)
    return reduced


def spread(op: Operation, g: Tensor) -> Tensor:
    """g in the shape of the input, repeated along the reduced axes."""
    return _op("BroadcastTo", keep_axes(op, g), _op("Shape", op.inputs[0]))


@register_gradient("Sum")
def _sum(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Every term has the derivative 1."""
    return [spread(op, g), None]


@register_gradient("Mean")
def _mean(op: Operation, g: Tensor) -> list[Tensor | None]:
    """Every term has the derivative 1 / n; the division comes first, where there are fewer elements."""
    x, y = op.inputs[0], op.outputs[0]
    terms, results = x.shape.num_elements, y.shape.num_elements
    if terms is not None and results is not None:
        return [spread(op, g / max(terms // max(results, 1), 1)), None]
    counts = [_op("Size", tensor, out_type=int64) for tensor in (x, y)]
    count = _op("Maximum", _op("FloorDiv", counts[0], _op("Maximum", counts[1], 1)), 1)
    return [spread(op, g / _op("Cast", count, DstT=x.dtype)), None]


@register_gradient("Max")
@register_gradient("Min")
def _extreme(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The elements that are equal to the result share g."""
    x, axis = op.inputs
    chosen = _op("Cast", _op("Equal", x, keep_axes(op, op.outputs[0])), DstT=x.dtype)
    share = keep_axes(op, g) / _op("Sum", chosen, axis, keep_dims=True)
    return [chosen * share, None]


@register_gradient("Prod")
def _prod(op: Operation, g: Tensor) -> list[Tensor | None]:
    """The derivative by an element is the product of all others.

    It is made of the products of those before and those after it, never by dividing by the element, so it is right
    where elements are zero, in second order too.
    """
    x, axes = op.inputs[0], constant_value(op.inputs[1])
    rank = x.shape.rank
    if rank is None or axes is None:
        raise GradientError(
            f"'{op.name}' multiplies along axes that are not known while the graph is built",
            where=op.location,
            expected="a known rank and constant axes",
            got=f"{x.spec}, axes {op.inputs[1].name}",
            hint="x.set_shape(...), or give the axes as integers",
        )
    reduced = sorted(int(axis) % rank for axis in axes.reshape(-1))
    return [keep_axes(op, g) * _products_of_others(conjugate(x), reduced), None]


def _products_of_others(x: Tensor, axes: list[int]) -> Tensor:
    """Several axes are brought to the front and joined to one."""
    if len(axes) == 1:
        before = _op("Cumprod", x, axes[0], exclusive=True)
        return before * _op("Cumprod", x, axes[0], exclusive=True, reverse=True)
    order = [*axes, *(axis for axis in range(len(x.shape)) if axis not in axes)]
    front = _op("Transpose", x, order)
    sizes = _op("Shape", front)
    joined = _op("ExpandDims", _op("Prod", sizes[: len(axes)], 0), 0)
    rows = _op("Reshape", front, _op("ConcatV2", [joined, sizes[len(axes) :]], 0))
    others = _op("Reshape", _products_of_others(rows, [0]), sizes)
    return _op("Transpose", others, [order.index(axis) for axis in range(len(order))])


@register_gradient("EuclideanNorm")
def _euclidean_norm(op: Operation, g: Tensor) -> list[Tensor | None]:
    """x / norm, and 0 where the norm is 0: of all subgradients there the shortest."""
    x = op.inputs[0]
    return [keep_axes(op, g) * _op("DivNoNan", x, keep_axes(op, op.outputs[0])), None]
