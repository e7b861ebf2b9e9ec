"""StepDefinition: what is fed and fetched, with the plans compiled for it so far."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import numpy as np

from headrace.config import Config
from headrace.errors import FeedError, ResourceExhaustedError
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.plan.background import PlanInTime, compiled_in_time
from headrace.plan.garbage import rare_collections
from headrace.plan.plan import Plan, compile_plan, find_backend
from headrace.plan.threads import blas_pools
from headrace.runtime.executor import StepExecutor, run_step
from headrace.runtime.feeds import check_feed_shape, feed_converter
from headrace.runtime.initialization import initialize_variables
from headrace.runtime.partitioned import PartsExecutor
from headrace.runtime.resources import ResourceManager
from headrace.runtime.step_control import Cancellation, RunningSteps, StepController
from headrace.runtime.trace import Trace, active_traces
from headrace.types import Shape

__all__ = ["StepDefinition", "check_value_count"]

MAX_PLANS = 256
"""Plans kept per definition; the oldest goes when a step sees yet another combination of shapes."""


class StepDefinition:
    """A step that can be run again and again. Its plan cache is mutable and thread-safe.

    Args:
      graph: the graph.
      fetches: the tensors to return.
      targets: the operations to run for their effect.
      feeds: the tensors that get a value from outside.
      resources: the container of the session's state.
      config: how to compile.
      running: where its steps are counted while they may wait, or None.
    """

    def __init__(
        self,
        graph: Graph,
        fetches: Sequence[Tensor],
        targets: Sequence[Operation],
        feeds: Sequence[Tensor],
        resources: ResourceManager,
        config: Config,
        running: RunningSteps | None = None,
    ) -> None:
        self._graph = graph
        self._fetches = fetches
        self._targets = targets
        self._feeds = feeds
        self._resources = resources
        self._config = config
        self._running = running or RunningSteps()
        self._converters = [feed_converter(feed) for feed in feeds]
        self._plans: dict[tuple[tuple[int, ...], ...], Plan] = {}
        self._lock = threading.RLock()
        self._initialized = False
        self._blas_threads = 1 if config.deterministic else config.threads

    def run(self, values: Sequence[Any]) -> Sequence[Any]:
        """Run one step: one value per feed in, one array per fetch out."""
        if self._config.timeout is not None or active_traces:
            return self.run_observed(values)
        # the hot path: `_converted` and `_plan_of` written out, since two calls would add 0.1 us to every step
        arguments = [convert(value) for convert, value in zip(self._converters, values, strict=True)]
        plan = self._plans.get(tuple([argument.shape for argument in arguments])) or self._new_plan(arguments)
        if not self._initialized:
            self._initialize()
        if plan.blocks:
            return self._observed(plan, arguments, StepController(stall_timeout=self._config.stall_timeout))
        if blas_pools.threads != self._blas_threads:
            blas_pools.bound(self._blas_threads)
        return plan.compiled(arguments)

    def run_observed(
        self,
        values: Sequence[Any],
        *,
        timeout: float | None = None,
        trace: Trace | None = None,
        cancellation: Cancellation | None = None,
    ) -> Sequence[Any]:
        """Run one step with a deadline, a trace or a way to cancel it (see `executor.run_step`).

        Where no deadline is given, the configuration's holds.
        """
        called_ns = time.perf_counter_ns()
        limit = self._config.timeout if timeout is None else timeout
        control = StepController(limit, cancellation, self._config.stall_timeout)
        arguments = self._converted(values)
        plan = self._plan_of(arguments)
        if not self._initialized:
            self._initialize()
        return self._observed(plan, arguments, control, trace, called_ns)

    def _observed(
        self,
        plan: Plan,
        arguments: Sequence[Any],
        control: StepController,
        trace: Trace | None = None,
        called_ns: int | None = None,
    ) -> Sequence[Any]:
        if blas_pools.threads != self._blas_threads:
            blas_pools.bound(self._blas_threads)
        if not plan.blocks:
            return run_step(plan, arguments, control, trace=trace, called_ns=called_ns)
        self._running.add(control.cancellation)
        try:
            return run_step(plan, arguments, control, trace=trace, called_ns=called_ns)
        finally:
            self._running.remove(control.cancellation)

    def checked_copies(self, values: Sequence[Any]) -> list[Any]:
        """One array per feed that the caller cannot change any more, for a step that runs later.

        Raises:
          FeedError: a value does not fit.
        """
        arrays = [np.array(argument) for argument in self._converted(values)]
        for feed, array in zip(self._feeds, arrays, strict=True):
            check_feed_shape(feed, array.shape)
        return arrays

    def plan_for(self, values: Sequence[Any]) -> Plan:
        """The plan that `run(values)` would use."""
        return self._plan_of(self._converted(values))

    def _converted(self, values: Sequence[Any]) -> list[Any]:
        return [convert(value) for convert, value in zip(self._converters, values, strict=True)]

    def _plan_of(self, arguments: Sequence[Any]) -> Plan:
        return self._plans.get(tuple([argument.shape for argument in arguments])) or self._new_plan(arguments)

    def _new_plan(self, arguments: Sequence[Any]) -> Plan:
        shapes = tuple([argument.shape for argument in arguments])
        for feed, shape in zip(self._feeds, shapes, strict=True):
            check_feed_shape(feed, shape)
        with self._lock:
            plan = self._plans.get(shapes)
            if plan is None:
                plan, better = self._compiled(shapes)
                self._graph.note_plan()
                if len(self._plans) >= MAX_PLANS:
                    del self._plans[next(iter(self._plans))]
                self._plans[shapes] = plan
                if better is not None:
                    better.add_done_callback(functools.partial(self._take_over, shapes, plan))
        return plan

    def _compiled(self, shapes: tuple[tuple[int, ...], ...]) -> PlanInTime:
        """A plan for feeds of these shapes, and the one that comes in its place, if any."""

        def make(config: Config = self._config) -> Plan:
            with rare_collections():
                return compile_plan(
                    self._graph, self._fetches, self._targets, self._feeds, [Shape(shape) for shape in shapes],
                    self._resources, config, StepExecutor, PartsExecutor,
                )  # fmt: skip

        def stand_in() -> Plan | None:
            try:
                return make(on_numpy)
            except ResourceExhaustedError:  # by NumPy kernels it would need more than it may
                return None

        on_numpy = _for_one_run(self._config)
        seconds = self._config.compile_wait
        if seconds is None or self._config.deterministic or find_backend(self._config.backend).name == "numpy":
            return make(), None
        if on_numpy.backend != "numpy":  # its values live where NumPy does not reach
            return make(), None
        return compiled_in_time(make, stand_in, seconds)

    def _take_over(self, shapes: tuple[tuple[int, ...], ...], stand_in: Plan, better: Future[Plan]) -> None:
        """Let the steps from now on run by the better plan; those under way end by the one that they have."""
        with self._lock:
            if self._plans.get(shapes) is stand_in and better.exception() is None:
                self._plans[shapes] = better.result()

    def _initialize(self) -> None:
        with self._resources.lookup_or_create("initialization", threading.RLock), rare_collections():
            initialize_variables(
                self._graph, self._fetches, self._targets, self._feeds, self._resources, self._run_once
            )
            self._initialized = True

    def _run_once(self, targets: Sequence[Operation]) -> None:
        """Run initializers: a step without feeds or fetches."""
        config = _for_one_run(self._config)
        plan = compile_plan(self._graph, (), targets, (), (), self._resources, config, StepExecutor, PartsExecutor)
        if plan.blocks:
            self._observed(plan, (), StepController(stall_timeout=self._config.stall_timeout))
            return
        if blas_pools.threads != self._blas_threads:
            blas_pools.bound(self._blas_threads)
        plan.compiled(())


def _for_one_run(config: Config) -> Config:
    """Options for a step that runs once: NumPy begins at once, where machine code takes 20 ms a variable to compile.

    A backend with memory of its own makes its values itself.
    """
    on_host = all(device.startswith("CPU:") for device in find_backend(config.backend).devices())
    return replace(config, backend="numpy") if on_host else config


def check_value_count(feeds: Sequence[Tensor], values: Sequence[Any]) -> None:
    """Raise FeedError unless there is one value per feed."""
    if len(feeds) != len(values):
        raise FeedError(
            "the number of values differs from the number of feeds",
            expected=f"{len(feeds)}: " + ", ".join(feed.name for feed in feeds),
            got=str(len(values)),
            hint="give the values in the order of the feeds of make_callable, each as one argument",
        )
