"""Timeline: what one process did while it was profiled. Plain data, which every output is made from.

Times are nanoseconds of the process's steady clock; `clock.wall_offsets` brings those of several processes together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import headrace as hr
from headrace_viz.devices import short_device
from headrace_viz.profiling.ceilings import Ceilings
from headrace_viz.profiling.clock import ProcessClock
from headrace_viz.profiling.cost import MOVES_NOTHING, floating_operations, tensor_bytes


@dataclass(frozen=True, slots=True)
class TracedOp:
    """An operation of a plan, or a group of operations that its backend runs as a whole.

    Attributes:
      name: its name; that of the first operation of a group.
      type: its type; of a group the types of the first ones, and how many more there are.
      device: where it ran.
      kernel: what computed it; empty where the backend does not say.
      input_bytes: bytes of its inputs, or None where they are not known before it runs; what members of a group hand to
        each other counts as neither input nor output.
      output_bytes: bytes of its outputs, or None.
      flops: additions and multiplications it takes, or None; of a group those of the members where they are known.
      members: the names of the operations of a group; empty for an operation alone.
      waits: it may wait for others, as those do that take from a queue; a transfer tells its waits itself.
    """

    name: str
    type: str
    device: str
    kernel: str
    input_bytes: int | None
    output_bytes: int | None
    flops: int | None
    members: tuple[str, ...] = ()
    waits: bool = False

    @property
    def title(self) -> str:
        """Its name, with how many more there are in its group."""
        return f"{self.name} and {len(self.members) - 1} more" if self.members else self.name

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
    thread_id: int


@dataclass(frozen=True, slots=True)
class SegmentEvent:
    """What ran as a whole in one thread; see `headrace.SegmentRecord` for the attributes."""

    name: str
    waits: bool
    device: str
    iteration: str
    thread_id: int
    ready_ns: int
    start_ns: int
    end_ns: int
    bytes_in: int
    bytes_out: int

    @property
    def queue_ns(self) -> int:
        """Nanoseconds between being ready and starting."""
        return self.start_ns - self.ready_ns


@dataclass(frozen=True, slots=True)
class Transfer:
    """A tensor that went from one device to another, or the half of it that this process saw.

    Attributes:
      tensor: the name of the tensor.
      source: the device that sent it.
      target: the device that received it.
      bytes: its bytes, or None where they are not known.
      sent_ns: when the sender had it; where another process sent it, when the receiver began to wait for it.
      received_ns: when the receiver had it; where another process receives it, when the sender had handed it over.
      source_thread: the thread that sent it, or None in another process.
      target_thread: the thread that received it, or None in another process.
      waited_ns: how long the receiver waited for it.
    """

    tensor: str
    source: str
    target: str
    bytes: int | None
    sent_ns: int
    received_ns: int
    source_thread: int | None
    target_thread: int | None
    waited_ns: int


@dataclass(frozen=True, slots=True)
class StepEvent:
    """One step; see `headrace.StepRecord` for the attributes that it shares.

    Attributes:
      events: the operations that ran, by when they started.
      segments: what ran as a whole, each on one device and in one thread, by when it started.
      transfers: the tensors that went from one device to another, by when they were sent.
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
    segments: tuple[SegmentEvent, ...] = ()
    transfers: tuple[Transfer, ...] = ()

    @property
    def op_ns(self) -> int:
        """Nanoseconds of all operations together; those of several devices or threads may run at once."""
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
      threads: name of each thread that ran a step or a part of one.
      ops: the operations and groups that ran.
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


def in_order(event: OpEvent | SegmentEvent) -> tuple[int, int, int]:
    """The order in which a step lists what ran in it."""
    return event.start_ns, event.end_ns, event.thread_id


def sent_order(transfer: Transfer) -> tuple[int, int, str, str]:
    """The order in which a step lists what was transferred in it."""
    return transfer.sent_ns, transfer.received_ns, transfer.tensor, transfer.target


def traced_steps(
    records: Sequence[hr.StepRecord],
) -> tuple[tuple[TracedOp, ...], tuple[StepEvent, ...], dict[int, str]]:
    """Return the operations, the steps and the thread names of what core recorded."""
    plans: dict[int, _Plan] = {}
    ops: list[TracedOp] = []
    steps: list[StepEvent] = []
    threads: dict[int, str] = {}
    for record in records:
        plan = plans.get(id(record.operations))
        if plan is None:
            plan = plans[id(record.operations)] = _Plan(record, ops)
        threads[record.thread_id] = record.thread_name
        threads.update((segment.thread_id, segment.thread_name) for segment in record.segments)
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
                tuple(sorted(_op_events(record, plan), key=in_order)),
                tuple(sorted(map(_segment_event, record.segments), key=in_order)),
                _transfers(record),
            )
        )
    return tuple(ops), tuple(steps), threads


