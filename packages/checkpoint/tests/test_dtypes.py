"""Dtypes by number."""

from __future__ import annotations

import numpy as np
import pytest

from headrace import types as hr
from headrace_checkpoint.dtypes import STRING, dtype_name, number_of, numpy_dtype


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 6, 8, 9, 10, 14, 17, 18, 19, 22, 23])
def test_numbers_are_those_of_headrace(number: int) -> None:
    dtype = numpy_dtype(number)
    assert dtype is not None
    assert hr.as_dtype(number).array_type == dtype
    assert number_of(dtype) == number
    assert dtype_name(number) == hr.as_dtype(number).name


def test_strings_have_no_fixed_size() -> None:
    assert numpy_dtype(STRING) is None
    assert [number_of(np.dtype(kind)) for kind in ("O", "S3", "U3")] == [STRING] * 3


def test_quantised_types_are_read_as_integers_but_never_written() -> None:
    assert numpy_dtype(11) == np.int8
    assert number_of(np.dtype(np.int8)) == 6
    assert dtype_name(11) == "qint8"


def test_what_is_not_known() -> None:
    assert numpy_dtype(99) is None
    assert number_of(np.dtype("datetime64[s]")) is None
    assert dtype_name(21) == "variant"
