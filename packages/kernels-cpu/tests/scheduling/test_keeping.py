"""Weights that a program reads but never writes: prepared once, again when they change, one copy for all readers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.interfaces import Functions
from headrace.passes import optimize, prune
from headrace.plan import Program
from headrace.types import Array
from headrace_cpu.onednn import onednn
from headrace_cpu.primitives.choice import primitive_call
from headrace_cpu.scheduling.keeping import kept_values
from headrace_cpu.scheduling.lists import ListUse
from headrace_cpu.scheduling.schedule import Schedule
from headrace_cpu.scheduling.scheduler import schedule

CPU = hr.config(backend="cpu", threads=2)
SHAPE = (64, 32)


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def no_functions() -> Functions:
    return None  # type: ignore[return-value]  # no operation here calls one


def program_of(build: Callable[[hr.Tensor, hr.Variable], Any], shape: tuple[int, ...] = (40, 64)) -> Program:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, shape)
        made = build(x, hr.Variable(np.ones(SHAPE, np.float32), name="w"))
    wanted = [item for item in made if isinstance(item, hr.Tensor)]
    others = [item for item in made if not isinstance(item, hr.Tensor)]
    with hr.Session(graph) as session:
        return Program.of(optimize(prune(graph, wanted, others, [x]), CPU), session.resources, no_functions())


def scheduled(program: Program) -> Schedule:
    return schedule(program, primitive_call, lambda line: None, ListUse())


def test_what_is_only_read_is_kept() -> None:
    program = program_of(lambda x, w: [x @ w.value])
    (read,) = [line for line in program.lines if line.op.type == "ReadVariableOp"]
    assert kept_values(program) == {read.outputs[0]}


def test_what_is_written_too_is_not() -> None:
    assert not kept_values(program_of(lambda x, w: [x @ w.value, w.assign_add(hr.ones(SHAPE))]))


def test_a_step_that_writes_another_variable_keeps_the_first_one() -> None:
    def build(x: hr.Tensor, w: hr.Variable) -> list[Any]:
        mean = hr.Variable(np.zeros(32, np.float32), name="mean")
        y = x @ w.value
        return [y, mean.assign(hr.mean(y, axis=0))]

    assert len(kept_values(program_of(build))) == 1


def test_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_KEEPING", "off")
    assert not kept_values(program_of(lambda x, w: [x @ w.value]))


@pytest.mark.skipif(onednn() is None, reason="oneDNN is not installed")
@pytest.mark.parametrize("turned", [False, True])
def test_convolutions_of_one_form_read_one_copy(turned: bool) -> None:
    """Those of a library and those by code of our own have copies of their own, whichever comes first."""

    def build(x: hr.Tensor, w: hr.Variable) -> list[hr.Tensor]:
        filters = hr.Variable(normal(1, 1, 64, 64), name="filters").value
        many = hr.concat([x] * 25, axis=0)
        sides = [hr.reshape(many, (1, 10, 10, 64)), hr.reshape(many, (4, 5, 5, 64)), hr.reshape(x, (1, 2, 2, 64))]
        return [hr.nn.conv2d(side, filters) for side in (sides[::-1] if turned else sides)]

    made = scheduled(program_of(build, (4, 64)))
    assert sum(map(len, made.prepared.values())) == 3
    assert len(made.copies) == 2


def test_matrices_of_products_are_read_where_they_lie() -> None:
    assert not scheduled(program_of(lambda x, w: [x @ w.value])).copies


def model(x: hr.Tensor) -> hr.Tensor:
    """A convolution by a library, one of one tap and a layer by code of our own, a layer of few rows."""
    y = hr.nn.relu(hr.nn.conv2d(x, hr.Variable(normal(3, 3, 4, 32, seed=1), name="a").value))
    y = hr.nn.relu(hr.nn.conv2d(y, hr.Variable(normal(1, 1, 32, 64, seed=2), name="b").value))
    y = hr.reshape(y, [-1, 64]) @ hr.Variable(normal(64, 32, seed=3), name="c").value
    return hr.reshape(y, [2, -1]) @ hr.Variable(normal(6 * 6 * 32, 5, seed=4), name="d").value


WEIGHTS = {"a": (3, 3, 4, 32), "b": (1, 1, 32, 64), "c": (64, 32), "d": (6 * 6 * 32, 5)}


def test_results_follow_what_variables_hold() -> None:
    graph, given = hr.Graph(), normal(2, 6, 6, 4)
    with graph.as_default():
        x = hr.placeholder(hr.float32, given.shape)
        y = model(x)
        assigned = [v.assign(v.value * -0.5 + 0.01) for v in graph.variables]
        change = hr.group([op for op in assigned if op is not None])
    backends = ("cpu", "numpy")
    sessions = [hr.Session(graph, config=hr.config(backend=name)) for name in backends]
    changes: list[Callable[[hr.Session], Any]] = [
        lambda session: None,
        lambda session: session.run(change),
        lambda session: session.write_variables({name: normal(*shape, seed=9) for name, shape in WEIGHTS.items()}),
        lambda session: session.run(change),
        lambda session: session.write_variables({"b": normal(*WEIGHTS["b"], seed=10)}),
    ]
    for changed in changes:
        for session in sessions:
            changed(session)
        for _ in range(2):
            ours, theirs = (session.run(y, {x: given}) for session in sessions)
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4 * float(np.abs(theirs).max()))


def test_evaluating_between_steps_of_training_sees_each_of_them() -> None:
    graph, given = hr.Graph(), normal(40, 64)
    with graph.as_default():
        x = hr.placeholder(hr.float32, given.shape)
        w = hr.Variable(normal(*SHAPE, seed=1), name="w")
        loss = hr.mean(hr.square(x @ w.value))
        train = hr.optim.SGD(0.1).minimize(loss)
    with hr.Session(graph, config=CPU) as session:
        for _ in range(5):
            found = session.run(loss, {x: given})
            (value,) = session.read_variables(["w"]).values()
            assert found == pytest.approx(np.square(given.astype(np.float64) @ value).mean(), rel=1e-5)
            session.run(train, {x: given})


def test_a_step_sees_a_whole_value_while_another_thread_writes() -> None:
    """Each value is one number everywhere, so that a copy of two halves would show."""
    graph, given = hr.Graph(), np.ones((1, 6, 6, 64), np.float32)
    with graph.as_default():
        x = hr.placeholder(hr.float32, given.shape)
        w = hr.Variable(np.ones((1, 1, 64, 32), np.float32), name="w")
        y = hr.nn.conv2d(x, w.value)
        change = w.assign_add(hr.ones((1, 1, 64, 32)))
    with hr.Session(graph, config=CPU) as session, ThreadPoolExecutor(1) as pool:
        step, add = session.make_callable(y, [x]), session.make_callable([change])
        step(given)

        def write() -> None:
            for _ in range(300):
                add()

        writing, last = pool.submit(write), 0.0
        while not writing.done():
            found = step(given)
            assert (found == found.flat[0]).all()
            assert found.flat[0] >= last
            last = float(found.flat[0])
        writing.result()
        assert (step(given) == 64 * 301).all()


def test_all_that_reads_a_variable_in_a_run_reads_one_value() -> None:
    """A convolution by a library, one by code of our own and a loop."""
    graph, given = hr.Graph(), np.ones((1, 6, 6, 64), np.float32)
    with graph.as_default():
        x = hr.placeholder(hr.float32, given.shape)
        w = hr.Variable(np.ones((1, 1, 64, 32), np.float32), name="w")
        value = w.value
        padded = hr.nn.conv2d(x, value, padding=[(0, 0), (1, 1), (1, 1), (0, 0)])
        results = [hr.max(padded), hr.max(hr.nn.conv2d(x, value)), 64.0 * hr.max(value)]
        change = w.assign_add(hr.ones((1, 1, 64, 32)))
    with hr.Session(graph, config=CPU) as session, ThreadPoolExecutor(1) as pool:
        step, add = session.make_callable(results, [x]), session.make_callable([change])
        step(given)
        writing = pool.submit(lambda: [add() for _ in range(300)])
        while not writing.done():
            assert len(set(map(float, step(given)))) == 1
        writing.result()


@pytest.mark.parametrize("changed", ["v", "w"])
def test_a_variable_without_a_value_is_named_with_what_reads_it(changed: str) -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, (1, 6, 6, 64))
        v = hr.Variable(np.ones((1, 1, 64, 32), np.float32), name="v")
        w = hr.Variable(np.ones((1, 1, 32, 32), np.float32), name="w")
        y = hr.nn.conv2d(hr.nn.conv2d(x, v.value), w.value)
        added = v.assign_add(hr.ones((1, 1, 64, 32)))
    with hr.Session(graph, config=CPU) as session:
        read, add = session.make_callable(y, [x]), session.make_callable([added])
        read(normal(1, 6, 6, 64))
        add()
        session.resources.variable("", changed, hr.float32, {"v": v, "w": w}[changed].shape).destroy()
        lacking = f"variable '{changed}' has no value yet(.|\\n)*"
        with pytest.raises(hr.errors.FailedPreconditionError, match=f"{lacking}ReadVariableOp '{changed}/"):
            read(normal(1, 6, 6, 64))
        if changed == "v":
            with pytest.raises(hr.errors.FailedPreconditionError, match=f"{lacking}AssignAddVariableOp"):
                add()
