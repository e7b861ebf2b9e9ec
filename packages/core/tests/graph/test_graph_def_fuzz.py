"""Graph files built at random: an import gives a graph or a typed error, in little memory, and changes nothing else."""

from __future__ import annotations

import contextlib
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from headrace.graph.attr import AttrSpec
from headrace.graph.op_def import OpDef, op_defs
from headrace.graph.proto import attr_pb2
from headrace.graph.proto.graph_pb2 import GraphDef
from headrace.graph.proto.node_pb2 import NodeDef
from headrace.graph.proto.tensor_pb2 import TensorProto, TensorShapeProto

OP_DEFS = list(op_defs())
CONST = next(op_def for op_def in OP_DEFS if op_def.name == "Const")
REFERENCES = ["Nope", "VariableV2", "Variable", "Assign", "AssignAdd", "ScatterAdd", "IsVariableInitialized"]
SIZES = [-1, 0, 1, 2, 2, 3, 2**31, 2**40, 2**62, -5]
INTS = [0, 1, -1, 2, 3, 2**31, 2**40, 2**63 - 1, -(2**63)]
TYPES = [0, 1, 1, 1, 2, 3, 3, 7, 8, 9, 10, 14, 19, 20, 21, 23, 101, 119]
LISTS = ["float_val", "int_val", "half_val", "double_val", "int64_val", "bool_val", "scomplex_val", "uint64_val"]


def _shape(rng: random.Random) -> TensorShapeProto:
    if rng.random() < 0.2:
        return TensorShapeProto(unknown_rank=True)
    sizes = [rng.choice(SIZES) for _ in range(rng.choice([0, 1, 1, 2, 3, 80]))]
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes])


def _tensor(rng: random.Random) -> TensorProto:
    proto = TensorProto(dtype=rng.choice(TYPES))
    if rng.random() < 0.6:
        proto.tensor_shape.CopyFrom(_shape(rng))
    for name in rng.sample(LISTS, 3):
        getattr(proto, name).extend(rng.choice([0, 1]) for _ in range(rng.choice([0, 1, 1, 2])))
    proto.string_val.extend([b"a"] * rng.choice([0, 0, 1]))
    proto.tensor_content = bytes(rng.choice([0, 0, 0, 4, 8]))
    return proto


def _value(rng: random.Random, kind: str, depth: int = 0) -> dict[str, Any]:
    match kind:
        case "int":
            return {"i": rng.choice(INTS)}
        case "float":
            return {"f": rng.choice([0.0, float("nan"), 1e38])}
        case "bool":
            return {"b": rng.random() < 0.5}
        case "string":
            return {"s": rng.choice([b"", b"SAME", b"\xff\xfe", b"NHWC", b"x" * 100])}
        case "type":
            return {"type": rng.choice(TYPES)}
        case "shape":
            return {"shape": _shape(rng)}
        case "tensor":
            return {"tensor": _tensor(rng)}
    function = attr_pb2.NameAttrList(name="f")
    if depth < 20:
        function.attr["deeper"].CopyFrom(attr_pb2.AttrValue(**_value(rng, "function", depth + 1)))
    return {"func": function}


KINDS = ["int", "float", "bool", "string", "type", "shape", "tensor", "function"]


def _attr(rng: random.Random, spec: AttrSpec | None) -> attr_pb2.AttrValue:
    kind = spec.kind if spec is not None and rng.random() < 0.9 else rng.choice(KINDS)
    if not (spec is not None and spec.is_list):
        return attr_pb2.AttrValue(**_value(rng, kind))
    proto = attr_pb2.AttrValue()
    proto.list.SetInParent()
    for _ in range(rng.randrange(4)):
        for name, item in _value(rng, kind).items():
            getattr(proto.list, name).append(item)
    return proto


def _node(rng: random.Random, index: int, op_def: OpDef) -> NodeDef:
    node = NodeDef(name=f"n{index}", op=op_def.name)
    if rng.random() < 0.03:
        node.name = rng.choice(["", "n0", "a b", "/", "^n0", "x:0", "x" * 10_000])
    if rng.random() < 0.1:
        node.op = rng.choice(REFERENCES)
    if rng.random() < 0.1:
        node.device = rng.choice(["/job:a", "x", "ü"])
    for _ in range(len(op_def.inputs) if rng.random() < 0.8 else rng.randrange(4)):
        earlier = f"n{rng.randrange(max(index, 1))}"
        odd = [f"{earlier}:1", f"^{earlier}", "n0:99999", "n0:x", ":", "^", "n0:-1", "n7"]
        node.input.append(earlier if rng.random() < 0.8 else rng.choice(odd))
    for name, spec in op_def.attrs.items():
        if rng.random() < 0.9:
            node.attr[name].CopyFrom(_attr(rng, spec))
    if rng.random() < 0.3:
        node.attr[rng.choice(["_class", "_note", "foo", "N", "_headrace_constant"])].CopyFrom(_attr(rng, None))
    return node


def _graph_def(seed: int) -> GraphDef:
    rng = random.Random(seed)
    nodes = [_node(rng, index, CONST if rng.random() < 0.4 else rng.choice(OP_DEFS)) for index in range(4)]
    return GraphDef(node=nodes[: rng.randrange(1, 5)])


def _imported(proto: GraphDef) -> hr.Graph | None:
    target = hr.Graph()
    try:
        return hr.import_graph_def(proto, graph=target)
    except hr.errors.HeadraceError:
        assert not target.operations
        return None


@pytest.mark.parametrize("start", range(0, 3000, 500))
def test_random_graph_files_give_a_graph_or_a_typed_error(start: int) -> None:
    for seed in range(start, start + 500):
        graph = _imported(_graph_def(seed))
        if graph is not None:
            written = hr.to_graph_def(graph)
            assert hr.to_graph_def(hr.import_graph_def(written.SerializeToString())) == written, seed
            hr.format_graph(graph)


def test_no_graph_file_takes_much_more_memory_than_its_size() -> None:
    _imported(_graph_def(0))
    for seed in range(400):
        proto = _graph_def(seed)
        tracemalloc.start()
        try:
            graph = _imported(proto)
            if graph is not None:
                hr.to_graph_def(graph)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 400_000 + 100 * proto.ByteSize(), seed


def test_a_graph_of_many_operations_is_read_in_linear_time() -> None:
    proto = GraphDef()
    proto.node.add(name="n0", op="NoOp")
    for index in range(1, 20_000):
        proto.node.add(name=f"n{index}", op="NoOp", input=[f"^n{index - 1}", f"^n{index // 2 - 1}"][: min(index, 2)])
    graph = hr.import_graph_def(proto)
    assert hr.to_graph_def(graph).node == proto.node


GOLDENS = sorted((Path(__file__).parent / "goldens").glob("*.pb"))


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda path: path.stem)
def test_damaged_functions_give_a_graph_or_a_typed_error(golden: Path) -> None:
    content = golden.read_bytes()
    read = 0
    for seed in range(100):
        rng = random.Random(seed)
        damaged = bytearray(content)
        for _ in range(rng.choice([1, 1, 2, 4])):
            place = rng.randrange(len(damaged))
            damaged[place] ^= 1 << rng.randrange(8)
        try:
            graph = hr.import_graph_def(bytes(damaged))
        except hr.errors.HeadraceError:
            continue
        for name in graph.functions:
            with contextlib.suppress(hr.errors.HeadraceError):
                read += len(graph.functions[name].operations)
        hr.to_graph_def(graph)
    assert read
