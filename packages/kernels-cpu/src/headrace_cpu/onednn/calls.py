"""Calls: what oneDNN does for an operation, as primitives, memory to work in and constants prepared beforehand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headrace import Operation
from headrace.types import Array, DType, bfloat16, float32
from headrace_cpu.llvm.host import host
from headrace_cpu.onednn import capi
from headrace_cpu.onednn.capi import Descriptor, OneDnn, Primitive, onednn
from headrace_cpu.onednn.views import View
from headrace_cpu.prepared import Prepared, copies

__all__ = ["CallWriter", "LibraryCall", "Request", "computed_as", "library_call", "makes_calls", "row_major"]


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """What oneDNN does for one operation.

    Attributes:
      primitives: in order. The pointers that their arguments name are those of the operation's inputs, then outputs,
        then scratch memory, then constants.
      scratch: bytes of each scratch memory.
      constants: arrays that the primitives read, as they lie in memory, or what they are made of.
      cleared: (pointer, bytes) of outputs that are zeros.
      packing: what brings the second factor where the call reads it, if the request says that it is packed.
      parts: primitives that threads run instead, each thread some of the parts; these are made for one thread.
      nanoseconds: an estimate of what all parts take on one thread.
    """

    primitives: tuple[Primitive, ...]
    scratch: tuple[int, ...] = ()
    constants: tuple[Array | Prepared, ...] = ()
    cleared: tuple[tuple[int, int], ...] = ()
    packing: Packing | None = None
    parts: tuple[tuple[Primitive, ...], ...] = ()
    nanoseconds: float = 0.0

    @property
    def points(self) -> int:
        """How many parts there are for threads."""
        return len(self.parts)


@dataclass(frozen=True, slots=True, eq=False)
class _Reordering:
    """Makes copies in another layout; equal to another one between equal layouts (see `prepared.Make`)."""

    library: OneDnn
    source: Descriptor
    target: Descriptor

    def __call__(self, value: Array) -> Array:
        return self.library.reordered(value, self.source, self.target)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Reordering):
            return NotImplemented
        return self.library.same(self.source, other.source) and self.library.same(self.target, other.target)

    __hash__ = None  # type: ignore[assignment]  # layouts have none


@dataclass(frozen=True, slots=True)
class Packing:
    """How a factor is brought into the layout that a product likes best.

    Attributes:
      call: copies the factor.
      size: bytes of the copy.
    """

    call: LibraryCall
    size: int


@dataclass(frozen=True, slots=True)
class Request:
    """An operation to compute.

    Attributes:
      op: the operation.
      dtypes: of its inputs, then of its outputs, as they lie in memory: a float32 may lie there as bfloat16.
      constants: for each input its value where that is known when the plan is made, else None.
      epilogue: what follows on the result, with the dtype of what it reads beside that: `bias` (one number for each of
        the last axis), `add` (as many as the result), `onto` (the memory of the result itself). The pointers of these
        come after those of the outputs.
      keeps: the second input stays what it is for many steps, but may change between them.
      packed: the second factor of a product lies in memory in the layout that the product likes best.
      onto: how many times what the memory of the result holds before is added to it, for an epilogue with that.
      has_relu: what is negative after that becomes 0, and NaN stays NaN.
      places: for each input, then the first output, how it lies in the memory that its pointer stands for, or None
        where it has that for itself. Only products and convolutions have such; empty where all have it for themselves.
    """

    op: Operation
    dtypes: tuple[DType, ...]
    constants: tuple[Array | None, ...]
    epilogue: tuple[tuple[str, DType], ...] = ()
    keeps: bool = False
    packed: bool = False
    onto: float = 0.0
    has_relu: bool = False
    places: tuple[View | None, ...] = ()

    @classmethod
    def of(cls, op: Operation, constants: Sequence[Array | None] = ()) -> Request:
        """An operation whose values lie in memory as its graph says."""
        tensors = (*op.inputs, *op.outputs)
        return cls(op, tuple(tensor.dtype for tensor in tensors), tuple(constants) or (None,) * len(op.inputs))

    def shape(self, position: int) -> tuple[int, ...]:
        """The shape of an input, or of an output after the inputs."""
        return (*self.op.inputs, *self.op.outputs)[position].shape.as_tuple()


Maker = Callable[["CallWriter"], bool]
"""Writes a call; gives False where oneDNN does not compute the operation, or not faster."""

_makers: dict[str, Maker] = {}


def makes_calls(*op_types: str) -> Callable[[Maker], Maker]:
    """Register the decorated function for operation types."""

    def decorate(maker: Maker) -> Maker:
        for op_type in op_types:
            _makers[op_type] = maker
        return maker

    return decorate


def library_call(request: Request) -> LibraryCall | None:
    """What oneDNN does for an operation, or None where it does not compute it."""
    maker, library = _makers.get(request.op.type), onednn()
    if maker is None or library is None or request.has_relu:  # its own makes 0 of NaN
        return None
    # beyond three inputs and one output there is only what may be left empty, such as statistics
    if any(0 in tensor.shape.as_tuple() for tensor in (*request.op.inputs[:3], *request.op.outputs[:1])):
        return None
    if bfloat16 in request.dtypes and not host().multiplies_bfloat16:
        return None
    writer = CallWriter(library, request)
    return writer.finished() if maker(writer) and writer.has_epilogue else None


def row_major(shape: Sequence[int]) -> list[int]:
    """Strides of an array without gaps."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return strides[::-1]


def computed_as(dtypes: Sequence[DType], result: DType) -> DType | None:
    """The dtype of the operands of a product if oneDNN has it: float32, or bfloat16 summed in float32; else None."""
    operand = dtypes[0]
    if any(dtype is not operand for dtype in dtypes) or operand not in (float32, bfloat16):
        return None
    return operand if result in (operand, float32) else None


