"""Program: a segment with a NumPy kernel for each operation and its memory planned; code is written from it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.errors import FeedError, HeadraceError
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.interfaces import Resources
from headrace.kernels.context import context_of, group_inputs
from headrace.kernels.registry import Kernel, find_kernel
from headrace.plan.late_shapes import checked_late, shows_late
from headrace.plan.memory import Allocation, Step, last_uses, plan_memory

__all__ = ["Line", "Program"]


@dataclass(frozen=True, slots=True)
class Line:
    """One operation of a program.

    Attributes:
      op: the operation.
      function: the bound kernel.
      kernel: its registration.
      inputs: value numbers, flat.
      outputs: value numbers.
    """

    op: Operation
    function: Callable[..., Any]
    kernel: Kernel
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """A segment with its kernels chosen and its memory planned.

    Attributes:
      arguments: value numbers of the arguments, in order.
      results: value numbers of the results, in order.
      constants: values known when the plan is made.
      lines: the operations to run.
      tensors: the tensor of each value number.
      allocation: where the planned values live.
      last: see `memory.last_uses`.
      shared: result positions that must be copied, because their memory is not theirs alone.
    """

    arguments: tuple[int, ...]
    results: tuple[int, ...]
    constants: dict[int, Any]
    lines: tuple[Line, ...]
    tensors: tuple[Tensor, ...]
    allocation: Allocation
    last: dict[int, int]
    shared: frozenset[int]

    @classmethod
    def of(cls, segment: Graph, resources: Resources) -> Program:
        """Choose kernels and plan memory.

        Args:
          segment: a bounded graph.
          resources: where its stateful operations find their state.
        Raises:
          NotFoundError: an operation has no kernel.
          FeedError: a result is no value, such as a handle.
        """
        numbers: dict[Tensor, int] = {}
        constants: dict[int, Any] = {}
        arguments: dict[int, int] = {}
        results: dict[int, int] = {}
        lines: list[Line] = []
        for op in segment.operations:
            for output in op.outputs:
                numbers[output] = len(numbers)
            if op.type == "_Arg":
                arguments[op.attrs["index"]] = numbers[op.outputs[0]]
            elif op.type == "_Retval":
                _check_has_value(op.inputs[0])
                results[op.attrs["index"]] = numbers[op.inputs[0]]
            elif op.type == "Const":
                constants[numbers[op.outputs[0]]] = op.attrs["value"]
            elif op.type != "NoOp":
                _add_line(op, resources, numbers, constants, lines)
        ordered = tuple(results[index] for index in range(len(results)))
        tensors = tuple(numbers)
        steps = [_memory_step(line, tensors, frozenset(ordered)) for line in lines]
        last, roots = last_uses(steps, ordered)
        return cls(
            arguments=tuple(arguments[index] for index in range(len(arguments))),
            results=ordered,
            constants=constants,
            lines=tuple(lines),
            tensors=tensors,
            allocation=plan_memory(steps, ordered),
            last=last,
            shared=_shared_results(ordered, roots, lines),
        )


def _check_has_value(tensor: Tensor) -> None:
    if tensor.dtype.kind in ("resource", "variant"):
        raise FeedError(
            f"'{tensor.name}' cannot be fetched",
            where=tensor.op.location,
            expected="a tensor of numbers or strings",
            got=str(tensor.spec),
            hint="fetch what is read from the handle",
        )


def _add_line(
    op: Operation, resources: Resources, numbers: dict[Tensor, int], constants: dict[int, Any], lines: list[Line]
) -> None:
    inputs = tuple(numbers[tensor] for tensor in op.inputs)
    try:
        kernel = find_kernel(op.type, op.attrs)
        function = kernel.function if kernel.direct else functools.partial(kernel.function, context_of(op, resources))
        if kernel.binds_once and all(number in constants for number in inputs):
            constants[numbers[op.outputs[0]]] = function(*group_inputs(op, [constants[number] for number in inputs]))
            return
    except HeadraceError as error:
        error.at(op.location)
        raise
    if shows_late(op):
        function = checked_late(op, function)
    lines.append(Line(op, function, kernel, inputs, tuple(numbers[tensor] for tensor in op.outputs)))


def _memory_step(line: Line, tensors: Sequence[Tensor], results: frozenset[int]) -> Step:
    """Outputs whose size is known go to the arena if the kernel can write there.

    Results never do: the caller owns them.
    """
    outputs = [tensors[number] for number in line.outputs]
    sizes = [output.shape.num_elements for output in outputs]
    planned = line.kernel.takes_out and not any(
        number in results or size is None or not output.dtype.size
        for number, size, output in zip(line.outputs, sizes, outputs, strict=True)
    )
    same = [
        position
        for position, number in enumerate(line.inputs)
        if line.kernel.in_place and planned and tensors[number].spec == outputs[0].spec
    ]
    return Step(
        inputs=line.inputs,
        outputs=line.outputs,
        sizes=tuple(
            (size or 0) * output.dtype.size if planned else None for size, output in zip(sizes, outputs, strict=True)
        ),
        aliases=_flat_aliases(line),
        in_place=tuple(same),
    )


def _flat_aliases(line: Line) -> tuple[int, ...]:
    """Flat positions of the inputs that outputs may be views of; with list inputs, all of them to be safe."""
    if not line.kernel.aliases or len(line.op.op_def.inputs) == len(line.inputs):
        return line.kernel.aliases
    return tuple(range(len(line.inputs)))


def _shared_results(results: Sequence[int], roots: dict[int, frozenset[int]], lines: Sequence[Line]) -> frozenset[int]:
    """Positions of results that are arguments, constants, views, or returned twice."""
    made = {number for line in lines for number in line.outputs}
    seen: set[int] = set()
    shared: set[int] = set()
    for position, number in enumerate(results):
        if number not in made or roots[number] != {number} or number in seen:
            shared.add(position)
        seen.add(number)
    return frozenset(shared)
