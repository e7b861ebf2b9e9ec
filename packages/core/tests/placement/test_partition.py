"""Partition: what each device gets, and that all of it together is the graph."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.graph.verifier import verify_bounded
from headrace.passes.prune import prune
from headrace.placement.cost import is_copied
from headrace.placement.device import Device, local_devices
from headrace.placement.partition import Partition, partition
from headrace.placement.placer import place

DEVICES = local_devices(["CPU:0"], {"CPU": 3})


def divided(graph: hr.Graph, fetches: list[hr.Tensor], targets: list[hr.Operation] | None = None) -> list[Partition]:
    bounded = prune(graph, fetches, targets or [], [], [])
    return partition(bounded, place(bounded, DEVICES).devices)


def by_device(parts: list[Partition]) -> dict[str, list[str]]:
    return {part.device.name.short: [f"{op.type} {op.name}" for op in part.graph.operations] for part in parts}


def counted(parts: list[Partition], op_type: str) -> int:
    return sum(op.type == op_type for part in parts for op in part.graph.operations)


def test_A55_an_edge_with_five_remote_readers_is_sent_once() -> None:
    with hr.Graph().as_default() as graph:
        with hr.device("CPU:1"):
            x = hr.random.normal([4], name="x")
        with hr.device("CPU:0"):
            readers = [hr.negative(x) for _ in range(5)]
    parts = divided(graph, readers)
    assert counted(parts, "_Send") == counted(parts, "_Recv") == 1
    (received,) = [op for part in parts for op in part.graph.operations if op.type == "_Recv"]
    assert (received.attrs["tensor_name"], received.outputs[0].shape) == ("x:0", hr.Shape([4]))


def test_A55_a_tensor_goes_once_to_each_of_several_devices() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.random.normal([4], name="x")
        readers = []
        for device in ("CPU:1", "CPU:2", "CPU:1"):
            with hr.device(device):
                readers.append(hr.negative(x))
    parts = divided(graph, readers)
    sends = [op.attrs["recv_device"][-5:] for part in parts for op in part.graph.operations if op.type == "_Send"]
    assert sends == ["CPU:1", "CPU:2"]


def test_A55_a_send_stands_right_behind_what_makes_the_tensor_and_a_recv_before_its_first_reader() -> None:
    with hr.Graph().as_default() as graph:
        with hr.device("CPU:0"):
            x = hr.random.normal([4], name="x")
            y = hr.negative(x, name="y")
        with hr.device("CPU:1"):
            z = hr.random.normal([4], name="z")
            w = hr.add(x, z, name="w")
    parts = by_device(divided(graph, [y, w]))
    zero, one = parts["CPU:0"], parts["CPU:1"]
    assert [name for name in zero if "x" in name or "y" in name][-3:] == [
        "RandomStandardNormal x",
        "_Send x/send",
        "Neg y",
    ]
    assert [name for name in one if not name.startswith("Const")] == [
        "RandomStandardNormal z", "_Recv x/recv", "AddV2 w", "_Retval result_1",
    ]  # fmt: skip


def test_A55_a_control_edge_that_crosses_is_the_transfer_of_an_empty_tensor() -> None:
    with hr.Graph().as_default() as graph:
        with hr.device("CPU:0"):
            first = hr.group([hr.random.normal([4])], name="first")
        with hr.device("CPU:1"), hr.control_dependencies([first]):
            second, third = hr.random.normal([4], name="second"), hr.random.normal([4], name="third")
    parts = divided(graph, [second, third])
    (received,) = [op for part in parts for op in part.graph.operations if op.type == "_Recv"]
    assert (received.attrs["tensor_name"], received.outputs[0].spec) == (
        "^first",
        hr.TensorSpec(hr.float32, hr.Shape([0])),
    )
    readers = {op.name for op in received.graph.operations if received in op.control_inputs}
    assert {"second", "third"} <= readers


def test_A55_a_tensor_that_crosses_carries_the_control_edges_of_its_operation() -> None:
    with hr.Graph().as_default() as graph:
        with hr.device("CPU:0"):
            x = hr.random.normal([4], name="x")
        with hr.device("CPU:1"), hr.control_dependencies([x]):
            y = hr.random.normal([4], name="y")
            z = hr.add(x, y, name="z")
    parts = divided(graph, [z])
    assert counted(parts, "_Send") == 1
    (part,) = [part for part in parts if part.device.name.index == 1]
    assert [op.name for op in part.graph.operation("y").control_inputs] == ["x/recv"]


def test_received_in_turn_each_tensor_waits_for_those_that_the_graph_makes_earlier() -> None:
    with hr.Graph().as_default() as graph:
        with hr.device("CPU:1"):
            made = [hr.random.normal([4], name=f"made_{number}") for number in range(3)]
        with hr.device("CPU:0"):
            last = hr.negative(made[2])
            first = hr.negative(made[0]) + made[1]
    bounded = prune(graph, [last, first], [], [], [])
    parts = partition(bounded, place(bounded, DEVICES).devices, receive_in_turn=True)
    received = [op for part in parts for op in part.graph.operations if op.type == "_Recv"]
    assert [(op.name, [item.name for item in op.control_inputs]) for op in received] == [
        ("made_0/recv", []),
        ("made_1/recv", ["made_0/recv"]),
        ("made_2/recv", ["made_1/recv"]),
    ]
    free = [op for part in partition(bounded, place(bounded, DEVICES).devices) for op in part.graph.operations]
    assert not any(op.control_inputs for op in free if op.type == "_Recv")


def _run_dry(parts: list[Partition]) -> int:
    """Run what can run until nothing can, and say how many operations are left."""
    left = {op: part.device for part in parts for op in part.graph.operations}
    sent: set[tuple[str, str]] = set()
    ran: set[hr.Operation] = set()
    progress = True
    while progress:
        progress = False
        for op in list(left):
            needs = [*(tensor.op for tensor in op.inputs), *op.control_inputs]
            if not all(item in ran for item in needs):
                continue
            word = (op.attrs.get("tensor_name", ""), op.attrs.get("recv_device", ""))
            if op.type == "_Recv" and word not in sent:
                continue
            if op.type == "_Send":
                sent.add(word)
            ran.add(op)
            del left[op]
            progress = True
    return len(left)


def test_small_constants_are_repeated_and_large_ones_sent() -> None:
    with hr.Graph().as_default() as graph:
        small, large = hr.constant(np.ones(256, np.float32)), hr.constant(np.ones(257, np.float32))
        with hr.device("CPU:0"):
            a = hr.sum(small) + hr.sum(large)
        with hr.device("CPU:1"):
            b = hr.sum(small) + hr.sum(large)
    parts = divided(graph, [a, b])
    sent = [op.inputs[0].op.attrs["value"].size for part in parts for op in part.graph.operations if op.type == "_Send"]
    assert sent == [257]


def test_arguments_and_results_are_numbered_in_each_part() -> None:
    with hr.Graph().as_default() as graph:
        x, y = hr.placeholder(hr.float32, [2]), hr.placeholder(hr.float32, [3])
        with hr.device("CPU:1"):
            a = hr.negative(y)
        with hr.device("CPU:2"):
            b, c = hr.negative(x), hr.sum(y)
    bounded = prune(graph, [a, b, c], [], [x, y], [hr.Shape([2]), hr.Shape([3])])
    parts = {part.device.name.index: part for part in partition(bounded, place(bounded, DEVICES).devices)}
    assert {index: (part.arguments, part.results) for index, part in parts.items()} == {
        1: ((1,), (0,)),
        2: ((0, 1), (1, 2)),
    }
    for part in parts.values():
        verify_bounded(part.graph, stage="partition")


def described(graph: hr.Graph) -> dict[str, tuple[object, ...]]:
    """What every operation of a graph is, but for control edges from what is repeated anywhere."""
    return {
        op.name: (
            op.type,
            str(sorted((name, str(value)) for name, value in op.attrs.items())),
            tuple(tensor.name for tensor in op.inputs),
            frozenset(item.name for item in op.control_inputs if not is_copied(item)),
        )
        for op in graph.operations
    }


def union(parts: list[Partition]) -> dict[str, tuple[object, ...]]:
    """The graph that the parts make, once every `_Recv` is replaced by what the `_Send` of its name sends."""
    together: dict[str, tuple[object, ...]] = {}
    for part in parts:
        for op in part.graph.operations:
            if op.type in ("_Send", "_Recv") or re.search(r"/ran(_\d+)?$", op.name):
                continue
            attrs = dict(op.attrs)
            if op.type in ("_Arg", "_Retval"):
                attrs["index"] = (part.arguments if op.type == "_Arg" else part.results)[attrs["index"]]
            found = (
                op.type,
                str(sorted((name, str(value)) for name, value in attrs.items())),
                tuple(_origin(tensor.name, tensor.op) for tensor in op.inputs),
                frozenset(_ran(item) for item in op.control_inputs if not is_copied(item)),
            )
            assert together.setdefault(op.name, found) == found, "two parts hold different copies"
    return together


def _origin(name: str, op: hr.Operation) -> str:
    return op.attrs["tensor_name"] if op.type == "_Recv" else name


def _ran(op: hr.Operation) -> str:
    return op.attrs["tensor_name"].lstrip("^").partition(":")[0] if op.type == "_Recv" else op.name


@st.composite
def placed_graphs(draw: st.DrawFn) -> tuple[hr.Graph, dict[hr.Operation, Device]]:
    """A bounded graph with data and control edges, each operation on any device."""
    graph = hr.Graph()
    with graph.as_default():
        tensors = [
            hr.random.normal([4]),
            hr.constant(np.ones(4, np.float32)),
            hr.constant(np.ones(400, np.float32)[:4]),
        ]
        for _ in range(draw(st.integers(1, 12))):
            controls = draw(st.lists(st.sampled_from(tensors), max_size=2))
            with hr.control_dependencies(controls):
                chosen = draw(st.sampled_from(["unary", "binary", "source", "end"]))
                picked = draw(st.tuples(st.sampled_from(tensors), st.sampled_from(tensors)))
                if chosen == "end":
                    hr.group([*picked])
                elif chosen == "source":
                    tensors.append(hr.random.normal([4]))
                else:
                    tensors.append(hr.negative(picked[0]) if chosen == "unary" else hr.add(*picked))
        fetches = draw(st.lists(st.sampled_from(tensors), min_size=1, max_size=3))
    ends = [op for op in graph.operations if op.type == "NoOp"]
    bounded = prune(graph, fetches, ends, [], [])
    return bounded, {op: draw(st.sampled_from(DEVICES)) for op in bounded.operations}


@settings(max_examples=60)
@given(placed_graphs(), st.booleans())
def test_A55_the_union_of_the_parts_is_the_graph(
    placed: tuple[hr.Graph, dict[hr.Operation, Device]], in_turn: bool
) -> None:
    graph, devices = placed
    parts = partition(graph, devices, receive_in_turn=in_turn)
    assert _run_dry(parts) == 0
    read = {source for op in graph.operations for source in (*(tensor.op for tensor in op.inputs), *op.control_inputs)}
    whole = {name: item for name, item in described(graph).items() if not is_copied(graph.operation(name))}
    found = union(parts)
    assert {name: item for name, item in found.items() if name in whole} == whole
    assert found.keys() - whole.keys() <= {op.name for op in read if is_copied(op)}
    for part in parts:
        verify_bounded(part.graph, stage="partition")
        assert {op.device for op in part.graph.operations} == {str(part.device)}
    sends = [
        op.attrs["tensor_name"] + op.attrs["recv_device"]
        for part in parts
        for op in part.graph.operations
        if op.type == "_Send"
    ]
    recvs = [
        op.attrs["tensor_name"] + op.attrs["recv_device"]
        for part in parts
        for op in part.graph.operations
        if op.type == "_Recv"
    ]
    assert len(sends) == len(set(sends))
    assert sorted(sends) == sorted(recvs)
