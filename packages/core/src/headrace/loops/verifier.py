"""The verifier of the loop IR: what a region must satisfy before a backend prints it."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.errors import InternalError
from headrace.loops.ir import BINARY, COMPARISONS, REDUCTIONS, UNARY, Access, Axis, Expr, Loop, Region, in_order
from headrace.types import bool as boolean
from headrace.types import int64, uint32, uint64

__all__ = ["verify_region"]

_ARITY = {
    "const": 0, "index": 0, "position": 0, "load": 0, "local": 0, "cast": 1, "select": 3, "philox": 4,
    **dict.fromkeys(UNARY, 1), **dict.fromkeys((*BINARY, *COMPARISONS), 2),
}  # fmt: skip


def verify_region(region: Region) -> None:
    """Raise InternalError unless a region is well formed.

    Checked: operators, numbers of operands and dtypes; that axes, locals and buffers exist where they are used; that
    every access stays inside its buffer at every point; that nothing is written to an input.
    """
    known: set[int] = set()
    for loop in region.loops:
        for fault in _faults(region, loop, known):
            raise InternalError(
                f"a region over {list(region.outer)} is not well formed",
                expected="loops that keep the rules of the IR",
                got=fault,
                hint="please report this; hr.config(backend='numpy') runs without loops",
            )
        known |= {item.local for item in loop.accumulates if not item.keep_last}


def _faults(region: Region, loop: Loop, known: set[int]) -> Iterator[str]:
    ranges = {axis: extent - 1 for axis, extent in enumerate(region.outer)}
    for axis in loop.axes:
        if axis.number in ranges:
            yield f"axis {axis.number} is used twice"
        ranges[axis.number] = axis.extent - 1
    inside = ranges if loop.axes else {axis: extent - 1 for axis, extent in enumerate(region.outer)}
    last = {loop.axes[-1].number} | set(range(len(region.outer))) if loop.axes else set(inside)
    columns = {item.local for item in loop.accumulates if item.keep_last}
    for item in loop.accumulates:
        if item.op not in REDUCTIONS:
            yield f"no reduction is called '{item.op}'"
        yield from _expr_faults(region, loop, item.value, set(inside), known)
    for store in loop.stores:
        yield from _store_faults(region, loop, store.buffer, store.access, store.value, inside)
        yield from _expr_faults(region, loop, store.value, set(inside), known)
    for store in loop.after:
        yield from _store_faults(region, loop, store.buffer, store.access, store.value, inside)
        yield from _expr_faults(region, loop, store.value, last, known | columns)


def _store_faults(
    region: Region, loop: Loop, buffer: int, access: Access, value: Expr, ranges: dict[int, int]
) -> Iterator[str]:
    if not 0 <= buffer < len(region.buffers):
        yield f"there is no buffer {buffer}"
        return
    if region.buffers[buffer].role == "in":
        yield f"buffer {buffer} is an input and is written"
    if region.buffers[buffer].dtype is not value.dtype:
        yield f"{value.dtype} is written to buffer {buffer} of {region.buffers[buffer].dtype}"
    yield from _access_faults(region, loop, buffer, access, set(ranges))


def _access_faults(region: Region, loop: Loop, buffer: int, access: Access, axes: set[int]) -> Iterator[str]:
    cut = {axis.number: axis for axis in loop.axes if axis.outer is not None}
    lowest = highest = access.constant
    taken: set[int] = set()
    for number, factor in access.terms:
        if number not in axes:
            yield f"an access uses axis {number} outside its loop"
            return
        if number in taken:
            continue
        span = _span(region, loop, number, factor, access, cut, taken)
        lowest, highest = lowest + min(0, span), highest + max(0, span)
    empty = 0 in region.outer or any(axis.extent == 0 for axis in loop.axes)
    if not empty and (lowest < 0 or highest >= region.buffers[buffer].size):
        yield f"an access of buffer {buffer} reaches from {lowest} to {highest} of {region.buffers[buffer].size}"


def _span(
    region: Region, loop: Loop, number: int, factor: int, access: Access, cut: dict[int, Axis], taken: set[int]
) -> int:
    """How far one term moves an access; an axis and the outer one that counts its pieces are looked at together."""
    for axis in cut.values():
        assert axis.outer is not None
        if number in (axis.number, axis.outer) and access.coefficient(axis.outer) == axis.extent * access.coefficient(
            axis.number
        ):
            taken |= {axis.number, axis.outer}
            return (axis.total - 1) * access.coefficient(axis.number)
    extents = dict(enumerate(region.outer)) | {axis.number: axis.extent for axis in loop.axes}
    return factor * (extents[number] - 1)


def _expr_faults(region: Region, loop: Loop, root: Expr, axes: set[int], known: set[int]) -> Iterator[str]:
    for expr in in_order([root]):
        if _ARITY.get(expr.op) != len(expr.args):
            yield f"'{expr.op}' has {len(expr.args)} operands"
        elif expr.op == "load":
            buffer, access = expr.payload
            if not 0 <= buffer < len(region.buffers) or region.buffers[buffer].dtype is not expr.dtype:
                yield f"a load of {expr.dtype} from buffer {buffer}"
                return
            yield from _access_faults(region, loop, buffer, access, axes)
        elif expr.op == "local" and expr.payload not in known:
            yield f"local {expr.payload} is used before it is reduced"
        elif expr.op == "index" and expr.payload not in axes:
            yield f"the index of axis {expr.payload} is used outside its loop"
        elif expr.op == "position":
            outside = [axis for axis, _ in expr.payload.terms if axis not in axes]
            if outside:
                yield f"a position uses axis {outside[0]} outside its loop"
        elif expr.op == "philox":
            if (expr.dtype, *(arg.dtype for arg in expr.args)) != (uint32, uint64, uint64, uint64, int64):
                yield f"a philox of {', '.join(str(arg.dtype) for arg in expr.args)} gives {expr.dtype}"
        elif expr.op in (*UNARY, *BINARY, *COMPARISONS):
            yield from _dtype_faults(expr)
        elif expr.op == "select" and (
            expr.args[0].dtype is not boolean or expr.args[1].dtype is not expr.args[2].dtype
        ):
            yield f"a select of {', '.join(str(arg.dtype) for arg in expr.args)}"


def _dtype_faults(expr: Expr) -> Iterator[str]:
    wanted = boolean if expr.op in (*COMPARISONS, "isfinite") else expr.args[0].dtype
    if len({arg.dtype for arg in expr.args}) > 1 or expr.dtype is not wanted:
        yield f"'{expr.op}' of {', '.join(str(arg.dtype) for arg in expr.args)} gives {expr.dtype}"
