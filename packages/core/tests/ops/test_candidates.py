"""Candidate samplers and the losses over some classes in the place of all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr

# What TensorFlow 2.21 draws for the seed attributes 11 and 5, in a first and a second step.
_GOLDEN: dict[tuple[str, bool, int, int], list[list[int]]] = {
    ("UniformCandidateSampler", True, 5, 10): [[1, 8, 9, 7, 4], [9, 7, 2, 4, 8]],
    ("UniformCandidateSampler", False, 6, 16): [[11, 8, 5, 15, 0, 9], [0, 0, 11, 6, 13, 4]],
    ("LogUniformCandidateSampler", True, 5, 1000): [[0, 180, 117, 32, 44], [54, 7, 0, 548, 11]],
    ("LogUniformCandidateSampler", False, 6, 10): [[0, 5, 4, 2, 2, 1], [0, 1, 3, 1, 3, 1]],
}


def _sampler(op: str, unique: bool, sampled: int, classes: int, seeds: tuple[int, int] = (11, 5)) -> Any:
    attrs = {"num_sampled": sampled, "unique": unique, "range_max": classes, "seed": seeds[0], "seed2": seeds[1]}
    return hr.apply_op(op, np.array([[1, 2], [4, 0]]), num_true=2, **attrs)


@pytest.mark.parametrize("key", _GOLDEN, ids=str)
def test_numbers_are_those_of_tensorflow(key: tuple[str, bool, int, int]) -> None:
    with hr.Graph().as_default() as graph:
        classes, _, _ = _sampler(*key)
    session = hr.Session(graph)
    assert [session.run(classes).tolist() for _ in range(2)] == _GOLDEN[key]


@pytest.mark.parametrize("op", ["UniformCandidateSampler", "LogUniformCandidateSampler"])
def test_expected_counts_of_independent_draws_are_what_is_counted(op: str) -> None:
    with hr.Graph().as_default() as graph:
        drawn = _sampler(op, False, 50_000, 6)
    classes, true_expected, sampled_expected = hr.Session(graph).run(drawn)
    counts = np.bincount(classes, minlength=6)
    chances = np.full(6, 1 / 6) if op.startswith("Uniform") else np.log1p(1 / np.arange(1, 7)) / np.log(7)
    np.testing.assert_allclose(counts, 50_000 * chances, rtol=0.05)
    np.testing.assert_allclose(true_expected, 50_000 * chances[[[1, 2], [4, 0]]], rtol=1e-5)
    np.testing.assert_allclose(sampled_expected, 50_000 * chances[classes], rtol=1e-5)


@pytest.mark.parametrize("op", ["UniformCandidateSampler", "LogUniformCandidateSampler"])
def test_different_classes_and_how_often_they_were_to_be_expected(op: str) -> None:
    with hr.Graph().as_default() as graph:
        drawn = _sampler(op, True, 5, 8)
    session = hr.Session(graph)
    total = np.zeros(8)
    expected = np.zeros((2, 2))
    for _ in range(3000):
        classes, true_expected, _ = session.run(drawn)
        assert len(set(classes.tolist())) == 5
        assert set(classes.tolist()) <= set(range(8))
        total[classes] += 1
        expected += true_expected
    np.testing.assert_allclose(total[[[1, 2], [4, 0]]], expected, rtol=0.1)


def test_steps_and_seeds_differ_and_sessions_repeat() -> None:
    with hr.Graph().as_default() as graph:
        first = hr.nn.log_uniform_candidates([[1]], 20, 1000, seed=1).classes
        second = hr.nn.log_uniform_candidates([[1]], 20, 1000, seed=2).classes
    a, b = hr.Session(graph), hr.Session(graph)
    steps = [a.run(first).tolist() for _ in range(2)]
    assert steps == [b.run(first).tolist() for _ in range(2)]
    assert steps[0] != steps[1]
    assert steps[0] != b.run(second).tolist()


def test_wrong_inputs_are_refused() -> None:
    with hr.Graph().as_default() as graph:
        with pytest.raises(hr.errors.InvalidArgumentError, match="too few classes"):
            hr.nn.uniform_candidates([[1]], 5, 4)
        with pytest.raises(hr.errors.InvalidArgumentError, match="too many are drawn"):
            hr.nn.uniform_candidates([[1]], 2**40, 2**41)
        with pytest.raises(hr.errors.ShapeError, match="num_true classes"):
            hr.apply_op("UniformCandidateSampler", np.array([[1]]), num_true=2, num_sampled=1, unique=True, range_max=4)
        with pytest.raises(hr.errors.ShapeError, match="must be known"):
            hr.nn.nce_loss(
                np.ones((4, 2), np.float32), np.ones(4, np.float32), hr.placeholder(hr.int64, [None, None]),
                np.ones((1, 2), np.float32), 2, 4,
            )  # fmt: skip
        classes = hr.placeholder(hr.int64, None)
        drawn = hr.apply_op("UniformCandidateSampler", classes, num_true=1, num_sampled=1, unique=True, range_max=4)[0]
        outside = hr.nn.uniform_candidates([[4]], 1, 4).classes
        hits = hr.apply_op("ComputeAccidentalHits", [[np.int64(1)]], classes, num_true=1)[0]
    session = hr.Session(graph)
    with pytest.raises(hr.errors.ShapeError, match="rank"):
        session.run(drawn, feeds={classes: [1, 2]})
    with pytest.raises(hr.errors.OutOfRangeError, match="true class is out of range"):
        session.run(outside)
    with pytest.raises(hr.errors.ShapeError, match="rank"):
        session.run(hits, feeds={classes: [[1]]})


def _problem(true: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(5)
    labels = np.array([[1, 4], [2, 2], [7, 0]])[:, :true]
    return rng.normal(size=(9, 4)), rng.normal(size=9), labels, rng.normal(size=(3, 4))


def _by_definition(
    problem: tuple[Any, ...], drawn: tuple[Any, ...], remove: bool
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Logits and targets, example by example."""
    weights, biases, labels, inputs = problem
    classes, true_expected, sampled_expected = drawn
    logits = []
    for row, x in enumerate(inputs):
        mine = [weights[c] @ x + biases[c] - np.log(true_expected[row, j]) for j, c in enumerate(labels[row])]
        for j, c in enumerate(classes):
            hit = remove and c in labels[row]
            mine.append(-1e38 if hit else weights[c] @ x + biases[c] - np.log(sampled_expected[j]))
        logits.append(mine)
    true = labels.shape[1]
    return np.array(logits), np.array([1 / true] * true + [0.0] * len(classes))


