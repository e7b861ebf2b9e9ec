"""Steps that are more than one segment: branches and loops of tokens, operations that wait for each other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.runtime import workers
from headrace.runtime.executor import StepExecutor
from headrace.runtime.resources import ResourceManager
from headrace.runtime.step_definition import StepDefinition
from headrace.runtime.step_state import Activation, StepState


@hr.register_op(
    "TestMeet",
    inputs={"x": "T"},
    outputs={"y": "T"},
    attrs={"place": hr.attr.string(), "parties": hr.attr.int(2)},
    stateful=True,
    blocks=True,
)
def _meet_shape(op: Any) -> Any:
    """x, when as many as there are parties have come to the place."""
    return [op.inputs[0].shape]


@hr.register_op("TestFail", inputs={"x": "T"}, outputs={"y": "T"}, stateful=True)
def _fail_shape(op: Any) -> Any:
    """Nothing: an error."""
    return [op.inputs[0].shape]


@hr.register_op("TestCount", inputs={"x": "T"}, outputs={"y": "T"}, attrs={"place": hr.attr.string()}, stateful=True)
def _count_shape(op: Any) -> Any:
    """x, and it is counted."""
    return [op.inputs[0].shape]


class _Place:
    """Where operations of a test meet. Mutable."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.come = 0
        self.waiting = threading.Event()
        self.threads: list[str] = []


_places: dict[str, _Place] = {}


