"""Products with a constant matrix: dense layers, and convolutions of one tap, also with filters kept for many steps.

The matrix is brought into panels once (see `register_tiles`). A part of the inner axis at a time, and of that some
rows, a thread goes through panel after panel with the same rows, which stay in its caches; rows that lie far apart are
copied next to each other first. What is added to the result and relu are done while it is in registers; a library,
whose relu makes 0 of NaN, cannot do that for us. Sums do not depend on threads. `HEADRACE_PANEL_PRODUCTS=off` leaves
such products to a library.
"""

from __future__ import annotations

import hashlib
import math
import os
from dataclasses import dataclass, field

import numpy as np

from headrace.plan import aligned_array
from headrace.types import Array, float32
from headrace_cpu.llvm.host import host
from headrace_cpu.llvm.text import Text
from headrace_cpu.onednn import MULTIPLICATIONS_A_NANOSECOND, Request, onednn
from headrace_cpu.prepared import Prepared, copies
from headrace_cpu.primitives.register_tiles import VECTORS, Given, RegisterTile, most_rows

__all__ = ["PanelProducts", "panel_products_call"]

DEPTH = 512
"""Places of the inner axis at a time, measured on Zen 5: a panel of so many stays in the second cache."""
TILES = 4
"""Tiles of rows for which a panel is read once."""
GAP = 16
"""Numbers between copied rows, so that they do not all fall in the same places of the first cache."""
MOST_WASTE = 8
"""Columns beyond the last one that are computed with the others: one in so many at most."""
LARGEST = 1 << 19
"""Numbers of the first factor beyond which a library is some percent faster, if its rows go in parts: measured on Zen 5
with 256 and 1,024 rows of 1,024 and 4,096."""
MANY = 16
"""Pieces of work that few processors share evenly."""


@dataclass(frozen=True, slots=True)
class _Pixels:
    """Which rows of the first factor, the pixels of images `[n, height, width, inner]`, are those of the result.

    Attributes:
      height, width: of an image.
      high, wide: of an image of the result.
      strides: pixels from one to the next, downwards and to the right.
    """

    height: int
    width: int
    high: int
    wide: int
    strides: tuple[int, int]


