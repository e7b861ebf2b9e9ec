"""Batch norm by given statistics becomes a product and a sum per channel, and part of a constant convolution before it.

(x - mean) / sqrt(variance + epsilon) * scale + offset = x * s + t, where s and t have one number per channel: constants
where weights and statistics are, as in a model that is served. A convolution is linear, conv(x, k) * s = conv(x, k *
s), so that the product over all pixels becomes one over the filters, made once. What is left is rounded otherwise, by a
few ulp.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from headrace.graph.frames import has_tokens
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.passes.rewrite import copy_op, rewrite_live
from headrace.types import Array, as_dtype

__all__ = ["batch_norm"]

_NORMS = frozenset({"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"})
_CONVOLUTIONS = frozenset({"Conv2D", "Conv3D", "DepthwiseConv2dNative"})
_CHANNELS_LAST = ("NHWC", "NDHWC")


def batch_norm(graph: Graph) -> Graph:
    """Write batch norms that do not train, and of which only the images are used, as products and sums.

    A graph in which values may be dead stays as it is.
    """
    if has_tokens(graph) or not any(op.type in _NORMS for op in graph.operations):
        return graph
    readers = Counter(tensor for op in graph.operations for tensor in op.inputs)
    awaited = {item for op in graph.operations for item in op.control_inputs}

    def rule(op: Operation, inputs: Sequence[Tensor], result: Graph) -> Sequence[Tensor] | None:
        if op.type not in _NORMS or op in awaited or not _is_affine(op, readers):
            return None
        s, t = _factors(op, inputs, result)
        convolution = op.inputs[0].op
        alone = readers[op.inputs[0]] == 1 and convolution not in awaited and not convolution.control_inputs
        if alone and _has_channels_last(convolution) and _are_constant([convolution.inputs[1], *op.inputs[1:]]):
            images, filters = inputs[0].op.inputs
            if convolution.type == "DepthwiseConv2dNative":  # whose filters are [rows, columns, in, multiplier]
                sizes = _constant(op, result, "sizes", np.array(filters.shape.as_tuple()[2:], np.int32))
                s = _made(op, result, "Reshape", s, sizes, Tshape="int32")
            scaled = copy_op(convolution, [images, _made(op, result, "Mul", filters, s)], result, prefix=f"{op.name}/")
            product = scaled.outputs[0]
        else:
            product = _made(op, result, "Mul", inputs[0], s)
        return [_made(op, result, "AddV2", product, t)] * len(op.outputs)  # nobody reads the others

    return rewrite_live(graph, rule)


def _is_affine(op: Operation, readers: Counter[Tensor]) -> bool:
    return (
        not op.attrs["is_training"]
        and op.attrs["data_format"] in _CHANNELS_LAST
        and not op.control_inputs
        and "_target" not in op.attrs
        and len({tensor.dtype for tensor in op.inputs}) == 1
        and not any(readers[output] for output in op.outputs[1:])
    )


def _has_channels_last(op: Operation) -> bool:
    """True for convolutions whose outputs are on the last axis, where batch norm has its numbers."""
    return op.type in _CONVOLUTIONS and op.attrs["data_format"] in _CHANNELS_LAST


def _are_constant(tensors: Sequence[Tensor]) -> bool:
    return all(tensor.op.type == "Const" for tensor in tensors)


def _factors(op: Operation, inputs: Sequence[Tensor], graph: Graph) -> tuple[Tensor, Tensor]:
    """s and t of the module's first lines."""
    _, scale, offset, mean, variance = inputs
    epsilon = _constant(op, graph, "epsilon", np.asarray(op.attrs["epsilon"], scale.dtype.array_type))
    spread = _made(op, graph, "Sqrt", _made(op, graph, "AddV2", variance, epsilon))
    s = _made(op, graph, "RealDiv", scale, spread)
    return s, _made(op, graph, "Sub", offset, _made(op, graph, "Mul", mean, s))


def _constant(op: Operation, graph: Graph, name: str, value: Array) -> Tensor:
    attrs = {"value": value, "dtype": as_dtype(value.dtype)}
    return graph.create_op("Const", (), attrs, name=f"{op.name}/{name}", device=op.device, source=op.source).outputs[0]


def _made(op: Operation, graph: Graph, op_type: str, *inputs: Tensor, **attrs: object) -> Tensor:
    attrs["T"] = inputs[0].dtype
    created = graph.create_op(op_type, inputs, attrs, name=f"{op.name}/{op_type}", device=op.device, source=op.source)
    return created.outputs[0]
