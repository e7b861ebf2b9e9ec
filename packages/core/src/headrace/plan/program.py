"""Program: a segment with a NumPy kernel for each operation and its memory planned; code is written from it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.errors import HeadraceError
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.interfaces import Functions, Resources
from headrace.kernels.context import context_of, group_inputs
from headrace.kernels.registry import Kernel, find_kernel
from headrace.plan.late_shapes import checked_late, shows_late
from headrace.plan.memory import Allocation, Step, last_uses, plan_memory
from headrace.types import DType

__all__ = ["Line", "Program", "flat_aliases", "is_handle"]


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


@dataclass(frozen=True)  # without slots: `allocation` is kept
class Program:
    """A segment with its kernels chosen; its memory is planned when somebody asks for `allocation`.

    Attributes:
      arguments: value numbers of the arguments, in order.
      results: value numbers of the results, in order.
      constants: values known when the plan is made.
      lines: the operations to run.
      tensors: the tensor of each value number.
      steps: the lines as memory planning sees them.
      last: see `memory.last_uses`.
      shared: result positions that must be copied, because their memory is not theirs alone.
      handles: result positions whose value is no array.
      is_nested: it is the body of a function, which only runs inside the step of another program.
    """

    arguments: tuple[int, ...]
    results: tuple[int, ...]
    constants: dict[int, Any]
    lines: tuple[Line, ...]
    tensors: tuple[Tensor, ...]
    steps: tuple[Step, ...]
    last: dict[int, int]
    shared: frozenset[int]
    handles: frozenset[int]
    is_nested: bool

    @classmethod
    def of(cls, segment: Graph, resources: Resources, functions: Functions) -> Program:
        """Choose kernels, and write down what planning memory needs.

        Args:
          segment: a bounded graph.
          resources: where its stateful operations find their state.
          functions: what its kernels call functions by.
        Raises:
          NotFoundError: an operation has no kernel.
        """
        numbers: dict[Tensor, int] = {}
        constants: dict[int, Any] = {}
        arguments: dict[int, int] = {}
        results: dict[int, int] = {}
        passed_on: set[int] = set()
        lines: list[Line] = []
        for op in segment.operations:
            for output in op.outputs:
                numbers[output] = len(numbers)
            if op.type == "_Arg":
                arguments[op.attrs["index"]] = numbers[op.outputs[0]]
            elif op.type == "_Retval":
                results[op.attrs["index"]] = numbers[op.inputs[0]]
                if "_may_alias" in op.attrs:
                    passed_on.add(op.attrs["index"])
            elif op.type == "Const":
                constants[numbers[op.outputs[0]]] = op.attrs["value"]
            elif op.type != "NoOp":
                _add_line(op, resources, functions, numbers, constants, lines)
        ordered = tuple(results[index] for index in range(len(results)))
        tensors = tuple(numbers)
        steps = tuple(_memory_step(line, tensors, frozenset(ordered)) for line in lines)
        last, roots = last_uses(steps, ordered)
        planned = {  # what `allocation` has places for
            number for step in steps for number, size in zip(step.outputs, step.sizes, strict=True) if size is not None
        }
        return cls(
            arguments=tuple(arguments[index] for index in range(len(arguments))),
            results=ordered,
            constants=constants,
            lines=tuple(lines),
            tensors=tensors,
            steps=steps,
            last=last,
            shared=_shared_results(ordered, roots, lines, passed_on, {*constants, *planned}),
            handles=frozenset(position for position, number in enumerate(ordered) if is_handle(tensors[number].dtype)),
            is_nested=bool(passed_on),
        )

    @functools.cached_property
    def allocation(self) -> Allocation:
        """Where the planned values live."""
        return plan_memory(self.steps, self.results)


def is_handle(dtype: DType) -> bool:
    """True for values that are objects, not arrays."""
    return dtype.kind in ("resource", "variant")


def _add_line(
    op: Operation,
    resources: Resources,
    functions: Functions,
    numbers: dict[Tensor, int],
    constants: dict[int, Any],
    lines: list[Line],
) -> None:
    inputs = tuple(numbers[tensor] for tensor in op.inputs)
    try:
        kernel = find_kernel(op.type, op.attrs)
        context = None if kernel.direct else context_of(op, resources, functions)
        function = kernel.function if kernel.direct else functools.partial(kernel.function, context)
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
        aliases=flat_aliases(line),
        in_place=tuple(same),
    )


def flat_aliases(line: Line) -> tuple[int, ...]:
    """Flat positions of the inputs that outputs may be views of; with list inputs, all of them to be safe."""
    if not line.kernel.aliases or len(line.op.op_def.inputs) == len(line.inputs):
        return line.kernel.aliases
    return tuple(range(len(line.inputs)))


def _shared_results(
    results: Sequence[int],
    roots: dict[int, frozenset[int]],
    lines: Sequence[Line],
    passed_on: Collection[int],
    kept: Collection[int],
) -> frozenset[int]:
    """Positions of results that are arguments, constants, views, or returned twice.

    Those that are only `passed_on` may be all that, but neither constants nor in the arena: what is `kept`.
    """
    made = {number for line in lines for number in line.outputs}
    seen: set[int] = set()
    shared: set[int] = set()
    for position, number in enumerate(results):
        alone = number in made and roots[number] == {number} and number not in seen
        if position in passed_on:
            alone = not any(root in kept for root in (number, *roots[number]))
        if not alone:
            shared.add(position)
        seen.add(number)
    return frozenset(shared)
