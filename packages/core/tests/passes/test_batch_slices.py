"""Batch slices: a few images at a time through several layers, with the same results."""

from __future__ import annotations

import functools
import importlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.passes import batch_slices, optimize, prune
from headrace.types import Shape

slices = importlib.import_module("headrace.passes.batch_slices")
RNG = np.random.default_rng(0)


@pytest.fixture
def small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """So small that tests of a few images are sliced."""
    monkeypatch.setattr(slices, "_SLICE_BYTES", 20_000)
    monkeypatch.setattr(slices, "_LEAST", 1.0)


def bounded(graph: hr.Graph, fetches: Sequence[hr.Tensor], feeds: Sequence[hr.Tensor]) -> hr.Graph:
    return optimize(prune(graph, fetches, [], feeds, [feed.shape for feed in feeds]), hr.config())


def weights(*shape: int) -> hr.Tensor:
    return hr.constant(RNG.standard_normal(shape).astype(np.float32))


def block(x: hr.Tensor, channels: int) -> hr.Tensor:
    """Two convolutions beside one, as residual networks have them."""
    given = x.shape.as_tuple()[-1]
    y = hr.nn.relu(hr.nn.conv2d(x, weights(3, 3, given, channels)) + weights(channels))
    y = hr.nn.conv2d(y, weights(3, 3, channels, channels))
    return hr.nn.relu(y + hr.nn.conv2d(x, weights(1, 1, given, channels)) * weights(1, 1, 1, channels))


def network(x: hr.Tensor) -> hr.Tensor:
    y = hr.nn.max_pool2d(block(x, 8), 2, 2)
    return hr.mean(hr.nn.avg_pool2d(y, 2, 2) + 1.0, axis=(1, 2)) @ weights(8, 3)


def both(build: Callable[[hr.Tensor], Any], batch: int, multiple: int) -> tuple[Counter[str], list[Any]]:
    """The operations of the sliced graph, and what it gives beside the whole one."""
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [batch, 12, 12, 3])
        fetches = build(x)
    listed = fetches if isinstance(fetches, list) else [fetches]
    value = RNG.standard_normal((batch, 12, 12, 3)).astype(np.float32)
    results = []
    sliced = functools.partial(batch_slices, multiple=multiple)
    for passes in (hr.config().passes, (*hr.config().passes, sliced)):
        with hr.Session(graph, config=hr.config(backend="numpy", passes=passes, verify=True)) as session:
            results.append(session.run(listed, {x: value}))
    return Counter(op.type for op in sliced(bounded(graph, listed, [x])).operations), results


def assert_stays(build: Callable[[hr.Tensor], hr.Tensor | list[hr.Tensor]], *shape: int | None) -> None:
    """The graph of something that is not sliced is given back."""
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, shape or (6, 12, 12, 3))
        fetches = build(x)
    given = bounded(graph, fetches if isinstance(fetches, list) else [fetches], [x])
    assert batch_slices(given) is given


def assert_equal(results: Sequence[Any]) -> None:
    for whole, in_slices in zip(*results, strict=True):
        np.testing.assert_allclose(in_slices, whole, rtol=1e-6, atol=1e-6)


@pytest.mark.usefixtures("small_caches")
@pytest.mark.parametrize(("batch", "multiple", "count"), [(6, 1, 3), (6, 2, 3), (8, 2, 4), (9, 1, 9), (5, 1, 5)])
def test_a_network_is_computed_slice_by_slice(batch: int, multiple: int, count: int) -> None:
    types, results = both(network, batch, multiple)
    assert_equal(results)
    assert types["Conv2D"] == 3 * count
    assert types["Slice"] == count
    assert types["ConcatV2"] == 1
    assert types["MatMul"] == 1


@pytest.mark.usefixtures("small_caches")
@pytest.mark.parametrize(("batch", "multiple"), [(7, 2), (6, 4), (1, 1), (34, 2)])
def test_slices_have_as_many_images_as_threads_share_and_are_alike(batch: int, multiple: int) -> None:
    types, results = both(network, batch, multiple)
    assert_equal(results)
    assert types["Conv2D"] == 3


