"""The canonical form of a graph: equal texts for graphs that are the same operation by operation.

Names say nothing, nor does the order in which operations were made. Functions appear as what they are to their
operation: a branch or body reads what is around it directly, whatever argument brought it in, and gives only what is
asked of it. So two graphs have the same form exactly if their operations, attributes, static shapes, edges and nesting
are the same, but for what changes no value:

- an `Identity` or `IdentityN` that waits for nothing;
- a `Case`, which is the chain of `If` that it stands for;
- whether an operation waits for one without state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np

from headrace.graph.attr import AttrValue
from headrace.graph.frames import is_anywhere
from headrace.graph.functions import Body
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor, origin
from headrace.ops.looping import RECOMPUTE, SWAP_TO_HOST

__all__ = ["canonical_form"]

_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_CASES = frozenset({"Case", "StatelessCase"})
_LABELS = ("then", "else")
_PASS_ON = frozenset({"Identity", "IdentityN"})
_FUNCTIONS = frozenset({"cond", "body"})
_SIGNATURE = frozenset({"T", "output_shapes"})
"""The attributes that say what a loop takes and gives, which the form shows itself."""

_OPTIONS = frozenset({RECOMPUTE, SWAP_TO_HOST})
"""The annotations that say something; the others are notes."""


def canonical_form(graph: Graph) -> str:
    """The canonical form of a bounded graph without tokens, one line for each operation.

    Args:
      graph: the graph of a step, or one made by a pass.
    """
    ends = [op for op in graph.operations if op.type == "_Retval"]
    effects = [op for op in graph.operations if op.has_effect or "_target" in op.attrs]
    writer = _Writer()
    outside = _Place()
    for op in sorted(ends, key=lambda op: int(op.attrs["index"])):
        outside.lines.append(f"result {writer.name_of(op.inputs[0], outside)}")
    for op in effects:
        if op.type != "_Retval":
            writer.operation(op, outside)
    return "\n".join(_text(outside))


@dataclass(eq=False)
class _Place:
    """The outside, or one function of one operation. Mutable while it is written down.

    Attributes:
      known: what gives the name of an argument, or of an operation's outputs.
      lines: what is written down already, texts and the places inside.
      written: the names of the operations here.
    """

    known: dict[Tensor, Callable[[], str]] = field(default_factory=dict)
    lines: list[str | tuple[str, _Place]] = field(default_factory=list)
    written: dict[Operation, str] = field(default_factory=dict)


def _text(place: _Place) -> Iterable[str]:
    for line in place.lines:
        if isinstance(line, str):
            yield line
        else:
            yield line[0]
            yield from (f"  {text}" for text in _text(line[1]))


Asked = Callable[[int], str]
"""Gives the name of an output by its number."""

_Way = Callable[[_Place], Asked]
"""Writes a branch down in its place, but for the outputs, which are written when they are asked for."""


class _Writer:
    """Names operations in the order in which they are come upon. Mutable, used once."""

    def __init__(self) -> None:
        self._count = 0

    def name_of(self, tensor: Tensor, place: _Place) -> str:
        """What stands for a tensor; what gives it is written down first."""
        while tensor.op.type in _PASS_ON and not self._waits(tensor.op):
            tensor = tensor.op.inputs[tensor.index]
        if tensor in place.known:
            return place.known[tensor]()
        if tensor.op.type == "Const":
            return _constant(tensor)
        name = self.operation(tensor.op, place)
        return place.known[tensor]() if tensor in place.known else f"{name}:{tensor.index}"

    def operation(self, op: Operation, place: _Place) -> str:
        """The name of an operation, which is written down at the first time."""
        if op not in place.written:
            place.written[op] = name = f"%{self._next()}"
            kind = op.type
            if kind in ("While", "StatelessWhile"):
                self._loop(op, name, place)
            elif op.op_def.function_attrs:
                self._functions(op, name, place)
            else:
                inputs = [self.name_of(tensor, place) for tensor in op.inputs]
                specs = ", ".join(str(tensor.spec) for tensor in op.outputs)
                line = f"{name} = {kind}{_attrs(op, ())}({', '.join(inputs)}){self._controls(op, place)} -> {specs}"
                place.lines.append(line)
        return place.written[op]

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _waits(self, op: Operation) -> list[Operation]:
        """What an operation waits for that has state, or comes after such."""
        return [item for item in op.control_inputs if _has_state(item)]

    def _controls(self, op: Operation, place: _Place) -> str:
        found: set[str] = set()
        for item in self._waits(op):
            while item.type in ("Identity", "IdentityN", "NoOp") and not is_anywhere(item):
                sources = [*(tensor.op for tensor in item.inputs), *self._waits(item)]
                if len(sources) != 1:
                    break
                item = sources[0]
            found.add(self.operation(item, place))
        return "".join(f" ^{name}" for name in sorted(found))

    def _outer(self, tensor: Tensor, place: _Place) -> Callable[[], str]:
        return lambda: self.name_of(tensor, place)

    def _effects(self, body: Body, place: _Place) -> None:
        for op in body.operations:
            if op.has_effect and op.type != "_Retval":
                self.operation(op, place)

    def _function(self, op: Operation, body: Body, place: _Place, first: int) -> _Way:
        """A function as a way of a choice: what it reads of the place around its operation comes from there."""

        def write(here: _Place) -> Asked:
            for number, argument in body.arguments.items():
                here.known[argument] = self._outer(op.inputs[first + number], place)
            self._effects(body, here)
            return lambda number: self.name_of(body.results[number], here)

        return write

    def _written(self, head: str, labels: Sequence[str], ways: Sequence[_Way], place: _Place) -> Asked:
        """Write an operation and its functions down; gives what writes down an output when it is first asked for."""
        inner = [_Place() for _ in ways]
        place.lines += [head, *zip(labels, inner, strict=True)]
        given = [way(here) for way, here in zip(ways, inner, strict=True)]
        name = head.split()[0]
        names: dict[int, str] = {}

        def ask(number: int) -> str:
            if number not in names:
                names[number] = f"{name}:{len(names)}"
                for here, give in zip(inner, given, strict=True):
                    here.lines.append(f"{names[number]} is {give(number)}")
            return names[number]

        return ask

    def _functions(self, op: Operation, name: str, place: _Place) -> None:
        """A call, or a choice between functions."""
        controls = self._controls(op, place)
        if op.type in _CALLS:
            way = self._function(op, op.bodies[0], place, 0)
            ask = self._written(f"{name} = Call(){controls}", ["function"], [way], place)
        else:
            ways = [self._function(op, body, place, 1) for body in op.bodies]
            if op.type in _CASES and len(ways) > 1:
                ask = self._chain(op, name, ways, place, place)
            else:
                predicate = self.name_of(op.inputs[0], place)
                ask = self._written(f"{name} = If({predicate}){controls}", _LABELS[: len(ways)], ways, place)
        for number, output in enumerate(op.outputs):
            place.known[output] = partial(ask, number)

    def _chain(self, op: Operation, name: str, ways: Sequence[_Way], around: _Place, place: _Place) -> Asked:
        """The first one of the last branches of a `Case` if its number is asked for, else one of those after it."""
        first, selector = len(op.bodies) - len(ways), op.inputs[0]
        equal = f"%{self._next()}"
        shown = f"Equal{{T={selector.dtype!r}, incompatible_shape_error=True}}"
        line = f"{equal} = {shown}({self.name_of(selector, around)}, {selector.dtype}[]={first}) -> bool[]"
        place.lines.append(line)

        def rest(here: _Place) -> Asked:
            """Written down when the first of its outputs is asked for, or at once if it has an effect."""

            @cache
            def write() -> Asked:
                return self._chain(op, f"%{self._next()}", ways[1:], around, here)

            if any(body.effects.has_effect for body in op.bodies[first + 1 :]):
                write()
            return lambda number: write()(number)

        controls = "" if first else self._controls(op, around)
        branches = [ways[0], ways[1] if len(ways) == 2 else rest]
        return self._written(f"{name} = If({equal}:0){controls}", _LABELS, branches, place)

    def _loop(self, op: Operation, name: str, place: _Place) -> None:
        condition, body = op.bodies
        test, inside = _Place(), _Place()
        same = [origin(result) is body.arguments[j].op for j, result in enumerate(body.results)]
        variables: dict[int, str] = {}

        def ask(number: int) -> str:
            if number not in variables:
                variables[number] = f"{name}:{len(variables)}"
                line = f"{variables[number]} {body.arguments[number].spec} starts as "
                inside.lines.append(line + self.name_of(op.inputs[number], place))
                inside.lines.append(f"{variables[number]} becomes {self.name_of(body.results[number], inside)}")
            return variables[number]

        for j, tensor in enumerate(op.inputs):
            given = self._outer(tensor, place) if same[j] else partial(ask, j)
            place.known[op.outputs[j]] = given
            for function, where in ((condition, test), (body, inside)):
                if j in function.arguments:
                    where.known[function.arguments[j]] = given
        attrs = _attrs(op, _FUNCTIONS | _SIGNATURE | ({"parallel_iterations"} if op.is_stateful else set()))
        place.lines += [f"{name} = While{attrs}{self._controls(op, place)}", ("condition", test), ("body", inside)]
        test.lines.append(f"goes on if {self.name_of(condition.results[0], test)}")
        self._effects(condition, test)
        self._effects(body, inside)


def _has_state(op: Operation) -> bool:
    """True if an operation has state, or comes after one that has: it matters whether something waits for it."""
    stack, seen = [op], set[Operation]()
    while stack:
        item = stack.pop()
        if item in seen:
            continue
        seen.add(item)
        if item.is_stateful and not is_anywhere(item) and item.type not in ("_Arg", "Placeholder"):
            return True
        stack += [*(tensor.op for tensor in item.inputs), *item.control_inputs]
    return False


def _attrs(op: Operation, left_out: Iterable[str]) -> str:
    shown = {
        key: _shown(value)
        for key, value in op.attrs.items()
        if key not in left_out and (not key.startswith("_") or key in _OPTIONS)
    }
    return f"{{{', '.join(f'{key}={shown[key]}' for key in sorted(shown))}}}"


def _shown(value: AttrValue) -> str:
    return repr(value.tolist()) if isinstance(value, np.ndarray) else repr(value)


def _constant(tensor: Tensor) -> str:
    value = tensor.op.attrs["value"]
    return f"{tensor.dtype}{list(value.shape)}={value.tolist()!r}"
