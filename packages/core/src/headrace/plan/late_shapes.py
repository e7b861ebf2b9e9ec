"""Shapes that show only in the step: what the graph could not foretell is checked when the values are there.

A kernel relies on what its shape function has refused. Where the size of an input depends on data (`where`, `unique`),
the shape function could not refuse anything while the graph was built, so it is asked again, with the values.

What it accepted once it accepts again, so it is asked only where shapes, or values that it looked at, are new: asking
takes 30 microseconds, more than most kernels of a small loop.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.errors import HeadraceError
from headrace.graph.attr import AttrValue
from headrace.graph.frames import MAY_NOT_RUN
from headrace.graph.functions import Body
from headrace.graph.operation import Operation
from headrace.kernels.list_value import TensorList
from headrace.types import Array, Shape, TensorSpec

__all__ = ["checked_late", "shows_late"]


def shows_late(op: Operation) -> bool:
    """True if the size of an input is not known before the step, or if it was refused and may not run.

    What calls functions need not ask: they are compiled for the sizes that they get.
    """
    if op.op_def.function_attrs:
        return False
    if MAY_NOT_RUN in op.attrs:
        return True
    return any(tensor.dtype.numpy is not None and not tensor.shape.is_fully_defined for tensor in op.inputs)


def checked_late(op: Operation, function: Callable[..., Any]) -> Callable[..., Any]:
    """A bound kernel that asks the shape function first what it could not be asked before."""
    count = len(op.op_def.inputs)
    check = _LateCheck(op)

    def run(*arguments: Any, **options: Any) -> Any:
        values: list[Any] = []
        for item in arguments[:count]:
            values.extend(item if isinstance(item, list) else [item])
        check(values)
        return function(*arguments, **options)

    return run


_MOST_KEPT = 256
_LONGEST_VALUE = 512  # bytes: sizes and axes are short


class _LateCheck:
    """The shape function of one operation, asked about values, and what it has accepted. Mutable and thread-safe."""

    def __init__(self, op: Operation) -> None:
        self._op = op
        self._asked: tuple[int, ...] = ()  # the inputs whose values it has ever looked at
        self._accepted: set[Hashable] = set()

    def __call__(self, values: Sequence[Any]) -> None:
        """Raise what the shape function raises for these values."""
        if self._key(values) in self._accepted:
            return
        asked = self._ask(values)
        self._asked = tuple(sorted({*self._asked, *asked}))
        key = self._key(values)
        if key is not None:
            if len(self._accepted) >= _MOST_KEPT:
                self._accepted.clear()
            self._accepted.add(key)

    def _ask(self, values: Sequence[Any]) -> set[int]:
        """Ask the shape function; gives the inputs whose values it looked at."""
        op, asked = self._op, set[int]()
        specs = [_spec(op, index, value) for index, value in enumerate(values)]
        try:
            op.op_def.shape_function(_LateInference(op.name, op.type, op.attrs, specs, values, asked))
        except HeadraceError as error:
            if error.got is None:
                error.got = ", ".join(str(spec) for spec in specs)
            raise
        return asked

    def _key(self, values: Sequence[Any]) -> Hashable:
        """All that the answer depends on, or None if it is not worth keeping."""
        seen = [_seen(values[index]) for index in self._asked]
        return None if None in seen else (*[getattr(value, "shape", None) for value in values], *seen)


def _seen(value: Any) -> Hashable:
    """What a shape function sees of a value, or None if it sees too much."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tobytes() if value.nbytes <= _LONGEST_VALUE and not value.dtype.hasobject else None
    if isinstance(value, TensorList):
        return value.element_dtype, value.element_shape
    return (value.dtype, value.shape) if hasattr(value, "dtype") and hasattr(value, "shape") else None


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
    asked: set[int]

    def attr(self, name: str) -> AttrValue:
        return self.attrs[name]

    @property
    def bodies(self) -> Sequence[Body]:
        return ()

    def constant(self, index: int) -> Array | None:
        self.asked.add(index)
        value = self.values[index]
        return np.asarray(value) if isinstance(value, (np.ndarray, np.generic)) else None

    def constant_shape(self, index: int) -> Shape:
        sizes = self.constant(index)
        if sizes is None or sizes.ndim != 1:
            return Shape()
        return Shape(None if size < 0 else int(size) for size in sizes)

    def variable_spec(self, index: int) -> TensorSpec | None:
        self.asked.add(index)
        storage = self.values[index]
        known = hasattr(storage, "dtype") and isinstance(getattr(storage, "shape", None), Shape)
        return TensorSpec(storage.dtype, storage.shape) if known else None

    def handle_origin(self, index: int) -> Operation | None:
        return None

    def list_spec(self, index: int) -> TensorSpec | None:
        self.asked.add(index)
        value = self.values[index]
        return TensorSpec(value.element_dtype, value.element_shape) if isinstance(value, TensorList) else None