@dataclass(slots=True)
class CallWriter:
    """A call being written. Mutable.

    Attributes:
      library: the library.
      request: what is to be computed.
      has_epilogue: whether the call does all that the request asks for after the result.
    """

    library: OneDnn
    request: Request
    _primitives: list[Primitive] = field(default_factory=list)
    _scratch: list[int] = field(default_factory=list)
    _constants: list[Array | Prepared] = field(default_factory=list)
    _cleared: list[tuple[int, int]] = field(default_factory=list)
    _packing: Packing | None = None
    has_epilogue: bool = False

    def __post_init__(self) -> None:
        self.has_epilogue = not self.request.epilogue

    @property
    def _given(self) -> int:
        """How many pointers there are before those to work in."""
        return len(self.request.dtypes) + len(self.request.epilogue)

    def epilogue(
        self, layout_of: Callable[[DType], Descriptor]
    ) -> tuple[int | None, int | None, list[tuple[int, int, Descriptor]]]:
        """What a primitive that writes a result goes on with.

        Args:
          layout_of: gives the layout of an array of a dtype that is added to the result.
        Returns:
          The pointer of a bias, the attributes of the primitive, and what it reads for them.
        """
        self.has_epilogue = True
        place, bias = len(self.request.dtypes), None
        steps: list[Descriptor | float] = []
        arguments = []
        for kind, dtype in self.request.epilogue:
            if kind == "bias":
                bias = place
            elif kind == "onto":
                steps.append(self.request.onto)
            else:
                result = layout_of(dtype)
                arguments.append((capi.POST_OPERATION * (len(steps) + 1) | capi.SECOND, place, result))
                steps.append(result)
            place += 1
        return bias, self.library.attributes(steps) if steps else None, arguments

    def plain(self, position: int) -> Descriptor:
        """The layout of an input or output without gaps."""
        shape = self.request.shape(position)
        return self.library.strided(shape, self.request.dtypes[position], row_major(shape))

    def scratch(self, size: int) -> int:
        """The pointer of fresh memory to work in."""
        self._scratch.append(size)
        return self._given + len(self._scratch) - 1

    def clear(self, position: int) -> None:
        """Let an output be zeros."""
        size = math.prod(self.request.shape(position)) * self.request.dtypes[position].size
        self._cleared.append((position, size))

    def run(self, description: int, *arguments: tuple[int, int, Descriptor]) -> None:
        """Add a primitive.

        Args:
          description: what it does.
          *arguments: argument number, pointer and layout.
        """
        self._primitives.append(self.library.working(description, arguments, self.scratch))

    def weighted_sum(self, parts: Sequence[tuple[int, float]], layout: Descriptor, target: int) -> bool:
        """Add the sum of arrays of one layout, each times a number; False if there is no such primitive.

        Args:
          parts: pointer and number of each.
          layout: of each, and of the sum.
          target: the pointer of the sum.
        """
        found = self.library.weighted_sum([weight for _, weight in parts], layout)
        if found is None:
            return False
        sources = [(capi.MULTIPLE_SRC + place, pointer, layout) for place, (pointer, _) in enumerate(parts)]
        self.run(found, *sources, (capi.DST, target, layout))
        return True

    def reordered(self, position: int, plain: Descriptor, chosen: Descriptor) -> int:
        """The pointer of an input in the layout that a primitive chose; a constant is reordered here and now.

        What is kept for many steps is reordered when it has changed, not in each step.
        """
        if self.library.same(plain, chosen):
            return position
        value = self.request.constants[position]
        if value is not None or (position == 1 and self.request.keeps):
            make = _Reordering(self.library, plain, chosen)
            self._constants.append(Prepared(position, make, chosen.size) if value is None else copies.of(value, make))
            return -len(self._constants)
        place = self.scratch(chosen.size)
        self._primitives.append(self.library.reorder(plain, chosen, position, place, self.scratch))
        return place

    def packs(self, plain: Descriptor, chosen: Descriptor) -> bool:
        """Let the second factor be read in a layout that somebody brings it to; False if that is the plain one."""
        if self.library.same(plain, chosen):
            return False
        scratch: list[int] = []

        def room(size: int) -> int:
            scratch.append(size)
            return 1 + len(scratch)

        copy = self.library.reorder(plain, chosen, 0, 1, room)
        self._packing = Packing(LibraryCall((copy,), tuple(scratch)), chosen.size)
        return True

    def converted(
        self, place: int, source: Descriptor, target: Descriptor, goal: int, zero_point: capi.Argument | None = None
    ) -> None:
        """Copy to another dtype; `zero_point` is taken off each number."""
        self._primitives.append(self.library.reorder(source, target, place, goal, self.scratch, zero_point))

    def given_back(self, position: int, plain: Descriptor, chosen: Descriptor, run: Callable[[int], None]) -> None:
        """Let `run` write an output in the layout that a primitive chose, and bring that to the plain one."""
        if self.library.same(plain, chosen):
            run(position)
            return
        place = self.scratch(chosen.size)
        run(place)
        self._primitives.append(self.library.reorder(chosen, plain, place, position, self.scratch))

    def finished(self) -> LibraryCall:
        """The call; constants come after the scratch memory."""
        before = self._given + len(self._scratch)

        def placed(primitive: Primitive) -> Primitive:
            arguments = (
                (argument, before - 1 - pointer if pointer < 0 else pointer, layout)
                for argument, pointer, layout in primitive.arguments
            )
            return Primitive(primitive.handle, tuple(arguments))

        return LibraryCall(
            tuple(map(placed, self._primitives)),
            tuple(self._scratch),
            tuple(self._constants),
            tuple(self._cleared),
            self._packing,
        )
