"""Lists: which tensor lists of a program live in native memory, and what each operation on them does there.

A list value is immutable; natively its versions share a store, and what pushes or sets changes that in place. This is
right as long as nobody looks at an older version afterwards, which is decided here: a version that is changed must be
the newest, all that read it must come before, and a list of which one with fewer elements was taken (a pop) never
changes again. Gradient loops, `scan`, `map_fn` and recurrent networks are like that. Where a list is not, or where an
operation has no native form, all that touches the list runs by its kernels.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from headrace import Tensor
from headrace.plan import Line, Program
from headrace.types import DType, variant

__all__ = ["CHANGING", "RECORD", "Element", "ListOp", "ListUse", "find_lists", "separated"]

RECORD = 16
"""Bytes of a list value in memory: where its store is, and how many elements it has."""
CREATING = frozenset({"EmptyTensorList", "TensorListFromTensor", "TensorListReserve", "ZerosLike"})
CHANGING = frozenset({"TensorListPushBack", "TensorListSetItem"})
READING = frozenset({"TensorListGetItem", "TensorListLength", "TensorListPopBack", "TensorListStack"})

Element = tuple[DType, tuple[int, ...]]
"""dtype and shape of the elements of a list."""


@dataclass(frozen=True, slots=True)
class ListOp:
    """One operation on lists.

    Attributes:
      type: its type.
      size: bytes of an element.
      count: how many elements it makes or expects, where that is known.
      reads: the positions of the inputs that it looks at.
      scratch: none.
    """

    type: str
    size: int
    count: int
    reads: tuple[int, ...]
    scratch: tuple[int, ...] = ()

    @property
    def grows(self) -> bool:
        """It may need more memory for a store."""
        return self.type in ("TensorListPushBack", "TensorListFromTensor", "TensorListReserve", "ZerosLike")


@dataclass(slots=True)
class ListUse:
    """The native lists of a program.

    Attributes:
      calls: for each line that works on them a ListOp, or the native form of a loop.
      views: lines that only pass one on.
      roots: for each list value the one whose record it shares.
      origins: for each record the list that it was taken from in the end: where that was made, or an argument.
      changed: the records that are changed in place.
      elements: what their elements are, as far as it shows, by record.
    """

    calls: dict[int, Any] = field(default_factory=dict)
    views: set[int] = field(default_factory=set)
    roots: dict[int, int] = field(default_factory=dict)
    origins: dict[int, int] = field(default_factory=dict)
    changed: set[int] = field(default_factory=set)
    elements: dict[int, Element] = field(default_factory=dict)


class _Refused(Exception):
    """Some lists have to be left to the kernels: those that were made where `origins` says."""

    def __init__(self, origins: Collection[int]) -> None:
        super().__init__()
        self.origins = origins


def separated(program: Program) -> Program:
    """The program with a list that has no elements yet made once for each use, so that each use may change its own.

    A graph pass has merged them, which is right where lists never change.
    """
    used: Counter[int] = Counter(program.results)
    tensors = list(program.tensors)
    lines: list[Line] = []
    making: dict[int, int] = {}  # list -> position of its line
    for line in program.lines:
        inputs = list(line.inputs)
        for place, number in enumerate(inputs):
            used[number] += 1
            if number in making and used[number] > 1:
                source = lines[making[number]]
                inputs[place] = len(tensors)
                lines.append(replace(source, outputs=(len(tensors),)))
                tensors.append(program.tensors[number])
        if line.op.type in ("EmptyTensorList", "TensorListReserve"):
            making[line.outputs[0]] = len(lines)
        lines.append(line if inputs == list(line.inputs) else replace(line, inputs=tuple(inputs)))
    return replace(program, lines=tuple(lines), tensors=tuple(tensors))


NestedLists = Callable[[Line, frozenset[int]], Any]
"""Called with a loop and the positions of its native lists; gives its native form, or None."""


def find_lists(program: Program, given: Collection[int], nested: NestedLists) -> ListUse | None:
    """Find the lists that can be native.

    Args:
      program: the segment.
      given: arguments that are native lists.
      nested: finds the native form of loops.
    Returns:
      What is native, or None if one of the lists that are given cannot be.
    """
    excluded: set[int] = set()
    found: dict[tuple[int, frozenset[int]], Any] = {}

    def once(line: Line, places: frozenset[int]) -> Any:
        key = line.outputs[0], places
        if key not in found:
            found[key] = nested(line, places)
        return found[key]

    while True:
        finder = _Finder(program, given, once, excluded)
        try:
            finder.find()
        except _Refused as refused:
            excluded |= set(refused.origins)
            if excluded & set(given):
                return None
            continue
        return finder.use


@dataclass(slots=True)
class _Finder:
    program: Program
    given: Collection[int]
    nested: NestedLists
    excluded: set[int]
    use: ListUse = field(default_factory=ListUse)
    current: dict[int, set[int]] = field(default_factory=dict)  # record -> the values that it is now
    frozen: set[int] = field(default_factory=set)

    def find(self) -> None:
        for number in self.given:
            self._define(number, number)
        for position, line in enumerate(self.program.lines):
            lists = [number for number in line.inputs if number in self.use.roots]
            if any(number not in self.current[self.use.roots[number]] for number in lists):
                self._refuse(lists)  # an older version of a list that has changed
            if line.op.type in CREATING and self.program.tensors[line.outputs[0]].dtype is variant:
                self._create(position, line)
            elif lists:
                self._use(position, line, lists)
            if lists and position not in self.use.calls and position not in self.use.views:
                self._refuse(lists)  # what runs by its kernel needs what it reads in the form that kernels know
        self._check_results()

    def _refuse(self, lists: Collection[int]) -> None:
        raise _Refused({self.use.origins[self.use.roots[number]] for number in lists})

    def _define(self, number: int, origin: int) -> None:
        self.use.roots[number] = number
        self.use.origins[number] = origin
        self.current[number] = {number}

    def _create(self, position: int, line: Line) -> None:
        output = line.outputs[0]
        if output in self.excluded:
            return
        op, count = line.op, 0
        reads: tuple[int, ...] = ()
        element: Element | None = None
        if op.type == "ZerosLike":
            source = line.inputs[0]
            if source not in self.use.roots:
                return
            if self.use.roots[source] not in self.use.elements:
                self._refuse([source])
            element, reads = self.use.elements[self.use.roots[source]], (0,)
        elif op.type == "TensorListFromTensor":
            tensor = op.inputs[0]
            if not _is_array(tensor) or not tensor.shape.rank:
                return
            count, *rest = tensor.shape.as_tuple()
            element, reads = (tensor.dtype, tuple(rest)), (0,)
        else:
            shape = self.program.constants.get(line.inputs[0])
            number = self.program.constants.get(line.inputs[1])
            dtype = op.attrs["element_dtype"]
            if shape is None or number is None or not _has_numbers(dtype):
                return
            sizes = [int(size) for size in np.asarray(shape).reshape(-1)] if np.ndim(shape) else [-1]
            if min(sizes, default=0) >= 0:
                element = (dtype, tuple(sizes))
            count = int(np.asarray(number).reshape(-1)[0])
            if (op.type == "EmptyTensorList" and count >= 0) or (op.type == "TensorListReserve" and element is None):
                return
            if op.type == "TensorListReserve" and count < 0:
                return
        self._define(output, output)
        if element is not None:
            self._unify(output, element)
        self.use.calls[position] = ListOp(op.type, _bytes(element), max(count, 0), reads)

    def _unify(self, root: int, element: Element) -> None:
        if self.use.elements.setdefault(root, element) != element:
            self._refuse([root])

    def _use(self, position: int, line: Line, lists: Sequence[int]) -> None:
        op, use = line.op, self.use
        if op.op_def.function_attrs:
            self._loop(position, line, lists)
            return
        number, root = lists[0], use.roots[lists[0]]
        if len(lists) > 1 or line.inputs[0] != number:
            self._refuse(lists)
        if op.type == "Identity":
            use.roots[line.outputs[0]] = root
            self.current[root].add(line.outputs[0])
            use.views.add(position)
        elif op.type in CHANGING:
            item = op.inputs[-1]
            if not _is_array(item) or root in self.frozen or op.attrs.get("resize_if_index_out_of_bounds"):
                self._refuse(lists)
            self._unify(root, _element(item))
            self._change(root, line.outputs[0])
            use.calls[position] = ListOp(op.type, _bytes(_element(item)), 0, tuple(range(len(op.inputs))))
        elif op.type in READING and all(map(_is_array, op.outputs[-1:])):
            self._read(position, line, root)
        else:
            self._refuse(lists)

    def _change(self, root: int, output: int) -> None:
        self.use.roots[output] = root
        self.current[root] = {output}
        self.use.changed.add(root)

    def _shorten(self, root: int, output: int) -> None:
        """The output is another record of the same store: neither may change from now on."""
        self._define(output, self.use.origins[root])
        self.frozen |= {root, output}
        if root in self.use.elements:
            self.use.elements[output] = self.use.elements[root]

    def _read(self, position: int, line: Line, root: int) -> None:
        op, count = line.op, 0
        reads: tuple[int, ...] = (0,)
        result = op.outputs[-1]
        element: Element | None = _element(result)
        if op.type == "TensorListLength":
            element = None
        elif op.type == "TensorListStack":
            if not result.shape.rank:
                self._refuse([line.inputs[0]])
            count, *rest = result.shape.as_tuple()
            element = (result.dtype, tuple(rest))
        elif op.type == "TensorListGetItem":
            reads = (0, 1)
        if element is not None:
            self._unify(root, element)
        if op.type == "TensorListPopBack":
            self._shorten(root, line.outputs[0])
        self.use.calls[position] = ListOp(op.type, _bytes(element), count, reads)

    def _loop(self, position: int, line: Line, lists: Sequence[int]) -> None:
        places = {place: number for place, number in enumerate(line.inputs) if number in self.use.roots}
        found = self.nested(line, frozenset(places))
        if found is None:
            self._refuse(lists)
        for place, number in places.items():
            root, output = self.use.roots[number], line.outputs[place]
            if place in found.elements:
                self._unify(root, found.elements[place])
            if place in found.changed:
                shared = [other for other in places.values() if self.use.roots[other] == root]
                if root in self.frozen or len(shared) > 1:
                    self._refuse(lists)
                self._change(root, output)
            elif place in found.kept:
                self.use.roots[output] = root
                self.current[root].add(output)
            else:
                self._shorten(root, output)
        self.use.calls[position] = found

    def _check_results(self) -> None:
        """A list may be a result only where it came in, so that the one who gave it knows what it has become."""
        use, arguments = self.use, self.program.arguments
        for place, number in enumerate(self.program.results):
            root = use.roots.get(number)
            if root is None:
                continue
            own = place < len(arguments) and arguments[place] in self.given and use.origins[root] == arguments[place]
            if not own or number not in self.current[root]:
                self._refuse([number])


def _has_numbers(dtype: DType) -> bool:
    return dtype.kind in ("float", "int", "uint", "bool")


def _is_array(tensor: Tensor) -> bool:
    return _has_numbers(tensor.dtype) and tensor.shape.is_fully_defined


def _element(tensor: Tensor) -> Element:
    return tensor.dtype, tensor.shape.as_tuple()


def _bytes(element: Element | None) -> int:
    return 0 if element is None else math.prod(element[1]) * element[0].size
