"""hr.linspace against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr


def run(build):
    with hr.Graph().as_default() as graph:
        result = build()
    return hr.Session(graph).run(result)


@pytest.mark.parametrize("endpoint", [False, True])
@pytest.mark.parametrize("num", [0, 1, 2, 7])
@pytest.mark.parametrize(("start", "stop"), [(0, 1), (2.5, -1.0), (3, 3)])
def test_linspace_agrees_with_numpy(start, stop, num, endpoint):
    result = run(lambda: hr.linspace(start, stop, num, endpoint=endpoint, dtype=hr.float64))
    assert result.dtype == np.float64
    np.testing.assert_allclose(result, np.linspace(start, stop, num, endpoint=endpoint), rtol=1e-14, atol=1e-15)


def test_linspace_takes_a_number_that_is_computed():
    result = run(lambda: hr.linspace(0.0, 1.0, hr.placeholder_with_default(4, []), endpoint=False))
    assert result.tolist() == [0.0, 0.25, 0.5, 0.75]


def test_linspace_of_integers_is_float32():
    assert run(lambda: hr.linspace(np.int64(0), np.int64(4), 3)).dtype == np.float32
    assert run(lambda: hr.linspace(0, 4, 0)).dtype == np.float32


def test_linspace_of_fewer_than_no_numbers_is_refused():
    with hr.Graph().as_default(), pytest.raises(hr.errors.InvalidArgumentError, match="needs a number of elements"):
        hr.linspace(0.0, 1.0, -1)
