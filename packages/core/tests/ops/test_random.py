"""hr.random: streams, seeds and the numbers of TensorFlow."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.kernels import distributions
from headrace.kernels.philox import PhiloxState
from headrace.ops.random import operation_seeds

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "kernels" / "goldens" / "random_numbers.json").read_text(encoding="utf-8")
)
STATEFUL = [case for case in GOLDEN["cases"] if "execution" in case]
FLOAT_OPS = {
    "RandomUniform": distributions.uniform,
    "RandomStandardNormal": distributions.normal,
    "TruncatedNormal": distributions.truncated_normal,
}


def expected(case: dict[str, Any]) -> np.ndarray:
    dtype = np.dtype(case["dtype"])
    return np.array([int(bits, 16) for bits in case["bits"]], f"u{dtype.itemsize}").view(dtype)


def build(case: dict[str, Any]) -> hr.Tensor:
    """The operation of a golden case."""
    seeds = {"seed": case["seed"], "seed2": case["seed2"]}
    shape = np.array(case["shape"], np.int32)
    dtype = np.dtype(case["dtype"])
    if case["op"] == "RandomUniformInt":
        return hr.apply_op("RandomUniformInt", shape, dtype.type(case["low"]), dtype.type(case["high"]), **seeds)
    if case["op"] == "RandomShuffle":
        return hr.apply_op("RandomShuffle", np.arange(case["shape"][0], dtype=np.int32), **seeds)
    if case["op"] == "Multinomial":
        return hr.apply_op("Multinomial", np.array(case["logits"], np.float32), case["shape"][1], **seeds)
    return hr.apply_op(case["op"], shape, dtype=dtype.name, **seeds)


@pytest.mark.parametrize("case", STATEFUL, ids=lambda case: f"{case['op']}-{case['dtype']}-{case['execution']}")
def test_each_execution_gives_what_tensorflow_gives(case: dict[str, Any]) -> None:
    with hr.Graph().as_default() as graph:
        tensor = build(case)
    with hr.Session(graph) as session:
        values = [session.run(tensor) for _ in range(case["execution"] + 1)][-1]
    assert list(values.shape) == case["shape"] == tensor.shape
    assert values.dtype == np.dtype(case["dtype"])
    chosen = values.reshape(-1)[case["places"]]
    if "Normal" in case["op"]:
        bound = {"float16": 0, "bfloat16": 0, "float32": 2 * 2.0**-23, "float64": 3 * 2.0**-52}[case["dtype"]]
        np.testing.assert_allclose(chosen.astype(np.float64), expected(case).astype(np.float64), rtol=bound, atol=0)
    else:
        assert np.array_equal(chosen, expected(case))


def fresh_values(graph: hr.Graph, tensor: hr.Tensor, count: int = 1) -> list[np.ndarray]:
    with hr.Session(graph) as session:
        return [session.run(tensor) for _ in range(count)]


def test_a_session_starts_the_stream_and_executions_continue_it() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.random.uniform([5], seed=3)
    first, second = fresh_values(graph, x, 2)
    assert not np.array_equal(first, second)
    again = fresh_values(graph, x, 2)
    assert np.array_equal([first, second], again)
    state = PhiloxState.from_seeds(87654321, 3)
    assert np.array_equal(second, distributions.uniform(state.skip(5 * 256), (5,), np.float32))


def test_without_seeds_each_session_has_its_own_numbers() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.random.normal([8])
    assert not np.array_equal(fresh_values(graph, x), fresh_values(graph, x))


def test_two_operations_with_one_seed_have_equal_streams_of_their_own() -> None:
    with hr.Graph().as_default() as graph:
        pair = [hr.random.uniform([4], seed=9), hr.random.uniform([4], seed=9)]
    with hr.Session(graph) as session:
        left, right = session.run(pair)
        assert np.array_equal(left, right)
        session.run(pair[0])
        assert np.array_equal(
            session.run(pair[1]),
            distributions.uniform(PhiloxState.from_seeds(87654321, 9).skip(4 * 256), (4,), np.float32),
        )


def test_the_graphs_seed_repeats_operations_without_one_and_tells_them_apart() -> None:
    def values(extra: bool) -> list[np.ndarray]:
        with hr.Graph(seed=5).as_default() as graph:
            first = hr.random.uniform([6])
            if extra:
                hr.constant(1.0) + 2.0
            second = hr.random.uniform([6])
        with hr.Session(graph) as session:
            return session.run([first, second])

    first, second = values(extra=False)
    assert not np.array_equal(first, second)
    assert np.array_equal([first, second], values(extra=True))


@pytest.mark.parametrize(
    ("graph_seed", "op_seeds", "pairs"),
    [
        (None, [None, 5, -1, 2**31 - 1], [(0, 0), (87654321, 5), (87654321, 2**31 - 2), (87654321, 0)]),
        (7, [None, None, 5, None], [(7, 0), (7, 1), (7, 5), (7, 2)]),
        (0, [0, None, 2**40], [(0, 2**31 - 1), (0, 2**31 - 1), (0, 2**40 % (2**31 - 1))]),
        (-3, [np.int64(4)], [(2**31 - 4, 4)]),
    ],
)
def test_seeds_combine_as_in_tensorflow(graph_seed: int | None, op_seeds: list[Any], pairs: list[Any]) -> None:
    graph = hr.Graph(seed=graph_seed)
    assert [operation_seeds(seed, graph) for seed in op_seeds] == pairs


def test_a_seed_must_be_an_integer() -> None:
    with (
        hr.Graph().as_default(),
        pytest.raises(hr.errors.InvalidArgumentError, match=r"a seed must be an integer[\s\S]*1\.5"),
    ):
        hr.random.uniform([2], seed=1.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_mean_deviation_and_bounds_are_applied(dtype: str) -> None:
    with hr.Graph().as_default() as graph:
        tensors = [
            hr.random.normal([3000], mean=5.0, stddev=0.5, dtype=dtype, seed=1),
            hr.random.truncated_normal([3000], -1.0, 0.25, dtype=dtype, seed=1),
            hr.random.uniform([3000], minval=-2.0, maxval=6.0, dtype=dtype, seed=1),
        ]
    with hr.Session(graph) as session:
        normal, truncated, uniform = (value.astype(np.float64) for value in session.run(tensors))
    assert {tensor.dtype.name for tensor in tensors} == {dtype}
    assert abs(normal.mean() - 5) < 0.05
    assert abs(normal.std() - 0.5) < 0.03
    assert np.abs(truncated + 1).max() <= 0.5 + 2e-3
    assert abs(uniform.mean() - 2) < 0.15
    assert -2 <= uniform.min() < -1.9
    assert 5.9 < uniform.max() <= 6


def test_parameters_may_be_tensors_and_have_gradients() -> None:
    with hr.Graph().as_default() as graph:
        mean, stddev = hr.constant(1.0), hr.constant([2.0, 3.0])
        x = hr.random.normal([2], mean, stddev, seed=4)
        gradients = hr.gradients(x, [mean, stddev])
    with hr.Session(graph) as session:
        value, to_mean, to_stddev = session.run([x, *gradients])
    assert to_mean == 2
    np.testing.assert_allclose(value, 1 + np.array([2, 3]) * to_stddev, rtol=1e-6)


def test_default_parameters_add_no_operations() -> None:
    with hr.Graph().as_default() as graph:
        for draw in (hr.random.uniform, hr.random.normal, hr.random.truncated_normal):
            draw([2])
        hr.random.uniform([2], 0, 1)
    assert {op.type for op in graph.operations} == {"Const", "RandomUniform", "RandomStandardNormal", "TruncatedNormal"}


def test_the_result_carries_the_name_that_was_given() -> None:
    with hr.Graph().as_default():
        named = [
            hr.random.uniform([2], name="a"),
            hr.random.uniform([2], -1, 1, name="b"),
            hr.random.normal([2], 1.0, name="c"),
            hr.random.normal([2], stddev=2.0, name="d"),
            hr.random.truncated_normal([2], 1.0, 2.0, name="e"),
            hr.random.stateless_normal([2], [1, 2], name="f"),
            hr.random.stateless_uniform([2], [1, 2], 3, 4, name="g"),
            hr.random.dropout_mask([2], 0.5, name="h"),
            hr.random.randint([2], 0, 9, name="i"),
            hr.random.shuffle([1, 2], name="j"),
        ]
    assert [tensor.name for tensor in named] == [f"{letter}:0" for letter in "abcdefghij"]


@pytest.mark.parametrize("shape", [[], 3, [2, 3], (0, 2), hr.Shape([4]), np.array([2, 2], np.int64)])
def test_every_way_to_give_a_shape(shape: Any) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.random.uniform(shape, seed=1)
    wanted = (shape,) if isinstance(shape, int) else tuple(int(size) for size in shape)
    assert x.shape == wanted
    assert fresh_values(graph, x)[0].shape == wanted


def test_a_fed_shape_decides_at_run_time() -> None:
    with hr.Graph().as_default() as graph:
        shape = hr.placeholder(hr.int32, [2], name="shape")
        x = hr.random.uniform(shape, seed=1)
    assert x.shape == [None, None]
    with hr.Session(graph) as session:
        assert session.run(x, feeds={shape: [2, 5]}).shape == (2, 5)
        with pytest.raises(hr.errors.ShapeError, match="cannot make a tensor with a negative size"):
            session.run(x, feeds={shape: [2, -5]})
        continued = session.run(x, feeds={shape: [1, 4]})
    state = PhiloxState.from_seeds(87654321, 1).skip(10 * 256)
    assert np.array_equal(continued, distributions.uniform(state, (1, 4), np.float32))


def test_a_constant_shape_may_be_fed_another_value() -> None:
    with hr.Graph().as_default() as graph:
        shape = hr.constant([2, 2])
        y = hr.random.uniform(shape, seed=1) + 1.0
    with hr.Session(graph) as session:
        assert session.run(y).shape == (2, 2)
        assert session.run(y, feeds={shape: [3, 1]}).shape == (3, 1)


def test_integers_lie_between_their_bounds() -> None:
    with hr.Graph().as_default() as graph:
        small = hr.random.randint([1000], -2, 3, seed=1)
        large = hr.random.randint([1000], 2**40, 2**41, hr.int64, seed=1)
    with hr.Session(graph) as session:
        low, high = session.run([small, large])
    assert (low.dtype, high.dtype) == (np.int32, np.int64)
    assert np.unique(low).tolist() == [-2, -1, 0, 1, 2]
    assert high.min() >= 2**40
    assert high.max() < 2**41


@pytest.mark.parametrize("function", ["uniform", "normal", "truncated_normal", "stateless_uniform", "stateless_normal"])
def test_floating_draws_refuse_integer_dtypes(function: str) -> None:
    arguments = [[2], [1, 2]] if function.startswith("stateless") else [[2]]
    message = re.escape(f"hr.random.{function} draws floating point numbers") + r"[\s\S]*int32[\s\S]*randint"
    with hr.Graph().as_default(), pytest.raises(hr.errors.DTypeError, match=message):
        getattr(hr.random, function)(*arguments, dtype=hr.int32)


@pytest.mark.parametrize(
    "value",
    [
        np.arange(12).reshape(6, 2),
        np.array([b"a", b"b", b"c"], object),
        np.float32(3),
        np.zeros((0, 3)),
        np.zeros((4, 0)),
    ],
    ids=["matrix", "strings", "scalar", "no rows", "empty rows"],
)
def test_shuffle_reorders_rows_and_changes_nothing_else(value: np.ndarray) -> None:
    with hr.Graph().as_default() as graph:
        shuffled = hr.random.shuffle(value, seed=2)
    (result,) = fresh_values(graph, shuffled)
    assert result.dtype == value.dtype
    assert result.shape == value.shape == shuffled.shape
    assert sorted(result.reshape(-1).tolist()) == sorted(value.reshape(-1).tolist())


def test_categorical_draws_by_the_logits() -> None:
    with hr.Graph().as_default() as graph:
        drawn = hr.random.categorical([[0.0, -np.inf], [-np.inf, 5.0]], 4, hr.int32, seed=1)
    assert drawn.shape == [2, 4]
    assert fresh_values(graph, drawn)[0].tolist() == [[0] * 4, [1] * 4]


def test_dropout_mask_keeps_what_is_not_dropped() -> None:
    with hr.Graph().as_default() as graph:
        mask = hr.random.dropout_mask([4000], 0.25, seed=6)
        all_kept, none_kept = hr.random.dropout_mask([50], 0.0), hr.random.dropout_mask([50], 1.0)
    with hr.Session(graph) as session:
        kept, everything, nothing = session.run([mask, all_kept, none_kept])
    assert kept.dtype == np.bool_
    assert abs(kept.mean() - 0.75) < 0.03
    assert everything.all()
    assert not nothing.any()
    uniform = distributions.uniform(PhiloxState.from_seeds(87654321, 6), (4000,), np.float32)
    assert np.array_equal(kept, uniform >= 0.25)


def test_random_operations_are_neither_folded_nor_merged() -> None:
    with hr.Graph().as_default() as graph:
        difference = hr.random.uniform([3]) - hr.random.uniform([3])
    first, second = fresh_values(graph, difference, 2)
    assert np.all(first != 0)
    assert not np.array_equal(first, second)


def test_concurrent_steps_take_disjoint_stretches() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.random.uniform([2], seed=1, dtype=hr.float64)
    with hr.Session(graph) as session:
        pending = [session.run_async(x) for _ in range(40)]
        values = [step.result() for step in pending]
    one_by_one = [
        distributions.uniform(PhiloxState.from_seeds(87654321, 1).skip(512 * n), (2,), "f8") for n in range(40)
    ]
    assert sorted(map(tuple, values)) == sorted(map(tuple, one_by_one))


def test_stateless_numbers_depend_on_the_seed_alone() -> None:
    with hr.Graph().as_default() as graph:
        seed = hr.placeholder(hr.int64, [2])
        tensors = [
            hr.random.stateless_uniform([3], seed, -1.0, 1.0),
            hr.random.stateless_normal([3], seed, 1.0, 2.0),
            hr.random.stateless_truncated_normal([3], seed),
            hr.random.stateless_randint([3], seed, 0, 1000),
            hr.random.stateless_categorical(np.zeros((1, 1000), np.float32), 3, seed),
        ]
    with hr.Session(graph) as session, hr.Session(graph) as other:
        first = session.run(tensors, feeds={seed: [1, 2]})
        for left, right, changed in zip(
            first,
            other.run(tensors, feeds={seed: [1, 2]}),
            session.run(tensors, feeds={seed: [1, 3]}),
            strict=True,
        ):
            assert np.array_equal(left, right)
            assert not np.array_equal(left, changed)
    assert np.array_equal(first[0], distributions.uniform(PhiloxState.from_stateless_seed((1, 2)), (3,), "f4") * 2 - 1)


def test_functions_have_streams_of_their_own() -> None:
    def noise(count):
        return hr.random.uniform([3], seed=1) * count

    left, right = hr.function(noise), hr.function(noise)
    first = left(1.0)
    assert not np.array_equal(first, left(1.0))
    assert np.array_equal(first, right(1.0))


def test_variables_start_from_the_numbers_of_their_seed() -> None:
    with hr.Graph().as_default() as graph:
        w = hr.Variable(hr.random.normal([784, 10], stddev=0.05, seed=1), name="w")
        value = w * 1.0
    (result,) = fresh_values(graph, value)
    state = PhiloxState.from_seeds(87654321, 1)
    assert np.array_equal(result, distributions.normal(state, (784, 10), np.float32) * np.float32(0.05))


def test_streams_are_read_and_restored() -> None:
    with hr.Graph(seed=3).as_default() as graph:
        tensors = [hr.random.uniform([4]), hr.random.shuffle([1, 2, 3, 4, 5, 6, 7, 8]), hr.random.normal([2])]
    with hr.Session(graph) as session:
        session.run(tensors)
        streams = session.read_streams()
        following = session.run(tensors)
    assert set(streams) == {tensor.op.name for tensor in tensors}
    with hr.Session(graph) as session:
        session.write_streams(streams)
        assert all(np.array_equal(left, right) for left, right in zip(session.run(tensors), following, strict=True))


def test_gamma_and_poisson_numbers_repeat_with_their_seed_and_differ_from_step_to_step():
    with hr.Graph().as_default() as graph:
        draws = [hr.random.gamma([3], [0.5, 8.0], 2.0, seed=1), hr.random.poisson([3], [0.5, 80.0], hr.int32, seed=2)]
    assert [draw.shape for draw in draws] == [[3, 2], [3, 2]]
    first, second = hr.Session(graph), hr.Session(graph)
    once, again = first.run(draws), first.run(draws)
    for left, right, other in zip(once, second.run(draws), again, strict=True):
        np.testing.assert_array_equal(left, right)
        assert (left != other).any()
    assert once[1].dtype == np.int32


def test_the_gradient_of_gamma_numbers_by_their_shape_is_one_on_average():
    """Their mean is their shape."""
    with hr.Graph().as_default() as graph:
        alpha = hr.constant([0.7, 3.0, 40.0], hr.float64)
        x = hr.random.gamma([20000], alpha, seed=4)
        (slope,) = hr.gradients(hr.sum(x), [alpha])
    np.testing.assert_allclose(hr.Session(graph).run(slope) / 20000, 1, atol=0.05)
