"""Waits of kernels: what they wait for, a deadline, a cancellation and the end of the session each end them."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.runtime import blocked, step_control
from headrace.runtime.blocked import blocked_operations
from headrace.runtime.step_control import Cancellation, RunningSteps, StepController
from headrace.testing.threads import until


class _Gate:
    """What the kernel of the tests waits for. Mutable."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.is_open = False
        self.waiting = threading.Event()

    def open(self) -> None:
        with self.condition:
            self.is_open = True
            self.condition.notify_all()

    def describe(self) -> str:
        self.waiting.set()
        return "gate 'g', shut, owned by the test"


_gates: dict[str, _Gate] = {}


@hr.register_op(
    "TestGate", inputs=dict(x="T"), outputs=dict(y="T"), attrs=dict(gate=hr.attr.string()), stateful=True, blocks=True
)
def _gate_shape(op: Any) -> Any:
    """x, once the gate of the test is open."""
    return [op.inputs[0].shape]


@hr.register_kernel("TestGate")
def _gate(op: Any, x: Any) -> Any:
    gate = _gates[op.attr("gate")]
    with gate.condition:
        gate.waiting.set()
        op.step.wait(gate.condition, lambda: gate.is_open, gate.describe)
    return np.array(x)


@pytest.fixture
def gate(request: pytest.FixtureRequest) -> Iterator[str]:
    _gates[request.node.name] = _Gate()
    yield request.node.name
    del _gates[request.node.name]


def _graph(gate: str) -> tuple[hr.Graph, hr.Tensor]:
    with hr.Graph().as_default() as graph:
        y = hr.apply_op("TestGate", hr.constant(2.0), gate=gate, name="gated") * 3.0
    return graph, y


def _background(call: Callable[[], object]) -> tuple[threading.Thread, list[BaseException]]:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread, errors


def test_a_wait_ends_when_what_is_waited_for_comes(gate: str) -> None:
    graph, y = _graph(gate)
    pending = hr.Session(graph).run_async(y)
    assert _gates[gate].waiting.wait(10)
    _gates[gate].open()
    assert pending.result(timeout=10) == 6.0


def test_a_deadline_ends_a_wait_and_says_what_was_waited_for(gate: str) -> None:
    graph, y = _graph(gate)
    with pytest.raises(
        hr.errors.DeadlineExceededError,
        match=r"did not end in time\n  where: +TestGate 'gated'(.|\n)*at most 0.2 s(.|\n)*a wait: gate 'g', shut",
    ):
        hr.Session(graph).run(y, timeout=0.2)


def test_the_deadline_of_the_configuration_ends_a_wait_of_a_callable(gate: str) -> None:
    graph, y = _graph(gate)
    step = hr.Session(graph, config=hr.config(timeout=0.2)).make_callable(y)
    with pytest.raises(hr.errors.DeadlineExceededError, match="gate 'g'"):
        step()


def test_D10_cancel_ends_a_wait_and_leaves_other_steps_alone(gate: str) -> None:
    graph, y = _graph(gate)
    session = hr.Session(graph)
    first, second = session.run_async(y), session.run_async(y)
    until(lambda: sum("gated" in line for line in blocked_operations()) == 2)
    first.cancel()
    with pytest.raises(
        hr.errors.CancelledError, match=r"was cancelled(.|\n)*a call of cancel\(\) during a wait: gate 'g'"
    ):
        first.result(timeout=10)
    assert not second.is_done
    _gates[gate].open()
    assert second.result(timeout=10) == 6.0


@pytest.mark.parametrize("how", ["run", "make_callable"])
def test_closing_the_session_ends_a_wait(gate: str, how: str) -> None:
    graph, y = _graph(gate)
    session = hr.Session(graph)
    call = (lambda: session.run(y)) if how == "run" else session.make_callable(y)
    thread, errors = _background(call)
    assert _gates[gate].waiting.wait(10)
    session.close()
    thread.join(10)
    assert isinstance(errors[0], hr.errors.CancelledError)
    assert "a call of session.close()" in str(errors[0])


def test_a_step_that_starts_while_its_session_ends_cannot_wait() -> None:
    running, cancellation = RunningSteps(), Cancellation()
    running.end_waits("the end")
    running.add(cancellation)
    assert (cancellation.is_requested, cancellation.ends_waits, cancellation.reason) == (False, True, "the end")


def test_a_step_that_has_ended_is_not_cancelled_with_its_session() -> None:
    running, cancellation = RunningSteps(), Cancellation()
    running.add(cancellation)
    running.remove(cancellation)
    running.end_waits("the end")
    assert not cancellation.ends_waits


