"""What an operation has to do, from its type and static shapes: bytes in and out, and floating-point operations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import headrace as hr

MOVES_NOTHING = frozenset(
    {
        "Const",
        "ExpandDims",
        "Identity",
        "IdentityN",
        "PreventGradient",
        "ReadVariableOp",
        "Reshape",
        "Shape",
        "Squeeze",
        "StopGradient",
    }
)
"""Types that hand on memory or its description without touching the values, so that bytes per second mean nothing."""

READ_THROUGH = MOVES_NOTHING - {"Const", "ReadVariableOp", "Shape"} | {"Cast", "EnsureShape", "Snapshot"}
"""Types that need not run: what reads their output then reads their input, a cast on the way."""

_ONE_PER_OUTPUT = frozenset(
    {
        "Abs",
        "Add",
        "AddV2",
        "BiasAdd",
        "Div",
        "Maximum",
        "Minimum",
        "Mul",
        "Neg",
        "RealDiv",
        "Reciprocal",
        "Relu",
        "ReluGrad",
        "Sign",
        "Sqrt",
        "Square",
        "SquaredDifference",
        "Sub",
    }
)
_ONE_PER_INPUT = frozenset({"BiasAddGrad", "Max", "Mean", "Min", "Prod", "Sum"})


def tensor_bytes(tensors: Sequence[hr.Tensor]) -> int | None:
    """Return the bytes of tensors, or None where one has no size that is known before it is computed.

    Handles of variables have no bytes of their own.
    """
    total = 0
    for tensor in tensors:
        if tensor.dtype.kind in ("resource", "variant"):
            continue
        elements = tensor.shape.num_elements
        if elements is None or not tensor.dtype.size:
            return None
        total += elements * tensor.dtype.size
    return total


def variable_bytes_read(op: hr.Operation) -> int | None:
    """Return the bytes of the variable that an operation adds to or takes from; 0 for all others."""
    return tensor_bytes(op.inputs[1:2]) if op.type in ("AssignAddVariableOp", "AssignSubVariableOp") else 0


def variable_bytes_written(op: hr.Operation) -> int | None:
    """Return the bytes of the variable that an operation assigns; 0 for all others."""
    return tensor_bytes(op.inputs[1:2]) if op.type == "AssignVariableOp" else variable_bytes_read(op)


def floating_operations(op: hr.Operation) -> int | None:
    """Return how many additions and multiplications an operation takes, or None where that is not known.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     product = hr.matmul(hr.zeros([8, 16]), hr.zeros([16, 4]))
      >>> floating_operations(product.op)
      1024
    """
    if op.type in _ONE_PER_OUTPUT:
        return op.outputs[0].shape.num_elements
    if op.type in _ONE_PER_INPUT:
        return op.inputs[0].shape.num_elements
    rule = _RULES.get(op.type)
    return None if rule is None else rule(op)


def _matmul(op: hr.Operation) -> int | None:
    transposed = op.attrs.get("transpose_a", op.attrs.get("adj_x", False))
    return _product(_dimensions(op.outputs[0]), _dimensions(op.inputs[0])[-2 if transposed else -1 :][:1])


def _convolution(op: hr.Operation) -> int | None:
    return _product(_dimensions(op.outputs[0]), _dimensions(op.inputs[1])[:3])


def _convolution_input_gradient(op: hr.Operation) -> int | None:
    return _product(_dimensions(op.inputs[2]), _dimensions(op.inputs[1])[:3])


def _convolution_filter_gradient(op: hr.Operation) -> int | None:
    return _product(_dimensions(op.inputs[2]), _dimensions(op.outputs[0])[:3])


def _addition(op: hr.Operation) -> int | None:
    elements = op.outputs[0].shape.num_elements
    return None if elements is None else (len(op.inputs) - 1) * elements


def _variable_addition(op: hr.Operation) -> int | None:
    return op.inputs[1].shape.num_elements


_RULES: dict[str, Callable[[hr.Operation], int | None]] = {
    "AddN": _addition,
    "AssignAddVariableOp": _variable_addition,
    "AssignSubVariableOp": _variable_addition,
    "BatchMatMul": _matmul,
    "BatchMatMulV2": _matmul,
    "Conv2D": _convolution,
    "Conv2DBackpropFilter": _convolution_filter_gradient,
    "Conv2DBackpropInput": _convolution_input_gradient,
    "MatMul": _matmul,
}


def _dimensions(tensor: hr.Tensor) -> tuple[int | None, ...]:
    dims = tensor.shape.dims
    return (None,) if dims is None else dims


def _product(outputs: Sequence[int | None], summed: Sequence[int | None]) -> int | None:
    """Return 2 for each output and each product that is summed up in it."""
    known = [size for size in (*outputs, *summed) if size is not None]
    return 2 * math.prod(known) if len(known) == len(outputs) + len(summed) else None
