"""GraphDef: graphs as TensorFlow writes and reads them.

Field numbers, operation types, attribute names and semantics are TensorFlow's, so a graph written here loads there and
the other way round. Operations and attributes that are not known here are kept and written out unchanged.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message

from headrace.errors import (
    DataLossError,
    GraphError,
    HeadraceError,
    InvalidArgumentError,
    NotFoundError,
    ShapeError,
    known_names,
)
from headrace.graph import reference_variables
from headrace.graph.attr import AttrSpec, AttrValue
from headrace.graph.attr_proto import decode_attr, decode_unknown, serialized
from headrace.graph.constants import read_constants, write_constants
from headrace.graph.extensions import latest, needed_operations
from headrace.graph.frames import Frames
from headrace.graph.function_def import encode_function, function_as_graph
from headrace.graph.function_library import FunctionLibrary
from headrace.graph.functions import Body
from headrace.graph.graph import Graph
from headrace.graph.node_def import COLOCATION, COLOCATION_PREFIX, CONSTANT_KEY, encode_op
from headrace.graph.op_def import OpDef, find_op_def, unknown_op_def
from headrace.graph.operation import Operation, Tensor
from headrace.graph.proto.function_pb2 import FunctionDef, FunctionDefLibrary
from headrace.graph.proto.graph_pb2 import GraphDef
from headrace.graph.proto.node_pb2 import NodeDef
from headrace.graph.proto.op_def_pb2 import OpDef as OpDefProto
from headrace.graph.reference_variables import Reference
from headrace.graph.source import SourceLine
from headrace.types import Array, Shape

__all__ = ["export_graph_def", "from_graph_def", "import_graph_def", "to_graph_def"]

PRODUCER = 1087
"""The version of TensorFlow's graph semantics that our graphs are written for: that of TensorFlow 2.8."""

INLINE_LIMIT = 3 << 29
"""Bytes of constants up to which they are written into the graph file; protobuf ends at 2 GiB."""

GraphSource = str | os.PathLike[str] | bytes | Message


def export_graph_def(graph: Graph, path: str | os.PathLike[str], *, constants: str = "auto") -> None:
    """Write a graph to a file that TensorFlow and `import_graph_def` read.

    Args:
      graph: the graph.
      path: the file; `.pbtxt` writes text.
      constants: "inline" puts constants into the file; "beside" puts those over 1 KB into `path + ".constants"`, by
        content, which has no size limit but is read by Headrace only; "auto" is inline as long as they take less than
        1.5 GiB.
    Raises:
      InvalidArgumentError: `constants` is another word.
    """
    if constants not in ("auto", "inline", "beside"):
        raise InvalidArgumentError(
            "constants is wrong",
            expected="auto, inline or beside",
            got=repr(constants),
            hint="constants='auto' chooses by size",
        )
    total = sum(op.attrs["value"].nbytes for op in graph.operations if op.type == "Const")
    beside = constants == "beside" or (constants == "auto" and total > INLINE_LIMIT)
    stored: dict[str, Array] | None = {} if beside else None
    proto = _encode_graph(graph, stored)
    target = Path(path)
    content = text_format.MessageToString(proto).encode() if target.suffix == ".pbtxt" else serialized(proto)
    if stored:
        write_constants(_constants_path(target), stored)
    target.write_bytes(content)


def _constants_path(path: Path) -> Path:
    return path.with_name(path.name + ".constants")


def to_graph_def(graph: Graph, roots: Iterable[Operation] | None = None) -> GraphDef:
    """The graph as a message, constants inline.

    Args:
      graph: the graph.
      roots: what to write, with what it needs; None: all. Loops, branches and calls that were differentiated give the
        values that a gradient reads only where a root needs that gradient.
    """
    return _encode_graph(graph, None, roots)


