"""Optimiser updates of TensorFlow 1 on reference variables do, read from a graph file, what those on handles do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.graph.op_def import lookup_op_def
from headrace.graph.proto.graph_pb2 import GraphDef
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
