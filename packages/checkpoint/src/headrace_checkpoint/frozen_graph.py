"""Frozen graphs: one file with what computes some outputs, the variables' values in it as constants.

`tf.graph_util`, TensorFlow's C API, OpenCV and `hr.import_graph_def` read such a file; it needs no restore.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import headrace as hr
from headrace.errors import FeedError, GraphError, InvalidArgumentError
from headrace.graph.proto.graph_pb2 import GraphDef
from headrace.graph.proto.types_pb2 import DataType
from headrace.passes import optimize, prune
from headrace_checkpoint import exported_graph
from headrace_checkpoint.durable import DISK, Disk, replace_file
from headrace_checkpoint.exported_graph import HANDLE, node_of
from headrace_checkpoint.frozen_variables import freeze_variables
from headrace_checkpoint.inference_passes import LEVELS
from headrace_checkpoint.saved_model import DEFAULT_SIGNATURE, LoadedModel

__all__ = ["FrozenGraph", "freeze"]

MAX_BYTES = (1 << 31) - 1
"""What a protobuf message may take, and with it a graph file that others read."""


@dataclass(frozen=True, slots=True)
class FrozenGraph:
    """A graph that was written to a file.

    Attributes:
      path: the file.
      inputs: the names of the tensors to feed, in the order in which they were given, or in that of the signature.
      outputs: the names of the tensors to fetch, in the order in which they were given, or in that of the signature.
      operations: how many operations it has.
    """

    path: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operations: int


def freeze(
    source: hr.Session | LoadedModel,
    path: str | os.PathLike[str],
    outputs: Sequence[hr.Tensor | str] | None = None,
    *,
    inputs: Sequence[hr.Tensor | str] | None = None,
    signature: str = DEFAULT_SIGNATURE,
    level: str = "basic",
    initializers: Sequence[hr.Operation | str] = (),
    disk: Disk = DISK,
) -> FrozenGraph:
    """Write what computes some outputs as a GraphDef, with the values that variables have now as constants.

    Inputs and outputs keep their names. Tables are not frozen: run the operations that fill them first.

    Args:
      source: a session, or a loaded model.
      path: the file; an existing one is replaced in one step.
      outputs: the tensors to compute, or their names; None: those of `signature` of a loaded model.
      inputs: the tensors that will be fed, or their names; None: the placeholders that the outputs need.
      signature: which function of a loaded model is meant, where `outputs` is None.
      level: `"none"`: variables become constants, and that is all. `"basic"`: what is known is computed, what changes
        nothing and what is there twice goes, functions are inlined; results stay the same to the bit, as far as the
        kernels go. `"extended"`: batch normalisations and other products by constants move into the weights before
        them; results agree to rounding. `"all"`: loops and branches are narrowed too, and everything is done twice.
      initializers: operations to keep in the graph beside the outputs, such as those that fill tables.
      disk: whose system calls to use.
    Returns:
      The names of inputs and outputs in the file.
    Raises:
      InvalidArgumentError: the level is unknown, there is nothing to compute, or the graph takes more than 2 GiB.
      NotFoundError: a tensor or the signature is not there.
      GraphError: an output changes a variable.
      FeedError: an output needs a placeholder that is not among the inputs.
      OSError: the disk refused.

    Example:
      >>> import headrace as hr, headrace_checkpoint, tempfile
      >>> graph = hr.Graph()
      >>> with graph.as_default():
      ...     x = hr.placeholder(hr.float32, [None], name="x")
      ...     y = hr.multiply(x, hr.Variable(2.0), name="y")
      >>> with hr.Session(graph) as session:
      ...     frozen = headrace_checkpoint.freeze(session, tempfile.mkdtemp() + "/double.pb", [y])
      >>> copy = hr.import_graph_def(frozen.path)
      >>> print(hr.Session(copy).run(frozen.outputs[0], feeds={"x:0": [1.0, 2.0]}))
      [2. 4.]
    """
    if level not in LEVELS:
        raise InvalidArgumentError(
            "there is no such level of optimisation",
            expected=", ".join(LEVELS),
            got=repr(level),
            hint="level='extended' folds batch normalisation",
        )
    session = source.session if isinstance(source, LoadedModel) else source
    if outputs is None:
        inputs, outputs = _of_signature(source, signature)
    fetches = [_tensor(session.graph, item) for item in outputs]
    if not fetches:
        raise InvalidArgumentError(
            "there is nothing to freeze",
            expected="at least one output",
            got="none",
            hint="freeze(session, path, [tensor])",
        )
    given = None if inputs is None else [_tensor(session.graph, item) for item in inputs]
    kept = [item if isinstance(item, hr.Operation) else session.graph.operation(item) for item in initializers]
    proto, names = _frozen(session, fetches, given, kept)
    graph = hr.import_graph_def(proto)
    bounded = _optimized(graph, [item.name for item in fetches], names, [op.name for op in kept], level)
    result, fed, found = _plain(bounded, names, [item.name for item in fetches])
    content = result.SerializeToString(deterministic=True)
    replace_file(Path(path), [content], disk)
    return FrozenGraph(Path(path), tuple(fed), tuple(found), len(result.node))


def _of_signature(source: hr.Session | LoadedModel, name: str) -> tuple[list[str], list[str]]:
    if not isinstance(source, LoadedModel):
        raise InvalidArgumentError(
            "a session has no signature that says what to freeze",
            expected="outputs=[tensor, ...]",
            got="outputs=None",
            hint="freeze(session, path, [tensor])",
        )
    signature = source.signatures[name]
    return [item.name for item in signature.inputs.values()], [item.name for item in signature.outputs.values()]


def _tensor(graph: hr.Graph, item: hr.Tensor | str) -> hr.Tensor:
    tensor = graph.tensor(item) if isinstance(item, str) else item
    if tensor.graph is not graph:
        raise GraphError(
            f"'{tensor.name}' is not in the session's graph",
            where=tensor.op.location,
            expected=f"a tensor of {graph!r}",
            got=f"a tensor of {tensor.graph!r}",
            hint="freeze the session of the graph that the tensor was made in",
        )
    return tensor


def _frozen(
    session: hr.Session,
    fetches: Sequence[hr.Tensor],
    inputs: Sequence[hr.Tensor] | None,
    kept: Sequence[hr.Operation],
) -> tuple[GraphDef, list[str]]:
    """The graph with constants in the place of variables, and the names of the inputs."""
    roots = {item.op for item in (*fetches, *(inputs or ()))} | set(kept)
    whole = hr.to_graph_def(session.graph, roots)
    needed = exported_graph.prune(whole, sorted(op.name for op in roots))
    handles = [node.name for node in needed.node if node.op == HANDLE]
    proto = freeze_variables(needed, session.read_variables(handles))
    if proto.ByteSize() > MAX_BYTES:
        raise InvalidArgumentError(
            "the frozen graph is too large for one file",
            expected=f"at most {MAX_BYTES} bytes",
            got=f"{proto.ByteSize()} bytes",
            hint="save_model keeps the variables in files of their own, without a limit",
        )
    if inputs is None:
        return proto, [f"{node.name}:0" for node in proto.node if node.op == "Placeholder"]
    return proto, [item.name for item in inputs]


def _optimized(
    graph: hr.Graph, fetches: Sequence[str], inputs: Sequence[str], kept: Sequence[str], level: str
) -> hr.Graph:
    targets = [graph.operation(name) for name in kept]
    feeds = [graph.tensor(name) for name in inputs]
    try:
        bounded = prune(graph, [graph.tensor(name) for name in fetches], targets, feeds)
    except FeedError as error:
        error.add_note("freeze(..., inputs=[...]) must name every placeholder that the outputs need")
        raise
    return optimize(bounded, hr.config(passes=LEVELS[level], verify=True))


def _plain(bounded: hr.Graph, inputs: Sequence[str], outputs: Sequence[str]) -> tuple[GraphDef, list[str], list[str]]:
    """A bounded graph as a graph of placeholders and outputs by their names; the names that these have in it."""
    proto = hr.to_graph_def(bounded)
    taken = {node.name for node in proto.node}
    placeholders = {node.attr["index"].i: node for node in proto.node if node.op == "_Arg"}
    results = {node.attr["index"].i: node.input[0] for node in proto.node if node.op == "_Retval"}
    renamed = {placeholders[number].name: _free(name, taken) for number, name in enumerate(inputs)}
    plain = GraphDef(versions=proto.versions, library=proto.library)
    for node in proto.node:
        if node.op != "_Retval":
            copy = plain.node.add()
            copy.CopyFrom(node)
            copy.input[:] = [_moved(edge, renamed) for edge in node.input]
            for name in [name for name in node.attr if name.startswith("_")]:
                del copy.attr[name]
            if node.op == "_Arg":
                copy.name, copy.op = renamed[node.name], "Placeholder"
                copy.attr.clear()
                copy.attr["dtype"].type = node.attr["T"].type
                copy.attr["shape"].shape.CopyFrom(node.attr["shape"].shape)
    names = {}
    for number, output in enumerate(outputs):
        edge = _moved(results[number], renamed)
        if edge.removesuffix(":0") != output.removesuffix(":0") and output not in names:
            dtype = _dtype_of_result(bounded, number)
            name = _free(output, taken)
            node = plain.node.add(name=name, op="Identity", input=[edge])
            node.attr["T"].type = dtype
            names[output] = f"{name}:0"
    found = [names.get(output, output) for output in outputs]
    whole = exported_graph.prune(plain, [node.name for node in plain.node])
    return whole, [f"{renamed[placeholders[number].name]}:0" for number in range(len(inputs))], found


def _dtype_of_result(bounded: hr.Graph, number: int) -> DataType:
    result = next(op for op in bounded.operations if op.type == "_Retval" and op.attrs["index"] == number)
    return cast(DataType, result.inputs[0].dtype.number)


def _free(tensor: str, taken: set[str]) -> str:
    """A name for an operation that gives what a tensor of that name gave: the same one, if it is free."""
    op, _, index = tensor.partition(":")
    first = op if index in ("", "0") else f"{op}_{index}"
    name = next(item for item in (first, *(f"{first}_{n}" for n in range(1, len(taken) + 2))) if item not in taken)
    taken.add(name)
    return name


def _moved(edge: str, renamed: Mapping[str, str]) -> str:
    name = node_of(edge)
    return edge.replace(name, renamed[name], 1) if name in renamed else edge
