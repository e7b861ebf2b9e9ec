"""hr.function: a Python function traced to graphs, one plan per signature."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.config import current_config
from headrace.errors import HeadraceError, InvalidArgumentError
from headrace.graph.apply import as_array, constant
from headrace.graph.function_graph import FunctionGraph
from headrace.graph.operation import Operation, Tensor
from headrace.graph.printer import format_graph
from headrace.runtime.fetches import Fetches, flatten_fetches
from headrace.runtime.resources import ResourceManager, process_resources
from headrace.runtime.step_definition import StepDefinition
from headrace.types import Array, Shape, TensorSpec, as_dtype

__all__ = ["Function", "Lowered", "function"]

MAX_TRACES = 32
"""More traces than this mean that every call is different: an error says so."""


@dataclass(frozen=True, slots=True)
class _Trace:
    """One trace of a function.

    Attributes:
      static: the structure of the arguments and those that are not tensors.
      specs: dtype and shape of each tensor argument, relaxed where calls differed.
      definition: runs it.
      fetches: the structure of the result.
      graph: what was traced.
      reason: why this trace was made.
    """

    static: Hashable
    specs: tuple[TensorSpec, ...]
    definition: StepDefinition
    fetches: Fetches
    graph: FunctionGraph
    reason: str

    def accepts(self, static: Hashable, specs: Sequence[TensorSpec]) -> bool:
        """True if the trace serves a call of these arguments."""
        return (
            self.static == static
            and len(specs) == len(self.specs)
            and all(
                mine.dtype is given.dtype and mine.shape.is_compatible_with(given.shape)
                for mine, given in zip(self.specs, specs, strict=True)
            )
        )


@dataclass(frozen=True, slots=True)
class Lowered:
    """What a call of a function becomes."""

    graph_text: str
    backend: str

    def text(self) -> str:
        """The optimised graph, one operation a line."""
        return self.graph_text

    def explain(self) -> str:
        """What the backend made of it."""
        return f"backend {self.backend}: one segment of {self.graph_text.count(chr(10))} operations"


class Function:
    """A Python function that runs as a graph. Its traces are mutable state, guarded by a lock.

    Arrays and Python numbers among the arguments become tensors (a number a 0-D one, so another number is no new
    trace); other values are part of the signature. Effects on one variable happen in the order of the program.
    """

    def __init__(self, python_function: Callable[..., Any]) -> None:
        self._function = python_function
        self._signature = inspect.signature(python_function)
        self._traces: list[_Trace] = []
        self._resources = ResourceManager(parent=process_resources())  # random streams; variables are the process's
        self._lock = threading.RLock()
        self.__name__: str = getattr(python_function, "__name__", "function")
        functools.update_wrapper(self, python_function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function; arrays in, arrays out.

        Called with tensors of a graph that is being built, it becomes part of that graph.
        """
        bound = self._bind(args, kwargs)
        leaves: list[Any] = []
        static = _flatten(bound, leaves)
        if any(_is_symbolic(leaf) for leaf in leaves):
            return self._function(*args, **kwargs)
        arrays = [as_array(leaf, None) for leaf in leaves]
        trace = self._trace_for(static, arrays, bound)
        return trace.fetches.rebuild(trace.definition.run(arrays))

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """What a call with these arguments becomes, without running it."""
        bound = self._bind(args, kwargs)
        leaves: list[Any] = []
        static = _flatten(bound, leaves)
        arrays = [as_array(leaf, None) for leaf in leaves]
        plan = self._trace_for(static, arrays, bound).definition.plan_for(arrays)
        return Lowered(format_graph(plan.graph), plan.backend)

    def explain_traces(self) -> str:
        """One line per trace: its signature and why it was made."""
        lines = [
            f"trace {number}: ({', '.join(str(spec) for spec in trace.specs)}): {trace.reason}"
            for number, trace in enumerate(self._traces, 1)
        ]
        return "\n".join(lines) or "not traced yet"

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)

    def _trace_for(self, static: Hashable, arrays: Sequence[Array], bound: Mapping[str, Any]) -> _Trace:
        specs = [TensorSpec(as_dtype(array.dtype), Shape(array.shape)) for array in arrays]
        for trace in self._traces:
            if trace.accepts(static, specs):
                return trace
        with self._lock:
            for trace in self._traces:
                if trace.accepts(static, specs):
                    return trace
            return self._new_trace(static, specs, bound)

    def _new_trace(self, static: Hashable, specs: Sequence[TensorSpec], bound: Mapping[str, Any]) -> _Trace:
        if len(self._traces) >= MAX_TRACES:
            raise InvalidArgumentError(
                f"function '{self.__name__}' was traced {len(self._traces)} times",
                expected="calls of a few signatures",
                got=self.explain_traces().splitlines()[-1],
                hint="pass values that change as arrays or numbers, not as other Python objects",
            )
        similar = [trace for trace in self._traces if _differs_in_shape_only(trace, static, specs)]
        if not similar:
            reason = "first call" if not self._traces else _difference(self._traces[-1], static, specs)
            trace = self._traced(static, specs, bound, reason)
        else:
            trace = self._relaxed(similar[-1], static, specs, bound)
        self._traces.append(trace)
        return trace

    def _relaxed(
        self, known: _Trace, static: Hashable, specs: Sequence[TensorSpec], bound: Mapping[str, Any]
    ) -> _Trace:
        """Trace with the sizes that changed left open, so that the next size needs no trace.

        If the function needs to know them, it is traced for this size alone.
        """
        relaxed = [
            TensorSpec(new.dtype, old.shape.relax(new.shape)) for old, new in zip(known.specs, specs, strict=True)
        ]
        changed = ", ".join(
            f"{old.shape} became {new.shape}" for old, new in zip(known.specs, specs, strict=True) if old != new
        )
        try:
            return self._traced(static, relaxed, bound, f"a shape changed ({changed}); sizes that differ are now open")
        except HeadraceError:
            return self._traced(static, specs, bound, f"a shape changed ({changed}), and the function needs to know it")

    def _traced(self, static: Hashable, specs: Sequence[TensorSpec], bound: Mapping[str, Any], reason: str) -> _Trace:
        graph = FunctionGraph()
        with graph.as_default():
            arguments = [
                graph.create_op(
                    "Placeholder", (), {"dtype": spec.dtype, "shape": spec.shape}, name=f"arg_{index}"
                ).outputs[0]
                for index, spec in enumerate(specs)
            ]
            arguments_iter = iter(arguments)
            values = {name: _rebuild(value, arguments_iter) for name, value in bound.items()}
            result = self._call_with(values)
            fetches = flatten_fetches(graph, _tensors_of(result))
        targets: tuple[Operation, ...] = tuple(dict.fromkeys((*fetches.targets, *graph.effects)))
        definition = StepDefinition(graph, fetches.tensors, targets, arguments, self._resources, current_config())
        return _Trace(static, tuple(specs), definition, fetches, graph, reason)

    def _call_with(self, values: Mapping[str, Any]) -> Any:
        bound = inspect.BoundArguments(self._signature, dict(values))
        return self._function(*bound.args, **bound.kwargs)

    def __repr__(self) -> str:
        return f"<hr.function {self.__name__} with {len(self._traces)} traces>"


