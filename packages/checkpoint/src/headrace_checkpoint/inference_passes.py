"""What a graph that will only infer can be spared beside what any graph can, and the levels of it.

Results agree to rounding: multiplications by constants move into the weights before them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import headrace as hr
from headrace.passes import copy_op, drop_dead, rewrite
from headrace_checkpoint.dtypes import Array

__all__ = ["LEVELS", "drop_waits", "fold_scales"]

_SUMS = frozenset({"Add", "AddV2", "BiasAdd"})
_TOKENS = frozenset({"Switch", "Merge", "Enter"})
_ROUNDS = 64
"""Each round moves every scale by one operation; so many operations in a row between a product and its scale end it."""


def drop_waits(graph: hr.Graph) -> hr.Graph:
    """Let no operation wait for one that has no effect, as reads of variables that are constants now have none.

    A graph with branches or loops of primitives stays as it is: there an operation is dead where what it waits for is.

    Args:
      graph: a bounded graph.
    """
    if any(op.type in _TOKENS for op in graph.operations):
        return graph
    effects: dict[hr.Operation, bool] = {}
    for op in graph.operations:
        before = [tensor.op for tensor in op.inputs] + list(op.control_inputs)
        effects[op] = op.is_stateful or any(effects[item] for item in before)

    def rule(op: hr.Operation, inputs: Sequence[hr.Tensor], target: hr.Graph) -> Sequence[hr.Tensor] | None:
        if not op.outputs or not op.control_inputs or any(effects[item] for item in op.control_inputs):
            return None
        return copy_op(op, inputs, target).outputs

    return drop_dead(rewrite(graph, rule))


def fold_scales(graph: hr.Graph) -> hr.Graph:
    """Move what multiplies the channels of a convolution or matrix product into its weights, batch normalisation too.

    A batch normalisation by constant statistics becomes a product and a sum. A product by constants goes past sums of
    constants into the weights of the `Conv2D`, `Conv3D`, `DepthwiseConv2dNative` or `MatMul` before it, if nothing else
    reads what that gives. Two sums of constants in a row become one. The bodies of loops and branches stay as they are.

    Args:
      graph: a bounded graph.
    """
    for _ in range(_ROUNDS):
        before = graph
        graph = _round(graph)
        if graph is before:
            break
    return graph


def _round(graph: hr.Graph) -> hr.Graph:
    readers = Counter(tensor for op in graph.operations for tensor in op.inputs)
    changed = False

    def rule(op: hr.Operation, inputs: Sequence[hr.Tensor], target: hr.Graph) -> Sequence[hr.Tensor] | None:
        nonlocal changed
        if op.control_inputs or "_target" in op.attrs:
            return None
        result = _replacement(op, inputs, _Rewriting(op, target, readers))
        changed = changed or result is not None
        return result

    result = rewrite(graph, rule)
    return drop_dead(result) if changed else graph


class _Rewriting:
    """What a rule needs beside the operation and its inputs."""

    def __init__(self, op: hr.Operation, target: hr.Graph, readers: Counter[hr.Tensor]) -> None:
        self._op, self._target, self._readers = op, target, readers

    def is_read_once(self, tensor: hr.Tensor) -> bool:
        """True if nothing but one operation reads a tensor of the old graph."""
        return self._readers[tensor] == 1

    def is_unread(self, tensors: Sequence[hr.Tensor]) -> bool:
        """True if nothing reads the tensors of the old graph."""
        return not any(self._readers[tensor] for tensor in tensors)

    def add(self, kind: str, inputs: Sequence[hr.Tensor], attrs: Any, part: str = "") -> hr.Tensor:
        """Add an operation in the place of the old one, under its name or, for a part of it, beneath that."""
        name = f"{self._op.name}/{part}/" if part else f"{self._op.name}/"
        made = self._target.create_op(kind, inputs, attrs, name=name, device=self._op.device, source=self._op.source)
        return made.outputs[0]

    def constant(self, value: Array, like: hr.Tensor, part: str) -> hr.Tensor:
        """Add a constant of a tensor's dtype."""
        array = np.asarray(value).astype(like.dtype.array_type)
        return self.add("Const", (), {"value": array, "dtype": like.dtype}, part)


def _replacement(op: hr.Operation, inputs: Sequence[hr.Tensor], make: _Rewriting) -> Sequence[hr.Tensor] | None:
    if op.type not in ("Mul", "Sub", "FusedBatchNormV3", *_SUMS) or inputs[0].dtype not in (hr.float32, hr.float64):
        return None
    if op.type == "FusedBatchNormV3":
        return _normalization(op, inputs, make)
    position = next((number for number in (1, 0) if _constant(inputs[number]) is not None), None)
    if position is None:
        return None
    old, tensor, value = op.inputs[1 - position], inputs[1 - position], _constant(inputs[position])
    if value is None or tensor.op.control_inputs or tensor.op.type != old.op.type or not make.is_read_once(old):
        return None
    if op.type == "Mul":
        return _scale(old.op, tensor, value, make)
    if op.type == "Sub":
        return _difference(tensor, value, make) if position == 1 else None
    return _shift(op, tensor, value, make)


def _constant(tensor: hr.Tensor) -> Array | None:
    return tensor.op.attrs["value"] if tensor.op.type == "Const" else None


