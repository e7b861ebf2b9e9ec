"""What is known, while the graph is built, of the elements of a list or array that a tensor stands for.

A list is one scalar value, whatever its elements are, so the static shape of the tensor says nothing about them. What
does is the operation that made the list: the answer is found by walking back over operations that change a list without
changing the type of its elements. Where a walk cannot go on (arguments of function bodies, results of control flow),
the operation may say it in the annotations that TensorFlow uses: `_handle_dtypes` and `_handle_shapes`, one for each
output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.graph.shape_value import constant_value_as_shape
from headrace.types import TensorSpec, resource, variant

if TYPE_CHECKING:
    from headrace.graph.operation import Operation, Tensor

__all__ = ["HANDLE_DTYPES", "HANDLE_SHAPES", "list_spec"]

HANDLE_DTYPES = "_handle_dtypes"
HANDLE_SHAPES = "_handle_shapes"

_PASSED_ON = frozenset({
    "Identity", "IdentityN", "StopGradient", "PreventGradient", "ZerosLike", "OnesLike", "AddN", "Enter", "Exit",
    "NextIteration", "Merge", "Switch", "TensorListPushBack", "TensorListPushBackBatch", "TensorListPopBack",
    "TensorArrayGradV3", "TensorListSetItem", "TensorListResize", "TensorListConcatLists",
    "TensorListScatterIntoExistingList",
})  # fmt: skip
"""Types whose output is a list with elements of the same type as those of their first list."""


def list_spec(tensor: Tensor) -> TensorSpec | None:
    """dtype and shape of the elements of the list (or lists) that `tensor` holds, or None if that is not known.

    The same of the handle of a `TensorArrayV3`.
    """
    if tensor.dtype not in (variant, resource):
        return None
    seen: set[Operation] = set()
    while tensor.op not in seen:  # primitive loops go in circles
        seen.add(tensor.op)
        annotated = _annotated(tensor)
        if annotated is not None:
            return annotated
        if tensor.op.type == "TensorListPopBack" and tensor.index == 1:
            return None  # a list that was an element: nothing tells of its elements
        if tensor.op.type not in _PASSED_ON:
            made = _MADE.get(tensor.op.type)
            return None if made is None else made(tensor.op)
        number = tensor.index if tensor.op.type == "IdentityN" else 0
        tensor = tensor.op.inputs[number]
    return None


def _annotated(tensor: Tensor) -> TensorSpec | None:
    dtypes, shapes = tensor.op.attrs.get(HANDLE_DTYPES), tensor.op.attrs.get(HANDLE_SHAPES)
    if not isinstance(dtypes, tuple) or not isinstance(shapes, tuple):
        return None
    if len(dtypes) != len(shapes) or tensor.index >= len(dtypes):
        return None
    dtype, shape = dtypes[tensor.index], shapes[tensor.index]
    if dtype in (variant, resource) and shape.dims is None:
        return None  # what is written for a list of which nothing is known, beside others
    return TensorSpec(dtype, shape)


def _of_shape_input(index: int) -> Callable[[Operation], TensorSpec]:
    def made(op: Operation) -> TensorSpec:
        return TensorSpec(op.attrs["element_dtype"], constant_value_as_shape(op.inputs[index]))

    return made


def _of_array(op: Operation) -> TensorSpec:
    return TensorSpec(op.attrs["dtype"], op.attrs["element_shape"])


_MADE: dict[str, Callable[[Operation], TensorSpec]] = {
    "EmptyTensorList": _of_shape_input(0),
    "TensorListReserve": _of_shape_input(0),
    "TensorListFromTensor": _of_shape_input(1),
    "TensorListSplit": _of_shape_input(1),
    "TensorListScatterV2": _of_shape_input(2),
    "TensorArrayV3": _of_array,
}