def function(python_function: Callable[..., Any]) -> Function:
    """Decorate a Python function so that calls run as a graph.

    Args:
      python_function: builds and returns tensors (nested structures allowed); it may read and assign Variables made
        outside.
    Returns:
      A callable that takes and returns arrays.

    Example:
      >>> import headrace as hr
      >>> @hr.function
      ... def double(x):
      ...     return x + x
      >>> print(double(3.0), double(4.0))
      6.0 8.0
      >>> print(double.explain_traces())
      trace 1: (float32[]): first call
    """
    return Function(python_function)


def _is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic, bool, int, float, complex)) or _is_symbolic(value)


def _is_symbolic(value: Any) -> bool:
    return isinstance(value, Tensor)


def _flatten(value: Any, leaves: list[Any]) -> Hashable:
    """Collect the tensor arguments in order; what remains is the hashable rest of the signature."""
    if _is_array(value):
        leaves.append(value)
        return "tensor"
    if isinstance(value, Mapping):
        return ("mapping", tuple((key, _flatten(item, leaves)) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, tuple(_flatten(item, leaves) for item in value))
    try:
        hash(value)
    except TypeError:
        raise InvalidArgumentError(
            "an argument of a traced function cannot be part of its signature",
            expected="arrays, numbers, hashable values, or lists, tuples and dicts of these",
            got=f"{type(value).__name__}",
        ) from None
    return value  # type: ignore[no-any-return]  # just tested


def _rebuild(value: Any, tensors: Any) -> Any:
    """The argument with each array replaced by the next tensor."""
    if _is_array(value):
        return next(tensors)
    if isinstance(value, Mapping):
        return {key: _rebuild(item, tensors) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_rebuild(item, tensors) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _tensors_of(result: Any) -> Any:
    """What a traced function may return besides tensors: None, and Python values, which become constants."""
    if result is None:
        return None
    if isinstance(result, Mapping):
        return {key: _tensors_of(item) for key, item in result.items()}
    if isinstance(result, (list, tuple)) and not hasattr(result, "_fields"):
        return type(result)(_tensors_of(item) for item in result)
    if isinstance(result, (np.ndarray, np.generic, bool, int, float, complex)):
        return constant(result)
    return result


def _differs_in_shape_only(trace: _Trace, static: Hashable, specs: Sequence[TensorSpec]) -> bool:
    return trace.static == static and [(spec.dtype, spec.shape.rank) for spec in trace.specs] == [
        (spec.dtype, spec.shape.rank) for spec in specs
    ]


def _difference(last: _Trace, static: Hashable, specs: Sequence[TensorSpec]) -> str:
    if last.static != static:
        return "an argument that is not a tensor changed"
    changed = [
        f"argument {i}: {a} became {b}" for i, (a, b) in enumerate(zip(last.specs, specs, strict=True)) if a != b
    ]
    return "; ".join(changed)