def _normalization(op: hr.Operation, inputs: Sequence[hr.Tensor], make: _Rewriting) -> Sequence[hr.Tensor] | None:
    """`scale * (x - mean) / sqrt(variance + epsilon) + offset` as a product and a sum."""
    values = [_constant(tensor) for tensor in inputs[1:]]
    if op.attrs["is_training"] or any(value is None for value in values) or not make.is_unread(op.outputs[1:]):
        return None
    scale, offset, mean, variance = (np.asarray(value, np.float64) for value in values if value is not None)
    factor = scale / np.sqrt(variance + op.attrs["epsilon"])
    shape = _along_channels(op.attrs["data_format"])
    x = inputs[0]
    product = make.add("Mul", [x, make.constant(factor.reshape(shape), x, "factor")], {"T": x.dtype}, "scaled")
    term = make.constant((offset - mean * factor).reshape(shape), x, "term")
    result = make.add("AddV2", [product, term], {"T": x.dtype})
    return [result, *inputs[1:], inputs[1]]  # nobody reads the others


def _along_channels(data_format: str) -> tuple[int, ...]:
    """The shape of one number for each channel that broadcasts to images."""
    return (-1, *(1,) * (len(data_format) - 2)) if data_format.startswith("NC") else (-1,)


def _difference(tensor: hr.Tensor, value: Array, make: _Rewriting) -> Sequence[hr.Tensor] | None:
    """A product, or a sum with a constant, less a constant: a sum."""
    if _product(tensor.op) is None and _term(tensor.op) is None:
        return None
    return [make.add("AddV2", [tensor, make.constant(-value, tensor, "negative")], {"T": tensor.dtype})]


def _scale(old: hr.Operation, tensor: hr.Tensor, value: Array, make: _Rewriting) -> Sequence[hr.Tensor] | None:
    """A product by constants, moved past a sum or into weights."""
    producer = tensor.op
    if _product(producer) is not None:
        filters = _scaled(producer, value)
        if filters is None:
            return None
        weights = make.constant(filters, producer.inputs[1], "weights")
        return [make.add(producer.type, [producer.inputs[0], weights], producer.attrs)]
    term = _term(producer)
    if term is None or not make.is_read_once(old.inputs[0]) or _scaled(producer.inputs[0].op, value) is None:
        return None
    factor = make.constant(value, tensor, "factor")
    product = make.add("Mul", [producer.inputs[0], factor], {"T": tensor.dtype}, "scaled")
    return [make.add("AddV2", [product, make.constant(term * value, tensor, "term")], {"T": tensor.dtype})]


def _shift(op: hr.Operation, tensor: hr.Tensor, value: Array, make: _Rewriting) -> Sequence[hr.Tensor] | None:
    """Two sums in a row as one."""
    first, second = _term(tensor.op), _shaped(op, value)
    if first is None or second is None or (first + second).size > max(first.size, second.size):
        return None
    return [
        make.add("AddV2", [tensor.op.inputs[0], make.constant(first + second, tensor, "term")], {"T": tensor.dtype})
    ]


def _term(op: hr.Operation) -> Array | None:
    """The constant that a sum adds to its first input, in the shape that broadcasts; None of anything else."""
    value = _constant(op.inputs[1]) if op.type in _SUMS else None
    return None if value is None else _shaped(op, value)


def _shaped(op: hr.Operation, value: Array) -> Array | None:
    """What a sum adds, in the shape that broadcasts."""
    if op.type != "BiasAdd" or not op.attrs["data_format"].startswith("NC"):
        return value
    rank = op.outputs[0].shape.rank
    return None if rank is None else value.reshape(-1, *(1,) * (rank - 2))


def _product(op: hr.Operation) -> tuple[int, int] | None:
    """Where an operation is a product with constant weights, the rank and the axis of the channels of its result."""
    if len(op.inputs) < 2 or _constant(op.inputs[1]) is None:
        return None
    if op.type == "MatMul":
        return 2, 1
    if op.type not in ("Conv2D", "Conv3D", "DepthwiseConv2dNative"):
        return None
    data_format: str = op.attrs["data_format"]
    rank = len(data_format)
    return rank, 1 if data_format.startswith("NC") else rank - 1


def _scaled(op: hr.Operation, value: Array) -> Array | None:
    """The weights of a product times one number for each channel; None of anything else, and where they overflow."""
    weighted = _product(op)
    if weighted is None or op.control_inputs:
        return None
    rank, axis = weighted
    filters: Array = op.inputs[1].op.attrs["value"]
    depthwise = op.type == "DepthwiseConv2dNative"
    turned = op.type == "MatMul" and op.attrs["transpose_b"]
    channels = math.prod(filters.shape[2:]) if depthwise else filters.shape[0 if turned else -1]
    shape = (1,) * (rank - value.ndim) + value.shape
    if len(shape) != rank or shape[axis] not in (1, channels) or math.prod(shape) != shape[axis]:
        return None
    factor = np.broadcast_to(value.reshape(-1), (channels,))
    with np.errstate(over="ignore", invalid="ignore"):
        if depthwise:
            scaled = filters * factor.reshape(filters.shape[2:])
        else:
            scaled = filters * (factor[:, None] if turned else factor)
    return scaled if np.isfinite(scaled).all() else None


_Passes = tuple[str | Callable[[hr.Graph], hr.Graph], ...]
_BASIC: _Passes = ("raising", "inline", drop_waits, "fold", "arithmetic", "cse")
_EXTENDED: _Passes = (*_BASIC, fold_scales, "fold", "arithmetic", "cse")
LEVELS: dict[str, _Passes] = {
    "none": (),
    "basic": _BASIC,
    "extended": _EXTENDED,
    "all": (*_EXTENDED, "narrow", *_EXTENDED),
}
"""The passes of each level of optimisation."""