def test_the_first_reason_to_cancel_counts() -> None:
    cancellation = Cancellation()
    assert cancellation.reason == ""
    cancellation.cancel("one")
    cancellation.cancel("two")
    assert cancellation.reason == "one"


def test_what_is_there_already_needs_no_wait_even_when_cancelled() -> None:
    control = StepController(0.0)
    control.cancellation.cancel()
    condition = threading.Condition()
    with condition:
        control.wait(condition, lambda: True, lambda: "nothing")


def test_check_raises_when_the_step_has_to_end() -> None:
    control = StepController()
    control.check()
    control.cancellation.cancel()
    with pytest.raises(hr.errors.CancelledError, match=r"a call of cancel\(\)\n"):
        control.check()
    with pytest.raises(hr.errors.DeadlineExceededError, match="a step that goes on"):
        StepController(0.0).check()


def test_kernels_outside_a_step_are_not_bounded() -> None:
    @hr.register_op("TestChecks", inputs=dict(x="T"), outputs=dict(y="T"), stateful=True)
    def shape(op: Any) -> Any:
        """x, after it asked whether to go on."""
        return [op.inputs[0].shape]

    @hr.register_kernel("TestChecks")
    def kernel(op: Any, x: Any) -> Any:
        op.step.check()
        return np.array(x)

    with hr.Graph().as_default() as graph:
        y = hr.apply_op("TestChecks", hr.constant(1.0))
    assert hr.Session(graph).run(y) == 1.0


def test_d06_an_operation_that_waits_for_too_long_says_which_and_for_what(gate: str) -> None:
    graph, y = _graph(gate)
    session = hr.Session(graph, config=hr.config(stall_timeout=0.2))
    calls: list[Callable[[], Any]] = [
        lambda: session.run(y), session.make_callable(y), lambda: session.run(y, timeout=10)
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(
            hr.errors.DeadlineExceededError,
            match=r"TestGate 'gated' made no progress(.|\n)*within 0.2 s, the stall_timeout(.|\n)*gate 'g', shut",
        ):
            call()


def test_d08_a_stalled_step_names_everything_that_is_blocked(gate: str) -> None:
    graph, y = _graph(gate)
    other = hr.Session(graph).run_async(y)
    assert _gates[gate].waiting.wait(10)
    with pytest.raises(
        hr.errors.DeadlineExceededError,
        match=r"also blocked:\n +TestGate 'gated' of step \d+ in thread 'headrace-worker-\d+' for \d+.\d s: gate 'g'",
    ):
        hr.Session(graph, config=hr.config(stall_timeout=0.2)).run(y)
    other.cancel()


def test_blocked_operations_are_listed_while_they_are(gate: str) -> None:
    graph, y = _graph(gate)
    pending = hr.Session(graph).run_async(y)
    until(lambda: any("gated" in line for line in blocked_operations()))
    (line,) = [line for line in blocked_operations() if "gated" in line]
    assert re.fullmatch(
        r"TestGate 'gated' of step \d+ in thread '.*' for \d+\.\d s: gate 'g', shut, owned by the test", line
    )
    _gates[gate].open()
    pending.result(timeout=10)


_INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
import headrace as hr

@hr.register_op("Signal", inputs=dict(x="T"), outputs=dict(y="T"), stateful=True)
def shape(op):
    '''x; the first run says that it is under way.'''
    return [op.inputs[0].shape]

started = threading.Event()

@hr.register_kernel("Signal")
def kernel(op, x):
    started.set()
    return np.array(x)

def press():
    started.wait()
    time.sleep(0.05)
    started.pressed = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
graph = hr.Graph()
with graph.as_default():
    variable = hr.Variable(np.zeros(1000, np.float32), name="v")
    step = hr.group([variable.assign_add(np.ones(1000, np.float32))])
    fetch = {fetch}
session = hr.Session(graph)
session.run(step)
threading.Thread(target=press, daemon=True).start()
try:
    {run}
except KeyboardInterrupt:
    late = time.monotonic() - started.pressed
    value = session.read_variables(["v"])["v"]
    session.run(step)
    after = session.read_variables(["v"])["v"]
    print("interrupted", late < 1.0, len(set(value.tolist())), (after - value).tolist() == [1.0] * 1000)
else:
    print("ended")
"""


@pytest.mark.parametrize(
    ("build", "run"),
    [
        pytest.param(
            "hr.while_loop(lambda i: i >= 0, lambda i: [hr.apply_op('Signal', i) * 0 + 1], [0])[0]",
            "session.run(fetch)",
            id="structured loop",
        ),
        pytest.param("hr.FIFOQueue(2, [hr.float32]).dequeue()", "started.set(); session.run(fetch)", id="dequeue"),
        pytest.param(
            "[hr.FIFOQueue(2, [hr.float32]).dequeue() for _ in range(3)]",
            "started.set(); session.run(fetch)",
            id="several dequeues",
        ),
        pytest.param(
            "hr.FIFOQueue(2, [hr.float32]).dequeue()", "started.set(); session.run_async(fetch).result()", id="async"
        ),
        pytest.param(
            "hr.add_n([hr.tanh(hr.apply_op('Signal', hr.zeros([300, 300])) + 1.0) for _ in range(1000)])",
            "while True: session.run(fetch)",
            id="long chain",
        ),
        pytest.param(
            "variable.assign_add(np.ones(1000, np.float32))",
            "started.set()\n    while True: session.run(fetch)",
            id="updates",
        ),
    ],
)
def test_d09_ctrl_c_ends_a_step_and_leaves_variables_whole(build: str, run: str) -> None:
    program = _INTERRUPTED.replace("{fetch}", build).replace("{run}", run)
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert found.stdout.split("\n")[0] == "interrupted True 1 True", found.stderr


_ALONE = """
import threading
import headrace as hr
from headrace.runtime import blocked, step_control

step_control.LONELY_SECONDS = 0.2
with hr.Graph().as_default() as graph:
    first, second = (hr.FIFOQueue(1, [hr.float32], [[]], name=name) for name in ("first", "second"))
    take, other = first.dequeue(), second.dequeue()
    move = second.enqueue([take])
session = hr.Session(graph)
try:
    {run}
except hr.errors.DeadlineExceededError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("run", "found"),
    [
        ("session.run(take)", "QueueDequeueV2 'dequeue' made no progress(.|\n)*FIFOQueue 'first' holds 0 of 1"),
        ("session.run([take, other])", "made no progress(.|\n)*also blocked:(.|\n)*QueueDequeueV2 '.*dequeue"),
        ("session.run_async(take).result()", "QueueDequeueV2 'dequeue' made no progress"),
        (
            "pending = session.run_async(move); session.run(other)",
            "made no progress(.|\n)*FIFOQueue '(first|second)' holds 0 of 1(.|\n)*also blocked:(.|\n)*of step",
        ),
    ],
    ids=["dequeue", "several", "async", "two steps"],
)
def test_D06_D08_a_wait_that_no_thread_can_end_fails_soon_and_says_for_what_it_waited(run: str, found: str) -> None:
    program = _ALONE.replace("{run}", run)
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert re.search(found, child.stdout), child.stdout + child.stderr
    assert "expected: a thread of this process that could end it" in child.stdout
    assert "none known, no hr.QueueRunner was started for it" in child.stdout


