"""Matrix products by oneDNN, alone or added to a sum one after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence

from headrace import Operation
from headrace.types import DType, float32
from headrace_cpu.onednn import capi
from headrace_cpu.onednn.calls import CallWriter, computed_as, makes_calls, row_major
from headrace_cpu.onednn.capi import Descriptor, OneDnn

__all__: list[str] = []

MOST_AXES = 6
"""Axes up to which oneDNN multiplies stacks of matrices."""


def _matrix(library: OneDnn, shape: Sequence[int], dtype: DType, transposed: bool, rank: int) -> Descriptor:
    """A stack of matrices, transposed by its strides; leading axes of size 1 are added up to `rank`."""
    strides = row_major(shape)
    sizes = list(shape)
    if transposed:
        sizes[-2:] = sizes[:-3:-1]
        strides[-2:] = strides[:-3:-1]
    lead = rank - len(sizes)
    return library.strided([1] * lead + sizes, dtype, [math.prod(shape)] * lead + strides)


def _product(
    call: CallWriter, op: Operation, transposed: tuple[bool, bool], first: int, target: int, *, adding: bool
) -> bool:
    """Multiply the two inputs from pointer `first` on; the product replaces the target or is added to it."""
    library, dtypes = call.library, call.request.dtypes
    out = op.outputs[0].shape.as_tuple()
    operand = computed_as(dtypes[first : first + 2], dtypes[target])
    empty = any(0 in tensor.shape.as_tuple() for tensor in op.inputs)
    if operand is None or empty or len(out) > MOST_AXES:
        return False
    a, b = (
        _matrix(library, tensor.shape.as_tuple(), operand, turned, len(out))
        for tensor, turned in zip(op.inputs, transposed, strict=True)
    )
    result = _matrix(library, out, dtypes[target], False, len(out))
    bias, attributes, arguments = call.epilogue(lambda dtype: _matrix(library, out, dtype, False, len(out)))
    if adding:
        attributes = library.attributes([("sum", None)])
    row = None
    if bias is not None:
        row = library.strided([1] * (len(out) - 1) + [out[-1]], float32, [out[-1]] * (len(out) - 1) + [1])
        arguments.append((capi.BIAS, bias, row))
    description = library.describe("matmul", a, _chosen(call, first + 1, b, operand), row, result, attributes)
    if description is None:
        return False
    chosen = library.queried(description, capi.QUERY_WEIGHTS)
    place = call.reordered(first + 1, b, chosen)
    call.run(description, (capi.SRC, first, a), (capi.WEIGHTS, place, chosen), (capi.DST, target, result), *arguments)
    return True


def _chosen(call: CallWriter, position: int, plain: Descriptor, operand: DType) -> Descriptor:
    """The layout of the second factor: a constant may have the one that oneDNN likes best."""
    constants = call.request.constants
    if position >= len(constants) or constants[position] is None or len(call.request.shape(position)) != 2:
        return plain
    if len(call.request.op.outputs[0].shape.as_tuple()) != 2:
        return plain
    turned = call.request.op.attrs.get("transpose_b", False)
    rows, columns = call.request.shape(position)
    return call.library.any((columns, rows) if turned else (rows, columns), operand)


@makes_calls("MatMul")
def _matmul(call: CallWriter) -> bool:
    op = call.request.op
    return _product(call, op, (op.attrs["transpose_a"], op.attrs["transpose_b"]), 0, 2, adding=False)


@makes_calls("BatchMatMul", "BatchMatMulV2")
def _batch_matmul(call: CallWriter) -> bool:
    op = call.request.op
    return _product(call, op, (op.attrs["adj_x"], op.attrs["adj_y"]), 0, 2, adding=False)


@makes_calls("AddN")
def _sum_of_products(call: CallWriter) -> bool:
    """AddN of matrix products, each added to the sum as it is made; the pointers are those of the factors."""
    products = [tensor.op for tensor in call.request.op.inputs]
    if any(product.type != "MatMul" for product in products):
        return False
    for number, product in enumerate(products):
        transposed = product.attrs["transpose_a"], product.attrs["transpose_b"]
        if not _product(call, product, transposed, 2 * number, 2 * len(products), adding=number > 0):
            return False
    return True
