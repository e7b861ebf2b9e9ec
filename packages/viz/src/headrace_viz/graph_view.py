"""A graph as TensorBoard draws it: structure, devices and shapes, but no weights."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

import headrace as hr
from headrace.errors import InvalidArgumentError
from headrace.graph.proto.attr_pb2 import AttrValue, NameAttrList
from headrace.graph.proto.function_pb2 import FunctionDefLibrary
from headrace.graph.proto.graph_pb2 import GraphDef
from headrace.graph.proto.tensor_pb2 import TensorShapeProto
from headrace_viz.devices import device_scope


def graph_view(graph: hr.Graph) -> GraphDef:
    """Return the graph's operations, each with the static shapes of its outputs, which become the labels of edges.

    Attributes that hold tensors are left out: TensorBoard shows none above 1 KB, and weights may take gigabytes.

    Args:
      graph: any graph; not changed.
    """
    view = GraphDef()
    for operation in graph.operations:
        _add_node(view, operation)
    if graph.functions:
        view.library.CopyFrom(_library_view(graph))
    return view


def divided_view(parts: Mapping[str, hr.Graph]) -> GraphDef:
    """Return the graphs of several devices as one: a name scope for each, and an edge from each send to its receive.

    Args:
      parts: the graph of each device, as `Session.partitions` gives them.
    """
    view = GraphDef()
    sends: dict[tuple[object, ...], tuple[str, AttrValue]] = {}
    receives: list[tuple[Any, tuple[object, ...]]] = []
    for device, graph in parts.items():
        scope = f"{device_scope(device)}/"
        for operation in graph.operations:
            node = _add_node(view, operation, scope)
            node.device = node.device or device
            if operation.type == "_Send":
                shapes = _shapes_attr((operation.inputs[0].shape.dims,))
                sends[_route(operation)] = (node.name, shapes)
                node.attr["_output_shapes"].CopyFrom(shapes)
            elif operation.type == "_Recv":
                receives.append((node, _route(operation)))
        if graph.functions and not view.library.function:
            view.library.CopyFrom(_library_view(graph))  # the parts share one library
    for node, route in receives:
        if route in sends:  # else it comes from another process
            sender, shapes = sends[route]
            node.input.insert(0, sender)
            node.attr["_output_shapes"].CopyFrom(shapes)
    return view


def _route(operation: hr.Operation) -> tuple[object, ...]:
    return tuple(operation.attr(name) for name in ("tensor_name", "send_device", "recv_device"))


def _library_view(graph: hr.Graph) -> FunctionDefLibrary:
    """Return the functions without the tensors that they hold, with static shapes where their bodies are known."""
    library = hr.to_graph_def(hr.Graph(functions=graph.functions)).library
    for function in library.function:
        name = function.signature.name
        written_here = name in graph.functions and name not in graph.functions.stored
        shapes = _body_shapes(graph, name) if written_here else {}
        for node in function.node_def:
            for key in [key for key, value in node.attr.items() if value.HasField("tensor") or value.list.tensor]:
                del node.attr[key]
            if node.name in shapes:
                node.attr["_output_shapes"].CopyFrom(_shapes_attr(shapes[node.name]))
    return library


def _body_shapes(graph: hr.Graph, name: str) -> dict[str, _Shapes]:
    return {op.name: tuple(tensor.shape.dims for tensor in op.outputs) for op in graph.functions[name].operations}


def _add_node(view: GraphDef, operation: hr.Operation, scope: str = "") -> Any:
    data = [scope + (tensor.op.name if tensor.index == 0 else tensor.name) for tensor in operation.inputs]
    control = [f"^{scope}{before.name}" for before in operation.control_inputs]
    node = view.node.add(name=scope + operation.name, op=operation.type, input=data + control, device=operation.device)
    for name, value in operation.attrs.items():
        shown = _attr(value)
        if shown is not None:
            node.attr[name].CopyFrom(shown)
    node.attr["_output_shapes"].CopyFrom(_shapes_attr(tuple(tensor.shape.dims for tensor in operation.outputs)))
    return node


_Shapes = tuple[tuple[int | None, ...] | None, ...]


# Large graphs repeat few types and shapes; remembering them halves the time.
@functools.lru_cache(maxsize=1024)
def _type_attr(dtype: hr.DType) -> AttrValue:
    return AttrValue(type=dtype.number)  # type: ignore[arg-type]  # the stub wants an enum value


@functools.lru_cache(maxsize=1024)
def _shapes_attr(shapes: _Shapes) -> AttrValue:
    return AttrValue(list=AttrValue.ListValue(shape=[shape_proto(hr.Shape(dims)) for dims in shapes]))


def _attr(value: object) -> AttrValue | None:
    match value:
        case bool():
            return AttrValue(b=value)
        case int():
            return AttrValue(i=value)
        case float():
            return AttrValue(f=value)
        case str():
            return AttrValue(s=value.encode())
        case bytes():
            return AttrValue(s=value)
        case hr.DType():
            return _type_attr(value)
        case hr.Shape():
            return AttrValue(shape=shape_proto(value))
        case tuple():
            return _list_attr(value)
        case hr.attr.FunctionName():
            return AttrValue(func=NameAttrList(name=value.name))
        case _:
            return None


def _list_attr(values: tuple[object, ...]) -> AttrValue | None:
    shown = AttrValue(list=AttrValue.ListValue())
    for value in values:
        item = _attr(value)
        if item is None or item.HasField("list"):
            return None
        field = str(item.WhichOneof("value"))
        getattr(shown.list, field).append(getattr(item, field))
    return shown


def shape_proto(shape: hr.Shape) -> TensorShapeProto:
    """Return a static shape; -1 for a size that is not known."""
    if shape.dims is None:
        return TensorShapeProto(unknown_rank=True)
    sizes = [-1 if size is None else size for size in shape.dims]
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes])


def graph_of(model: Any, example: Any) -> hr.Graph:
    """Return the graph of a graph, session or trainer, or of a function of tensors.

    Args:
      model: one of these.
      example: for a function, an array, or a tuple of them, like those that it is to be applied to.
    Raises:
      InvalidArgumentError: the model is nothing of these, or a function without example.
    """
    if isinstance(model, hr.Graph):
        return model
    if isinstance(model, hr.Session | hr.Trainer):
        return model.graph
    if not callable(model) or example is None:
        raise InvalidArgumentError(
            "there is no graph to write",
            expected="a graph, session or trainer, or a function and input_to_model",
            got=f"{type(model).__name__}, input_to_model={type(example).__name__}",
            hint="add_graph(model, np.zeros([1, 28, 28, 1], np.float32))",
        )
    arrays = [np.asarray(array) for array in (example if isinstance(example, tuple) else (example,))]
    graph = hr.Graph()
    with graph.as_default():
        model(*[hr.placeholder(hr.as_dtype(array.dtype), array.shape, name="input") for array in arrays])
    return graph
