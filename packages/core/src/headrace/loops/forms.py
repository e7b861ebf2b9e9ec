"""Affine forms: an index of a value as a sum of multiples of the indices of a space. Pure.

What a value is read at starts as the indices of the space themselves (`along`). Views, broadcasts and pieces make forms
of forms; an index of forms into contiguous memory is one `Access` of the loop IR.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.loops.ir import Access

__all__ = ["ZERO", "Form", "aligned", "along", "flat_access", "moved", "scaled"]

Form = tuple[int, tuple[tuple[int, int], ...]]
"""An affine form: a constant and (axis, coefficient) pairs, sorted, without zeros."""
ZERO: Form = (0, ())


def along(axis: int, size: int) -> Form:
    """The index along an axis of that size: where it can only be 0 it is no axis of the form."""
    return (0, ((axis, 1),)) if size != 1 else ZERO


def scaled(form: Form, step: int, start: int) -> Form:
    """step * form + start."""
    constant, terms = form
    return constant * step + start, tuple((axis, factor * step) for axis, factor in terms)


def aligned(shape: Sequence[int], index: tuple[Form, ...]) -> tuple[Form, ...]:
    """The index into an operand that is broadcast."""
    lead = len(index) - len(shape)
    return tuple(ZERO if size == 1 else index[lead + axis] for axis, size in enumerate(shape))


def flat_access(shape: Sequence[int], index: Sequence[Form]) -> Access:
    """The place of an element in a contiguous buffer of that shape."""
    terms: dict[int, int] = {}
    constant, stride = 0, 1
    for size, (start, parts) in zip(reversed(shape), reversed(index), strict=True):
        constant += start * stride
        for axis, factor in parts:
            terms[axis] = terms.get(axis, 0) + factor * stride
        stride *= size
    return Access(constant, tuple(sorted((axis, factor) for axis, factor in terms.items() if factor)))


def moved(access: Access, step: int, start: int) -> Access:
    """step * access + start."""
    return Access(access.constant * step + start, tuple((axis, factor * step) for axis, factor in access.terms))
