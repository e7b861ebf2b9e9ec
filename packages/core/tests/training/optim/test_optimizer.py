"""Optimizer: from a loss to one operation, in graphs and functions, with errors that say what is missing."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import DTypeError, GradientError, InvalidArgumentError, NoGraphError


def one_update(optimizer: hr.optim.Optimizer, value: Any, grad: Any) -> Any:
    graph = hr.Graph()
    with graph.as_default():
        w = hr.Variable(value)
        train = optimizer.apply_gradients([(hr.constant(grad), w)])
    with hr.Session(graph) as session:
        session.run(train)
        return session.run(w)


def test_T01_adam_says_which_epsilon() -> None:
    paper = hr.optim.Adam(0.1, epsilon=1e-3)
    tensorflow = hr.optim.Adam(0.1, epsilon=1e-3, epsilon_hat=True)
    assert one_update(paper, 1.0, 1e-3) == pytest.approx(0.95, abs=1e-7)
    assert one_update(tensorflow, 1.0, 1e-3) == pytest.approx(0.99693466, abs=1e-7)


def test_T03_centred_rmsprop_stays_finite() -> None:
    graph = hr.Graph()
    with graph.as_default():
        w = hr.Variable(np.float32(0.0))
        train = hr.optim.RMSProp(0.01, 0.9, epsilon=1e-10, centered=True).apply_gradients([(hr.constant(1e4), w)])
    with hr.Session(graph) as session:
        step = session.make_callable([train])
        for _ in range(3000):
            step()
            assert all(np.isfinite(value) for value in session.read_variables().values())


def test_T05_sparse_adagrad_adds_repeated_rows_first() -> None:
    graph = hr.Graph()
    with graph.as_default():
        w = hr.Variable([[1.0], [2.0]])
        grad = hr.IndexedSlices(hr.constant([[1.0], [2.0]]), hr.constant([0, 0]), hr.constant([2, 1]))
        train = hr.optim.Adagrad(1.0, 0.1).apply_gradients([(grad, w)])
    with hr.Session(graph) as session:
        session.run(train)
        assert session.run(w).tolist() == [[pytest.approx(1 - 3 / np.sqrt(9.1), abs=1e-7)], [2.0]]


def test_A82_an_embedding_is_trained_by_its_rows() -> None:
    graph = hr.Graph()
    with graph.as_default():
        table = hr.Variable(np.ones((1000, 2), np.float32), name="table")
        ids = hr.placeholder(hr.int32, [None])
        loss = hr.sum(hr.square(hr.nn.embedding_lookup(table, ids)))
        optimizer = hr.optim.Adam(0.1)
        pairs = optimizer.compute_gradients(loss)
        train = optimizer.apply_gradients(pairs)
    assert isinstance(pairs[0][0], hr.IndexedSlices)
    dense = [op.name for op in graph.operations for y in op.outputs if y.shape.rank == 2 and y.shape[0] == 1000]
    assert all(name.startswith("table/") for name in dense)  # initial values and whole reads, nothing in the update
    with hr.Session(graph) as session:
        session.run(train, feeds={ids: [3, 5, 3]})
        value = session.run(table)
    assert sorted(np.unique(np.nonzero(value != 1.0)[0])) == [3, 5]
    assert value[3] == pytest.approx([0.9, 0.9], abs=1e-5)


def test_minimize_updates_what_the_loss_depends_on() -> None:
    graph = hr.Graph()
    with graph.as_default():
        used, unused = hr.Variable(1.0, name="used"), hr.Variable(1.0, name="unused")
        frozen = hr.Variable(1.0, name="frozen", trainable=False)
        train = hr.optim.SGD(1.0).minimize(hr.square(used * frozen))
    with hr.Session(graph) as session:
        session.run(train)
        assert session.run([used, unused, frozen]) == [-1.0, 1.0, 1.0]


def test_gradients_can_be_changed_before_they_are_applied() -> None:
    graph = hr.Graph()
    optimizer = hr.optim.SGD(1.0)
    with graph.as_default():
        w = hr.Variable(3.0)
        pairs = optimizer.compute_gradients(w * w)
        train = optimizer.apply_gradients([(hr.clip_by_value(grad, -1.0, 1.0), v) for grad, v in pairs])
    with hr.Session(graph) as session:
        session.run(train)
        assert session.run(w) == 2.0


def test_pairs_without_a_gradient_are_passed_over() -> None:
    with hr.Graph().as_default():
        a, b = hr.Variable(1.0), hr.Variable(1.0)
        optimizer = hr.optim.Momentum(0.1)
        optimizer.apply_gradients([(hr.constant(1.0), a), (None, b)])
        assert a.handle.graph.variables.count(b) == 1
        assert len(a.handle.graph.variables) == 4  # a, b, the counter and the momentum of a


def test_the_global_step_counts_updates() -> None:
    graph = hr.Graph()
    with graph.as_default():
        w = hr.Variable(1.0)
        global_step = hr.Variable(np.int64(10), name="global_step", trainable=False)
        train = hr.optim.SGD(0.1).minimize(w * w, step=global_step)
    with hr.Session(graph) as session:
        session.run([train])
        session.run([train])
        assert session.run(global_step) == 12


def rates_used(learning_rate: Any) -> list[float]:
    """What three updates by gradient 1 subtract."""
    graph = hr.Graph()
    with graph.as_default():
        rate = learning_rate() if callable(learning_rate) and not hasattr(learning_rate, "schedule") else learning_rate
        w = hr.Variable(0.0)
        train = hr.optim.SGD(getattr(rate, "schedule", rate)).apply_gradients([(hr.constant(1.0), w)])
    values = [0.0]
    with hr.Session(graph) as session:
        for _ in range(3):
            session.run(train)
            values.append(float(session.run(w)))
    return [-step for step in np.diff(values)]


def test_a_learning_rate_may_be_a_number_a_tensor_a_variable_or_a_schedule() -> None:
    assert rates_used(0.5) == [0.5, 0.5, 0.5]
    assert rates_used(lambda: hr.constant(0.5)) == [0.5, 0.5, 0.5]
    assert rates_used(lambda: hr.constant(0.5, hr.float64)) == [0.5, 0.5, 0.5]
    assert rates_used(lambda: hr.Variable(0.5, trainable=False)) == [0.5, 0.5, 0.5]
    assert rates_used(lambda: lambda step: 1.0 / hr.astype(step + 1, hr.float64)) == pytest.approx([1, 1 / 2, 1 / 3])


def test_slots_are_made_once_for_a_variable_of_the_process() -> None:
    w = hr.Variable(np.ones(2, np.float32), name="once")
    optimizer = hr.optim.Adam(0.1)

    @hr.function
    def step(x: Any) -> Any:
        loss = hr.sum(w * hr.sum(x))
        optimizer.minimize(loss, [w])
        return loss

    step(np.ones(3, np.float32))
    slots = optimizer.slots_of(w)
    step(np.ones((3, 3), np.float32))  # another rank, so another trace
    assert "trace 2" in step.explain_traces()
    assert optimizer.slots_of(w) is slots
    first = 1 - 0.9
    assert slots["Mean"].numpy() == pytest.approx([0.9 * first * 3 + first * 9] * 2, rel=1e-6)


def test_slots_live_where_their_variable_lives() -> None:
    w = hr.Variable(np.ones(2, np.float32), name="shared")
    optimizer = hr.optim.Momentum(1.0)
    for expected in ([1.0, 1.0], [2.0, 2.0]):  # the second graph finds the momentum of the first
        graph = hr.Graph()
        with graph.as_default():
            train = optimizer.apply_gradients([(hr.constant([1.0, 1.0]), w)])
        with hr.Session(graph) as session:
            session.run(train)
        if expected == [1.0, 1.0]:
            assert w.numpy().tolist() == [0.0, 0.0]
    assert w.numpy() == pytest.approx([-1.9, -1.9])


def test_two_optimisers_of_one_variable_have_their_own_slots() -> None:
    with hr.Graph().as_default():
        w = hr.Variable([1.0], name="w")
        first, second = hr.optim.Momentum(0.1), hr.optim.Momentum(0.1)
        first.minimize(hr.sum(w * w))
        second.minimize(hr.sum(w * w))
        assert [o.slots_of(w)["Momentum"].name for o in (first, second)] == ["w/Momentum", "w/Momentum_1"]


class SignDescent(hr.optim.Optimizer):
    """An optimiser as a user would write it: momentum of the sign, for A03."""

    def slots(self, variable: hr.Variable) -> Mapping[str, Any]:
        return {"Mean": 0.0, "Count": np.zeros([], np.float32)}

    def update(self, variable: Any, grad: hr.Tensor, slots: Mapping[str, Any], step: hr.Tensor) -> Iterable[Any]:
        mean = 0.5 * slots["Mean"].read() + 0.5 * grad
        return [
            slots["Mean"].assign(mean),
            slots["Count"].assign_add(1.0),
            variable.assign_sub(self.rate(step, variable.dtype) * hr.sign(mean)),
        ]


def test_A03_an_optimiser_of_the_user_works_dense_and_sparse() -> None:
    graph = hr.Graph()
    optimizer = SignDescent(0.25)
    with graph.as_default():
        table = hr.Variable([[1.0], [1.0], [1.0]], name="table")
        rows = hr.IndexedSlices(hr.constant([[1.0], [-5.0]]), hr.constant([2, 0]), hr.constant([3, 1]))
        dense = optimizer.apply_gradients([(hr.constant([[1.0], [0.0], [-1.0]]), table)])
        sparse = optimizer.apply_gradients([(rows, table)])
    with hr.Session(graph) as session:
        session.run(dense)
        assert session.run(table).tolist() == [[0.75], [1.0], [1.25]]
        session.run(sparse)
        assert session.run(table).tolist() == [[1.0], [1.0], [1.0]]
        assert session.run(optimizer.slots_of(table)["Count"]) == 2.0


def test_A03_two_optimisers_play_against_each_other() -> None:
    """A GAN in one dimension: the generator learns to shift its noise to where the data are."""
    graph = hr.Graph(seed=3)
    with graph.as_default():
        real = hr.random.normal([64, 1], 4.0, 0.5)
        noise = hr.random.normal([64, 1], 0.0, 0.5)
        generator = hr.layers.Dense(1, kernel_initializer="ones", name="generator")
        critic = hr.layers.Sequential([hr.layers.Dense(16, activation="tanh"), hr.layers.Dense(1)], name="critic")
        made = generator(noise)
        on_real, on_made = critic(real), critic(made)
        critic_loss = hr.mean(hr.log1p(hr.exp(-on_real))) + hr.mean(hr.log1p(hr.exp(on_made)))
        generator_loss = hr.mean(hr.log1p(hr.exp(-on_made)))
        train_critic = hr.optim.Adam(0.02, 0.5).minimize(critic_loss, critic.parameters())
        train_generator = hr.optim.Adam(0.02, 0.5).minimize(generator_loss, generator.parameters())
        mean = hr.mean(made)
    with hr.Session(graph) as session:
        for _ in range(300):
            session.run(train_critic)
            session.run(train_generator)
        assert abs(session.run(mean) - 4.0) < 1.0


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def grown(steps: int) -> tuple[int, int]:
    """Operations and bytes added by steps of a small classifier, after a warm-up."""
    graph = hr.Graph(seed=1)
    with graph.as_default():
        x, y = hr.placeholder(hr.float32, [None, 20]), hr.placeholder(hr.float32, [None, 5])
        w = hr.Variable(hr.random.normal([20, 5]), name="w")
        loss = hr.mean(hr.square(x @ w - y))
        train = hr.optim.Adam(hr.optim.schedules.exponential(0.01, 0.5, 100)).minimize(loss)
    numbers = np.random.default_rng(0)
    inputs, labels = numbers.normal(size=(32, 20)).astype(np.float32), numbers.normal(size=(32, 5)).astype(np.float32)
    with hr.Session(graph) as session:
        step = session.make_callable([loss, train], [x, y])
        for _ in range(300):
            step(inputs, labels)
            session.run([loss, train], feeds={x: inputs, y: labels})
        gc.collect()
        operations, memory = len(graph.operations), resident_bytes()
        for _ in range(steps // 2):
            step(inputs, labels)
            session.run([loss, train], feeds={x: inputs, y: labels})
        gc.collect()
        return len(graph.operations) - operations, resident_bytes() - memory


def test_D01_ten_thousand_steps_add_no_operation_and_no_memory() -> None:
    operations, memory = grown(10_000)
    assert operations == 0
    assert memory < 1_000_000


def test_a_learning_rate_must_not_be_negative() -> None:
    with pytest.raises(InvalidArgumentError, match=r"the learning rate of SGD cannot be used\n.*\n.*got: +-1"):
        hr.optim.SGD(-1)


def test_minimize_without_variables_says_so() -> None:
    with hr.Graph().as_default():
        loss = hr.constant(1.0)
        with pytest.raises(InvalidArgumentError, match="there is nothing to optimise\n.*trainable hr.Variable"):
            hr.optim.SGD(0.1).minimize(loss)


def test_minimize_of_a_loss_that_depends_on_nothing_says_why() -> None:
    with hr.Graph().as_default():
        w = hr.Variable(1.0, name="w")
        with pytest.raises(InvalidArgumentError, match="there is nothing to optimise\n(.*\n)*.*'w:0'"):
            hr.optim.SGD(0.1).minimize(hr.constant(1.0))
        with pytest.raises(GradientError, match="variable 'w' gets no gradient\n(.|\n)*does not depend"):
            hr.optim.SGD(0.1).minimize(hr.constant(1.0), [w])


def test_a_variable_cannot_be_updated_twice() -> None:
    with hr.Graph().as_default():
        w = hr.Variable(1.0, name="w")
        with pytest.raises(InvalidArgumentError, match="variable 'w' is to be updated twice"):
            hr.optim.SGD(0.1).apply_gradients([(hr.constant(1.0), w), (hr.constant(1.0), w)])


def test_applying_no_gradient_is_an_error() -> None:
    with hr.Graph().as_default():
        w = hr.Variable(1.0)
        with pytest.raises(InvalidArgumentError, match="no variable has a gradient"):
            hr.optim.SGD(0.1).apply_gradients([(None, w)])


def test_slots_need_a_known_shape_and_a_floating_dtype() -> None:
    with hr.Graph().as_default():
        w = hr.Variable(hr.placeholder(hr.float32, [None]), name="w")
        with pytest.raises(
            InvalidArgumentError, match="cannot keep state for variable 'w'\n.*fully known static shape"
        ):
            hr.optim.Momentum(0.1).apply_gradients([(hr.constant([1.0]), w)])
        n = hr.Variable([1, 2], name="n")
        with pytest.raises(DTypeError, match="variable 'n' cannot be optimised\n.*floating"):
            hr.optim.Momentum(0.1).apply_gradients([(hr.constant([1, 2]), n)])


def test_minimize_outside_of_a_graph_says_so() -> None:
    graph = hr.Graph()
    with graph.as_default():
        w = hr.Variable(1.0)
        loss = w * w
    with pytest.raises(NoGraphError, match="no graph is being built"):
        hr.optim.SGD(0.1).minimize(loss)


def test_an_optimiser_without_a_rule_says_so() -> None:
    with hr.Graph().as_default():
        w = hr.Variable(1.0)
        with pytest.raises(NotImplementedError, match="Optimizer has no update rule"):
            hr.optim.Optimizer(0.1).apply_gradients([(hr.constant(1.0), w)])


@pytest.mark.parametrize("rate", ["0.1", None])
def test_a_learning_rate_must_be_a_number(rate: object) -> None:
    with pytest.raises(InvalidArgumentError, match="the learning rate of SGD cannot be used(.|\n)*try: +0.01, say"):
        hr.optim.SGD(rate)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_rule_that_returns_no_list_is_named(single: bool, sparse: bool) -> None:
    class Careless(hr.optim.Optimizer):
        def update(self, variable: Any, grad: Any, slots: Any, step: Any) -> Any:
            assignment = variable.assign_sub(grad)
            return assignment if single else None

    with hr.Graph().as_default():
        w = hr.Variable([[1.0], [2.0]])
        loss = hr.sum(hr.gather(w, [0]) if sparse else w)
        with pytest.raises(
            InvalidArgumentError, match=r"Careless.update returned no assignments(.|\n)*try: +return \["
        ):
            Careless(0.1).minimize(loss)
