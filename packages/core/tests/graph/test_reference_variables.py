"""Optimiser updates of TensorFlow 1 on reference variables do, read from a graph file, what those on handles do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.graph.op_def import lookup_op_def
from headrace.graph.proto.graph_pb2 import GraphDef
from headrace.graph.proto.node_pb2 import NodeDef
from headrace.graph.reference_variables import count_of_references, takes_reference
from headrace.graph.tensor_proto import encode_tensor

DENSE = (
    "GradientDescent", "Momentum", "Adagrad", "AdagradV2", "Adadelta", "RMSProp", "CenteredRMSProp", "Adam", "AdaMax",
    "Ftrl", "FtrlV2", "ProximalGradientDescent", "ProximalAdagrad",
)  # fmt: skip
SPARSE = (
    "Momentum", "Adagrad", "AdagradV2", "Adadelta", "RMSProp", "CenteredRMSProp", "Ftrl", "FtrlV2",
    "ProximalGradientDescent", "ProximalAdagrad",
)  # fmt: skip
TYPES = [*(f"Apply{name}" for name in DENSE), *(f"SparseApply{name}" for name in SPARSE)]
SCALARS = {"lr_power": -0.5, "beta1_power": 0.9, "beta2_power": 0.99, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-3}
INDICES = np.array([3, 0, 3], np.int32)


def value_of(name: str, position: int, sparse: bool) -> np.ndarray[Any, Any]:
    if name == "indices":
        return INDICES
    if name in ("grad", "delta"):
        shape = (len(INDICES), 2) if sparse else (4, 2)
        return np.linspace(-1, 1, 2 * shape[0], dtype=np.float32).reshape(shape)
    return np.array(SCALARS.get(name, 0.1 + 0.05 * position), np.float32)


def add_constant(proto: GraphDef, name: str, value: np.ndarray[Any, Any]) -> None:
    node = proto.node.add(name=name, op="Const")
    node.attr["dtype"].type = 3 if value.dtype == np.int32 else 1
    node.attr["value"].tensor.CopyFrom(encode_tensor(value))


@pytest.mark.parametrize("op_type", TYPES)
def test_updates_on_references_are_those_on_handles(op_type: str) -> None:
    assert takes_reference(op_type)
    arguments = [argument.name for argument in lookup_op_def(f"Resource{op_type}").inputs]
    count, sparse = count_of_references(op_type), op_type.startswith("Sparse")
    state = {
        name: np.arange(1, 9, dtype=np.float32).reshape(4, 2) / (n + 2) for n, name in enumerate(arguments[:count])
    }
    given = {name: value_of(name, n, sparse) for n, name in enumerate(arguments[count:])}
    proto = GraphDef()
    for name, value in state.items():
        add_constant(proto, f"{name}_value", value)
        variable = proto.node.add(name=name, op="VariableV2")
        variable.attr["dtype"].type = 1
        for size in value.shape:
            variable.attr["shape"].shape.dim.add(size=size)
        proto.node.add(name=f"init_{name}", op="Assign", input=[name, f"{name}_value"]).attr["T"].type = 1
        proto.node.add(name=f"read_{name}", op="Identity", input=[name]).attr["T"].type = 1
    for name, value in given.items():
        add_constant(proto, name, value)
    update = proto.node.add(name="train", op=op_type, input=[*state, *given])
    update.attr["T"].type = 1
    if sparse:
        update.attr["Tindices"].type = 3
    session = hr.Session(hr.import_graph_def(proto))
    session.run([f"init_{name}" for name in state])
    session.run("train")
    found = session.run([f"read_{name}:0" for name in state])

    with hr.Graph().as_default() as graph:
        variables = [hr.Variable(value, name=name) for name, value in state.items()]
        change = hr.apply_op(f"Resource{op_type}", *(variable.handle for variable in variables), *given.values())
    other = hr.Session(graph)
    other.run(change)
    for name, left, right in zip(state, found, other.run(variables), strict=True):
        np.testing.assert_array_equal(left, right, err_msg=name)
        assert (left != state[name]).any() or name != "var"


def test_reference_variables_of_tensorflow_1_become_handles() -> None:
    proto = GraphDef()
    variable = proto.node.add(name="v", op="VariableV2")
    variable.attr["dtype"].type = 1
    variable.attr["shape"].shape.SetInParent()
    one = proto.node.add(name="one", op="Const")
    one.attr["dtype"].type = 1
    one.attr["value"].tensor.CopyFrom(encode_tensor(np.array(1.0, np.float32)))
    for name, op, inputs in (
        ("init", "Assign", ["v", "one"]),
        ("count", "AssignAdd", ["v", "one"]),
        ("after", "Identity", ["count"]),
        ("read", "Identity", ["v"]),
    ):
        node = proto.node.add(name=name, op=op, input=inputs)
        node.attr["T"].type = 1
    session = hr.Session(hr.import_graph_def(proto))
    with pytest.raises(hr.errors.FailedPreconditionError, match="variables without a value: 'v'"):
        session.run("read:0")
    session.run("init")
    assert session.run("after:0") == 2.0
    assert session.run("read:0") == 2.0


def test_optimizer_updates_on_reference_variables_become_those_on_handles() -> None:
    proto = GraphDef()
    for name, number in (("v", 2.0), ("slot", 1.0), ("rate", 0.5), ("mu", 0.5)):
        constant = proto.node.add(name=f"{name}_value", op="Const")
        constant.attr["dtype"].type = 1
        constant.attr["value"].tensor.CopyFrom(encode_tensor(np.array(number, np.float32)))
    for name in ("v", "slot"):
        variable = proto.node.add(name=name, op="VariableV2")
        variable.attr["dtype"].type = 1
        variable.attr["shape"].shape.SetInParent()
        proto.node.add(name=f"init_{name}", op="Assign", input=[name, f"{name}_value"]).attr["T"].type = 1
    update = proto.node.add(name="train", op="ApplyMomentum", input=["v", "init_slot", "rate_value", "v", "mu_value"])
    update.attr["T"].type = 1
    update.attr["use_nesterov"].b = True
    proto.node.add(name="after", op="Identity", input=["train"]).attr["T"].type = 1
    graph = hr.import_graph_def(proto)
    assert graph.operation("train").type == "ResourceApplyMomentum"
    assert graph.operation("train").attrs["use_nesterov"]
    session = hr.Session(graph)
    session.run(["init_v", "init_slot"])
    assert session.run("after:0") == 2 - 0.5 * (2 + 0.5 * 2.5)  # the slot is assigned before, as its reference says


@pytest.mark.parametrize(
    "node",
    [
        NodeDef(name="a", op="Assign"),
        NodeDef(name="a", op="ScatterAdd", input=["v"]),
        NodeDef(name="a", op="Assign", input=["v"]),
        NodeDef(name="a", op="VariableV2"),
        NodeDef(name="a", op="VariableV2", input=["v"]),
    ],
    ids=str,
)
def test_incomplete_operations_on_reference_variables_are_kept_or_refused(node: NodeDef) -> None:
    proto = GraphDef()
    variable = proto.node.add(name="v", op="VariableV2")
    variable.attr["dtype"].type = hr.float32.number
    variable.attr["shape"].shape.dim.add(size=2)
    proto.node.add().CopyFrom(node)
    if node.op == "Assign" and not node.input:
        assert hr.import_graph_def(proto).operation("a").type == "Assign"  # as unknown as any other type
        return
    with pytest.raises(hr.errors.HeadraceError) as caught:
        hr.import_graph_def(proto)
    assert any("while importing" in note for note in caught.value.__notes__)
