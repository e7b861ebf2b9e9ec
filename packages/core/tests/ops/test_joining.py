"""hr.concat of rows against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr


@pytest.mark.parametrize("open_shapes", [False, True])
@pytest.mark.parametrize("shapes", [[(2, 3), (4,)], [(), (2,), (0, 3)], [(2, 2)]], ids=str)
def test_concat_along_no_axis_makes_rows(shapes, open_shapes):
    arrays = [np.random.default_rng(index).normal(size=shape) for index, shape in enumerate(shapes)]
    with hr.Graph().as_default() as graph:
        inputs = [hr.placeholder(hr.float64, [None] * x.ndim if open_shapes else x.shape) for x in arrays]
        result = hr.concat(inputs, axis=None)
    value = hr.Session(graph).run(result, feeds=dict(zip(inputs, arrays, strict=True)))
    np.testing.assert_array_equal(value, np.concatenate(arrays, axis=None))
