"""Tables in shards: look-ups, losses over sampled and over all classes, and what training leaves alone."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.errors import InvalidArgumentError, OutOfRangeError, ShapeError
from headrace.testing import check_gradient

TABLE = np.arange(22, dtype=np.float32).reshape(11, 2)
IDS = np.array([[10, 0, 3], [3, 7, 4]])


def dealt(table: np.ndarray, count: int, strategy: str) -> list[np.ndarray]:
    """The shards of a table."""
    if strategy == "mod":
        return [table[shard::count] for shard in range(count)]
    return np.array_split(table, count)


@pytest.mark.parametrize("strategy", ["mod", "div"])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 13])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_a83_a_table_in_shards_is_looked_up_as_if_whole(strategy, count, dtype):
    with hr.Graph().as_default() as graph:
        shards = [hr.Variable(part) for part in dealt(TABLE, count, strategy)]
        ids = hr.placeholder(dtype, [2, 3])
        rows = hr.nn.embedding_lookup(shards, ids, strategy)
    assert rows.shape == [2, 3, 2]
    np.testing.assert_array_equal(hr.Session(graph).run(rows, feeds={ids: IDS}), TABLE[IDS])


@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_a83_shards_of_unknown_size(strategy):
    with hr.Graph().as_default() as graph:
        shards = [hr.placeholder(hr.float32, [None, 2]) for _ in range(3)]
        rows = hr.nn.embedding_lookup(shards, IDS, strategy)
    feeds = dict(zip(shards, dealt(TABLE, 3, strategy), strict=True))
    np.testing.assert_array_equal(hr.Session(graph).run(rows, feeds=feeds), TABLE[IDS])


def test_a80_rows_are_read_beside_their_shard():
    with hr.Graph().as_default() as graph:
        shards = [hr.Variable(part, name=f"shard_{n}") for n, part in enumerate(dealt(TABLE, 2, "mod"))]
        hr.nn.embedding_lookup(shards, IDS)
    reads = [op for op in graph.operations if op.type == "ResourceGather"]
    assert [op.colocation for op in reads] == [(shard.handle.op.name,) for shard in shards]


@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_a82_each_shard_gets_the_rows_that_were_read(strategy):
    with hr.Graph().as_default() as graph:
        shards = [hr.Variable(part) for part in dealt(TABLE, 3, strategy)]
        rows = hr.nn.embedding_lookup(shards, IDS, strategy)
        slopes = hr.gradients(hr.sum(rows * rows), shards)
        assert all(isinstance(slope, hr.IndexedSlices) for slope in slopes)
    found = hr.Session(graph).run(slopes)
    whole = np.zeros_like(TABLE)
    np.add.at(whole, IDS, 2 * TABLE[IDS])
    for slope, expected in zip(found, dealt(whole, 3, strategy), strict=True):
        np.testing.assert_array_equal(slope.to_dense(), expected)


@pytest.mark.parametrize("max_norm", [None, 2.0])
def test_gradients_through_shards_and_norms(max_norm):
    points = [part * 0.1 + 0.5 for part in dealt(TABLE.astype(np.float64), 2, "mod")]
    check_gradient(lambda xs: [hr.nn.embedding_lookup(xs, [[3, 0], [10, 3]], max_norm=max_norm)], points)


def test_rows_are_limited_in_length():
    with hr.Graph().as_default() as graph:
        one = hr.nn.embedding_lookup([[3.0, 4.0], [0.0, 0.0], [0.3, 0.4]], [0, 1, 2], max_norm=1.0)
        shards = hr.nn.embedding_lookup([np.array([[3.0, 4.0]]), np.array([[0.3, 0.4]])], [0, 1], max_norm=1.0)
    for rows, expected in ((one, [[0.6, 0.8], [0, 0], [0.3, 0.4]]), (shards, [[0.6, 0.8], [0.3, 0.4]])):
        np.testing.assert_allclose(hr.Session(graph).run(rows), expected, rtol=1e-6)


def test_wrong_requests_are_named():
    with hr.Graph().as_default() as graph:
        for wrong, text in (({"strategy": "modd"}, "no strategy 'modd'"), ({"params": []}, "no table")):
            with pytest.raises(InvalidArgumentError, match=text):
                hr.nn.embedding_lookup(**{"params": [TABLE, TABLE], "ids": IDS, **wrong})
        with pytest.raises(InvalidArgumentError, match="no combiner 'max'"):
            hr.nn.embedding_lookup_sparse(TABLE, hr.SparseTensor([[0, 0]], [1], [1, 1]), combiner="max")
        with pytest.raises(InvalidArgumentError, match="differ in their shards"):
            hr.nn.sharded_softmax_cross_entropy([TABLE, TABLE], [TABLE[:, 0]], [0], [[1.0, 1.0]])
        with pytest.raises(ShapeError, match="rank of the rows"):
            hr.nn.embedding_lookup(hr.placeholder(hr.float32, None), IDS, max_norm=1.0)
        beyond = hr.nn.embedding_lookup([TABLE[:2], TABLE[:2]], [4])
    with pytest.raises(OutOfRangeError, match="GatherV2"):
        hr.Session(graph).run(beyond)


PLACES = np.array([[0, 0], [0, 2], [2, 0], [2, 1], [2, 3]])
SPARSE_IDS = np.array([3, 1, 3, 3, 10])
WEIGHTS = np.array([1.0, 2.0, 0.5, 1.0, 3.0], np.float32)


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("count", [1, 3])
def test_sparse_ids_are_combined(combiner, weighted, count):
    with hr.Graph().as_default() as graph:
        shards = [hr.Variable(part) for part in dealt(TABLE, count, "mod")]
        ids = hr.sparse.placeholder(hr.int64, [None, None])
        weights = hr.SparseTensor(ids.indices, WEIGHTS, ids.shape) if weighted else None
        rows = hr.nn.embedding_lookup_sparse(shards, ids, weights, combiner=combiner)
        (slope, *_) = hr.gradients(rows, shards)
        assert isinstance(slope, hr.IndexedSlices)
    found = hr.Session(graph).run(rows, feeds={ids: hr.SparseTensor(PLACES, SPARSE_IDS, [4, 4])})
    expected = np.zeros((4, 2))
    for example in range(4):
        mine = PLACES[:, 0] == example
        factors = (WEIGHTS if weighted else np.ones(5))[mine].astype(np.float64)
        if mine.any():
            total = (TABLE[SPARSE_IDS[mine]] * factors[:, None]).sum(0)
            expected[example] = (
                total / {"sum": 1, "mean": factors.sum(), "sqrtn": np.sqrt((factors**2).sum())}[combiner]
            )
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_a84_the_sharded_softmax_is_the_whole_one(strategy):
    numbers = np.random.default_rng(0)
    weights, biases, x = (numbers.normal(size=size) for size in ((7, 3), (7,), (5, 3)))
    labels = np.array([0, 6, 3, 3, 5])
    with hr.Graph().as_default() as graph:
        parts = [hr.constant(part) for part in dealt(weights, 3, strategy)]
        offsets = [hr.constant(part) for part in dealt(biases, 3, strategy)]
        whole_weights, whole_biases, inputs = hr.constant(weights), hr.constant(biases), hr.constant(x)
        sharded = hr.nn.sharded_softmax_cross_entropy(parts, offsets, labels, inputs, strategy)
        logits = hr.matmul(inputs, whole_weights, transpose_b=True) + whole_biases
        whole = hr.nn.sparse_softmax_cross_entropy(labels, logits)
        found = [sharded, hr.gradients(sharded, [*parts, *offsets, inputs])]
        expected = [whole, hr.gradients(whole, [whole_weights, whole_biases, inputs])]
    (loss, slopes), (whole_loss, (by_weights, by_biases, by_inputs)) = hr.Session(graph).run([found, expected])
    np.testing.assert_allclose(loss, whole_loss, rtol=1e-12)
    np.testing.assert_allclose(slopes[6], by_inputs, rtol=1e-10, atol=1e-12)
    for found_parts, dense in ((slopes[:3], by_weights), (slopes[3:6], by_biases)):
        for part, wanted in zip(found_parts, dealt(dense, 3, strategy), strict=True):
            np.testing.assert_allclose(part, wanted, rtol=1e-10, atol=1e-12)


def test_a84_only_vectors_of_the_batch_leave_a_shard():
    with hr.Graph().as_default() as graph:
        shards = [hr.Variable(np.ones((50, 3), np.float32)) for _ in range(2)]
        hr.nn.sharded_softmax_cross_entropy(shards, None, [4, 99], np.ones((2, 3), np.float32))
    for shard in shards:
        inside = {op for op in graph.operations if shard.handle.op.name in op.colocation}
        assert any(op.type == "MatMul" for op in inside)
        leaving = {tensor for op in graph.operations if op not in inside for tensor in op.inputs if tensor.op in inside}
        assert {tuple(tensor.shape) for tensor in leaving} == {(2,)}


@pytest.mark.parametrize("strategy", ["mod", "div"])
@pytest.mark.parametrize("loss", [hr.nn.sampled_softmax_loss, hr.nn.nce_loss])
def test_a85_sampled_losses_over_shards_are_those_over_the_whole(loss, strategy):
    numbers = np.random.default_rng(1)
    weights, biases, x = (numbers.normal(size=size).astype(np.float32) for size in ((20, 3), (20,), (4, 3)))
    labels = np.array([[0], [19], [7], [7]])
    with hr.Graph().as_default() as graph:
        drawn = hr.nn.log_uniform_candidates(labels, 6, 20, seed=4)
        parts, offsets = dealt(weights, 3, strategy), dealt(biases, 3, strategy)
        sharded = loss(parts, offsets, labels, x, 6, 20, candidates=drawn, strategy=strategy)
        whole = loss(weights, biases, labels, x, 6, 20, candidates=drawn)
    np.testing.assert_allclose(*hr.Session(graph).run([sharded, whole]), rtol=1e-6)


def test_a85_the_gradient_of_the_sampled_softmax_is_that_of_the_whole_one_on_average():
    """The more classes a sample has, the nearer the mean over many samples comes to the full gradient."""
    numbers = np.random.default_rng(2)
    weights, x = numbers.normal(size=(30, 4)).astype(np.float32), numbers.normal(size=(3, 4)).astype(np.float32)
    labels = np.array([[2], [11], [29]])
    with hr.Graph(seed=3).as_default() as graph:
        inputs = hr.constant(x)
        sampled = hr.nn.sampled_softmax_loss(weights, np.zeros(30, np.float32), labels, inputs, 20, 30)
        logits = hr.matmul(inputs, weights, transpose_b=True)
        whole = hr.nn.sparse_softmax_cross_entropy(labels[:, 0], logits)
        slopes = [hr.gradients(loss, [inputs])[0] for loss in (sampled, whole)]
    session = hr.Session(graph)
    draw = session.make_callable(slopes)
    runs = [draw() for _ in range(400)]
    mean, spread = np.mean([run[0] for run in runs], axis=0), np.std([run[0] for run in runs], axis=0)
    exact = runs[0][1]
    # Three standard errors of the mean, and what the logarithm of a mean of samples of 20 of 30 classes is off by.
    assert (np.abs(mean - exact) <= 3 * spread / 20 + 0.05 * np.abs(exact).max()).all()
    assert np.abs(mean - exact).max() < 0.2 * np.abs(runs[0][0] - exact).max() + 0.05


def test_d27_sparse_gradients_stay_sparse_through_gather_slice_clip_sum_and_update():
    """Nothing in the plan of the step has as many rows as the table."""
    with hr.Graph().as_default() as graph:
        table = hr.Variable(np.zeros((1000, 4), np.float32), name="table")
        rows, more = hr.gather(table, [3, 3, 8]), hr.gather(table, [[5], [8]])
        loss = hr.sum(rows[:, 1:3] * 2.0) + hr.sum(hr.squeeze(more, 1)[1:])
        (slope,) = hr.gradients(loss, [table])
        (limited,), norm = hr.clip_by_global_norm([hr.clip_by_norm(hr.clip_by_value(slope, -9.0, 3.0), 5.0)], 1.0)
        train = hr.optim.SGD(1.0).apply_gradients([(limited, table)])
        assert isinstance(slope, hr.IndexedSlices)
        assert isinstance(limited, hr.IndexedSlices)
    session = hr.Session(graph)
    step = session.make_callable([slope, norm, train])
    found, before, _ = step()
    assert isinstance(found, hr.IndexedSlices)
    assert found.values.shape == (5, 4)
    assert before == pytest.approx(5.0)
    changed = np.flatnonzero(session.run(table).any(1))
    assert changed.tolist() == [3, 8]
    whole = [tensor for op in session.optimized_graph([slope, norm, train]).operations for tensor in op.outputs]
    assert not any(tensor.shape.rank == 2 and tensor.shape[0] == 1000 for tensor in whole)


@pytest.mark.parametrize("name", ["SGD", "Momentum", "Adagrad", "Adadelta", "RMSProp", "Adam", "AdamW"])
@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_a82_rows_of_shards_that_were_not_looked_up_keep_their_bits(name, strategy):
    """Neither the shards nor what the optimiser keeps for them."""
    start = np.random.default_rng(5).normal(size=(11, 2)).astype(np.float32)
    with hr.Graph().as_default() as graph:
        shards = [hr.Variable(part, name=f"shard_{n}") for n, part in enumerate(dealt(start, 3, strategy))]
        rows = hr.nn.embedding_lookup(shards, IDS, strategy)
        train = getattr(hr.optim, name)(0.1).minimize(hr.sum(hr.square(rows - 1.0)))
    with hr.Session(graph) as session:
        before = session.read_variables()
        session.run(train)
        after = session.read_variables()
    numbers = dealt(np.arange(11), 3, strategy)
    for variable, value in after.items():
        if np.ndim(value) == 2:
            kept = ~np.isin(numbers[int(variable.split("/")[0][-1])], IDS)
            assert kept.any()
            assert value[kept].tobytes() == before[variable][kept].tobytes(), variable
    whole = np.concatenate([after[f"shard_{n}"] for n in range(3)])
    looked_up = np.isin(np.concatenate(numbers), IDS)
    assert (whole[looked_up] != np.concatenate([before[f"shard_{n}"] for n in range(3)])[looked_up]).all()


def test_every_optimizer_is_among_those_tested():
    known = {name for name in hr.optim.__all__ if isinstance(getattr(hr.optim, name), type)}
    assert known == {"SGD", "Momentum", "Adagrad", "Adadelta", "RMSProp", "Adam", "AdamW", "LBFGS", "Optimizer"}
