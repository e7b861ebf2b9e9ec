"""Steps over several devices of one process: the same numbers, one error, one path where there is one device."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import headrace as hr
from headrace.plan.plan import Plan
from headrace.runtime.partitioned import PartsExecutor
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
