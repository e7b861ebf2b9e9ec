"""Products of few rows with a matrix, by code of our own that reads the matrix where it lies.

Libraries bring it into a layout of their own first, which for few rows takes longer than the product. Sums do not
depend on threads. `HEADRACE_FEW_ROWS=off` leaves all products to a library.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass

from headrace.types import float32
from headrace_cpu.onednn import Request, onednn
from headrace_cpu.primitives.inner_products import InnerProducts
from headrace_cpu.primitives.outer_products import OuterProducts

__all__ = ["FewRows", "few_rows_call"]

MOST_ROWS, MOST_TURNED, ALWAYS = 32, 16, 8
"""Rows up to which this is faster than oneDNN, measured on Zen 5 with matrices of 64 to 10,000 rows: as these lie,
turned, and where its rows are NARROW or do not begin with a line of the cache."""
NARROW = 80
"""Numbers in a row of the matrix below which few vectors share what else is read and added up."""


@dataclass(frozen=True, slots=True)
class FewRows:
    """`[rows, inner] x [inner, columns]` of float32, whose second factor may lie turned: `[columns, inner]`.

    Attributes:
      rows, inner, columns: sizes, none of which is 0.
      added: of each thing that is added to the result whether it is a row, for all rows, or as large as the result.
      has_relu: what is negative then becomes 0.
      is_turned: how the second factor lies.
      scratch, constants: none.
    """

    rows: int
    inner: int
    columns: int
    added: tuple[bool, ...] = ()
    has_relu: bool = False
    is_turned: bool = False
    scratch: tuple[int, ...] = ()
    constants: tuple[()] = ()

    @property
    def _form(self) -> type[InnerProducts | OuterProducts]:
        return InnerProducts if self.is_turned else OuterProducts

    @property
    def points(self) -> int:
        """How many pieces of work there are: tiles of columns."""
        return -(-self.columns // self._form.tile)

    @property
    def nanoseconds(self) -> float:
        """A rough estimate of what it takes on one thread."""
        return self.inner * self.columns * max(0.05, 0.012 * self.rows)

    def symbol(self, lanes: int) -> str:
        """The name of the function."""
        return f"few_rows_{hashlib.sha256(repr((self, lanes)).encode()).hexdigest()[:16]}"

    def written(self, lanes: int) -> tuple[str, dict[str, str]]:
        """A function `SYMBOL(args, begin, end)` of tiles, and declarations that it needs."""
        writer = self._form(self.rows, self.inner, self.columns, self.added, self.has_relu, lanes)
        writer.write()
        return "\n".join(writer.t.lines) + "\n", writer.t.functions


def few_rows_call(request: Request) -> FewRows | None:
    """The product of few rows that an operation is, or None if it is something else or a library does it better.

    Args:
      request: the operation. A constant matrix is left to a library, where there is one: it is packed once and for all.
    """
    op = request.op
    if op.type != "MatMul" or os.environ.get("HEADRACE_FEW_ROWS") == "off":
        return None
    if op.attrs["transpose_a"] or request.packed or any(request.places):
        return None
    if request.constants[1] is not None and onednn() is not None:
        return None
    kinds = [kind for kind, _ in request.epilogue]
    if any(kind not in ("bias", "add") for kind in kinds):
        return None
    if any(dtype is not float32 for dtype in (*request.dtypes, *(dtype for _, dtype in request.epilogue))):
        return None
    (rows, inner), columns, is_turned = request.shape(0), request.shape(2)[1], op.attrs["transpose_b"]
    width = inner if is_turned else columns
    most = ALWAYS if width < NARROW or width % 16 else MOST_TURNED if is_turned else MOST_ROWS
    if rows > most or 0 in (rows, inner, columns):
        return None
    added = tuple(kind == "bias" for kind in kinds)
    return FewRows(rows, inner, columns, added, request.has_relu, is_turned)
