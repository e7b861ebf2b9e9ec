"""Variables become constants: from a `GraphDef` that reads variables to one that has their values.

A handle is replaced by the value itself, under its name, and whatever passes a handle on passes the value on: calls,
branches and loops whose function reads a variable get a copy of that function that takes the value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from headrace.errors import GraphError
from headrace.graph.proto.attr_pb2 import AttrValue
from headrace.graph.proto.function_pb2 import FunctionDef
from headrace.graph.proto.graph_pb2 import GraphDef
from headrace.graph.proto.node_pb2 import NodeDef
from headrace.graph.proto.tensor_pb2 import TensorProto, TensorShapeProto
from headrace.graph.proto.types_pb2 import DataType
from headrace_checkpoint.dtypes import STRING, Array, number_of
from headrace_checkpoint.exported_graph import HANDLE, node_of

__all__ = ["freeze_variables", "tensor_proto"]

_PASS_ON = {
    "Identity": ("output",), "Enter": ("output",), "Exit": ("output",), "NextIteration": ("output",),
    "Switch": ("output_false", "output_true"), "Merge": ("output",),
}  # fmt: skip
"""Types that give what they take, by the names of their outputs."""

_CALLS = {"PartitionedCall": 0, "StatefulPartitionedCall": 0, "If": 1, "StatelessIf": 1, "Case": 1, "StatelessCase": 1}
"""Types that call functions, by the number of inputs that come before the arguments."""

_LOOPS = frozenset({"While", "StatelessWhile"})
_INFERRED = ("_output_shapes", "_handle_dtypes", "_handle_shapes", "_input_shapes", "_class")
_UNKNOWN = TensorShapeProto(unknown_rank=True)


def freeze_variables(graph: GraphDef, values: Mapping[str, Array]) -> GraphDef:
    """Put the values of variables in the place of their handles.

    Args:
      graph: the nodes, and the functions that they call.
      values: of each variable, by the name of its handle's node.
    Raises:
      GraphError: an operation does something else than read a variable.
    """
    result = GraphDef(versions=graph.versions)
    functions = {function.signature.name: function for function in graph.library.function}
    freezing = _Freezing(functions)
    frozen: dict[str, int] = {}
    for node in _in_order(graph.node):
        copy = result.node.add()
        copy.CopyFrom(node)
        if node.op == HANDLE:
            proto = tensor_proto(values[node.name])
            _become(copy, "Const", [], dtype=proto.dtype)
            copy.attr["value"].tensor.CopyFrom(proto)
            frozen[node.name] = proto.dtype
        else:
            freezing.node(copy, frozen, result.node.add, in_function=False)
    result.library.gradient.extend(graph.library.gradient)
    result.library.function.extend([*functions.values(), *freezing.made.values()])
    return result


def tensor_proto(value: Array) -> TensorProto:
    """An array as a message."""
    dtype = number_of(value.dtype)
    assert dtype is not None  # it was the value of a variable
    proto = TensorProto(dtype=cast(DataType, dtype))
    proto.tensor_shape.dim.extend(TensorShapeProto.Dim(size=size) for size in value.shape)
    if dtype == STRING:
        proto.string_val.extend(value.reshape(-1).tolist())
    else:
        proto.tensor_content = np.ascontiguousarray(value).tobytes()
    return proto


def _become(node: NodeDef, op: str, inputs: Iterable[str], **types: int) -> None:
    """Make another operation of a node: its control inputs stay."""
    controls = [edge for edge in node.input if edge.startswith("^")]
    node.op = op
    del node.input[:]
    node.input.extend([*inputs, *controls])
    node.attr.clear()
    for name, number in types.items():
        node.attr[name].type = cast(DataType, number)


@dataclass
class _Freezing:
    """One run. Mutable, used once.

    Attributes:
      functions: those of the graph, by name.
      made: the copies that take values in the place of handles, by their name.
    """

    functions: Mapping[str, FunctionDef]
    made: dict[str, FunctionDef] = field(default_factory=dict)
    _known: dict[tuple[str, tuple[int | None, ...]], tuple[str, list[int | None]]] = field(default_factory=dict)

    def node(self, node: NodeDef, frozen: dict[str, int], add: Callable[..., NodeDef], *, in_function: bool) -> None:
        """Let a node take values where it took handles.

        Args:
          node: changed in place.
          frozen: the edges that carry a value in the place of a handle, with its dtype; extended.
          add: appends a node, for an operation that takes one more input.
          in_function: edges are written `node:output:index`, as in functions.
        """
        edges = [edge for edge in node.input if not edge.startswith("^")]
        dtypes = [frozen.get(edge if in_function else edge.removesuffix(":0")) for edge in edges]
        if any(dtypes):
            self._take(node, edges, dtypes, frozen, add, in_function)

    def _take(
        self,
        node: NodeDef,
        edges: Sequence[str],
        dtypes: Sequence[int | None],
        frozen: dict[str, int],
        add: Callable[..., NodeDef],
        in_function: bool,
    ) -> None:
        def give(output: str, index: int, number: int, dtype: int) -> None:
            name = f"{node.name}:{output}:{index}" if in_function else f"{node.name}:{number}" if number else node.name
            frozen[name] = dtype

        dtype = next(item for item in dtypes if item)
        if node.op in _CALLS:
            skipped = _CALLS[node.op]
            for number, found in enumerate(self._call(node, dtypes[skipped:])):
                if found:
                    give("output", number, number, found)
        elif node.op in _LOOPS:
            self._loop(node, dtypes)
            for number, found in enumerate(dtypes):
                if found:
                    give("output", number, number, found)
        elif node.op in _PASS_ON:
            node.attr["T"].type = cast(DataType, dtype)
            for number, output in enumerate(_PASS_ON[node.op]):
                give(output, 0, number, dtype)
        elif node.op == "IdentityN":
            _retype(node.attr["T"], dtypes)
            for number, found in enumerate(dtypes):
                if found:
                    give("output", number, number, found)
        else:
            self._read(node, edges, dtype, add, in_function)
        for name in _INFERRED:
            node.attr.pop(name, None)

    def _read(
        self, node: NodeDef, edges: Sequence[str], dtype: int, add: Callable[..., NodeDef], in_function: bool
    ) -> None:
        """What an operation that reads a variable becomes."""
        attrs = {name: AttrValue.FromString(value.SerializeToString()) for name, value in node.attr.items()}
        if node.op == "ReadVariableOp":
            _become(node, "Identity", edges, T=dtype)
        elif node.op == "ResourceGather":
            axis = f"{node.name}/axis"
            constant = add(name=axis, op="Const")
            constant.attr["dtype"].type = DataType.DT_INT32
            constant.attr["value"].tensor.CopyFrom(tensor_proto(np.array(attrs["batch_dims"].i, np.int32)))
            place = f"{axis}:output:0" if in_function else axis
            _become(node, "GatherV2", [*edges, place], Tparams=dtype, Taxis=DataType.DT_INT32)
            node.attr["Tindices"].CopyFrom(attrs["Tindices"])
            node.attr["batch_dims"].i = attrs["batch_dims"].i
        elif node.op == "ResourceGatherNd":
            _become(node, "GatherNd", edges, Tparams=dtype)
            node.attr["Tindices"].CopyFrom(attrs["Tindices"])
        elif node.op == "VariableShape":
            _become(node, "Shape", edges, T=dtype)
            if "out_type" in attrs:
                node.attr["out_type"].CopyFrom(attrs["out_type"])
        else:
            raise GraphError(
                f"'{node.name}' does something else than read a variable, and cannot be frozen",
                expected="ReadVariableOp, ResourceGather, ResourceGatherNd or VariableShape",
                got=node.op,
                hint="name outputs that need no update of a variable: those of inference, not of training",
            )

    def _call(self, node: NodeDef, dtypes: Sequence[int | None]) -> list[int | None]:
        """Let a call take values; returns the dtypes of the outputs that are values in the place of handles."""
        _retype(node.attr["Tin"], dtypes)
        given: list[int | None] = []
        for attr in node.attr.values():
            for function in [attr.func] if attr.HasField("func") else attr.list.func:
                function.name, given = self._function(function.name, dtypes)
        if any(given):
            _retype(node.attr["Tout"], given)
        self._forget_shapes(node, given)
        return given

    def _loop(self, node: NodeDef, dtypes: Sequence[int | None]) -> None:
        _retype(node.attr["T"], dtypes)
        for name in ("cond", "body"):
            node.attr[name].func.name, given = self._function(node.attr[name].func.name, dtypes)
            if name == "body" and [bool(item) for item in given] != [bool(item) for item in dtypes]:
                raise GraphError(
                    f"loop '{node.name}' gives another variable than it takes, and cannot be frozen",
                    expected="the same variables in each round",
                    got=f"handles after a round at {[number for number, item in enumerate(given) if item]}",
                    hint="build the loop so that it reads the variables it needs",
                )
        self._forget_shapes(node, dtypes)

    def _forget_shapes(self, node: NodeDef, dtypes: Sequence[int | None]) -> None:
        shapes = node.attr["output_shapes"].list.shape if "output_shapes" in node.attr else ()
        for shape, dtype in zip(shapes, dtypes, strict=False):
            if dtype:
                shape.CopyFrom(_UNKNOWN)

    def _function(self, name: str, dtypes: Sequence[int | None]) -> tuple[str, list[int | None]]:
        """The name of the copy of a function that takes values, and which of its outputs are values."""
        key = (name, tuple(dtypes))
        if key not in self._known:
            number = 1 + len(self.made)
            taken = self.functions.keys() | self.made.keys()
            new = next(
                f"{name}_frozen_{n}"
                for n in range(number, number + len(taken) + 1)
                if f"{name}_frozen_{n}" not in taken
            )
            copy = FunctionDef()
            copy.CopyFrom(self.functions[name])
            copy.signature.name = new
            self.made[new] = copy
            self._known[key] = (new, self._fill(copy, dtypes))
        return self._known[key]

    def _fill(self, function: FunctionDef, dtypes: Sequence[int | None]) -> list[int | None]:
        frozen: dict[str, int] = {}
        for number, (argument, dtype) in enumerate(zip(function.signature.input_arg, dtypes, strict=True)):
            if dtype:
                frozen[argument.name] = dtype
                argument.type = cast(DataType, dtype)
                function.arg_attr.pop(number, None)
        for name in _INFERRED:
            function.attr.pop(name, None)
        for node in _in_order(function.node_def):
            self.node(node, frozen, function.node_def.add, in_function=True)
        reads = {node.name for node in function.node_def if node.op == "Identity"}
        for node in function.node_def:
            node.input[:] = [_renamed(edge, reads) for edge in node.input]
        given: list[int | None] = []
        for output in function.signature.output_arg:
            edge = function.ret[output.name] = _renamed(function.ret[output.name], reads)
            given.append(frozen.get(edge))
            if edge in frozen:
                output.type = cast(DataType, frozen[edge])
        return given


def _in_order(nodes: Iterable[NodeDef]) -> list[NodeDef]:
    """The nodes, each after those it reads; the head of a loop comes before what closes the loop."""
    by_name = {node.name: node for node in nodes}
    ordered: dict[str, NodeDef] = {}
    for start in by_name:
        stack = [start]
        path: set[str] = set()
        while stack:
            name = stack[-1]
            node = by_name[name]
            reads = [node_of(edge) for edge in node.input]
            waiting = [
                other
                for other in reads
                if other in by_name and other not in ordered and other not in path and other != name
            ]
            if name in ordered or not waiting:
                ordered.setdefault(name, node)
                stack.pop()
            else:
                path.add(name)
                stack.extend(waiting)
    return list(ordered.values())


def _renamed(edge: str, reads: set[str]) -> str:
    """An edge by the name that the output of a frozen read has."""
    return f"{node_of(edge)}:output:0" if edge.endswith(":value:0") and node_of(edge) in reads else edge


def _retype(attr: AttrValue, dtypes: Sequence[int | None]) -> None:
    for number, dtype in enumerate(dtypes):
        if dtype:
            attr.list.type[number] = cast(DataType, dtype)