@pytest.mark.usefixtures("small_caches")
def test_values_that_are_needed_inside_and_outside_are_joined() -> None:
    def build(x: hr.Tensor) -> list[hr.Tensor]:
        y = block(x, 8)
        return [hr.sum(y), hr.sum(hr.nn.relu(hr.nn.conv2d(y, weights(3, 3, 8, 8))))]

    types, results = both(build, 6, 2)
    assert_equal(results)
    assert types["Conv2D"] == 4 * 3
    assert types["ConcatV2"] == 2
    assert types["Relu"] == 2 * 3 + 1  # the last one is computed as a whole, where its operand is joined


def several_outputs(x: hr.Tensor) -> list[hr.Tensor]:
    """One that leaves early, little of all that is computed, and what comes later and goes on with it."""
    y = block(block(block(x, 8), 8), 8)
    early = hr.nn.max_pool2d(y, 6, 6)
    whole = hr.sum(early)
    late = hr.nn.max_pool2d(block(y, 8), 6, 6)
    return [early, late, late * whole + early]


@pytest.mark.usefixtures("small_caches")
def test_what_comes_later_as_a_whole_is_not_sliced_again() -> None:
    types, results = both(several_outputs, 6, 2)
    assert_equal(results)
    assert types["Conv2D"] == 4 * 3 * 3
    assert types["MaxPool"] == 2 * 3
    assert types["ConcatV2"] == 2
    assert types["Mul"] == 4 * 3 + 1


@pytest.mark.usefixtures("small_caches")
def test_operands_that_are_the_same_for_each_image_stay_whole() -> None:
    def build(x: hr.Tensor) -> hr.Tensor:
        y = block(x, 8) * weights(1, 12, 12, 8) + weights(12, 8)
        return hr.nn.max_pool2d(hr.maximum(y, weights(6, 12, 12, 8)), 12, 12)

    types, results = both(build, 6, 2)
    assert_equal(results)
    assert types["Slice"] == 2 * 3  # of the images and of the numbers that each image has of its own


@pytest.mark.usefixtures("small_caches")
def test_weights_that_are_larger_than_what_is_saved_end_it() -> None:
    def build(x: hr.Tensor) -> hr.Tensor:
        y = hr.nn.max_pool2d(block(x, 8), 6, 6)
        return hr.nn.conv2d(y, weights(2, 2, 8, 100))

    types, results = both(build, 6, 2)
    assert_equal(results)
    assert types["Conv2D"] == 3 * 3 + 1


@pytest.mark.usefixtures("small_caches")
def test_what_the_user_has_named_keeps_its_name() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [6, 12, 12, 3])
        y = network(x)
        first = next(op.name for op in graph.operations if op.type == "Conv2D")
        z = hr.exp(hr.sum(y), name=f"{first}/slice0")
    given = bounded(graph, [z], [x])
    sliced = batch_slices(given, 2)
    names = {op.name for op in sliced.operations}
    whole = {
        op.name for op in given.operations if op.type not in ("Conv2D", "MaxPool", "AvgPool", "Relu", "AddV2", "Mul")
    }
    assert sum(op.type == "Conv2D" for op in sliced.operations) == 9
    assert whole <= names
    assert {f"{first}/slice_{number}" for number in range(3)} <= names


@pytest.mark.usefixtures("small_caches")
def test_operands_of_unknown_size_are_not_sliced() -> None:
    """They may turn out to be the same for each image, or to have one for each."""
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [6, 12, 12, 3])
        other = hr.placeholder(hr.float32, [None, 12, 12, 8])
        y = hr.nn.conv2d(x, weights(3, 3, 3, 8)) + other
        y.set_shape(Shape([6, 12, 12, 8]))
        y = hr.nn.max_pool2d(hr.nn.relu(y), 12, 12)
        channels = hr.placeholder(hr.float32, [6, 12, 12, None])
        z = hr.nn.conv2d(channels, weights(3, 3, 3, 8))
        z.set_shape(Shape([6, 12, 12, 8]))
    given = prune(
        graph, [y, hr.nn.max_pool2d(z, 12, 12)], [], [x, other, channels], [x.shape, other.shape, channels.shape]
    )
    assert batch_slices(given) is given


