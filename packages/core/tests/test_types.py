"""Element types, shapes and promotion."""

from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import headrace as hr
from headrace.types import COMPUTABLE, as_shape, dtype_of_number, promote_with_scalar


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.float32, hr.float32), (np.dtype(">f4"), hr.float32), ("double", hr.float64), (float, hr.float32),
        (int, hr.int32), (bool, hr.bool), (str, hr.string), (bytes, hr.string), ("U5", hr.string), (object, hr.string),
        (1, hr.float32), (101, hr.float32), (ml_dtypes.bfloat16, hr.bfloat16), (hr.int8, hr.int8), (complex,
        hr.complex64),
    ],
)  # fmt: skip
def test_everything_that_names_a_dtype_is_understood(given: object, expected: hr.DType) -> None:
    assert hr.as_dtype(given) is expected


@pytest.mark.parametrize("given", ["float31", np.datetime64, 77, None, SimpleNamespace(dtype=5)])
def test_unknown_dtype_is_refused_with_the_known_names(given: object) -> None:
    with pytest.raises(hr.errors.DTypeError, match="no dtype is known as(.|\n)*float32"):
        hr.as_dtype(given)


def test_dtypes_are_one_object_each_even_after_copying() -> None:
    assert copy.deepcopy(hr.float32) is hr.float32
    assert pickle.loads(pickle.dumps(hr.bfloat16)) is hr.bfloat16
    assert repr(hr.float32) == "hr.float32"
    assert {dtype.number for dtype in COMPUTABLE} == {1, 2, 3, 4, 5, 6, 8, 9, 10, 14, 17, 18, 19, 22, 23}


def test_opaque_dtype_has_no_values() -> None:
    with pytest.raises(hr.errors.DTypeError, match="int4 has no values"):
        _ = hr.as_dtype(29).array_type


def test_shape_states_what_is_known() -> None:
    shape = hr.Shape([None, 3, -1])
    assert shape.rank == 3
    assert str(shape) == "[?, 3, ?]"
    assert list(shape) == [None, 3, None]
    assert shape.num_elements is None
    assert hr.Shape([2, 3]).num_elements == 6
    assert hr.Shape() != hr.Shape([])
    assert str(hr.Shape()) == "<unknown>"
    assert hr.Shape([2, 3]) == (2, 3)
    assert bool(hr.Shape([]))


def test_shapes_merge_relax_and_concatenate() -> None:
    assert hr.Shape([None, 3]).merge(hr.Shape([2, None])) == hr.Shape([2, 3])
    assert hr.Shape().merge(hr.Shape([1])) == hr.Shape([1])
    assert hr.Shape([2, 3]).relax(hr.Shape([4, 3])) == hr.Shape([None, 3])
    assert hr.Shape([2]).relax(hr.Shape([2, 2])) == hr.Shape()
    assert hr.Shape([2]) + hr.Shape([None]) == hr.Shape([2, None])
    assert as_shape(5) == hr.Shape([5])
    assert hr.Shape().with_rank(2) == hr.Shape([None, None])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hr.Shape([2]).merge(hr.Shape([3])), "contradict"),
        (lambda: hr.Shape(["a"]), "must be an integer"),
        (lambda: hr.Shape([-2]), "out of range"),
        (lambda: hr.Shape([2**63]), "out of range"),
        (lambda: hr.Shape([None]).as_tuple(), "not known yet"),
        (lambda: hr.Shape().as_tuple(), "not known yet"),
        (lambda: list(hr.Shape()), "no dimensions to walk over"),
        (lambda: len(hr.Shape()), "has no length"),
        (lambda: hr.Shape([1]).with_rank(2), "rank is wrong"),
        (lambda: hr.broadcast_shapes(hr.Shape([2]), hr.Shape([3])), r"do not broadcast(.|\n)*\[2\] and \[3\]"),
    ],
)
def test_impossible_shapes_are_refused(call, message: str) -> None:
    with pytest.raises(hr.errors.ShapeError, match=message):
        call()


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        (([2, 1], [3]), [2, 3]), (([], [4]), [4]), (([None, 1], [3]), [None, 3]), (([None], [1]), [None]),
        (([0], [1]), [0]), (([None], [5]), [5]), ((None, [2]), None), (([], []), []),
    ],
)  # fmt: skip
def test_broadcasting_follows_numpy_where_sizes_are_known(shapes, expected) -> None:
    assert hr.broadcast_shapes(*(hr.Shape(shape) for shape in shapes)) == hr.Shape(expected)


def test_promotion_of_equal_kinds_is_that_of_numpy() -> None:
    """NumPy 2 implements the array API's table for these."""
    kinds = [
        d for d in COMPUTABLE if d.is_integer or d.name in ("float32", "float64", "complex64", "complex128", "bool")
    ]
    for a in kinds:
        for b in kinds:
            same = a.is_integer == b.is_integer and (a.is_floating or a.is_complex) == (b.is_floating or b.is_complex)
            if (
                same
                and {a.name, b.name} != {"uint64", "int64"}
                and not ("uint64" in (a.name, b.name) and "int" in (a.kind, b.kind))
            ):
                assert hr.promote_types(a, b).array_type == np.promote_types(a.array_type, b.array_type), (a, b)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (hr.bfloat16, hr.float16, hr.float32), (hr.bfloat16, hr.float32, hr.float32), (hr.int64, hr.float32,
        hr.float32), (hr.bool, hr.uint8, hr.uint8), (hr.float64, hr.complex64, hr.complex128), (hr.int32, hr.bfloat16,
        hr.bfloat16),
    ],
)  # fmt: skip
def test_promotion_beyond_the_standard_is_a_choice_that_strict_refuses(a, b, expected) -> None:
    assert hr.promote_types(a, b) is expected
    assert hr.promote_types(b, a) is expected
    if a.kind != b.kind and {a.kind, b.kind} != {"float", "complex"}:
        with pytest.raises(hr.errors.DTypeError, match="no common dtype"):
            hr.promote_types(a, b, strict=True)


@pytest.mark.parametrize(("a", "b"), [(hr.uint64, hr.int64), (hr.uint64, hr.int8), (hr.string, hr.float32)])
def test_dtypes_without_a_common_one_are_refused(a, b) -> None:
    with pytest.raises(hr.errors.DTypeError, match="no common dtype"):
        hr.promote_types(a, b)


def test_python_numbers_are_weak() -> None:
    assert promote_with_scalar(hr.float16, 2) is hr.float16
    assert promote_with_scalar(hr.int32, 0.5) is hr.float32
    assert promote_with_scalar(hr.float64, 1j) is hr.complex128
    assert promote_with_scalar(hr.uint8, 255) is hr.uint8
    assert promote_with_scalar(hr.bool, 3) is hr.int32
    assert dtype_of_number(2**40) is hr.int64
    with pytest.raises(hr.errors.InvalidArgumentError, match="256 does not fit uint8"):
        promote_with_scalar(hr.uint8, 256)
    with pytest.raises(hr.errors.DTypeError, match="no common dtype"):
        promote_with_scalar(hr.string, 1)