@dataclass(frozen=True, slots=True)
class PanelProducts:
    """`[rows, inner] x [inner, columns]` of float32, whose second factor lies in panels.

    Attributes:
      rows, inner, columns: sizes, none of which is 0.
      pixels: which rows of the first factor are taken, or None for all.
      added: of each thing that is added to the result whether it is a row, for all rows, or as large as the result.
      has_relu: what is negative then becomes 0.
      by_columns: threads share the columns, else the rows.
      lanes: elements of a vector, for which the matrix is packed.
      constants: the panels, or what they are made of.
      scratch: none.
    """

    rows: int
    inner: int
    columns: int
    pixels: _Pixels | None
    added: tuple[bool, ...]
    has_relu: bool
    by_columns: bool
    lanes: int
    constants: tuple[Array | Prepared, ...] = field(repr=False, compare=False)
    scratch: tuple[int, ...] = ()

    @property
    def points(self) -> int:
        """How many pieces of work there are: panels, or blocks of rows."""
        return self.panels if self.by_columns else -(-self.rows // self.block)

    @property
    def panels(self) -> int:
        """How many panels the matrix has."""
        return -(-self.columns // self.panel)

    @property
    def panel(self) -> int:
        """Columns of a panel."""
        return VECTORS * self.lanes

    @property
    def tile(self) -> int:
        """Rows of a tile; only the last one has fewer."""
        most = most_rows(self.lanes)
        return -(-self.rows // -(-self.rows // most))

    @property
    def block(self) -> int:
        """Rows for which a panel is read once."""
        return TILES * self.tile

    @property
    def ahead(self) -> int:
        """Bytes of the next panel to ask for at each place of the inner axis, by each of the tiles of a block."""
        return -(-4 * self.panel // min(TILES, -(-self.rows // self.tile)))

    @property
    def nanoseconds(self) -> float:
        """A rough estimate of what it takes on one thread."""
        return self.rows * self.inner * self.columns / MULTIPLICATIONS_A_NANOSECOND["float32"]

    def symbol(self, lanes: int) -> str:
        """The name of the function."""
        return f"panel_products_{hashlib.sha256(repr((self, lanes)).encode()).hexdigest()[:16]}"

    def written(self, lanes: int) -> tuple[str, dict[str, str]]:
        """A function `SYMBOL(args, begin, end)` of panels or blocks, and declarations that it needs."""
        writer = _Writer(self)
        writer.write()
        return "\n".join(writer.t.lines) + "\n", writer.t.functions


def panel_products_call(request: Request) -> PanelProducts | None:
    """The product that an operation is, or None if it is something else or a library does it better."""
    op, value = request.op, request.constants[1] if len(request.constants) > 1 else None
    if not (request.keeps or value is not None) or os.environ.get("HEADRACE_PANEL_PRODUCTS") == "off":
        return None
    is_product = op.type == "MatMul" and not op.attrs["transpose_a"]
    if not (is_product or _has_one_tap(request)):
        return None
    lanes = host().lanes
    kinds = [kind for kind, _ in request.epilogue]
    dtypes = (*request.dtypes, *(dtype for _, dtype in request.epilogue))
    if request.packed or any(request.places) or any(kind not in ("bias", "add") for kind in kinds):
        return None
    if any(dtype is not float32 for dtype in dtypes):
        return None
    *many, columns = request.shape(2)
    rows, inner, panel = math.prod(many), request.shape(0)[-1], VECTORS * lanes
    if 0 in (rows, inner, columns) or rows <= most_rows(lanes) or -columns % panel > columns // MOST_WASTE:
        return None
    is_large = inner > DEPTH and rows * inner > LARGEST
    if onednn() is not None and (is_large or lanes < 16):  # with narrower vectors it was not measured which is faster
        return None
    make = _Panels(inner, columns, panel, is_turned=is_product and op.attrs["transpose_b"])
    return PanelProducts(
        rows,
        inner,
        columns,
        pixels=None if is_product else _pixels(request),
        added=tuple(kind == "bias" for kind in kinds),
        has_relu=request.has_relu,
        by_columns=shares_columns(rows, columns, -(-rows // (TILES * most_rows(lanes))), -(-columns // panel)),
        lanes=lanes,
        constants=(Prepared(1, make, make.size) if value is None else copies.of(value, make),),
    )


def shares_columns(rows: int, columns: int, blocks: int, panels: int) -> bool:
    """Whether threads share the columns of a product, and each reads all rows, or the other way round.

    Each then reads its own part of the larger factor, unless that gives too few pieces.

    Args:
      rows: of the result.
      columns: of the result.
      blocks: how many pieces the rows have.
      panels: how many the columns have.
    """
    if min(blocks, panels) >= MANY:
        return columns > rows
    return panels > blocks


def _has_one_tap(request: Request) -> bool:
    """True for a convolution of NHWC images that multiplies single pixels, all channels of each."""
    if request.op.type != "Conv2D":
        return False
    attrs, (high, wide, depth, _) = request.op.attrs, request.shape(1)
    if (high, wide) != (1, 1) or attrs["data_format"] != "NHWC" or depth != request.shape(0)[3]:
        return False
    steps = attrs["strides"]
    return steps[0] == steps[3] == 1 and not any(attrs.get("explicit_paddings", ()))


def _pixels(request: Request) -> _Pixels | None:
    _, height, width, _ = request.shape(0)
    _, high, wide, _ = request.shape(2)
    down, right = request.op.attrs["strides"][1:3]
    return None if (down, right) == (1, 1) else _Pixels(height, width, high, wide, (down, right))


@dataclass(frozen=True, slots=True)
class _Panels:
    """Brings a matrix into panels: `[columns, inner]` if it is turned, else what has `[inner, columns]` elements.

    The numbers lie part by part of the inner axis, in each panel by panel, in each place by place. The columns of the
    last panel that the matrix lacks are 0.
    """

    inner: int
    columns: int
    panel: int
    is_turned: bool = field(kw_only=True)

    @property
    def panels(self) -> int:
        """How many there are."""
        return -(-self.columns // self.panel)

    @property
    def size(self) -> int:
        """Bytes of all panels."""
        return 4 * self.inner * self.panels * self.panel

    def __call__(self, value: Array) -> Array:
        inner, panel, panels = self.inner, self.panel, self.panels
        matrix = value.T if self.is_turned else value.reshape(inner, self.columns)
        if self.columns % panel:
            wide = np.zeros((inner, panels * panel), np.float32)
            wide[:, : self.columns] = matrix
            matrix = wide
        packed = aligned_array((inner * panels * panel,), np.float32)
        for start in range(0, inner, DEPTH):
            part = matrix[start : start + DEPTH].reshape(-1, panels, panel).swapaxes(0, 1)
            packed[start * panels * panel :][: part.size].reshape(part.shape)[...] = part
        return packed


class _Writer:
    """Writes the function. Mutable."""

    def __init__(self, product: PanelProducts) -> None:
        self.product = product
        self.t = Text()
        self.is_copied = product.pixels is not None or product.inner > DEPTH
        self.stride = min(product.inner, DEPTH) + GAP if self.is_copied else product.inner
        self.images = self.panels = self.result = self.copies = ""
        self.added: list[str] = []

    def write(self) -> None:
        t, product = self.t, self.product
        t.lines.append("define internal void @SYMBOL(ptr noalias %args, i64 %begin, i64 %end) {")
        count = len(product.added)
        self.images, self.result = t.argument(0), t.argument(2)
        self.added, self.panels = [t.argument(3 + number) for number in range(count)], t.argument(3 + count)
        if self.is_copied:
            self.copies = t.put(f"alloca [{product.block * self.stride} x float], align 64")
        t.count_up("0", str(product.inner), DEPTH, self._part)
        t.lines += ["  ret void", "}"]

    def _part(self, start: str) -> None:
        """What the places of the inner axis from `start` on give: some panels of all rows, or all of some rows."""
        t, product = self.t, self.product
        if product.by_columns:
            t.count_up("0", str(product.rows), product.block, lambda row: self._block(start, row, "%begin", "%end"))
            return
        first, end = (self._two("mul", point, product.block) for point in ("%begin", "%end"))
        t.count_up(first, end, product.block, lambda row: self._block(start, row, "0", str(product.panels)))

    def _block(self, start: str, first: str, begin: str, end: str) -> None:
        """Some panels of the rows from `first` on."""
        t, product = self.t, self.product
        last = self._least(self._two("add", first, product.block), product.rows)
        depth = self._least(self._two("sub", str(product.inner), start), DEPTH)
        if self.is_copied:
            t.count_up(first, last, 1, lambda row: self._copy(row, first, start, depth))
        t.count_up(begin, end, 1, lambda number: self._panel(number, start, depth, first, last))

    def _panel(self, number: str, start: str, depth: str, first: str, last: str) -> None:
        """The tiles of one panel."""
        t, product = self.t, self.product
        size = self._two("mul", depth, product.panel)
        part = self._two("mul", start, product.panels * product.panel)
        here = self._moved(self.panels, self._two("add", part, self._two("mul", number, size)))
        column = self._two("mul", number, product.panel)
        is_first = t.put(f"icmp eq i64 {start}, 0")
        is_last = t.put(f"icmp eq i64 {self._two('add', start, depth)}, {product.inner}")

        def tile(rows: int, row: str) -> None:
            inside = self._two("sub", row, first)
            asked = self._two("mul", self._two("udiv", inside, product.tile), self._two("mul", depth, product.ahead))
            given = inside if self.is_copied else row
            at = self._two("add", self._two("mul", row, product.columns), column)
            pointers = zip(self.added, product.added, strict=True)
            self._form(rows).call(
                t,
                Given(
                    rows=self._moved(self.copies or self.images, self._two("mul", given, self.stride)),
                    panel=here,
                    following=t.put(f"getelementptr i8, ptr {self._moved(here, size)}, i64 {asked}"),
                    result=self._moved(self.result, at),
                    columns=str(product.columns),
                    left=self._two("sub", str(product.columns), column),
                    depth=depth,
                    is_first=is_first,
                    is_last=is_last,
                    added=tuple(self._moved(base, column if is_row else at) for base, is_row in pointers),
                ),
            )

        whole = product.rows // product.tile * product.tile
        t.count_up(first, self._least(last, whole), product.tile, lambda row: tile(product.tile, row))
        if whole < product.rows:
            ends = t.put(f"icmp eq i64 {last}, {product.rows}")
            t.when(ends, lambda: tile(product.rows - whole, str(whole)))

    def _form(self, rows: int) -> RegisterTile:
        """A tile of so many rows."""
        product = self.product
        return RegisterTile(
            rows,
            stride=self.stride,
            ahead=product.ahead,
            in_parts=product.inner > DEPTH,
            added=product.added,
            has_relu=product.has_relu,
            is_partial=product.columns % product.panel != 0,
            lanes=product.lanes,
        )

    def _copy(self, row: str, first: str, start: str, depth: str) -> None:
        """Bring a part of a row next to those before it."""
        t, product = self.t, self.product
        place = self._two("add", self._two("mul", self._pixel(row), product.inner), start)
        target = self._two("mul", self._two("sub", row, first), self.stride)
        t.copy_bytes(self._moved(self.copies, target), self._moved(self.images, place), self._two("mul", depth, 4))

    def _pixel(self, row: str) -> str:
        """Which row of the first factor a row of the result is made of."""
        pixels = self.product.pixels
        if pixels is None:
            return row
        line, right = self._two("udiv", row, pixels.wide), self._two("urem", row, pixels.wide)
        image, down = self._two("udiv", line, pixels.high), self._two("urem", line, pixels.high)
        down, right = (self._two("mul", at, step) for at, step in zip((down, right), pixels.strides, strict=True))
        above = self._two("add", self._two("mul", image, pixels.height), down)
        return self._two("add", self._two("mul", above, pixels.width), right)

    def _two(self, op: str, a: str, b: str | int) -> str:
        return self.t.put(f"{op} i64 {a}, {b}")

    def _least(self, a: str, b: int) -> str:
        self.t.functions["llvm.smin.i64"] = "declare i64 @llvm.smin.i64(i64, i64)"
        return self.t.put(f"call i64 @llvm.smin.i64(i64 {a}, i64 {b})")

    def _moved(self, pointer: str, count: str) -> str:
        return self.t.put(f"getelementptr float, ptr {pointer}, i64 {count}")
