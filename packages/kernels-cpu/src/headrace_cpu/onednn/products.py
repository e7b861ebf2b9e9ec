"""Matrix products by oneDNN, alone or added to a sum one after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence

from headrace import Operation
from headrace.types import DType, float32
from headrace_cpu.onednn import capi
from headrace_cpu.onednn.calls import CallWriter, computed_as, makes_calls, row_major
from headrace_cpu.onednn.capi import Descriptor, OneDnn
from headrace_cpu.onednn.views import View

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
        attributes = library.attributes([1.0])
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
    if call.request.packed and not call.packs(b, chosen):
        return False
    place = first + 1 if call.request.packed else call.reordered(first + 1, b, chosen)
    if places[1] is not None and place == first + 1:
        chosen = b  # what is queried knows nothing of an offset
    call.run(description, (capi.SRC, first, a), (capi.WEIGHTS, place, chosen), (capi.DST, target, result), *arguments)
    return True


def _is_apart(place: View | None) -> bool:
    """True if the elements of a view go forward in memory, and no axis is so long that it reaches into the next.

    The library counts an axis by size times stride: each second one of 17 elements reach into the row behind them.
    """
    if place is None:
        return True
    reach = 1
    for stride, size in sorted(zip(place.strides, place.sizes, strict=True)):
        if size != 1 and stride < reach:
            return False
        reach = reach if size == 1 else stride * size
    return True


def _chosen(call: CallWriter, position: int, plain: Descriptor, operand: DType) -> Descriptor:
    """The layout of the second factor: a constant, or what is packed, may have the one that oneDNN likes best."""
    constants = call.request.constants
    is_known = position < len(constants) and constants[position] is not None
    if not (is_known or call.request.packed) or len(call.request.shape(position)) != 2:
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
    """AddN of matrix products, each added to the sum as it is made; the pointers are those of the factors.

    Where the rows of both factors are what is added up, the product of many rows does the work of several products of
    few, and writes the sum once instead of reading and writing it for each.
    """
    products = [tensor.op for tensor in call.request.op.inputs]
    if any(product.type != "MatMul" for product in products):
        return False
    if _rows_in_one(call, products):
        return True
    for number, product in enumerate(products):
        transposed = product.attrs["transpose_a"], product.attrs["transpose_b"]
        if not _product(call, product, transposed, 2 * number, 2 * len(products), adding=number > 0):
            return False
    return True


def _rows_in_one(call: CallWriter, products: Sequence[Operation]) -> bool:
    """Bring the rows of factors of one shape together, as many as take no more memory than the sum, and multiply those.

    The first factors are transposed, the second are not: the rows of both are summed over.
    """
    library, request = call.library, call.request
    shapes = [tuple(tensor.shape.as_tuple() for tensor in product.inputs) for product in products]
    turned = {(product.attrs["transpose_a"], product.attrs["transpose_b"]) for product in products}
    operand = computed_as(request.dtypes[: 2 * len(products)], request.dtypes[-1])
    if len(products) < 2 or len(set(shapes)) > 1 or turned != {(True, False)} or operand is None:
        return False
    (rows, m), (_, n) = shapes[0]
    most = m * n * request.dtypes[-1].size // (rows * (m + n) * operand.size)
    count = min(most, len(products))
    if count < 2:
        return False
    result = library.strided((m, n), request.dtypes[-1], (n, 1))
    places = [call.scratch(count * rows * columns * operand.size) for columns in (m, n)]
    steps: list[tuple[int | None, list[capi.Argument]]] = []
    for first in range(0, len(products), count):
        some = min(count, len(products) - first)
        for side, columns in enumerate((m, n)):
            part, whole = (library.strided((size, columns), operand, (columns, 1)) for size in (rows, some * rows))
            sources = [(capi.MULTIPLE_SRC + k, 2 * (first + k) + side, part) for k in range(some)]
            steps.append((library.joined(part, some, whole), [*sources, (capi.DST, places[side], whole)]))
        a = library.strided((m, some * rows), operand, (1, m))
        b = library.strided((some * rows, n), operand, (n, 1))
        product = library.describe("matmul", a, b, None, result, library.attributes([1.0] if first else ()))
        factors = [(capi.SRC, places[0], a), (capi.WEIGHTS, places[1], b)]
        steps.append((product, [*factors, (capi.DST, 2 * len(products), result)]))
    if any(description is None for description, _ in steps):
        return False
    for description, arguments in steps:
        call.run(description or 0, *arguments)
    return True
