"""The Cholesky decomposition by either triangle."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_gradient
from headrace.testing.reference import numbers


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_cholesky_agrees_with_numpy(dtype, upper):
    x = numbers(dtype, 2, 3, 3)
    x = x @ np.conj(x.mT) + np.eye(3)
    with hr.Graph().as_default() as graph:
        result = hr.linalg.cholesky(x, upper=upper)
    np.testing.assert_allclose(
        hr.Session(graph).run(result), np.linalg.cholesky(x, upper=upper), rtol=1e-12, atol=1e-12
    )


def test_gradient_of_the_upper_triangle():
    check_gradient(
        lambda xs: [hr.linalg.cholesky(xs[0] @ xs[0].mT, upper=True)], [numbers("float64", 3, 3) + 4 * np.eye(3)]
    )
