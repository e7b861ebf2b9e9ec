"""hr.eye against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr


@pytest.mark.parametrize("dtype", [hr.bool, hr.int8, hr.uint64, hr.bfloat16, hr.float32, hr.complex128], ids=str)
@pytest.mark.parametrize("k", [-9, -2, 0, 1, 9])
@pytest.mark.parametrize("shape", [(3, None), (2, 4), (4, 2), (0, 3), (3, 0)], ids=str)
def test_eye_agrees_with_numpy(shape, k, dtype):
    with hr.Graph().as_default() as graph:
        result = hr.eye(*shape, k=k, dtype=dtype)
    value = hr.Session(graph).run(result)
    assert value.dtype == dtype.array_type
    assert result.shape == value.shape
    np.testing.assert_array_equal(value, np.eye(*shape, k).astype(dtype.array_type))
