"""Arithmetic simplification: operations that provably change nothing disappear.

Every rule is exact for every value, NaN, infinities and signed zeros included: `x * 1`, `x / 1` and `x - 0` are x,
whereas `x * 0`, `x - x` and `x + 0` (which turns -0.0 into 0.0) stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from headrace.graph.attr import without_repeats
from headrace.graph.frames import has_tokens
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.graph.shape_value import constant_value
from headrace.passes.rewrite import rewrite_live

__all__ = ["arithmetic"]

Simplification = Callable[[Operation, Sequence[Tensor]], Tensor | None]
_rules: dict[str, Simplification] = {}


def arithmetic(graph: Graph) -> Graph:
    """Remove operations that give back one of their inputs unchanged, and pairs that undo each other.

    A graph in which values may be dead stays as it is: what an operation gives may be dead where its input is alive.
    """
    changes = not has_tokens(graph) and any(_simplify(op, op.inputs, graph) is not None for op in graph.operations)
    return rewrite_live(graph, _simplify) if changes else graph


def _simplify(op: Operation, inputs: Sequence[Tensor], graph: Graph) -> Sequence[Tensor] | None:
    rule = _rules.get(op.type)
    if rule is None or op.control_inputs or "_target" in op.attrs:
        return None
    same = rule(op, inputs)
    return None if same is None else [same]


def _rule(*types: str) -> Callable[[Simplification], Simplification]:
    def decorate(function: Simplification) -> Simplification:
        for name in types:
            _rules[name] = function
        return function

    return decorate


def _keeps_shape(op: Operation, tensor: Tensor) -> bool:
    return tensor.shape.is_fully_defined and tensor.shape == op.outputs[0].shape


def _is_constant(tensor: Tensor, number: float, *, negative_zero: bool = False) -> bool:
    """True if every element is exactly `number`, with the given sign where it is zero.

    Never true of complex constants: complex multiplication by 1 + 0j makes NaN of infinities.
    """
    value = constant_value(tensor)
    if value is None or value.size == 0 or not (tensor.dtype.is_floating or tensor.dtype.is_integer):
        return False
    value = without_repeats(value)
    if not bool(np.all(value == number)):
        return False
    return number != 0 or tensor.dtype.is_integer or bool(np.all(np.signbit(value) == negative_zero))


@_rule("Identity", "StopGradient", "PreventGradient", "Snapshot")
def _identity(op: Operation, inputs: Sequence[Tensor]) -> Tensor | None:
    return inputs[0]


@_rule("Mul")
def _mul(op: Operation, inputs: Sequence[Tensor]) -> Tensor | None:
    for value, factor in (inputs, reversed(inputs)):
        if _is_constant(factor, 1) and _keeps_shape(op, value):
            return value
    return None


@_rule("RealDiv", "Div")
def _div(op: Operation, inputs: Sequence[Tensor]) -> Tensor | None:
    return inputs[0] if _is_constant(inputs[1], 1) and _keeps_shape(op, inputs[0]) else None


@_rule("AddV2", "Add")
def _add(op: Operation, inputs: Sequence[Tensor]) -> Tensor | None:
    for value, term in (inputs, reversed(inputs)):
        if _is_constant(term, 0, negative_zero=True) and _keeps_shape(op, value):
            return value
    return None


@_rule("Sub")
def _sub(op: Operation, inputs: Sequence[Tensor]) -> Tensor | None:
    if _is_constant(inputs[1], 0) and _keeps_shape(op, inputs[0]):
        return inputs[0]
    return None


@_rule("AddN")
def _add_n(op: Operation, inputs: Sequence[Tensor]) -> Tensor | None:
    return inputs[0] if len(inputs) == 1 else None


@_rule("Neg", "LogicalNot", "Invert", "Conj")
def _involution(op: Operation, inputs: Sequence[Tensor]) -> Tensor | None:
    producer = inputs[0].op
    return producer.inputs[0] if producer.type == op.type and not producer.control_inputs else None


@_rule("Cast")
def _cast(op: Operation, inputs: Sequence[Tensor]) -> Tensor | None:
    return inputs[0] if op.outputs[0].dtype is inputs[0].dtype else None


@_rule("Reshape", "BroadcastTo", "Squeeze", "ExpandDims")
def _same_shape(op: Operation, inputs: Sequence[Tensor]) -> Tensor | None:
    return inputs[0] if _keeps_shape(op, inputs[0]) else None


@_rule("Tile")
def _tile(op: Operation, inputs: Sequence[Tensor]) -> Tensor | None:
    return inputs[0] if _is_constant(inputs[1], 1) else None


@_rule("Transpose")
def _transpose(op: Operation, inputs: Sequence[Tensor]) -> Tensor | None:
    permutation = constant_value(inputs[1])
    if permutation is None:
        return None
    if bool(np.array_equal(permutation, np.arange(len(permutation)))):
        return inputs[0]
    producer = inputs[0].op
    undoable = producer.type == "Transpose" and not producer.control_inputs
    inner = constant_value(producer.inputs[1]) if undoable else None
    undone = inner is not None and bool(np.array_equal(inner[permutation], np.arange(len(permutation))))
    return producer.inputs[0] if undone else None


@_rule("Sum", "Prod", "Max", "Min", "Mean", "Any", "All")
def _reduction(op: Operation, inputs: Sequence[Tensor]) -> Tensor | None:
    axes = constant_value(inputs[1])
    return inputs[0] if axes is not None and axes.size == 0 else None