class _Plan:
    """Mutable: the operations of a plan that have been seen to run, by their numbers among those of all plans.

    Args:
      record: of a step of the plan.
      ops: the operations of all plans, which grows.
    """

    def __init__(self, record: hr.StepRecord, ops: list[TracedOp]) -> None:
        self._ops = ops
        self._operations = record.operations
        self._kernels = dict(zip(record.operations, record.kernels, strict=False))  # no kernels where nobody says them
        self._numbers: dict[tuple[hr.Operation, int], int] = {}
        self._readers: dict[hr.Operation, set[hr.Operation]] | None = None

    def number(self, group: Sequence[hr.Operation], kind: str) -> int:
        """Return the number of an operation or a group.

        Args:
          group: what ran as a whole.
          kind: its type.
        """
        key = group[0], len(group)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._ops)
            self._ops.append(self._traced(group, kind))
        return number

    def _traced(self, group: Sequence[hr.Operation], kind: str) -> TracedOp:
        first, members = group[0], set(group)
        inputs, outputs, flops = first.inputs, first.outputs, [floating_operations(op) for op in group]
        if len(group) > 1:
            read = [tensor for op in group for tensor in op.inputs if tensor.op not in members]
            inputs = tuple(dict.fromkeys(read))
            outputs = tuple(tensor for op in group if self._is_read_outside(op, members) for tensor in op.outputs)
        known = [number for number in flops if number is not None]
        return TracedOp(
            first.name,
            kind,
            short_device(first.device),
            self._kernels.get(first, ""),
            tensor_bytes(inputs),
            tensor_bytes(outputs),
            sum(known) if known else None,
            tuple(op.name for op in group) if len(group) > 1 else (),
            first.blocks and first.type not in ("_Send", "_Recv"),
        )

    def _is_read_outside(self, op: hr.Operation, members: set[hr.Operation]) -> bool:
        if self._readers is None:
            self._readers = {}
            for reader in self._operations:
                for tensor in reader.inputs:
                    self._readers.setdefault(tensor.op, set()).add(reader)
        readers = self._readers.get(op, set())
        return not readers or not readers <= members  # what no operation reads is a result of the step


def _op_events(record: hr.StepRecord, plan: _Plan) -> Iterator[OpEvent]:
    for segment in record.segments:
        for group, run in zip(segment.groups, segment.op_records(record.step), strict=True):
            yield OpEvent(plan.number(group, run.type), run.start_ns, run.end_ns, segment.thread_id)


def _segment_event(segment: hr.SegmentRecord) -> SegmentEvent:
    return SegmentEvent(
        segment.name,
        segment.waits,
        short_device(segment.device),
        segment.iteration,
        segment.thread_id,
        segment.ready_ns,
        segment.start_ns,
        segment.end_ns,
        segment.bytes_in,
        segment.bytes_out,
    )


@dataclass(frozen=True, slots=True)
class _Half:
    """One run of a send or of a receive."""

    start_ns: int
    end_ns: int
    thread_id: int
    bytes: int | None


_Route = tuple[str, str, str, str]
"""The name of a tensor, the device that sends it, the one that receives it, and in which iteration of which loop."""


def _transfers(record: hr.StepRecord) -> tuple[Transfer, ...]:
    """Join each send with its receive: the two that have a tensor, two devices and an iteration in common."""
    sends: dict[_Route, _Half] = {}
    receives: dict[_Route, _Half] = {}
    for segment in record.segments:
        for position, start, end in zip(segment.positions, segment.starts_ns, segment.ends_ns, strict=True):
            op = segment.operations[position]
            if op.type in ("_Send", "_Recv"):
                route = op.attr("tensor_name"), op.attr("send_device"), op.attr("recv_device"), segment.iteration
                (sends if op.type == "_Send" else receives)[route] = _Half(
                    start, end, segment.thread_id, _moved_bytes(op, segment)
                )
    found = [_transfer(route, sends.get(route), receives.get(route)) for route in dict.fromkeys([*sends, *receives])]
    return tuple(sorted(found, key=sent_order))


def _moved_bytes(op: hr.Operation, segment: hr.SegmentRecord) -> int | None:
    sends = op.type == "_Send"
    if len(segment.operations) == 1:
        return segment.bytes_in if sends else segment.bytes_out
    return tensor_bytes(op.inputs if sends else op.outputs)


def _transfer(route: _Route, send: _Half | None, receive: _Half | None) -> Transfer:
    first, last = send or receive, receive or send
    assert first is not None
    assert last is not None
    tensor, source, target, _ = route
    return Transfer(
        tensor=tensor,
        source=short_device(source),
        target=short_device(target),
        bytes=first.bytes if first.bytes is not None else last.bytes,
        sent_ns=first.start_ns,
        received_ns=last.end_ns,
        source_thread=None if send is None else send.thread_id,
        target_thread=None if receive is None else receive.thread_id,
        waited_ns=0 if receive is None else receive.end_ns - receive.start_ns,
    )
