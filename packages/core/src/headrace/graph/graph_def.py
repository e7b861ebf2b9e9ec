"""GraphDef: graphs as TensorFlow writes and reads them.

Field numbers, operation types, attribute names and semantics are TensorFlow's, so a graph written here loads there and
the other way round. Operations and attributes that are not known here are kept and written out unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message

from headrace.errors import DataLossError, InvalidArgumentError, NotFoundError, ShapeError
from headrace.graph.attr_proto import serialized
from headrace.graph.constants import read_constants, write_constants
from headrace.graph.extensions import latest, needed_operations
from headrace.graph.function_def import called_as_types, decode_library, encode_library
from headrace.graph.graph import Graph
from headrace.graph.node_def import encode_op
from headrace.graph.node_import import NodeImport, ShapesChange
from headrace.graph.node_order import loop_heads
from headrace.graph.operation import Operation, Tensor
from headrace.graph.proto.graph_pb2 import GraphDef
from headrace.graph.source import SourceLine
from headrace.types import Array

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
    encode_library(graph.functions, proto.library)
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
    line = SourceLine(label or origin, 0)
    heads = frozenset(loop_heads(proto))
    changing: frozenset[str] = frozenset()
    while True:
        try:
            with target.all_or_nothing():
                decode_library(proto.library, target.functions, line)
                _raise_versions(target, proto)
                NodeImport(
                    target,
                    f"{name}/" if name else "",
                    constants,
                    line,
                    dict(input_map or {}),
                    called_as_types(proto.library),
                    changing,
                ).run(proto)
            return target
        except ShapesChange as found:
            changing |= found.heads
        except ShapeError:
            if changing == heads:
                raise
            changing = heads


def _raise_versions(graph: Graph, proto: GraphDef) -> None:
    producer, min_consumer = graph.versions
    graph.versions = (max(producer, proto.versions.producer), max(min_consumer, proto.versions.min_consumer))


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