@pytest.mark.parametrize("true", [1, 2])
@pytest.mark.parametrize("remove", [True, False])
def test_losses_are_their_definitions(true: int, remove: bool) -> None:
    problem = _problem(true)
    with hr.Graph().as_default() as graph:
        drawn = hr.nn.log_uniform_candidates(problem[2], 5, 9, seed=3)
        options = {"candidates": drawn, "remove_accidental_hits": remove}
        softmax = hr.nn.sampled_softmax_loss(*problem, 5, 9, **options)
        nce = hr.nn.nce_loss(*problem, 5, 9, **options)
    values, found_softmax, found_nce = hr.Session(graph).run([drawn, softmax, nce])
    logits, targets = _by_definition(problem, values, remove)
    powers = np.exp(logits - logits.max(1, keepdims=True))
    log_softmax = logits - logits.max(1, keepdims=True) - np.log(powers.sum(1, keepdims=True))
    kept = np.where(targets > 0, targets * log_softmax, 0)
    np.testing.assert_allclose(found_softmax, -kept.sum(1), rtol=1e-6)
    each = np.maximum(logits, 0) - logits * targets + np.log1p(np.exp(-np.abs(logits)))
    np.testing.assert_allclose(found_nce, each.sum(1), rtol=1e-6)


def test_all_classes_give_the_whole_softmax() -> None:
    """Every class drawn, and hits removed: the same loss and gradient as the softmax over all of them."""
    weights, biases, labels, inputs = _problem(1)
    with hr.Graph().as_default() as graph:
        w, x = hr.constant(weights), hr.constant(inputs)
        drawn = hr.nn.uniform_candidates(labels, 9, 9)
        sampled = hr.nn.sampled_softmax_loss(w, biases, labels, x, 9, 9, candidates=drawn)
        whole = hr.nn.sparse_softmax_cross_entropy(labels[:, 0], hr.matmul(x, w, transpose_b=True) + biases)
        found = [sampled, *hr.gradients(sampled, [w, x])]
        expected = [whole, *hr.gradients(whole, [w, x])]
    for a, b in zip(hr.Session(graph).run(found), hr.Session(graph).run(expected), strict=True):
        # The counts of the true and the drawn classes are all 1 - (1 - 1/9)^tries, rounded to float32.
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_only_the_rows_of_those_classes_are_updated() -> None:
    with hr.Graph().as_default() as graph:
        w, b = hr.Variable(np.ones((50, 3), np.float32)), hr.Variable(np.zeros(50, np.float32))
        drawn = hr.nn.uniform_candidates([[7]], 4, 50, seed=1)
        loss = hr.sum(hr.nn.sampled_softmax_loss(w, b, [[7]], np.ones((1, 3), np.float32), 4, 50, candidates=drawn))
        assert all(isinstance(g, hr.IndexedSlices) for g in hr.gradients(loss, [w, b]))
        train = hr.optim.SGD(0.5).minimize(loss)
    session = hr.Session(graph)
    _, classes, before = session.run([train, drawn.classes, loss])
    changed = set(np.flatnonzero((session.run(w) != 1).any(1)).tolist())
    assert 7 in changed
    assert changed <= {7, *classes.tolist()}
    assert before > 0


