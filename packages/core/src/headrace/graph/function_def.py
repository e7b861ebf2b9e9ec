"""Functions and libraries of them as messages, and back.

In a function an input is written by names, `operation:output:index` with the name that the operation type gives its
output, or the name of an argument. Reading turns it into the form of a graph, `operation:number`, with `_Arg` and
`_Retval` operations for the arguments and results.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

from headrace.errors import DataLossError, GraphError, HeadraceError, UnimplementedError, known_names
from headrace.graph.attr_proto import encode_attr, serialized
from headrace.graph.function_library import FunctionLibrary
from headrace.graph.functions import Body
from headrace.graph.list_spec import HANDLE_DTYPES, HANDLE_SHAPES
from headrace.graph.node_def import encode_op
from headrace.graph.node_import import NodeImport
from headrace.graph.node_order import loop_heads
from headrace.graph.op_def import ArgSpec, find_op_def, lookup_op_def
from headrace.graph.operation import Tensor
from headrace.graph.proto.function_pb2 import FunctionDef, FunctionDefLibrary
from headrace.graph.proto.graph_pb2 import GraphDef
from headrace.graph.proto.node_pb2 import NodeDef
from headrace.graph.proto.op_def_pb2 import OpDef as OpDefProto
from headrace.graph.source import SourceLine
from headrace.graph.tensor_proto import encode_shape

__all__ = ["called_as_types", "decode_library", "encode_library"]

_OUTPUT_SHAPES = "_output_shapes"


def encode_library(functions: FunctionLibrary, proto: FunctionDefLibrary) -> None:
    """Write a library into an empty message; functions that a file brought are written as they were."""
    proto.ParseFromString(functions.gradients)
    for name in functions:
        if name in functions.stored:
            proto.function.add().ParseFromString(functions.stored[name])
        else:
            proto.function.append(_encode_function(functions[name]))


def _encode_function(body: Body) -> FunctionDef:
    """The message of a function."""
    proto = FunctionDef()
    proto.signature.name = body.name
    proto.signature.is_stateful = body.effects.stateful
    for index in range(len(body.arguments)):
        argument = body.arguments[index]
        proto.signature.input_arg.add(name=argument.op.name, type=argument.dtype.number)
        attrs = proto.arg_attr[index].attr
        attrs[_OUTPUT_SHAPES].list.shape.append(encode_shape(argument.shape))
        for name in (HANDLE_DTYPES, HANDLE_SHAPES):
            if name in argument.op.attrs:
                encode_attr(argument.op.attrs[name], None, attrs[name])
    for index, result in enumerate(body.results):
        name = f"result_{index}"
        proto.signature.output_arg.add(name=name, type=result.dtype.number)
        proto.ret[name] = _reference(result)
    for op in body.operations:
        if op.type in ("_Arg", "_Retval"):
            continue
        encode_op(op, proto.node_def.add(), None, _reference)
        if op.has_effect:
            proto.signature.control_output.append(op.name)
            proto.control_ret[op.name] = op.name
    return proto


def _reference(tensor: Tensor) -> str:
    if tensor.op.type == "_Arg":
        return tensor.op.name
    attrs, outputs = tensor.op.attrs, tensor.op.op_def.outputs
    names = [f"{argument.name}:{number}" for argument in outputs for number in range(len(argument.dtypes(attrs)))]
    return f"{tensor.op.name}:{names[tensor.index]}"


def decode_library(added: FunctionDefLibrary, functions: FunctionLibrary, source: SourceLine) -> None:
    """Add the functions and gradients of a message to a library; one that it has already is kept once.

    Args:
      added: the message.
      functions: the library.
      source: what errors say that the functions come from.
    Raises:
      GraphError: the library has another function of one of the names.
    """
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
    return _encode_function(functions[name]) if stored is None else FunctionDef.FromString(stored)


def _read_function(
    content: bytes, functions: FunctionLibrary, signatures: Mapping[str, OpDefProto], source: SourceLine
) -> Body:
    """The body of a function of a graph file."""
    function = FunctionDef.FromString(content)
    body = Body(function.signature.name, functions=functions)
    body.effect_order = None  # the file has every edge that is needed
    try:
        proto = _function_as_graph(function, signatures)
        NodeImport(body, "", {}, source, {}, signatures, frozenset(loop_heads(proto))).run(proto)
        body.close({op.attrs["index"]: op.outputs[0] for op in body.operations if op.type == "_Arg"})
    except HeadraceError as error:
        error.add_note(f"while reading function '{body.name}' of {source.filename}")
        raise
    return body


def called_as_types(library: FunctionDefLibrary) -> dict[str, OpDefProto]:
    """The signatures of the functions that a graph may call by their names as if they were types."""
    return {
        function.signature.name: function.signature
        for function in library.function
        if find_op_def(function.signature.name) is None
    }


def _function_as_graph(proto: FunctionDef, signatures: Mapping[str, OpDefProto]) -> GraphDef:
    """The operations of a function as those of a graph.

    Args:
      proto: the function.
      signatures: those of all functions of the file, which may be called by their names as if they were types.
    Raises:
      UnknownOpError: the type of an operation is not known, so its outputs have no numbers.
      UnimplementedError: the function is a template, with types that each call chooses.
      DataLossError: an input is not written as a function's inputs are.
    """
    graph = GraphDef()
    for index, argument in enumerate(proto.signature.input_arg):
        _check_plain(proto, argument)
        node = graph.node.add(name=argument.name, op="_Arg")
        node.attr["T"].type = argument.type
        node.attr["index"].i = index
        if index in proto.arg_attr:
            _copy_argument_attrs(proto.arg_attr[index], node)
    nodes = {node.name: node for node in proto.node_def}
    arguments = {argument.name for argument in proto.signature.input_arg}
    for node in proto.node_def:
        copy = graph.node.add()
        copy.CopyFrom(node)
        del copy.input[:]
        copy.input.extend(_numbered(edge, nodes, arguments, signatures, proto.signature.name) for edge in node.input)
    taken = {node.name for node in graph.node}
    for index, result in enumerate(proto.signature.output_arg):
        _check_plain(proto, result)
        name = next(name for name in _names(f"{result.name}_result") if name not in taken)
        taken.add(name)
        edge = _numbered(proto.ret[result.name], nodes, arguments, signatures, proto.signature.name)
        node = graph.node.add(name=name, op="_Retval", input=[edge])
        node.attr["T"].type = result.type
        node.attr["index"].i = index
    return graph


def _names(name: str) -> Iterator[str]:
    yield name
    count = 0
    while True:
        count += 1
        yield f"{name}_{count}"


def _check_plain(proto: FunctionDef, argument: OpDefProto.ArgDef) -> None:
    if argument.type_attr or argument.number_attr or argument.type_list_attr or not argument.type:
        raise UnimplementedError(
            f"function '{proto.signature.name}' is a template",
            expected="arguments and results of fixed types",
            got=f"'{argument.name}', whose type each call chooses",
            hint="export the function once for each type that it is called with",
        )


def _copy_argument_attrs(given: FunctionDef.ArgAttrs, node: NodeDef) -> None:
    if _OUTPUT_SHAPES in given.attr and len(given.attr[_OUTPUT_SHAPES].list.shape) == 1:
        node.attr["shape"].shape.CopyFrom(given.attr[_OUTPUT_SHAPES].list.shape[0])
    if HANDLE_DTYPES in given.attr and HANDLE_SHAPES in given.attr:
        node.attr[HANDLE_DTYPES].CopyFrom(given.attr[HANDLE_DTYPES])
        node.attr[HANDLE_SHAPES].CopyFrom(given.attr[HANDLE_SHAPES])


def _numbered(
    edge: str,
    nodes: Mapping[str, NodeDef],
    arguments: set[str],
    signatures: Mapping[str, OpDefProto],
    function: str,
) -> str:
    """The name `operation:number` of what `operation:output:index` names."""
    if edge.startswith("^"):
        return edge
    name, _, rest = edge.partition(":")
    if name in arguments:
        return f"{name}:0"
    output, _, index = rest.partition(":")
    node = nodes.get(name)
    if node is None or not (index.isdecimal() or not index):
        raise GraphError(
            f"function '{function}' reads '{edge}', which does not exist",
            expected=known_names(name, {*nodes, *arguments}),
            got=repr(edge),
            hint="write the function with every operation that it reads from",
        )
    number = int(index or "0")
    for argument in _outputs(node, signatures):
        if argument.name == output:
            return f"{name}:{number}"
        number += _count(argument, node)
    raise DataLossError(
        f"function '{function}' reads '{edge}'",
        expected=", ".join(argument.name for argument in _outputs(node, signatures)),
        got=repr(output),
        hint=f"{node.op} has no output of that name in this version: export the function again",
    )


def _outputs(node: NodeDef, signatures: Mapping[str, OpDefProto]) -> list[ArgSpec]:
    if node.op in signatures:
        return [ArgSpec(argument.name) for argument in signatures[node.op].output_arg]
    return list(lookup_op_def(node.op).outputs)


def _count(argument: ArgSpec, node: NodeDef) -> int:
    """How many tensors an output stands for in a node."""
    if argument.type_list_attr is not None:
        return len(node.attr[argument.type_list_attr].list.type)
    return 1 if argument.number_attr is None else node.attr[argument.number_attr].i
