"""NestedPlans: the bodies of functions that operations of a plan call, compiled for the shapes they are called with.

A body becomes a segment like any other: pruned, optimised and compiled by the same backend. It is compiled for concrete
shapes where they stay the same; where they change from call to call (a tensor that grows in a loop), the sizes that
change are left open after a few shapes were seen, so that a loop of a thousand iterations is not compiled a thousand
times.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.config import Config
from headrace.graph.function_library import FunctionLibrary
from headrace.graph.functions import Body
from headrace.graph.graph import Graph
from headrace.interfaces import Backend, Compiled, Functions, Resources
from headrace.passes.pipeline import optimize
from headrace.passes.prune import prune
from headrace.plan.segments import in_order_of_waits
from headrace.types import Shape

__all__ = ["NestedPlans", "compile_segment"]

EXACT_SHAPES = 2
"""How many combinations of concrete shapes a function is compiled for before sizes that differ are left open."""

MOST_SHAPES = 1024
"""How many combinations of shapes are remembered with the compiled body that serves them."""

_Shapes = tuple[tuple[int, ...] | None, ...]


class NestedPlans:
    """The functions of one plan (see `interfaces.Functions`). Its cache is mutable and thread-safe.

    Args:
      library: the bodies.
      backend: what compiles them.
      resources: where their stateful operations find their state.
      config: which passes run on them.
    """

    def __init__(self, library: FunctionLibrary, backend: Backend, resources: Resources, config: Config) -> None:
        self._library = library
        self._backend = backend
        self._resources = resources
        self._config = config
        self._plans: dict[tuple[str, str | None, _Shapes], Compiled] = {}
        self._compiled_for: dict[tuple[str, str | None], list[tuple[list[Shape], Compiled]]] = {}
        self._segments: dict[tuple[str, str | None, tuple[Shape, ...]], tuple[Graph, Functions]] = {}
        self._lock = threading.RLock()  # a body that calls functions compiles them when it runs, in any thread

    def compiled(self, function: str, arguments: Sequence[Any], then: str | None = None) -> Compiled:
        """The compiled body of a function, and of the one that follows it (see the interface)."""
        shapes = tuple([value.shape if isinstance(value, np.ndarray) else None for value in arguments])
        key = (function, then, shapes)
        found = self._plans.get(key)
        if found is None:
            with self._lock:
                found = self._plans.get(key) or self._find_or_compile(function, then, shapes)
                if len(self._plans) >= MOST_SHAPES:
                    self._plans.clear()  # what was compiled is kept and found again by the shapes that it accepts
                self._plans[key] = found
        return found

    def _find_or_compile(self, function: str, then: str | None, shapes: _Shapes) -> Compiled:
        body = self._library[function]
        known = self._compiled_for.setdefault((function, then), [])
        wanted = [body.arguments[index].shape if sizes is None else Shape(sizes) for index, sizes in enumerate(shapes)]
        for accepted, compiled in known:
            if all(mine.is_compatible_with(given) for mine, given in zip(accepted, wanted, strict=True)):
                return compiled
        if len(known) >= EXACT_SHAPES:
            wanted = [old.relax(new) for old, new in zip(known[-1][0], wanted, strict=True)]
        segment, functions = self.segment(function, wanted, then)
        compiled = compile_segment(self._backend, segment, self._resources, functions, self._config)
        known.append((wanted, compiled))
        return compiled

    def segment(self, function: str, shapes: Sequence[Shape], then: str | None = None) -> tuple[Graph, Functions]:
        """The body of a function as a segment, and the functions that it calls (see the interface)."""
        key = (function, then, tuple(shapes))
        with self._lock:
            if key not in self._segments:
                self._segments[key] = self._optimized(function, shapes, then)
            return self._segments[key]

    def _optimized(self, function: str, shapes: Sequence[Shape], then: str | None) -> tuple[Graph, Functions]:
        body = self._library[function]
        following = None if then is None else self._library[then]
        segment = optimize(_bounded(body, following, shapes), self._config)
        if body.effects.blocks or (following is not None and following.effects.blocks):
            segment = in_order_of_waits(segment) or segment
        if segment.functions is self._library:
            return segment, self
        added = segment.functions  # passes have added some
        return segment, NestedPlans(added, self._backend, self._resources, self._config)


def compile_segment(
    backend: Backend, segment: Graph, resources: Resources, functions: Functions, config: Config
) -> Compiled:
    """Let a backend compile a segment with `config` in force, where it looks for its own options."""
    with config:
        return backend.compile(segment, resources, functions)


def _bounded(body: Body, following: Body | None, shapes: Sequence[Shape]) -> Graph:
    """The body as a segment: what its results and effects need, for arguments of the given shapes."""
    prefix = f"{body.state_name}/"
    if following is not None:
        body, prefix = _joined(body, following, prefix), ""
    arguments = [body.arguments[index] for index in range(len(body.arguments))]
    effects = [op for op in body.operations if op.has_effect]
    return prune(body, body.results, effects, arguments, shapes, prefix=prefix, may_alias=True)


def _joined(first: Body, second: Body, prefix: str) -> Body:
    """A function that gives the results of the first one, and those of the second one of them."""
    joined, _ = first.copy("", first.results, prefix=prefix)
    stateful = [op for op in joined.operations if op.is_stateful]
    tensors = {second.arguments[index]: tensor for index, tensor in enumerate(joined.results)}
    joined.include(second, second.results, tensors, prefix=f"{second.state_name}/", after=stateful)
    joined.results = (*joined.results, *(tensors[result] for result in second.results))
    return joined
