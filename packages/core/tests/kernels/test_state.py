"""Rows of a variable are changed as `ufunc.at` changes them, to the bit, however often one comes."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.kernels.segment import reduce_segments
from headrace.kernels.state import change_rows
from headrace.types import DType, bfloat16, float32, int64

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("width", [1, 8, 33])
@pytest.mark.parametrize("most", [1, 2, 40, 1000])
def test_rows_are_changed_in_the_order_in_which_they_come(width: int, most: int) -> None:
    target = RNG.standard_normal((1000 // most, width)).astype(np.float32)
    many = RNG.integers(0, len(target), (10, 30))
    indices = RNG.permutation(len(target))[:300] if most == 1 else many
    rows = (RNG.standard_normal((*indices.shape, width)) * 10.0 ** RNG.integers(-6, 6)).astype(np.float32)
    for ufunc in (np.subtract, np.add, np.maximum):
        wanted, found = target.copy(), target.copy()
        ufunc.at(wanted, indices, rows)
        change_rows(ufunc, found, indices, rows)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", [float32, int64, bfloat16])
@pytest.mark.parametrize("most", [1, 3, 100])
def test_segments_of_one_row_are_reduced_like_others(dtype: DType, most: int) -> None:
    ids = RNG.permutation(200) if most == 1 else RNG.integers(-1, 200 // most, 200)
    data = (RNG.standard_normal((200, 9)) * 100).astype(dtype.array_type)
    found = reduce_segments(np.add, data, ids, 200, 0)
    for number in range(200):
        chosen = data[ids == number].astype(np.float32 if dtype is bfloat16 else dtype.array_type)
        total = np.add.reduceat(chosen, [0], axis=0)[0] if len(chosen) else np.zeros(9)
        np.testing.assert_array_equal(found[number], total.astype(dtype.array_type))