@hr.register_kernel("TestMeet")
def _meet(op: Any, x: Any) -> Any:
    place = _places[op.attr("place")]
    with place.condition:
        place.come += 1
        place.threads.append(threading.current_thread().name)
        turn = -(-place.come // op.attr("parties")) * op.attr("parties")
        place.condition.notify_all()
        place.waiting.set()
        op.step.wait(place.condition, lambda: place.come >= turn, lambda: f"{place.come} came")
    return np.array(x)


@hr.register_kernel("TestFail")
def _fail(op: Any, x: Any) -> Any:
    raise ZeroDivisionError("on purpose")


@hr.register_kernel("TestCount")
def _count(op: Any, x: Any) -> Any:
    _places[op.attr("place")].come += 1
    return np.array(x)


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[str]:
    _places[request.node.name] = _Place()
    yield request.node.name
    del _places[request.node.name]


def _session(graph: hr.Graph) -> hr.Session:
    """One that leaves branches and loops as the tokens they are."""
    return hr.Session(graph, config=hr.config(passes=["fold", "arithmetic", "cse"]))


def _loop(
    limit: Any, body: Callable[[hr.Tensor], hr.Tensor] | None = None, name: str = "loop", **attrs: Any
) -> tuple[hr.Tensor, hr.Tensor]:
    """while i < limit: i, sum = i + 1, sum + body(i), as primitives."""
    attrs["frame_name"] = name
    zero = hr.multiply(limit, 0)  # of the loop around, if there is one
    heads = [hr.apply_op("Merge", [hr.apply_op("Enter", zero, **attrs)])[0] for _ in range(2)]
    bound = hr.apply_op("Enter", limit, is_constant=True, **attrs)
    more = hr.apply_op("LoopCond", heads[0] < bound)
    exits, bodies = zip(*(hr.apply_op("Switch", head, more) for head in heads), strict=True)
    following = [bodies[0] + 1, bodies[1] + (bodies[0] if body is None else body(bodies[0]))]
    for head, tensor in zip(heads, following, strict=True):
        head.op.graph.close_loop(head.op, hr.apply_op("NextIteration", tensor))
    count, total = (hr.apply_op("Exit", tensor) for tensor in exits)
    return count, total


@pytest.mark.parametrize("count", [0, 1, 2, 5000])
def test_a63_a_loop_runs_as_often_as_its_condition_says(count: int) -> None:
    with hr.Graph().as_default() as graph:
        n = hr.placeholder(hr.int32, [])
        results = _loop(n)
    session = _session(graph)
    assert session.run(list(results), feeds={n: count}) == [count, count * (count - 1) // 2]
    assert session.make_callable(results[0], [n])(count) == count


def test_a63_a_loop_of_a_hundred_thousand_iterations() -> None:
    with hr.Graph().as_default() as graph:
        count, _ = _loop(hr.constant(10**5))
    assert _session(graph).run(count) == 10**5


def test_a63_loops_three_deep() -> None:
    with hr.Graph().as_default() as graph:

        def inner(i: hr.Tensor) -> hr.Tensor:
            return _loop(i, name="inner")[1]

        def middle(i: hr.Tensor) -> hr.Tensor:
            return _loop(i, inner, name="middle")[1]

        _, total = _loop(hr.constant(7), middle, name="outer")
    expected = sum(sum(sum(range(j)) for j in range(i)) for i in range(7))
    assert _session(graph).run(total) == expected


@pytest.mark.parametrize("taken", [False, True])
def test_a60_the_branch_that_is_not_taken_does_not_compute(taken: bool, place: str) -> None:
    with hr.Graph().as_default() as graph:
        predicate = hr.placeholder(hr.bool, [])
        off, on = hr.apply_op("Switch", hr.constant(5.0), predicate)
        counted = hr.apply_op("TestCount", on, place=place)
        merged, index = hr.apply_op("Merge", [off, counted * 2.0])
    session = _session(graph)
    assert session.run([merged, index], feeds={predicate: taken}) == ([10.0, 1] if taken else [5.0, 0])
    assert _places[place].come == taken


def test_a_fetch_on_a_branch_that_was_not_taken_is_an_error() -> None:
    with hr.Graph().as_default() as graph:
        predicate = hr.placeholder(hr.bool, [])
        _, on = hr.apply_op("Switch", hr.constant(5.0), predicate)
        y = hr.multiply(on, 2.0, name="y")
    session = _session(graph)
    assert session.run(y, feeds={predicate: True}) == 10.0
    with pytest.raises(hr.errors.InvalidArgumentError, match=r"'y:0' has no value(.|\n)*branch that was not taken"):
        session.run(y, feeds={predicate: False})
    assert session.run(y.op, feeds={predicate: False}) is None


def test_results_that_tokens_pass_on_alias_nothing() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [2])
        _, on = hr.apply_op("Switch", x, hr.constant(True))
        _, constant = hr.apply_op("Switch", hr.constant([1.0, 2.0]), hr.constant(True))
    fed = np.ones(2, np.float32)
    first, second, third = _session(graph).run([on, on, constant], feeds={x: fed})
    assert not any(np.shares_memory(a, b) for a, b in [(first, fed), (first, second)])
    third[:] = 0
    assert _session(graph).run(constant).tolist() == [1.0, 2.0]


def test_operations_that_wait_for_each_other_run_at_once(place: str) -> None:
    with hr.Graph().as_default() as graph:
        x, y = (hr.apply_op("TestMeet", hr.constant(value), place=place, parties=3) for value in (1.0, 2.0))
        z = hr.apply_op("TestMeet", hr.constant(3.0), place=place, parties=3)
        total = hr.exp(x) * 0.0 + x + y + z
    assert _session(graph).run(total, timeout=10) == 6.0
    assert len(set(_places[place].threads)) == 3


def test_waiting_operations_never_starve_each_other(place: str) -> None:
    with hr.Graph().as_default() as graph:
        met = [hr.apply_op("TestMeet", hr.constant(1.0), place=place, parties=60) for _ in range(60)]
        total = hr.add_n([hr.tanh(item) for item in met])
    assert hr.Session(graph).run(total, timeout=30) == pytest.approx(60 * np.tanh(1.0), rel=1e-5)


def test_one_that_waits_after_another_needs_no_second_thread(place: str) -> None:
    with hr.Graph().as_default() as graph:
        x = hr.apply_op("TestMeet", hr.constant(1.0), place=place, parties=1)
        y = hr.apply_op("TestMeet", x + 1.0, place=place, parties=1)
    session = _session(graph)
    assert session.run(y * 2.0) == 4.0
    assert set(_places[place].threads) == {threading.current_thread().name}


def test_what_need_not_wait_runs_before_what_waits(place: str) -> None:
    with hr.Graph().as_default() as graph:
        variable = hr.Variable(0.0, name="v")
        gate = hr.apply_op("TestMeet", hr.constant(1.0), place=place, parties=2)
        update = variable.assign_add(1.0)  # made after the operation that waits, and not waiting for it
    session = _session(graph)
    pending = session.run_async([gate, update])
    assert _places[place].waiting.wait(10)
    assert session.read_variables(["v"])["v"] == 1.0
    with _places[place].condition:
        _places[place].come += 1
        _places[place].condition.notify_all()
    pending.result(timeout=10)


def test_a64_iterations_overlap_where_they_may(place: str) -> None:
    def meet(i: hr.Tensor) -> hr.Tensor:
        met: hr.Tensor = hr.apply_op("TestMeet", i, place=place, parties=4)
        return met

    with hr.Graph().as_default() as graph:
        _, total = _loop(hr.constant(8), meet, parallel_iterations=4)
    assert _session(graph).run(total, timeout=10) == sum(range(8))


def test_a64_with_one_parallel_iteration_they_do_not_overlap(place: str) -> None:
    def meet(i: hr.Tensor) -> hr.Tensor:
        (counted,) = [op for op in i.op.graph.operations if op.type == "AddV2"]
        with hr.control_dependencies([counted]):  # so that nothing else runs when it waits
            met: hr.Tensor = hr.apply_op("TestMeet", i, place=place, parties=2)
        return met

    with hr.Graph().as_default() as graph:
        _, total = _loop(hr.constant(8), meet, parallel_iterations=1)
    pending = _session(graph).run_async(total)
    assert _places[place].waiting.wait(10)
    pending.cancel()
    with pytest.raises(hr.errors.CancelledError, match=r"TestMeet(.|\n)*1 came"):
        pending.result(timeout=10)
    assert _places[place].come == 1


def test_the_first_error_ends_the_step_and_nothing_goes_on_after_it(place: str) -> None:
    with hr.Graph().as_default() as graph:
        waits = [hr.apply_op("TestMeet", hr.constant(1.0), place=place, parties=9) for _ in range(3)]
        fails = hr.apply_op("TestFail", hr.constant(1.0), name="faulty")
        total = hr.add_n([*waits, fails])
    with pytest.raises(ZeroDivisionError, match="on purpose") as caught:
        _session(graph).run(total, timeout=10)
    assert any("faulty" in note for note in caught.value.__notes__)
    place_of_test = _places[place]
    assert not place_of_test.condition._waiters  # type: ignore[attr-defined]  # nobody waits any more


def test_cancelling_ends_every_wait_of_a_step(place: str) -> None:
    with hr.Graph().as_default() as graph:
        waits = [hr.apply_op("TestMeet", hr.constant(1.0), place=place, parties=9) for _ in range(3)]
    session = _session(graph)
    pending = session.run_async(waits)
    assert _places[place].waiting.wait(10)
    pending.cancel()
    with pytest.raises(hr.errors.CancelledError, match=r"a call of cancel\(\)"):
        pending.result(timeout=10)
    assert not _places[place].condition._waiters  # type: ignore[attr-defined]


def test_a_loop_without_end_is_ended_by_its_deadline() -> None:
    with hr.Graph().as_default() as graph:
        _, total = _loop(hr.constant(2**31 - 1))
    with pytest.raises(hr.errors.DeadlineExceededError, match=r"did not end in time(.|\n)*before "):
        _session(graph).run(total, timeout=0.05)


def test_initial_values_may_take_branches() -> None:
    with hr.Graph().as_default() as graph:
        off, on = hr.apply_op("Switch", hr.constant(3.0), hr.constant(True))
        variable = hr.Variable(hr.apply_op("Merge", [off, on + 1.0])[0], name="v")
    assert _session(graph).run(variable) == 4.0


def test_abort_ends_the_step_where_it_runs() -> None:
    with hr.Graph().as_default() as graph:
        predicate = hr.placeholder(hr.bool, [])
        off, on = hr.apply_op("Switch", hr.constant(5.0), predicate)
        with hr.control_dependencies([hr.identity(on)]):
            abort = hr.apply_op("Abort", error_msg="no way")
            nothing = hr.apply_op("Abort", error_msg="no way", exit_without_error=True)
    session = _session(graph)
    session.run([off, abort], feeds={predicate: False})
    session.run(nothing, feeds={predicate: True})
    with pytest.raises(hr.errors.AbortedError, match=r"no way(.|\n)*Abort 'Abort'"):
        session.run(abort, feeds={predicate: True})


def test_workers_are_used_again() -> None:
    names: list[str] = []
    for _ in range(5):
        done = threading.Event()

        def job(done: threading.Event = done) -> None:
            names.append(threading.current_thread().name)
            done.set()

        workers.submit(job)
        assert done.wait(10)
        while not workers._idle:  # it has to come back first
            pass
    assert len(set(names)) == 1


def test_a_worker_that_was_idle_for_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "IDLE_SECONDS", 0.01)
    monkeypatch.setattr(workers, "_idle", [])
    threads: list[threading.Thread] = []
    workers.submit(lambda: threads.append(threading.current_thread()))
    while not threads:
        pass
    threads[0].join(10)
    assert not threads[0].is_alive()


