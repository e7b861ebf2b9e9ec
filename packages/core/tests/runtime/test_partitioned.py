"""Steps over several devices of one process: the same numbers, one error, one path where there is one device."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.kernels.context import inside_step
from headrace.placement.device import local_devices
from headrace.placement.partition import Partition
from headrace.plan.plan import CompiledPart, Plan
from headrace.runtime.partitioned import PartsExecutor
from headrace.runtime.step_control import StepController
from headrace.runtime.step_definition import StepDefinition

FOUR = hr.config(virtual_devices={"CPU": 4})


def _plan(session: hr.Session, fetches: list[hr.Tensor]) -> Plan:
    return StepDefinition(session.graph, fetches, (), (), session.resources, session.config).plan_for([])


@hr.register_op("TestPlanFail", inputs={"x": "float32"}, outputs={"y": "float32"}, stateful=True)
def _fail_shape(op: hr.InferenceContext) -> list[hr.Shape]:
    """Raises."""
    return [op.inputs[0].shape]


@hr.register_kernel("TestPlanFail")
def _fail(op: hr.interfaces.OpContext, x: np.ndarray) -> np.ndarray:
    raise ValueError("broken on purpose")


def test_A55_values_go_to_and_fro_between_devices() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None])
        total = x
        for turn in range(7):
            with hr.device(f"CPU:{turn % 4}"):
                total = total * 2 + x
    with hr.Session(graph, config=FOUR) as session:
        for size in (3, 5):
            given = np.arange(size, dtype=np.float32)
            np.testing.assert_array_equal(session.run(total, feeds={x: given}), given * 255)


def test_A55_each_device_waits_only_for_what_it_reads() -> None:
    """Each of two parts needs something of the other before it is done."""
    with hr.Graph().as_default() as graph:
        with hr.device("CPU:1"):
            a = hr.Variable(np.float32(1), name="a")
        with hr.device("CPU:2"):
            b = hr.Variable(np.float32(2), name="b")
        with hr.device("CPU:1"):
            c = a.value + b.value
        with hr.device("CPU:2"):
            d = b.value * a.value
        with hr.device("CPU:1"):
            e = c + d
        with hr.device("CPU:2"):
            f = d - c
    with hr.Session(graph, config=FOUR) as session:
        assert session.run([e, f]) == [5, -1]


def test_A52_state_is_where_it_was_placed_and_keeps_its_value_from_step_to_step() -> None:
    with hr.Graph().as_default() as graph:
        with hr.device("CPU:3"):
            v = hr.Variable(np.float32(1), name="v")
        with hr.device("CPU:1"):
            add = v.assign_add(hr.random.uniform([]) * 0 + 2)
            read = v.read()
    with hr.Session(graph, config=FOUR) as session:
        for expected in (3, 5, 7):
            session.run(add)
            assert session.run(read) == expected
        devices = {op.type: op.device[-5:] for op in session.optimized_graph(add).operations}
        assert (devices["VarHandleOp"], devices["AssignAddVariableOp"]) == ("CPU:3", "CPU:3")


@pytest.mark.parametrize("in_process", [False, True])
def test_A53_what_is_colocated_with_a_variable_runs_where_it_lives(in_process: bool) -> None:
    """A variable was refused: only its handle was taken."""
    outside = hr.Variable(np.float32(1))
    with hr.Graph().as_default() as graph:
        with hr.device("CPU:3"):
            v = outside if in_process else hr.Variable(np.float32(1))
        with hr.device("CPU:1"), hr.colocate_with(v):
            number = hr.random.uniform([], name="number")
            value = v.read() + number * 0.0
    with hr.Session(graph, config=FOUR) as session:
        assert session.run(value) == 1
        devices = {op.type: op.device[-5:] for op in session.optimized_graph(value).operations}
        assert devices["RandomUniform"] == devices["VarHandleOp"]
        assert devices["VarHandleOp"] == "CPU:3" or in_process


def test_A55_the_first_error_ends_every_part_and_names_its_operation() -> None:
    with hr.Graph().as_default() as graph:
        with hr.device("CPU:1"):
            x = hr.apply_op("TestPlanFail", hr.constant(np.float32(1)), name="broken")
        with hr.device("CPU:2"):
            y = x + 1
        with hr.device("CPU:0"):
            z = y + 1
    with hr.Session(graph, config=FOUR) as session:
        for _ in range(3):
            with pytest.raises(ValueError, match="broken on purpose") as caught:
                session.run(z)
            assert "TestPlanFail 'broken' created at test_partitioned.py" in "".join(caught.value.__notes__)


def test_A56_steps_at_the_same_time_do_not_mix_values() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [])
        with hr.device("CPU:1"):
            y = x * 2
        with hr.device("CPU:2"):
            z = y + x
    wrong: list[tuple[int, float]] = []
    with hr.Session(graph, config=FOUR) as session:
        step = session.make_callable(z, [x])

        def work(number: int) -> None:
            for _ in range(40):
                value = float(step(number))
                if value != 3 * number:
                    wrong.append((number, value))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_one_device_takes_the_plain_path() -> None:
    with hr.Graph().as_default() as graph:
        with hr.device("CPU:0"):
            x = hr.random.normal([3])
        y = x + 1
    with hr.Session(graph) as session, hr.Session(graph, config=FOUR) as virtual:
        assert not isinstance(_plan(session, [y]).compiled, PartsExecutor)
        assert not isinstance(_plan(virtual, [y]).compiled, PartsExecutor)
        assert _plan(virtual, [y]).parts == ()


def test_what_no_device_satisfies_is_an_error_before_anything_runs() -> None:
    with hr.Graph().as_default() as graph, hr.device("/job:ps/task:1"):
        y = hr.constant(1.0) + 1.0
    with (
        hr.Session(graph) as session,
        pytest.raises(hr.errors.PlacementError, match="'/job:ps/task:1' matches none of"),
    ):
        session.run(y)
    with hr.Session(graph, config=hr.config(soft_placement=True)) as session:
        assert session.run(y) == 2.0


def test_a_trace_covers_the_operations_of_all_devices() -> None:
    with hr.Graph().as_default() as graph:
        with hr.device("CPU:1"):
            x = hr.random.normal([3], name="x")
        with hr.device("CPU:2"):
            y = hr.negative(x, name="y")
    trace = hr.Trace()
    with hr.Session(graph, config=FOUR) as session:
        session.run(y, trace=trace)
    (record,) = trace.steps
    ran = {record.operations[position].name: record.operations[position].device[-5:] for position in record.positions}
    assert (ran["x"], ran["x/send"], ran["x/recv"], ran["y"]) == ("CPU:1", "CPU:1", "CPU:2", "CPU:2")
    assert len(record.kernels) == len(record.operations)
    assert record.arena_bytes >= 0


def test_a_step_over_devices_ends_at_its_deadline_and_when_cancelled() -> None:
    with hr.Graph().as_default() as graph:
        with hr.device("CPU:1"):
            x = hr.random.normal([3], name="x")
        with hr.device("CPU:2"):
            y = hr.negative(x, name="y")
    with hr.Session(graph, config=FOUR) as session, pytest.raises(hr.errors.DeadlineExceededError, match="before"):
        session.run(y, timeout=0.0)


def _waiting_graph() -> tuple[hr.Graph, hr.Tensor, hr.Tensor]:
    """A graph in which one device waits for a queue that nobody fills, and what another one makes of that."""
    with hr.Graph().as_default() as graph:
        with hr.device("CPU:1"):
            queue = hr.FIFOQueue(2, [hr.float32], shapes=[[]])
            taken = queue.dequeue()
        with hr.device("CPU:2"):
            after = hr.exp(taken)
        with hr.device("CPU:0"):
            broken = hr.apply_op("TestPlanFail", hr.random.uniform([]), name="broken")
    return graph, after, broken


def test_a_step_over_devices_can_be_cancelled_while_one_of_them_waits() -> None:
    graph, after, _ = _waiting_graph()
    with hr.Session(graph, config=FOUR) as session:
        step = session.run_async(after)
        step.cancel()
        with pytest.raises(hr.errors.CancelledError, match="was cancelled"):
            step.result(timeout=20.0)


def test_an_error_on_one_device_ends_the_wait_of_another_and_is_the_one_that_is_raised() -> None:
    graph, after, broken = _waiting_graph()
    with hr.Session(graph, config=FOUR) as session, pytest.raises(ValueError, match="broken on purpose"):
        session.run([after, broken], timeout=20.0)


def test_a_step_over_devices_that_waits_ends_with_its_session() -> None:
    graph, after, _ = _waiting_graph()
    session = hr.Session(graph, config=FOUR)
    step = session.run_async(after)
    session.close()
    with pytest.raises(hr.errors.CancelledError, match="was cancelled"):
        step.result(timeout=20.0)


@dataclass
class _Fake:
    """A compiled part that does what a test wants."""

    act: Callable[[Callable[[int], None]], None]
    operations: tuple[hr.Operation, ...] = ()

    def __call__(self, arguments: Sequence[Any], /) -> Sequence[Any]:
        return self.run_with_hook(arguments, lambda index: None)

    def run_with_hook(self, arguments: Sequence[Any], hook: Callable[[int], None], /) -> Sequence[Any]:
        self.act(hook)
        return ()


def test_no_operation_starts_after_another_device_has_failed() -> None:
    failed = threading.Event()
    seen: list[BaseException] = []

    def fail(hook: Callable[[int], None]) -> None:
        raise ValueError("first")

    def go_on(hook: Callable[[int], None]) -> None:
        failed.wait(20.0)
        try:
            hook(0)
        except hr.errors.AbortedError as error:
            seen.append(error)
            raise

    class Control(StepController):
        def give_up(self, reason: str) -> None:
            super().give_up(reason)
            failed.set()

    part = Partition(local_devices(["CPU:0"], {})[0], hr.Graph(), (), ())
    parts = [CompiledPart(part, "fake", _Fake(act)) for act in (fail, go_on)]
    with inside_step(Control()), pytest.raises(ValueError, match="first"):
        PartsExecutor(parts, 0)(())
    assert "another device of the step has failed" in str(seen[0])
    assert "got:      ValueError" in str(seen[0])


def test_numpy_does_not_warn_in_the_threads_of_a_step() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [2])
        with hr.device("CPU:1"):
            y = x - x
        with hr.device("CPU:2"):
            z = hr.log(y) - hr.log(y)
        with hr.device("CPU:1"):
            w = z - hr.log(y)
    with hr.Session(graph, config=FOUR) as session:
        assert np.isnan(session.run(w, feeds={x: [np.inf, 1.0]})).all()
