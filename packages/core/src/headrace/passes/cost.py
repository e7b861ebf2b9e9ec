"""What an operation computes and how large tensors are, as far as shapes tell: what rewriting and placing weigh."""

from __future__ import annotations

import math

from headrace.graph.frames import TOKEN_TYPES
from headrace.graph.operation import Operation, Tensor
from headrace.ops.uniform_quantized import QuantizedConvolution
from headrace.types import variant

__all__ = ["arithmetic", "is_free", "tensor_bytes"]

_WORD = 8
"""Bytes that a string is taken for."""

_LIST = 1 << 20
"""Bytes that a list of tensors is taken for: nothing tells its length, and it is better left where it is."""

_FREE = frozenset({"_Arg", "_Retval", "Const", "Identity", "NoOp", "Placeholder", "ReadVariableOp", "VarHandleOp"})


def is_free(op: Operation) -> bool:
    """True for operations that only name, read, pass on or order values."""
    return op.type in _FREE or op.type in TOKEN_TYPES


def tensor_bytes(tensor: Tensor) -> int:
    """Bytes of a tensor; dimensions that are not known count as 1."""
    return _elements(tensor) * (tensor.dtype.size or (_LIST if tensor.dtype is variant else _WORD))


def _elements(tensor: Tensor) -> int:
    return math.prod(1 if size is None else size for size in tensor.shape.dims or ())


def arithmetic(op: Operation) -> float:
    """Floating-point operations: products and convolutions count what they sum over, all else one for each element.

    Nothing for operations that only name, read or order values.
    """
    if is_free(op):
        return 0.0
    if "MatMul" in op.type and len(op.inputs) >= 2:
        return 2.0 * sum(map(_elements, op.outputs)) * _summed(op.inputs[0], _adjoined(op))
    if op.type == "UniformQuantizedDot":
        return 2.0 * _elements(op.outputs[0]) * _summed(op.inputs[0], transposed=False)
    if op.type == "UniformQuantizedConvolution":
        counted = QuantizedConvolution.of(op).filters[:3]
        summed = [size or 1 for axis, size in enumerate(op.inputs[1].shape.dims or ()) if axis in counted]
        return 2.0 * _elements(op.outputs[0]) * math.prod(summed)
    if op.type.startswith(("Conv2D", "Conv3D", "DepthwiseConv")) and len(op.inputs) >= 2:
        made = op.inputs[2] if "Backprop" in op.type else op.outputs[0]
        filters = op.outputs[0] if "BackpropFilter" in op.type else op.inputs[1]
        taps = (filters.shape.dims or ())[: 2 if op.type.startswith("Depthwise") else -1]
        return 2.0 * _elements(made) * math.prod(1 if size is None else size for size in taps)
    return float(max(sum(map(_elements, op.outputs)), sum(map(_elements, op.inputs))))


def _adjoined(op: Operation) -> bool:
    return bool(op.attrs.get("transpose_a") or op.attrs.get("adj_x"))


def _summed(left: Tensor, transposed: bool) -> int:
    dims = left.shape.dims
    if dims is None or len(dims) < 2:
        return 1
    return dims[-2 if transposed else -1] or 1
