"""What a handle stands for: the variable behind a resource, or the elements of the list behind a variant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.graph.list_spec import HANDLE_DTYPES, HANDLE_SHAPES, list_spec
from headrace.graph.operation import origin
from headrace.types import Shape, TensorSpec, resource, variant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.graph.attr import AttrValue
    from headrace.graph.operation import Tensor

__all__ = ["handle_attrs", "handle_spec", "variable_spec"]


def variable_spec(tensor: Tensor) -> TensorSpec | None:
    """dtype and static shape of the variable behind a handle, or None if that is not known."""
    source = origin(tensor)
    if source.type == "VarHandleOp":
        return TensorSpec(source.attrs["dtype"], source.attrs["shape"])
    dtypes, shapes = source.attrs.get(HANDLE_DTYPES), source.attrs.get(HANDLE_SHAPES)
    if source.type == "_Arg" and tensor.dtype is resource and isinstance(dtypes, tuple) and isinstance(shapes, tuple):
        return TensorSpec(dtypes[0], shapes[0]) if len(dtypes) == len(shapes) == 1 else None
    return None


def handle_spec(tensor: Tensor) -> TensorSpec | None:
    """dtype and static shape of what a handle stands for: a variable, or each element of a list."""
    return variable_spec(tensor) if tensor.dtype is resource else list_spec(tensor)


def handle_attrs(tensors: Sequence[Tensor]) -> dict[str, AttrValue]:
    """The annotations of an operation whose outputs stand for what `tensors` stand for; none if no handle is known."""
    specs = [handle_spec(tensor) for tensor in tensors]
    if not any(specs):
        return {}
    known = [spec or _unknown(tensor) for spec, tensor in zip(specs, tensors, strict=True)]
    return {
        HANDLE_DTYPES: tuple(spec.dtype for spec in known),
        HANDLE_SHAPES: tuple(spec.shape for spec in known),
    }


def _unknown(tensor: Tensor) -> TensorSpec:
    """What stands for nothing known; the scalar shape of a handle itself would tell of elements that are scalars."""
    return TensorSpec(tensor.dtype, Shape(None)) if tensor.dtype in (resource, variant) else tensor.spec
