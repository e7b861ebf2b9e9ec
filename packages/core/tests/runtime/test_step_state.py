"""The state machine of a step, without threads: random graphs with branches and loops, run in random orders.

Each random program is written twice: as a graph of primitives, and as plain Python that computes what it means. After
every event the state must be consistent.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.interfaces import DEAD
from headrace.passes.prune import prune
from headrace.plan.segments import cut
from headrace.plan.step_graph import Kind, StepGraph
from headrace.runtime.step_state import Activation, StepState
from headrace.testing.control_programs import Arithmetic, Block, Loop, build, compute, random_program


@hr.register_op("TestPass", inputs={"x": "T"}, outputs={"y": "T"}, blocks=True)
def _pass_shape(op: Any) -> Any:
    """x; to the executor, an operation that may wait."""
    return [op.inputs[0].shape]


def run_through(
    graph: StepGraph, arguments: Sequence[Any], order: random.Random, compute: Callable[[Activation], Sequence[Any]]
) -> StepState:
    """Run a step graph with no thread: some activation that is out ends, until none is."""
    state = StepState(graph)
    out = state.start(arguments)
    state.validate()
    while out:
        activation = out.pop(order.randrange(len(out)))
        out += state.finish(activation, compute(activation))
        state.validate()
    assert state.is_done
    assert state.running == 0
    return state


def interpret(activation: Activation) -> Sequence[Any]:
    """Compute a segment of AddV2, Mul, FloorMod, Less and Identity, operation by operation."""
    graph = activation.node.graph
    assert graph is not None
    values: dict[hr.Tensor, Any] = {}
    results: dict[int, Any] = {}
    for op in graph.operations:
        inputs = [values[tensor] for tensor in op.inputs]
        if op.type == "_Arg":
            values[op.outputs[0]] = activation.inputs[op.attrs["index"]]
        elif op.type == "_Retval":
            results[op.attrs["index"]] = inputs[0]
        elif op.type != "NoOp":
            values[op.outputs[0]] = _OPERATIONS[op.type](op, *inputs)
    return [results[index] for index in range(len(results))]


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "Const": lambda op: int(op.attrs["value"]),
    "AddV2": lambda op, x, y: x + y,
    "Mul": lambda op, x, y: x * y,
    "FloorMod": lambda op, x, y: x % y,
    "Less": lambda op, x, y: x < y,
    "Identity": lambda op, x: x,
    "TestPass": lambda op, x: x,
}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(0, 100), st.integers(0, 100), st.randoms(use_true_random=False))
def test_a61_a63_random_programs_compute_what_they_mean_in_any_order(
    seed: int, first: int, second: int, order: random.Random
) -> None:
    block = random_program(random.Random(seed))
    with hr.Graph().as_default() as graph:
        x, y = hr.placeholder(hr.int32, [], name="x"), hr.placeholder(hr.int32, [], name="y")
        waits = random.Random(seed)
        result = build(
            block,
            [x, y],
            structured=False,
            wrap=lambda tensor: hr.apply_op("TestPass", tensor) if waits.random() < 0.3 else tensor,
        )
    ran: Counter[str] = Counter()

    def run(activation: Activation) -> Sequence[Any]:
        ran.update(op.name.partition("_")[0] for op in activation.node.operations if op.name.startswith("s"))
        return interpret(activation)

    bounded = prune(graph, [result], [], [x, y])
    state = run_through(cut(bounded), [first, second], order, run)
    expected: Counter[str] = Counter()
    assert state.results == [compute(block, [first, second], expected)]
    kept = {op.name.partition("_")[0] for op in bounded.operations}
    assert ran == Counter({name: count for name, count in expected.items() if name in kept})


def _steps(fetches: Sequence[hr.Tensor], feeds: Sequence[hr.Tensor] = ()) -> StepGraph:
    return cut(prune(fetches[0].graph, fetches, [], feeds))


LIVE = 5


@pytest.mark.parametrize("first", [LIVE, DEAD])
@pytest.mark.parametrize("second", [LIVE, DEAD])
def test_a61_merge_is_dead_only_if_all_inputs_are(first: Any, second: Any) -> None:
    with hr.Graph().as_default():
        x, y = hr.placeholder(hr.int32, []), hr.placeholder(hr.int32, [])
        on = hr.constant(True)
        sides = [hr.apply_op("Switch", tensor, on)[1] for tensor in (x, y)]
        merged, index = hr.apply_op("Merge", sides)
        both = sides[0] + sides[1]
    graph = _steps([merged, index, both], [x, y])
    state = run_through(graph, [first, second], random.Random(0), interpret)
    assert (state.results[0] is DEAD) == (state.results[1] is DEAD) == (first is DEAD and second is DEAD)
    assert (state.results[2] is DEAD) == (first is DEAD or second is DEAD)
    if first is DEAD and second is not DEAD:
        assert state.results[:2] == [LIVE, 1]


def test_a61_a_dead_control_input_kills_but_for_merge_and_control_trigger() -> None:
    with hr.Graph().as_default():
        x, predicate = hr.placeholder(hr.int32, []), hr.placeholder(hr.bool, [])
        off, on = hr.apply_op("Switch", x, predicate)
        sides = [hr.identity(off), hr.identity(on)]
        with hr.control_dependencies([sides[1]]):
            killed = hr.add(x, 1)
            merged, _ = hr.apply_op("Merge", sides)
            trigger = hr.apply_op("ControlTrigger")
        with hr.control_dependencies([trigger]):
            spared = hr.add(x, 2)
    graph = _steps([killed, merged, spared], [x, predicate])
    assert run_through(graph, [3, False], random.Random(0), interpret).results == [DEAD, 3, 5]
    assert run_through(graph, [3, True], random.Random(0), interpret).results == [4, 3, 5]


def _counter(limit: hr.Tensor, parallel: int) -> tuple[hr.Tensor, hr.Tensor]:
    """A loop that adds up slow values, of which each needs the counter alone."""
    attrs: dict[str, Any] = {"frame_name": "loop", "parallel_iterations": parallel}
    heads = [hr.apply_op("Merge", [hr.apply_op("Enter", hr.constant(value), **attrs)])[0] for value in (0, 7)]
    bound = hr.apply_op("Enter", limit, is_constant=True, **attrs)
    more = hr.apply_op("LoopCond", heads[0] < bound)
    exits, bodies = zip(*(hr.apply_op("Switch", head, more) for head in heads), strict=True)
    following = [bodies[0] + 1, bodies[1] + hr.multiply(bodies[0], 3, name="slow")]
    for head, tensor in zip(heads, following, strict=True):
        head.op.graph.close_loop(head.op, hr.apply_op("NextIteration", tensor))
    count, slow = (hr.apply_op("Exit", tensor) for tensor in exits)
    return count, slow


@pytest.mark.parametrize("parallel", [1, 3, 10])
def test_a64_as_many_iterations_overlap_as_the_loop_permits(parallel: int) -> None:
    with hr.Graph().as_default():
        n = hr.placeholder(hr.int32, [])
        count, slow = _counter(n, parallel)
    state = StepState(_steps([count, slow], [n]))
    out, most = state.start([20]), 0
    while out:  # what is slow ends only when nothing else can go on
        quick = [item for item in out if "slow" not in item.node.name]
        activation = quick[0] if quick else out[0]
        most = max(most, len({item.place for item in out}))
        out.remove(activation)
        out += state.finish(activation, interpret(activation))
        state.validate()
    assert most == parallel
    assert state.results == [20, 7 + 3 * sum(range(20))]


def test_places_name_the_iterations_of_nested_loops() -> None:
    with hr.Graph().as_default():
        x = hr.placeholder(hr.int32, [])
        inner = Loop("inner", 2, 1, 0, 1, Block((Arithmetic("s1", True, 0, 1),)))
        outer = Loop("outer", 2, 1, 0, 0, Block((inner,)))
        result = build(Block((outer,)), [x], structured=False)
    places: list[str] = []

    def run(activation: Activation) -> Sequence[Any]:
        places.extend(activation.place for op in activation.node.operations if op.name == "s1")
        return interpret(activation)

    run_through(_steps([result], [x]), [1], random.Random(0), run)
    assert places == ["outer:0/inner:0", "outer:0/inner:1", "outer:1/inner:0", "outer:1/inner:1"]


def test_a_switch_needs_one_truth_value() -> None:
    with hr.Graph().as_default():
        predicate = hr.placeholder(hr.bool)
        _, on = hr.apply_op("Switch", hr.constant(1), predicate)
    state = StepState(_steps([on], [predicate]))
    with pytest.raises(hr.errors.ShapeError, match=r"needs one truth value(.|\n)*Switch(.|\n)*\[2\]"):
        state.start([np.array([True, False])])


def test_an_inconsistent_state_is_found() -> None:
    with hr.Graph().as_default():
        x = hr.placeholder(hr.int32, [])
        y = hr.apply_op("Switch", x + 1, hr.constant(True))[1]
    state = StepState(_steps([y], [x]))
    (activation,) = state.start([1])
    state.running += 1
    with pytest.raises(hr.errors.InternalError, match=r"inconsistent(.|\n)*2 activations"):
        state.validate()
    state.running -= 1
    state.finish(activation, [2])
    state.validate()
    assert (state.is_done, state.results) == (True, [2])


def test_a_constant_is_there_for_every_token() -> None:
    with hr.Graph().as_default():
        predicate = hr.placeholder(hr.bool, [])
        sides = hr.apply_op("Switch", hr.constant(4), predicate)
        merged = hr.apply_op("Merge", [hr.identity(sides[0]), hr.add(sides[1], 1)])[0]
    graph = _steps([merged, merged], [predicate])
    assert run_through(graph, [True], random.Random(0), interpret).results == [5, 5]
    assert run_through(graph, [False], random.Random(0), interpret).results == [4, 4]


def test_step_graphs_print() -> None:
    with hr.Graph().as_default():
        n = hr.placeholder(hr.int32, [])
        _, slow = _counter(n, 1)
    text = str(_steps([slow], [n]))
    assert text.splitlines()[0].startswith("0: ENTER Enter 'Enter' -> 0>")
    assert "LOOP_HEAD Merge 'Merge' in loop" in text
    assert "SEGMENT AddV2 'AddV2' and 2 more in loop" in text
    assert sum(line.partition(": ")[2].startswith(Kind.SEGMENT.name) for line in text.splitlines()) == 2
