"""The device function that spreads variables over tasks."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.placement.replica_device import ReplicaDevice


def _where(sizes: list[int], spread: ReplicaDevice) -> list[str]:
    with hr.Graph().as_default(), hr.device(spread):
        variables = [hr.Variable(np.zeros(size, np.float32)) for size in sizes]
    return [variable.handle.op.device for variable in variables]


def test_A54_variables_go_to_the_tasks_in_turn() -> None:
    spread = hr.replica_device(3)
    assert _where([1, 1, 1, 1], spread) == [f"/job:ps/task:{number}" for number in (0, 1, 2, 0)]
    assert spread.loads == [8, 4, 4]
    assert spread.imbalance == pytest.approx(1.5)


def test_A54_by_bytes_each_variable_goes_to_the_task_that_keeps_least() -> None:
    sizes = [100, 10, 10, 10, 60, 60]
    spread = hr.replica_device(2, strategy="bytes")
    devices = _where(sizes, spread)
    assert [device[-1] for device in devices] == ["0", "1", "1", "1", "1", "1"]
    assert spread.loads == [400, 600]
    assert spread.imbalance == pytest.approx(1.2)
    in_turn = hr.replica_device(2)
    _where(sizes, in_turn)
    assert in_turn.imbalance > spread.imbalance
    assert "imbalance 1.2: /job:ps/task:0 400 B, /job:ps/task:1 600 B" in repr(spread)


def test_A54_a_strategy_of_ones_own() -> None:
    spread = hr.replica_device(2, strategy=lambda op, loads: len(loads) - 1)
    assert _where([1, 2], spread) == ["/job:ps/task:1"] * 2


def test_A54_all_but_state_stays_with_the_worker_and_slots_with_their_variable() -> None:
    with hr.Graph().as_default() as graph, hr.device(hr.replica_device(2, worker="/job:worker/task:3")):
        weights = hr.Variable(np.ones((4, 2), np.float32), name="weights")
        bias = hr.Variable(np.zeros(2, np.float32), name="bias")
        x = hr.placeholder(hr.float32, [None, 4])
        loss = hr.sum(hr.square(hr.matmul(x, weights) + bias))
        hr.optim.Momentum(0.1, momentum=0.9).minimize(loss, [weights, bias])
    jobs = {op.type: op.device for op in graph.operations if not op.colocation}
    assert jobs["MatMul"] == "/job:worker/task:3"
    slots = [op for op in graph.operations if op.type == "VarHandleOp" and op.colocation]
    assert {op.colocation for op in slots} == {("weights",), ("bias",)}
    assert {op.device for op in slots} == {""}


def test_A78_the_update_runs_where_the_parameter_lives_and_only_the_gradient_crosses() -> None:
    devices = {"CPU": 3}
    with hr.Graph().as_default() as graph, hr.device(hr.replica_device(["CPU:1", "CPU:2"], worker="CPU:0")):
        weights = hr.Variable(np.ones((40, 20), np.float32), name="weights")
        x = hr.placeholder(hr.float32, [8, 40])
        loss = hr.mean(hr.square(hr.matmul(x, weights)))
        train = hr.optim.Momentum(0.1, momentum=0.9).minimize(loss, [weights])
    with hr.Session(graph, config=hr.config(virtual_devices=devices)) as session:
        parts = {name[-5:]: part for name, part in session.partitions(train, {x: np.ones((8, 40))}).items()}
        session.run(train, feeds={x: np.ones((8, 40))})
    home = parts["CPU:1"]
    assert {"VarHandleOp", "ReadVariableOp", "AssignSubVariableOp", "AssignVariableOp"} <= {
        op.type for op in home.operations
    }
    big = [op.attrs["tensor_name"] for op in home.operations if op.type == "_Recv" and op.outputs[0].shape.rank == 2]
    assert len(big) == 1
    assert "gradients" in big[0] or "MatMul" in big[0]


def test_A54_inner_blocks_win_and_are_not_counted() -> None:
    spread = hr.replica_device(2)
    with hr.Graph().as_default(), hr.device(spread), hr.device("/job:other/task:5"):
        variable = hr.Variable(1.0)
    assert variable.handle.op.device == "/job:other/task:5"
    assert spread.loads == [0, 0]
    assert spread.imbalance == 1.0


def test_without_tasks_all_stays_with_the_worker() -> None:
    assert _where([1], hr.replica_device(0)) == ["/job:worker"]


def test_a_strategy_that_does_not_exist_is_refused() -> None:
    with pytest.raises(hr.errors.InvalidArgumentError, match="no strategy 'byte'(.|\n)*bytes"):
        hr.replica_device(2, strategy="byte")
    with pytest.raises(hr.errors.InvalidArgumentError, match="'nowhere' is no device name"):
        hr.replica_device(["nowhere"])


def test_state_of_unknown_size_counts_as_nothing() -> None:
    spread = hr.replica_device(1, strategy="bytes")
    with hr.Graph().as_default() as graph, hr.device(spread):
        graph.create_op("VarHandleOp", (), {"dtype": hr.float32, "shape": hr.Shape()})
    assert spread.loads == [0]
