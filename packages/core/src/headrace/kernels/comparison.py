"""NumPy kernels of the comparison family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel, register_ufunc
from headrace.types import Array, Shape, string

for _name, _ufunc in {
    "Less": np.less,
    "LessEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "LogicalAnd": np.logical_and,
    "LogicalOr": np.logical_or,
    "LogicalNot": np.logical_not,
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
    "Invert": np.invert,
}.items():
    register_ufunc(_name, _ufunc)


def _register_equality(op_type: str, function: Callable[..., Any], unequal: bool) -> None:
    def kernel(op: OpContext, x: Array, y: Array) -> Any:
        if not op.attr("incompatible_shape_error") and not _broadcast(x, y):
            return np.array(unequal)
        return function(x, y)

    def string_kernel(op: OpContext, x: Array, y: Array) -> Array:
        return np.asarray(kernel(op, x, y), np.bool_)  # a comparison of scalar strings gives a Python bool

    register_kernel(op_type)(kernel)
    register_kernel(op_type, dtypes={"T": [string]})(string_kernel)


def _broadcast(x: Array, y: Array) -> bool:
    try:
        np.broadcast_shapes(np.shape(x), np.shape(y))
    except ValueError:
        return False
    return True


_register_equality("Equal", np.equal, unequal=False)
_register_equality("NotEqual", np.not_equal, unequal=True)


def _register_shift(op_type: str, function: Callable[..., Any]) -> None:
    """C leaves shifts by a negative number or beyond the width undefined; limiting them is TensorFlow's rule."""

    def kernel(op: OpContext, x: Array, y: Array, out: Any = None) -> Any:
        last = np.asarray(x).dtype.itemsize * 8 - 1
        result: Any = function(x, np.clip(y, 0, last), out=out)
        return result

    register_kernel(op_type, takes_out=True, in_place=True)(kernel)


_register_shift("LeftShift", np.left_shift)
_register_shift("RightShift", np.right_shift)


@register_kernel("ApproximateEqual")
def _approximate_equal(op: OpContext, x: Array, y: Array) -> Array:
    Shape(np.shape(x)).merge(Shape(np.shape(y)))
    if x.dtype.kind in "iu":  # the larger minus the smaller, which no unsigned integer wraps
        return np.asarray((np.maximum(x, y) - np.minimum(x, y)) < op.attr("tolerance"))
    return np.asarray(np.abs(x - y) < np.asarray(op.attr("tolerance"), np.abs(x).dtype))
