"""Nesting: which loops and branches run inside one native call, and what their functions are when laid out.

One does if all that its functions compute is native and the shapes of what goes round never change: no operation that
waits, has effects, touches state or has only a NumPy kernel. All others run by their kernels, which call one plan for
each iteration, with the same results. `HEADRACE_NATIVE_LOOPS=off` lets all do so.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace import Tensor
from headrace.errors import HeadraceError
from headrace.interfaces import Functions, Resources
from headrace.plan import Line, Program
from headrace.types import DType
from headrace_cpu.layout import Layout, lay_out
from headrace_cpu.scheduling.lists import RECORD, Element, ListUse, find_lists, separated
from headrace_cpu.scheduling.schedule import Key
from headrace_cpu.scheduling.scheduler import schedule
from headrace_cpu.scheduling.values import is_native

__all__ = ["LINE", "NativeBranch", "NativeLoop", "Nesting"]

LINE = 64
"""Bytes that begin a memory, and to which everything in it is aligned."""


@dataclass(frozen=True, slots=True)
class NativeLoop:
    """A `While` in native code.

    Attributes:
      condition: gives the condition of the first iteration.
      body: one iteration: the new variables, then the condition of the next one.
      condition_dtype: its dtype.
      kept: the variables that stay where they are: those that no iteration changes, and lists that are `changed`.
      changed: the lists that iterations change in place.
      elements: what is known of the elements of lists, by the number of their variable.
      sizes: bytes of each variable.
      offsets: where each begins in a half of the loop's memory.
      half: bytes of a half.
      outputs: memory of each output of the operation, used or not; None where it is that of the input.
    """

    condition: Layout
    body: Layout
    condition_dtype: DType
    kept: frozenset[int]
    changed: frozenset[int]
    elements: Mapping[int, Element]
    sizes: tuple[int, ...]
    offsets: tuple[int, ...]
    half: int
    outputs: tuple[Key, ...]

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """The blocks inside."""
        return self.condition, self.body

    @property
    def saved(self) -> int:
        """Bytes for the lists as they were when it began."""
        return -(-RECORD * len(self.changed) // LINE) * LINE

    def saved_at(self, number: int) -> int:
        """Where in its memory a list is that iterations change, as it was when it began."""
        return 2 * LINE + 2 * self.half + RECORD * sorted(self.changed).index(number)

    @property
    def scratch(self) -> tuple[int, ...]:
        """Bytes of its memory: state, condition, halves, saved lists, and the block inside with its state."""
        return (2 * LINE + 2 * self.half + self.saved + LINE + _largest(self.layouts),)


@dataclass(frozen=True, slots=True)
class NativeBranch:
    """An `If` or `Case` in native code.

    Attributes:
      layouts: the branches; of an `If` the one for a true predicate first.
      chooser: dtype of the input that chooses.
      is_case: it is the number of a branch, where each number that there is not means the last one.
      outputs: memory of each output.
    """

    layouts: tuple[Layout, ...]
    chooser: DType
    is_case: bool
    outputs: tuple[Key, ...]

    @property
    def scratch(self) -> tuple[int, ...]:
        """Bytes of its memory: state, and the block inside with its state."""
        return (2 * LINE + _largest(self.layouts),)


def _largest(layouts: Sequence[Layout]) -> int:
    return max(layout.allocation.size for layout in layouts)


class Nesting:
    """Finds the native form of operations that call functions.

    Args:
      functions: their bodies.
      resources: where these would find their state.
      library: see `schedule`.
    """

    def __init__(self, functions: Functions, resources: Resources, library: Callable[..., Any]) -> None:
        self._functions = functions
        self._resources = resources
        self._library = library
        self._is_on = os.environ.get("HEADRACE_NATIVE_LOOPS") != "off"

    def find(self, line: Line, lists: Collection[int] = ()) -> NativeLoop | NativeBranch | None:
        """What a line does natively, or None where it calls no functions or not all of it is native.

        Args:
          line: the line.
          lists: the positions of inputs that are native lists.
        """
        maker = _MAKERS.get(line.op.type)
        known = (place in lists or is_native(tensor) for place, tensor in enumerate(line.op.inputs))
        if maker is None or not self._is_on or not all(known):
            return None
        try:
            return maker(self, line, lists)
        except HeadraceError:  # a function does not compile, which matters only if it is called
            return None

    def lists(self, program: Program, given: Collection[int] = ()) -> ListUse | None:
        """The lists of a program that can be native (see `find_lists`)."""
        return find_lists(program, given, self.find) if self._is_on else ListUse()

    def _loop(self, line: Line, lists: Collection[int]) -> NativeLoop | None:
        op = line.op
        if any(one.shape != other.shape for one, other in zip(op.inputs, op.outputs, strict=True)):
            return None
        condition, body = op.attrs["cond"].name, op.attrs["body"].name
        once = self._laid_out(condition, op.inputs, None, lists)
        if once is None or any(hasattr(unit.call, "layouts") or hasattr(unit.call, "grows") for unit in once.units):
            return None
        (asked,) = _result_tensors(once)
        if asked.shape.rank != 0:
            return None
        again = self._laid_out(body, op.inputs, condition, lists)
        if again is None or not _same(_result_tensors(again)[:-1], op.inputs, lists):
            return None
        program = again.schedule.program
        kept = frozenset(
            number
            for number, result in enumerate(program.results[:-1])
            if again.schedule.root(result) == program.arguments[number]
        )
        use, arguments = again.schedule.lists, program.arguments
        changed = frozenset(number for number in lists if arguments[number] in use.changed)
        if not changed <= kept:  # a list that grows and shrinks again: two records of one store would go round
            return None
        elements = {number: use.elements[arguments[number]] for number in lists if arguments[number] in use.elements}
        sizes = tuple(
            RECORD if number in lists else (tensor.shape.num_elements or 0) * tensor.dtype.size
            for number, tensor in enumerate(op.inputs)
        )
        offsets, half = [], 0
        for number, size in enumerate(sizes):
            offsets.append(half)
            half += 0 if number in kept else -(-size // LINE) * LINE
        outputs = tuple(None if number in kept and number in lists else key for number, key in enumerate(line.outputs))
        return NativeLoop(once, again, asked.dtype, kept, changed, elements, sizes, tuple(offsets), half, outputs)

    def _branch(self, line: Line, lists: Collection[int]) -> NativeBranch | None:
        op = line.op
        is_case = "branches" in op.attrs
        names = op.attrs["branches"] if is_case else (op.attrs["then_branch"], op.attrs["else_branch"])
        chooser, *inputs = op.inputs
        if chooser.shape.rank != 0 or lists:
            return None
        layouts = [self._laid_out(name.name, inputs, None, ()) for name in names]
        found = [layout for layout in layouts if layout is not None and _same(_result_tensors(layout), op.outputs, ())]
        if len(found) < len(layouts):
            return None
        return NativeBranch(tuple(found), chooser.dtype, is_case, line.outputs)

    def _laid_out(
        self, function: str, inputs: Sequence[Tensor], then: str | None, lists: Collection[int]
    ) -> Layout | None:
        """A function for inputs of these shapes, some of which are native lists, if all of it is native."""
        segment, functions = self._functions.segment(function, [tensor.shape for tensor in inputs], then)
        program = separated(Program.of(segment, self._resources, functions))
        nesting = Nesting(functions, self._resources, self._library)
        use = nesting.lists(program, [program.arguments[number] for number in lists])
        if use is None or any(program.results[place] not in use.roots for place in program.handles):
            return None
        made = schedule(program, self._library, nesting.find, use)
        if made.storages or any(kind != "compute" for kind, _ in made.order):
            return None
        return lay_out(made)


_MAKERS: dict[str, Callable[[Nesting, Line, Collection[int]], NativeLoop | NativeBranch | None]] = {
    "While": Nesting._loop,
    "StatelessWhile": Nesting._loop,
    "If": Nesting._branch,
    "StatelessIf": Nesting._branch,
    "Case": Nesting._branch,
    "StatelessCase": Nesting._branch,
}


def _result_tensors(layout: Layout) -> list[Tensor]:
    program = layout.schedule.program
    return [program.tensors[number] for number in program.results]


def _same(found: Sequence[Tensor], wanted: Sequence[Tensor], lists: Collection[int]) -> bool:
    """True if all are arrays of the dtypes and shapes that are wanted, or lists."""
    return all(
        place in lists or (is_native(one) and one.dtype is other.dtype and one.shape == other.shape)
        for place, (one, other) in enumerate(zip(found, wanted, strict=True))
    )
