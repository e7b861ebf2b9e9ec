"""Products in parts: each thread multiplies its own rows or columns, by primitives that are made for one thread.

oneDNN shares a product of its own accord, but then each thread meets what others have just written: where the caches of
threads lie apart that takes a sixth of the time. Here a thread reads and writes the same rows of a result as in the
loops before and after. What is so small that waking threads costs more than it is one part. `HEADRACE_PARTS=off` leaves
all of it to oneDNN.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from headrace.types import DType, bfloat16, float32
from headrace_cpu.llvm.host import host
from headrace_cpu.onednn import capi
from headrace_cpu.onednn.calls import CallWriter, LibraryCall, Request, computed_as
from headrace_cpu.onednn.capi import Descriptor, OneDnn, onednn

__all__ = ["MULTIPLICATIONS_A_NANOSECOND", "parted_call"]

MULTIPLICATIONS_A_NANOSECOND = {"float32": 100, "bfloat16": 200}
"""What one core of a processor of 2024 does."""
SMALL_NANOSECONDS = 8_000
"""Work of one thread that is not worth waking another one."""
LEAST_NANOSECONDS = 20_000
"""Work of one thread from which on parts are worth it."""
LEAST_ROWS, LEAST_COLUMNS = 16, 64
"""Of one part."""


def parted_call(request: Request, threads: int) -> LibraryCall | None:
    """What threads do of a product each by itself, or None where oneDNN should share it, or does not compute it.

    Args:
      request: the operation.
      threads: how many there are.
    """
    library, op = onednn(), request.op
    if library is None or op.type != "MatMul" or threads < 2 or os.environ.get("HEADRACE_PARTS") == "off":
        return None
    tensors = (*op.inputs, *op.outputs)
    is_known = any(value is not None for value in request.constants)
    if (
        is_known
        or request.packed
        or request.has_relu
        or any(request.places)
        or any(0 in tensor.shape.as_tuple() for tensor in tensors)
    ):
        return None
    operand = computed_as(request.dtypes[:2], request.dtypes[2])
    if operand is None or (operand is bfloat16 and not host().multiplies_bfloat16):
        return None
    product = _Product(request)
    nanoseconds = product.m * product.n * product.k / MULTIPLICATIONS_A_NANOSECOND[operand.name]
    ranges = _ranges(product, threads, nanoseconds)
    if not ranges:
        return None
    library.use_threads(1)
    try:
        parts = [product.part(library, rows, columns) for rows, columns in ranges]
    finally:
        library.use_threads(threads)
    made = [part for part in parts if part is not None]
    given = len(request.dtypes) + len(request.epilogue)
    return _joined(made, nanoseconds, given) if len(made) == len(ranges) else None


@dataclass(frozen=True, slots=True)
class _Product:
    """A product of an m x k matrix and a k x n matrix, of which `turned` says whether they lie transposed."""

    request: Request

    @property
    def m(self) -> int:
        return self.request.shape(2)[0]

    @property
    def n(self) -> int:
        return self.request.shape(2)[1]

    @property
    def k(self) -> int:
        return self.request.shape(0)[0 if self.turned[0] else 1]

    @property
    def turned(self) -> tuple[bool, bool]:
        attrs = self.request.op.attrs
        return attrs["transpose_a"], attrs["transpose_b"]

    def part(self, library: OneDnn, rows: range, columns: range) -> LibraryCall | None:
        """What computes some rows and columns, or None where oneDNN has no fast code for it."""
        m, n, k, dtypes = self.m, self.n, self.k, self.request.dtypes

        def result(dtype: DType) -> Descriptor:
            return library.strided((len(rows), len(columns)), dtype, (n, 1), rows.start * n + columns.start)

        a_strides, a_start = ((1, m), rows.start) if self.turned[0] else ((k, 1), rows.start * k)
        b_strides, b_start = ((1, k), columns.start * k) if self.turned[1] else ((n, 1), columns.start)
        a = library.strided((len(rows), k), dtypes[0], a_strides, a_start)
        b = library.strided((k, len(columns)), dtypes[1], b_strides, b_start)
        call = CallWriter(library, self.request)
        bias, attributes, arguments = call.epilogue(result)
        row = None
        if bias is not None:
            row = library.strided((1, len(columns)), float32, (n, 1), columns.start)
            arguments.append((capi.BIAS, bias, row))
        description = library.describe("matmul", a, b, row, result(dtypes[2]), attributes)
        if description is None or library.implementation(description).startswith("ref"):
            return None
        call.run(description, (capi.SRC, 0, a), (capi.WEIGHTS, 1, b), (capi.DST, 2, result(dtypes[2])), *arguments)
        return call.finished()


def _ranges(product: _Product, threads: int, nanoseconds: float) -> list[tuple[range, range]]:
    """Rows and columns of each part; none where oneDNN should share the product."""
    rows, columns = range(product.m), range(product.n)
    if nanoseconds < SMALL_NANOSECONDS and not any(product.turned):  # turned, 128x10x512 took 35 us alone, 30 shared
        return [(rows, columns)]
    along = _axis(product) if nanoseconds >= LEAST_NANOSECONDS * threads else None
    if along == "rows" and product.m >= LEAST_ROWS * threads:
        return [(part, columns) for part in _cut(product.m, threads)]
    if along == "columns" and product.n >= LEAST_COLUMNS * threads:
        return [(rows, part) for part in _cut(product.n, threads)]
    return []


def _axis(product: _Product) -> str | None:
    """What to cut, by measurements with two threads (`benchmarks/parts.py`), or None where oneDNN is as fast."""
    m, n, k = product.m, product.n, product.k
    if product.turned == (True, False):  # the gradient of a weight
        return "rows" if m < 2 * n and n >= 512 and k >= (128 if n < 1024 else 512) else None
    if product.turned == (False, False):
        return "columns" if m <= 256 else "rows"
    if product.turned == (False, True):  # the gradient of what a weight is multiplied with
        if m >= 512:
            return "rows"
        return "columns" if k <= 512 else None
    return None


def _cut(size: int, parts: int) -> list[range]:
    """Equal parts, as threads get them of loops over the same rows."""
    return [range(size * part // parts, size * (part + 1) // parts) for part in range(parts)]


def _joined(parts: Sequence[LibraryCall], nanoseconds: float, given: int) -> LibraryCall:
    """One call; each part has memory of its own to work in, and `given` pointers come before that."""
    scratch: list[int] = []
    found = []
    for part in parts:
        moved = len(scratch)
        found.append(
            tuple(
                replace(
                    primitive,
                    arguments=tuple(
                        (number, pointer + moved if pointer >= given else pointer, layout)
                        for number, pointer, layout in primitive.arguments
                    ),
                )
                for primitive in part.primitives
            )
        )
        scratch += part.scratch
    return LibraryCall((), tuple(scratch), parts=tuple(found), nanoseconds=nanoseconds)
