"""The graph of a saved model: what its signatures need of the user's, and nodes that save and restore its variables.

All of it is a function from `GraphDef` to `GraphDef`: the user's own graph stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from headrace.graph.proto.attr_pb2 import AttrValue
from headrace.graph.proto.function_pb2 import FunctionDefLibrary
from headrace.graph.proto.graph_pb2 import GraphDef
from headrace.graph.proto.node_pb2 import NodeDef
from headrace.graph.proto.tensor_pb2 import TensorProto, TensorShapeProto
from headrace.graph.proto.types_pb2 import DataType
from headrace_checkpoint.dtypes import numpy_dtype
from headrace_checkpoint.proto.saved_model_pb2 import CollectionDef, SaverDef, VariableDef

__all__ = ["HANDLE", "ExportedVariable", "add_init_op", "add_saver", "exported_variables", "node_of", "prune"]

HANDLE = "VarHandleOp"


@dataclass(frozen=True, slots=True)
class ExportedVariable:
    """A variable of the exported graph.

    Attributes:
      name: the name of its handle's node, under which its value is stored.
      dtype: TensorFlow's number of the dtype.
      shape: its static shape.
      trainable: whether an optimiser updates it.
    """

    name: str
    dtype: int
    shape: TensorShapeProto
    trainable: bool


def prune(graph: GraphDef, roots: Iterable[str]) -> GraphDef:
    """Keep the nodes that the roots need, in their order, with no device and no colocation with nodes that are gone.

    Args:
      graph: the whole graph.
      roots: names of nodes.
    """
    nodes = {node.name: node for node in graph.node}
    kept: set[str] = set()
    stack = list(roots)
    while stack:
        name = stack.pop()
        if name not in kept:
            kept.add(name)
            stack.extend(node_of(edge) for edge in nodes[name].input)
    result = GraphDef(versions=graph.versions)
    for node in graph.node:
        if node.name in kept:
            copy = result.node.add()
            copy.CopyFrom(node)
            copy.device = ""
            _clean_colocation(copy, kept)
    _keep_functions(graph.library, result)
    return result


def _keep_functions(library: FunctionDefLibrary, result: GraphDef) -> None:
    """Copy the functions that a graph calls, and those that they call."""
    functions = {function.signature.name: function for function in library.function}
    waiting, kept = list(result.node), set[str]()
    while waiting:
        for name in _called(waiting.pop()):
            if name in functions and name not in kept:
                kept.add(name)
                waiting.extend(functions[name].node_def)
    result.library.function.extend(functions[name] for name in functions if name in kept)
    result.library.gradient.extend(item for item in library.gradient if item.function_name in kept)


def _called(node: NodeDef) -> Iterator[str]:
    for value in node.attr.values():
        if value.HasField("func"):
            yield value.func.name
        yield from (function.name for function in value.list.func)


def add_init_op(graph: GraphDef, initializers: Sequence[str]) -> str:
    """Add one node that runs what fills tables and the like, and return its name.

    Args:
      graph: extended in place.
      initializers: the names of the nodes to run.
    """
    taken = {node.name for node in graph.node}
    name = next(name for name in ("init", *(f"init_{n}" for n in range(1, len(taken) + 2))) if name not in taken)
    return _Writer(graph, "").node(name, "NoOp", [f"^{initializer}" for initializer in initializers])


def node_of(edge: str) -> str:
    """The name of the node that an input, `^node`, `node` or `node:index`, comes from."""
    return edge.removeprefix("^").partition(":")[0]


def _clean_colocation(node: NodeDef, kept: set[str]) -> None:
    if "_class" in node.attr:
        names = [name for name in node.attr["_class"].list.s if name.decode().removeprefix("loc:@") in kept]
        del node.attr["_class"]
        if names:
            node.attr["_class"].list.s.extend(names)


def exported_variables(graph: GraphDef, trainable: Mapping[str, bool]) -> list[ExportedVariable]:
    """The variables of a graph; their handles are made to name their own node, as readers of saved models expect.

    Args:
      graph: changed in place.
      trainable: for a handle's node whether the variable is trainable; True where it is not listed.
    """
    found = []
    for node in graph.node:
        if node.op == HANDLE:
            # A container is a place in one process; the value is stored under the node's name.
            node.attr["container"].s = b""
            node.attr["shared_name"].s = node.name.encode()
            dtype, shape = node.attr["dtype"].type, node.attr["shape"].shape
            found.append(ExportedVariable(node.name, dtype, shape, trainable.get(node.name, True)))
    return found


def add_saver(graph: GraphDef, variables: Sequence[ExportedVariable]) -> tuple[SaverDef, dict[str, CollectionDef]]:
    """Add the nodes that save and restore variables, and for each variable a read and an initial value.

    Args:
      graph: extended in place.
      variables: those of the graph, at least one.
    Returns:
      The names of the nodes that readers of saved models feed and run; and the lists of variables, `"variables"` and
      `"trainable_variables"`, that TensorFlow keeps beside a graph.
    """
    taken = {node.name.partition("/")[0] for node in graph.node}
    prefix = next(name for name in ("save", *(f"save_{n}" for n in range(1, len(taken) + 2))) if name not in taken)
    writer = _Writer(graph, prefix)
    dtypes = [variable.dtype for variable in variables]
    filename = writer.node(f"{prefix}/filename", "Placeholder", [], dtype=DataType.DT_STRING, shape=())
    names = [variable.name.encode() for variable in variables]
    specs = [b""] * len(variables)
    reads = [writer.variable(variable) for variable in variables]
    lists = [writer.strings(f"{prefix}/SaveV2/{kind}", values) for kind, values in _lists(names, specs)]
    save = writer.node(f"{prefix}/SaveV2", "SaveV2", [filename, *lists, *reads], dtypes=dtypes)
    done = writer.node(f"{prefix}/control_dependency", "Identity", [filename, f"^{save}"], T=DataType.DT_STRING)
    lists = [writer.strings(f"{prefix}/RestoreV2/{kind}", values) for kind, values in _lists(names, specs)]
    restore = writer.node(f"{prefix}/RestoreV2", "RestoreV2", [filename, *lists], dtypes=dtypes)
    assigns = [
        writer.node(
            f"{prefix}/AssignVariableOp_{number}",
            "AssignVariableOp",
            [variable.name, f"{restore}:{number}" if number else restore],
            dtype=variable.dtype,
        )
        for number, variable in enumerate(variables)
    ]
    every = writer.node(f"{prefix}/restore_all", "NoOp", [f"^{assign}" for assign in assigns])
    saver = SaverDef(
        filename_tensor_name=f"{filename}:0",
        save_tensor_name=f"{done}:0",
        restore_op_name=every,
        max_to_keep=5,
        keep_checkpoint_every_n_hours=10000.0,
        version=SaverDef.V2,
    )
    return saver, _collections(writer, variables)


def _lists(names: list[bytes], specs: list[bytes]) -> list[tuple[str, list[bytes]]]:
    return [("tensor_names", names), ("shape_and_slices", specs)]


def _collections(writer: _Writer, variables: Sequence[ExportedVariable]) -> dict[str, CollectionDef]:
    protos = [(variable.trainable, writer.variable_def(variable).SerializeToString()) for variable in variables]
    lists = {
        "variables": [proto for _, proto in protos],
        "trainable_variables": [proto for trainable, proto in protos if trainable],
    }
    return {
        name: CollectionDef(bytes_list=CollectionDef.BytesList(value=value)) for name, value in lists.items() if value
    }


class _Writer:
    """Appends nodes to a GraphDef, under a prefix that no node of it has. Mutable."""

    def __init__(self, graph: GraphDef, prefix: str) -> None:
        self._graph = graph
        self._prefix = prefix

    def node(self, name: str, op: str, inputs: Sequence[str], **attrs: int | Sequence[int]) -> str:
        """Append a node whose attributes are a dtype, a list of dtypes, or, under the name `shape`, a shape."""
        node = self._graph.node.add(name=name, op=op, input=inputs)
        for key, value in attrs.items():
            node.attr[key].CopyFrom(_attr(key, value))
        return name

    def strings(self, name: str, values: Sequence[bytes]) -> str:
        """Append a constant vector of strings."""
        tensor = TensorProto(dtype=DataType.DT_STRING, tensor_shape=_shape([len(values)]), string_val=values)
        self.node(name, "Const", [], dtype=DataType.DT_STRING)
        self._graph.node[-1].attr["value"].tensor.CopyFrom(tensor)
        return name

    def variable(self, variable: ExportedVariable) -> str:
        """Append what a variable needs beside its handle: a read, and zeros that stand for the initial value.

        The real initial value may be a large constant or take operations that only training has; a saved model is
        restored, never initialised.
        """
        prefix = self._place(variable)
        sizes = [max(0, dim.size) for dim in variable.shape.dim]
        shape = TensorProto(dtype=DataType.DT_INT32, tensor_shape=_shape([len(sizes)]), int_val=sizes)
        self.node(f"{prefix}/shape", "Const", [], dtype=DataType.DT_INT32)
        self._graph.node[-1].attr["value"].tensor.CopyFrom(shape)
        zero = TensorProto(dtype=cast(DataType, variable.dtype), tensor_shape=_shape([]))
        dtype = numpy_dtype(variable.dtype)
        if dtype is None:
            zero.string_val.append(b"")
        else:
            zero.tensor_content = bytes(dtype.itemsize)
        self.node(f"{prefix}/zero", "Const", [], dtype=variable.dtype)
        self._graph.node[-1].attr["value"].tensor.CopyFrom(zero)
        inputs = [f"{prefix}/shape", f"{prefix}/zero"]
        zeros = self.node(f"{prefix}/zeros", "Fill", inputs, T=variable.dtype, index_type=DataType.DT_INT32)
        self.node(f"{prefix}/assign", "AssignVariableOp", [variable.name, zeros], dtype=variable.dtype)
        return self.node(f"{prefix}/read", "ReadVariableOp", [variable.name], dtype=variable.dtype)

    def variable_def(self, variable: ExportedVariable) -> VariableDef:
        """Name the nodes that `variable` added."""
        prefix = self._place(variable)
        return VariableDef(
            variable_name=f"{variable.name}:0",
            initializer_name=f"{prefix}/assign",
            initial_value_name=f"{prefix}/zeros:0",
            snapshot_name=f"{prefix}/read:0",
            is_resource=True,
            trainable=variable.trainable,
        )

    def _place(self, variable: ExportedVariable) -> str:
        return f"{self._prefix}/variables/{variable.name}"


def _attr(key: str, value: int | Sequence[int]) -> AttrValue:
    if isinstance(value, int):
        return AttrValue(type=cast(DataType, value))
    if key == "shape":
        return AttrValue(shape=_shape(value))
    return AttrValue(list=AttrValue.ListValue(type=cast(Sequence[DataType], value)))


def _shape(sizes: Sequence[int]) -> TensorShapeProto:
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes])
