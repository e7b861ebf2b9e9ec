"""Graph passes: each must give the expected graph and the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import headrace as hr
from headrace.config import Config
from headrace.kernels.context import NO_FUNCTIONS
from headrace.passes.arithmetic import arithmetic
from headrace.passes.cse import cse
from headrace.passes.fold import fold
from headrace.passes.pipeline import optimize
from headrace.passes.prune import prune
from headrace.plan.numpy_backend import NumpyBackend
from headrace.runtime.resources import ResourceManager

Build = Callable[[hr.Tensor], "hr.Tensor | Sequence[hr.Tensor]"]


def _bounded(build: Build, shape: Sequence[int] = (3,), dtype: hr.DType = hr.float32) -> hr.Graph:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(dtype, shape, name="x")
        result = build(x)
    fetches = [result] if isinstance(result, hr.Tensor) else list(result)
    return prune(graph, fetches, (), [x])


def _types(graph: hr.Graph) -> list[str]:
    return sorted(op.type for op in graph.operations if op.type not in ("_Arg", "_Retval", "Const"))


def _run(graph: hr.Graph, value: np.ndarray) -> list[np.ndarray]:
    return list(NumpyBackend().compile(graph, ResourceManager(), NO_FUNCTIONS)([value]))


def _same_numbers(before: hr.Graph, after: hr.Graph, value: np.ndarray) -> None:
    for a, b in zip(_run(before, value), _run(after, value), strict=True):
        assert a.tobytes() == b.tobytes()


SPECIAL = np.array([-0.0, np.nan, np.inf], np.float32)


def test_A41_prune_keeps_what_fetches_need() -> None:
    """In a graph of 1,000 operations a fetch that needs 5 runs 5."""
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [2])
        y = x * 2.0 + 1.0
        z = y
        for _ in range(1000):
            z = z * 1.5
    bounded = prune(graph, [y], (), [x])
    assert _types(bounded) == ["AddV2", "Mul"]
    assert len(bounded.operations) == 6


def test_A40_feeding_an_inner_tensor_cuts_its_ancestors_off() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [2], name="never_fed")
        inner = hr.exp(x)
        y = inner + 1.0
    assert _types(prune(graph, [y], (), [inner])) == ["AddV2"]
    np.testing.assert_array_equal(hr.Session(graph).run(y, feeds={inner: [1.0, 2.0]}), [2.0, 3.0])


def test_control_edges_to_fed_operations_are_dropped() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [])
        with hr.control_dependencies([x]):
            y = hr.constant(1.0)
    assert hr.Session(graph).run([y, x], feeds={x: 5.0}) == [1.0, 5.0]


def test_D20_missing_placeholder_is_named_with_its_line_and_who_needs_it() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [None, 3], name="images")
        y = hr.multiply(x, 2.0, name="scaled")
    with pytest.raises(
        hr.errors.FeedError,
        match=r"'images' needs a value(.|\n)*test_passes.py(.|\n)*float32\[\?, 3\](.|\n)*'scaled:0'",
    ):
        prune(graph, [y], (), [])


def test_concrete_feed_shapes_reach_every_shape() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [None, 3])
        y = hr.reshape(x, [-1])
    bounded = prune(graph, [y], (), [x], [hr.Shape([4, 3])])
    assert [op.inputs[0].shape for op in bounded.operations if op.type == "_Retval"] == [hr.Shape([12])]


def test_fold_computes_constants_once_with_the_kernels_that_would_run() -> None:
    before = _bounded(lambda x: x * hr.exp(hr.constant([1.0, 2.0, 3.0]) * 2.0))
    after = fold(before)
    assert _types(after) == ["Mul"]
    _same_numbers(before, after, SPECIAL)


def test_fold_turns_static_shapes_into_constants() -> None:
    before = _bounded(lambda x: [hr.shape(x) * 2, hr.size(x), hr.rank(x), hr.ones_like(x), -hr.zeros_like(x)], [4, 5])
    after = fold(before)
    assert _types(after) == []
    _same_numbers(before, after, np.zeros((4, 5), np.float32))


def test_fold_does_not_unfold_a_constant_that_repeats_one_element() -> None:
    """A few bytes of a graph file may declare 2**40 elements."""
    graph = hr.Graph()
    one = np.ones((), np.float32)
    one.flags.writeable = False
    huge = np.broadcast_to(one, (2**40,))
    y = graph.create_op(
        "Neg", [graph.create_op("Const", (), {"value": huge, "dtype": hr.float32}).outputs[0]], {"T": hr.float32}
    )
    assert _types(fold(prune(graph, [y.outputs[0]], (), []))) == ["Neg"]


def test_fold_leaves_what_is_large_stateful_controlled_or_wrong() -> None:
    with_control: list[hr.Tensor] = []

    def build(x: hr.Tensor) -> list[hr.Tensor]:
        with hr.control_dependencies([hr.tanh(x)]):
            with_control.append(hr.exp(hr.constant(1.0), name="controlled"))
        return [
            hr.zeros([1_000_000]),
            hr.random.uniform([2], seed=1),
            with_control[0],
            hr.floor_divide(hr.constant([1]), hr.constant([0])),
        ]

    kept = _types(fold(_bounded(build)))
    assert {"RandomUniform", "Exp", "FloorDiv", "Fill"} <= set(kept)


def test_error_of_a_constant_comes_from_the_step_that_needs_it() -> None:
    """O07."""
    graph = hr.Graph()
    with graph.as_default():
        fine = hr.constant(1.0) + 1.0
        wrong = hr.floor_divide(hr.constant([2, 4]), hr.constant([1, 0]))
    session = hr.Session(graph)
    assert session.run(fine) == 2.0
    with pytest.raises(hr.errors.InvalidArgumentError, match="division by zero(.|\n)*FloorDiv"):
        session.run(wrong)


def test_cse_merges_equal_pure_operations_and_exchanged_operands() -> None:
    before = _bounded(lambda x: [hr.exp(x) + hr.exp(x), x * 2.0, 2.0 * x])
    after = cse(before)
    assert _types(after) == ["AddV2", "Exp", "Mul"]
    _same_numbers(before, after, SPECIAL)


def test_cse_keeps_random_numbers_other_attributes_and_signed_zeros_apart() -> None:
    def build(x: hr.Tensor) -> list[hr.Tensor]:
        a, b = hr.random.uniform([3], seed=1), hr.random.uniform([3], seed=1)
        return [a, b, hr.sum(x, keepdims=True), hr.sum(x), x * 0.0, x * -0.0]

    after = cse(_bounded(build))
    assert _types(after).count("RandomUniform") == 2
    assert _types(after).count("Sum") == 2
    assert _types(after).count("Mul") == 2


@pytest.mark.parametrize(
    ("build", "kept"),
    [
        (lambda x: x * 1.0, []),
        (lambda x: 1.0 * x, []),
        (lambda x: x / 1.0, []),
        (lambda x: x - 0.0, []),
        (lambda x: x + -0.0, []),
        (lambda x: hr.negative(-x), []),
        (lambda x: hr.identity(hr.stop_gradient(x)), []),
        (lambda x: hr.reshape(x, [3]), []),
        (lambda x: hr.astype(x, hr.float32), []),
        (lambda x: hr.add_n([x]), []),
        (lambda x: hr.tile(x, [1]), []),
        (lambda x: hr.sum(x, axis=[]), []),
        (lambda x: hr.broadcast_to(x, [3]), []),
        (lambda x: hr.permute_dims(x, [0]), []),
        (lambda x: x + 0.0, ["AddV2"]),  # -0.0 + 0.0 is 0.0
        (lambda x: x * 0.0, ["Mul"]),  # NaN and infinities (C03)
        (lambda x: x - x, ["Sub"]),  # the same
        (lambda x: x / x, ["RealDiv"]),  # the same
        (lambda x: 1.0 / (1.0 / x), ["RealDiv", "RealDiv"]),  # rounding (C05)
        (lambda x: x * np.ones((2, 1), np.float32), ["Mul"]),  # the shape grows
        (lambda x: hr.subtract(x, -0.0), ["Sub"]),  # -0.0 - -0.0 is 0.0
    ],
)
def test_arithmetic_removes_exactly_what_changes_nothing(build: Build, kept: list[str]) -> None:
    before = _bounded(build)
    after = arithmetic(before)
    assert _types(after) == kept
    for value in (SPECIAL, np.array([-3.5, 0.0, 1e-40], np.float32)):
        _same_numbers(before, after, value)


def test_arithmetic_leaves_complex_multiplication_by_one() -> None:
    """(inf + 0j) * (1 + 0j) has a NaN part."""
    assert _types(arithmetic(_bounded(lambda x: x * 1.0, [2], hr.complex64))) == ["Mul"]


def test_transposes_that_undo_each_other_disappear() -> None:
    build = lambda x: hr.permute_dims(hr.permute_dims(x, [2, 0, 1]), [1, 2, 0])  # noqa: E731
    before = _bounded(build, [2, 3, 4])
    after = arithmetic(before)
    assert _types(after) == []
    _same_numbers(before, after, np.arange(24, dtype=np.float32).reshape(2, 3, 4))


def test_passes_are_named_ordered_and_may_be_the_users() -> None:
    calls: list[int] = []

    def count(graph: hr.Graph) -> hr.Graph:
        calls.append(len(graph.operations))
        return graph

    graph = hr.Graph()
    with graph.as_default():
        y = hr.constant(1.0) + 2.0
    session = hr.Session(graph, config=hr.config(passes=[count, "fold", count]))
    assert session.run(y) == 3.0
    assert calls == [4, 2]
    with pytest.raises(hr.errors.NotFoundError, match="no graph pass 'foldd'(.|\n)*fold"):
        optimize(graph, Config(passes=("foldd",)))


def test_a_pass_that_breaks_the_graph_is_named() -> None:
    def broken(graph: hr.Graph) -> hr.Graph:
        graph.operations[-1].inputs = ()
        return graph

    with pytest.raises(hr.errors.GraphError, match="after broken breaks a rule"):
        optimize(_bounded(lambda x: x * 2.0), Config(passes=(broken,), verify=True))


def test_results_are_equal_bit_for_bit_with_every_subset_of_passes() -> None:
    """A111."""

    def build(x: hr.Tensor) -> list[hr.Tensor]:
        y = hr.tanh(x * 1.0 + hr.exp(hr.constant(0.5))) * hr.astype(hr.shape(x)[0], hr.float32)
        (g,) = hr.gradients(hr.sum(y * y), [x])
        return [y, g]

    bounded = _bounded(build, [5])
    value = np.linspace(-2, 2, 5, dtype=np.float32)
    reference = _run(bounded, value)
    for passes in (
        (),
        ("fold",),
        ("arithmetic",),
        ("cse",),
        ("cse", "arithmetic", "fold"),
        ("raising", "fold", "arithmetic", "cse"),
    ):
        for a, b in zip(reference, _run(optimize(bounded, Config(passes=passes, verify=True)), value), strict=True):
            assert a.tobytes() == b.tobytes()


def test_a_pair_that_undoes_itself_stays_where_the_inner_one_must_wait() -> None:
    """The operation it waits for may fail, or change what is read later: dropping the pair would drop the order."""
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [2])
        m = hr.placeholder(hr.float32, [2, 3])
        with hr.control_dependencies([hr.check_numerics(x, "not a number")]):
            inner = [-x, hr.permute_dims(m)]
        outer = [-inner[0], hr.permute_dims(inner[1])]
    for fetch in outer:
        with pytest.raises(hr.errors.InvalidArgumentError, match="not a number"):
            hr.Session(graph).run(fetch, feeds={x: [np.nan, 1.0], m: np.ones((2, 3))})


def test_feeding_what_a_shape_was_inferred_from_forgets_the_inference() -> None:
    """The plan would reserve memory for the old shape, and a step would fill it with repeated rows."""
    with hr.Graph().as_default() as graph:
        rows = hr.constant(1)
        x = hr.placeholder(hr.float32, [6])
        y = hr.reshape(x, hr.stack([rows, -1])) * 2.0 + 1.0
        z = hr.exp(y)
    session = hr.Session(graph)
    assert y.shape == [1, 6]
    value = np.arange(6.0)
    assert session.run(z, feeds={x: value}).shape == (1, 6)
    np.testing.assert_allclose(
        session.run(z, feeds={x: value, rows: 3}), np.exp(value.reshape(3, 2) * 2 + 1), rtol=1e-6
    )


def test_arguments_and_results_of_functions_in_a_graph_are_fed_and_fetched_like_others() -> None:
    """Graph files of function bodies have them; their numbers must not be taken for those of the step."""
    graph = hr.Graph()
    attrs = {"T": hr.float32, "index": 0}
    argument = graph.create_op("_Arg", (), {**attrs, "shape": [2]}, name="argument").outputs[0]
    with graph.as_default():
        x = hr.placeholder(hr.float32, [2])
        y = argument - x
    result = graph.create_op("_Retval", [y], attrs, name="result")
    session = hr.Session(graph)
    assert session.run(y, feeds={x: [1, 2], argument: [5, 5]}).tolist() == [4, 3]
    with pytest.raises(hr.errors.FeedError, match="'argument' needs a value"):
        session.run(y, feeds={x: [1, 2]})
    with pytest.raises(hr.errors.GraphError, match=r"'result' marks a result(.|\n)*fetch what it reads, 'Sub:0'"):
        session.run(result, feeds={x: [1, 2], argument: [5, 5]})


def test_a_pass_that_gives_no_graph_is_named() -> None:
    with hr.Graph().as_default() as graph:
        y = hr.constant(1.0) + 1.0

    def forgetful(graph: hr.Graph) -> None:
        return None

    with pytest.raises(hr.errors.GraphError, match="pass 'forgetful' gave no graph(.|\n)*None"):
        hr.Session(graph, config=hr.config(passes=[forgetful])).run(y)


def test_an_exception_while_folding_comes_from_the_step_that_needs_the_value() -> None:
    @hr.register_op("TestFoldRaises", inputs=dict(x="T"), outputs=dict(y="T"))
    def shape(op):
        """Raises."""
        return [op.inputs[0].shape]

    hr.register_kernel("TestFoldRaises")(lambda op, x: {}["mine"])
    with hr.Graph().as_default() as graph:
        y = hr.apply_op("TestFoldRaises", hr.constant(1.0), name="guilty")
    with pytest.raises(KeyError, match="mine") as caught:
        hr.Session(graph).run(y)
    assert any("'guilty' created at test_passes.py" in note for note in caught.value.__notes__)


@pytest.mark.parametrize(
    ("op_type", "inputs", "message"),
    [
        ("Diag", [np.float32(3)], "a scalar has no diagonal"),
        ("MatrixSolve", [np.stack([np.eye(2)] * 2), np.ones((1, 2, 1))], "the right side does not fit the matrix"),
    ],
)
def test_fold_refuses_shapes_that_show_only_with_the_constants(
    op_type: str, inputs: list[np.ndarray], message: str
) -> None:
    """NumPy has an answer for these, the operation has none."""
    with hr.Graph().as_default() as graph:
        *first, last = inputs
        sizes = hr.boolean_mask([*np.shape(last), 7], [True] * np.ndim(last) + [False])  # as many as the mask says
        hidden = hr.reshape(last, sizes)
        assert hidden.shape.rank is None
        y = hr.apply_op(op_type, *first, hidden)
    with pytest.raises(hr.errors.ShapeError, match=message):
        hr.Session(graph).run(y)


def test_what_a_pass_leaves_out_leaves_no_gaps() -> None:
    """Folding drops the constants it has used; what is left is numbered without gaps."""
    folded = fold(_bounded(lambda x: x * (hr.constant(2.0) + 3.0)))
    assert [op.index for op in folded.operations] == list(range(len(folded.operations)))
    assert _types(folded) == ["Mul"]
    assert sum(op.type == "Const" for op in folded.operations) == 1
    with pytest.raises(hr.errors.NotFoundError, match="Const"):
        folded.operation("Const")


def test_arithmetic_that_finds_nothing_gives_the_graph_itself() -> None:
    """A copy would cost as much as the search."""
    graph = _bounded(lambda x: x * 2.0)
    assert arithmetic(graph) is graph
    assert arithmetic(_bounded(lambda x: x * 1.0)) is not graph
