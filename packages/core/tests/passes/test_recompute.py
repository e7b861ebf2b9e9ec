"""Recompute: the graph that it gives, and that nothing changes but memory."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.passes.prune import prune
from headrace.passes.recompute import recompute

WIDTH, ROWS, LAYERS = 32, 64, 6
BYTES = 4 * WIDTH * ROWS


def network(*, dropout: bool = False) -> tuple[hr.Graph, list[hr.Tensor], hr.Tensor]:
    """A deep network of products and cheap layers, with the gradients of its weights."""
    graph = hr.Graph(seed=1)
    with graph.as_default():
        x = hr.placeholder(hr.float32, [ROWS, WIDTH], name="x")
        h: hr.Tensor = x
        weights = []
        for layer in range(LAYERS):
            w = hr.Variable(hr.random.normal([WIDTH, WIDTH], seed=layer, stddev=0.3), name=f"w{layer}")
            weights.append(w)
            h = hr.tanh(hr.exp(-hr.square(hr.tanh(h @ w))))
            if dropout:
                h = hr.nn.dropout(h, 0.5, seed=3)
        loss = hr.mean(hr.square(h))
        gradients = hr.gradients(loss, weights)
    return graph, [loss, *gradients], x


def bounded(*, dropout: bool = False) -> hr.Graph:
    graph, fetches, x = network(dropout=dropout)
    return prune(graph, fetches, [], [x], [x.shape])


def repeated(graph: hr.Graph) -> list[hr.Operation]:
    return [op for op in graph.operations if op.name.startswith("again_")]


def test_a_graph_that_fits_is_left_alone() -> None:
    graph = bounded()
    assert recompute(graph, 1 << 40) is graph


def test_cheap_operations_are_repeated_before_products() -> None:
    graph = bounded()
    changed = recompute(graph, 20 * BYTES)
    assert {op.type for op in repeated(changed)} <= {"Tanh", "Square", "Neg", "Exp"}
    assert repeated(changed)
    everything = recompute(graph, 1)
    assert len(repeated(everything)) > len(repeated(changed))


def test_what_is_repeated_waits_for_the_backward_pass() -> None:
    changed = recompute(bounded(), 1)
    before = next(op.index for op in changed.operations if op.name.startswith("gradients/"))
    for op in repeated(changed):
        (awaited,) = op.control_inputs
        assert awaited.index > before - 8


def test_what_has_state_is_never_repeated() -> None:
    changed = recompute(bounded(dropout=True), 1)
    assert repeated(changed)
    assert not [op for op in repeated(changed) if op.is_stateful]


def test_an_old_value_of_a_variable_is_not_kept_for_it() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [ROWS, WIDTH])
        w = hr.Variable(np.ones(WIDTH, np.float32), name="w")
        scaled = x * w.value
        first = hr.sum(scaled)
        with hr.control_dependencies([first]):
            update = w.assign_add(hr.ones([WIDTH]))
        assert update is not None
        with hr.control_dependencies([update]):
            large = hr.concat([x, x, x, x], axis=0)
            again = hr.sum(scaled * hr.sum(large))
    pruned = prune(graph, [first, again], [], [x], [x.shape])
    assert recompute(pruned, 1) is pruned


def test_a_view_made_late_is_one_of_what_was_repeated() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [ROWS, WIDTH])
        wave = hr.exp(x)
        first = hr.sum(wave)
        with hr.control_dependencies([first]):
            large = hr.sum(hr.square(hr.concat([x, x, x, x], axis=0)))
        with hr.control_dependencies([large]):
            turned = hr.expand_dims(hr.reshape(wave, [WIDTH, ROWS]), axis=0)
        late = [hr.sum(hr.sin(turned)), hr.sum(hr.cos(turned))]
    pruned = prune(graph, [first, large, *late], [], [x], [x.shape])
    changed = recompute(pruned, 1)
    assert "Exp" in [op.type for op in repeated(changed)]
    (reshape,) = [op for op in changed.operations if op.type == "Reshape"]
    assert reshape.inputs[0].op in repeated(changed)
    for type_ in ("Sin", "Cos"):
        (op,) = [op for op in changed.operations if op.type == type_]
        assert op.inputs[0].op.inputs[0].op is reshape


@pytest.mark.parametrize("share", [0.8, 0.6, 0.4])
@pytest.mark.parametrize("dropout", [False, True])
def test_results_are_the_same_to_the_last_bit(share: float, dropout: bool) -> None:
    values = np.random.default_rng(0).standard_normal((ROWS, WIDTH), np.float32)

    def results(**options: object) -> tuple[list[bytes], hr.Graph]:
        graph, fetches, x = network(dropout=dropout)
        with hr.Session(graph, config=hr.config(backend="numpy", **options)) as session:
            got = session.run(fetches, {x: values})
            return [value.tobytes() for value in got], session.optimized_graph(fetches, {x: values})

    graph, fetches, x = network(dropout=dropout)
    with hr.Session(graph, config=hr.config(backend="numpy")) as session:
        peak = session.explain(fetches, {x: values}).memory.peak_bytes
    plain, _ = results()
    limited, changed = results(memory_limit=int(share * peak), recompute=True)
    assert repeated(changed)
    assert plain == limited
