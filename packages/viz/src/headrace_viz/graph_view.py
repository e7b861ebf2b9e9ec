"""A graph as TensorBoard draws it: structure, devices and shapes, but no weights."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import headrace as hr
from headrace.errors import InvalidArgumentError
from headrace.graph.proto.attr_pb2 import AttrValue
from headrace.graph.proto.graph_pb2 import GraphDef
from headrace.graph.proto.tensor_pb2 import TensorShapeProto


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
        view.library.CopyFrom(hr.to_graph_def(hr.Graph(functions=graph.functions)).library)
    return view


def _add_node(view: GraphDef, operation: hr.Operation) -> None:
    data = [tensor.op.name if tensor.index == 0 else tensor.name for tensor in operation.inputs]
    control = [f"^{before.name}" for before in operation.control_inputs]
    attr = view.node.add(name=operation.name, op=operation.type, input=data + control, device=operation.device).attr
    for name, value in operation.attrs.items():
        shown = _attr(value)
        if shown is not None:
            attr[name].CopyFrom(shown)
    attr["_output_shapes"].CopyFrom(_shapes_attr(tuple(tensor.shape.dims for tensor in operation.outputs)))


# Large graphs repeat few types and shapes; remembering them halves the time.
@functools.lru_cache(maxsize=1024)
def _type_attr(dtype: hr.DType) -> AttrValue:
    return AttrValue(type=dtype.number)  # type: ignore[arg-type]  # the stub wants an enum value


@functools.lru_cache(maxsize=1024)
def _shapes_attr(shapes: tuple[tuple[int | None, ...] | None, ...]) -> AttrValue:
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
