"""Products by constants: which of a graph's products `hr.to_int8` can compute, seen as one of two plain forms.

A matrix is multiplied from the left by the rows of a tensor, or filters are moved over images. The first form takes in
stacks of matrices and Einstein sums, whose axes are joined to rows and columns; the second one grouped convolutions and
depthwise ones, which have a group for each channel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from headrace.graph.frames import has_tokens
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.graph.shape_value import constant_value
from headrace.ops.einsum import ELLIPSIS, Equation
from headrace.types import Array, float32

__all__ = ["ConstantProduct", "constant_products"]

_STACKS = frozenset({"BatchMatMul", "BatchMatMulV2"})
_IMAGES = frozenset({"Conv2D", "DepthwiseConv2dNative"})
_PRODUCTS = frozenset({"Conv3D", "Einsum", "MatMul", *_STACKS, *_IMAGES})
"""Types that multiply and sum: those that int8 could make faster."""


@dataclass(frozen=True, slots=True)
class ConstantProduct:
    """A product by constant weights.

    Attributes:
      weights: a matrix `[in, out]`, or filters `[rows, columns, in / groups, out]`.
      outputs: the sizes of the last axes of the result, which together are `out`.
      rows: how many axes of the result come before these.
      groups: of the channels of images.
    """

    weights: Array
    outputs: tuple[int, ...]
    rows: int
    groups: int = 1

    @property
    def is_convolution(self) -> bool:
        """True for filters."""
        return self.weights.ndim == 4

    def is_plain(self, x: Tensor) -> bool:
        """True if a tensor can be multiplied as it is: no axes of it, or of the result, are joined."""
        return self.is_convolution or (self.rows == 1 and x.shape.rank == 2)


def constant_products(graph: Graph) -> tuple[dict[Operation, ConstantProduct], dict[Operation, str]]:
    """The products of a bounded graph that can be computed in int8, and for the others the reason why not."""
    fit: dict[Operation, ConstantProduct] = {}
    left: dict[Operation, str] = {}
    for op in graph.operations:
        if op.type in _PRODUCTS:
            found = _seen(op)
            if isinstance(found, ConstantProduct):
                fit[op] = found
            else:
                left[op] = found
    if has_tokens(graph):
        return {}, dict.fromkeys((*fit, *left), "the graph has loops or branches of primitives")
    return fit, left


def _seen(op: Operation) -> ConstantProduct | str:
    """A product in one of the two forms, or why it stays in float."""
    if op.type == "Conv3D":
        return "convolutions of volumes have no int8 form"
    if op.inputs[0].dtype is not float32:
        return f"it computes in {op.inputs[0].dtype}"
    if op.control_inputs:
        return "it waits for an effect"
    if len(op.inputs) != 2:
        return "it has not two factors"
    weights = constant_value(op.inputs[1]) if op.inputs[1].op.type == "Const" else None
    if weights is None:
        return "its weights are not constant"
    if op.inputs[0].op.type == "Const":
        return "its input is constant"
    if not weights.size or not np.isfinite(weights).all():
        return "its weights are not all finite numbers" if weights.size else "it has no weights"
    return _convolution(op, weights) if op.type in _IMAGES else _matrix(op, weights)


def _convolution(op: Operation, filters: Array) -> ConstantProduct | str:
    if op.attrs["data_format"] != "NHWC":
        return "its channels come first"
    channels = op.inputs[0].shape[3] if op.inputs[0].shape.rank == 4 else None
    if channels is None:
        return "the number of its channels is not known"
    if op.type == "DepthwiseConv2dNative":
        filters = filters.reshape(*filters.shape[:2], 1, -1)
    return ConstantProduct(filters, filters.shape[3:], 3, channels // filters.shape[2])


def _matrix(op: Operation, weights: Array) -> ConstantProduct | str:
    rank = op.outputs[0].shape.rank
    if rank is None:
        return "the rank of its result is not known"
    if op.type in _STACKS:
        if weights.ndim > (op.inputs[0].shape.rank or 2) or math.prod(weights.shape[:-2]) != 1:
            return "it has a matrix for each part of its input"
        weights = weights.reshape(weights.shape[-2:])
    equation = _equation(op)
    given, second = equation.inputs
    summed = tuple(label for label in given if label in second and label not in equation.output)
    rows = given[: len(given) - len(summed)]
    columns = equation.output[len(rows) :]
    if not summed or given != (*rows, *summed) or equation.output != (*rows, *columns):
        return "it does not sum over the last axes of its input"
    labels = (*summed, *columns)
    if ELLIPSIS in second or sorted(labels) != sorted(second) or len({*given, *columns}) < len((*given, *columns)):
        return "its weights are not used as a matrix"
    moved = weights.transpose([second.index(label) for label in labels])
    outputs = moved.shape[len(summed) :]
    return ConstantProduct(moved.reshape(-1, math.prod(outputs)), outputs, rank - len(outputs))


def _equation(op: Operation) -> Equation:
    """Any product of a tensor with a matrix as an Einstein sum."""
    if op.type == "Einsum":
        return Equation.parse(op.attrs["equation"])
    lead, turns = ("...", ("adj_x", "adj_y")) if op.type in _STACKS else ("", ("transpose_a", "transpose_b"))
    first, second = (names[::-1] if op.attrs[turn] else names for names, turn in zip(("ij", "jk"), turns, strict=True))
    return Equation.parse(f"{lead}{first},{second}->{lead}ik")
