"""Timeline: what one process did while it was profiled. Plain data, which every output is made from.

Times are nanoseconds of the process's steady clock; `clock.wall_offsets` brings those of several processes together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import headrace as hr
from headrace_viz.profiling.ceilings import Ceilings
from headrace_viz.profiling.clock import ProcessClock
from headrace_viz.profiling.cost import MOVES_NOTHING, floating_operations, tensor_bytes

DEFAULT_DEVICE = "CPU:0"


@dataclass(frozen=True, slots=True)
class TracedOp:
    """An operation of a plan.

    Attributes:
      name: its name.
      type: its type.
      device: where it ran.
      kernel: what computed it; empty where the backend does not say.
      input_bytes: bytes of its inputs, or None where they are not known before it runs.
      output_bytes: bytes of its outputs, or None.
      flops: additions and multiplications it takes, or None.
    """

    name: str
    type: str
    device: str
    kernel: str
    input_bytes: int | None
    output_bytes: int | None
    flops: int | None

    @property
    def moved_bytes(self) -> int | None:
        """Bytes that it reads and writes, or None where that is not known or nothing moves."""
        if self.type in MOVES_NOTHING or self.input_bytes is None or self.output_bytes is None:
            return None
        return self.input_bytes + self.output_bytes


@dataclass(frozen=True, slots=True)
class OpEvent:
    """One run of an operation: `op` is its position in `Timeline.ops`."""

    op: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class StepEvent:
    """One step; see `headrace.StepRecord` for the attributes that it shares.

    Attributes:
      events: the operations that ran, in order.
    """

    step: int
    thread_id: int
    backend: str
    called_ns: int
    start_ns: int
    end_ns: int
    argument_bytes: int
    result_bytes: int
    arena_bytes: int
    error: str
    events: tuple[OpEvent, ...]

    @property
    def op_ns(self) -> int:
        """Nanoseconds in which an operation ran."""
        return sum(event.end_ns - event.start_ns for event in self.events)


@dataclass(frozen=True, slots=True)
class MemorySample:
    """The memory of the process right after a step: bytes in main memory."""

    time_ns: int
    resident_bytes: int


@dataclass(frozen=True, slots=True)
class Stall:
    """A time in which a thread waited for the next step to be asked for: for input, most of the time."""

    thread_id: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """What one process did while it was profiled.

    Attributes:
      host: name of the machine.
      process_id: the operating system's number of the process.
      clock: its clocks.
      start_ns: when recording began.
      end_ns: when it ended.
      threads: name of each thread that ran a step.
      ops: the operations of all plans that ran.
      steps: the steps, in the order in which they ended.
      memory: samples of memory in use.
      skipped_steps: steps that ran after the limit of the recording was reached.
      ceilings: what the machine can do at best, or None where that was not measured.
    """

    host: str
    process_id: int
    clock: ProcessClock
    start_ns: int
    end_ns: int
    threads: dict[int, str]
    ops: tuple[TracedOp, ...]
    steps: tuple[StepEvent, ...]
    memory: tuple[MemorySample, ...]
    skipped_steps: int = 0
    ceilings: Ceilings | None = None

    @property
    def title(self) -> str:
        """The process in words."""
        return f"{self.host} process {self.process_id}"

    def stalls(self) -> Iterator[Stall]:
        """The times between a step and the next one of the same thread, in order for each thread."""
        ended: dict[int, int] = {}
        for step in sorted(self.steps, key=lambda step: step.called_ns):
            last = ended.get(step.thread_id)
            if last is not None and step.called_ns > last:
                yield Stall(step.thread_id, last, step.called_ns)
            ended[step.thread_id] = step.end_ns if last is None else max(last, step.end_ns)  # one may run in another

    def arena_use(self) -> Iterator[tuple[int, int]]:
        """When the bytes of planned memory in use change, and to what; steps that overlap have an arena each."""
        changes = [(step.start_ns, step.arena_bytes) for step in self.steps]
        changes += [(step.end_ns, -step.arena_bytes) for step in self.steps]
        used = 0
        for time_ns, change in sorted(changes):
            used += change
            yield time_ns, used


def traced_steps(
    records: Sequence[hr.StepRecord],
) -> tuple[tuple[TracedOp, ...], tuple[StepEvent, ...], dict[int, str]]:
    """Return the operations, the steps and the thread names of what core recorded."""
    ops: list[TracedOp] = []
    first_of_plan: dict[int, int] = {}
    steps = []
    for record in records:
        first = first_of_plan.get(id(record.operations))
        if first is None:
            first = first_of_plan[id(record.operations)] = len(ops)
            ops += _traced_ops(record)
        events = tuple(
            OpEvent(first + position, start, end)
            for position, start, end in zip(record.positions, record.starts_ns, record.ends_ns, strict=True)
        )
        steps.append(
            StepEvent(
                record.step,
                record.thread_id,
                record.backend,
                record.called_ns,
                record.start_ns,
                record.end_ns,
                record.argument_bytes,
                record.result_bytes,
                record.arena_bytes,
                record.error,
                events,
            )
        )
    return tuple(ops), tuple(steps), {record.thread_id: record.thread_name for record in records}


def _traced_ops(record: hr.StepRecord) -> Iterator[TracedOp]:
    kernels = record.kernels or [""] * len(record.operations)
    for op, kernel in zip(record.operations, kernels, strict=True):
        yield TracedOp(
            op.name,
            op.type,
            _device(op),
            kernel,
            tensor_bytes(op.inputs),
            tensor_bytes(op.outputs),
            floating_operations(op),
        )


def _device(op: hr.Operation) -> str:
    """Return the device without its leading slash words: `CPU:0` for `/device:CPU:0`."""
    return op.device.removeprefix("/").replace("device:", "") or DEFAULT_DEVICE