def test_D06_a_wait_goes_on_as_long_as_another_thread_runs_or_a_limit_says_so() -> None:
    program = _ALONE.replace(
        "{run}",
        "threading.Timer(0.7, lambda: session.run(fill)).start();print(session.run(take))",
    ).replace("session = ", "with graph.as_default():\n    fill = first.enqueue(1.0)\nsession = ")
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert child.stdout == "1.0\n", child.stderr
    program = _ALONE.replace("Session(graph)", "Session(graph, config=hr.config(stall_timeout=0.6))")
    program = program.replace("{run}", "session.run(take)")
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert "within 0.6 s, the stall_timeout" in child.stdout, child.stderr


def test_threads_are_at_rest_only_once_they_have_been_for_a_while() -> None:
    assert not blocked.nothing_else_runs(0.0)  # this one runs
    with blocked.at_rest():
        assert not blocked.nothing_else_runs(100.0)
    assert not any(thread == threading.get_ident() for thread, _ in blocked._at_rest.values())


def test_D08_a_wait_that_lasts_is_told_to_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(step_control, "NOTICE_SECONDS", 0.01)
    condition, looks = threading.Condition(), iter([False] * 4 + [True])
    with condition:
        StepController().wait_for("QueueDequeueV2 'd'", condition, lambda: next(looks), lambda: "an empty queue 'q'")
    first = caplog.messages[0]
    assert re.fullmatch(r"QueueDequeueV2 'd' of step \d+ has waited for 0 s: an empty queue 'q'", first)
    assert 1 <= len(caplog.messages) <= 3
