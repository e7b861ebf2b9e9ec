"""hr.function: a Python function traced to graphs, one plan per signature."""

from __future__ import annotations

import functools
import inspect
import threading
import types
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from headrace.config import current_config
from headrace.errors import HeadraceError, InvalidArgumentError, UnimplementedError
from headrace.graph.apply import apply_op, as_array, constant, graph_of
from headrace.graph.effect_order import EffectOrder
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.graph.printer import format_graph
from headrace.graph.scopes import control_dependencies, current_graph, current_scope, enter, has_graph
from headrace.graph.source import SourceLine
from headrace.ops.branching import check_callable
from headrace.ops.sparse import SparseTensor
from headrace.plan.explanation import Explanation, explain_plan
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
    graph: Graph
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
    """What a call of a function becomes.

    Attributes:
      graph: the optimised graph.
      backend: the name of the backend that compiles it.
      explanation: what that made of it.
    """

    graph: Graph
    backend: str
    explanation: Explanation

    def text(self) -> str:
        """The optimised graph, one operation a line."""
        return format_graph(self.graph)

    def explain(self) -> str:
        """What the backend made of it: segments, kernels and fused loops, why, the memory and the arithmetic."""
        return str(self.explanation)


@dataclass(slots=True)
class _History:
    """What is known of a function, or of a method of one object, so far. Mutable, guarded by its lock."""

    traces: list[_Trace] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)
    resources: ResourceManager = field(  # random streams; variables are the process's
        default_factory=lambda: ResourceManager(parent=process_resources())
    )


class Function:
    """A Python function that runs as a graph. Its traces are mutable state, guarded by a lock.

    Arrays and Python numbers among the arguments become tensors (a number a 0-D one, so another number is no new
    trace); other values are part of the signature. Effects on one variable happen in the order of the program. A method
    may be decorated too: each object has traces of its own.
    """

    def __init__(self, python_function: Callable[..., Any], history: _History | None = None) -> None:
        self._function = python_function
        self._signature = inspect.signature(python_function)
        self._history = history or _History()
        self._methods: dict[int, _History] = {}
        self.__name__: str = getattr(python_function, "__name__", "function")
        functools.update_wrapper(self, python_function)

    def __get__(self, instance: object, owner: type | None = None) -> Function:
        """The function as a method of one object; its traces live as long as the object."""
        if instance is None:
            return self
        with self._history.lock:
            known = self._methods.get(id(instance))
            if known is None:
                try:
                    weakref.finalize(instance, self._methods.pop, id(instance), None)
                except TypeError as error:
                    raise InvalidArgumentError(
                        f"method '{self.__name__}' cannot be traced for this object",
                        expected="an object that can be referred to weakly, so that its traces end with it",
                        got=type(instance).__name__,
                        hint="add '__weakref__' to the __slots__ of its class",
                    ) from error
                known = self._methods[id(instance)] = _History()
        return Function(types.MethodType(self._function, instance), known)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function; arrays in, arrays out.

        Called while a graph is being built, it becomes part of that graph: its effects happen, in the order of the
        program, whenever a step computes what it returned.
        """
        if has_graph():
            return self._inline(args, kwargs)
        bound = _with_arrays(self._bind(args, kwargs))
        leaves: list[Any] = []
        static = _flatten(bound, leaves)
        if any(isinstance(leaf, Tensor) for leaf in leaves):
            with graph_of(leaves):
                return self._inline(args, kwargs)
        arrays = [as_array(leaf, None) for leaf in leaves]
        trace = self._trace_for(static, arrays, bound)
        return trace.fetches.rebuild(trace.definition.run(arrays))

    def _inline(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if current_graph().effect_order is not None or current_scope().effect_order is not None:
            return self._function(*args, **kwargs)
        order = EffectOrder()
        with enter(replace(current_scope(), effect_order=order)):
            result = self._ending(*args, **kwargs)
        if not order.effects:
            return result
        with control_dependencies(order.effects):
            return current_graph().create_op("NoOp") if result is None else _map_tensors(_identity, result)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """What a call with these arguments becomes, without running it."""
        bound = _with_arrays(self._bind(args, kwargs))
        leaves: list[Any] = []
        static = _flatten(bound, leaves)
        arrays = [as_array(leaf, None) for leaf in leaves]
        plan = self._trace_for(static, arrays, bound).definition.plan_for(arrays)
        return Lowered(plan.graph, plan.backend, explain_plan(plan))

    def explain_traces(self) -> str:
        """One line per trace: its signature and why it was made."""
        lines = [
            f"trace {number}: ({', '.join(str(spec) for spec in trace.specs)}): {trace.reason}"
            for number, trace in enumerate(self._history.traces, 1)
        ]
        return "\n".join(lines) or "not traced yet"

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)

    def _trace_for(self, static: Hashable, arrays: Sequence[Array], bound: Mapping[str, Any]) -> _Trace:
        specs = [TensorSpec(as_dtype(array.dtype), Shape(array.shape)) for array in arrays]
        for trace in self._history.traces:
            if trace.accepts(static, specs):
                return trace
        with self._history.lock:
            for trace in self._history.traces:
                if trace.accepts(static, specs):
                    return trace
            return self._new_trace(static, specs, bound)

    def _new_trace(self, static: Hashable, specs: Sequence[TensorSpec], bound: Mapping[str, Any]) -> _Trace:
        if len(self._history.traces) >= MAX_TRACES:
            raise InvalidArgumentError(
                f"function '{self.__name__}' was traced {len(self._history.traces)} times",
                expected="calls of a few signatures",
                got=self.explain_traces().splitlines()[-1],
                hint="pass values that change as arrays or numbers, not as other Python objects",
            )
        similar = [trace for trace in self._history.traces if _differs_in_shape_only(trace, static, specs)]
        if not similar:
            reason = "first call" if not self._history.traces else _difference(self._history.traces[-1], static, specs)
            trace = self._traced(static, specs, bound, reason)
        else:
            trace = self._relaxed(similar[-1], static, specs, bound)
        self._history.traces.append(trace)
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
        order = EffectOrder()
        graph = Graph(extend=True, effect_order=order)
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
            fetches = flatten_fetches(graph, _map_tensors(_tensor_of, result))
        if order.new_variables and self._history.traces:
            raise InvalidArgumentError(
                f"function '{self.__name__}' makes a new variable when it is traced again",
                expected="variables made outside, or in the first call alone",
                got=f"'{order.new_variables[0]}' in trace {len(self._history.traces) + 1}: {reason}",
                hint="make the variable before the function, or keep it: if self.w is None: self.w = hr.Variable(...)",
            )
        targets: tuple[Operation, ...] = tuple(dict.fromkeys((*fetches.targets, *order.effects)))
        definition = StepDefinition(
            graph, fetches.tensors, targets, arguments, self._history.resources, current_config()
        )
        return _Trace(static, tuple(specs), definition, fetches, graph, reason)

    def _call_with(self, values: Mapping[str, Any]) -> Any:
        bound = inspect.BoundArguments(self._signature, dict(values))
        return self._ending(*bound.args, **bound.kwargs)

    def _ending(self, *args: Any, **kwargs: Any) -> Any:
        """Call the Python function from outside; a call from inside itself is an ordinary one, and must end."""
        try:
            return self._function(*args, **kwargs)
        except RecursionError:
            raise UnimplementedError(
                f"function '{self.__name__}' calls itself without end while it is traced",
                where=_line_of(self._function),
                expected="a recursion that Python values end: branches of hr.cond are traced both, whatever is true",
                got="more calls inside each other than Python's stack holds",
                hint="write the recursion as hr.while_loop, with what a call would remember in a hr.TensorArray",
            ) from None  # the chain has a thousand frames, all of them alike

    def __repr__(self) -> str:
        return f"<hr.function {self.__name__} with {len(self._history.traces)} traces>"


def function(python_function: Callable[..., Any]) -> Function:
    """Decorate a Python function so that calls run as a graph.

    The Python code runs once for each kind of arguments. Arrays and numbers are tensors in it. Text, `True`, `False`,
    None and other hashable values stay what they are, so that `if training:` works, and each new one is traced anew.

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
    check_callable(python_function, "what hr.function decorates", "*arrays")
    return Function(python_function)


