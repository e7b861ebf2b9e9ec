"""NumPy kernels of the StackV2 family, and the mutable stack behind a handle.

The value of a handle is the stack itself: no table finds it by name, so a stack lives as long as its step uses it.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from headrace.errors import DTypeError, FailedPreconditionError, InvalidArgumentError
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.ops.shapes import scalar_of
from headrace.types import Array, DType

__all__ = ["StackState"]


class StackState:
    """A stack of tensors of one dtype. Mutable and thread-safe.

    Args:
      dtype: the dtype of its elements.
      max_size: how many it holds at most; negative for any number.
    """

    def __init__(self, dtype: DType, max_size: int) -> None:
        self._dtype = dtype
        self._max_size = max_size
        self._elements: list[Any] = []
        self._closed = False
        self._lock = threading.Lock()

    def push(self, element: Any, dtype: DType) -> None:
        """Put an element on top, which belongs to the stack from then on."""
        with self._lock:
            self._check(dtype)
            if len(self._elements) == self._max_size:
                raise InvalidArgumentError(
                    "the stack is full",
                    expected=f"at most {self._max_size} elements",
                    got="one more",
                    hint="make it with max_size=-1 if it may grow without limit",
                )
            self._elements.append(element)

    def pop(self, dtype: DType) -> Any:
        """Take the element on top."""
        with self._lock:
            self._check(dtype)
            if not self._elements:
                raise InvalidArgumentError(
                    "the stack is empty",
                    expected="an element on top",
                    got="none",
                    hint="let each pop depend on the push that belongs to it",
                )
            return self._elements.pop()

    def close(self) -> None:
        """Forget the elements and refuse further use."""
        with self._lock:
            self._closed = True
            self._elements.clear()

    def _check(self, dtype: DType) -> None:
        if self._closed:
            raise FailedPreconditionError(
                "the stack is closed",
                expected="a stack that is in use",
                got="one after StackCloseV2",
                hint="let the closing operation depend on everything that uses the stack",
            )
        if dtype is not self._dtype:
            raise DTypeError(
                "the stack has elements of another dtype",
                expected=f"a stack of {dtype}",
                got=f"a stack of {self._dtype}",
                hint=f"make it with elem_type=hr.{dtype}",
            )


def _stack(handle: Any) -> StackState:
    if not isinstance(handle, StackState):
        raise InvalidArgumentError(
            "the handle is not that of a stack",
            expected="what StackV2 gives",
            got=type(handle).__name__,
            hint="use each kind of handle with its own operations",
        )
    return handle


@register_kernel("StackV2")
def _make(op: OpContext, max_size: Array) -> StackState:
    return StackState(op.attr("elem_type"), scalar_of(max_size, "max_size"))


@register_kernel("StackPushV2", aliases=[1])
def _push(op: OpContext, handle: Any, element: Any) -> Any:
    _stack(handle).push(element.copy() if isinstance(element, np.ndarray) else element, op.attr("T"))
    return element


@register_kernel("StackPopV2")
def _pop(op: OpContext, handle: Any) -> Any:
    return _stack(handle).pop(op.attr("elem_type"))


@register_kernel("StackCloseV2")
def _close(op: OpContext, handle: Any) -> None:
    _stack(handle).close()
