"""Shapes that show only in the step: what the graph could not foretell is checked when the values are there.

A kernel relies on what its shape function has refused. Where the size of an input depends on data (`where`, `unique`),
the shape function could not refuse anything while the graph was built, so it is asked again, with the values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.errors import HeadraceError
from headrace.graph.attr import AttrValue
from headrace.graph.functions import Body
from headrace.graph.operation import Operation
from headrace.kernels.list_value import TensorList
from headrace.types import Array, Shape, TensorSpec

__all__ = ["checked_late", "shows_late"]


def shows_late(op: Operation) -> bool:
    """True if the size of an input is not known before the step.

    What calls functions need not ask: they are compiled for the sizes that they get.
    """
    if op.op_def.function_attrs:
        return False
    return any(tensor.dtype.numpy is not None and not tensor.shape.is_fully_defined for tensor in op.inputs)


def checked_late(op: Operation, function: Callable[..., Any]) -> Callable[..., Any]:
    """A bound kernel that asks the shape function first what it could not be asked before."""
    count = len(op.op_def.inputs)

    def run(*arguments: Any, **options: Any) -> Any:
        values: list[Any] = []
        for item in arguments[:count]:
            values.extend(item if isinstance(item, list) else [item])
        _check(op, values)
        return function(*arguments, **options)

    return run


def _check(op: Operation, values: Sequence[Any]) -> None:
    specs = [_spec(op, index, value) for index, value in enumerate(values)]
    try:
        op.op_def.shape_function(_LateInference(op.name, op.type, op.attrs, specs, values))
    except HeadraceError as error:
        if error.got is None:
            error.got = ", ".join(str(spec) for spec in specs)
        raise


def _spec(op: Operation, index: int, value: Any) -> TensorSpec:
    shape = Shape(np.shape(value)) if isinstance(value, (np.ndarray, np.generic)) else op.inputs[index].shape
    return TensorSpec(op.inputs[index].dtype, shape)


@dataclass(frozen=True, slots=True)
class _LateInference:
    """What a shape function sees in the step (see `op_def.InferenceContext`): every value is known."""

    name: str
    type: str
    attrs: Mapping[str, AttrValue]
    inputs: Sequence[TensorSpec]
    values: Sequence[Any]

    def attr(self, name: str) -> AttrValue:
        return self.attrs[name]

    @property
    def bodies(self) -> Sequence[Body]:
        return ()

    def constant(self, index: int) -> Array | None:
        value = self.values[index]
        return np.asarray(value) if isinstance(value, (np.ndarray, np.generic)) else None

    def constant_shape(self, index: int) -> Shape:
        sizes = self.constant(index)
        if sizes is None or sizes.ndim != 1:
            return Shape()
        return Shape(None if size < 0 else int(size) for size in sizes)

    def variable_spec(self, index: int) -> TensorSpec | None:
        storage = self.values[index]
        known = hasattr(storage, "dtype") and isinstance(getattr(storage, "shape", None), Shape)
        return TensorSpec(storage.dtype, storage.shape) if known else None

    def handle_origin(self, index: int) -> Operation | None:
        return None

    def list_spec(self, index: int) -> TensorSpec | None:
        value = self.values[index]
        return TensorSpec(value.element_dtype, value.element_shape) if isinstance(value, TensorList) else None