def _line_of(python_function: Callable[..., Any]) -> str | None:
    code = getattr(inspect.unwrap(python_function), "__code__", None)
    return None if code is None else str(SourceLine(code.co_filename, code.co_firstlineno))


_VALUES = (np.ndarray, np.generic, int, float, complex)
"""The concrete values that become tensors; text and Python's bools, made for `if`, are a part of the signature."""


def _is_array(value: Any) -> bool:
    return isinstance(value, (Tensor, *_VALUES)) and not isinstance(value, bool)


_TENSOR = object()
"""Stands for a tensor in a signature; it equals nothing that a caller can pass."""


def _with_arrays(bound: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments with the lists inside of sparse tensors made arrays: each part of one is one tensor."""
    if not any(isinstance(value, SparseTensor) for value in bound.values()):
        return bound
    return {name: _of_arrays(value) if isinstance(value, SparseTensor) else value for name, value in bound.items()}


def _of_arrays(x: SparseTensor) -> SparseTensor:
    indices, shape = (part if _is_array(part) else np.asarray(part, np.int64) for part in (x.indices, x.shape))
    return SparseTensor(indices, x.values if _is_array(x.values) else as_array(x.values, None), shape)


def _flatten(value: Any, leaves: list[Any]) -> Hashable:
    """Collect the tensor arguments in order; what remains is the hashable rest of the signature."""
    if _is_array(value):
        leaves.append(value)
        return _TENSOR
    if isinstance(value, Mapping):
        return (Mapping, tuple((key, _flatten(item, leaves)) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return (type(value), tuple(_flatten(item, leaves) for item in value))
    try:
        hash(value)
    except TypeError:
        raise InvalidArgumentError(
            "an argument of a traced function cannot be part of its signature",
            expected="arrays, numbers, hashable values, or lists, tuples and dicts of these",
            got=f"{type(value).__name__}",
            hint="make it hashable, e.g. with @dataclass(frozen=True), or let the function close over it",
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


def _map_tensors(convert: Callable[[Any], Any], result: Any) -> Any:
    """The structure that a function returned with each leaf but None converted."""
    if result is None:
        return None
    if isinstance(result, Mapping):
        return {key: _map_tensors(convert, item) for key, item in result.items()}
    if isinstance(result, (list, tuple)):
        items = [_map_tensors(convert, item) for item in result]
        return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
    return convert(result)


def _tensor_of(result: Any) -> Any:
    """What a traced function may return besides tensors: values, which become constants."""
    return constant(result) if isinstance(result, _VALUES) else result


def _identity(result: Any) -> Any:
    """A tensor of the value that a step has when it has done what the surrounding control dependencies ask."""
    symbolic = isinstance(result, Tensor) or hasattr(result, "__headrace_tensor__")
    return apply_op("Identity", result) if symbolic else result


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
