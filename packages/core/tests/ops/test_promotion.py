"""The promotion tables of docs/promotion.md are what the code does."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from headrace.errors import DTypeError, InvalidArgumentError
from headrace.types import COMPUTABLE, DType, promote_types, promote_with_scalar

DOCUMENT = Path(__file__).parents[4] / "docs" / "promotion.md"
NUMBERS: list[tuple[str, hr.types.Scalar]] = [("True", True), ("2", 2), ("0.5", 0.5), ("1j", 1j)]
SHORT = {"bool": "bool", "bfloat16": "bf16", "complex64": "c64", "complex128": "c128"}

TEXT = """# Promotion

How operands of different dtypes meet: `x + y`, `hr.maximum(x, y)`, `hr.where(c, x, y)` and every other function of
several operands convert them to one dtype first. `nox -s goldens` makes the tables from the code, and a test fails
where they differ from it.

## Tensors, variables and arrays

The dtypes of tensors, variables and NumPy arrays (NumPy's scalars too) are strong. Within a kind the table is that
of the [array API standard](https://data-apis.org/array-api/latest/API_specification/type_promotion.html); bfloat16
meets float16 in float32. Where kinds differ, which the standard leaves open, a complex or floating dtype wins over
an integer and an integer wins over a bool. `hr.config(strict_promotion=True)` makes those an error. `-` means there
is no common dtype: cast one of them. Strings, handles and variants meet only their own kind.

Short forms: `i8` is int8, `u16` uint16, `f32` float32, `bf16` bfloat16, `c64` complex64.

{strong}

## Python numbers

Python's numbers are weak: they take the dtype of what they meet. A number of a higher kind lifts it to the default
dtype of that kind, float32 or complex64 (complex128 for float64). An integer that does not fit the dtype is an
error, not a wrapped number. Python numbers among themselves become bool, int32 (int64 where it does not fit),
float32 or complex64.

{weak}

## Division

`x / y` of two integers or bools gives float32, whatever their width, as a Python float beside them would; `//` and
`%` keep the integer dtype. Cast to float64 first where more than 24 bits count.

## Sums and products

`hr.sum`, `hr.prod`, `hr.cumulative_sum`, `hr.cumulative_prod` and `hr.linalg.trace` count bools and integers narrower
than int32 in int32, unsigned ones in uint32, as the array API standard asks; `dtype=` chooses another. The
operations `Sum`, `Prod`, `Cumsum` and `Cumprod` keep the dtype, as in TensorFlow.
"""


def short(dtype: DType) -> str:
    """The short form of a dtype's name."""
    name = dtype.name
    return SHORT.get(name) or name.replace("uint", "u").replace("int", "i").replace("float", "f")


def _meeting(left: DType, right: DType) -> str:
    try:
        return short(promote_types(left, right))
    except DTypeError:
        return "-"


def _lifted(dtype: DType, number: hr.types.Scalar) -> str:
    try:
        return short(promote_with_scalar(dtype, number))
    except InvalidArgumentError:
        return "-"


def _table(corner: str, columns: list[str], rows: list[list[str]]) -> str:
    head = [f"| {corner} | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    return "\n".join([*head, *(f"| **{row[0]}** | " + " | ".join(row[1:]) + " |" for row in rows)])


def document() -> str:
    """The document as the code is now."""
    strong = [[short(left), *(_meeting(left, right) for right in COMPUTABLE)] for left in COMPUTABLE]
    weak = [[short(dtype), *(_lifted(dtype, number) for _, number in NUMBERS)] for dtype in COMPUTABLE]
    return TEXT.format(
        strong=_table("", [short(dtype) for dtype in COMPUTABLE], strong),
        weak=_table("", [f"`{text}`" for text, _ in NUMBERS], weak),
    )


def test_golden_document_shows_the_tables_of_the_code() -> None:
    if "HEADRACE_WRITE_GOLDENS" in os.environ:
        DOCUMENT.write_text(document())
    assert DOCUMENT.read_text() == document(), "nox -s goldens rewrites it"


@pytest.mark.parametrize("left", COMPUTABLE, ids=str)
def test_promotion_is_symmetric_and_operators_follow_it(left: DType) -> None:
    for right in COMPUTABLE:
        assert _meeting(left, right) == _meeting(right, left)
        if _meeting(left, right) != "-" and "bool" not in (_meeting(left, right), left.name, right.name):
            with hr.Graph().as_default():
                total = hr.constant(np.zeros([1], left.array_type)) + hr.constant(np.zeros([1], right.array_type))
            assert total.dtype is promote_types(left, right)


def test_promotion_of_three_operands_does_not_depend_on_their_order() -> None:
    kinds = [hr.int8, hr.uint8, hr.float16, hr.bfloat16, hr.float32, hr.complex64]
    for a in kinds:
        for b in kinds:
            for c in kinds:
                assert promote_types(promote_types(a, b), c) is promote_types(a, promote_types(b, c))


@pytest.mark.parametrize(("dtype", "number"), [(hr.uint8, -1), (hr.int8, 128), (hr.uint8, 256)])
def test_an_integer_that_does_not_fit_is_an_error(dtype: DType, number: int) -> None:
    with hr.Graph().as_default(), pytest.raises(InvalidArgumentError, match=rf"{number} does not fit {dtype}"):
        hr.constant(1, dtype) + number


@pytest.mark.parametrize("numbers", [[1, 300], [300, 1], [[5], [-1]]])
def test_integers_of_a_list_must_all_fit(numbers: list[object]) -> None:
    with hr.Graph().as_default(), pytest.raises(InvalidArgumentError, match=r"(300|-1) does not fit uint8"):
        hr.add(hr.constant([1], hr.uint8), numbers)


def test_a_list_of_numbers_is_as_weak_as_one_of_its_highest_kind() -> None:
    with hr.Graph().as_default() as graph:
        wide = hr.maximum(hr.constant([0], hr.uint64), [1, 2**63])
        mixed = hr.add(hr.constant([1], hr.uint8), [300, 0.5])
        assert hr.add(hr.constant([1], hr.float16), [1, 2]).dtype is hr.float16
        assert hr.add(hr.constant([1], hr.int8), [True, 2]).dtype is hr.int8
    assert (wide.dtype, mixed.dtype) == (hr.uint64, hr.float32)
    assert hr.Session(graph).run(wide).tolist() == [1, 2**63]


def test_strict_promotion_refuses_different_kinds() -> None:
    with hr.config(strict_promotion=True), hr.Graph().as_default():
        assert (hr.constant(1.0) + 2).dtype is hr.float32
        with pytest.raises(DTypeError, match="no common dtype"):
            hr.constant(1.0) + hr.constant(1)
        with pytest.raises(DTypeError, match="different kinds"):
            hr.constant(1) + 0.5


def test_of_no_operands_there_is_no_dtype() -> None:
    with pytest.raises(DTypeError, match="there is nothing to promote"):
        hr.result_type()
