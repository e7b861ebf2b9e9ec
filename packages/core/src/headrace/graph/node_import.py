"""The import of nodes: a message's `NodeDef`s become operations of a graph.

Nodes of TensorFlow 1 are turned into those of today on the way: calls of functions by their names, gradients of
functions, and what works on reference variables. The functions themselves are in the graph's library by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.errors import DataLossError, GraphError, HeadraceError, known_names
from headrace.graph import reference_variables
from headrace.graph.attr import AttrSpec, AttrValue
from headrace.graph.attr_proto import decode_attr, decode_unknown
from headrace.graph.frames import Frames
from headrace.graph.function_library import FunctionLibrary
from headrace.graph.graph import Graph
from headrace.graph.node_def import COLOCATION, COLOCATION_PREFIX, CONSTANT_KEY
from headrace.graph.node_order import loop_heads, topological
from headrace.graph.op_def import OpDef, find_op_def, unknown_op_def
from headrace.graph.operation import Operation, Tensor
from headrace.graph.proto.function_pb2 import FunctionDefLibrary
from headrace.graph.proto.graph_pb2 import GraphDef
from headrace.graph.proto.node_pb2 import NodeDef
from headrace.graph.proto.op_def_pb2 import OpDef as OpDefProto
from headrace.graph.reference_variables import Reference
from headrace.graph.source import SourceLine
from headrace.types import Array, Shape

__all__ = ["NodeImport", "ShapesChange"]

_VARIABLE_ATTRS = {
    "dtype": AttrSpec("type"),
    "shape": AttrSpec("shape"),
    "container": AttrSpec("string"),
    "shared_name": AttrSpec("string"),
}


class ShapesChange(Exception):
    """Loop variables do not keep the shapes that they start with: the graph is read anew, with these left open.

    Attributes:
      heads: the names of the operations at the heads of the loops.
    """

    def __init__(self, heads: frozenset[str]) -> None:
        super().__init__()
        self.heads = heads


@dataclass
class NodeImport:
    """One import in progress. Mutable, used once.

    Attributes:
      graph: the graph that the operations are added to.
      prefix: what comes before their names.
      constants: the values that lie beside the file, by content.
      source: what errors say that the operations come from.
      input_map: for names of tensors in the file, tensors of the graph to use instead.
      signatures: those of functions that may be called by their names as if they were types.
      changing: the heads of loops of which it is known that their variable changes its shape.
    """

    graph: Graph
    prefix: str
    constants: Mapping[str, Array]
    source: SourceLine
    input_map: dict[str, Tensor]
    signatures: Mapping[str, OpDefProto]
    changing: frozenset[str]
    tensors: dict[str, Tensor | Reference] = field(default_factory=dict, init=False)
    operations: dict[str, Operation] = field(default_factory=dict, init=False)
    heads: frozenset[str] = field(default=frozenset(), init=False)

    def run(self, proto: GraphDef) -> None:
        """Add all nodes.

        Raises:
          ShapesChange: a loop variable that is not among those `changing` does not keep its shape.
          GraphError: the nodes are not a well-formed graph, or `input_map` names what is not among them.
          HeadraceError: a node breaks a rule of its type; a note names it.
        """
        self.heads = frozenset(loop_heads(proto))
        names = {node.name for node in proto.node}
        for key, tensor in self.input_map.items():
            if key.partition(":")[0] not in names:
                raise GraphError(
                    f"input_map names '{key}'",
                    expected=known_names(key, names),
                    got=repr(key),
                    hint="input_map={'x:0': tensor} replaces the output x:0 of the imported graph",
                )
            self.tensors[key if ":" in key else f"{key}:0"] = tensor
        outputs = _highest_outputs(proto)
        for node in topological(proto):
            try:
                self._add(node, outputs)
            except HeadraceError as error:
                error.add_note(f"while importing {node.op} '{node.name}' from {self.source.filename}")
                raise
        self._close_loops(loop_heads(proto))

    def _close_loops(self, heads: Mapping[str, str]) -> None:
        """Add the edges that lead backward.

        Raises:
          ShapesChange: a loop variable does not keep its shape.
        """
        changing: set[str] = set()
        for name, edge in heads.items():
            head, back = self.operations[name], self._value(edge if ":" in edge else f"{edge}:0", name, ())
            shape = head.outputs[0].shape
            if shape.relax(back.shape) != shape:
                changing.add(name)
            else:
                self.graph.close_loop(head, back)
        if changing:
            raise ShapesChange(frozenset(changing))
        if heads:
            Frames(self.graph)

    def _add(self, node: NodeDef, outputs: Mapping[str, int]) -> None:
        if node.op in self.signatures:
            node = _call(node, self.signatures[node.op])
        elif node.op == "SymbolicGradient":
            node = _gradient_call(node, self.graph.functions)
        written_as, node = node.op, _on_values(node)
        op_def = find_op_def(node.op)
        name = self.prefix + node.name
        controls = [
            self.operations[edge[1:]] for edge in node.input if edge.startswith("^") and edge[1:] in self.operations
        ]
        edges = [edge if ":" in edge else f"{edge}:0" for edge in node.input if not edge.startswith("^")]
        attrs = self._attrs(node, op_def)
        if node.name in self.heads:
            edges = edges[:-1]
            attrs["N"] = len(edges)
        if node.op in reference_variables.VARIABLE_TYPES:
            reference = reference_variables.import_variable(self.graph, name, attrs, node.device)
            self._record(node, reference.handle.op, [reference])
            return
        first = self.tensors.get(edges[0]) if edges and reference_variables.takes_reference(node.op) else None
        if isinstance(first, Reference):
            attrs = self._attrs(node, reference_variables.definition_on_handles(node.op))
            slots = reference_variables.count_of_references(node.op)
            values = [self._handle(edge, name, controls) for edge in edges[1:slots]]
            values += [self._value(edge, name, controls) for edge in edges[slots:]]
            operation, passed = reference_variables.import_on_reference(
                self.graph, node.op, name, first, values, attrs, controls, node.device
            )
            self._record(node, operation, list(operation.outputs) or [passed])
            return
        first = self.tensors.get(edges[0]) if edges else None
        if isinstance(first, Reference) and reference_variables.passes_reference(written_as):
            values = [self._value(edge, name, controls) for edge in edges[1:]]
            operation, references = reference_variables.import_on_way(
                self.graph, written_as, name, first, values, attrs, controls, node.device
            )
            self._record(node, operation, references)
            return
        inputs = [self._value(edge, name, controls) for edge in edges]
        if op_def is None:
            op_def = unknown_op_def(node.op, [tensor.dtype for tensor in inputs], outputs.get(node.name, 0) + 1)
        operation = self.graph.create_op(
            node.op,
            inputs,
            attrs,
            name=name + "/",
            control_inputs=controls,
            device=node.device,
            colocation=[self.prefix + item for item in _colocation(node)],
            source=replace(self.source, node=node.name),
            op_def=op_def,
        )
        if node.name in self.changing:
            operation.outputs[0].shape = Shape()
        self._record(node, operation, operation.outputs)

    def _record(self, node: NodeDef, operation: Operation, results: Iterable[Tensor | Reference]) -> None:
        self.operations[node.name] = operation
        for index, tensor in enumerate(results):
            self.tensors.setdefault(f"{node.name}:{index}", tensor)

    def _value(self, edge: str, reader: str, controls: Sequence[Operation]) -> Tensor:
        found = self.tensors.get(edge)
        if found is None:
            raise GraphError(
                f"'{reader}' reads '{edge}', which does not exist",
                expected="an output of an earlier operation",
                got=f"no output '{edge}'",
                hint="correct the output number in the file, or replace the output with input_map={name: tensor}",
            )
        if isinstance(found, Reference):
            return reference_variables.read_reference(self.graph, f"{reader}/read/", found, controls)
        return found

    def _handle(self, edge: str, reader: str, controls: list[Operation]) -> Tensor:
        """The handle of a further variable that an operation changes; what came before on its reference comes first."""
        found = self.tensors.get(edge)
        if not isinstance(found, Reference):
            return self._value(edge, reader, controls)
        controls.extend(found.after)
        return found.handle

    def _attrs(self, node: NodeDef, op_def: OpDef | None) -> dict[str, AttrValue]:
        attrs: dict[str, AttrValue] = {}
        for name, value in node.attr.items():
            if name in (COLOCATION, CONSTANT_KEY):
                continue
            spec = op_def.attrs.get(name) if op_def is not None else None
            if spec is None and node.op in reference_variables.VARIABLE_TYPES:
                spec = _VARIABLE_ATTRS.get(name)
            attrs[name] = decode_unknown(name, value) if spec is None else decode_attr(name, value, spec)
        key = node.attr[CONSTANT_KEY].s.decode("utf-8", "replace") if CONSTANT_KEY in node.attr else ""
        if key:
            if key not in self.constants:
                raise DataLossError(
                    f"the value of constant '{node.name}' is missing",
                    expected=f"content {key} in the .constants file beside the graph",
                    got=f"{len(self.constants)} other constants",
                    hint="copy the .constants file along with the graph file, or export with constants='inline'",
                )
            attrs["value"] = self.constants[key]
        return attrs


def _call(node: NodeDef, signature: OpDefProto) -> NodeDef:
    """A call of a function by its name, as if it were a type, written as the call that it is."""
    call = NodeDef(name=node.name, op="StatefulPartitionedCall" if signature.is_stateful else "PartitionedCall")
    call.input.extend(node.input)
    call.device = node.device
    call.attr["Tin"].list.type.extend(argument.type for argument in signature.input_arg)
    call.attr["Tout"].list.type.extend(argument.type for argument in signature.output_arg)
    call.attr["f"].func.name = node.op
    return call


def _gradient_call(node: NodeDef, functions: FunctionLibrary) -> NodeDef:
    """The gradient of a function of TensorFlow 1 as a call: of the function that the file names, else of a new one."""
    name = node.attr["f"].func.name
    named = FunctionDefLibrary.FromString(functions.gradients).gradient
    found = next((rule.gradient_func for rule in named if rule.function_name == name), None)
    call = NodeDef(name=node.name, op="PartitionedCall")
    call.input.extend(node.input)
    call.device = node.device
    for key in ("Tin", "Tout"):
        call.attr[key].CopyFrom(node.attr[key])
    call.attr["f"].func.name = found or functions.derive("gradient", name)
    return call


def _on_values(node: NodeDef) -> NodeDef:
    """A node of TensorFlow 1 that takes or passes on references, as the one on values or handles."""
    on_values = reference_variables.without_reference(node.op)
    if on_values == node.op:
        return node
    copied = NodeDef()
    copied.CopyFrom(node)
    copied.op = on_values
    return copied


def _colocation(node: NodeDef) -> list[str]:
    if COLOCATION not in node.attr:
        return []
    texts = [item.decode("utf-8", "replace") for item in node.attr[COLOCATION].list.s]
    return [text.removeprefix(COLOCATION_PREFIX) for text in texts if text.startswith(COLOCATION_PREFIX)]


def _highest_outputs(proto: GraphDef) -> dict[str, int]:
    """The highest output index that is read of each node: all that is known of an unknown type's outputs."""
    highest: dict[str, int] = {}
    for node in proto.node:
        for edge in node.input:
            name, _, index = edge.removeprefix("^").partition(":")
            if index.isdecimal() and int(index) < 2**16:
                highest[name] = max(highest.get(name, 0), int(index))
    return highest
