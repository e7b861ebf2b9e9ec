"""A variable in shards: one to its user, several to sessions, optimisers and devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr

TABLE = np.arange(14, dtype=np.float32).reshape(7, 2)


@pytest.mark.parametrize("shards", [1, 2, 3, 7])
def test_the_shards_together_are_the_value(shards: int) -> None:
    with hr.Graph().as_default() as graph:
        table = hr.PartitionedVariable(TABLE, shards=shards, name="table")
        whole, doubled = table.read(), table * 2.0
        changes = [table.assign_add(np.ones_like(TABLE)), table.assign_sub(TABLE), table.assign(TABLE * 3)]
        rows = hr.nn.embedding_lookup(table, [[6, 0], [3, 3]])
    lengths = [shard.shape.as_tuple()[0] for shard in table.shards]
    assert sum(lengths) == 7
    assert lengths == sorted(lengths, reverse=True)
    assert [shard.name for shard in table.shards] == [f"table/part_{number}" for number in range(shards)]
    with hr.Session(graph) as session:
        np.testing.assert_array_equal(session.run(whole), TABLE)
        np.testing.assert_array_equal(session.run(doubled), TABLE * 2)
        np.testing.assert_array_equal(session.run(rows), TABLE[[[6, 0], [3, 3]]])
        for change, expected in zip(changes, [TABLE + 1, np.ones_like(TABLE), TABLE * 3], strict=True):
            session.run(change)
            np.testing.assert_array_equal(session.run(whole), expected)


def test_outside_any_graph_it_changes_at_once() -> None:
    table = hr.PartitionedVariable(TABLE, shards=3, name="process_table")
    assert table.assign_add(np.ones_like(TABLE)) is None
    np.testing.assert_array_equal(np.concatenate([shard.numpy() for shard in table.shards]), TABLE + 1)


def test_the_whole_need_not_exist_anywhere() -> None:
    asked: list[tuple[int, ...]] = []

    def initial(shape: hr.Shape) -> hr.Tensor:
        asked.append(shape.as_tuple())
        return hr.zeros(shape.as_tuple())

    with hr.Graph().as_default():
        table = hr.PartitionedVariable(initial, shape=[7, 3], shards=2, name="table")
    assert asked == [(4, 3), (3, 3)]
    assert (table.shape, table.dtype, table.name) == (hr.Shape([7, 3]), hr.float32, "table")
    assert repr(table) == "<hr.PartitionedVariable 'table' float32[7, 3] in 2 shards>"


@pytest.mark.parametrize(("limit", "count"), [(56, 1), (55, 2), (28, 2), (16, 4), (1, 7)])
def test_bytes_may_decide_how_many_shards_there_are(limit: int, count: int) -> None:
    with hr.Graph().as_default():
        table = hr.PartitionedVariable(TABLE, max_shard_bytes=limit)
    assert len(table.shards) == count


def test_A80_A54_a_lookup_reads_each_row_where_its_shard_is_and_moves_only_rows() -> None:
    spread = hr.replica_device(["CPU:1", "CPU:2"], worker="CPU:0")
    with hr.Graph().as_default() as graph, hr.device(spread):
        table = hr.PartitionedVariable(np.zeros((1000, 16), np.float32), shards=2, name="table")
        ids = hr.placeholder(hr.int32, [4])
        rows = hr.nn.embedding_lookup(table, ids)
    with hr.Session(graph, config=hr.config(virtual_devices={"CPU": 3})) as session:
        parts = session.partitions(rows, {ids: [0, 1, 500, 999]})
        np.testing.assert_array_equal(session.run(rows, {ids: [0, 1, 500, 999]}), np.zeros((4, 16)))
    gathers = {name[-5:]: [op.type for op in part.operations].count("ResourceGather") for name, part in parts.items()}
    assert (gathers["CPU:1"], gathers["CPU:2"]) == (1, 1)
    sent = [op.inputs[0].shape for part in parts.values() for op in part.operations if op.type == "_Send"]
    assert all(shape.rank is not None and shape.rank <= 2 and shape.num_elements != 500 * 16 for shape in sent)


def test_gradients_go_to_the_shards() -> None:
    with hr.Graph().as_default() as graph:
        table = hr.PartitionedVariable(TABLE, shards=2, name="table")
        loss = hr.sum(hr.square(table.lookup([0, 6])))
        train = hr.optim.SGD(0.5).minimize(loss, list(table.shards))
    with hr.Session(graph) as session:
        session.run(train)
        value = np.concatenate(session.run(list(table.shards)))
    expected = TABLE.copy()
    expected[[0, 6]] -= TABLE[[0, 6]]
    np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "not clear into how many(.|\n)*shards=None"),
        ({"shards": 2, "max_shard_bytes": 3}, "not clear into how many(.|\n)*max_shard_bytes=3"),
        ({"shards": 0}, "at least one shard(.|\n)*0"),
        ({"shards": 8}, "fewer rows than shards(.|\n)*at most 7"),
    ],
)
def test_a_division_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with hr.Graph().as_default(), pytest.raises(hr.errors.InvalidArgumentError, match=message):
        hr.PartitionedVariable(TABLE, **options)


@pytest.mark.parametrize("shape", [None, [], [None, 2]])
def test_the_rows_must_be_known(shape: object) -> None:
    with hr.Graph().as_default(), pytest.raises(hr.errors.ShapeError, match="needs to know its rows"):
        hr.PartitionedVariable(lambda part: hr.zeros(part.as_tuple()), shape=shape, shards=2)  # type: ignore[arg-type]