def test_fixed_weights_decide_how_often_classes_are_drawn() -> None:
    weights = [0.0, 4.0, 1.0, 4.0]
    with hr.Graph(seed=1).as_default() as graph:
        drawn = hr.nn.fixed_unigram_candidates([[3], [2]], 4000, weights, distortion=0.5, num_reserved=1, unique=False)
    values = hr.Session(graph).run(drawn)
    shares = np.array([0, 0, 2, 1, 2]) / 5
    np.testing.assert_allclose(np.bincount(values.classes, minlength=5) / 4000, shares, atol=0.03)
    np.testing.assert_allclose(values.true_expected, 4000 * shares[[[3], [2]]], rtol=1e-5)


def test_different_classes_of_fixed_weights_and_of_one_shard() -> None:
    with hr.Graph(seed=1).as_default() as graph:
        options = {"num_true": 1, "num_sampled": 2, "unique": True, "range_max": 4, "unigrams": [1.0, 2.0, 3.0, 4.0]}
        drawn = hr.apply_op("FixedUnigramCandidateSampler", np.array([[1]]), **options, num_shards=2, shard=1)
    classes, _, expected = hr.Session(graph).run(list(drawn))
    assert sorted(classes.tolist()) == [1, 3]
    assert (expected > 0).all()


def test_weights_from_a_file(tmp_path) -> None:
    path = tmp_path / "vocabulary.csv"
    path.write_text("the,3\ncat,0\nsat,5\n")
    with hr.Graph().as_default() as graph:
        options = {"num_true": 1, "num_sampled": 2, "unique": True, "range_max": 3, "vocab_file": str(path)}
        drawn = hr.apply_op("FixedUnigramCandidateSampler", np.array([[1]]), **options)
        missing = hr.apply_op("FixedUnigramCandidateSampler", np.array([[1]]), **{**options, "vocab_file": "none"})
    session = hr.Session(graph)
    assert sorted(session.run(drawn[0]).tolist()) == [0, 2]
    with pytest.raises(hr.errors.NotFoundError, match="cannot be opened"):
        session.run(missing[0])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"unigrams": [1.0, 2.0]}, "weights are not right"),
        ({"unigrams": [1.0, -2.0, 1.0]}, "weights are not right"),
        ({"unigrams": [1.0, 0.0, 0.0]}, "too few classes can be drawn"),
        ({"unigrams": [1.0, 0.0, 1.0], "num_shards": 2, "shard": 1}, "no class can be drawn"),
    ],
)
def test_wrong_weights_are_named(options, text) -> None:
    with hr.Graph().as_default() as graph:
        fixed = {"num_true": 1, "num_sampled": 2, "unique": True, "range_max": 3}
        drawn = hr.apply_op("FixedUnigramCandidateSampler", np.array([[1]]), **fixed, **options)
    with pytest.raises(hr.errors.InvalidArgumentError, match=text):
        hr.Session(graph).run(drawn[0])


def test_learned_weights_follow_the_true_classes() -> None:
    with hr.Graph(seed=1).as_default() as graph:
        drawn = hr.nn.learned_unigram_candidates([[7]] * 90, 1000, 10, unique=False)
    session = hr.Session(graph)
    first, second = session.run(drawn), session.run(drawn)
    np.testing.assert_allclose(first.true_expected, 100, rtol=1e-5)
    np.testing.assert_allclose(second.true_expected, 910, rtol=1e-5)
    assert np.bincount(first.classes, minlength=10)[7] < 200
    assert np.bincount(second.classes, minlength=10)[7] > 800
