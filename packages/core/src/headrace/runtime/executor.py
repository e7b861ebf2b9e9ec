"""The executor: runs one step of a plan, with its deadline, cancellation and trace.

A plan that is one segment is one call. A step graph is run by the calling thread and as many others as have to wait at
once: whoever finishes a node asks `StepState` what can start now, goes on with one of them, and hands those that may
take long to other threads. What is short is never handed on, since that costs more than it saves.
"""

from __future__ import annotations

import contextvars
import functools
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.errors import AbortedError, InternalError, InvalidArgumentError
from headrace.graph.operation import Operation
from headrace.interfaces import DEAD, Compiled, OpHook
from headrace.kernels.context import current_step, inside_iteration, inside_step
from headrace.plan.limit import needed_memory
from headrace.plan.needs import PlannedMemory, combined
from headrace.plan.plan import Plan
from headrace.plan.step_graph import Kind
from headrace.plan.step_plan import StepPlan
from headrace.runtime import workers
from headrace.runtime.blocked import at_rest
from headrace.runtime.step_control import StepController
from headrace.runtime.step_state import Activation, StepState
from headrace.runtime.trace import SegmentRecord, SegmentRecorder, StepRecord, Trace, active_traces

__all__ = ["StepExecutor", "run_step"]

SLOW_NS = 200_000
"""A segment that took so long once is worth a thread of its own, where there is something else to do."""


class StepExecutor:
    """A step graph as one callable (see `interfaces.Compiled`). May be called by several threads at once."""

    is_divided = True  # it records its segments itself

    def __init__(self, plan: StepPlan) -> None:
        self.plan = plan
        self.slow: set[int] = set()  # nodes that took long, by index; only ever a hint
        self._operations = tuple(op for compiled in plan.compiled if compiled for op in compiled.operations)
        counts = [len(compiled.operations) if compiled else 0 for compiled in plan.compiled]
        self._firsts = [sum(counts[:index]) for index in range(len(counts))]

    @property
    def operations(self) -> Sequence[Operation]:
        """The operations of all segments and all that wait, node by node."""
        return self._operations

    @property
    def kernels(self) -> Sequence[str]:
        """For each operation the name of what computes it."""
        return tuple(
            name
            for compiled in self.plan.compiled
            if compiled
            for name in getattr(compiled, "kernels", ("",) * len(compiled.operations))
        )

    @property
    def arena_bytes(self) -> int:
        """Bytes of planned memory of all segments."""
        return sum(getattr(compiled, "arena_bytes", 0) for compiled in self.plan.compiled)

    @property
    def segments(self) -> Sequence[Compiled]:
        """What was compiled as a whole, in order."""
        return tuple(compiled for compiled in self.plan.compiled if compiled)

    @property
    def memory(self) -> PlannedMemory:
        """What one step needs, as far as the backends say."""
        return combined(map(needed_memory, self.segments))

    def __call__(self, arguments: Sequence[Any], /) -> Sequence[Any]:
        """Run a step."""
        return self._results(_Run(self, None), arguments)

    def run_with_hook(self, arguments: Sequence[Any], hook: OpHook, /) -> Sequence[Any]:
        """Run a step, calling `hook` before each operation, for one operation at a time."""
        return self._results(_Run(self, hook), arguments)

    def _results(self, run: _Run, arguments: Sequence[Any]) -> Sequence[Any]:
        with np.errstate(all="ignore"):  # once for all segments and threads: these take over the context
            values = run.to_its_end(arguments)
        return [self._result(number, value, run.state) for number, value in enumerate(values)]

    def _result(self, number: int, value: Any, state: StepState) -> Any:
        if value is DEAD:
            raise InvalidArgumentError(
                f"'{state.graph.results[number]}' has no value in this step",
                expected="a tensor that is computed",
                got="one on a branch that was not taken",
                hint="fetch what Merge gives, or fetch it only in steps that take its branch",
            )
        if value is None:
            raise InternalError(
                f"'{state.graph.results[number]}' was not computed",
                expected="a value or a dead token for each result",
                got="neither",
                hint="please report this with the graph",
            )
        if number in self.plan.handles:
            return value
        return np.array(value) if number in self.plan.copied else np.asarray(value)


