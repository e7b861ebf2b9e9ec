"""Matrix products by oneDNN, alone or added to a sum one after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence

from headrace import Operation
from headrace.types import DType, float32
from headrace_cpu.onednn import capi
from headrace_cpu.onednn.calls import CallWriter, computed_as, makes_calls, row_major
from headrace_cpu.onednn.capi import Descriptor, OneDnn
from headrace_cpu.views import View

__all__: list[str] = []

MOST_AXES = 6
"""Axes up to which oneDNN multiplies stacks of matrices."""
LARGE_PRODUCT = 1 << 20
"""Multiplications of two matrices from which on oneDNN's second best implementation is a tenth slower, not twice."""
FEW_MULTIPLICATIONS = 128
"""Multiplications for each element that is not copied, up to which not copying it saves more than that tenth."""


def _matrix(
    library: OneDnn, shape: Sequence[int], dtype: DType, transposed: bool, rank: int, place: View | None = None
) -> Descriptor:
    """A stack of matrices, transposed by its strides; leading axes of size 1 are added up to `rank`."""
    strides = row_major(shape) if place is None else _regular(place)
    sizes = list(shape)
    whole = max((size * stride for size, stride in zip(sizes, strides, strict=True)), default=1)
    if transposed:
        sizes[-2:] = sizes[:-3:-1]
        strides[-2:] = strides[:-3:-1]
    lead = rank - len(sizes)
    return library.strided([1] * lead + sizes, dtype, [whole] * lead + strides, place.offset if place else 0)


def _regular(place: View) -> list[int]:
    """Strides that the library takes for a row, a column or a stack of one, whose own say nothing."""
    strides = list(place.strides)
    rows, columns = place.sizes[-2:]
    if columns == 1:
        strides[-1] = 1
    if rows == 1:
        strides[-2] = columns if strides[-1] == 1 else 1
    stack = list(zip(place.sizes[:-2], strides[:-2], strict=True))
    whole = max(size * stride for size, stride in (*stack, *zip((rows, columns), strides[-2:], strict=True)))
    return [*(whole if size == 1 else stride for size, stride in stack), *strides[-2:]]


def _layouts(
    library: OneDnn,
    op: Operation,
    transposed: tuple[bool, bool],
    dtypes: tuple[DType, DType],
    places: Sequence[View | None],
) -> tuple[Descriptor, Descriptor, Descriptor]:
    """The layouts of the factors, of the first dtype, and of the result, of the second, each where it lies."""
    rank = len(op.outputs[0].shape.as_tuple())
    a, b = (
        _matrix(library, tensor.shape.as_tuple(), dtypes[0], turned, rank, place)
        for tensor, turned, place in zip(op.inputs, transposed, places[:2], strict=True)
    )
    return a, b, _matrix(library, op.outputs[0].shape.as_tuple(), dtypes[1], False, rank, places[2])


def _saves_more(op: Operation, places: Sequence[View | None]) -> bool:
    """True if what is not copied is worth more than what the second best implementation takes longer."""
    rows, columns = op.outputs[0].shape.as_tuple()[-2:]
    stack = math.prod(op.outputs[0].shape.as_tuple()[:-2])
    inner = math.prod(op.inputs[0].shape.as_tuple()[-2:]) // rows
    placed = sum(math.prod(place.sizes) for place in places if place is not None)
    one = rows * columns * inner
    return bool(one >= LARGE_PRODUCT and stack * one <= FEW_MULTIPLICATIONS * placed)


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
    places = call.request.places or (None, None, None)
    if not all(map(_is_apart, places)):
        return False
    a, b, result = _layouts(library, op, transposed, (operand, dtypes[target]), places)
    bias, attributes, arguments = call.epilogue(lambda dtype: _matrix(library, out, dtype, False, len(out)))
    if adding:
        attributes = library.attributes([("sum", None)])
    row = None
    if bias is not None:
        row = library.strided([1] * (len(out) - 1) + [out[-1]], float32, [out[-1]] * (len(out) - 1) + [1])
        arguments.append((capi.BIAS, bias, row))
    description = library.describe("matmul", a, _chosen(call, first + 1, b, operand), row, result, attributes)
    if description is None or (any(places) and library.implementation(description).startswith("ref")):
        return False
    if any(places) and not (operand is float32 and _saves_more(op, places)):
        plain = _layouts(library, op, transposed, (operand, dtypes[target]), (None, None, None))
        usual = library.describe("matmul", plain[0], plain[1], row, plain[2], attributes)
        if usual is None or library.implementation(usual) != library.implementation(description):
            return False
    chosen = library.queried(description, capi.QUERY_WEIGHTS)
    place = call.reordered(first + 1, b, chosen)
    if place == first + 1:
        chosen = b  # what is queried knows nothing of an offset
    call.run(description, (capi.SRC, first, a), (capi.WEIGHTS, place, chosen), (capi.DST, target, result), *arguments)
    return True


def _is_apart(place: View | None) -> bool:
    """True if the elements of a view go forward in memory, and none is there twice."""
    return place is None or all(
        stride > 0 for size, stride in zip(place.sizes, place.strides, strict=True) if size != 1
    )


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
