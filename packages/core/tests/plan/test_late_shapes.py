"""What the graph could not foretell is refused in the step, as it would have been while building."""

from __future__ import annotations

from collections.abc import Callable

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


def _by_branch(pred: hr.Tensor, x: hr.Tensor, y: hr.Tensor) -> hr.Tensor:
    wide = hr.tanh(x)  # needed by one branch alone, so it moves into it
    result: hr.Tensor = hr.cond(pred, lambda: hr.sum(hr.add_n([wide, y])), lambda: hr.sum(x))
    return result


def _by_primitives(pred: hr.Tensor, x: hr.Tensor, y: hr.Tensor) -> hr.Tensor:
    ways, others = hr.apply_op("Switch", hr.tanh(x), pred), hr.apply_op("Switch", y, pred)
    merged: hr.Tensor = hr.apply_op("Merge", [hr.sum(ways[0]), hr.sum(hr.add_n([ways[1], others[1]]))])[0]
    return merged


def _by_loop(pred: hr.Tensor, x: hr.Tensor, y: hr.Tensor) -> hr.Tensor:
    count, unused = hr.astype(pred, hr.int32), hr.tanh(x)
    result: hr.Tensor = hr.while_loop(
        lambda i, s, t: i < count, lambda i, s, t: (i + 1, s + hr.sum(hr.add_n([unused, y])), t), (0, 0.0, x)
    )[1]
    return result


def _over_devices(pred: hr.Tensor, x: hr.Tensor, y: hr.Tensor) -> hr.Tensor:
    def elsewhere() -> hr.Tensor:
        with hr.device("CPU:1"):
            return hr.sum(hr.add_n([x, y]))

    result: hr.Tensor = hr.cond(pred, elsewhere, lambda: hr.sum(x))
    return result


@pytest.mark.parametrize("passes", ["all", "none"])
@pytest.mark.parametrize(
    "build", [_by_branch, _by_primitives, _by_loop, _over_devices], ids=lambda build: build.__name__
)
def test_shapes_that_do_not_fit_are_an_error_only_where_the_step_comes_to_them(
    build: Callable[[hr.Tensor, hr.Tensor, hr.Tensor], hr.Tensor], passes: str
) -> None:
    """Each pass that copied what is in a branch asked its shape functions about the shapes of the step: a branch that
    the step does not take, because of those very shapes, made it fail. One that it takes is refused in the step, also
    where a kernel would take the values: [1] and [3] can be added up by NumPy."""
    with hr.Graph().as_default() as graph:
        pred, x, y = hr.placeholder(hr.bool, []), hr.placeholder(hr.float32, [None]), hr.placeholder(hr.float32, [3])
        result = build(pred, x, y)
        (gradient,) = hr.gradients(result, [x])
    with hr.config(virtual_devices={"CPU": 2}, **({"passes": []} if passes == "none" else {})):
        session = hr.Session(graph)
    for size in (1, 2):
        feeds = {x: np.ones(size), y: np.ones(3), pred: False}
        session.run(result, feeds=feeds, timeout=30.0)
        assert session.run(gradient, feeds=feeds, timeout=30.0).shape == (size,)
        with pytest.raises(hr.errors.ShapeError, match=r"AddN(.|\n)*created at test_late_shapes.py"):
            session.run(result, feeds={**feeds, pred: True}, timeout=30.0)
    assert session.run(gradient, feeds={x: np.ones(3), y: np.ones(3), pred: True}).shape == (3,)
