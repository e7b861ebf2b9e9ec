"""hr.mixed_precision: which values are rounded, that gradients and masters stay float32, and that training holds."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import headrace as hr
from headrace.errors import InvalidArgumentError
from headrace.graph.op_def import lookup_op_def
from headrace.passes import precision


def rounded(x: Any) -> Any:
    return np.asarray(x, np.float32).astype(ml_dtypes.bfloat16).astype(np.float32)


def optimized(fetches: Any, graph: hr.Graph, feeds: Any = None, **options: Any) -> hr.Graph:
    with hr.Session(graph, config=hr.mixed_precision(**options)) as session:
        return session.optimized_graph(fetches, feeds)


def rounds(tensor: hr.Tensor) -> bool:
    """True if a tensor is what a value rounded to bfloat16 becomes again."""
    return tensor.op.type == "Cast" and tensor.op.inputs[0].dtype is hr.bfloat16


def only(graph: hr.Graph, op_type: str) -> hr.Operation:
    (found,) = [op for op in graph.operations if op.type == op_type]
    return found


def test_every_listed_type_exists() -> None:
    named = precision._MOVES | precision._SOURCES | precision._APART | precision._IMAGES.keys() | precision._CHOOSING
    for name in precision.ALLOW | precision.INFER | named:
        lookup_op_def(name)
    assert not precision.ALLOW & precision.INFER
    assert precision._MOVES < precision.INFER


def test_a_product_reads_rounded_values_and_gives_float32() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 7, 7)).astype(np.float32)
    with hr.Graph().as_default() as graph:
        x, y = (hr.placeholder(hr.float32, [7, 7]) for _ in range(2))
        z = x @ y
    with hr.Session(graph, config=hr.mixed_precision("bfloat16")) as session:
        result = session.run(z, feeds={x: a, y: b})
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, rounded(a) @ rounded(b), rtol=1e-6, atol=1e-6)
    assert np.abs(result - rounded(result)).max() > 0


def test_a_graph_without_float32_products_stays_as_it_is() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float64, [2, 2])
        z = hr.exp(x @ x)
    given = {x: np.eye(2)}
    assert not any(op.type == "Cast" for op in optimized(z, graph, given).operations)


def test_what_lies_between_products_is_kept_rounded_and_what_is_denied_reads_float32() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [4, 4])
        hidden = hr.tanh(x @ x)
        logits = hidden @ x
        z = hr.nn.softmax(logits)
    found = optimized(z, graph, {x: np.eye(4, dtype=np.float32)})
    assert rounds(only(found, "Tanh").inputs[0])
    assert only(found, "Softmax").inputs[0].op.type == "MatMul"
    products = [op for op in found.operations if op.type == "MatMul"]
    assert len(products) == 2
    assert all(rounds(tensor) for op in products for tensor in op.inputs)


def test_what_ends_a_product_reads_it_in_float32_and_gives_rounded_values() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [4, 4])
        bias = hr.ones([4])
        z = hr.nn.relu(x @ x + bias + x) @ x
    found = optimized(z, graph, {x: np.eye(4, dtype=np.float32)})
    assert [op.type for op in found.operations if op.type in ("MatMul", "AddV2", "Relu")][:4] == [
        *("MatMul", "AddV2", "AddV2", "Relu"),
    ]
    sums = [op for op in found.operations if op.type == "AddV2"]
    assert sums[0].inputs[0].op.type == "MatMul"
    assert sums[1].inputs[0].op is sums[0]
    assert rounds(only(found, "Relu").inputs[0])
    assert [op.type for op in found.operations if only(found, "Relu").outputs[0] in op.inputs] == ["Cast"]


def test_movement_between_products_moves_bfloat16() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [4, 6])
        z = hr.permute_dims(hr.reshape(x @ hr.ones([6, 6]), [6, 4]), [1, 0]) @ hr.ones([6, 2])
    found = optimized(z, graph, {x: np.ones((4, 6), np.float32)})
    assert only(found, "Reshape").inputs[0].dtype is hr.bfloat16
    assert only(found, "Transpose").outputs[0].dtype is hr.bfloat16


def test_reads_before_and_after_an_update_are_rounded_apart() -> None:
    eye = np.eye(2, dtype=np.float32)
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [2, 2])
        w = hr.Variable(eye, name="w")
        before = x @ w.read() + x @ w.read()
        update = w.assign_add(eye)
        after = x @ w.read()
    casts = [op for op in optimized([before, after, update], graph, {x: eye}).operations if op.type == "Cast"]
    assert len([op for op in casts if op.inputs[0].op.type == "ReadVariableOp"]) == 2
    with hr.Session(graph, config=hr.mixed_precision("bfloat16")) as session:
        first, second, _ = session.run([before, after, update], feeds={x: eye})
    assert (first.tolist(), second.tolist()) == ((2 * eye).tolist(), (2 * eye).tolist())


def test_gradients_of_weights_reach_the_optimiser_unrounded_and_weights_are_rounded_once() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [4, 3])
        w = hr.Variable(np.ones((3, 3), np.float32))
        h = x
        for _ in range(5):
            h = hr.tanh(h @ w)
        train = hr.optim.Momentum(0.1, momentum=0.9).minimize(hr.sum(h))
    found = optimized(train, graph, {x: np.ones((4, 3), np.float32)})
    casts = [op for op in found.operations if op.type == "Cast" and op.inputs[0].op.type == "ReadVariableOp"]
    assert len(casts) == 1
    assert only(found, "AddN").outputs[0].dtype is hr.float32
    assert all(tensor.op.type == "MatMul" for tensor in only(found, "AddN").inputs)
    assert all(not rounds(t) for op in found.operations if op.type.startswith("Assign") for t in op.inputs)


@pytest.mark.parametrize("deny", [(), ("MaxPool",), ("MaxPoolGrad",), ("Relu",), ("ReluGrad",)])
@pytest.mark.parametrize("padding", ["VALID", "SAME"])
def test_the_gradient_of_pooling_finds_what_was_chosen(deny: tuple[str, ...], padding: str) -> None:
    """It looks for the pooled values among the images: if one were rounded and the other not, it would find none."""
    rng = np.random.default_rng(0)
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [2, 5, 5, 3])
        w = hr.constant(rng.standard_normal((1, 1, 3, 3)).astype(np.float32))
        pooled = hr.nn.max_pool2d(hr.nn.relu(hr.nn.conv2d(x, w) + 5.0), 2, padding=padding)
        (found,) = hr.gradients(hr.nn.conv2d(pooled, w), [x])
    value = rng.standard_normal((2, 5, 5, 3)).astype(np.float32)
    exact = hr.Session(graph).run(found, feeds={x: value})
    mixed = hr.Session(graph, config=hr.mixed_precision(deny=deny)).run(found, feeds={x: value})
    assert np.count_nonzero(exact) > 40
    differs = np.abs(mixed - exact) > 0.05 * np.abs(exact).max()
    assert differs.mean() < 0.05  # here and there two values become equal, and another one is the first


def test_statistics_of_batch_normalisation_are_not_rounded() -> None:
    with hr.Graph().as_default() as graph:
        x, w = hr.placeholder(hr.float32, [4, 5, 5, 3]), hr.ones([1, 1, 3, 3])
        ones = hr.ones([3])
        y, mean, _ = hr.nn.batch_norm(hr.nn.conv2d(x, w), ones * 1.5, ones, ones, ones, factor=0.5)
        (found,) = hr.gradients(hr.square(hr.nn.conv2d(y, w)), [x])
    graph = optimized([found, mean], graph, {x: np.ones((4, 5, 5, 3), np.float32)})
    assert [rounds(tensor) for tensor in only(graph, "FusedBatchNormV3").inputs] == [True] + 4 * [False]
    assert [rounds(tensor) for tensor in only(graph, "FusedBatchNormGradV3").inputs] == [True, True] + 4 * [False]


def test_constants_are_rounded_once() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [1, 2])
        y = x @ hr.constant([[1.001], [2.0]])
    found = optimized(y, graph, {x: np.ones((1, 2), np.float32)})
    weights = only(found, "MatMul").inputs[1].op.inputs[0]
    assert weights.op.type == "Const"
    assert weights.dtype is hr.bfloat16
    assert weights.op.attrs["value"].astype(np.float32).tolist() == [[1.0], [2.0]]


def test_types_and_names_can_be_added_and_taken_away() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [2, 2])
        with hr.name_scope("head"):
            first = x @ x
        second = hr.exp(x)
    given = {x: np.eye(2, dtype=np.float32)}
    fetches = [first, second]
    assert rounds(only(optimized(fetches, graph, given), "MatMul").inputs[0])
    assert not rounds(only(optimized(fetches, graph, given, deny=["MatMul"]), "MatMul").inputs[0])
    assert not rounds(only(optimized(fetches, graph, given, skip=["head/*"]), "MatMul").inputs[0])
    assert rounds(only(optimized(fetches, graph, given, allow=["Exp"]), "Exp").inputs[0])


def test_loops_and_branches_follow_the_policy_too() -> None:
    value = np.full((2, 2), 1.001, np.float32)
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [2, 2])
        product = hr.matmul
        _, powers = hr.while_loop(lambda i, s: i < 2, lambda i, s: (i + 1, product(s, x)), (0, x))
        chosen = hr.cond(hr.sum(x) > 0.0, lambda: product(x, x), lambda: x)
    with hr.Session(graph, config=hr.mixed_precision()) as session:
        found = session.run([powers, chosen], feeds={x: value})
    np.testing.assert_allclose(found[0], np.full((2, 2), 4.0), rtol=1e-6)
    np.testing.assert_allclose(found[1], np.full((2, 2), 2.0), rtol=1e-6)


def test_other_options_stay_and_the_policy_holds_inside_a_with_block() -> None:
    with hr.config(timeout=7.0, passes=["fold"]):
        options = hr.mixed_precision()
    assert options.timeout == 7.0
    assert options.passes[0] == "fold"
    assert len(options.passes) == 2

    @hr.function
    def product(x: hr.Tensor) -> hr.Tensor:
        return x @ x

    with hr.mixed_precision():
        assert float(product(np.full((1, 1), 1.001, np.float32))[0, 0]) == 1.0


@pytest.mark.parametrize("dtype", ["float16", "float32", "nonsense"])
def test_another_dtype_is_refused(dtype: str) -> None:
    with pytest.raises(InvalidArgumentError, match="no policy of mixed precision(.|\n)*expected: +bfloat16"):
        hr.mixed_precision(dtype)


def losses(options: hr.Config) -> np.ndarray[Any, np.dtype[np.float64]]:
    """200 steps of a network with convolutions on images that are patterns in noise."""
    graph = hr.Graph(seed=1)
    rng = np.random.default_rng(0)

    def weights(*shape: int) -> hr.Variable:
        scale = np.sqrt(2 / np.prod(shape[:-1]))
        return hr.Variable((rng.standard_normal(shape) * scale).astype(np.float32))

    with graph.as_default():
        x, y = hr.placeholder(hr.float32, [32, 8, 8, 1]), hr.placeholder(hr.int32, [32])
        h = hr.nn.max_pool2d(hr.nn.relu(hr.nn.conv2d(x, weights(3, 3, 1, 8))), 2)
        h = hr.nn.relu(hr.reshape(h, [32, 128]) @ weights(128, 32))
        logits = h @ weights(32, 10)
        loss = hr.mean(hr.nn.sparse_softmax_cross_entropy(labels=y, logits=logits))
        train = hr.optim.Momentum(0.002, momentum=0.9).minimize(loss)
    patterns = rng.standard_normal((10, 8, 8, 1))
    found = []
    with hr.Session(graph, config=options) as session:
        step = session.make_callable([loss, train], [x, y])
        for _ in range(200):
            labels = rng.integers(0, 10, 32)
            images = patterns[labels] + rng.standard_normal((32, 8, 8, 1))
            found.append(float(step(images.astype(np.float32), labels.astype(np.int32))[0]))
    return np.array(found)


def test_the_loss_curve_stays_within_two_per_cent_of_float32() -> None:
    exact, mixed = losses(hr.config()), losses(hr.mixed_precision())
    window = np.full(20, 1 / 20)
    smooth, other = (np.convolve(curve, window, "valid") for curve in (exact, mixed))
    assert smooth[-1] < smooth[0] / 2
    assert (exact != mixed).any()
    np.testing.assert_allclose(other, smooth, rtol=0.02)


def test_movement_of_rounded_values_is_narrow_wherever_it_leads() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [4, 4])
        first, second = (hr.permute_dims(x @ x, [1, 0]) for _ in range(2))
        together = hr.concat([first, second], axis=0)
        z = [hr.reshape(hr.tanh(together @ x), [32]), hr.exp(together)]
    found = optimized(z, graph, {x: np.eye(4, dtype=np.float32)}, skip=["reshape*"])
    assert only(found, "ConcatV2").outputs[0].dtype is hr.bfloat16
    assert only(found, "Transpose").outputs[0].dtype is hr.bfloat16
    assert rounds(only(found, "Exp").inputs[0])  # moved, and rounded before
