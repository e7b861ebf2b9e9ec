"""Absorbing: calls that do the work of several operations, so that what lies between them is never written.

- A sum of matrix products to which each product is added as it is made: gradients of a weight that many steps of a
  network share.
- A product that reads bfloat16 where the graph widens it first, since libraries sum such products in float32 anyway.
- A product with what follows element by element on its result: a bias, another sum, rounding to bfloat16; relu where
  code of our own computes the product, since that of the library gives 0 for NaN, which must be seen.
- A product, larger than its factors, that is added to a part of what a variable holds, as the gradient of a weight to
  its momentum: the variable is where the product is added up, and the gradient lies nowhere.
- Products of few rows with one weight, such as those of the steps of a recurrent network: the weight is brought once
  into the layout that a product likes, instead of by each of them.

`HEADRACE_EPILOGUES=off` lets additions and relu be loops of their own, `HEADRACE_PACKING=off` lets each product bring
its weight where it wants it.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.plan import Line, Program
from headrace.types import DType, bfloat16, float32
from headrace_cpu.onednn import Request
from headrace_cpu.scheduling.accumulators import Accumulators
from headrace_cpu.scheduling.keeping import UNKNOWN, given_variables
from headrace_cpu.scheduling.requests import Requests
from headrace_cpu.scheduling.values import READING, byte_count, is_native

__all__ = ["Absorbed", "Call", "absorb"]

FEW_ROWS = 256
"""Rows of a product up to which copying its second factor takes a good part of its time."""
EPILOGUES = frozenset({"Conv2D", "Conv3D", "DepthwiseConv2dNative", "MatMul"})
"""Types whose results a library goes on with."""


@dataclass(frozen=True, slots=True)
class Call:
    """A library call that does not read and write just what the operation of one line does.

    Attributes:
      step: what the library does.
      line: the position of the line that says most about it.
      lines: the positions of all lines whose work it does, in order.
      inputs, extras, outputs: values; those that only an epilogue reads come after the outputs.
      request: what the library was asked for.
      packing: the number of the packing by which it reads its second input, or None. Calls of one number share it.
      variable: the handle of the variable that the output is written to, or None.
      partial: it writes only a part of its output; the other parts are other calls.
    """

    step: Any
    line: int
    lines: tuple[int, ...]
    inputs: tuple[int, ...]
    extras: tuple[int, ...]
    outputs: tuple[int, ...]
    request: Request
    packing: int | None = None
    variable: int | None = None
    partial: bool = False


@dataclass(slots=True)
class Absorbed:
    """What was found. Mutable while it is.

    Attributes:
      calls: by the position of the line at which a call runs, the last one whose work it does.
      lines: positions of the other lines whose work calls do, and of those that nothing needs any more.
    """

    calls: dict[int, Call] = field(default_factory=dict)
    lines: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Step:
    """One operation of an epilogue.

    Attributes:
      kind: what it is.
      line: the position of its line.
      other: what else it reads; the handle of a variable if the result is added to a part of what that holds.
      factor: how much of it.
      beside: positions of other lines whose work it does.
    """

    kind: str
    line: int
    other: int | None = None
    factor: float = 0.0
    beside: tuple[int, ...] = ()


def absorb(program: Program, library: Callable[[Request], Any], requests: Requests) -> Absorbed:
    """Find calls that do the work of several lines.

    Args:
      program: the lines.
      library: called with a request; gives what a library would do, or None.
      requests: makes the requests.
    """
    search = _Search(program, library, requests)
    search.find_sums()
    search.find_packings()
    search.find_products()
    return search.found


class _Search:
    """Mutable, used once."""

    def __init__(self, program: Program, library: Callable[[Request], Any], requests: Requests) -> None:
        self._program, self._lines, self._library, self._requests = program, program.lines, library, requests
        self._used = Counter(number for line in program.lines for number in line.inputs)
        self._used.update(program.results)
        self._makers = {number: place for place, line in enumerate(program.lines) for number in line.outputs}
        self._reader = {number: place for place, line in enumerate(program.lines) for number in line.inputs}
        self._widened: Mapping[int, int] = {
            line.outputs[0]: line.inputs[0] for line in program.lines if _casts(line, bfloat16, float32)
        }
        self._has_epilogues = os.environ.get("HEADRACE_EPILOGUES") != "off"
        self._accumulators = Accumulators(program, self._makers, self._used)
        self._packings: dict[int, int] = {}  # the position of a product -> the number of its packing
        self.found = Absorbed()

    def find_sums(self) -> None:
        """Sums of matrix products that nothing else uses, where the factors are smaller than the products."""
        tensors = self._program.tensors
        maker = {line.outputs[0]: place for place, line in enumerate(self._lines) if line.op.type == "MatMul"}
        for position, line in enumerate(self._lines):
            if line.op.type != "AddN" or len(line.inputs) < 2:
                continue
            if any(number not in maker or self._used[number] > 1 for number in line.inputs):
                continue
            products = [maker[number] for number in line.inputs]
            factors = tuple(number for product in products for number in self._lines[product].inputs)
            if not all(is_native(tensors[number]) for number in (*factors, *line.outputs)):
                continue
            bytes_of = [sum(byte_count(tensors[n]) for n in group) for group in (set(factors), line.inputs)]
            if bytes_of[0] < bytes_of[1]:
                self._take(position, factors, [], tuple(products))

    def find_packings(self) -> None:
        """Products of one form with the same second factor."""
        if os.environ.get("HEADRACE_PACKING") == "off":
            return
        same, constants = self._reads(), self._program.constants
        alike: dict[Any, list[int]] = {}
        for position, line in enumerate(self._lines):
            if line.op.type != "MatMul" or position in self.found.lines or line.inputs[1] in constants:
                continue
            shape, attrs = line.op.inputs[0].shape, line.op.attrs
            turned = attrs["transpose_a"], attrs["transpose_b"]
            if is_native(line.op.inputs[0]) and shape.as_tuple()[turned[0]] <= FEW_ROWS:
                factor = same.get(line.inputs[1], line.inputs[1])
                alike.setdefault((factor, shape.as_tuple(), turned), []).append(position)
        for number, positions in enumerate(alike.values()):
            if len(positions) > 1:
                self._packings.update(dict.fromkeys(positions, number))

    def _reads(self) -> dict[int, tuple[int, int]]:
        """For each value read from a variable what is the same for all reads with the same content."""
        found: dict[int, tuple[int, int]] = {}
        changes: Counter[int] = Counter()
        for line in self._lines:
            variables = given_variables(self._program, line)
            if line.op.type == "ReadVariableOp" and UNKNOWN not in variables:
                found[line.outputs[0]] = variables[0], changes[variables[0]] + changes[UNKNOWN]
            elif line.op.type not in READING:
                changes.update(variables)
        return found

    def find_products(self) -> None:
        """Products with casts before them and an epilogue after them."""
        tensors = self._program.tensors
        for position, line in enumerate(self._lines):
            if not line.outputs or position in self.found.lines or line.op.type == "AddN":
                continue
            if not all(is_native(tensors[number]) for number in (*line.inputs, *line.outputs)):
                continue
            epilogue = list(self._epilogue(position))
            narrows = any(number in self._widened for number in line.inputs)
            if epilogue or narrows or position in self._packings:
                self._take(position, line.inputs, epilogue)
        self.found.lines |= {
            place
            for place, line in enumerate(self._lines)
            if _casts(line, bfloat16, float32) and not self._used[line.outputs[0]]
        }

    def _take(
        self, position: int, inputs: tuple[int, ...], epilogue: Sequence[_Step], before: tuple[int, ...] = ()
    ) -> bool:
        """Let one call do a line with as much of its epilogue as the library has, from bfloat16 if it can."""
        line = self._lines[position]
        narrow = tuple(self._widened.get(number, number) for number in inputs)
        packing = self._packings.get(position)
        for length in range(len(epilogue), -1, -1):
            steps = epilogue[:length]
            for given, number in itertools.product(dict.fromkeys((narrow, inputs)), dict.fromkeys((packing, None))):
                if not steps and not before and given == line.inputs and number is None:
                    continue
                outputs = (*(self._lines[steps[-1].line].outputs if steps else line.outputs[:1]), *line.outputs[1:])
                extras = tuple(step.other for step in steps if step.other is not None)
                request = self._request(line, given, outputs, steps, packed=number is not None)
                step = self._library(request)
                if step is None:
                    continue
                last = steps[-1].line if steps else position
                done = {*before, position, *(place for step in steps for place in (step.line, *step.beside))}
                variable = steps[-1].other if steps and steps[-1].kind == "onto" else None
                call = Call(step, position, tuple(sorted(done)), given, extras, outputs, request, number, variable)
                self.found.calls[last] = call
                self.found.lines |= done - {last}
                self._count_off(given, inputs, steps)
                return True
        return False

    def _count_off(self, given: Sequence[int], inputs: Sequence[int], steps: Sequence[_Step]) -> None:
        """Forget the uses of widened values in whose place a call reads the narrow ones."""
        self._used.subtract(number for number, read in zip(inputs, given, strict=True) if number != read)
        for step in steps:
            if step.other is not None:
                others = self._lines[step.line].inputs
                self._used.subtract(number for number in others if self._widened.get(number) == step.other)

    def _request(
        self, line: Line, inputs: Sequence[int], outputs: Sequence[int], steps: Sequence[_Step], *, packed: bool
    ) -> Request:
        tensors = self._program.tensors
        return self._requests.of(
            line,
            inputs,
            outputs,
            epilogue=tuple(
                (step.kind, tensors[step.other].dtype)
                for step in steps
                if step.other is not None  # rounding and relu read nothing
            ),
            packed=packed,
            onto=steps[-1].factor if steps else 0.0,
            has_relu=bool(steps) and steps[-1].kind == "relu",
        )

    def _epilogue(self, position: int) -> Iterator[_Step]:
        """What follows on the result of a product as long as nothing else reads it."""
        line = self._lines[position]
        current, shape = line.outputs[0], line.op.outputs[0].shape
        goes_on = line.op.type in EPILOGUES and self._has_epilogues and line.op.outputs[0].dtype is float32
        last = line.op.attrs.get("data_format", "NHWC").endswith("C")
        kinds: set[str] = set()
        while self._used[current] == 1 and current in self._reader:
            place = self._reader[current]
            reader = self._lines[place]
            if place in self.found.lines or place in self.found.calls:
                return
            if goes_on and line.op.type == "MatMul" and current == line.outputs[0] and self._is_larger(line):
                found = self._accumulators.find(place, current)
                if found is not None:
                    yield _Step("onto", place, found.handle, found.factor, found.lines)
                    return
            if goes_on and reader.op.type == "Relu":
                yield _Step("relu", place)
                return
            step = self._step(place, reader, current) if goes_on and last else None
            if step is None and _casts(reader, float32, bfloat16):
                yield _Step("round", place)
                return
            if step is None or step.kind in kinds or reader.op.outputs[0].shape != shape:
                return
            kinds.add(step.kind)
            yield step
            current = reader.outputs[0]

    def _is_larger(self, line: Line) -> bool:
        """True if a product takes more memory than its factors, which are kept until variables are updated."""
        tensors = self._program.tensors
        return byte_count(tensors[line.outputs[0]]) > sum(byte_count(tensors[number]) for number in set(line.inputs))

    def _step(self, place: int, reader: Line, current: int) -> _Step | None:
        """The step of an epilogue that a line is."""
        if reader.op.type not in ("Add", "AddV2", "BiasAdd"):
            return None
        if reader.op.attrs.get("data_format", "NHWC") != "NHWC":
            return None
        other = next(number for number in reversed(reader.inputs) if number != current)
        tensor, result = self._program.tensors[other], reader.op.outputs[0].shape
        if not is_native(tensor) or tensor.dtype is not float32:
            return None
        if tensor.shape.as_tuple() == result.as_tuple()[-1:]:
            return _Step("bias", place, other)
        if tensor.shape != result or not self._lies_in_memory(other):
            return None
        return _Step("add", place, self._widened.get(other, other))

    def _lies_in_memory(self, number: int) -> bool:
        """False for what would be written only to be added here, such as a momentum times a number."""
        maker = self._makers.get(self._widened.get(number, number))
        if maker is None or self._used[number] > 1:
            return True
        made_by_call = any(number in call.outputs for call in self.found.calls.values())
        return made_by_call or self._lines[maker].op.type in EPILOGUES


def _casts(line: Line, source: DType, target: DType) -> bool:
    tensors = (*line.op.inputs, *line.op.outputs)
    return line.op.type == "Cast" and (tensors[0].dtype, tensors[1].dtype) == (source, target)
