"""What a compiled segment needs: its memory at the fullest moment, its arithmetic and its traffic, before it has run.

Backends say it of what they compile (see `interfaces.Compiled`); limits are held against it and `explain` prints it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from headrace.graph.operation import Operation, Tensor
from headrace.passes.cost import arithmetic
from headrace.plan.memory import MemoryUse, Step, memory_use
from headrace.plan.program import Line, Program, is_handle
from headrace.plan.views import packed_inputs

__all__ = [
    "LARGEST_SHOWN",
    "LargeValue",
    "PlannedMemory",
    "Work",
    "combined",
    "memory_of",
    "outside_bytes",
    "planned",
    "size_bounds",
    "unknown_needs",
    "work_of",
    "workspace_of",
]

LARGEST_SHOWN = 8
"""How many of the largest values are named."""


@dataclass(frozen=True, slots=True)
class LargeValue:
    """A value that is alive when a segment needs most memory.

    Attributes:
      name: of the tensor, or what it is.
      bytes: of its memory.
      spec: its dtype and shape, where it is a tensor.
      where: the operation that makes it and the line that created that one.
    """

    name: str
    bytes: int
    spec: str = ""
    where: str = ""

    @classmethod
    def of(cls, tensor: Tensor, size: int) -> LargeValue:
        """The value of a tensor."""
        return cls(tensor.name, size, str(tensor.spec), tensor.op.location)

    def __str__(self) -> str:
        return " ".join(part for part in (f"'{self.name}'", self.spec, f"({self.bytes:,} bytes)") if part)


@dataclass(frozen=True, slots=True)
class PlannedMemory:
    """What one step of a segment needs, beside variables, feeds and constants; copies of these count.

    Attributes:
      arena_bytes: of the arena, which is kept from step to step.
      outside_bytes: the most that is alive outside of it at one moment: results, and what kernels allocate themselves.
      floor_bytes: of the values in the arena that are alive at once: what the best arena would take.
      largest: values of the fullest moment, the largest first.
      unknown: why it may need more: values whose size only shows in the step, functions that are compiled when called.
      copies_bytes: of weights in another layout, which are kept from step to step; segments may share them.
    """

    arena_bytes: int
    outside_bytes: int
    floor_bytes: int
    largest: tuple[LargeValue, ...]
    unknown: tuple[str, ...] = ()
    copies_bytes: int = 0

    @property
    def peak_bytes(self) -> int:
        """The most bytes that are alive at one moment."""
        return self.arena_bytes + self.outside_bytes + self.copies_bytes


def planned(
    use: MemoryUse, floor: int, name: Callable[[int, int], LargeValue], unknown: Sequence[str]
) -> PlannedMemory:
    """What `memory.memory_use` found, in the words of the user's graph.

    Args:
      use: the values that are alive, by number.
      floor: see `PlannedMemory`.
      name: gives the name of a value of so many bytes.
      unknown: see `PlannedMemory`.
    """
    largest = tuple(name(*item) for item in use.alive[:LARGEST_SHOWN])
    return PlannedMemory(use.arena, use.outside, floor, largest, tuple(dict.fromkeys(unknown)))


def memory_of(program: Program) -> PlannedMemory:
    """What a program needs when each of its lines is run by its NumPy kernel."""
    steps: list[Step] = []
    outside: dict[int, int] = {}
    bounds = size_bounds(program)
    names: dict[int, LargeValue] = {}
    unknown: list[str] = []
    for line, step, packed in zip(program.lines, program.steps, packed_inputs(program), strict=True):
        unknown += unknown_needs(line)
        extra = workspace_of(line, bounds, [position for position in packed if position not in line.kernel.aliases])
        if any(position in line.kernel.aliases for position in packed):  # what it gives is a copy then, and no view
            step = replace(step, aliases=())
            outside |= {number: bounds[number] for number in line.outputs}
        if extra.bytes:
            number = len(program.tensors) + len(steps)
            names[number], outside[number] = extra, extra.bytes
            step = replace(step, outputs=(*step.outputs, number), sizes=(*step.sizes, None))
        steps.append(step)
        outside.update(outside_bytes(line, program, bounds))
    copies = [program.results[position] for position in sorted(program.shared - program.handles)]
    numbers = tuple(range(len(program.tensors) + len(steps), len(program.tensors) + len(steps) + len(copies)))
    for number, source in zip(numbers, copies, strict=True):
        outside[number] = bounds[source]
        names[number] = LargeValue.of(program.tensors[source], outside[number])
    steps.append(Step(tuple(copies), numbers, (None,) * len(numbers)))
    use = memory_use(steps, (*program.results, *numbers), program.allocation, outside)
    return planned(
        use,
        program.allocation.floor,
        lambda number, size: names.get(number) or LargeValue.of(program.tensors[number], size),
        unknown,
    )


def outside_bytes(line: Line, program: Program, bounds: Sequence[int]) -> dict[int, int]:
    """Bytes of the outputs of a line that are no views and have no place in the arena.

    Args:
      line: of the program.
      program: the program.
      bounds: what `size_bounds` gave for it.
    """
    if line.kernel.aliases:
        return {}
    return {number: bounds[number] for number in line.outputs if number not in program.allocation.offsets}


def size_bounds(program: Program) -> list[int]:
    """Bytes of each value of a program.

    A size that only shows in the step is taken to be the largest at its place among the inputs: what selects, joins
    equal elements or adds up segments gives no more rows than it gets.
    """
    known: dict[Tensor, tuple[int, ...]] = {}
    bounds: list[int] = []
    for tensor in program.tensors:
        given = [known[source] for source in tensor.op.inputs if source in known]
        dims = tensor.shape.dims
        if dims is None:
            sizes = max(given, key=math.prod, default=())
        else:
            sizes = tuple(
                max((other[place] for other in given if place < len(other)), default=1) if size is None else size
                for place, size in enumerate(dims)
            )
        known[tensor] = sizes
        bounds.append(0 if is_handle(tensor.dtype) else math.prod(sizes) * (tensor.dtype.size or 8))
    return bounds


def unknown_needs(line: Line) -> list[str]:
    """Why a line may need more memory than its shapes tell."""
    reasons = [
        f"the size of '{tensor.name}' only shows in the step"
        for tensor in line.op.outputs
        if not tensor.shape.is_fully_defined and not is_handle(tensor.dtype)
    ]
    if line.op.op_def.function_attrs:
        reasons.append(f"{line.op.type} '{line.op.name}' calls functions, which are compiled when they are called")
    return reasons


def workspace_of(line: Line, bounds: Sequence[int], packed: Sequence[int] = ()) -> LargeValue:
    """What the kernel of a line allocates while it runs, as far as it says and shapes tell.

    Args:
      line: of a program.
      bounds: what `size_bounds` gave for that.
      packed: positions of inputs that it copies because they have gaps.
    """
    known = all(tensor.shape.is_fully_defined for tensor in (*line.op.inputs, *line.op.outputs))
    size = line.kernel.workspace(line.op) if line.kernel.workspace is not None and known else 0
    size += sum(bounds[line.inputs[position]] for position in (*line.kernel.copies, *packed))
    return LargeValue(f"workspace of {line.op.name}", size, where=line.op.location)


def work_of(operations: Sequence[Operation], kernel: str, kind: str, reason: str, moved: int) -> Work:
    """What operations that run as one amount to.

    Args:
      operations: in order.
      kernel: see `Work`.
      kind: see `Work`.
      reason: see `Work`.
      moved: bytes that are read from memory and written to it.
    """
    return Work(
        operations=tuple(op.name for op in operations),
        types=tuple(op.type for op in operations),
        kernel=kernel,
        kind=kind,
        reason=reason,
        bytes=moved,
        flops=round(sum(arithmetic(op) for op in operations)),
    )


def combined(segments: Iterable[PlannedMemory | None]) -> PlannedMemory:
    """The memory of segments that are alive together, as those of one step are: each keeps its arena.

    A segment whose backend does not say what it needs counts nothing.
    """
    parts = [memory for memory in segments if memory is not None]
    largest = sorted((value for part in parts for value in part.largest), key=lambda value: -value.bytes)
    return PlannedMemory(
        arena_bytes=sum(part.arena_bytes for part in parts),
        outside_bytes=sum(part.outside_bytes for part in parts),
        floor_bytes=sum(part.floor_bytes for part in parts),
        largest=tuple(largest[:LARGEST_SHOWN]),
        unknown=tuple(dict.fromkeys(reason for part in parts for reason in part.unknown)),
        copies_bytes=sum(part.copies_bytes for part in parts),
    )


@dataclass(frozen=True, slots=True)
class Work:
    """What a backend runs as one: a kernel, a call of a library, or a loop nest that several operations became.

    Attributes:
      operations: the names of the operations, in order.
      types: their types.
      kernel: what computes them.
      kind: `"numpy"`, `"library"`, `"loops"` or another word of the backend's own.
      reason: why this and nothing else.
      bytes: that it reads and writes at least, as far as shapes tell.
      flops: floating-point operations, as far as shapes tell.
    """

    operations: tuple[str, ...]
    types: tuple[str, ...]
    kernel: str
    kind: str
    reason: str
    bytes: int
    flops: int
