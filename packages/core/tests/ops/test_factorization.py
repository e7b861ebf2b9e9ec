"""Factorisations: what holds for every choice of signs, and what follows from them, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_gradient
from headrace.testing.reference import numbers

DTYPES = ["float16", "float32", "float64", "complex64", "complex128"]
SHAPES = [(3, 3), (2, 4, 2), (2, 2, 4), (1, 1)]
CLOSE = {"float16": 5e-3, "float32": 5e-6, "complex64": 5e-6, "float64": 1e-13, "complex128": 1e-13}


def run(function, *arrays, open_shapes=False):
    with hr.Graph().as_default() as graph:
        inputs = [hr.placeholder(x.dtype, [None] * x.ndim if open_shapes else x.shape) for x in arrays]
        result = function(*inputs)
    return hr.Session(graph).run(result, feeds=dict(zip(inputs, arrays, strict=True)))


def wide(x):
    return np.asarray(x).astype(np.complex128 if np.iscomplexobj(x) else np.float64)


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def assert_same(actual, wanted, dtype):
    np.testing.assert_allclose(wide(actual), wide(wanted), rtol=CLOSE[dtype], atol=10 * CLOSE[dtype])


def assert_orthonormal_columns(x, dtype):
    unit = np.broadcast_to(np.eye(x.shape[-1]), (*x.shape[:-2], x.shape[-1], x.shape[-1]))
    assert_same(adjoint(wide(x)) @ wide(x), unit, dtype)


@pytest.mark.parametrize("open_shapes", [False, True])
@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_qr_gives_the_matrix_back(dtype, shape, mode, open_shapes):
    x = numbers(dtype, *shape)
    q, r = run(lambda x: hr.linalg.qr(x, mode=mode), x, open_shapes=open_shapes)
    assert_same(wide(q) @ wide(r), x, dtype)
    assert_orthonormal_columns(q, dtype)
    np.testing.assert_array_equal(r, np.triu(r))
    wanted = np.linalg.qr(wide(x), mode=mode)
    assert (q.shape, r.shape) == (wanted.Q.shape, wanted.R.shape)


@pytest.mark.parametrize("open_shapes", [False, True])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_svd_gives_the_matrix_back(dtype, shape, full, open_shapes):
    x = numbers(dtype, *shape)
    found = run(lambda x: hr.linalg.svd(x, full_matrices=full), x, open_shapes=open_shapes)
    least = min(shape[-2:])
    product = wide(found.U)[..., :least] * wide(found.S)[..., None, :] @ wide(found.Vh)[..., :least, :]
    assert_same(product, x, dtype)
    assert_orthonormal_columns(found.U, dtype)
    assert_orthonormal_columns(adjoint(found.Vh), dtype)
    wanted = np.linalg.svd(wide(x), full_matrices=full)
    assert [part.shape for part in found] == [part.shape for part in wanted]
    assert_same(found.S, wanted.S, dtype)
    assert found.S.dtype == np.abs(x).dtype
    assert_same(run(hr.linalg.svdvals, x, open_shapes=open_shapes), wanted.S, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (1, 1), (0, 0)], ids=str)
def test_eigh_gives_the_matrix_back(dtype, shape):
    x = numbers(dtype, *shape)
    x = (x + adjoint(x)).astype(x.dtype)
    found = run(hr.linalg.eigh, np.tril(x))
    assert found.eigenvalues.dtype == np.abs(x).dtype
    product = wide(found.eigenvectors) * wide(found.eigenvalues)[..., None, :] @ adjoint(wide(found.eigenvectors))
    assert_same(product, x, dtype)
    assert_orthonormal_columns(found.eigenvectors, dtype)
    assert (np.diff(found.eigenvalues) >= 0).all()
    assert_same(run(hr.linalg.eigvalsh, x), found.eigenvalues, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (1, 1), (0, 0)], ids=str)
def test_slogdet_agrees_with_numpy(dtype, shape):
    x = numbers(dtype, *shape)
    sign, logarithm = run(hr.linalg.slogdet, x)
    wanted = np.linalg.slogdet(wide(x))
    assert_same(sign, wanted.sign, dtype)
    assert_same(logarithm, wanted.logabsdet, dtype)
    assert logarithm.dtype == np.abs(x).dtype


@pytest.mark.parametrize("adjoint_", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_solve_triangular_agrees_with_numpy(dtype, lower, adjoint_):
    a = (numbers(dtype, 2, 3, 3) + 9 * np.eye(3)).astype(dtype)
    b = numbers(dtype, 3, 2, seed=1)
    result = run(lambda a, b: hr.linalg.solve_triangular(a, b, lower=lower, adjoint=adjoint_), a, b)
    triangle = np.tril(wide(a)) if lower else np.triu(wide(a))
    assert_same(result, np.linalg.solve(adjoint(triangle) if adjoint_ else triangle, wide(b)), dtype)


RANKS = np.array([[[1.0, 2], [2, 4]], [[1, 0], [0, 1]], [[0, 0], [0, 0]], [[1, 0], [0, 1e-9]]])


def test_matrix_rank_agrees_with_numpy():
    result = run(hr.linalg.matrix_rank, RANKS)
    assert result.dtype == np.int64
    np.testing.assert_array_equal(result, np.linalg.matrix_rank(RANKS))
    np.testing.assert_array_equal(run(lambda x: hr.linalg.matrix_rank(x, rtol=1e-6), RANKS), [1, 2, 0, 1])
    tolerances = [1e-6, 2.0, 1e-6, 1e-12]
    np.testing.assert_array_equal(run(lambda x: hr.linalg.matrix_rank(x, rtol=tolerances), RANKS), [1, 0, 0, 2])


@pytest.mark.parametrize("open_shapes", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_pinv_agrees_with_numpy(dtype, shape, open_shapes):
    x = numbers(dtype, *shape)
    result = run(hr.linalg.pinv, x, open_shapes=open_shapes)
    np.testing.assert_allclose(result, np.linalg.pinv(wide(x)), rtol=1e4 * CLOSE[dtype], atol=1e3 * CLOSE[dtype])


def test_pinv_of_singular_matrices():
    np.testing.assert_allclose(run(hr.linalg.pinv, RANKS[:3]), np.linalg.pinv(RANKS[:3]), atol=1e-13)


def test_what_does_not_fit_is_said():
    with hr.Graph().as_default():
        with pytest.raises(hr.errors.InvalidArgumentError, match="the mode is not known"):
            hr.linalg.qr(np.eye(2), mode="r")
        with pytest.raises(hr.errors.ShapeError, match="Svd takes matrices"):
            hr.linalg.svd([1.0, 2.0])
        with pytest.raises(hr.errors.ShapeError, match="takes square matrices"):
            hr.linalg.eigh(np.ones((2, 3)))


def gradients_of(function, x):
    with hr.Graph().as_default():
        fed = hr.constant(x)
        return hr.gradients(function(fed), [fed])


@pytest.mark.parametrize("shape", [(2, 3, 3), (4, 2), (2, 4)], ids=str)
def test_gradients_of_singular_vectors(shape):
    """Products do not change with the signs of the vectors."""

    def build(xs):
        u, s, vh = hr.linalg.svd(xs[0], full_matrices=False)
        return [s, hr.square(u), hr.square(vh), u[..., :1] * vh[..., :1, :]]

    check_gradient(build, [numbers("float64", *shape, seed=2)])


def test_gradients_of_full_matrices_of_the_values_only():
    check_gradient(lambda xs: [hr.linalg.svd(xs[0]).S], [numbers("float64", 4, 2)])
    with pytest.raises(hr.errors.UnimplementedError, match="only without full_matrices"):
        gradients_of(lambda x: hr.linalg.svd(x).U, numbers("float64", 4, 2))
    with pytest.raises(hr.errors.UnimplementedError, match="complete QR decomposition of tall matrices"):
        gradients_of(lambda x: hr.linalg.qr(x, mode="complete").Q, numbers("float64", 4, 2))


@pytest.mark.parametrize("function", [hr.linalg.svdvals, lambda x: hr.linalg.qr(x).R])
def test_gradients_need_the_size_of_the_matrices(function):
    with hr.Graph().as_default():
        x = hr.placeholder(hr.float64, [None, None])
        with pytest.raises(hr.errors.ShapeError, match="needs to know the size of the matrices"):
            hr.gradients(function(x), [x])


def test_gradients_of_eigenvectors():
    def build(xs):
        values, vectors = hr.linalg.eigh((xs[0] + hr.matrix_transpose(xs[0])) * 0.5)
        return [values, hr.square(vectors), vectors[..., :1] * vectors[..., 1:2, :1]]

    check_gradient(build, [numbers("float64", 2, 3, 3)])
    check_gradient(lambda xs: [hr.linalg.eigvalsh(xs[0] + hr.matrix_transpose(xs[0]))], [numbers("float64", 3, 3)])


def complex_of(xs):
    return hr.complex(xs[0], xs[1])


def parts(*tensors):
    return [part for tensor in tensors for part in (hr.real(tensor), hr.imag(tensor))]


def test_gradients_of_complex_factorisations():
    points = [numbers("float64", 3, 3, seed=4), numbers("float64", 3, 3, seed=5)]
    check_gradient(lambda xs: parts(*hr.linalg.slogdet(complex_of(xs))), points)
    check_gradient(lambda xs: parts(*hr.linalg.qr(complex_of(xs))), points, second_order=False)
    check_gradient(lambda xs: [hr.linalg.svdvals(complex_of(xs))], points)

    def svd(xs):
        u, s, vh = hr.linalg.svd(complex_of(xs))
        return [s, hr.abs(u), hr.abs(vh), *parts(u[:, :1] * vh[:1])]

    check_gradient(svd, points, second_order=False)

    def eigh(xs):
        x = complex_of(xs)
        values, vectors = hr.linalg.eigh(x + hr.conj(hr.matrix_transpose(x)))
        return [values, hr.abs(vectors)]

    check_gradient(eigh, points, second_order=False)


def test_gradients_of_what_follows():
    x = numbers("float64", 3, 2)
    check_gradient(lambda xs: [hr.linalg.pinv(xs[0])], [x])
    check_gradient(
        lambda xs: [hr.linalg.solve_triangular(xs[0], xs[1])], [numbers("float64", 2, 2) + 9 * np.eye(2), x[:2]]
    )


def test_equal_singular_values_and_eigenvalues_have_gradients_of_their_own():
    with hr.Graph().as_default() as graph:
        x = hr.constant(np.eye(2))
        slopes = [
            hr.gradients(hr.sum(values), [x])[0]
            for values in (hr.linalg.svd(x).S, hr.linalg.eigh(x).eigenvalues, hr.linalg.matrix_norm(x, ord="nuc"))
        ]
    for slope in hr.Session(graph).run(slopes):
        np.testing.assert_allclose(slope, np.eye(2), atol=1e-15)
