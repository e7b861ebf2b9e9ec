"""A network that reads real digits loses less than one point in int8, and gives the same numbers on every backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import digits
import headrace as hr

Model = tuple[hr.Session, hr.Tensor, hr.Tensor]


@pytest.fixture(scope="module")
def data() -> tuple[digits.Digits, digits.Digits]:
    return digits.load(2000, 1000)


@pytest.fixture(scope="module")
def trained(data: tuple[digits.Digits, digits.Digits]) -> Model:
    """Two convolutions and two layers after them, trained for some epochs."""
    train, _ = data
    with hr.Graph(seed=5).as_default() as graph:
        x = hr.placeholder(hr.float32, [None, 28, 28, 1], name="images")
        y = hr.placeholder(hr.int32, [None])
        network = hr.layers.Sequential(
            [
                hr.layers.Conv2D(8, 5, activation="relu"),
                hr.layers.MaxPool2D(2),
                hr.layers.Conv2D(16, 3, activation="relu"),
                hr.layers.MaxPool2D(2),
                hr.layers.Flatten(),
                hr.layers.Dense(32, activation="relu"),
                hr.layers.Dense(10),
            ]
        )
        logits = network(x)
        loss = hr.mean(hr.nn.sparse_softmax_cross_entropy(labels=y, logits=logits))
        step = hr.optim.Adam(0.003).minimize(loss)
    session = hr.Session(graph)
    run = session.make_callable(step, [x, y])
    order = np.random.default_rng(3)
    for _ in range(4):
        for rows in np.split(order.permutation(2000), 40):
            run(train.images[rows], train.labels[rows])
    return session, x, logits


def accuracy(logits: Any, labels: Any) -> float:
    return float((np.argmax(logits, axis=1) == labels).mean())


@pytest.mark.parametrize(("method", "error"), [("minmax", 0.02), ("percentile", 0.02), ("entropy", 0.03)])
def test_int8_loses_less_than_one_point(
    trained: Model, data: tuple[digits.Digits, digits.Digits], method: Any, error: float
) -> None:
    session, x, logits = trained
    train, test = data
    exact = accuracy(session.run(logits, feeds={x: test.images}), test.labels)
    assert exact > 0.9
    batches = [{x: images} for images in np.split(train.images[:300], 3)]
    model = hr.to_int8(session, logits, batches, method=method)
    assert len(model.report.products) == 4
    assert not model.report.left
    assert model.report.errors[0].relative < error
    found = hr.Session(model.graph).run(model.outputs, feeds={model.inputs[x]: test.images})
    assert accuracy(found, test.labels) > exact - 0.01
    with hr.config(backend="numpy"):
        plain = hr.Session(model.graph)
    same = plain.run(model.outputs, feeds={model.inputs[x]: test.images[:50]})
    np.testing.assert_array_equal(same, found[:50])
