"""Soon: gradients live shorter, and nothing else changes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.passes.prune import prune
from headrace.passes.recompute import most_alive
from headrace.passes.soon import soon
from headrace.plan import numpy_backend


def trained(optimizer: Any, *, clipped: bool = False) -> hr.Graph:
    """The training step of four layers, as a bounded graph."""
    graph = hr.Graph()
    with graph.as_default():
        h: hr.Tensor = hr.placeholder(hr.float32, [16, 128], name="x")
        x = h
        weights = [hr.Variable(np.ones((128, 128), np.float32), name=f"w{layer}") for layer in range(4)]
        for w in weights:
            h = hr.tanh(h @ w)
        loss = hr.mean(hr.square(h))
        if clipped:
            gradients = hr.gradients(loss, weights)
            gradients, _ = hr.clip_by_global_norm(gradients, 1.0)
            train = optimizer.apply_gradients(list(zip(gradients, weights, strict=True)))
        else:
            train = optimizer.minimize(loss)
    return prune(graph, [loss], [train], [x], [x.shape])


def names(graph: hr.Graph, type_name: str) -> list[str]:
    return [op.name for op in graph.operations if op.type == type_name]


def position(graph: hr.Graph, name: str) -> int:
    return next(op.index for op in graph.operations if op.name == name)


def test_an_update_follows_its_gradient_and_the_last_use_of_the_old_value() -> None:
    graph = trained(hr.optim.SGD(0.1))
    updates = [op for op in graph.operations if op.type == "AssignSubVariableOp"]
    products = [op for op in graph.operations if op.type == "MatMul"]
    assert all(update.index > product.index for update in updates for product in products)
    moved = soon(graph)
    last = max(op.index for op in moved.operations if op.type == "MatMul")
    by_variable = {op.inputs[0].op.name: op.index for op in moved.operations if op.type == "AssignSubVariableOp"}
    assert by_variable["w3"] < by_variable["w2"] < by_variable["w1"] < last
    for op in moved.operations:
        if op.type == "MatMul":
            for reader in op.inputs:
                if reader.op.type == "ReadVariableOp":
                    assert op.index < by_variable[reader.op.inputs[0].op.name]


@pytest.mark.parametrize("optimizer", [hr.optim.SGD(0.1), hr.optim.Momentum(0.1, momentum=0.9), hr.optim.Adam(0.1)])
def test_fewer_bytes_are_alive(optimizer: Any) -> None:
    graph = trained(optimizer)
    assert most_alive(soon(graph)) < 0.8 * most_alive(graph)


def test_where_every_update_needs_all_gradients_it_is_no_worse() -> None:
    graph = trained(hr.optim.Adam(0.1), clipped=True)
    assert most_alive(soon(graph)) <= most_alive(graph)


def test_a_sum_of_many_is_added_up_as_they_come() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [1000], name="x")
        total = hr.add_n([hr.exp(x * float(number)) for number in range(6)], name="total")
    bounded = prune(graph, [total], [], [x], [x.shape])
    moved = soon(bounded)
    assert names(moved, "AddN") == []
    assert names(moved, "AddV2") == ["total/1", "total/2", "total/3", "total/4", "total"]
    assert position(moved, "total/1") < position(moved, names(moved, "Exp")[2])
    assert most_alive(moved) < most_alive(bounded)


def test_a_sum_that_is_a_part_of_another_sum_counts_there_too() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [1000], name="x")
        first, *inner = [hr.exp(x * float(number)) for number in range(4)]
        total = hr.add_n([first, hr.add_n(inner, name="inner"), hr.exp(-x)], name="total")
    moved = soon(prune(graph, [total], [], [x], [x.shape]))
    assert names(moved, "AddV2") == ["inner/1", "inner", "total/1", "total"]
    value = np.linspace(-1, 1, 1000, dtype=np.float32)
    with hr.Session(graph, config=hr.config(backend="numpy")) as session:
        np.testing.assert_allclose(
            session.run(total, feeds={x: value}), sum(np.exp(value * n) for n in (-1, 0, 1, 2, 3)), rtol=1e-5
        )


def test_a_sum_of_what_others_use_too_stays() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [1000], name="x")
        parts = [hr.exp(x * float(number)) for number in range(4)]
        fetches = [hr.add_n(parts), parts[1]]
    bounded = prune(graph, fetches, [], [x], [x.shape])
    assert soon(bounded) is bounded


def test_handles_that_are_not_known_by_name_keep_their_order() -> None:
    graph = trained(hr.optim.SGD(0.1))
    fed = hr.Graph()
    with fed.as_default():
        handle = hr.placeholder(hr.resource, [])
        for number in range(2):
            hr.apply_op("AssignAddVariableOp", handle, hr.constant(float(number)))
    targets = [op for op in fed.operations if op.type == "AssignAddVariableOp"]
    bounded = prune(fed, [], targets, [handle], [hr.Shape([])])
    assert soon(bounded) is bounded
    assert soon(graph) is not graph


def program(seed: int) -> tuple[hr.Graph, list[Any]]:
    """Reads and updates of three variables in some order that nothing but the program fixes."""
    rng = random.Random(seed)
    graph = hr.Graph()
    with graph.as_default():
        variables = [hr.Variable(np.full(4, float(n + 1), np.float32), name=f"v{n}") for n in range(3)]
        values: list[hr.Tensor] = [hr.constant(np.arange(4, dtype=np.float32))]
        effects: list[Any] = []
        for _ in range(rng.randrange(4, 24)):
            choice = rng.random()
            variable = rng.choice(variables)
            if choice < 0.35:
                values.append(variable.read())
            elif choice < 0.6:
                values.append(rng.choice([hr.add, hr.multiply])(rng.choice(values), rng.choice(values)) * 0.5)
            elif choice < 0.7:
                values.append(hr.add_n([rng.choice(values) for _ in range(3)]))
            else:
                change = rng.choice([variable.assign, variable.assign_add, variable.assign_sub])
                effects.append(change(rng.choice(values)))
        return graph, [rng.choice(values), rng.choice(values), *effects]


@pytest.mark.parametrize("seed", range(150))
def test_programs_give_what_they_gave(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def results() -> tuple[list[bytes], dict[str, bytes]]:
        graph, fetches = program(seed)
        with hr.Session(graph, config=hr.config(backend="numpy", passes=[])) as session:
            got = [session.run(fetches)[:2] for _ in range(3)]
            kept = {name: value.tobytes() for name, value in session.read_variables().items()}
        return [np.asarray(value).tobytes() for pair in got for value in pair], kept

    moved = results()
    monkeypatch.setattr(numpy_backend, "soon", lambda graph: graph)
    assert results() == moved


def test_many_updates_that_become_possible_at_once_keep_their_order() -> None:
    graph = hr.Graph()
    with graph.as_default():
        weights = [hr.Variable(np.ones(256, np.float32), name=f"w{number}") for number in range(300)]
        scale = hr.sum(hr.stack([hr.sum(w.value) for w in weights]))
        train = hr.optim.SGD(0.1).apply_gradients([(w.value * scale, w) for w in weights])
    bounded = prune(graph, [], [train], [], [])
    moved = soon(bounded)
    assert sorted(op.name for op in moved.operations) == sorted(op.name for op in bounded.operations)
    assert names(moved, "AssignSubVariableOp") == names(bounded, "AssignSubVariableOp")