def _encode_graph(graph: Graph, stored: dict[str, Array] | None, roots: Iterable[Operation] | None = None) -> GraphDef:
    proto = GraphDef()
    producer, min_consumer = graph.versions
    proto.versions.producer = producer or PRODUCER
    proto.versions.min_consumer = min_consumer
    _encode_functions(graph.functions, proto.library)
    if roots is None:
        replaced = {op: latest(op) for op in graph.operations if op in graph.extensions}
        operations = [op for op in graph.operations if op not in replaced]
    else:
        operations, replaced = needed_operations([], list(roots), ())
    first = {replaced[op]: op for op in reversed(graph.operations) if op in replaced}

    def name_of(op: Operation) -> str:  # an extension goes by the name of what it stands for
        standing = replaced.get(op, op)
        return first.get(standing, standing).name

    def reference(tensor: Tensor) -> str:
        return name_of(tensor.op) if tensor.index == 0 else f"{name_of(tensor.op)}:{tensor.index}"

    for op in operations:
        encode_op(op, proto.node.add(), stored, reference, name_of=name_of)
    return proto


def _encode_functions(functions: FunctionLibrary, proto: FunctionDefLibrary) -> None:
    proto.ParseFromString(functions.gradients)
    for name in functions:
        if name in functions.stored:
            proto.function.add().ParseFromString(functions.stored[name])
        else:
            proto.function.append(encode_function(functions[name]))


def import_graph_def(
    source: GraphSource,
    *,
    graph: Graph | None = None,
    name: str = "",
    input_map: Mapping[str, Tensor] | None = None,
    label: str | None = None,
) -> Graph:
    """Read a graph that TensorFlow or Headrace wrote.

    Operation types that are not registered here are kept; they fail only if a step needs them. Reference variables of
    TensorFlow 1 become variables by handle.

    Args:
      source: a file (`.pbtxt` is text), serialised bytes, or a GraphDef message of either package.
      graph: the graph to add to, which stays as it was on any error; a new one by default.
      name: a prefix for all names.
      input_map: for names of tensors in the file, tensors of `graph` to use instead.
      label: what errors say that the graph comes from; by default the path of the file.
    Returns:
      The graph.
    Raises:
      DataLossError: the bytes are not a GraphDef, or are damaged.
      GraphError: the graph is not well formed (missing input, cycle, duplicate name), or `input_map` names what it does
        not have.
      HeadraceError: an operation breaks a rule of its type; the text names it.

    Example:
      >>> import headrace as hr
      >>> graph = hr.Graph()
      >>> with graph.as_default():
      ...     y = hr.constant(2.0, name="two") * 3.0
      >>> copy = hr.import_graph_def(hr.to_graph_def(graph))
      >>> print(hr.Session(copy).run("Mul:0"))
      6.0
    """
    proto, constants, origin = _load(source)
    target = Graph() if graph is None else graph
    heads = frozenset(_loop_heads(proto))
    changing: frozenset[str] = frozenset()
    while True:
        try:
            with target.all_or_nothing():
                _Import(
                    target,
                    f"{name}/" if name else "",
                    constants,
                    SourceLine(label or origin, 0),
                    dict(input_map or {}),
                    _signatures(proto),
                    changing,
                ).run(proto)
            return target
        except _ShapesChange as found:
            changing |= found.heads
        except ShapeError:
            if changing == heads:
                raise
            changing = heads


def from_graph_def(proto: Message) -> Graph:
    """The graph of a GraphDef message of either package."""
    return import_graph_def(proto)


def _load(source: GraphSource) -> tuple[GraphDef, Mapping[str, Array], str]:
    """The message, the constants stored beside it, and a label for errors."""
    if isinstance(source, GraphDef):
        return source, {}, "<GraphDef>"
    if isinstance(source, Message):
        return _parse(source.SerializeToString(), "<GraphDef>"), {}, "<GraphDef>"
    if isinstance(source, bytes):
        return _parse(source, "<bytes>"), {}, "<bytes>"
    path = Path(source)
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise NotFoundError(
            f"there is no graph file '{path}'",
            expected="a file that exists",
            got=str(path.absolute()),
            hint="give the path of a .pb or .pbtxt file",
        ) from error
    beside = _constants_path(path)
    constants = read_constants(beside) if beside.exists() else {}
    if path.suffix != ".pbtxt":
        return _parse(content, str(path)), constants, str(path)
    try:
        return text_format.Parse(content.decode("utf-8"), GraphDef()), constants, str(path)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise DataLossError(
            f"'{path}' is not a GraphDef in text form",
            expected="a GraphDef as protobuf text",
            got=str(error)[:200],
            hint="a binary graph file must be named .pb; otherwise write it anew with hr.export_graph_def",
        ) from error


