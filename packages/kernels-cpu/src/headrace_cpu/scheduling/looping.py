"""Looping: lines as loops that may share a region with others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headrace.loops.fusion import Item, fits_alone
from headrace.loops.lowering import Output
from headrace.loops.registry import LoopContext, find_loops
from headrace.loops.value import Value, constant, reached
from headrace.plan import Line
from headrace.types import Array
from headrace_cpu.loops.scalars import prints
from headrace_cpu.scheduling.schedule import Key, Schedule
from headrace_cpu.scheduling.values import integers, stored

__all__ = ["LineLoops", "line_loops"]

UNIFORM = 1 << 16
"""Elements up to which a constant is looked at for being one number everywhere."""


@dataclass(frozen=True, slots=True)
class LineLoops:
    """What a line is as loops.

    Attributes:
      items: one after the other; where the line reduces, one.
      check: the key of integers that must be in `[0, bound)`, and the bound, or None.
    """

    items: tuple[Item, ...]
    check: tuple[Key, int] | None = None


def line_loops(schedule: Schedule, line: Line, after: frozenset[int]) -> LineLoops | None:
    """The loops that a line is, or None if no rule says so or native code has no form for them.

    Args:
      schedule: what is known of the values that it reads.
      line: its inputs and outputs have native memory.
      after: the items that run before it, though it reads nothing of theirs.
    """
    outputs = _outputs(schedule, line)
    values = reached(*(output.value for output in outputs))
    if not outputs or not all(map(_has_form, values)):
        return None
    read = _reads(values)
    keys = (*read, *(output.key for output in outputs))
    mutable = {key for key in keys if isinstance(key, tuple)}
    check = None
    if line.op.type == "SparseSoftmaxCrossEntropyWithLogits":
        logits, labels = line.inputs
        if _uniform(schedule.constant(labels)) is not None:
            return None
        check = schedule.root(labels), schedule.program.tensors[logits].shape.as_tuple()[-1]
        mutable.add(check[0])  # labels lie in memory before, not only in the registers of the region
    reduces = any(value.op == "reduce" for value in values)
    groups = [outputs] if reduces else _by_shape(outputs)
    items = tuple(
        Item(
            name=line.op.name,
            outputs=tuple(group),
            reads=read if len(groups) == 1 else _reads(reached(*(output.value for output in group))),
            writes=tuple(dict.fromkeys(output.key for output in group)),
            mutable=frozenset(mutable),
            after=after,
            partial=group[0].piece is not None,
        )
        for group in groups
    )
    return LineLoops(items, check) if not reduces or fits_alone(items[0]) else None


def _outputs(schedule: Schedule, line: Line) -> list[Output]:
    """What the rule of a line writes where; nothing if there is no rule, or it writes something else than the line."""
    context = LoopContext(line.op, list(map(schedule.constant, line.inputs)))
    inputs = [_input(schedule, number) for number in line.inputs]
    results = inputs[:1] if line.op.type == "ReadVariableOp" else find_loops(context, inputs)
    storages = [storage for storage in map(schedule.storage, line.inputs) if storage is not None]
    handles = [schedule.storage_key(storage) for storage in storages]
    keys: Sequence[Key] = line.outputs or handles
    if results is None or len(keys) != len(results) or len(set(handles)) < len(handles):
        return []
    if not all(_fills(schedule, key, value) for key, value in zip(keys, results, strict=True)):
        return []
    return [part for key, value in zip(keys, results, strict=True) for part in _parts(key, value)]


def _input(schedule: Schedule, number: int) -> Value:
    """An input as a value; a constant that is one number everywhere is that number."""
    storage = schedule.storage(number)
    if storage is not None:
        return Value("input", storage.dtype, storage.shape.as_tuple(), (), schedule.storage_key(storage))
    tensor = schedule.program.tensors[number]
    shape, dtype = tensor.shape.as_tuple(), stored(tensor.dtype)
    uniform = _uniform(schedule.constant(number))
    if uniform is not None:
        scalar = constant(uniform, dtype)
        return Value("view", dtype, shape, (scalar,), ()) if shape else scalar
    return Value("input", dtype, shape, (), schedule.root(number))


def _fills(schedule: Schedule, key: Key, value: Value) -> bool:
    """True if a value is all that a memory holds, and not empty."""
    wanted = schedule.storages[key[1]] if isinstance(key, tuple) else schedule.program.tensors[key]
    return value.shape == wanted.shape.as_tuple() and value.dtype is stored(wanted.dtype) and 0 not in value.shape


def _parts(key: Key, value: Value) -> list[Output]:
    """What to write for one output of a rule: itself, or its pieces after what stands between them."""
    if value.op != "assemble":
        return [Output(key, value)]
    places, filling = value.payload
    pieces = [Output(key, part, place) for part, place in zip(value.args, places, strict=True)]
    if filling is None:
        return pieces
    blank = Value("view", value.dtype, value.shape, (constant(filling, value.dtype),), ())
    return [Output(key, blank), *pieces]


def _by_shape(outputs: Sequence[Output]) -> list[list[Output]]:
    """Pieces of one shape together, so that they may share a region; what is not a piece alone and first."""
    groups: dict[tuple[Any, ...], list[Output]] = {}
    for output in outputs:
        groups.setdefault((output.piece is None, output.value.shape), []).append(output)
    return list(groups.values())


def _reads(values: Sequence[Value]) -> tuple[Key, ...]:
    return tuple(dict.fromkeys([value.payload for value in values if value.op == "input"]))


def _uniform(value: Array | None) -> int | float | bool | None:
    """The number that all elements of a constant are, or None."""
    if value is None or not 0 < value.size <= UNIFORM or value.dtype == object:
        return None
    value = integers(value)
    first = value.reshape(-1)[:1]
    if value.dtype.kind == "c" or value.tobytes() != first.tobytes() * value.size:
        return None
    number = first[0]
    return float(number) if value.dtype.kind in "fV" else bool(number) if value.dtype.kind == "b" else int(number)


def _has_form(value: Value) -> bool:
    """True if regions that native code prints have a form for a value."""
    if value.op in ("input", "view", "index", "position", "const"):
        return True
    if value.op == "reduce":
        return value.payload[0] in ("sum", "prod", "max", "min", "any", "all")
    operand = value.args[-1] if value.op == "select" else value.args[0]
    return prints(value.op, operand.dtype)
