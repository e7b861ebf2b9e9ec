"""Timeline: what one process did while it was profiled. Plain data, which every output is made from.

Times are nanoseconds of the process's steady clock; `clock.wall_offsets` brings those of several processes together.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import headrace as hr
from headrace_viz.devices import short_device
from headrace_viz.profiling.ceilings import Ceilings
from headrace_viz.profiling.clock import ProcessClock
from headrace_viz.profiling.cost import (
    MOVES_NOTHING,
    READ_THROUGH,
    floating_operations,
    tensor_bytes,
    variable_bytes_read,
    variable_bytes_written,
)


@dataclass(frozen=True, slots=True)
class TracedOp:
    """An operation of a plan, or a group of operations that its backend runs as a whole.

    Attributes:
      name: its name; that of the first operation of a group.
      type: its type; of a group the first types, and how many more operations there are.
      device: where it ran.
      kernel: what computed it; empty where the backend does not say.
      input_bytes: bytes that it reads from memory, or None where they are not known before it runs; what members of a
        group hand to each other counts as neither input nor output.
      output_bytes: bytes that it writes to memory, those of variables among them, or None.
      flops: additions and multiplications it takes, or None; of a group those of the members where they are known. An
        operation that is computed in several pieces counts in part in each, and one that readers compute again counts
        once.
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
      is_first: no step of its plan was seen before, so that making the plan may be part of what came before its start.
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
    is_first: bool = False

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
        is_first = plan is None
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
                is_first,
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
        self._pieces = Counter(record.operations)  # one that is computed in several pieces is there several times
        self._kernels = dict(zip(record.operations, record.kernels, strict=False))  # no kernels where nobody says them
        self._numbers: dict[tuple[hr.Operation, int], int] = {}
        self._memory: dict[hr.Operation, _Memory] = {}

    def number(self, group: Sequence[hr.Operation], kind: str, segment: hr.SegmentRecord) -> int:
        """Return the number of an operation or a group.

        Args:
          group: what ran as a whole.
          kind: its type.
          segment: where it ran.
        """
        key = group[0], len(group)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._ops)
            self._ops.append(self._traced(group, kind, self._memory_of(segment)))
        return number

    def _memory_of(self, segment: hr.SegmentRecord) -> _Memory:
        first = segment.operations[0]
        if first not in self._memory:
            named = any(self._kernels.get(op) for op in segment.operations)
            unwritten = {op for op in segment.operations if not self._kernels.get(op)} if named else set()
            self._memory[first] = _Memory(self._operations, unwritten)
        return self._memory[first]

    def _traced(self, group: Sequence[hr.Operation], kind: str, memory: _Memory) -> TracedOp:
        pieces = Counter(group)
        members = tuple(pieces)
        kernel = next((name for op in members if (name := self._kernels.get(op))), "")
        return TracedOp(
            members[0].name,
            kind,
            short_device(members[0].device),
            kernel,
            _sum([tensor_bytes(memory.read_by(members)), *map(variable_bytes_read, members)]),
            _sum(
                [self._part(tensor_bytes(memory.written_by(op, pieces)), pieces, op) for op in members]
                + [variable_bytes_written(op) for op in members]
            ),
            _known_sum([self._part(floating_operations(op), pieces, op) for op in members]),
            tuple(op.name for op in members) if len(members) > 1 else (),
            members[0].blocks and members[0].type not in ("_Send", "_Recv"),
        )

    def _part(self, amount: int | None, pieces: Counter[hr.Operation], op: hr.Operation) -> int | None:
        return None if amount is None else amount * pieces[op] // max(pieces[op], self._pieces[op])


class _Memory:
    """Mutable: what the operations of a plan read from memory and write to it.

    Args:
      operations: those of the plan.
      unwritten: those of them whose values are only computed as a part of others.
    """

    def __init__(self, operations: Sequence[hr.Operation], unwritten: set[hr.Operation]) -> None:
        self._planned = set(operations)
        self._unwritten = unwritten
        self._found: dict[hr.Tensor, tuple[hr.Tensor, ...]] = {}
        self._readers: dict[hr.Tensor, set[hr.Operation]] = {}
        for op in operations:
            for tensor in op.inputs:
                for stored in self._stored(tensor):
                    self._readers.setdefault(stored, set()).add(op)

    def read_by(self, members: Collection[hr.Operation]) -> list[hr.Tensor]:
        """What operations that run as a whole read, each value once."""
        read = dict.fromkeys(stored for op in members for tensor in op.inputs for stored in self._stored(tensor))
        return [tensor for tensor in read if tensor.op not in members]

    def written_by(self, op: hr.Operation, members: Collection[hr.Operation]) -> list[hr.Tensor]:
        """The outputs that others read, or that nobody does, which are results of the step."""
        if op in self._unwritten:
            return []
        readers = [(tensor, self._readers.get(tensor, set())) for tensor in op.outputs]
        return [tensor for tensor, found in readers if not found or not found <= set(members)]

    def _stored(self, tensor: hr.Tensor) -> tuple[hr.Tensor, ...]:
        """What lies in memory where an operation reads a tensor: itself, what it views, or what it is computed from."""
        found = self._found.get(tensor)
        if found is None:
            op = tensor.op
            if op in self._unwritten:
                found = tuple(dict.fromkeys(stored for given in op.inputs for stored in self._stored(given)))
            elif op not in self._planned and op.type in READ_THROUGH:
                found = self._stored(op.inputs[0])
            else:
                found = (tensor,)
            self._found[tensor] = found
        return found


def _sum(amounts: Iterable[int | None]) -> int | None:
    total = 0
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return total


def _known_sum(amounts: Iterable[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None


def _op_events(record: hr.StepRecord, plan: _Plan) -> Iterator[OpEvent]:
    for segment in record.segments:
        runs = zip(segment.groups, segment.op_records(record.step), strict=True)
        for _, together in itertools.groupby(runs, lambda run: run[1].names):
            # Pieces of one operation that follow each other are one run of it.
            pieces = list(together)
            group = [op for piece, _ in pieces for op in piece]
            first, last = pieces[0][1], pieces[-1][1]
            yield OpEvent(plan.number(group, first.type, segment), first.start_ns, last.end_ns, segment.thread_id)


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
