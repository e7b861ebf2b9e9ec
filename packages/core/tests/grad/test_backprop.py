"""The reverse walk: sums over paths, stops, overrides, sparse gradients and explanations."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.grad import registry


def _run(*tensors):
    return hr.Session(tensors[0].graph).run(list(tensors))


def test_A71_paths_that_join_are_summed() -> None:
    """A diamond, a fan-out of 100 and repeated use."""
    with hr.Graph().as_default():
        x = hr.constant(3.0)
        a, b = x * 2.0, x * x
        diamond = hr.gradients(a * b, [x])[0]
        fan_out = hr.gradients(hr.add_n([x * float(k) for k in range(100)]), [x])[0]
        repeated = hr.gradients(x * x * x, [x])[0]
    assert _run(diamond, fan_out, repeated) == [2 * 3 * 9.0, 4950.0, 27.0]


def test_operations_off_the_paths_get_no_gradient_operation() -> None:
    with hr.Graph().as_default() as graph:
        x, other = hr.constant(3.0, name="x"), hr.constant(4.0, name="other")
        y = x * hr.exp(other, name="off")
        before = graph.version
        hr.gradients(y, [x])
        added = [op.type for op in graph.operations[before:]]
    assert "Exp" not in added
    assert len(added) < 12


def test_several_targets_weights_and_sources() -> None:
    with hr.Graph().as_default():
        x, y = hr.constant([1.0, 2.0]), hr.constant([3.0, 4.0])
        dx, dy = hr.gradients([x * y, x + x], [x, y], grad_ys=[[10.0, 100.0], None])
    results = _run(dx, dy)
    np.testing.assert_allclose(results[0], [32.0, 402.0])
    np.testing.assert_allclose(results[1], [10.0, 200.0])


def test_a_target_may_be_a_source_and_higher_orders_follow() -> None:
    with hr.Graph().as_default():
        x = hr.constant(2.0)
        (same,) = hr.gradients(x, [x])
        y = x * x * x
        (first,) = hr.gradients(y, [x])
        (second,) = hr.gradients(first, [x])
        (third,) = hr.gradients(second, [x])
    assert _run(same, first, second, third) == [1.0, 12.0, 12.0, 6.0]


def test_stopped_tensors_are_constants() -> None:
    with hr.Graph().as_default():
        x = hr.constant(2.0)
        y = x * x
        z = y * x
        (partial,) = hr.gradients(z, [x], stop_gradients=[y])
        (by_function,) = hr.gradients(hr.stop_gradient(y) * x, [x])
    assert _run(partial, by_function) == [4.0, 4.0]


def test_D05_unconnected_is_none_and_the_reason_can_be_asked_for() -> None:
    with hr.Graph().as_default():
        x, other = hr.constant([1.0, 2.0], name="x"), hr.constant(1.0, name="other")
        blocked = hr.astype(hr.argmax(x, axis=0, name="which"), hr.float32)
        assert hr.gradients(blocked, [x]) == [None]
        assert hr.gradients([], [x]) == [None]
        assert "no path of operations connects" in hr.explain_gradient(other, x)
        text = hr.explain_gradient(blocked, x)
        assert "ArgMax 'which' created at test_backprop.py" in text
        assert "differentiably" in hr.explain_gradient(x * 2.0, x)
        assert "differentiably" in hr.explain_gradient(blocked + hr.sum(x), x)


def test_an_operation_without_a_rule_is_an_error_that_names_it() -> None:
    @hr.register_op("TestNoRule", inputs=dict(x="T"), outputs=dict(y="T"), attrs=dict(T=hr.attr.floating))
    def no_rule(op):
        """x."""
        return [op.inputs[0].shape]

    with hr.Graph().as_default():
        x = hr.constant(1.0)
        y = hr.apply_op("TestNoRule", x, name="strange")
        with pytest.raises(hr.errors.GradientError, match="'strange' has no gradient rule(.|\n)*register_gradient"):
            hr.gradients(y, [x])
        assert "no gradient rule is registered" in hr.explain_gradient(y, x)


@pytest.mark.parametrize(
    ("rule", "error", "message"),
    [
        (
            lambda op, g: [g, g],
            "GradientError",
            "gave 2 gradients for 1 inputs(.|\n)*a gradient, or None, for each input",
        ),
        (lambda op, g: [hr.astype(g, hr.float64)], "GradientError", "gave the wrong dtype"),
        (lambda op, g: [hr.stack([g, g])], "GradientError", "gave the wrong shape"),
    ],
)
def test_a_faulty_rule_is_caught_where_it_is(rule, error: str, message: str) -> None:
    with hr.Graph().as_default():
        x = hr.constant([1.0, 2.0])
        with hr.gradient_override({"Identity": rule}):
            y = hr.identity(x)
        with pytest.raises(getattr(hr.errors, error), match=message):
            hr.gradients(y, [x])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: hr.gradients(hr.astype(x, hr.int32), [x]), "cannot be differentiated(.|\n)*int32"),
        (lambda x: hr.gradients(x, [x], grad_ys=[]), "grad_ys does not fit"),
        (lambda x: hr.gradients(x, [x], grad_ys=[[1.0, 2.0, 3.0]]), "another shape"),
    ],
)
def test_impossible_requests_are_refused(call, message: str) -> None:
    with hr.Graph().as_default():
        x = hr.constant([1.0, 2.0])
        with pytest.raises(hr.errors.GradientError, match=message):
            call(x)


def test_A72_scoped_override_replaces_a_rule_by_name_or_function() -> None:
    """Straight-through rounding, and clipping inside the gradient."""

    @hr.register_gradient("TestClippedGradient")
    def clipped(op, grad):
        return [hr.clip(grad, -1.0, 1.0)]

    with hr.Graph().as_default():
        x = hr.constant([0.4, 1.6])
        with hr.gradient_override({"Rint": lambda op, grad: [grad], "Identity": "TestClippedGradient"}):
            y = hr.identity(hr.round(x)) * 5.0
        plain = hr.identity(x) * 5.0
        results = _run(y, *hr.gradients(y, [x]), *hr.gradients(plain, [x]))
    np.testing.assert_allclose(results[0], [0.0, 10.0])
    np.testing.assert_allclose(results[1], [1.0, 1.0])
    np.testing.assert_allclose(results[2], [5.0, 5.0])


def test_registering_a_second_rule_is_an_error() -> None:
    with pytest.raises(hr.errors.AlreadyExistsError, match="Identity has a gradient already"):
        hr.register_gradient("Identity")(lambda op, grad: [grad])


def test_prevent_gradient_is_an_error_when_reached() -> None:
    with hr.Graph().as_default():
        x = hr.constant(1.0)
        y = hr.apply_op("PreventGradient", x, message="not here")
        with pytest.raises(hr.errors.GradientError, match="forbids it(.|\n)*not here"):
            hr.gradients(y, [x])


def test_D27_A82_gradient_of_looked_up_rows_stays_sparse_and_sums_repeated_rows() -> None:
    with hr.Graph().as_default() as graph:
        table = hr.Variable(np.arange(12, dtype=np.float32).reshape(4, 3), name="table")
        rows = hr.apply_op("ResourceGather", table.handle, [2, 0, 2], dtype=hr.float32)
        more = hr.apply_op("ResourceGather", table.handle, [3], dtype=hr.float32)
        (slices,) = hr.gradients(hr.sum(rows * 2.0) + hr.sum(more), [table])
    assert isinstance(slices, hr.IndexedSlices)
    session = hr.Session(graph)
    dense = session.run(slices)
    np.testing.assert_array_equal(dense, [[2] * 3, [0] * 3, [4] * 3, [1] * 3])
    assert session.run(slices.values).shape == (4, 3)


def test_dense_and_sparse_gradients_of_one_variable_add_up() -> None:
    with hr.Graph().as_default() as graph:
        table = hr.Variable(np.ones((3, 2), np.float32), name="table")
        loss = hr.sum(table.read()) + hr.sum(hr.apply_op("ResourceGather", table.handle, [1], dtype=hr.float32))
        (gradient,) = hr.gradients(loss, [table])
    np.testing.assert_array_equal(hr.Session(graph).run(gradient), [[1, 1], [2, 2], [1, 1]])


def test_variables_are_differentiated_by_their_handle_through_every_read() -> None:
    with hr.Graph().as_default() as graph:
        w = hr.Variable(3.0, name="w")
        (gradient,) = hr.gradients(w * w, [w])
    assert hr.Session(graph).run(gradient) == 6.0


def test_a_stopped_source_gets_its_partial_derivative() -> None:
    """As in TensorFlow's documentation of tf.gradients: d(a + b) where b = 2 a."""
    with hr.Graph().as_default() as graph:
        a = hr.constant(0.0)
        b = 2.0 * a
        total = hr.gradients(a + b, [a, b])
        partial = hr.gradients(a + b, [a, b], stop_gradients=[a, b])
    assert hr.Session(graph).run([total, partial]) == [[3.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda g: None, "gave no sequence(.|\n)*1 gradients(.|\n)*None"),
        (lambda g: g, "gave no sequence(.|\n)*hr.Tensor"),
        (lambda g: [1.0], "gave something else than a tensor(.|\n)*gradient of 'x:0'"),
    ],
)
def test_a_rule_that_gives_no_gradients_is_named(result, message: str) -> None:
    with hr.Graph().as_default():
        x = hr.placeholder(hr.float32, [], name="x")
        with hr.gradient_override({"Sin": lambda op, g: result(g)}):
            y = hr.sin(x)
        with pytest.raises(hr.errors.GradientError, match=f"gradient rule of Sin {message}"):
            hr.gradients(y, [x])


