"""What the graph could not foretell is refused in the step, as it would have been while building."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr


def _positive_rows() -> tuple[hr.Tensor, hr.Tensor]:
    """Rows of x whose first element is positive: how many there are depends on the data."""
    x = hr.placeholder(hr.float32, [None, 3], name="x")
    return x, hr.boolean_mask(x, x[:, 0] > 0.0)


def test_an_operation_on_a_size_that_depends_on_data_is_checked_when_it_is_known() -> None:
    with hr.Graph().as_default() as graph:
        x, rows = _positive_rows()
        product = hr.matmul(np.ones((2, 2), np.float32), rows, name="late")
    session = hr.Session(graph)
    np.testing.assert_array_equal(session.run(product, feeds={x: [[1, 2, 3], [-1, 0, 0], [1, 1, 1]]}), [[2, 3, 4]] * 2)
    with pytest.raises(hr.errors.ShapeError, match=r"cannot multiply(.|\n)*'late' created at test_late_shapes.py"):
        session.run(product, feeds={x: [[1, 2, 3], [-1, 0, 0], [-1, 1, 1]]})


def test_an_update_of_the_wrong_size_leaves_the_variable_as_it_was() -> None:
    with hr.Graph().as_default() as graph:
        x, rows = _positive_rows()
        w = hr.Variable(np.zeros((2, 3), np.float32), name="w")
        change = w.assign_add(rows)
    session = hr.Session(graph)
    with pytest.raises(hr.errors.ShapeError, match="does not fit"):
        session.run(change, feeds={x: np.ones((3, 3))})
    np.testing.assert_array_equal(session.run(w), np.zeros((2, 3)))


def test_what_was_accepted_once_is_asked_about_again_only_with_other_shapes_or_other_values_it_depends_on() -> None:
    asked: list[tuple[int | None, int]] = []

    @hr.register_op("TestAsks", inputs={"x": "T", "limit": "int32", "rest": "T"}, outputs={"y": "T"})
    def shape(op: hr.InferenceContext) -> list[hr.Shape]:
        """x, of at most `limit` rows."""
        limit = op.constant(1)
        if limit is not None and op.inputs[0].shape[0] is not None:
            asked.append((op.inputs[0].shape[0], int(limit)))
            if op.inputs[0].shape[0] > int(limit):
                raise hr.errors.ShapeError("too many rows")
        return [op.inputs[0].shape]

    @hr.register_kernel("TestAsks", aliases=[0])
    def kernel(op: hr.interfaces.OpContext, x: np.ndarray, limit: np.ndarray, rest: np.ndarray) -> np.ndarray:
        return x

    with hr.Graph().as_default() as graph:
        x, rows = _positive_rows()
        limit, rest = hr.placeholder(hr.int32, []), hr.placeholder(hr.float32, [])
        y = hr.apply_op("TestAsks", rows, limit, rest)
    session = hr.Session(graph)

    def run(count: int, most: int, other: float) -> None:
        session.run(y, feeds={x: np.ones((count, 3)), limit: most, rest: other})

    for other in (0.0, 1.0, 2.0):
        run(2, 5, other)
    assert asked == [(2, 5)]
    run(3, 5, 0.0)
    run(2, 4, 0.0)
    run(2, 5, 0.0)
    assert asked == [(2, 5), (3, 5), (2, 4)]
    for _ in range(2):
        with pytest.raises(hr.errors.ShapeError, match="too many rows"):
            run(3, 2, 0.0)
    assert asked[3:] == [(3, 2), (3, 2)]
