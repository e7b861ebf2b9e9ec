"""Limits, kinds and promotion of element types."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import headrace as hr

FLOATS = [hr.float16, hr.bfloat16, hr.float32, hr.float64]
INTEGERS = [hr.int8, hr.int16, hr.int32, hr.int64, hr.uint8, hr.uint16, hr.uint32, hr.uint64]
COMPLEXES = [hr.complex64, hr.complex128]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_finfo_agrees_with_numpy(dtype):
    limits, wanted = hr.finfo(dtype), ml_dtypes.finfo(dtype.array_type)
    for name in ("bits", "eps", "max", "min", "smallest_normal"):
        assert getattr(limits, name) == getattr(wanted, name)
        assert type(getattr(limits, name)) is (int if name == "bits" else float)
    assert limits.dtype is dtype


def test_finfo_of_complex_numbers_is_that_of_their_parts():
    assert hr.finfo(hr.complex64) == hr.finfo(hr.float32)
    assert hr.finfo(hr.complex128).dtype is hr.float64


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_iinfo_agrees_with_numpy(dtype):
    limits, wanted = hr.iinfo(dtype), np.iinfo(dtype.array_type)
    assert (limits.bits, limits.min, limits.max, limits.dtype) == (wanted.bits, wanted.min, wanted.max, dtype)


def test_limits_take_tensors_and_numpy_dtypes():
    with hr.Graph().as_default():
        assert hr.finfo(hr.constant(1.0)).dtype is hr.float32
        assert hr.iinfo(hr.constant(1)).dtype is hr.int32
    assert hr.finfo(np.dtype("float16")).dtype is hr.float16
    assert hr.iinfo(np.int8).dtype is hr.int8


def test_limits_of_the_other_kind_are_refused():
    with pytest.raises(hr.errors.DTypeError, match=r"finfo describes floating dtypes(.|\n)*hr.iinfo"):
        hr.finfo(hr.int32)
    with pytest.raises(hr.errors.DTypeError, match=r"iinfo describes integer dtypes(.|\n)*hr.finfo"):
        hr.iinfo(hr.float32)


KINDS = {
    "bool": [hr.bool],
    "signed integer": INTEGERS[:4],
    "unsigned integer": INTEGERS[4:],
    "integral": INTEGERS,
    "real floating": FLOATS,
    "complex floating": COMPLEXES,
    "numeric": [*INTEGERS, *FLOATS, *COMPLEXES],
}


@pytest.mark.parametrize("kind", KINDS)
def test_isdtype_knows_the_kinds_of_the_standard(kind):
    every = [hr.bool, *INTEGERS, *FLOATS, *COMPLEXES, hr.string]
    assert [dtype for dtype in every if hr.isdtype(dtype, kind)] == [dtype for dtype in every if dtype in KINDS[kind]]


def test_isdtype_takes_dtypes_and_tuples():
    assert hr.isdtype(hr.int8, hr.int8)
    assert hr.isdtype(np.int8, np.dtype("int8"))
    assert not hr.isdtype(hr.int8, hr.uint8)
    assert hr.isdtype(hr.int8, ("real floating", ("bool", hr.int8)))
    with pytest.raises(hr.errors.InvalidArgumentError, match=r"no kind 'integer'(.|\n)*signed integer"):
        hr.isdtype(hr.int8, "integer")


def test_can_cast_follows_promotion():
    assert hr.can_cast(hr.int8, hr.int16)
    assert hr.can_cast(hr.uint8, hr.int16)
    assert hr.can_cast(hr.float32, hr.complex64)
    assert hr.can_cast(hr.bool, hr.bool)
    assert not hr.can_cast(hr.int16, hr.int8)
    assert not hr.can_cast(hr.int8, hr.uint8)
    assert not hr.can_cast(hr.uint64, hr.int64)
    assert not hr.can_cast(hr.string, hr.int8)
    with hr.Graph().as_default():
        assert hr.can_cast(hr.constant(1.0), hr.float64)


def test_result_type_mixes_dtypes_tensors_and_numbers():
    assert hr.result_type(hr.int8, hr.uint8) is hr.int16
    assert hr.result_type(np.float32, np.dtype("float64")) is hr.float64
    assert hr.result_type(hr.float32, 2) is hr.float32
    assert hr.result_type(hr.int32, 0.5) is hr.float32
    assert hr.result_type(np.zeros(2, np.int8), hr.int32) is hr.int32
    with hr.Graph().as_default():
        assert hr.result_type(hr.constant(1.0), hr.float64, 1j) is hr.complex128
    with pytest.raises(hr.errors.DTypeError, match="no common dtype"):
        hr.result_type(hr.uint64, hr.int64)
    with (
        hr.config(strict_promotion=True),
        pytest.raises(hr.errors.DTypeError, match="int32 and float32 have no common"),
    ):
        hr.result_type(hr.int32, hr.float32)


@pytest.mark.parametrize("target", [hr.bool, *INTEGERS, *FLOATS, *COMPLEXES], ids=str)
def test_astype_converts_and_keeps_the_shape(target):
    with hr.Graph().as_default() as graph:
        x = hr.constant([[0.0, 1.0], [2.0, 3.0]])
        result = hr.astype(x, target, copy=False)
    value = hr.Session(graph).run(result)
    assert value.dtype == target.array_type
    np.testing.assert_array_equal(value, np.array([[0, 1], [2, 3]]).astype(target.array_type))


def test_astype_to_the_same_dtype_adds_nothing():
    with hr.Graph().as_default():
        x = hr.constant(1.0)
        assert hr.astype(x, hr.float32) is x


def test_astype_does_not_drop_imaginary_parts():
    with hr.Graph().as_default():
        with pytest.raises(hr.errors.DTypeError, match=r"complex64 to float32(.|\n)*hr.real"):
            hr.astype([1j], hr.float32)
        assert hr.astype([1j], hr.complex128).dtype is hr.complex128