def test_an_exception_of_a_users_rule_is_kept_and_explained() -> None:
    with hr.Graph().as_default():
        x = hr.placeholder(hr.float32, [])
        with hr.gradient_override({"Sin": lambda op, g: [g / 0]}), hr.gradient_override({"Cos": lambda op, g: {}[g]}):
            y = hr.cos(x, name="guilty")
        with pytest.raises(KeyError) as caught:
            hr.gradients(y, [x])
    assert any("gradient rule of Cos 'guilty' created at test_backprop.py" in note for note in caught.value.__notes__)


def test_tensors_of_two_graphs_have_no_gradient() -> None:
    with hr.Graph().as_default():
        foreign = hr.constant(1.0, name="foreign")
    with hr.Graph().as_default():
        x = hr.constant(1.0, name="x")
        y = x * 2.0
    for arguments in ({"xs": [x, foreign]}, {"xs": [x], "stop_gradients": [foreign]}):
        with pytest.raises(hr.errors.GraphError, match="'foreign:0' belongs to another graph than 'Mul:0'"):
            hr.gradients(y, **arguments)


def test_the_walk_is_linear_in_depth_and_width() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [2])
        deep = x
        for _ in range(3000):
            deep = hr.negative(deep)
        parts = hr.split(hr.add_n([hr.square(x) for _ in range(500)]), 2)  # the second part is not used
        (dx,) = hr.gradients([deep, parts[0]], [x])
    assert hr.Session(graph).run(dx, feeds={x: [1.0, 2.0]}).tolist() == [1001.0, 1.0]


def test_overriding_by_a_rule_that_is_not_there_is_refused() -> None:
    with (
        hr.Graph().as_default(),
        pytest.raises(hr.errors.NotFoundError, match="no gradient rule 'Sine'(.|\n)*Sin"),
        hr.gradient_override({"Sin": "Sine"}),
    ):
        raise AssertionError("entered")


def test_D01_rules_given_as_functions_end_with_their_graph() -> None:
    """A function that is traced again and again must not add to the registry each time."""
    known = set(registry._registry)

    def rule(op, grad):
        return [grad]

    with hr.gradient_override({"Sin": rule}), hr.Graph().as_default() as graph:  # also from outside of the graph
        x = hr.constant(2.0)
        y = hr.sin(hr.sin(x))
        (dx,) = hr.gradients(y, [x])
    assert hr.Session(graph).run(dx) == 1.0
    assert len(graph.gradient_rules) == 1
    assert set(registry._registry) == known
