"""Accumulators: variables to which a product can be added where they lie, such as the momentum of a weight. Pure.

An update by momentum (B. Polyak, Some methods of speeding up the convergence of iteration methods, 1964) reads v,
keeps so much of it, adds the gradient and assigns the sum to v. Where nothing else touches v, and the gradient is a
matrix product that is used for nothing else, the product can be added up in the memory of v: the gradient, which is as
large as the weight, lies nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headrace.plan import Program

__all__ = ["Accumulator", "Accumulators"]


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A variable that becomes so many times what it holds, plus something.

    Attributes:
      handle: the value that stands for it.
      factor: how much of what it holds stays.
      lines: the positions of the lines that multiply what it holds, and assign the sum.
    """

    handle: int
    factor: float
    lines: tuple[int, int]


class Accumulators:
    """Finds accumulators in the lines of a program.

    Args:
      program: the lines.
      makers: for each value the position of the line that makes it.
      used: how often each value is used.
    """

    def __init__(self, program: Program, makers: Mapping[int, int], used: Mapping[int, int]) -> None:
        self._program, self._lines = program, program.lines
        self._makers, self._used = makers, used
        self._touching: dict[int, list[int]] = {}
        for place, line in enumerate(program.lines):
            for number in line.inputs:
                if program.tensors[number].dtype.kind == "resource":
                    self._touching.setdefault(id(program.constants.get(number)), []).append(place)

    def find(self, place: int, product: int) -> Accumulator | None:
        """The accumulator whose new value a line makes of a product, or None.

        Args:
          place: the position of the line.
          product: the value of the product, which nothing else uses.
        """
        total = self._lines[place]
        if total.op.type not in ("Add", "AddV2") or total.outputs[0] in self._program.results:
            return None
        rest = next((number for number in total.inputs if number != product), product)
        kept = self._made_for_one(rest, "Mul")
        if kept is None:
            return None
        inputs = self._lines[kept].inputs
        for number, held in (inputs, inputs[::-1]):
            factor, read = self._number(number), self._made_for_one(held, "ReadVariableOp")
            if factor and read is not None:
                handle = self._lines[read].inputs[0]
                assigned = self._assigned(handle, place)
                if assigned is not None and self._is_free(handle, place, kept, read, assigned):
                    return Accumulator(handle, factor, (kept, assigned))
        return None

    def _made_for_one(self, number: int, op_type: str) -> int | None:
        """The position of the line that makes a value, if it is of that type and the value is used once."""
        place = self._makers.get(number)
        is_so = place is not None and self._lines[place].op.type == op_type and self._used[number] == 1
        return place if is_so else None

    def _number(self, number: int) -> float | None:
        value = self._program.constants.get(number)
        return float(value.reshape(())) if isinstance(value, np.ndarray) and value.ndim == 0 else None

    def _assigned(self, handle: int, place: int) -> int | None:
        """The line after `place` that assigns its result to a variable, if nothing but it and one read touch that."""
        if handle not in self._program.constants:
            return None
        touching = self._touching[id(self._program.constants[handle])]
        line = self._lines[touching[-1]]
        assigns = line.op.type == "AssignVariableOp" and line.inputs[1] == self._lines[place].outputs[0]
        return touching[-1] if assigns and len(touching) == 2 and touching[-1] > place else None

    def _is_free(self, handle: int, *places: int) -> bool:
        """True if lines wait for nothing but their inputs, and all they make has the variable's shape and dtype."""
        storage = self._program.constants[handle]
        ops = [self._lines[place].op for place in places]
        tensors = [tensor for op in ops for tensor in op.outputs]
        same = all(tensor.shape == storage.shape and tensor.dtype is storage.dtype for tensor in tensors)
        return same and not any(op.control_inputs for op in ops)