def _parse(content: bytes, label: str) -> GraphDef:
    proto = GraphDef()
    try:
        proto.ParseFromString(content)
    except DecodeError as error:
        raise DataLossError(
            "these bytes are not a GraphDef",
            where=label,
            expected="a serialised GraphDef",
            got=f"{len(content)} bytes: {error}",
            hint="a text graph file must be named .pbtxt; otherwise write it anew with hr.export_graph_def",
        ) from error
    return proto


class _ShapesChange(Exception):
    """Loop variables do not keep the shapes that they start with: the graph is read anew, with these left open.

    Attributes:
      heads: the names of the operations at the heads of the loops.
    """

    def __init__(self, heads: frozenset[str]) -> None:
        super().__init__()
        self.heads = heads


@dataclass
class _Import:
    """One import in progress. Mutable, used once.

    Attributes:
      changing: the heads of loops of which it is known that their variable changes its shape.
    """

    graph: Graph
    prefix: str
    constants: Mapping[str, Array]
    source: SourceLine
    input_map: dict[str, Tensor]
    signatures: Mapping[str, OpDefProto] = field(default_factory=dict)
    changing: frozenset[str] = frozenset()
    tensors: dict[str, Tensor | Reference] = field(default_factory=dict)
    operations: dict[str, Operation] = field(default_factory=dict)
    heads: frozenset[str] = frozenset()

    def run(self, proto: GraphDef) -> None:
        """Add the whole file."""
        self.heads = frozenset(_loop_heads(proto))
        _add_functions(self.graph.functions, proto.library, self.source)
        producer, min_consumer = self.graph.versions
        self.graph.versions = (
            max(producer, proto.versions.producer),
            max(min_consumer, proto.versions.min_consumer),
        )
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
        for node in _topological(proto):
            try:
                self._add(node, outputs)
            except HeadraceError as error:
                error.add_note(f"while importing {node.op} '{node.name}' from {self.source.filename}")
                raise
        self._close_loops(_loop_heads(proto))

    def _close_loops(self, heads: Mapping[str, str]) -> None:
        """Add the edges that lead backward.

        Raises:
          _ShapesChange: a loop variable does not keep its shape.
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
            raise _ShapesChange(frozenset(changing))
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


def _signatures(proto: GraphDef) -> dict[str, OpDefProto]:
    """The signatures of the functions of a file that may be called by their names as if they were types."""
    return {
        function.signature.name: function.signature
        for function in proto.library.function
        if find_op_def(function.signature.name) is None
    }


def _add_functions(functions: FunctionLibrary, added: FunctionDefLibrary, source: SourceLine) -> None:
    """Add the functions and gradients of a file; one that the library has already is kept once."""
    signatures = {item.signature.name: item.signature for item in added.function}
    for function in added.function:
        name, content = function.signature.name, serialized(function)
        if name not in functions:
            functions.add_stored(
                name, content, functools.partial(_read_function, content, functions, signatures, source)
            )
        elif content != functions.stored.get(name) and function != _known_function(functions, name):
            raise functions.conflict(name)
    known = FunctionDefLibrary.FromString(functions.gradients)
    known.gradient.extend(gradient for gradient in added.gradient if gradient not in known.gradient)
    known.registered_gradients.extend(
        gradient for gradient in added.registered_gradients if gradient not in known.registered_gradients
    )
    functions.gradients = serialized(known)


def _known_function(functions: FunctionLibrary, name: str) -> FunctionDef:
    stored = functions.stored.get(name)
    return encode_function(functions[name]) if stored is None else FunctionDef.FromString(stored)


def _read_function(
    content: bytes, functions: FunctionLibrary, signatures: Mapping[str, OpDefProto], source: SourceLine
) -> Body:
    """The body of a function of a graph file."""
    function = FunctionDef.FromString(content)
    body = Body(function.signature.name, functions=functions)
    body.effect_order = None  # the file has every edge that is needed
    try:
        proto = function_as_graph(function, signatures)
        _Import(body, "", {}, source, {}, signatures, frozenset(_loop_heads(proto))).run(proto)
        body.close({op.attrs["index"]: op.outputs[0] for op in body.operations if op.type == "_Arg"})
    except HeadraceError as error:
        error.add_note(f"while reading function '{body.name}' of {source.filename}")
        raise
    return body


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


_VARIABLE_ATTRS = {
    "dtype": AttrSpec("type"),
    "shape": AttrSpec("shape"),
    "container": AttrSpec("string"),
    "shared_name": AttrSpec("string"),
}


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


def _topological(proto: GraphDef) -> list[NodeDef]:
    """The nodes with each after its inputs, otherwise in the order of the file."""
    nodes: dict[str, NodeDef] = {}
    for node in proto.node:
        if node.name in nodes:
            raise GraphError(
                f"two operations are named '{node.name}'",
                expected="unique names",
                got=f"{nodes[node.name].op} and {node.op}",
                hint="rename one of them, and the inputs that read it",
            )
        nodes[node.name] = node
    heads = _loop_heads(proto)
    waiting = {name: _producers(node, nodes, heads.get(name)) for name, node in nodes.items()}
    consumers: dict[str, list[str]] = {name: [] for name in nodes}
    for name, producers in waiting.items():
        for producer in producers:
            consumers[producer].append(name)
    counts = {name: len(producers) for name, producers in waiting.items()}
    ready = [name for name in reversed(nodes) if counts[name] == 0]
    ordered: list[NodeDef] = []
    while ready:
        name = ready.pop()
        ordered.append(nodes[name])
        for consumer in reversed(consumers[name]):
            counts[consumer] -= 1
            if counts[consumer] == 0:
                ready.append(consumer)
    if len(ordered) != len(nodes):
        stuck = [name for name, count in counts.items() if count > 0]
        raise GraphError(
            "the graph has a cycle",
            expected="no operation that depends on its own output, but for a NextIteration that a Merge reads last",
            got=", ".join(stuck[:8]),
            hint="build the loop with hr.while_loop",
        )
    return ordered


def _loop_heads(proto: GraphDef) -> dict[str, str]:
    """The operations at the heads of loops, each with the input that leads backward."""
    types = {node.name: node.op.removeprefix("Ref") for node in proto.node}
    return {
        node.name: edges[-1]
        for node in proto.node
        if types[node.name] == "Merge"
        and len(edges := [edge for edge in node.input if not edge.startswith("^")]) > 1
        and types.get(edges[-1].partition(":")[0]) == "NextIteration"
    }


def _on_values(node: NodeDef) -> NodeDef:
    """A node of TensorFlow 1 that takes or passes on references, as the one on values or handles."""
    on_values = reference_variables.without_reference(node.op)
    if on_values == node.op:
        return node
    copied = NodeDef()
    copied.CopyFrom(node)
    copied.op = on_values
    return copied


def _producers(node: NodeDef, nodes: Mapping[str, NodeDef], back: str | None) -> set[str]:
    producers: set[str] = set()
    for edge in node.input:
        if edge == back:
            continue
        name = edge.removeprefix("^").partition(":")[0]
        if name not in nodes:
            raise GraphError(
                f"'{node.name}' reads '{edge}', which does not exist",
                expected="the name of an operation of the graph",
                got=f"no operation '{name}'",
                hint="write the graph with every operation that it reads from, or drop this input",
            )
        producers.add(name)
    return producers
