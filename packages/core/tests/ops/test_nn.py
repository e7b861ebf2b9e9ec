"""The functions of `hr.nn`: what they add to the operations, and what they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest

import headrace as hr
from headrace.graph.apply import apply_op
from headrace.testing import check_gradient

_X = np.array([[-2.0, -0.5, 0.25], [1.0, 3.0, 0.75]], np.float32)


def run(build, *values):
    """Build a function of placeholders and run it on values."""
    graph = hr.Graph()
    with graph.as_default():
        inputs = [hr.placeholder(value.dtype, value.shape) for value in values]
        output = build(*inputs)
    return hr.Session(graph).run(output, feeds=dict(zip(inputs, values, strict=True)))


def _normal_share(x):
    return 0.5 * (1 + math.erf(x / math.sqrt(2)))


def test_gelu_is_x_times_the_normal_probability() -> None:
    expected = np.vectorize(lambda x: x * _normal_share(x))(_X.astype(np.float64))
    np.testing.assert_allclose(run(hr.nn.gelu, _X), expected, rtol=2e-6, atol=1e-7)


def test_approximate_gelu_uses_tanh() -> None:
    wide = _X.astype(np.float64)
    expected = 0.5 * wide * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))
    np.testing.assert_allclose(run(lambda x: hr.nn.gelu(x, approximate=True), _X), expected, rtol=2e-6, atol=1e-7)


def test_approximate_gelu_keeps_its_digits_below_zero() -> None:
    x = np.linspace(-9, -3, 200).astype(np.float32)
    wide = x.astype(np.float64)
    expected = wide / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))
    np.testing.assert_allclose(run(lambda x: hr.nn.gelu(x, approximate=True), x), expected, rtol=1e-5)


def test_silu_is_x_times_sigmoid() -> None:
    wide = _X.astype(np.float64)
    np.testing.assert_allclose(run(hr.nn.silu, _X), wide / (1 + np.exp(-wide)), rtol=2e-6)


def test_c07_sigmoid_times_another_output_is_not_silu() -> None:
    def gated(x):
        gate, value = hr.split(x, 2, axis=2)
        return hr.sigmoid(gate) * value

    product = run(gated, np.array([[[2, 3]]], np.float32))
    np.testing.assert_allclose(product, [[[3 / (1 + np.exp(-2))]]], rtol=2e-6)


@pytest.mark.parametrize(
    "function",
    [hr.nn.gelu, lambda x: hr.nn.gelu(x, approximate=True), hr.nn.silu, hr.nn.layer_norm, hr.nn.l2_normalize],
    ids=["gelu", "gelu by tanh", "silu", "layer_norm", "l2_normalize"],
)
def test_compositions_have_right_gradients(function) -> None:
    check_gradient(lambda xs: [function(xs[0])], [_X])


def test_moments_have_right_gradients_of_both_orders() -> None:
    check_gradient(lambda xs: hr.nn.moments(xs[0], [1]), [_X])


def test_softmax_along_another_axis() -> None:
    weights = np.exp(_X.astype(np.float64))
    expected = weights / weights.sum(axis=0, keepdims=True)
    np.testing.assert_allclose(run(lambda x: hr.nn.softmax(x, axis=0), _X), expected, rtol=2e-6)
    np.testing.assert_allclose(run(lambda x: hr.nn.log_softmax(x, axis=-2), _X), np.log(expected), rtol=2e-6)


def test_softmax_refuses_an_axis_that_is_not_there() -> None:
    with pytest.raises(hr.errors.InvalidArgumentError, match="has no axis 2 here"):
        run(lambda x: hr.nn.softmax(x, axis=2), _X)


def test_sparse_cross_entropy_takes_logits_of_any_rank() -> None:
    logits = np.linspace(-2, 2, 24, dtype=np.float32).reshape(2, 3, 4)
    labels = np.array([[0, 1, 2], [3, 2, 1]], np.uint8)
    loss = run(lambda x, y: hr.nn.sparse_softmax_cross_entropy(labels=y, logits=x), logits, labels)
    wide = logits.astype(np.float64)
    log_softmax = wide - np.log(np.exp(wide).sum(axis=-1, keepdims=True))
    np.testing.assert_allclose(
        loss, -np.take_along_axis(log_softmax, labels[..., None].astype(int), -1)[..., 0], rtol=2e-6
    )


def test_sparse_cross_entropy_of_one_example_is_a_scalar() -> None:
    loss = run(lambda x: hr.nn.sparse_softmax_cross_entropy(labels=0, logits=x), np.zeros(2, np.float32))
    np.testing.assert_allclose(loss, np.log(2), rtol=2e-6)


def test_sparse_cross_entropy_takes_an_empty_list_of_labels() -> None:
    assert run(
        lambda x: hr.nn.sparse_softmax_cross_entropy(labels=[], logits=x), np.zeros((0, 3), np.float32)
    ).shape == (0,)


def test_sparse_cross_entropy_refuses_labels_that_are_not_integers() -> None:
    with pytest.raises(hr.errors.DTypeError, match="the labels are not class numbers"):
        run(lambda x: hr.nn.sparse_softmax_cross_entropy(labels=[0.5, 1.0], logits=x), _X)


def test_sparse_cross_entropy_refuses_labels_of_another_shape() -> None:
    with pytest.raises(hr.errors.ShapeError, match="the labels do not fit the logits"):
        run(lambda x: hr.nn.sparse_softmax_cross_entropy(labels=[[0]], logits=x), np.zeros((2, 3, 4), np.float32))


def test_cross_entropy_takes_logits_of_any_rank() -> None:
    logits = np.linspace(-2, 2, 24, dtype=np.float32).reshape(2, 3, 4)
    labels = np.full((2, 3, 4), 0.25, np.float32)
    loss = run(lambda x, y: hr.nn.softmax_cross_entropy(labels=y, logits=x), logits, labels)
    wide = logits.astype(np.float64)
    expected = (np.log(np.exp(wide).sum(axis=-1, keepdims=True)) - wide).mean(axis=-1)
    np.testing.assert_allclose(loss, expected, rtol=2e-6)


def test_cross_entropy_of_unknown_classes_keeps_the_shape() -> None:
    graph = hr.Graph()
    with graph.as_default():
        logits = hr.placeholder(hr.float32, [None, None, None])
        loss = hr.nn.softmax_cross_entropy(labels=logits, logits=logits)
    value = hr.Session(graph).run(loss, feeds={logits: np.full((2, 3, 4), 0.25, np.float32)})
    np.testing.assert_allclose(value, np.full((2, 3), np.log(4)), rtol=2e-6)


def test_sigmoid_cross_entropy_is_accurate_for_sure_answers() -> None:
    logits, labels = np.float32(np.array([20.0, -20.0, 0.5])), np.float32(np.array([1.0, 0.0, 0.25]))
    loss = run(lambda x, z: hr.nn.sigmoid_cross_entropy(labels=z, logits=x), logits, labels)
    sure = np.log1p(np.exp(-20.0))
    half = -0.25 * np.log(1 / (1 + np.exp(-0.5))) - 0.75 * np.log(1 / (1 + np.exp(0.5)))
    np.testing.assert_allclose(loss, [sure, sure, half], rtol=2e-6)


def test_sigmoid_cross_entropy_has_the_exact_derivative_at_zero() -> None:
    graph = hr.Graph()
    with graph.as_default():
        logits = hr.constant([0.0, 0.0])
        (slope,) = hr.gradients(hr.nn.sigmoid_cross_entropy(labels=[1.0, 0.25], logits=logits), [logits])
    assert hr.Session(graph).run(slope).tolist() == [-0.5, 0.25]


def test_padding_may_be_given_as_numbers() -> None:
    image = np.ones((1, 2, 3, 1), np.float32)
    taps = np.ones((2, 2, 1, 1), np.float32)
    assert run(lambda x, w: hr.nn.conv2d(x, w, padding=[[1, 0], [0, 2]]), image, taps).shape == (1, 2, 4, 1)
    first = image.transpose(0, 3, 1, 2)
    shape = run(lambda x, w: hr.nn.conv2d(x, w, padding=[[1, 0], [0, 2]], data_format="NCHW"), first, taps).shape
    assert shape == (1, 1, 2, 4)


def test_strides_may_be_one_two_or_four_numbers() -> None:
    image = np.ones((1, 4, 6, 1), np.float32)
    shapes = [run(lambda x, s=s: hr.nn.max_pool2d(x, 2, s), image).shape for s in (2, [2, 1], [1, 2, 1, 1])]
    assert shapes == [(1, 2, 3, 1), (1, 2, 5, 1), (1, 2, 5, 1)]
    with pytest.raises(hr.errors.InvalidArgumentError, match="a window is described by one number"):
        run(lambda x: hr.nn.avg_pool2d(x, [2, 2, 2]), image)


def test_dropout_keeps_the_mean_and_drops_the_rate() -> None:
    kept = run(lambda x: hr.nn.dropout(x, 0.25, seed=3), np.ones(10_000, np.float32))
    assert set(np.unique(kept)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((kept == 0).mean() - 0.25) < 0.02


def test_dropout_gives_zero_for_dropped_infinities() -> None:
    kept = run(lambda x: hr.nn.dropout(x, 0.5, seed=3), np.full(64, np.inf, np.float32))
    assert set(np.unique(kept)) == {np.float32(0), np.float32(np.inf)}


def test_dropout_gradient_flows_through_what_was_kept() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.constant(1.0, shape=[64])
        y = hr.nn.dropout(x, 0.5, seed=3)
        (slope,) = hr.gradients(y, [x])
    values = hr.Session(graph).run([y, slope])
    assert values[0].tolist() == values[1].tolist()


@pytest.mark.parametrize("training", [False, "fed"])
def test_dropout_outside_training_changes_nothing(training) -> None:
    graph = hr.Graph()
    with graph.as_default():
        flag = hr.placeholder(hr.bool, [])
        y = hr.nn.dropout(hr.constant(_X), 0.5, seed=3, training=flag if training == "fed" else False)
    feeds = {flag: False} if training == "fed" else {}
    assert hr.Session(graph).run(y, feeds=feeds).tolist() == _X.tolist()


@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
def test_dropout_refuses_a_rate_out_of_range(rate) -> None:
    with pytest.raises(hr.errors.InvalidArgumentError, match="the dropout rate is out of range"):
        run(lambda x: hr.nn.dropout(x, rate), _X)


def test_embedding_of_a_variable_reads_and_updates_only_its_rows() -> None:
    graph = hr.Graph()
    with graph.as_default():
        table = hr.Variable(np.arange(6, dtype=np.float32).reshape(3, 2), name="table")
        rows = hr.nn.embedding_lookup(table, [2, 0])
        (gradient,) = hr.gradients(rows, [table])
    assert isinstance(gradient, hr.IndexedSlices)
    assert hr.Session(graph).run(rows).tolist() == [[4, 5], [0, 1]]


def test_embedding_of_a_tensor_gathers_rows() -> None:
    rows = run(lambda table: hr.nn.embedding_lookup(table, [[1], [1]]), _X)
    assert rows.shape == (2, 1, 3)
    assert rows[0, 0].tolist() == _X[1].tolist()


def test_moments_of_float16_are_computed_in_float32() -> None:
    mean, variance = run(lambda x: hr.nn.moments(x, 0), np.full(40_000, 2, np.float16))
    assert (mean, variance) == (2, 0)
    assert mean.dtype == np.float16


def test_moments_of_one_element_have_no_variance() -> None:  # C15
    mean, variance = run(lambda x: hr.nn.moments(x, [0], keepdims=True), np.float32(np.array([5])))
    assert (mean.tolist(), variance.tolist()) == ([5], [0])


def test_layer_norm_scales_and_shifts() -> None:
    y = run(lambda x: hr.nn.layer_norm(x, [1.0, 2.0, 3.0], [0.0, 1.0, -1.0], epsilon=0.0), _X)
    wide = _X.astype(np.float64)
    normal = (wide - wide.mean(axis=1, keepdims=True)) / wide.std(axis=1, keepdims=True)
    np.testing.assert_allclose(y, normal * [1, 2, 3] + [0, 1, -1], rtol=1e-5, atol=1e-6)


def test_l2_normalize_leaves_a_zero_vector_at_zero() -> None:
    assert run(hr.nn.l2_normalize, np.zeros((1, 3), np.float32)).tolist() == [[0, 0, 0]]


def test_batch_norm_moves_the_running_statistics() -> None:
    graph = hr.Graph()
    with graph.as_default():
        outputs = hr.nn.batch_norm(
            hr.constant([1.0, 3.0], shape=[2, 1, 1, 1]), [1.0], [0.0], [10.0], [4.0], factor=0.5, epsilon=0.0
        )
    y, mean, variance = hr.Session(graph).run(list(outputs))
    assert (y.reshape(-1).tolist(), mean.tolist(), variance.tolist()) == ([-1, 1], [6], [3])


_IMAGES = np.ones((1, 2, 2, 3), np.float32)
_THREE = np.ones(3, np.float32)


@pytest.mark.parametrize(
    ("op", "values", "message"),
    [
        ("AddN", [[_X, _THREE]], "AddN adds tensors of one shape"),
        ("BiasAdd", [_THREE, _THREE], "there is no axis of channels"),
        ("BiasAdd", [_X, _THREE[:2]], "the bias does not fit the channels"),
        ("BiasAddGrad", [_THREE], "there is no axis of channels"),
        ("SparseSoftmaxCrossEntropyWithLogits", [_X, np.zeros(3, np.int64)], "the labels do not fit the logits"),
        ("SoftmaxCrossEntropyWithLogits", [_X, _X[:, :2]], "broadcast"),
        ("InTopKV2", [_X, np.zeros(3, np.int32), np.array(1, np.int32)], "the targets do not fit the predictions"),
        ("FusedBatchNormV3", [_X, *[_THREE] * 4], "rank"),
        ("FusedBatchNormV3", [_IMAGES, _THREE[:2], *[_THREE] * 3], "does not fit the channels"),
        ("FusedBatchNormGradV3", [_IMAGES[:, :1], _IMAGES, *[_THREE] * 4], "the gradient does not fit x"),
        ("LRNGrad", [_IMAGES, _IMAGES[:, :1], _IMAGES], "two shapes contradict each other"),
    ],
)
def test_a_shape_that_shows_only_in_the_step_is_refused_there(op, values, message) -> None:
    feeds = {}

    def unknown(value):
        tensor = hr.placeholder(value.dtype, None)
        feeds[tensor] = value
        return tensor

    with hr.Graph().as_default() as graph:
        inputs = [[unknown(item) for item in value] if isinstance(value, list) else unknown(value) for value in values]
        apply_op(op, *inputs, name="late")
    with pytest.raises(hr.errors.ShapeError, match=rf"{message}(.|\n)*'late' created at test_nn.py"):
        hr.Session(graph).run("late:0", feeds=feeds)


def test_a_mask_that_does_not_fit_the_scores_is_refused() -> None:
    with hr.Graph().as_default():
        query, key = hr.zeros([2, 3, 4]), hr.zeros([2, 5, 4])
        with pytest.raises(
            hr.errors.ShapeError, match=r"the mask does not fit the scores(.|\n)*\[2, 3, 5\](.|\n)*\[7, 2, 3, 5\]"
        ):
            apply_op("Attention", query, key, key, hr.ones([7, 2, 3, 5]) > 0.0)
