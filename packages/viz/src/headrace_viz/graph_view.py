"""A graph as TensorBoard draws it: structure, devices and shapes, but no weights."""

from __future__ import annotations

import headrace as hr
from headrace.graph.proto.attr_pb2 import AttrValue
from headrace.graph.proto.graph_pb2 import GraphDef
from headrace.graph.proto.node_pb2 import NodeDef
from headrace.graph.proto.tensor_pb2 import TensorShapeProto


def graph_view(graph: hr.Graph) -> GraphDef:
    """Return the graph's operations, each with the static shapes of its outputs, which become the labels of edges.

    Args:
      graph: any graph; not changed.
    """
    return GraphDef(node=[_node(operation) for operation in graph.operations])


def _node(operation: hr.Operation) -> NodeDef:
    data = [tensor.op.name if tensor.index == 0 else tensor.name for tensor in operation.inputs]
    control = [f"^{before.name}" for before in operation.control_inputs]
    node = NodeDef(name=operation.name, op=operation.type, input=[*data, *control], device=operation.device)
    shapes = [_shape(tensor.shape) for tensor in operation.outputs]
    node.attr["_output_shapes"].CopyFrom(AttrValue(list=AttrValue.ListValue(shape=shapes)))
    return node


def _shape(shape: hr.Shape) -> TensorShapeProto:
    if shape.dims is None:
        return TensorShapeProto(unknown_rank=True)
    sizes = [-1 if size is None else size for size in shape.dims]
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes])
