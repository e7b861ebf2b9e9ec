"""Each layer computes what NumPy does, with gradients that come from those of its operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import headrace as hr
from headrace.errors import InvalidArgumentError, NotFoundError, ShapeError

Array = npt.NDArray[Any]
NUMBERS = np.random.default_rng(11)


def run(
    layer: hr.layers.Module, value: Array, *, training: bool = False, steps: int = 1
) -> tuple[Array, dict[str, Array]]:
    """The output of the last of some calls, and the variables after it."""
    graph = hr.Graph(seed=1)
    with graph.as_default():
        x = hr.placeholder(hr.as_dtype(value.dtype), [None, *value.shape[1:]])
        y = layer(x, training=training)
    with hr.Session(graph) as session:
        for _ in range(steps):
            result = session.run(y, feeds={x: value})
        return result, session.read_variables()


def test_dense_multiplies_adds_and_activates() -> None:
    x = NUMBERS.normal(size=(4, 2, 3)).astype(np.float32)
    layer = hr.layers.Dense(5, activation="relu", bias_initializer=hr.layers.initializers.constant(0.1))
    y, variables = run(layer, x)
    np.testing.assert_allclose(y, np.maximum(x @ variables["kernel"] + variables["bias"], 0), rtol=1e-5, atol=1e-6)
    assert variables["bias"].tolist() == [np.float32(0.1)] * 5


def test_dense_without_bias_and_with_a_function() -> None:
    x = NUMBERS.normal(size=(4, 3)).astype(np.float32)
    y, variables = run(hr.layers.Dense(2, activation=hr.square, use_bias=False), x)
    assert list(variables) == ["kernel"]
    np.testing.assert_allclose(y, (x @ variables["kernel"]) ** 2, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("relu", lambda x: np.maximum(x, 0)),
        ("tanh", np.tanh),
        ("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
        ("softmax", lambda x: np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)),
    ],
)
def test_activations_by_name(name: str, function: Any) -> None:
    x = NUMBERS.normal(size=(4, 3)).astype(np.float32)
    y, variables = run(hr.layers.Dense(3, activation=name, use_bias=False), x)
    np.testing.assert_allclose(y, function(x @ variables["kernel"]), rtol=1e-5, atol=1e-6)


def test_an_unknown_activation_names_the_known_ones() -> None:
    with pytest.raises(NotFoundError, match=r"no activation 'relv'\n.*close ones: relu\n.*\n.*any function"):
        hr.layers.Dense(1, activation="relv")


def test_dense_needs_to_know_the_size_of_its_input() -> None:
    with hr.Graph().as_default(), pytest.raises(ShapeError, match=r"Dense needs to know the size of axis -1"):
        hr.layers.Dense(1)(hr.placeholder(hr.float32, [None, None]))
    with hr.Graph().as_default(), pytest.raises(ShapeError, match=r"Dense needs to know the size of axis -1"):
        hr.layers.Dense(1)(hr.placeholder(hr.float32))


def convolution(x: Array, kernel: Array, stride: int) -> Array:
    """Where the window fits."""
    height, width = kernel.shape[:2]
    rows = range(0, x.shape[1] - height + 1, stride)
    columns = range(0, x.shape[2] - width + 1, stride)
    return np.stack(
        [
            np.stack([np.tensordot(x[:, r : r + height, c : c + width], kernel, 3) for c in columns], axis=1)
            for r in rows
        ],
        axis=1,
    )


@pytest.mark.parametrize("stride", [1, 2])
def test_conv2d_slides_its_kernel_in_strides(stride: int) -> None:
    x = NUMBERS.normal(size=(2, 7, 6, 3)).astype(np.float32)
    layer = hr.layers.Conv2D(4, (3, 2), strides=stride, bias_initializer="ones")
    y, variables = run(layer, x)
    assert variables["kernel"].shape == (3, 2, 3, 4)
    np.testing.assert_allclose(y, convolution(x, variables["kernel"], stride) + 1, rtol=1e-4, atol=1e-5)


def test_conv2d_pads_to_the_same_size() -> None:
    x = NUMBERS.normal(size=(2, 5, 5, 1)).astype(np.float32)
    y, variables = run(hr.layers.Conv2D(2, 3, padding="SAME", use_bias=False), x)
    padded = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
    np.testing.assert_allclose(y, convolution(padded, variables["kernel"], 1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("layer", "function"), [(hr.layers.MaxPool2D, np.max), (hr.layers.AvgPool2D, np.mean)])
def test_pooling_reduces_each_window(layer: type[hr.layers.MaxPool2D], function: Any) -> None:
    x = NUMBERS.normal(size=(2, 4, 6, 3)).astype(np.float32)
    y, variables = run(layer(2), x)
    assert variables == {}
    np.testing.assert_allclose(y, function(x.reshape(2, 2, 2, 3, 2, 3), axis=(2, 4)), rtol=1e-6)


def test_pooling_with_overlap() -> None:
    x = np.arange(5.0, dtype=np.float32).reshape(1, 1, 5, 1)
    y, _ = run(hr.layers.MaxPool2D((1, 3), strides=(1, 1)), x)
    assert y.ravel().tolist() == [2.0, 3.0, 4.0]


@pytest.mark.parametrize("wrong", [0, (1, 2, 3), (2, 0)])
def test_window_sizes_are_checked(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="kernel_size of Conv2D cannot be used"):
        hr.layers.Conv2D(1, wrong)
    with pytest.raises(InvalidArgumentError, match="pool_size of MaxPool2D cannot be used"):
        hr.layers.MaxPool2D(wrong)


def test_flatten_keeps_the_batch_axis_and_needs_known_sizes() -> None:
    x = NUMBERS.normal(size=(2, 3, 4)).astype(np.float32)
    y, _ = run(hr.layers.Flatten(), x)
    np.testing.assert_array_equal(y, x.reshape(2, 12))
    with hr.Graph().as_default():
        assert hr.layers.Flatten()(hr.placeholder(hr.float32, [5, 2, 3])).shape.as_tuple() == (5, 6)
        with pytest.raises(ShapeError, match=r"Flatten needs to know all sizes of its input but the first\n"):
            hr.layers.Flatten()(hr.placeholder(hr.float32, [None, None, 3]))


def test_sequential_refuses_what_is_no_layer() -> None:
    with pytest.raises(InvalidArgumentError, match="item 1 of a Sequential is not a layer"):
        hr.layers.Sequential([hr.layers.Flatten(), "relu"])  # type: ignore[list-item]


def test_dropout_keeps_the_mean_and_drops_anew_each_time() -> None:
    x = np.ones((200, 100), np.float32)
    layer = hr.layers.Dropout(0.25, seed=3)
    first, _ = run(layer, x, training=True)
    second, _ = run(layer, x, training=True, steps=2)
    assert set(np.unique(first)) == {0.0, np.float32(1 / 0.75)}
    assert abs((first == 0).mean() - 0.25) < 0.02
    assert not np.array_equal(first, second)


def test_dropout_does_nothing_outside_of_training() -> None:
    x = NUMBERS.normal(size=(3, 3)).astype(np.float32)
    assert run(hr.layers.Dropout(0.5), x)[0].tobytes() == x.tobytes()
    assert run(hr.layers.Dropout(0.0), x, training=True)[0].tobytes() == x.tobytes()


def test_the_gradient_of_dropout_uses_the_same_mask() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.constant(np.ones((50, 50), np.float32))
        y = hr.layers.Dropout(0.5, seed=1)(x, training=True)
        (dx,) = hr.gradients(hr.sum(y), [x])
    with hr.Session(graph) as session:
        value, gradient = session.run([y, dx])
    np.testing.assert_array_equal(value, gradient)


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_the_rate_of_dropout_is_checked(rate: float) -> None:
    with pytest.raises(InvalidArgumentError, match="the rate of Dropout is a probability"):
        hr.layers.Dropout(rate)


def test_T07_batch_norm_in_training() -> None:
    x = np.array([1.0, 2.0, 3.0, 4.0], np.float32).reshape(4, 1, 1, 1)
    y, variables = run(hr.layers.BatchNorm(momentum=0.0), x, training=True)
    assert y.ravel() == pytest.approx([-1.3411, -0.4470, 0.4470, 1.3411], abs=1e-4)  # variance 1.25 in y
    assert variables["mean"] == pytest.approx([2.5])
    assert variables["variance"] == pytest.approx([5 / 3])  # and without bias in the running one


def test_T07_batch_norm_of_one_element_stays_finite() -> None:
    y, variables = run(hr.layers.BatchNorm(momentum=0.99), np.full((1, 1, 1, 2), 5.0, np.float32), training=True)
    assert y.ravel().tolist() == [0.0, 0.0]
    assert variables["variance"] == pytest.approx([0.99, 0.99])
    assert variables["mean"] == pytest.approx([0.05, 0.05])


def test_batch_norm_outside_of_training_uses_the_running_statistics() -> None:
    x = NUMBERS.normal(3.0, 2.0, size=(64, 5)).astype(np.float32)
    layer = hr.layers.BatchNorm(momentum=0.5)
    graph = hr.Graph()
    with graph.as_default():
        value = hr.placeholder(hr.float32, [None, 5])
        trained, used = layer(value, training=True), layer(value)
    with hr.Session(graph) as session:
        for _ in range(40):
            session.run(trained, feeds={value: x})
        before = session.read_variables()
        y = session.run(used, feeds={value: x})
        after = session.read_variables()
    assert after["mean"].tobytes() == before["mean"].tobytes()
    expected = (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0, ddof=1) + 1e-3)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)


def test_a_step_that_fetches_the_gradient_alone_moves_the_statistics() -> None:
    layer = hr.layers.BatchNorm(momentum=0.0)
    graph = hr.Graph()
    with graph.as_default():
        x = hr.constant(NUMBERS.normal(size=(8, 2)).astype(np.float32))
        train = hr.optim.SGD(0.1).minimize(hr.sum(hr.square(layer(x, training=True))), layer.parameters(trainable=True))
    with hr.Session(graph) as session:
        session.run(train)
        assert session.run(layer.mean).tolist() != [0.0, 0.0]


def test_the_gradient_of_batch_norm_agrees_with_differences() -> None:
    graph = hr.Graph()
    weights = NUMBERS.normal(size=(6, 3))
    with graph.as_default():
        x = hr.placeholder(hr.float64, [6, 3])
        layer = hr.layers.BatchNorm()
        loss = hr.sum(hr.square(layer(x, training=True)) * weights + layer(x, training=True) * weights)
        (dx,) = hr.gradients(loss, [x])
    value, direction = NUMBERS.normal(size=(6, 3)), NUMBERS.normal(size=(6, 3))
    with hr.Session(graph) as session:
        slope = (session.run(dx, feeds={x: value}) * direction).sum()
        ends = [float(session.run(loss, feeds={x: value + sign * 1e-5 * direction})) for sign in (1, -1)]
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6)


def test_a_frozen_batch_norm_keeps_its_statistics() -> None:
    layer = hr.layers.BatchNorm()
    layer.freeze()
    x = NUMBERS.normal(3.0, 2.0, size=(64, 5)).astype(np.float32)
    y, variables = run(layer, x, training=True)
    assert variables["mean"].tolist() == [0.0] * 5
    np.testing.assert_allclose(y, x / np.sqrt(1 + 1e-3), rtol=1e-5)


def test_batch_norm_without_scale_and_center() -> None:
    y, variables = run(hr.layers.BatchNorm(scale=False, center=False), np.ones((2, 2), np.float32))
    assert sorted(variables) == ["mean", "variance"]
    assert y == pytest.approx(np.full((2, 2), 1 / np.sqrt(1.001)))


@pytest.mark.parametrize("units", [0, -1, 3.5, "10"])
def test_a_number_of_units_that_is_none_is_refused(units: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="units of Dense cannot be used\n.*a whole number above 0"):
        hr.layers.Dense(units)


def test_images_without_channels_are_told_what_to_do() -> None:
    with hr.Graph().as_default(), pytest.raises(ShapeError, match=r"\[\?, 8, 8\]\n.*try: +x\[..., np.newaxis\]"):
        hr.layers.Conv2D(4, 3)(hr.placeholder(hr.float32, [None, 8, 8]))