def test_a_loop_whose_operations_wait_for_each_other_runs_on_tokens(place: str) -> None:
    def body(i: hr.Tensor) -> hr.Tensor:
        first, second = (hr.apply_op("TestMeet", i, place=place, parties=2) for _ in range(2))
        result: hr.Tensor = first + second - i + 1
        return result

    with hr.Graph().as_default() as graph:
        done = hr.while_loop(lambda i: i < 3, body, [0])
    assert hr.Session(graph).run(done, timeout=10) == [3]


def test_a_branch_whose_operations_wait_for_each_other_runs_on_tokens(place: str) -> None:
    with hr.Graph().as_default() as graph:
        p = hr.placeholder(hr.bool, [])

        def both() -> hr.Tensor:
            return hr.add_n([hr.apply_op("TestMeet", hr.constant(2.0), place=place, parties=2) for _ in range(2)])

        y = hr.cond(p, both, lambda: 1.0)
    session = hr.Session(graph)
    assert [session.run(y, feeds={p: way}, timeout=10) for way in (True, False)] == [4.0, 1.0]


def test_a_function_of_the_graph_may_hold_primitives() -> None:
    with hr.Graph().as_default() as graph:
        p, q = hr.placeholder(hr.bool, []), hr.placeholder(hr.bool, [])

        def inner() -> hr.Tensor:
            off, on = hr.apply_op("Switch", hr.constant(5.0), q)
            result: hr.Tensor = hr.apply_op("Merge", [off * 2.0, on * 3.0])[0]
            return result

        y = hr.cond(p, inner, lambda: 1.0)
    for session in (_session(graph), hr.Session(graph)):
        found = [session.run(y, feeds={p: a, q: b}) for a, b in ((True, True), (True, False), (False, True))]
        assert found == [15.0, 10.0, 1.0]


