"""The concrete `OpContext` that kernels are called with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from headrace.errors import InternalError
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation
from headrace.interfaces import Compiled, Functions, OpContext, Rendezvous, Resources, StepControl, VariableStorage
from headrace.types import DType, Shape, TensorSpec

__all__ = [
    "NO_FUNCTIONS",
    "NO_RESOURCES",
    "OUTSIDE_LOOPS",
    "KernelContext",
    "context_of",
    "current_iteration",
    "current_step",
    "group_inputs",
    "inside_iteration",
    "inside_step",
]

Value = TypeVar("Value")


class _Unbounded:
    """The step of kernels that are called outside any: it has no deadline and cannot be cancelled."""

    def wait(self, condition: threading.Condition, ready: Callable[[], bool], describe: Callable[[], str]) -> None:
        condition.wait_for(ready)

    def of(self, operation: OpContext) -> StepControl:
        """It is the same for every operation."""
        return self

    def give_up(self, reason: str) -> None:
        """There is nobody else to tell."""

    def check(self) -> None:
        """It goes on."""

    @property
    def rendezvous(self) -> Rendezvous:
        """There is none."""
        raise InternalError(
            "a tensor is sent or received outside of any step",
            expected="a plan that is run by a session or function",
            got="a compiled segment that was called by itself",
            hint="only partitioning adds transfers, so please report this",
        )


_running: ContextVar[StepControl] = ContextVar("headrace_step", default=_Unbounded())  # noqa: B039  # it has no state


OUTSIDE_LOOPS = "0:0"
"""The iteration of what happens outside any loop."""

_iteration: ContextVar[str] = ContextVar("headrace_iteration", default=OUTSIDE_LOOPS)


def current_iteration() -> str:
    """In which iteration of which loop of primitives the calling thread works: `frame:number`, after those around."""
    return _iteration.get()


class _Inside(Generic[Value]):
    """Sets a context variable inside a `with` block; a class, since a generator would take four times as long."""

    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[Value], value: Value) -> None:
        self._variable = variable
        self._value = value

    def __enter__(self) -> None:
        self._token = self._variable.set(self._value)

    def __exit__(self, *_: object) -> None:
        self._variable.reset(self._token)


def inside_iteration(place: str) -> AbstractContextManager[None]:
    """Let the kernels that are called inside, in this thread, know their iteration."""
    return _Inside(_iteration, place)


def current_step() -> StepControl:
    """The step that the calling thread works for."""
    return _running.get()


def inside_step(control: StepControl) -> AbstractContextManager[None]:
    """Let the kernels that are called inside, in this thread, see `control` as their step."""
    return _Inside(_running, control)


@dataclass(frozen=True, slots=True)
class KernelContext:
    """What a kernel sees of its operation.

    Attributes:
      attrs: its attributes by name, defaults filled in.
      name, type, inputs, outputs, resources, functions: see `interfaces.OpContext`.
    """

    name: str
    type: str
    attrs: Mapping[str, Any]
    inputs: Sequence[TensorSpec]
    outputs: Sequence[TensorSpec]
    resources: Resources
    functions: Functions

    def attr(self, name: str) -> Any:
        """The value of an attribute."""
        return self.attrs[name]

    @property
    def step(self) -> StepControl:
        """The step that is running the kernel now."""
        return current_step().of(self)


def context_of(op: Operation, resources: Resources, functions: Functions) -> KernelContext:
    """The context of an operation of a graph."""
    return KernelContext(
        name=op.name,
        type=op.type,
        attrs=op.attrs,
        inputs=tuple(tensor.spec for tensor in op.inputs),
        outputs=tuple(tensor.spec for tensor in op.outputs),
        resources=resources,
        functions=functions,
    )


def group_inputs(op: Operation, values: Sequence[object]) -> list[object]:
    """Arrange flat input values as the signature does: a list for each input that stands for several tensors."""
    grouped: list[object] = []
    position = 0
    for argument in op.op_def.inputs:
        count = len(argument.dtypes(op.attrs))
        taken = list(values[position : position + count])
        grouped.append(taken if argument.is_list else taken[0])
        position += count
    return grouped


class _NoFunctions:
    """The functions of computations that call none: constant folding, and segments without loops and branches."""

    def compiled(self, function: str, arguments: Sequence[Any], then: str | None = None) -> Compiled:
        raise _without_functions(function)

    def segment(self, function: str, shapes: Sequence[Shape], then: str | None = None) -> tuple[Graph, Functions]:
        raise _without_functions(function)


def _without_functions(function: str) -> InternalError:
    return InternalError(
        f"function '{function}' was called where there are none",
        expected="a segment compiled together with its functions",
        got="one compiled alone",
        hint="pass the functions of the plan to Backend.compile",
    )


NO_FUNCTIONS: Functions = _NoFunctions()


def _stateful_folding(what: str) -> InternalError:
    return InternalError(
        f"{what} was asked for while folding constants",
        expected="a kernel without state",
        got=what,
        hint="declare your operation with hr.register_op(..., stateful=True); if it is not yours, please report this",
    )


class _NoResources:
    """The container of computations that must not have state: constant folding."""

    def variable(self, container: str, name: str, dtype: DType, shape: Shape) -> VariableStorage:
        raise _stateful_folding(f"variable '{name}'")

    def lookup_or_create(self, key: Hashable, create: Callable[[], Any]) -> Any:
        raise _stateful_folding(f"state {key!r}")


NO_RESOURCES: Resources = _NoResources()
