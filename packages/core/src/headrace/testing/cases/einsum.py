"""Cases of Einstein sums."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from headrace.testing.op_case import OpCase
from headrace.testing.reference import numbers


def _case(equation: str, *shapes: tuple[int, ...], dtype: str = "float64", what: str = "", **given: Any) -> OpCase:
    """The expectation is NumPy's own einsum, in float64 (complex128, int64)."""
    inputs = [numbers(dtype, *shape, low=-3, high=3, seed=seed) for seed, shape in enumerate(shapes)]

    def expected(arrays: Any) -> Any:
        wide = {"c": np.complex128, "i": np.int64, "u": np.int64}.get(arrays[0].dtype.kind, np.float64)
        return np.einsum(equation, *(array.astype(wide) for array in arrays)).astype(arrays[0].dtype)

    given.setdefault("expected", expected)
    return OpCase(f"Einsum/{equation} {dtype}{what}", "Einsum", [inputs], attrs={"equation": equation}, **given)


def _diagonal(arrays: Any) -> Any:
    return np.diag(arrays[0])


CASES = [
    *(
        _case(equation, *shapes)
        for equation, *shapes in (
            ("ij,jk->ik", (2, 3), (3, 4)),
            ("ij,jk->ki", (2, 3), (3, 4)),
            ("ij,ij->ij", (2, 3), (2, 3)),
            ("i,j->ij", (2,), (3,)),
            ("i,i->", (5,), (5,)),
            ("ij,k->", (2, 3), (2,)),
            ("bij,bjk->bik", (2, 2, 3), (2, 3, 2)),
            ("abc,cd->abd", (2, 2, 3), (3, 2)),
            ("abcd,cdef->abef", (2, 1, 3, 2), (3, 2, 2, 1)),
            ("ij->ji", (2, 3)),
            ("ij->", (2, 3)),
            ("ij->j", (2, 3)),
            ("ii->i", (3, 3)),
            ("ii->", (3, 3)),
            ("iij->j", (3, 3, 2)),
            ("iij,jk->ik", (2, 2, 3), (3, 2)),
            ("...ij,...jk->...ik", (2, 1, 2, 3), (3, 3, 2)),
            ("...ij,jk->...ik", (2, 3, 2), (2, 2)),
            ("i...,i->...", (3, 2, 2), (3,)),
            ("i...j->j...i", (2, 3, 4)),
            ("...ii->...i", (2, 3, 3)),
            (",ij->ij", (), (2, 3)),
            ("aB,Bc->ac", (2, 3), (3, 2)),
        )
    ),
    *(
        _case("ij,jk->ik", (2, 3), (3, 4), dtype=dtype)
        for dtype in ("int32", "int64", "uint8", "float16", "bfloat16", "float32", "complex64", "complex128")
    ),
    _case("ij,jk->ik", (33, 17), (17, 5), dtype="float32", what=" odd sizes", differentiate=()),
    _case(" i j , j k -> i k ", (2, 3), (3, 4), what=" with spaces"),
    _case("ij,jk->ik", (2, 0), (0, 3), what=" O41 no terms"),
    _case("ij,jk->ik", (0, 2), (2, 3), what=" no rows"),
    _case("ij->i", (2, 0), what=" no terms"),
    _case("i->ii", (3,), what="", expected=_diagonal),
    _case("ij,jk,kl->il", (2, 3), (3, 2), (2, 4), oracle=False),
    OpCase(
        "Einsum/bfloat16 is added up in float32",
        "Einsum",
        [[np.ones([1, 1000], ml_dtypes.bfloat16), np.ones([1000, 1], ml_dtypes.bfloat16)]],
        attrs={"equation": "ij,jk->ik"},
        expected=np.array([[1000]], ml_dtypes.bfloat16),
        deviation="TensorFlow adds up in bfloat16",
        differentiate=(),
    ),
    *(
        OpCase(
            f"Einsum/{what}",
            "Einsum",
            [[np.ones(shape, np.float32) for shape in shapes]],
            attrs={"equation": equation},
            raises=text,
            deviation="TensorFlow takes any character for a label" if what == "digit" else None,
        )
        for what, equation, shapes, text in (
            ("no arrow", "ij,jk", [(2, 3), (3, 2)], "exactly one '->'"),
            ("two arrows", "ij->i->", [(2, 3)], "exactly one '->'"),
            ("output label from nowhere", "ij->k", [(2, 3)], "occur in an input"),
            ("digit", "i1->i", [(2, 3)], "letters"),
            ("two ellipses", "...i...->i", [(2, 3)], "letters"),
            ("sizes differ", "ij,jk->ik", [(2, 3), (4, 2)], "two sizes"),
            ("diagonal of a rectangle", "ii->i", [(2, 3)], "two sizes"),
            ("rank too small", "ijk->i", [(2, 3)], "rank"),
            ("rank too large", "i->i", [(2, 3)], "rank"),
            ("ellipsis does not broadcast", "...i,...i->...", [(2, 3), (4, 3)], "broadcast"),
            ("number of inputs", "ij,jk->ik", [(2, 3)], "number of inputs"),
        )
    ),
]