def test_what_need_not_wait_in_a_function_runs_before_what_waits(place: str) -> None:
    with hr.Graph().as_default() as graph:
        variable = hr.Variable(0.0, name="v")

        def branch() -> hr.Tensor:
            gate: hr.Tensor = hr.apply_op("TestMeet", hr.constant(1.0), place=place, parties=2)
            variable.assign_add(1.0)  # made after the operation that waits, and not waiting for it
            return gate

        y = hr.cond(hr.placeholder_with_default(True), branch, lambda: 0.0)
    session = hr.Session(graph)
    pending = session.run_async(y)
    assert _places[place].waiting.wait(10)
    assert session.read_variables(["v"])["v"] == 1.0
    with _places[place].condition:
        _places[place].come += 1
        _places[place].condition.notify_all()
    assert pending.result(timeout=10) == 1.0


def _plan() -> StepExecutor:
    with hr.Graph().as_default() as graph:
        y = hr.apply_op("Switch", hr.constant(1.0), hr.constant(True))[1] + 1.0
    definition = StepDefinition(graph, [y], (), (), ResourceManager(), hr.config(passes=[]))
    compiled = definition.plan_for([]).compiled
    assert isinstance(compiled, StepExecutor)
    return compiled


def test_a_step_that_ends_early_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = _plan()
    assert plan(()) == [2.0]
    monkeypatch.setattr(StepState, "start", lambda self, arguments: [])
    with pytest.raises(hr.errors.InternalError, match=r"a step ended early(.|\n)*please report"):
        plan(())


def test_a_result_that_nothing_computed_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = _plan()
    run = StepState.finish

    def forget(self: StepState, activation: Activation, outputs: Any) -> Any:
        ready = run(self, activation, outputs)
        self.results[0] = None
        return ready

    monkeypatch.setattr(StepState, "finish", forget)
    with pytest.raises(hr.errors.InternalError, match=r"'AddV2:0' was not computed(.|\n)*please report"):
        plan(())
