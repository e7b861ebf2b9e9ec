"""Sparse tensors as the user sees them: tuples of dense tensors that are fed and fetched as one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import FeedError

_VALUE = hr.SparseTensor(np.array([[0, 2], [1, 0]]), np.array([5.0, 7.0], np.float32), np.array([2, 3]))


def test_sparse_tensor_is_fed_and_fetched_as_one() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.sparse.placeholder(hr.float32, [2, 3])
        y = hr.sparse.matmul(x, hr.ones([3, 1]))
    session = hr.Session(graph)
    fetched, product = session.run([x, y], feeds={x: _VALUE})
    assert isinstance(fetched, hr.SparseTensor)
    assert fetched.indices.tolist() == [[0, 2], [1, 0]]
    assert product.tolist() == [[5], [7]]
    assert session.run_async(y, feeds={x: tuple(_VALUE)}).result().tolist() == [[5], [7]]
    assert x.dtype is hr.float32
    for wrong in ((1, 2), np.zeros(3)):
        with pytest.raises(hr.errors.FeedError, match="parts that are fed"):
            session.run(y, feeds={x: wrong})


def test_from_dense_and_back() -> None:
    with hr.Graph().as_default() as graph:
        dense = hr.constant([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]])
        x = hr.sparse.from_dense(dense)
        again = hr.sparse.to_dense(x)
        holes = hr.sparse.to_dense(x, np.float32(-1))
    sparse, back, filled = hr.Session(graph).run([x, again, holes])
    assert sparse.values.tolist() == [1, 2, 3]
    assert sparse.shape.tolist() == [2, 3]
    assert back.tolist() == [[0, 1, 0], [2, 0, 3]]
    assert filled.tolist() == [[-1, 1, -1], [2, -1, 3]]


def test_functions_agree_with_their_dense_counterparts() -> None:
    rng = np.random.default_rng(4)
    a, b = (np.where(rng.random((4, 6)) < 0.4, rng.normal(size=(4, 6)), 0) for _ in range(2))
    with hr.Graph().as_default() as graph:
        x, y = hr.sparse.from_dense(a), hr.sparse.from_dense(b)
        parts = hr.sparse.split(x, 2, axis=1)
        results = {
            "add": (hr.sparse.to_dense(hr.sparse.add(x, y)), a + b),
            "add dense": (hr.sparse.add(x, b), a + b),
            "multiply": (hr.sparse.to_dense(hr.sparse.multiply(x, b[:1])), a * b[:1]),
            "concat": (hr.sparse.to_dense(hr.sparse.concat([x, y], 1)), np.concatenate([a, b], 1)),
            "one part": (hr.sparse.to_dense(hr.sparse.concat([x])), a),
            "split": (hr.sparse.to_dense(hr.sparse.concat(parts, 1)), a),
            "slice": (hr.sparse.to_dense(hr.sparse.slice(x, [1, 2], [2, 9])), a[1:3, 2:]),
            "reshape": (hr.sparse.to_dense(hr.sparse.reshape(x, [3, -1])), a.reshape(3, -1)),
            "sum": (hr.sparse.sum(x), a.sum()),
            "sum of rows": (hr.sparse.sum(x, 1, keepdims=True), a.sum(1, keepdims=True)),
            "matmul": (hr.sparse.matmul(x, b, adjoint_b=True), a @ b.T),
        }
    values = hr.Session(graph).run({name: tensor for name, (tensor, _) in results.items()})
    for name, (_, expected) in results.items():
        np.testing.assert_allclose(values[name], expected, rtol=1e-12, atol=1e-12, err_msg=name)


def test_gradient_goes_through_a_chain_of_sparse_operations() -> None:
    with hr.Graph().as_default() as graph:
        values = hr.constant([3.0, 1.0, 2.0])
        x = hr.sparse.reorder(hr.SparseTensor([[1, 0], [0, 0], [0, 1]], values, [2, 2]))
        filled, _ = hr.sparse.fill_empty_rows(hr.sparse.reshape(x, [4, 1]), 0.0)
        loss = hr.sum(hr.sparse.to_dense(filled) * np.array([[1.0], [10.0], [100.0], [1000.0]], np.float32))
        (g,) = hr.gradients(loss, [values])
    assert hr.Session(graph).run(g).tolist() == [100, 1, 10]


def test_complex_sum_has_its_gradient() -> None:
    with hr.Graph().as_default() as graph:
        a = hr.constant([1 + 2j, 3j])
        total = hr.sparse.add(hr.SparseTensor([[0], [2]], a, [3]), hr.SparseTensor([[1], [2]], [1j, 1j], [3]))
        (g,) = hr.gradients(hr.sum(hr.real(total.values) * [1.0, 2.0, 3.0]), [a])
    np.testing.assert_array_equal(hr.Session(graph).run(g), [1, 3])


_INDICES, _VALUES, _SIZES = np.array([[0, 0], [1, 1]]), np.array([1.0, 2.0]), np.array([2, 2])


@pytest.mark.parametrize(
    ("op_type", "inputs", "text"),
    [
        ("SparseReshape", [_INDICES, np.array([2, -2]), np.array([4])], "a size is negative"),
        ("SparseReshape", [_INDICES, _SIZES, np.array([[4]])], "the rank is wrong"),
        ("SparseToDense", [_INDICES, _SIZES, _VALUES, np.zeros(1)], "default_value must be a scalar"),
        ("SparseToDense", [_INDICES[None], _SIZES, _VALUES, np.float64(0)], "too many axes"),
        ("SparseToDense", [_INDICES, _SIZES[None], _VALUES, np.float64(0)], "the rank is wrong"),
        ("SparseTensorDenseMatMul", [_INDICES[:, :1], _VALUES, _SIZES[:1], np.eye(2)], "only matrices"),
        ("SparseTensorDenseMatMul", [_INDICES, _VALUES, _SIZES, np.zeros(2)], "the rank is wrong"),
        ("SparseAdd", [*[_INDICES, _VALUES, _SIZES] * 2, np.zeros(1)], "thresh must be a scalar"),
        ("SparseSlice", [_INDICES, _VALUES, _SIZES, np.array([0]), _SIZES], "a box has a number for each axis"),
        ("SparseReduceSum", [_INDICES, _VALUES, _SIZES, np.zeros((1, 1), np.int32)], "axes must be a vector"),
        ("SparseFillEmptyRows", [_INDICES, _VALUES, _SIZES, np.zeros(1)], "default_value must be a scalar"),
        ("SparseFillEmptyRows", [_INDICES[:, :0], _VALUES, _SIZES[:0], np.float64(0)], "a scalar has no rows"),
        ("SparseFillEmptyRowsGrad", [np.zeros((1, 1), np.int64), _VALUES], "the rank is wrong"),
        ("SparseSoftmax", [np.array([[0]]), np.array([1.0]), np.array([2])], "a softmax goes over the rows"),
        ("SparseSplit", [np.array([0, 1]), _INDICES, _VALUES, _SIZES], "split_dim must be a scalar"),
    ],
)
def test_what_shows_only_when_a_step_runs_is_refused_then(op_type: str, inputs: list[Any], text: str) -> None:
    attrs = {"num_split": 2} if op_type == "SparseSplit" else {}
    with hr.Graph().as_default() as graph:
        fed = [hr.placeholder(hr.as_dtype(value.dtype), None) for value in inputs]
        shapes = [hr.placeholder(hr.int32, [None]) for _ in inputs]  # fed too, so no plan knows what they give
        result = hr.apply_op(op_type, *map(hr.reshape, fed, shapes), **attrs)
    feeds = dict(zip([*fed, *shapes], [*inputs, *(np.array(value.shape, np.int32) for value in inputs)], strict=True))
    with pytest.raises(hr.errors.InvalidArgumentError, match=text):
        hr.Session(graph).run(result, feeds=feeds)


def test_parts_that_are_too_large_together_are_refused() -> None:
    with hr.Graph().as_default() as graph:
        half = hr.SparseTensor([[0]], [1.0], [2**62])
        whole = hr.sparse.concat([half, half])
    with pytest.raises(hr.errors.ShapeError, match="the whole is too large"):
        hr.Session(graph).run(whole)


def test_A24_sparse_tensors_go_through_callables() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.sparse.placeholder(hr.float32, [None, 3])
        scale = hr.placeholder(hr.float32, [])
        y = hr.sparse.matmul(x, hr.ones([3, 1])) * scale
    step = hr.Session(graph).make_callable([y, x], [scale, x])
    value = hr.SparseTensor([[0, 2], [1, 0]], [5.0, 7.0], [2, 3])
    product, same = step(2.0, value)
    assert product.tolist() == [[10.0], [14.0]]
    assert isinstance(same, hr.SparseTensor)
    assert same.values.tolist() == [5.0, 7.0]
    with pytest.raises(FeedError, match="number of values differs"):
        step(value)
    with pytest.raises(FeedError, match="parts that are fed"):
        step(2.0, 3.0)


def test_A24_sparse_tensors_go_through_functions() -> None:
    @hr.function
    def twice(x: hr.SparseTensor) -> tuple[hr.SparseTensor, hr.Tensor]:
        doubled = hr.SparseTensor(x.indices, x.values * 2, x.shape)
        return doubled, hr.sparse.to_dense(doubled)

    for count in (2, 1):
        given = hr.SparseTensor([[0, 2], [1, 0]][:count], [5.0, 7.0][:count], [2, 3])
        doubled, dense = twice(given)
        assert isinstance(doubled, hr.SparseTensor)
        assert doubled.values.tolist() == [10.0, 14.0][:count]
        assert dense[0].tolist() == [0.0, 0.0, 10.0]