@pytest.mark.usefixtures("small_caches")
def test_depthwise_convolutions_and_biases_are_sliced() -> None:
    def build(x: hr.Tensor) -> hr.Tensor:
        y = hr.nn.conv2d(x, weights(3, 3, 3, 8))
        y = hr.nn.relu(hr.nn.depthwise_conv2d(y, weights(3, 3, 8, 1)) + weights(8))
        return hr.nn.max_pool2d(y, 12, 12)

    types, results = both(build, 6, 2)
    assert_equal(results)
    assert types["Conv2D"] == types["DepthwiseConv2dNative"] == 3


@pytest.mark.usefixtures("small_caches")
@pytest.mark.parametrize("shape", [[None, 12, 12, 3], [6, None, 12, 3]])
def test_sizes_that_are_not_known_are_not_sliced(shape: list[int | None]) -> None:
    assert_stays(lambda x: hr.nn.max_pool2d(hr.nn.conv2d(x, weights(3, 3, 3, 8)), 12, 12), *shape)


@pytest.mark.usefixtures("small_caches")
def test_steps_with_effects_stay_as_they_are() -> None:
    def build(x: hr.Tensor) -> hr.Tensor:
        y = network(x)
        update = hr.Variable(0.0).assign(hr.sum(y))
        assert update is not None
        with hr.control_dependencies([update]):
            return hr.identity(y)

    assert_stays(build)


@pytest.mark.usefixtures("small_caches")
def test_what_others_wait_for_stays_whole() -> None:
    def build(x: hr.Tensor) -> hr.Tensor:
        y = hr.nn.conv2d(x, weights(3, 3, 3, 8))
        with hr.control_dependencies([y]):
            return hr.nn.max_pool2d(hr.nn.relu(y), 12, 12)

    assert_stays(build)


@pytest.mark.usefixtures("small_caches")
def test_what_waits_for_something_later_comes_later() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [6, 12, 12, 3])
        y = network(x)
        with hr.control_dependencies([y]):
            z = hr.identity(hr.sum(x))
    passes = (*hr.config().passes, batch_slices)
    value = np.ones((6, 12, 12, 3), np.float32)
    with hr.Session(graph, config=hr.config(backend="numpy", passes=passes, verify=True)) as session:
        assert session.run(z, {x: value}) == value.sum()
    assert sum(op.type == "Conv2D" for op in batch_slices(bounded(graph, [z], [x])).operations) == 9


@pytest.mark.usefixtures("small_caches")
def test_training_needs_every_value_as_a_whole() -> None:
    def build(x: hr.Tensor) -> list[hr.Tensor]:
        kernels = [weights(3, 3, 3, 8), weights(3, 3, 8, 8)]
        y = hr.sum(hr.nn.relu(hr.nn.conv2d(hr.nn.relu(hr.nn.conv2d(x, kernels[0])), kernels[1])))
        return hr.gradients(y, kernels)

    assert_stays(build)


def test_what_caches_hold_anyway_is_not_sliced() -> None:
    def build(x: hr.Tensor) -> hr.Tensor:
        return hr.nn.conv2d(hr.nn.conv2d(x, weights(3, 3, 16, 64)), weights(3, 3, 64, 64))

    assert_stays(build, 8, 32, 32, 16)


@pytest.mark.usefixtures("small_caches")
def test_errors_name_the_line_of_the_user() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [6, 12, 12, 3])
        y = network(x)
    sliced = batch_slices(bounded(graph, [y], [x]), 2)
    made = [op for op in sliced.operations if op.type in ("Conv2D", "Slice", "ConcatV2")]
    assert made
    assert {op.source.filename for op in made} == {__file__}
