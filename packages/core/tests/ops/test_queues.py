"""Queue operations: what the graph refuses, what the step refuses, what they share; and the documented hard cases."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.errors import DTypeError, InvalidArgumentError, ShapeError, UnimplementedError

QUEUES = ["FIFOQueueV2", "RandomShuffleQueueV2", "PriorityQueueV2", "PaddingFIFOQueueV2"]


def fifo(**attrs: object) -> hr.Tensor:
    return hr.apply_op("FIFOQueueV2", **{"component_types": [hr.int32], "shapes": [[]], "capacity": 2, **attrs})


def test_shapes_of_what_is_taken_are_those_of_the_queue() -> None:
    with hr.Graph().as_default():
        queue = fifo(component_types=[hr.int32, hr.string], shapes=[[2], []])
        types = [hr.int32, hr.string]
        one = hr.apply_op("QueueDequeueV2", hr.identity(queue), component_types=types)
        many = hr.apply_op("QueueDequeueManyV2", queue, 3, component_types=types)
        rest = hr.apply_op("QueueDequeueUpToV2", queue, 3, component_types=types)
        unknown = hr.apply_op("QueueDequeueManyV2", queue, hr.placeholder(hr.int32, []), component_types=types)
        priority = hr.apply_op("PriorityQueueV2", component_types=[hr.float32], shapes=[[4]])
        first = hr.apply_op("QueueDequeueV2", priority, component_types=[hr.int64, hr.float32])
        shapeless = hr.apply_op("QueueDequeueV2", fifo(shapes=[]), component_types=[hr.int32])
        padded = hr.apply_op("PaddingFIFOQueueV2", component_types=[hr.int32], shapes=[[None, 2]])
        batch = hr.apply_op("QueueDequeueManyV2", padded, 5, component_types=[hr.int32])
    assert [str(tensor.shape) for tensor in one] == ["[2]", "[]"]
    assert [str(tensor.shape) for tensor in many] == ["[3, 2]", "[3]"]
    assert [str(tensor.shape) for tensor in (*rest, *unknown)] == ["[?, 2]", "[?]"] * 2
    assert [str(tensor.shape) for tensor in first] == ["[]", "[4]"]
    assert shapeless[0].shape.rank is None
    assert str(batch[0].shape) == "[5, ?, 2]"


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: fifo(shapes=[[None]]), InvalidArgumentError, "shapes of a queue's components are wrong"),
        (lambda: fifo(shapes=[[], []]), InvalidArgumentError, "shapes of a queue's components are wrong"),
        (
            lambda: hr.apply_op("PaddingFIFOQueueV2", component_types=[hr.int32], shapes=[None]),
            InvalidArgumentError,
            "must know the number of axes",
        ),
        (
            lambda: hr.apply_op("RandomShuffleQueueV2", component_types=[hr.int32], capacity=3, min_after_dequeue=3),
            InvalidArgumentError,
            "min_after_dequeue is wrong",
        ),
        (
            lambda: hr.apply_op("RandomShuffleQueueV2", component_types=[hr.int32], min_after_dequeue=-1),
            InvalidArgumentError,
            "min_after_dequeue is wrong",
        ),
        (lambda: hr.apply_op("QueueEnqueueV2", fifo(), [1.0]), DTypeError, "have other dtypes"),
        (lambda: hr.apply_op("QueueEnqueueV2", fifo(), [[1, 2]]), ShapeError, "component 0 does not fit"),
        (lambda: hr.apply_op("QueueEnqueueManyV2", fifo(), [3]), ShapeError, "component 0 does not fit"),
        (lambda: hr.apply_op("QueueEnqueueManyV2", fifo(), [[[3]]]), ShapeError, "component 0 does not fit"),
        (
            lambda: hr.apply_op(
                "QueueEnqueueManyV2", fifo(component_types=[hr.int32] * 2, shapes=[[], []]), [[1, 2], [1]]
            ),
            ShapeError,
            "component 1 does not fit",
        ),
        (
            lambda: hr.apply_op("QueueDequeueV2", fifo(), component_types=[hr.float32]),
            DTypeError,
            "have other dtypes",
        ),
        (
            lambda: hr.apply_op("QueueDequeueV2", fifo(), component_types=[hr.int32], timeout_ms=5),
            UnimplementedError,
            "timeout_ms is not supported",
        ),
        (
            lambda: hr.apply_op("QueueDequeueManyV2", fifo(), -1, component_types=[hr.int32]),
            InvalidArgumentError,
            "number of elements is negative",
        ),
        (
            lambda: hr.apply_op("QueueDequeueUpToV2", fifo(), [1, 2], component_types=[hr.int32]),
            ShapeError,
            "n must be a scalar",
        ),
    ],
)
def test_a_wrong_queue_operation_fails_where_it_is_written(build, error, message) -> None:
    with hr.Graph().as_default(), pytest.raises(error, match=message):
        build()


def test_what_the_graph_cannot_see_is_refused_in_the_step() -> None:
    with hr.Graph().as_default() as graph:
        x, y = hr.placeholder(hr.int32, None), hr.placeholder(hr.int32, None)
        queue = fifo(component_types=[hr.int32] * 2, shapes=[[2], []])
        one, many = hr.apply_op("QueueEnqueueV2", queue, [x, y]), hr.apply_op("QueueEnqueueManyV2", queue, [x, y])
        size = hr.apply_op("QueueSizeV2", queue)
    session = hr.Session(graph)
    with pytest.raises(ShapeError, match=r"component 0 does not fit(.|\n)*\[2\](.|\n)*\[3\]"):
        session.run(one, feeds={x: [1, 2, 3], y: 1})
    with pytest.raises(ShapeError, match="component 1 does not fit"):
        session.run(many, feeds={x: [[1, 2]], y: [1, 2]})
    with pytest.raises(ShapeError, match="component 0 does not fit"):
        session.run(many, feeds={x: 3, y: [1]})
    assert session.run(size) == 0


def test_G17_a_number_of_elements_that_is_negative_or_no_scalar_is_refused() -> None:
    with hr.Graph().as_default() as graph:
        n = hr.placeholder(hr.int32, None)
        queue = fifo(capacity=-1)
        fill = hr.apply_op("QueueEnqueueManyV2", queue, [[1, 2, 3]])
        many = hr.apply_op("QueueDequeueManyV2", queue, n, component_types=[hr.int32])
        up_to = hr.apply_op("QueueDequeueUpToV2", queue, n, component_types=[hr.int32])
    session = hr.Session(graph)
    session.run(fill)
    for fetch in (many, up_to):
        for wrong in ([1, 2, 3, 4], [], [[1]]):
            with pytest.raises(InvalidArgumentError, match="n must be a scalar"):
                session.run(fetch, feeds={n: np.array(wrong, np.int32)})
        with pytest.raises(InvalidArgumentError, match="number of elements is negative"):
            session.run(fetch, feeds={n: -1})
    assert session.run(many, feeds={n: 0})[0].shape == (0,)
    assert session.run(many, feeds={n: 3})[0].tolist() == [1, 2, 3]


def test_G15_a_dequeue_that_ran_out_of_time_takes_nothing() -> None:
    with hr.Graph().as_default() as graph:
        queue = fifo()
        add = hr.apply_op("QueueEnqueueV2", queue, [1])
        take = hr.apply_op("QueueDequeueV2", queue, component_types=[hr.int32])
        size = hr.apply_op("QueueSizeV2", queue)
    session = hr.Session(graph)
    session.run(add)
    assert session.run(take) == (1,)
    with pytest.raises(hr.errors.DeadlineExceededError, match=r"FIFOQueue .* holds 0 of 2 elements"):
        session.run(take, timeout=0.05)
    session.run(add)
    assert session.run(take) == (1,)
    assert session.run(size) == 0


def test_elements_without_shapes_can_only_be_taken_one_by_one() -> None:
    with hr.Graph().as_default() as graph:
        queue = fifo(shapes=[])
        fill = [hr.apply_op("QueueEnqueueV2", queue, [value]) for value in ([1, 2], 3)]
        take = hr.apply_op("QueueDequeueV2", queue, component_types=[hr.int32])
        many = hr.apply_op("QueueDequeueManyV2", queue, 0, component_types=[hr.int32])
    session = hr.Session(graph)
    session.run(fill[0])
    session.run(fill[1])
    with pytest.raises(InvalidArgumentError, match="cannot give several elements at once"):
        session.run(many)
    assert session.run(take)[0].tolist() == [1, 2]
    assert session.run(take)[0].tolist() == 3


def test_two_operations_with_one_shared_name_reach_one_queue() -> None:
    with hr.Graph().as_default() as graph:
        add = hr.apply_op("QueueEnqueueV2", fifo(shared_name="q"), [5])
        take = hr.apply_op("QueueDequeueV2", fifo(shared_name="q"), component_types=[hr.int32])
        size_elsewhere = hr.apply_op("QueueSizeV2", fifo(shared_name="q", container="other"))
        other = hr.apply_op("QueueSizeV2", fifo(shared_name="q", capacity=3))
    session = hr.Session(graph)
    session.run(add)
    assert session.run(size_elsewhere) == 0
    assert session.run(take) == (5,)
    with pytest.raises(
        InvalidArgumentError, match=r"'q' exists with other properties(.|\n)*capacity 2(.|\n)*capacity 3"
    ):
        session.run(other)


def test_each_session_has_queues_of_its_own() -> None:
    with hr.Graph().as_default() as graph:
        queue = fifo()
        add, size = hr.apply_op("QueueEnqueueV2", queue, [5]), hr.apply_op("QueueSizeV2", queue)
    first, second = hr.Session(graph), hr.Session(graph)
    first.run(add)
    assert (first.run(size), second.run(size)) == (1, 0)


def test_a_handle_may_reach_the_step_unseen_and_is_checked_there() -> None:
    """As in a graph of TensorFlow 1, where a handle may come through operations that tell nothing of it."""
    with hr.Graph().as_default() as graph:
        queue = fifo(shared_name="q")
        (hidden,) = hr.apply_op("IdentityN", [queue])
        take = hr.apply_op("QueueDequeueV2", hidden, component_types=[hr.float32])
    with pytest.raises(DTypeError, match="components of queue 'q' have other dtypes"):
        hr.Session(graph).run(take)


def test_random_order_is_tensorflows_for_the_same_seeds() -> None:
    with hr.Graph().as_default() as graph:
        queue = hr.apply_op(
            "RandomShuffleQueueV2", component_types=[hr.int32], shapes=[[]], capacity=20, seed=87654321, seed2=7
        )
        fill = hr.apply_op("QueueEnqueueManyV2", queue, [np.arange(20, dtype=np.int32)])
        one = hr.apply_op("QueueDequeueV2", queue, component_types=[hr.int32])
        many = hr.apply_op("QueueDequeueManyV2", queue, 6, component_types=[hr.int32])
    session = hr.Session(graph)
    session.run(fill)
    assert [int(session.run(one)[0]) for _ in range(8)] == [7, 4, 19, 15, 0, 8, 10, 11]
    assert session.run(many)[0].tolist() == [14, 6, 16, 1, 12, 3]


def test_a_random_queue_without_seeds_differs_between_sessions() -> None:
    with hr.Graph().as_default() as graph:
        queue = hr.apply_op("RandomShuffleQueueV2", component_types=[hr.int32], shapes=[[]])
        fill = hr.apply_op("QueueEnqueueManyV2", queue, [np.arange(50, dtype=np.int32)])
        many = hr.apply_op("QueueDequeueManyV2", queue, 50, component_types=[hr.int32])
    orders = []
    for _ in range(2):
        session = hr.Session(graph)
        session.run(fill)
        orders.append(session.run(many)[0].tolist())
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(50))
    assert orders[0] != orders[1]


def test_a_queue_of_priorities_alone() -> None:
    with hr.Graph().as_default() as graph:
        queue = hr.apply_op("PriorityQueueV2", shapes=[])
        fill = hr.apply_op("QueueEnqueueManyV2", queue, [np.array([3, -1, 2])])
        take = hr.apply_op("QueueDequeueManyV2", queue, 3, component_types=[hr.int64])
    session = hr.Session(graph)
    session.run(fill)
    assert session.run(take)[0].tolist() == [-1, 2, 3]


def test_no_gradient_flows_through_a_queue() -> None:
    with hr.Graph().as_default():
        x = hr.constant(1.0)
        queue = hr.apply_op("FIFOQueueV2", component_types=[hr.float32], shapes=[[]])
        hr.apply_op("QueueEnqueueV2", queue, [x])
        (taken,) = hr.apply_op("QueueDequeueV2", queue, component_types=[hr.float32])
        assert hr.gradients(taken * 2.0, [x]) == [None]
