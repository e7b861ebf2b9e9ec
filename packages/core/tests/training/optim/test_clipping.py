"""Clipping of gradients, dense and sparse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import InvalidArgumentError


def run(fetches: Any, graph: hr.Graph) -> Any:
    with hr.Session(graph) as session:
        return session.run(fetches)


def sparse() -> hr.IndexedSlices:
    """Rows 1: (3, 0) + (0, 4) and 3: (0, 12); a norm of 13."""
    values = hr.constant([[3.0, 0.0], [0.0, 12.0], [0.0, 4.0]])
    return hr.IndexedSlices(values, hr.constant([1, 3, 1]), hr.constant([5, 2]))


def test_clip_by_value_keeps_nan() -> None:
    graph = hr.Graph()
    with graph.as_default():
        clipped = hr.clip_by_value(hr.constant([-3.0, 0.5, np.nan, 7.0]), -1.0, 2.0)
    np.testing.assert_array_equal(run(clipped, graph), [-1.0, 0.5, np.nan, 2.0])


def test_clip_by_value_of_a_sparse_gradient_adds_repeated_rows_first() -> None:
    graph = hr.Graph()
    with graph.as_default():
        clipped = hr.clip_by_value(sparse(), -1.0, 3.5)
        fetches = [clipped.values, clipped.indices]
    values, indices = run(fetches, graph)
    assert dict(zip(indices.tolist(), values.tolist(), strict=True)) == {1: [3.0, 3.5], 3: [0.0, 3.5]}


@pytest.mark.parametrize(("limit", "factor"), [(1.0, 0.2), (5.0, 1.0), (10.0, 1.0)])
def test_clip_by_norm_shortens_only_what_is_longer(limit: float, factor: float) -> None:
    graph = hr.Graph()
    with graph.as_default():
        clipped = hr.clip_by_norm(hr.constant([3.0, -4.0]), limit)
    assert run(clipped, graph) == pytest.approx([3 * factor, -4 * factor])


def test_clip_by_norm_of_zeros_gives_zeros() -> None:
    graph = hr.Graph()
    with graph.as_default():
        clipped = hr.clip_by_norm(hr.zeros([3]), 1.0)
    assert run(clipped, graph).tolist() == [0.0, 0.0, 0.0]


def test_clip_by_norm_of_a_sparse_gradient_stays_sparse() -> None:
    graph = hr.Graph()
    with graph.as_default():
        clipped = hr.clip_by_norm(sparse(), 1.0)
        fetches = [clipped.values, clipped.indices]
    values, indices = run(fetches, graph)
    rows = dict(zip(indices.tolist(), values.tolist(), strict=True))
    assert rows == {1: pytest.approx([3 / 13, 4 / 13]), 3: pytest.approx([0.0, 12 / 13])}


def test_clip_by_global_norm_scales_all_by_one_factor() -> None:
    graph = hr.Graph()
    with graph.as_default():
        clipped, norm = hr.clip_by_global_norm([hr.constant([84.0]), None, sparse()], 8.5)
        fetches = [clipped[0], clipped[2].values, norm]
    dense, rows, before = run(fetches, graph)
    assert clipped[1] is None
    assert before == pytest.approx(85.0)
    assert dense == pytest.approx([8.4])
    assert sorted(map(tuple, rows.tolist())) == [pytest.approx((0.0, 1.2)), pytest.approx((0.3, 0.4))]


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_a_norm_that_is_not_finite_makes_every_gradient_nan(bad: float) -> None:
    graph = hr.Graph()
    with graph.as_default():
        clipped, norm = hr.clip_by_global_norm([hr.constant([1.0, 2.0]), hr.constant([bad])], 1.0)
    values = run([*clipped, norm], graph)
    assert np.isnan(values[0]).all()
    assert np.isnan(values[1]).all()
    assert not np.isfinite(values[2])


def test_global_norm_needs_a_gradient() -> None:
    with hr.Graph().as_default(), pytest.raises(InvalidArgumentError, match="no gradient to take the norm of"):
        hr.global_norm([None])


@pytest.mark.parametrize("limit", [0, -1.0])
def test_a_limit_must_be_positive(limit: float) -> None:
    with hr.Graph().as_default():
        with pytest.raises(InvalidArgumentError, match="a norm cannot be clipped to this limit"):
            hr.clip_by_norm(hr.constant([1.0]), limit)
        with pytest.raises(InvalidArgumentError, match="a norm cannot be clipped to this limit"):
            hr.clip_by_global_norm([hr.constant([1.0])], limit)


def test_A73_normalisation_and_clipping_by_a_user_train_a_model() -> None:
    """Both are written here, of public functions alone; without them this model learns nothing."""

    def normalized(x: hr.Tensor) -> hr.Tensor:
        mean = hr.mean(x, axis=0, keepdims=True)
        return (x - mean) / hr.sqrt(hr.mean(hr.square(x - mean), axis=0, keepdims=True) + 1e-3)

    def clipped(gradients: Sequence[hr.Tensor], limit: float) -> list[hr.Tensor]:
        norm = hr.sqrt(hr.add_n([hr.sum(hr.square(gradient)) for gradient in gradients]))
        return [gradient * hr.minimum(limit / norm, 1.0) for gradient in gradients]

    numbers = np.random.default_rng(5)
    features = numbers.normal(size=(64, 4)).astype(np.float32) * 1e4 + 3e4
    labels = np.where(features[:, :1] > features[:, 1:2], 1.0, -1.0).astype(np.float32)

    def losses(by_user: bool) -> list[float]:
        graph = hr.Graph(seed=2)
        with graph.as_default():
            weights = [
                hr.Variable(0.5 * hr.random.normal([4, 8]), name="first"),
                hr.Variable(0.5 * hr.random.normal([8, 1]), name="second"),
            ]
            x = hr.constant(features)
            hidden = hr.nn.relu((normalized(x) if by_user else x) @ weights[0])
            loss = hr.mean(hr.square((normalized(hidden) if by_user else hidden) @ weights[1] - labels))
            gradients = hr.gradients(loss, weights)
            steps = clipped(gradients, 1.0) if by_user else gradients
            train = hr.group([w.assign_sub(0.1 * step) for w, step in zip(weights, steps, strict=True)])
        with hr.Session(graph) as session:
            return [float(session.run([loss, train])[0]) for _ in range(300)]

    with np.errstate(all="ignore"):
        alone = losses(by_user=False)
    trained = losses(by_user=True)
    assert not alone[-1] < 0.9
    assert trained[-1] < 0.35
