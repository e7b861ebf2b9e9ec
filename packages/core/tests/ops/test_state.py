"""What operations on variables refuse while the graph is built."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr


def test_a_gather_shares_fewer_axes_than_the_variable_has() -> None:
    with hr.Graph().as_default():
        variable = hr.Variable(np.zeros((2, 3), np.float32))
        with pytest.raises(hr.errors.ShapeError, match="batch_dims is too large"):
            hr.apply_op("ResourceGather", variable.handle, [[0], [1]], dtype=hr.float32, batch_dims=2)
        with pytest.raises(hr.errors.ShapeError, match="batch_dims is too large"):
            hr.apply_op("ResourceGather", variable.handle, 0, dtype=hr.float32, batch_dims=1)


@pytest.mark.parametrize("op", ["ResourceScatterAdd", "ResourceScatterSub", "ResourceScatterUpdate"])
def test_a_scalar_variable_has_no_rows_to_change(op: str) -> None:
    with hr.Graph().as_default():
        variable = hr.Variable(1.0)
        with pytest.raises(hr.errors.ShapeError, match="a scalar variable has no rows"):
            hr.apply_op(op, variable.handle, [0], np.ones(1, np.float32))


def test_a_read_of_a_saved_model_is_prepared_by_an_operation_that_changes_nothing() -> None:
    with hr.Graph().as_default() as graph:
        variable = hr.Variable([1.0, 2.0])
        prepared = hr.apply_op("DisableCopyOnRead", variable.handle)
        with hr.control_dependencies([prepared]):
            value = hr.identity(variable)
    with hr.Session(graph) as session:
        assert session.run(value).tolist() == [1, 2]