class _Run:
    """One run of a step graph. Mutable and thread-safe.

    Attributes:
      state: how far it is.
    """

    def __init__(self, executor: StepExecutor, hook: OpHook | None) -> None:
        self.state = StepState(executor.plan.graph)
        self._executor = executor
        self._control = current_step()
        self._recorder: SegmentRecorder | None = getattr(self._control, "recorder", None)
        self._hook = hook
        self._lock = threading.Lock()
        self._ended = threading.Condition(self._lock)
        self._hook_lock = threading.Lock()
        self._short: deque[Activation] = deque()
        self._others = 0
        self._error: BaseException | None = None

    def to_its_end(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """Run it; the first error ends it, and nothing is left running when this returns or raises."""
        try:
            with self._lock:
                first = self._divide(self.state.start(arguments))
            self._work(first, watched=self._hook is not None)
        except BaseException as error:
            self._give_up(error)
        while self._others > 0:
            try:
                with self._lock, at_rest():
                    while self._others > 0:
                        self._ended.wait()
            except KeyboardInterrupt as error:
                self._give_up(error)
        if self._error is not None:
            raise self._error
        if not self.state.is_done:
            raise InternalError(
                "a step ended early",
                expected="every loop over",
                got="one that waits for what nothing brings",
                hint="please report this with the graph",
            )
        return self.state.results

    def _divide(self, ready: Sequence[Activation]) -> Activation | None:
        """Choose what the calling thread does next and hand on what it must not keep waiting; called with the lock."""
        slow = self._executor.slow
        long: list[Activation] = []
        if self._recorder is not None:
            now = time.perf_counter_ns()
            for activation in ready:
                activation.ready_ns = now
        for activation in ready:
            may_take_long = activation.node.kind is Kind.WAIT or activation.node.index in slow
            (long if may_take_long else self._short).append(activation)
        if self._short:
            mine = self._short.popleft()
        elif long:
            mine = long.pop()
        else:
            return None
        for activation in long:
            workers.submit(functools.partial(contextvars.copy_context().run, self._help, activation))
            self._others += 1
        return mine

    def _help(self, activation: Activation) -> None:
        """What another thread does: go on from `activation` as far as it leads."""
        try:
            self._work(activation, watched=True)
        except BaseException as error:
            self._give_up(error)
        finally:
            with self._lock:
                self._others -= 1
                if not self._others:
                    self._ended.notify_all()

    def _work(self, activation: Activation | None, *, watched: bool) -> None:
        """Run nodes, one after the other, until there is none for this thread."""
        executor, compiled, clock = self._executor, self._executor.plan.compiled, time.perf_counter_ns
        while activation is not None:
            function = compiled[activation.node.index]
            outputs: Sequence[Any] = ()
            if function is not None:
                started = clock()
                try:
                    if self._recorder is not None:
                        outputs = self._recorded(activation, function)
                    elif activation.node.kind is Kind.WAIT and activation.node.frame.parent is not None:
                        hook = self._hook_of(activation)
                        with inside_iteration(activation.place):  # what goes to other devices is told apart by it
                            outputs = function.run_with_hook(activation.inputs, hook)
                    elif watched:
                        outputs = function.run_with_hook(activation.inputs, self._hook_of(activation))
                    else:
                        outputs = function(activation.inputs)
                except Exception as error:
                    if activation.node.frame.parent is not None:
                        error.add_note(f"in iteration {activation.place}")
                    raise
                if clock() - started > SLOW_NS:
                    executor.slow.add(activation.node.index)
                activation.inputs.clear()
            with self._lock:
                if self._error is not None:
                    return
                activation = self._divide(self.state.finish(activation, outputs))

    def _recorded(self, activation: Activation, function: Compiled) -> Sequence[Any]:
        """Run a node under a trace."""
        assert self._recorder is not None
        node = activation.node
        with inside_iteration(activation.place):
            return self._recorder.run(
                function,
                activation.inputs,
                self._hook_of(activation),
                waits=node.kind is Kind.WAIT,
                device=node.operations[0].device,
                iteration=activation.place,
                ready_ns=activation.ready_ns,
            )

    def _hook_of(self, activation: Activation) -> OpHook:
        """A hook that ends a node when the step has been given up; between its operations, others may go on."""
        first, hook = self._executor._firsts[activation.node.index], self._hook

        def before(index: int) -> None:
            if self._error is not None:
                raise AbortedError(
                    "an operation was not started, since another one of its step has failed",
                    expected="a step that goes on",
                    got=type(self._error).__name__,
                    hint="look at that error: the step raises it",
                )
            if hook is not None:
                with self._hook_lock:
                    hook(first + index)

        return before

    def _give_up(self, error: BaseException) -> None:
        """Take note of an error; the first one ends the step."""
        with self._lock:
            if self._error is not None:
                return
            self._error = error
            self._short.clear()
        self._control.give_up("an error of another operation of the step")


def run_step(
    plan: Plan,
    arguments: Sequence[Any],
    control: StepController,
    *,
    trace: Trace | None = None,
    called_ns: int | None = None,
) -> Sequence[Any]:
    """Run one step under observation: between two operations it is checked whether the step has to end.

    Args:
      plan: the plan.
      arguments: the values of its arguments.
      control: what ends the step before its time.
      trace: where to record the step, besides the traces that record every step, or None.
      called_ns: when the step was asked for, by `time.perf_counter_ns`; now by default.
    Raises:
      DeadlineExceededError: the time is over; the error names the operation that was next.
      CancelledError: cancellation was requested.
    """
    check = _check(plan, control) if control.is_observed else None
    with inside_step(control):
        if trace is not None or active_traces:
            return _traced(plan, arguments, control, trace, check, called_ns)
        return plan.compiled(arguments) if check is None else plan.compiled.run_with_hook(arguments, check)


def _check(plan: Plan, control: StepController) -> OpHook:
    """A hook that ends the step when its time is over or somebody wants it to end."""
    operations = plan.compiled.operations
    count = len(operations)
    return lambda index: control.check_before(operations[index], index, count)


def _traced(
    plan: Plan,
    arguments: Sequence[Any],
    control: StepController,
    asked: Trace | None,
    check: OpHook | None,
    called_ns: int | None,
) -> Sequence[Any]:
    """Run a step and hand its record to the traces, also where it fails: the time it took is what one looks for."""
    traces = list(active_traces)
    if asked is not None and asked not in traces:
        traces.append(asked)
    recorder = SegmentRecorder(detail=any(trace.detail for trace in traces))
    compiled = plan.compiled
    results: Sequence[Any] = ()
    error = ""
    start_ns = time.perf_counter_ns()
    try:
        if getattr(compiled, "is_divided", False):
            control.recorder = recorder
            results = compiled.run_with_hook(arguments, check or _nothing)
        else:
            results = recorder.run(compiled, arguments, check)
    except BaseException as raised:
        error = type(raised).__name__
        raise
    finally:
        segments = recorder.segments
        end_ns = time.perf_counter_ns() if len(segments) != 1 else segments[0].end_ns
        positions, starts, ends = _flat(compiled.operations, segments)
        record = StepRecord(
            step=control.step,
            backend=plan.backend,
            operations=compiled.operations,
            kernels=getattr(compiled, "kernels", ()),
            positions=positions,
            starts_ns=starts,
            ends_ns=ends,
            segments=segments,
            called_ns=start_ns if called_ns is None else called_ns,
            start_ns=start_ns,
            end_ns=end_ns,
            thread_id=threading.get_native_id(),
            thread_name=threading.current_thread().name,
            argument_bytes=sum([value.nbytes for value in arguments]),
            result_bytes=sum([value.nbytes for value in results]),
            arena_bytes=getattr(compiled, "arena_bytes", 0),
            error=error,
        )
        for trace in traces:
            trace.add(record)
    return results


def _nothing(index: int) -> None:
    """The hook of a step that nobody ends."""


def _flat(
    operations: Sequence[Operation], segments: Sequence[SegmentRecord]
) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """Positions, starts and ends of the operations of all segments, by when they started."""
    if len(segments) == 1 and segments[0].operations is operations:
        return segments[0].positions, segments[0].starts_ns, segments[0].ends_ns
    numbers = {op: number for number, op in enumerate(operations)}
    rows = sorted(
        (start, end, numbers[segment.operations[position]])
        for segment in segments
        for position, start, end in zip(segment.positions, segment.starts_ns, segment.ends_ns, strict=True)
    )
    return [row[2] for row in rows], [row[0] for row in rows], [row[1] for row in rows]
