"""Explanation: what the compiler made of a step, to be read or to be taken apart by a program. Nothing runs for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headrace.interfaces import Compiled
from headrace.plan.limit import needed_memory
from headrace.plan.needs import PlannedMemory, Work, combined
from headrace.plan.plan import Plan

__all__ = ["Explanation", "SegmentExplanation", "explain_plan"]


@dataclass(frozen=True, slots=True)
class SegmentExplanation:
    """What runs as a whole, in one thread.

    Attributes:
      name: its first operation, and how many more there are.
      operations: how many operations it has.
      work: what the backend runs for them, in order; empty where it does not say.
      memory: what it needs, or None where the backend does not say.
    """

    name: str
    operations: int
    work: tuple[Work, ...]
    memory: PlannedMemory | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the compiler made of a step; `print` shows it.

    Attributes:
      backend: the name of the backend, or of several.
      segments: what runs as a whole: one segment, unless operations wait for each other or devices share the step.
      memory: what the step needs, as far as shapes tell, beside variables, feeds and constants.
    """

    backend: str
    segments: tuple[SegmentExplanation, ...]
    memory: PlannedMemory

    @property
    def work(self) -> tuple[Work, ...]:
        """What all segments run."""
        return tuple(work for segment in self.segments for work in segment.work)

    @property
    def flops(self) -> int:
        """Floating-point operations of a step, as far as shapes tell."""
        return sum(work.flops for work in self.work)

    @property
    def bytes(self) -> int:
        """Bytes that a step reads and writes at least, as far as shapes tell."""
        return sum(work.bytes for work in self.work)

    def as_dict(self) -> dict[str, Any]:
        """All of it as numbers, texts, lists and dictionaries, ready for `json.dumps`."""
        whole = dataclasses.asdict(self)
        whole["memory"]["peak_bytes"] = self.memory.peak_bytes
        for said, segment in zip(whole["segments"], self.segments, strict=True):
            if segment.memory is not None:
                said["memory"]["peak_bytes"] = segment.memory.peak_bytes
        return {**whole, "flops": self.flops, "bytes": self.bytes}

    def __str__(self) -> str:
        memory = self.memory
        count = sum(segment.operations for segment in self.segments)
        several = f"{len(self.segments)} segments" if len(self.segments) != 1 else "one segment"
        lines = [
            f"backend {self.backend}: {several} of {count} operations",
            f"work:    {_amount(self.flops, 'flop')}, {_amount(self.bytes, 'B')} read and written",
            f"memory:  {_amount(memory.peak_bytes, 'B')} at most: an arena of {_amount(memory.arena_bytes, 'B')}"
            f" ({_amount(memory.floor_bytes, 'B')} alive at once), {_amount(memory.outside_bytes, 'B')} beside it"
            + (f", {_amount(memory.copies_bytes, 'B')} of weights in other layouts" if memory.copies_bytes else ""),
            *(f"         {value}" for value in memory.largest),
            *(f"         or more: {reason}" for reason in memory.unknown),
        ]
        for segment in self.segments:
            lines += ["", segment.name, *_table(segment.work)]
        return "\n".join(lines)


def explain_plan(plan: Plan) -> Explanation:
    """What a plan will do in each step."""
    parts: Sequence[Compiled] = getattr(plan.compiled, "segments", (plan.compiled,))
    segments = tuple(_segment(part) for part in parts)
    return Explanation(plan.backend, segments, combined(segment.memory for segment in segments))


def _segment(compiled: Compiled) -> SegmentExplanation:
    operations = compiled.operations
    more = f" and {len(operations) - 1} more" if len(operations) > 1 else ""
    name = f"{operations[0].type} '{operations[0].name}'{more}" if operations else "nothing to compute"
    return SegmentExplanation(name, len(operations), tuple(getattr(compiled, "work", ())), needed_memory(compiled))


def _table(work: Sequence[Work]) -> list[str]:
    """A line for each work, in columns."""
    rows = [
        (item.kind, _amount(item.flops, "flop"), _amount(item.bytes, "B"), item.kernel, _names(item), item.reason)
        for item in work
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)] if rows else []
    return [
        f"  {row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]:<{widths[3]}}"
        f"  {row[4]:<{widths[4]}}  {row[5]}".rstrip()
        for row in rows
    ]


def _names(work: Work) -> str:
    """The types of the operations, each once, and the name of the last."""
    counts = {name: work.types.count(name) for name in dict.fromkeys(work.types)}
    types = [f"{name} x{count}" if count > 1 else name for name, count in counts.items()]
    more = f" and {len(types) - 4} more types" if len(types) > 4 else ""
    return f"{' + '.join(types[:4])}{more} '{work.operations[-1]}'"


def _amount(number: int, unit: str) -> str:
    """A number with three digits and a prefix."""
    value, prefixes = float(number), ("", "k", "M", "G", "T", "P")
    step = 0
    while value >= 999.5 and step < len(prefixes) - 1:
        value, step = value / 1000, step + 1
    return f"{value:.3g} {prefixes[step]}{unit}"
