"""Gradients of gathers: sparse along axis 0, exact everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.testing import check_gradient

_TABLE = np.arange(12, dtype=np.float64).reshape(4, 3)


def test_rows_of_a_variable_get_a_sparse_gradient() -> None:
    with hr.Graph().as_default() as graph:
        table = hr.Variable(_TABLE)
        rows = hr.gather(table, [[1, 3], [1, 0]])
        (slope,) = hr.gradients(rows * rows, [table])
        assert isinstance(slope, hr.IndexedSlices)
        parts = [slope.values, slope.indices, slope.dense_shape, slope.to_dense()]
    values, indices, shape, dense = hr.Session(graph).run(parts)
    np.testing.assert_array_equal(values, 2 * _TABLE[[1, 3, 1, 0]])
    assert indices.tolist() == [1, 3, 1, 0]
    assert shape.tolist() == [4, 3]
    np.testing.assert_array_equal(dense, [2 * _TABLE[0], 4 * _TABLE[1], [0, 0, 0], 2 * _TABLE[3]])


def test_rows_of_a_tensor_get_a_sparse_gradient_too() -> None:
    with hr.Graph().as_default() as graph:
        table = hr.constant(_TABLE)
        rows = hr.gather(table, [[1, 3], [1, 0]])
        (slope,) = hr.gradients(rows * rows, [table])
        assert isinstance(slope, hr.IndexedSlices)
        dense = slope.to_dense()
    expected = [2 * _TABLE[0], 4 * _TABLE[1], [0, 0, 0], 2 * _TABLE[3]]
    np.testing.assert_array_equal(hr.Session(graph).run(dense), expected)


def test_rows_of_a_variable_are_read_without_the_rest() -> None:
    """A80."""
    with hr.Graph().as_default() as graph:
        table = hr.Variable(_TABLE)
        rows, columns = hr.gather(table, np.array([2, 0], np.int16)), hr.gather(table, [1], axis=1)
    assert rows.op.type == "ResourceGather"
    assert columns.op.type == "GatherV2"
    values = hr.Session(graph).run([rows, columns])
    np.testing.assert_array_equal(values[0], _TABLE[[2, 0]])
    np.testing.assert_array_equal(values[1], _TABLE[:, [1]])


def test_several_gathers_of_one_table_stay_sparse() -> None:
    """D27: sums of sparse gradients are sparse."""
    with hr.Graph().as_default() as graph:
        table = hr.Variable(_TABLE)
        (slope,) = hr.gradients([hr.gather(table, [0, 1]), hr.gather(table, np.array([1]))], [table])
        assert isinstance(slope, hr.IndexedSlices)
        dense = slope.to_dense()
    assert hr.Session(graph).run(dense)[:, 0].tolist() == [1.0, 2.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("shape", "indices", "axis", "batch_dims"),
    [
        ([4, 3], [1, 1, 3], 0, 0),
        ([4, 3], 2, 0, 0),
        ([4, 3], [[0, 2], [2, 2]], 1, 0),
        ([2, 3, 4], [1, 0, 1], -1, 0),
        ([2, 3, 4], [[0, 2], [1, 1]], 1, 1),
        ([2, 3, 4], [[0, 2], [1, 1]], 2, 1),
        ([2, 3, 4], [1, 2], 2, 1),
        ([2, 3, 4], [[0, 2, 1], [1, 1, 3]], 2, 2),
        ([2, 3], [], 1, 0),
    ],
)
@pytest.mark.parametrize("known_axis", [True, False])
def test_gradients_equal_central_differences(
    shape: list[int], indices: Any, axis: int, batch_dims: int, known_axis: bool
) -> None:
    picks = np.array(indices, np.int32)

    def build(xs: Any) -> list[hr.Tensor]:
        where = axis if known_axis else hr.placeholder_with_default(np.int32(axis), [])
        taken = hr.gather(xs[0], picks, axis=where, batch_dims=batch_dims)
        return [taken * taken]

    check_gradient(build, [np.random.default_rng(0).normal(size=shape)])


def test_int16_indices_have_a_gradient() -> None:
    check_gradient(lambda xs: [hr.gather(xs[0], np.array([2, 0], np.int16)) * 2.0], [_TABLE])
    check_gradient(lambda xs: [hr.gather(xs[0], np.array([2, 0], np.int16), axis=1) * 2.0], [_TABLE])


def test_only_the_last_of_repeated_updates_gets_a_gradient() -> None:
    """G07."""
    with hr.Graph().as_default() as graph:
        updates = hr.constant([5.0, 6.0])
        (slope,) = hr.gradients(hr.tensor_scatter_update(hr.zeros([3]), [[1], [1]], updates), [updates])
    assert hr.Session(graph).run(slope).tolist() == [0.0, 1.0]


def test_a_replaced_row_of_a_stitch_gets_no_gradient() -> None:
    with hr.Graph().as_default() as graph:
        first, second = hr.constant([1.0, 2.0]), hr.constant([3.0])
        slopes = hr.gradients(hr.dynamic_stitch([[0, 1], [1]], [first, second]), [first, second])
    assert [slope.tolist() for slope in hr.Session(graph).run(slopes)] == [[1.0, 0.0], [1.0]]


def test_A81_part_and_stitch_undo_each_other() -> None:
    """Rows distributed over shards and put together again are the same, empty shards included."""
    rng = np.random.default_rng(0)
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float64, [None, 2])
        shard = hr.placeholder(hr.int32, [None])
        places = hr.dynamic_partition(hr.arange(hr.size(shard)), shard, 4)
        again = hr.dynamic_stitch(places, hr.dynamic_partition(x, shard, 4))
    session = hr.Session(graph)
    for rows in (0, 1, 2, 17):
        value = rng.normal(size=(rows, 2))
        feeds = {x: value, shard: rng.integers(0, 3, rows).astype(np.int32)}
        np.testing.assert_array_equal(session.run(again, feeds=feeds), value)


def test_elements_of_a_variable_are_read_by_their_indices_and_get_their_part_of_the_gradient() -> None:
    with hr.Graph().as_default() as graph:
        variable = hr.Variable(np.arange(6.0).reshape(3, 2), name="v")
        indices = hr.placeholder(hr.int32, [None, 2])
        read = hr.apply_op("ResourceGatherNd", variable.handle, indices, dtype=hr.float64)
        (gradient,) = hr.gradients(hr.sum(read * read), [variable])
    assert read.shape == hr.Shape([None])
    session = hr.Session(graph)
    values, dense = session.run([read, gradient], feeds={indices: [[2, 1], [0, 0], [2, 1]]})
    assert values.tolist() == [5, 0, 5]
    assert dense.tolist() == [[0, 0], [0, 0], [0, 20]]
    with pytest.raises(hr.errors.OutOfRangeError, match="an index is out of range"):
        session.run(read, feeds={indices: [[2, 2]]})


def test_rows_of_a_variable_read_by_their_indices_have_a_sparse_gradient() -> None:
    with hr.Graph().as_default() as graph:
        variable = hr.Variable(np.arange(6.0).reshape(3, 2), name="v")
        read = hr.apply_op("ResourceGatherNd", variable.handle, [[1], [1]], dtype=hr.float64)
        (gradient,) = hr.gradients(hr.sum(read * 3.0), [variable])
    assert isinstance(gradient, hr.IndexedSlices)
    indices, dense = hr.Session(graph).run([gradient.indices, gradient.to_dense()])
    assert indices.tolist() == [1, 1]
    assert dense.tolist() == [[0, 0], [6, 6], [0, 0]]


def test_what_does_not_fit_the_variable_is_refused_where_its_elements_are_read() -> None:
    with hr.Graph().as_default():
        variable = hr.Variable(np.zeros((3, 2)))
        with pytest.raises(hr.errors.DTypeError, match=r"another dtype(.|\n)*expected: float64(.|\n)*got: *float32"):
            hr.apply_op("ResourceGatherNd", variable.handle, [[0]], dtype=hr.float32)
        with pytest.raises(hr.errors.ShapeError, match="indices speak of more axes than there are"):
            hr.apply_op("ResourceGatherNd", variable.handle, [[0, 0, 0]], dtype=hr.float64)
