"""Random programs with branches and loops, as data: what they compute, and the same as graphs in both forms.

Integers modulo a prime, so that results are exact however long the program runs.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from headrace.graph.apply import apply_op
from headrace.graph.operation import Tensor
from headrace.ops.branching import cond
from headrace.ops.looping import while_loop

__all__ = ["MODULUS", "Arithmetic", "Block", "Branch", "Loop", "build", "compute", "random_program"]

MODULUS = 10007


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """A new value out of two earlier ones of the block: their sum or product."""

    name: str
    is_sum: bool
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class Branch:
    """One of two blocks, chosen by whether one value is less than another; both see the captured values."""

    name: str
    left: int
    right: int
    captured: tuple[int, ...]
    blocks: tuple[Block, Block]


@dataclass(frozen=True, slots=True)
class Loop:
    """A block run several times, on its own result and on a value that stays the same."""

    name: str
    trips: int
    parallel_iterations: int
    start: int
    invariant: int
    block: Block


@dataclass(frozen=True, slots=True)
class Block:
    """Statements that each add one value; the last one is the block's."""

    statements: tuple[Arithmetic | Branch | Loop, ...]


def random_program(choose: random.Random, *, depth: int = 2) -> Block:
    """A random program on two values.

    Args:
      choose: makes the choices.
      depth: how deep branches and loops are nested.
    """
    return _block(choose, itertools.count(), 2, depth)


def _block(choose: random.Random, numbers: Iterator[int], count: int, depth: int) -> Block:
    statements: list[Arithmetic | Branch | Loop] = []
    for position in range(choose.randint(2, 4)):
        name = f"s{next(numbers)}"
        kind = choose.choice(["arithmetic", "branch", "loop"]) if depth and position else "arithmetic"
        left, right = choose.randrange(count), choose.randrange(count)
        if kind == "arithmetic":
            statements.append(Arithmetic(name, choose.random() < 0.5, left, right))
        elif kind == "branch":
            captured = tuple(choose.randrange(count) for _ in range(choose.randint(1, 2)))
            sides = [_block(choose, numbers, len(captured), depth - 1) for _ in range(2)]
            statements.append(Branch(name, left, right, captured, (sides[0], sides[1])))
        else:
            trips, parallel = choose.randint(0, 3), choose.choice([1, 2, 10])
            statements.append(Loop(name, trips, parallel, left, right, _block(choose, numbers, 2, depth - 1)))
        count += 1
    return Block(tuple(statements))


def compute(block: Block, values: Sequence[int], ran: Counter[str] | None = None) -> int:
    """What a program means.

    Args:
      block: the program.
      values: its inputs.
      ran: counts, by name, how often each arithmetic statement runs.
    """
    known = list(values)
    for item in block.statements:
        if isinstance(item, Arithmetic):
            if ran is not None:
                ran[item.name] += 1
            x, y = known[item.left], known[item.right]
            known.append((x + y if item.is_sum else x * y) % MODULUS)
        elif isinstance(item, Branch):
            side = item.blocks[known[item.left] < known[item.right]]
            known.append(compute(side, [known[index] for index in item.captured], ran))
        else:
            value = known[item.start]
            for _ in range(item.trips):
                value = compute(item.block, [value, known[item.invariant]], ran)
            known.append(value)
    return known[-1]


Wrap = Callable[[Tensor], Tensor]


def _as_it_is(tensor: Tensor) -> Tensor:
    return tensor


def build(block: Block, tensors: Sequence[Tensor], *, structured: bool, wrap: Wrap = _as_it_is) -> Tensor:
    """A program as a part of the graph that is being built.

    Args:
      block: the program.
      tensors: int32 scalars, its inputs.
      structured: with `If` and `While`, or else with the primitives.
      wrap: is given the result of each arithmetic statement and returns a tensor of the same value.
    """
    known = list(tensors)
    for item in block.statements:
        if isinstance(item, Arithmetic):
            x, y = known[item.left], known[item.right]
            value = apply_op("AddV2" if item.is_sum else "Mul", x, y, name=item.name)
            known.append(wrap(apply_op("FloorMod", value, MODULUS)))
        elif isinstance(item, Branch):
            known.append((_structured_branch if structured else _branch)(item, known, wrap))
        else:
            known.append((_structured_loop if structured else _loop)(item, known, wrap))
    return known[-1]


def _structured_branch(item: Branch, known: Sequence[Tensor], wrap: Wrap) -> Tensor:
    captured = [known[index] for index in item.captured]
    off, on = item.blocks
    result: Tensor = cond(
        apply_op("Less", known[item.left], known[item.right]),
        lambda: build(on, captured, structured=True, wrap=wrap),
        lambda: build(off, captured, structured=True, wrap=wrap),
        name=item.name,
    )
    return result


def _branch(item: Branch, known: Sequence[Tensor], wrap: Wrap) -> Tensor:
    predicate = apply_op("Less", known[item.left], known[item.right])
    switches = [apply_op("Switch", known[index], predicate) for index in item.captured]
    sides = [
        build(side, [pair[way] for pair in switches], structured=False, wrap=wrap)
        for way, side in enumerate(item.blocks)
    ]
    merged: Tensor = apply_op("Merge", sides)[0]
    return merged


def _structured_loop(item: Loop, known: Sequence[Tensor], wrap: Wrap) -> Tensor:
    fixed = known[item.invariant]
    result: Tensor = while_loop(
        lambda i, value: apply_op("Less", i, item.trips),
        lambda i, value: [apply_op("AddV2", i, 1), build(item.block, [value, fixed], structured=True, wrap=wrap)],
        [0, known[item.start]],
        parallel_iterations=item.parallel_iterations,
        name=item.name,
    )[1]
    return result


def _loop(item: Loop, known: Sequence[Tensor], wrap: Wrap) -> Tensor:
    """The counter starts from a value that is dead where the loop is."""
    frame, parallel = item.name, item.parallel_iterations
    start = known[item.start]
    heads = [
        apply_op("Merge", [apply_op("Enter", x, frame_name=frame, parallel_iterations=parallel)])[0]
        for x in (apply_op("FloorMod", start, 1), start)
    ]
    fixed = apply_op("Enter", known[item.invariant], is_constant=True, frame_name=frame, parallel_iterations=parallel)
    more = apply_op("LoopCond", apply_op("Less", heads[0], item.trips))
    exits, bodies = zip(*(apply_op("Switch", head, more) for head in heads), strict=True)
    still = apply_op("Switch", fixed, more)[1]  # what reads the invariant alone would run once more, at the end
    following = [apply_op("AddV2", bodies[0], 1), build(item.block, [bodies[1], still], structured=False, wrap=wrap)]
    for head, tensor in zip(heads, following, strict=True):
        head.op.graph.close_loop(head.op, apply_op("NextIteration", tensor))
    result: Tensor = apply_op("Exit", exits[1])
    return result
