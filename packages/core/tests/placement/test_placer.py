"""The placer, on small graphs that are data: graphs.txt says where every operation goes and why others cannot."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from headrace.graph.device_name import DeviceName, parse_device
from headrace.passes.prune import prune
from headrace.placement.device import LOCAL_TASK, Device, local_devices
from headrace.placement.placer import Placement, place


def _same_shape(op: hr.InferenceContext) -> list[hr.Shape]:
    """The input."""
    return [op.inputs[0].shape]


for _name in ("TestGpuOnly", "TestCpuOnly", "TestGpuHalf"):
    hr.register_op(_name, inputs={"x": "T"}, outputs={"y": "T"})(_same_shape)


@hr.register_op("TestSource", outputs={"y": "T"}, attrs={"T": hr.attr.any_type, "shape": hr.attr.shape()})
def _source_shape(op: hr.InferenceContext) -> list[hr.Shape]:
    """Something of the given shape."""
    return [op.attr("shape")]


@hr.register_op("TestMomentum", inputs={"v": "resource", "m": "resource", "g": "float32"}, stateful=True)
def _momentum_shape(op: hr.InferenceContext) -> list[hr.Shape]:
    """Takes two handles."""
    return []


hr.register_kernel("TestSource")(lambda op: np.zeros(op.attr("shape").as_tuple(), op.attr("T").array_type))
hr.register_kernel("TestMomentum")(lambda op, v, m, g: None)
hr.register_kernel("TestGpuOnly", device="GPU")(lambda op, x: x.copy())
hr.register_kernel("TestCpuOnly", device="CPU")(lambda op, x: x.copy())
hr.register_kernel("TestGpuHalf", device="GPU", dtypes={"T": [hr.float16]})(lambda op, x: x.copy())
hr.register_kernel("TestGpuHalf", device="CPU", dtypes={"T": [hr.float32]})(lambda op, x: x.copy())


@dataclass
class Golden:
    """One graph of the file."""

    title: str
    devices: list[Device] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    soft: bool = False
    elsewhere: dict[str, str] = field(default_factory=dict)
    state: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def read_goldens() -> list[Golden]:
    goldens: list[Golden] = []
    for line in (Path(__file__).parent / "graphs.txt").read_text().splitlines():
        word, _, rest = line.partition(" ")
        if not line or line.startswith("#"):
            continue
        if word == "==":
            goldens.append(Golden(rest))
        elif word == "devices":
            goldens[-1].devices = [_device(name) for name in rest.split()]
        elif word in ("elsewhere", "state"):
            name, device = rest.split()
            full = str(LOCAL_TASK.merge(parse_device(device))) if word == "state" else device
            getattr(goldens[-1], word)[name] = full
        elif word == "soft":
            goldens[-1].soft = True
        elif word in ("note", "error"):
            getattr(goldens[-1], f"{word}s").append(rest)
        else:
            goldens[-1].lines.append(line)
    return goldens


def _device(name: str) -> Device:
    if not name.startswith("/"):
        return local_devices([name], {})[0]
    whole = DeviceName(replica=0).merge(parse_device(name))
    return Device(whole, flops=1e13, launch_seconds=5e-6) if whole.type == "GPU" else Device(whole)


GOLDENS = read_goldens()


def build(golden: Golden) -> tuple[hr.Graph, dict[str, str]]:
    """The graph, and where each operation is expected."""
    graph, expected = hr.Graph(), {}
    with graph.as_default():
        for line in golden.lines:
            text, _, where = line.partition(" => ")
            name, _, rest = text.partition(" = ")
            expected[name] = where
            _add(graph, name, rest.split())
    return graph, expected


def _add(graph: hr.Graph, name: str, words: list[str]) -> None:
    kind, *rest = words
    shape = next((hr.Shape(map(int, word[1:-1].split(","))) for word in rest if word.startswith("[")), hr.Shape([]))
    asked, beside, after = ([word[1:] for word in rest if word[0] == mark] for mark in "@&^")
    inputs = [graph.operation(word).outputs[0] for word in rest if word[0] not in "[@&^" and word != "int32"]
    dtype = hr.int32 if "int32" in rest else hr.float32
    controls = [graph.operation(item) for item in after]
    with hr.device("".join(asked) or None), hr.control_dependencies(controls):
        op_type, attrs = _signature(kind, inputs, shape, dtype)
        graph.create_op(op_type, inputs, attrs, name=name, colocation=beside)


def _signature(kind: str, inputs: list[hr.Tensor], shape: hr.Shape, dtype: hr.DType) -> tuple[str, dict[str, object]]:
    """The operation type that a word of the file stands for, and its attributes."""
    of_handle = {"Read": "ReadVariableOp", "Assign": "AssignVariableOp", "AssignAdd": "AssignAddVariableOp"}
    if kind == "Const":
        return "Const", {"value": np.zeros(shape.as_tuple(), dtype.array_type), "dtype": dtype}
    if kind == "Var":
        return "VarHandleOp", {"dtype": dtype, "shape": shape}
    if kind in of_handle:
        return of_handle[kind], {"dtype": dtype}
    if kind == "Gather":
        return "ResourceGather", {"dtype": dtype, "Tindices": hr.int32}
    if kind in ("Source", "Momentum", "GpuOnly", "CpuOnly", "GpuHalf"):
        attrs: dict[str, object] = {"Source": {"T": dtype, "shape": shape}, "Momentum": {}}.get(kind, {})
        return f"Test{kind}", attrs or ({"T": inputs[0].dtype} if kind != "Momentum" else {})
    if kind == "Cast":
        return "Cast", {"SrcT": inputs[0].dtype, "DstT": hr.float16}
    return kind, {} if kind == "NoOp" else {"T": inputs[0].dtype}


def placed(golden: Golden, graph: hr.Graph) -> Placement:
    return place(graph, golden.devices, soft=golden.soft, elsewhere=golden.elsewhere, state=golden.state)


def shown(device: Device) -> str:
    local = device.name.job == LOCAL_TASK.job
    return device.name.short if local else f"{device.name.job}/{device.name.task}/{device.name.short}"


@pytest.mark.parametrize("golden", [item for item in GOLDENS if not item.errors], ids=lambda golden: golden.title)
def test_A51_A52_A53_A78_A80_operations_go_where_the_file_says(golden: Golden) -> None:
    graph, expected = build(golden)
    placement = placed(golden, graph)
    assert {op.name: shown(device) for op, device in placement.devices.items()} == expected
    assert list(placement.notes) == golden.notes


@pytest.mark.parametrize("golden", [item for item in GOLDENS if item.errors], ids=lambda golden: golden.title)
def test_A51_what_is_impossible_is_explained(golden: Golden) -> None:
    graph, _ = build(golden)
    with pytest.raises(hr.errors.PlacementError) as caught:
        placed(golden, graph)
    for pattern in golden.errors:
        assert re.search(pattern, str(caught.value)), f"{pattern!r} is not in\n{caught.value}"


def test_A51_there_are_thirty_graphs() -> None:
    assert len(GOLDENS) >= 30
    assert len({golden.title for golden in GOLDENS}) == len(GOLDENS)


def test_placed_state_is_remembered() -> None:
    graph = hr.Graph()
    state: dict[str, str] = {}
    with graph.as_default(), hr.device("CPU:1"):
        hr.Variable(1.0, name="v")
    place(graph, local_devices(["CPU:0"], {"CPU": 2}), state=state)
    assert state == {"v": str(LOCAL_TASK.merge(parse_device("CPU:1")))}


def test_choices_are_logged_on_request(caplog: pytest.LogCaptureFixture) -> None:
    graph = hr.Graph()
    with graph.as_default(), hr.device("GPU:1"):
        hr.constant(1.0, name="c")
    with caplog.at_level("INFO", logger="headrace.placement"):
        place(graph, local_devices(["CPU:0"], {}), soft=True)
        assert caplog.text == ""
        place(graph, local_devices(["CPU:0"], {}), soft=True, log=True)
    assert "c Const: /job:localhost/replica:0/task:0/device:CPU:0" in caplog.text
    assert "'c' asks for '/device:GPU:1', which cannot be" in caplog.text


def test_virtual_devices_stand_for_the_one_they_share() -> None:
    devices = local_devices(["CPU:0", "GPU:0"], {"CPU": 2})
    assert [device.name.short for device in devices] == ["CPU:0", "CPU:1", "GPU:0"]
    with pytest.raises(hr.errors.InvalidArgumentError, match=r"no device of type 'TPU'(.|\n)*CPU, GPU"):
        local_devices(["CPU:0", "GPU:0"], {"TPU": 2})


@pytest.mark.parametrize("wrong", [4, {"CPU": 0}, {"CPU": True}, {"CPU:0": 1}, {0: 1}])
def test_virtual_devices_are_counted_by_type(wrong: object) -> None:
    with pytest.raises(hr.errors.InvalidArgumentError, match=r"virtual_devices is wrong(.|\n)*\{'CPU': 4\}"):
        hr.config(virtual_devices=wrong)
    assert hr.config(virtual_devices={"cpu": 4}).virtual_devices == {"CPU": 4}


def test_an_impossible_request_for_what_is_folded_names_the_operation_of_the_user() -> None:
    with hr.Graph().as_default() as graph, hr.device("GPU:7"):
        y = hr.add(hr.constant(1.0), 2.0, name="total")
    spread = hr.config(virtual_devices={"CPU": 2})
    with hr.Session(graph, config=spread) as session, pytest.raises(hr.errors.PlacementError) as caught:
        session.run(y)
    assert re.match(
        r"'total', which is folded to a constant, cannot be placed\n  where: +'total' created at test_placer.py",
        str(caught.value),
    )
    assert "folded_" not in str(caught.value)


def test_an_impossible_request_for_what_is_fed_names_what_the_user_feeds() -> None:
    with hr.Graph().as_default() as graph, hr.device("GPU:7"):
        x = hr.placeholder(hr.float32, [2], name="x")
        y = hr.add(hr.negative(x, name="inner"), 2.0, name="y")
    with hr.Session(graph, config=hr.config(virtual_devices={"CPU": 2})) as session:
        for fed in ("x", "inner"):
            with pytest.raises(
                hr.errors.PlacementError,
                match=rf"^'{fed}', which is fed, cannot be placed\n  where: +'{fed}' created at test_placer.py",
            ) as caught:
                session.run(y, feeds={f"{fed}:0": [1.0, 2.0]})
            assert "argument_" not in str(caught.value)


def test_two_handles_that_are_fed_from_different_devices_are_told_by_their_names() -> None:
    with hr.Graph().as_default() as graph:
        with hr.device("CPU:0"):
            value = hr.placeholder(hr.resource, [], name="value")
        with hr.device("CPU:1"):
            slot = hr.placeholder(hr.resource, [], name="slot")
        update = graph.create_op("TestMomentum", (value, slot, hr.constant(1.0)), {}, name="update")
    bounded = prune(graph, [], [update], [value, slot])
    with pytest.raises(
        hr.errors.PlacementError,
        match=r"^'slot', which is fed(.|\n)*'slot' gives 'update' the handle, 'update' takes the handle of 'value'",
    ) as caught:
        place(bounded, local_devices(["CPU:0"], {"CPU": 2}))
    assert "argument_" not in str(caught.value)
