"""Memory that begins with a line of the cache, and that tells who reads it as any array does."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from headrace.plan import ALIGNMENT, aligned_array


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (1000, 1001)])
@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.complex128])
def test_begins_with_a_line(shape: tuple[int, ...], dtype: type[np.generic]) -> None:
    array = aligned_array(shape, dtype)
    assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
    assert array.ctypes.data % ALIGNMENT == 0
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert type(array) is np.ndarray


def test_python_objects_have_a_plain_array() -> None:
    assert aligned_array((2,), np.dtype(object)).tolist() == [None, None]


def test_views_hold_the_array_itself() -> None:
    array = aligned_array((4, 4), np.float32)
    before = sys.getrefcount(array)
    view = array[1:].view()
    assert view.base is array
    assert sys.getrefcount(array) == before + 1


def test_more_than_there_is_is_an_error() -> None:
    with pytest.raises(MemoryError, match="Unable to allocate"):
        aligned_array((1 << 60,), np.float32)
