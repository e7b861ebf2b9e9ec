"""User functions of the reduction, cumulative, segment, Einstein and linear algebra families."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import InvalidArgumentError, ShapeError

X = np.random.default_rng(0).normal(size=(2, 3, 4))


def value_of(build: Callable[[], Any]) -> Any:
    """Build in a fresh graph and run."""
    graph = hr.Graph()
    with graph.as_default():
        result = build()
    return hr.Session(graph).run(result)


PAIRS: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    (hr.sum, np.sum),
    (hr.mean, np.mean),
    (hr.max, np.max),
    (hr.min, np.min),
    (hr.prod, np.prod),
    (hr.var, np.var),
    (hr.std, np.std),
]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), [1], ()])
def test_reductions_take_axes_as_numpy_does(ours: Any, theirs: Any, axis: Any, keepdims: bool) -> None:
    expected = theirs(X, axis=tuple(axis) if isinstance(axis, list) else axis, keepdims=keepdims)
    with hr.Graph().as_default() as graph:
        y = ours(X, axis=axis, keepdims=keepdims)
    assert y.shape == expected.shape
    np.testing.assert_allclose(hr.Session(graph).run(y), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=lambda function: function.__name__)
def test_reductions_of_everything_work_without_a_static_rank(ours: Any, theirs: Any) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float64)
        y = ours(x)
    np.testing.assert_allclose(hr.Session(graph).run(y, feeds={x: X}), theirs(X), rtol=1e-12)


@pytest.mark.parametrize(
    "function", [hr.sum, hr.mean, hr.max, hr.all, hr.argmax, hr.cumulative_sum, hr.linalg.vector_norm]
)
@pytest.mark.parametrize("axis", [2, -3, -(2**63)])
def test_o09_a_wrong_axis_is_an_error_at_build(function: Any, axis: int) -> None:
    x = np.ones([2, 3], np.bool_) if function is hr.all else np.ones([2, 3], np.float32)
    with hr.Graph().as_default(), pytest.raises(InvalidArgumentError, match=rf"axis is out of range(.|\n)*axis {axis}"):
        function(x, axis=np.array(axis, np.int64))


@pytest.mark.parametrize("dtype", [np.bool_, np.int16, np.uint8])
def test_sums_and_means_of_what_is_not_floating(dtype: Any) -> None:
    x = np.array([1, 0, 1], dtype)
    total, mean = value_of(lambda: [hr.sum(x), hr.mean(x)])
    assert (total, total.dtype) == (2, np.dtype(np.uint32 if dtype is np.uint8 else np.int32))
    assert mean.dtype == np.float32
    assert mean == pytest.approx(2 / 3)


def test_any_and_all_of_numbers_ask_for_what_is_not_zero() -> None:
    assert value_of(lambda: [hr.any([0.0, 2.0]), hr.all([0, 2]), hr.all([-1, 2])]) == [True, False, True]


@pytest.mark.parametrize(("ours", "theirs"), [(hr.argmax, np.argmax), (hr.argmin, np.argmin)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_positions_take_axes_as_numpy_does(ours: Any, theirs: Any, axis: Any, keepdims: bool) -> None:
    found = value_of(lambda: ours(X, axis=axis, keepdims=keepdims, dtype=hr.int32))
    expected = theirs(X, axis=axis, keepdims=keepdims)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("correction", [0, 1, 0.5])
def test_variance_with_a_correction(correction: float) -> None:
    found = value_of(lambda: [hr.var(X, axis=(0, 1), correction=correction), hr.std(X, axis=2, correction=correction)])
    np.testing.assert_allclose(found[0], np.var(X, axis=(0, 1), ddof=correction), rtol=1e-12)
    np.testing.assert_allclose(found[1], np.std(X, axis=2, ddof=correction), rtol=1e-12)


@pytest.mark.parametrize("keepdims", [False, True])
def test_logsumexp_neither_overflows_nor_fails_at_infinity(keepdims: bool) -> None:
    x = np.array([[1000.0, 1000.0], [-np.inf, -np.inf], [np.inf, 1.0], [-1000.0, -1001.0]])
    with np.errstate(all="ignore"):
        expected = np.logaddexp.reduce(x, axis=1, keepdims=True)[:, slice(None) if keepdims else 0]
    np.testing.assert_allclose(value_of(lambda: hr.logsumexp(x, axis=1, keepdims=keepdims)), expected)


@pytest.mark.parametrize("equation", ["ij,jk", "ij,jk->ki", "ij,jk,kl->il", "ij,jk,ik", "...j,jk->...k", "ij,jk,i->k"])
def test_einsum_takes_numpys_equations(equation: str) -> None:
    shapes = {"ij": (2, 3), "jk": (3, 4), "kl": (4, 2), "ik": (2, 4), "...j": (5, 2, 3), "i": (2,)}
    terms = equation.partition("->")[0].split(",")
    arrays = [np.random.default_rng(seed).normal(size=shapes[term]) for seed, term in enumerate(terms)]
    np.testing.assert_allclose(value_of(lambda: hr.einsum(equation, *arrays)), np.einsum(equation, *arrays), rtol=1e-10)


def test_einsum_adds_operations_of_at_most_two_inputs() -> None:
    with hr.Graph().as_default() as graph:
        hr.einsum("ij,jk,kl->il", np.ones([2, 2]), np.ones([2, 2]), np.ones([2, 2]))
    assert [len(op.inputs) for op in graph.operations if op.type == "Einsum"] == [2, 2]


def test_einsum_counts_its_operands() -> None:
    with (
        hr.Graph().as_default(),
        pytest.raises(InvalidArgumentError, match="another number of operands(.|\n)*1 operands"),
    ):
        hr.einsum("ij,jk->ik", np.ones([2, 2]))


@pytest.mark.parametrize("axes", [0, 1, 2, ([0], [1]), ([1, 0], [0, 1])])
def test_tensordot_contracts_the_axes_that_numpy_does(axes: Any) -> None:
    a, b = X[0, :3, :3], X[1, :3, :3]
    np.testing.assert_allclose(value_of(lambda: hr.tensordot(a, b, axes)), np.tensordot(a, b, axes), rtol=1e-12)


def test_solve_takes_a_vector() -> None:
    a, b = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
    np.testing.assert_allclose(value_of(lambda: hr.linalg.solve(a, b)), np.linalg.solve(a, b))


def test_trace_of_a_batch() -> None:
    x = np.arange(18.0).reshape(2, 3, 3)
    np.testing.assert_allclose(value_of(lambda: hr.linalg.trace(x)), np.trace(x, axis1=1, axis2=2))


def test_matmul_of_a_scalar_is_an_error() -> None:
    with hr.Graph().as_default(), pytest.raises(ShapeError, match="matmul multiplies matrices"):
        hr.matmul(1.0, [[1.0]])


def test_matmul_error_shows_both_shapes() -> None:
    with (
        hr.Graph().as_default(),
        pytest.raises(ShapeError, match=r"float32\[2, 3\] and float32\[4, 5\](.|\n)*transpose_a"),
    ):
        hr.matmul(hr.zeros([2, 3]), hr.zeros([4, 5]))


def test_segment_shapes_follow_from_constant_ids() -> None:
    with hr.Graph().as_default():
        data = hr.placeholder(hr.float32, [3, 2])
        assert hr.segment_sum(data, [0, 0, 4]).shape == [5, 2]
        assert hr.segment_sum(data, hr.placeholder(hr.int32, [3])).shape == [None, 2]
        assert hr.unsorted_segment_sum(data, [4, 0, 1], 7).shape == [7, 2]


def test_the_number_of_segments_must_be_a_scalar() -> None:
    with hr.Graph().as_default() as graph:
        number = hr.placeholder(hr.int32)
        total = hr.unsorted_segment_sum([1.0, 2.0], [0, 1], number)
        with pytest.raises(ShapeError, match=r"num_segments must be a scalar(.|\n)*\[1\]"):
            hr.unsorted_segment_sum([1.0, 2.0], [0, 1], [2])
    with pytest.raises(ShapeError, match=r"num_segments must be a scalar(.|\n)*\[1\]"):
        hr.Session(graph).run(total, feeds={number: [2]})
