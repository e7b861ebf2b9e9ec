"""Branches and loops of primitives in structured form: the same values and effects, differentiable, and when not."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.graph.frames import has_tokens
from headrace.graph.verifier import verify_bounded
from headrace.ops.raising import raise_control_flow
from headrace.passes.inline import inline
from headrace.passes.lower import lower
from headrace.passes.prune import prune
from headrace.passes.raising import raising
from headrace.testing.canonical import canonical_form
from headrace.testing.control_programs import build, compute, random_program

TENSORFLOW = Path(__file__).parents[1] / "graph" / "tensorflow_v1"


def _types(graph: hr.Graph) -> set[str]:
    return {op.type for op in graph.operations}


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_keep_their_meaning(seed: int) -> None:
    choose = random.Random(seed)
    block = random_program(choose)
    with hr.Graph().as_default() as graph:
        x, y = hr.placeholder(hr.int32, []), hr.placeholder(hr.int32, [])
        result = build(block, [x, y], structured=False)
    bounded = prune(graph, [result], [], [x, y])
    raised = raising(bounded)
    assert not has_tokens(raised)
    session = hr.Session(graph, config=hr.config(verify=True))
    for _ in range(3):
        values = [choose.randrange(100), choose.randrange(100)]
        assert session.run(result, feeds=dict(zip([x, y], values, strict=True))) == compute(block, values)


def test_branches_of_one_predicate_become_one_if() -> None:
    with hr.Graph().as_default() as graph:
        x, p = hr.placeholder(hr.float32, []), hr.placeholder(hr.bool, [])
        off, on = hr.apply_op("Switch", x, p)
        first = hr.apply_op("Merge", [off + 1.0, on * 2.0])[0]
        second, index = hr.apply_op("Merge", [on, off])
    raised = raising(prune(graph, [first, second, index], [], [x, p]))
    assert sum(op.type == "StatelessIf" for op in raised.operations) == 1
    session = hr.Session(graph)
    assert session.run([first, second, index], feeds={x: 3.0, p: True}) == [6.0, 3.0, 0]
    assert session.run([first, second, index], feeds={x: 3.0, p: False}) == [4.0, 3.0, 1]


def test_a_branch_that_reads_the_result_of_another_one_of_its_predicate_is_an_if_of_its_own() -> None:
    with hr.Graph().as_default() as graph:
        x, p = hr.placeholder(hr.float32, []), hr.placeholder(hr.bool, [])
        off, on = hr.apply_op("Switch", x, p)
        first = hr.apply_op("Merge", [off + 1.0, on * 2.0])[0]
        late_off, late_on = hr.apply_op("Switch", first + x, p)
        second = hr.apply_op("Merge", [late_off, late_on * 10.0])[0]
    raised = raising(prune(graph, [second], [], [x, p]))
    assert sum(op.type == "StatelessIf" for op in raised.operations) == 2
    assert [hr.Session(graph).run(second, feeds={x: 3.0, p: way}) for way in (False, True)] == [7.0, 90.0]


def test_an_effect_happens_once_and_only_in_its_branch() -> None:
    with hr.Graph().as_default() as graph:
        variable = hr.Variable(0.0, name="v")
        p = hr.placeholder(hr.bool, [])
        off, on = hr.apply_op("Switch", hr.constant(5.0), p)
        handle = hr.apply_op("Switch", variable.handle, p)[1]
        update = graph.create_op("AssignAddVariableOp", [handle, on], {"dtype": hr.float32})
        with hr.control_dependencies([update]):
            after = hr.identity(on)
        merged = hr.apply_op("Merge", [off * 2.0, after])[0]
    assert "If" in _types(raising(prune(graph, [merged], [], [p])))
    session = hr.Session(graph)
    found = [float(session.run(merged, feeds={p: way})) for way in (True, False, True)]
    assert found == [5.0, 10.0, 5.0]
    assert session.read_variables(["v"])["v"] == 10.0


def test_what_a_branch_waits_for_outside_comes_before_the_if() -> None:
    with hr.Graph().as_default() as graph:
        variable = hr.Variable(1.0, name="v")
        p = hr.placeholder(hr.bool, [])
        off, on = hr.apply_op("Switch", variable.handle, p)
        update = variable.assign(7.0)
        assert update is not None
        with hr.control_dependencies([update]):
            reads = [graph.create_op("ReadVariableOp", [side], {"dtype": hr.float32}).outputs[0] for side in (off, on)]
        merged = hr.apply_op("Merge", [reads[0], reads[1] * 2.0])[0]
    assert not has_tokens(raising(prune(graph, [merged], [], [p])))
    assert [hr.Session(graph).run(merged, feeds={p: way}) for way in (False, True)] == [7.0, 14.0]


def test_graphs_of_tensorflow_1_are_differentiated() -> None:
    graph = hr.import_graph_def(TENSORFLOW / "grad.pbtxt")
    x = graph.tensor("x:0")
    (first,) = hr.gradients(graph.tensor("y:0"), [x])
    (second,) = hr.gradients(first, [x])
    found = hr.Session(graph).run([first, "dx:0", second, "y:0"], feeds={"n:0": 3, "x:0": 1.5})
    np.testing.assert_allclose(found, [15 * 1.5**14, 15 * 1.5**14, 210 * 1.5**13, 1.5**15], rtol=1e-5)
    graph = hr.import_graph_def(TENSORFLOW / "cond.pbtxt")
    x = graph.tensor("x:0")
    (dx,) = hr.gradients(graph.tensor("y:0"), [x])
    session = hr.Session(graph)
    found = [session.run([dx, "y:0"], feeds={"p:0": p, x: v}) for p in (True, False) for v in (3.0, -3.0)]
    assert found == [[2.0, 6.0], [2.0, -6.0], [1.0, 4.0], [0.0, 7.0]]


def test_the_gradient_that_came_with_a_graph_is_not_differentiated_past_its_stacks() -> None:
    """What a stack hands on has no edge: the second derivative was partial, or None, without a word."""
    graph = hr.import_graph_def(TENSORFLOW / "grad.pbtxt")
    x, dx = graph.tensor("x:0"), graph.tensor("gradients/while/Enter_1_grad/Exit:0")
    with pytest.raises(
        hr.errors.GradientError, match="may take values from a stack(.|\n)*differentiate the loop itself"
    ):
        hr.gradients(dx * dx, [x])
    (first,) = hr.gradients(graph.tensor("y:0"), [x])
    np.testing.assert_allclose(hr.Session(graph).run(first, feeds={"n:0": 3, "x:0": 1.5}), 15 * 1.5**14, rtol=1e-5)


def test_a_differentiated_loop_has_its_effects_once() -> None:
    with hr.Graph().as_default() as graph:
        variable = hr.Variable(0.0, name="v")
        x = hr.placeholder(hr.float32, [])
        heads = [hr.apply_op("Merge", [hr.apply_op("Enter", t, frame_name="l")])[0] for t in (hr.constant(0), x)]
        handle = hr.apply_op("Enter", variable.handle, frame_name="l", is_constant=True)
        more = hr.apply_op("LoopCond", heads[0] < 3)
        exits, bodies = zip(*(hr.apply_op("Switch", head, more) for head in heads), strict=True)
        update = graph.create_op("AssignAddVariableOp", [handle, bodies[1]], {"dtype": hr.float32})
        with hr.control_dependencies([update]):
            doubled = bodies[1] * 2.0
        for head, tensor in zip(heads, [bodies[0] + 1, doubled], strict=True):
            graph.close_loop(head.op, hr.apply_op("NextIteration", tensor))
        count, y = (hr.apply_op("Exit", tensor) for tensor in exits)
        (dx,) = hr.gradients(y, [x])
    session = hr.Session(graph)
    assert session.run([y, dx, count], feeds={x: 1.0}) == [8.0, 8.0, 3]
    assert session.read_variables(["v"])["v"] == 7.0
    session.run(count, feeds={x: 1.0})
    assert session.read_variables(["v"])["v"] == 14.0


def _odd_merge() -> tuple[hr.Graph, hr.Tensor, hr.Tensor]:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [])
        first = hr.apply_op("Switch", x, hr.placeholder_with_default(True))[1]
        second = hr.apply_op("Switch", x * 2.0, hr.placeholder_with_default(False))[0]
        y = hr.apply_op("Merge", [first, second], name="odd")[0]
    return graph, x, y


def test_what_has_no_structured_form_runs_and_says_so_when_it_is_differentiated() -> None:
    graph, x, y = _odd_merge()
    bounded = prune(graph, [y], [], [x])
    assert raising(bounded) is bounded
    assert hr.Session(graph).run(y, feeds={x: 2.0}) in (2.0, 4.0)
    with pytest.raises(
        hr.errors.GradientError, match=r"primitive 'odd': 'odd' has no structured form: its inputs are not the two ways"
    ):
        hr.gradients(y, [x])
    count = len(graph.operations)
    with pytest.raises(
        hr.errors.GraphError, match=r"'odd' has no structured form(.|\n)*neither differentiated nor comp"
    ):
        raise_control_flow(graph, graph.operations)
    assert len(graph.operations) == count


def test_a_value_inside_a_branch_is_not_differentiated() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [])
        on = hr.apply_op("Switch", x, hr.placeholder_with_default(True), name="inner")[1]
        del graph
        with pytest.raises(hr.errors.GradientError, match=r"'inner': it lies inside a branch or loop"):
            hr.gradients(on * 2.0, [x])


def test_loops_that_wait_or_ask_for_devices_stay_as_they_are() -> None:
    def program(**scope: Any) -> tuple[hr.Graph, hr.Tensor]:
        with hr.Graph().as_default() as graph, hr.device(scope.get("device", "")):
            i = hr.apply_op("Merge", [hr.apply_op("Enter", hr.constant(0), frame_name="l")])[0]
            done, go = hr.apply_op("Switch", i, hr.apply_op("LoopCond", i < 3))
            following = go + 1
            if "queue" in scope:
                queue = hr.FIFOQueue(9, [hr.int32], [[]])
                handle = hr.apply_op("Enter", queue.handle, frame_name="l", is_constant=True)
                following = (
                    graph.create_op("QueueDequeueV2", [handle], {"component_types": (hr.int32,)}).outputs[0] + go
                )
                following.set_shape(hr.Shape([]))
            graph.close_loop(i.op, hr.apply_op("NextIteration", following))
            return graph, hr.apply_op("Exit", done)

    for scope in ({"device": "/device:CPU:0"}, {"queue": True}):
        graph, result = program(**scope)
        bounded = prune(graph, [result], [], [])
        assert raising(bounded) is bounded
    graph, result = program()
    assert not has_tokens(raising(prune(graph, [result], [], [])))


def _undone(graph: hr.Graph, fetches: Sequence[hr.Tensor], feeds: Sequence[hr.Tensor]) -> tuple[str, str]:
    """The forms of what a step needs, and of the same lowered and raised again."""
    bounded = inline(prune(graph, fetches, [], feeds))  # a call is gone once it is lowered
    lowered = lower(bounded, lambda op: True)
    raised = raising(lowered)
    assert has_tokens(lowered) == any(op.bodies for op in bounded.operations)
    assert not has_tokens(raised)
    verify_bounded(raised, stage="raising")
    return canonical_form(bounded), canonical_form(raised)


@pytest.mark.parametrize("seed", range(60))
def test_raising_undoes_lowering_operation_for_operation(seed: int) -> None:
    choose = random.Random(seed)
    block = random_program(choose)
    with hr.Graph().as_default() as graph:
        x, y = hr.placeholder(hr.int32, []), hr.placeholder(hr.int32, [])
        result = build(block, [x, y], structured=True)
    given, again = _undone(graph, [result], [x, y])
    assert again == given
    session = hr.Session(graph, config=hr.config(passes=[lambda g: lower(g, lambda op: True), "raising"]))
    assert session.run(result, feeds={x: 7, y: 30}) == compute(block, [7, 30])


def test_a_branch_may_return_what_chose_it() -> None:
    with hr.Graph().as_default() as graph:
        p = hr.placeholder(hr.bool, [])
        y = hr.cond(p, lambda: p, lambda: hr.logical_not(p))
    fed = np.array(True)
    found = hr.Session(graph, config=hr.config(passes=[])).run(y, feeds={p: fed})
    assert found
    assert not np.shares_memory(found, fed)


def _loop(
    condition: Callable[[hr.Tensor], hr.Tensor], body: Callable[[hr.Tensor, hr.Tensor], hr.Tensor]
) -> tuple[hr.Tensor, hr.Tensor, hr.Tensor]:
    """A loop of one variable built by hand: the value where it ends, what goes on, and the result."""
    i = hr.apply_op("Merge", [hr.apply_op("Enter", hr.constant(0), frame_name="loop")])[0]
    more = hr.apply_op("LoopCond", condition(i))
    done, go = hr.apply_op("Switch", i, more)
    i.op.graph.close_loop(i.op, hr.apply_op("NextIteration", body(i, go)))
    return done, more, hr.apply_op("Exit", done)


def _several_conditions() -> hr.Tensor:
    done, more, result = _loop(lambda i: i < 3, lambda i, go: go + 1)
    hr.apply_op("Switch", done.op.inputs[0], hr.apply_op("LoopCond", hr.logical_not(more)))
    return result


def _irregular() -> hr.Tensor:
    """One loop variable lives only as long as a branch."""
    on = hr.apply_op("Switch", hr.constant(0), hr.placeholder_with_default(True))[1]
    i, j = (hr.apply_op("Merge", [hr.apply_op("Enter", x, frame_name="l")])[0] for x in (hr.constant(0), on))
    more = hr.apply_op("LoopCond", i < 3)
    for head in (i, j):
        done, go = hr.apply_op("Switch", head, more)
        head.op.graph.close_loop(head.op, hr.apply_op("NextIteration", go + 1))
    result: hr.Tensor = hr.apply_op("Exit", done)
    return result


def _works_where_it_ends() -> hr.Tensor:
    done, _, _ = _loop(lambda i: i < 3, lambda i, go: go + 1)
    result: hr.Tensor = hr.apply_op("Exit", done + 1)
    return result


def _draws_in_condition_and_body() -> hr.Tensor:
    noise: list[hr.Tensor] = []

    def condition(i: hr.Tensor) -> hr.Tensor:
        with hr.control_dependencies([i]):
            noise.append(hr.random.uniform([]))
        return hr.astype(i, hr.float32) + noise[0] < 3.0

    return _loop(condition, lambda i, go: go + 1 + hr.astype(noise[0] * 0.0, hr.int32))[2]


def _merge_in_nobodys_branch() -> hr.Tensor:
    off, on = hr.apply_op("Switch", hr.constant(1.0), hr.placeholder_with_default(True))
    inner = hr.apply_op("Switch", on, hr.placeholder_with_default(True))
    result: hr.Tensor = hr.apply_op("Merge", [off, inner[1]])[0]
    return result


@pytest.mark.parametrize(
    ("build_it", "reason"),
    [
        (_several_conditions, "its loop has several conditions"),
        (_irregular, "the loop variables of its loop do not live as long as each other"),
        (_works_where_it_ends, "it reads something else than a loop variable where the loop ends"),
        (_draws_in_condition_and_body, "its loop needs it both to go on and in its body"),
        (_merge_in_nobodys_branch, "its inputs are not the two ways of one Switch"),
    ],
)
def test_what_has_no_structured_form_is_told_and_runs(build_it: Callable[[], hr.Tensor], reason: str) -> None:
    with hr.Graph(seed=3).as_default() as graph:
        result = build_it()
    with pytest.raises(hr.errors.GraphError, match=rf"has no structured form: {reason}"):
        raise_control_flow(graph, graph.operations)
    hr.Session(graph).run(result, timeout=10)


def test_an_effect_of_a_branch_without_a_result_leaves_the_graph_as_it_is() -> None:
    with hr.Graph().as_default() as graph:
        variable = hr.Variable(0.0, name="v")
        handle = hr.apply_op("Switch", variable.handle, hr.placeholder_with_default(True))[1]
        update = graph.create_op("AssignAddVariableOp", [handle, hr.constant(1.0)], {"dtype": hr.float32})
    with pytest.raises(hr.errors.GraphError, match="it has an effect that no result of its branch or loop asks for"):
        raise_control_flow(graph, graph.operations)
    session = hr.Session(graph)
    session.run(update)
    assert session.read_variables(["v"])["v"] == 1.0


def test_a_branch_on_the_loop_variable_itself_is_no_second_condition() -> None:
    def body(i: hr.Tensor, go: hr.Tensor) -> hr.Tensor:
        off, on = hr.apply_op("Switch", i, hr.equal(i, 2))  # of the head, so it is there in the last iteration too
        odd: hr.Tensor = go + 1 + hr.apply_op("Merge", [off * 0, on * 0 + 5])[0]
        return odd

    with hr.Graph().as_default() as graph:
        _, _, result = _loop(lambda i: i < 10, body)
    bounded = prune(graph, [result], [], [])
    assert not has_tokens(raising(bounded))
    expected = 0
    while expected < 10:
        expected += 6 if expected == 2 else 1
    for passes in ([], ["raising"]):
        assert hr.Session(graph, config=hr.config(passes=passes)).run(result) == expected


@pytest.mark.parametrize("passes", [[], ["raising"]])
def test_a_fetch_inside_a_branch_has_a_value_if_the_branch_is_taken_and_is_refused_by_name_otherwise(passes) -> None:
    """Raised, the branch would end in the middle of what is fetched."""
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [])
        off, _ = hr.apply_op("Switch", x, x > 0.0)
        inner = hr.square(off)
        both = hr.apply_op("Merge", [inner, hr.apply_op("Switch", x, x > 0.0)[1]])[0]
    session = hr.Session(graph, config=hr.config(passes=passes))
    assert session.run([inner, both], feeds={x: -3.0}) == [9.0, 9.0]
    with pytest.raises(
        hr.errors.InvalidArgumentError, match="has no value in this step(.|\n)*branch that was not taken"
    ):
        session.run([inner, both], feeds={x: 3.0})
