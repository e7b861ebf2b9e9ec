"""Lowering: from the values that a group of operations computes to regions of the loop IR. Pure.

A group has one iteration space, a shape, and perhaps axes of it that reductions run over. Three forms:

- map: no reduction; every output has the shape of the space.
- rows: the last axis is reduced. The kept axes are outer; each reduction ends a phase, and what depends on it is
  computed in a later loop over the same row. Costly values of an earlier phase are kept in `row_buffers`.
- columns: the last axis is kept and is the one to vectorise; the reduced axes are looped over inside.

Each makes a `Nest`, of which `cutting` makes regions.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.loops.cutting import regions_of
from headrace.loops.forms import ZERO, Form, aligned, along, flat_access, moved, scaled
from headrace.loops.ir import Accumulate, Axis, Builder, Expr, Loop, Store
from headrace.loops.moments import join_moments
from headrace.loops.nest import Buffers, Nest, NestForm
from headrace.loops.numbering import LoweredRegion, Partial
from headrace.loops.row_buffers import with_row_buffers
from headrace.loops.value import Piece, Value
from headrace.types import int64

__all__ = ["LoweredRegion", "NotLowered", "Output", "Partial", "Trial", "lower", "misfit"]


class NotLowered(Exception):  # no error: a candidate group turned out not to be one region
    """These operations do not make one region."""


@dataclass(frozen=True, slots=True)
class Output:
    """What a group has to write.

    Attributes:
      key: of the memory.
      value: what to write.
      piece: where in the memory, if the value is only a part of it.
    """

    key: Hashable
    value: Value
    piece: Piece | None = None


@dataclass(slots=True)
class _Lowering:
    """The state of one lowering. Mutable."""

    space: tuple[int, ...]
    axes: tuple[int, ...]
    produced: Mapping[Hashable, Value]
    builder: Builder = field(default_factory=Builder)
    buffers: Buffers = field(default_factory=Buffers)
    locals: dict[tuple[object, ...], int] = field(default_factory=dict)
    reduced: list[tuple[str, Value, Expr]] = field(default_factory=list)
    exprs: dict[tuple[int, tuple[Form, ...]], Expr] = field(default_factory=dict)
    phases: dict[int, int] = field(default_factory=dict)

    def begin(self, produced: Mapping[Hashable, Value]) -> None:
        """Look at what the group computes in order, so that no walk from an output has to go deep."""
        for value in produced.values():
            self.phase(value)
            if value.shape == self.space and (not self.axes or len(self.space) - 1 in self.axes):
                self.expr(value, self.identity())

    def nest(self, form: NestForm, outer: Sequence[int], inner: Sequence[int], *loops: Loop) -> Nest:
        extents = dict(enumerate(self.space))
        return Nest(self.builder, self.buffers, form, extents, tuple(outer), tuple(inner), loops)

    def identity(self) -> tuple[Form, ...]:
        return tuple(along(axis, size) for axis, size in enumerate(self.space))

    def phase(self, value: Value) -> int:
        """How many reductions must be over before a value can be computed."""
        found = self.phases.get(id(value))
        if found is None:
            source = self.produced.get(value.payload) if value.op == "input" else None
            parts = value.args if source is None else (source,)
            found = max((self.phase(part) for part in parts), default=0) + (value.op == "reduce")
            self.phases[id(value)] = found
        return found

    def expr(self, value: Value, index: tuple[Form, ...]) -> Expr:
        key = (id(value), index)
        if key not in self.exprs:
            self.exprs[key] = self._expr(value, index)
        return self.exprs[key]

    def _expr(self, value: Value, index: tuple[Form, ...]) -> Expr:
        make = self.builder.make
        if value.op == "input":
            source = self.produced.get(value.payload)
            if source is not None and source.shape != value.shape:
                raise NotLowered("a value is read in another shape than it is made in")
            if source is not None:
                return self.expr(source, index)
            buffer = self.buffers.number(value.payload, value.dtype, math.prod(value.shape), "in")
            return make("load", value.dtype, (), (buffer, flat_access(value.shape, index)))
        if value.op == "const":
            return make("const", value.dtype, (), value.payload)
        if value.op == "index":
            return self._index(index[value.payload])
        if value.op == "position":
            return make("position", int64, (), moved(flat_access(value.shape, index), *value.payload))
        if value.op == "view":
            inner = tuple(
                ZERO if own is None else scaled(index[own], step, start) for own, step, start in value.payload
            )
            return self.expr(value.args[0], inner)
        if value.op == "reduce":
            return self._local(value, index)
        args = tuple(self.expr(arg, aligned(arg.shape, index)) for arg in value.args)
        return make(value.op, value.dtype, args)

    def _index(self, form: Form) -> Expr:
        make = self.builder.make
        total = make("const", int64, (), form[0])
        for axis, factor in form[1]:
            step = make("mul", int64, (make("index", int64, (), axis), make("const", int64, (), factor)))
            total = make("add", int64, (total, step))
        return total

    def _local(self, value: Value, index: tuple[Form, ...]) -> Expr:
        operation, axes = value.payload
        (argument,) = value.args
        if argument.shape != self.space or axes != self.axes:
            raise NotLowered("the reduction runs over another space")
        for axis, form in enumerate(index):
            if axis not in axes and form != self.identity()[axis]:
                raise NotLowered("a reduced value is read at another place than its own")
        inner = self.expr(argument, self.identity())
        key = (operation, id(inner))
        if key not in self.locals:
            self.locals[key] = len(self.reduced)
            self.reduced.append((operation, argument, inner))
        return self.builder.make("local", value.dtype, (), self.locals[key])


def lower(
    space: tuple[int, ...],
    axes: tuple[int, ...],
    produced: Mapping[Hashable, Value],
    outputs: Sequence[Output],
) -> list[LoweredRegion]:
    """Make the regions of one group.

    Args:
      space: the iteration space.
      axes: those that reductions run over.
      produced: what the group computes for keys that its own values take as inputs.
      outputs: what it has to write.
    Raises:
      NotLowered: the group does not fit one of the three forms.
    """
    state = _Lowering(space, axes, produced)
    nest = _nest(state, outputs, produced)
    if nest.form == "rows":
        count = math.prod(space[axis] for axis in nest.inner)
        loops = join_moments(nest.builder, nest.loops, nest.inner, count)
        nest = with_row_buffers(replace(nest, loops=tuple(loops)))
    return regions_of(nest.joined())


def misfit(
    space: tuple[int, ...], axes: tuple[int, ...], produced: Mapping[Hashable, Value], outputs: Sequence[Output]
) -> str | None:
    """Why `lower` would refuse a group, or None: the same questions without the work of making regions."""
    return Trial(space, axes).misfit(produced, outputs)


class Trial:
    """Asks `misfit` of a group that grows, without going again over what it has. Mutable.

    Args:
      space: the iteration space.
      axes: those that reductions run over.
    """

    def __init__(self, space: tuple[int, ...], axes: tuple[int, ...]) -> None:
        self.space, self.axes = space, axes
        self._produced: dict[Hashable, Value] = {}
        self._state = _Lowering(space, axes, self._produced)

    def misfit(self, produced: Mapping[Hashable, Value], outputs: Sequence[Output]) -> str | None:
        """Why the group does not fit with these too, or None. After a reason the trial is over.

        Args:
          produced: what they compute; nothing that came before reads it.
          outputs: what they write.
        """
        self._produced.update(produced)
        try:
            _nest(self._state, outputs, produced)
        except NotLowered as reason:
            return str(reason)
        return None


def _nest(state: _Lowering, outputs: Sequence[Output], produced: Mapping[Hashable, Value]) -> Nest:
    if 0 in state.space and state.axes:
        raise NotLowered("there is nothing to reduce")
    state.begin(produced)
    if not state.axes:
        return _map(state, outputs)
    if len(state.space) - 1 in state.axes:
        return _rows(state, outputs)
    return _columns(state, outputs)


def _map(state: _Lowering, outputs: Sequence[Output]) -> Nest:
    stores = []
    for output in outputs:
        if output.value.shape != state.space:
            raise NotLowered("an output has another shape than the space")
        stores.append(_store(state, output, state.identity()))
    loop = Loop(tuple(Axis(axis, size) for axis, size in enumerate(state.space)), stores=tuple(stores))
    return state.nest("map", [], range(len(state.space)), loop)


def _store(state: _Lowering, output: Output, index: tuple[Form, ...]) -> Store:
    value, piece = output.value, output.piece
    shape = value.shape if piece is None else piece.shape
    place = index
    if piece is not None:
        if len(index) != len(shape):
            raise NotLowered("a piece is reduced")
        place = tuple(map(scaled, index, piece.steps, piece.starts))
    number = state.buffers.number(output.key, value.dtype, math.prod(shape), "out")
    return Store(number, flat_access(shape, place), state.expr(value, index))


def _kept_index(state: _Lowering, shape: tuple[int, ...]) -> tuple[Form, ...]:
    """The index of a reduced value, whether its reduced axes are left out or kept with size 1."""
    identity = state.identity()
    if len(shape) == len(state.space):
        if any(size != (1 if axis in state.axes else state.space[axis]) for axis, size in enumerate(shape)):
            raise NotLowered("an output is neither of the space nor reduced")
        return tuple(ZERO if axis in state.axes else identity[axis] for axis in range(len(shape)))
    kept = [axis for axis in range(len(state.space)) if axis not in state.axes]
    if shape != tuple(state.space[axis] for axis in kept):
        raise NotLowered("an output is neither of the space nor reduced")
    return tuple(identity[axis] for axis in kept)


def _rows(state: _Lowering, outputs: Sequence[Output]) -> Nest:
    inner = [axis for axis in range(len(state.space)) if axis in state.axes]
    outer = [axis for axis in range(len(state.space)) if axis not in state.axes]
    stores: dict[int, list[Store]] = {}
    singles: dict[int, list[Store]] = {}
    for output in outputs:
        phase = state.phase(output.value)
        if output.value.shape == state.space:
            stores.setdefault(phase, []).append(_store(state, output, state.identity()))
        else:
            index = _kept_index(state, output.value.shape)
            singles.setdefault(phase, []).append(_store(state, output, index))
    accumulates: dict[int, list[Accumulate]] = {}
    for number, (operation, argument, inner_expr) in enumerate(state.reduced):
        accumulates.setdefault(state.phase(argument), []).append(Accumulate(number, operation, inner_expr))
    loops: list[Loop] = []
    axes = tuple(Axis(axis, state.space[axis]) for axis in inner)
    for phase in range(max([*stores, *singles, *accumulates], default=0) + 1):
        if singles.get(phase):
            loops.append(Loop((), stores=tuple(singles[phase])))
        if stores.get(phase) or accumulates.get(phase):
            loops.append(Loop(axes, tuple(accumulates.get(phase, ())), tuple(stores.get(phase, ()))))
    return state.nest("rows", outer, inner, *loops)


def _columns(state: _Lowering, outputs: Sequence[Output]) -> Nest:
    last = len(state.space) - 1
    stores, after = [], []
    for output in outputs:
        if output.value.shape == state.space and state.phase(output.value) == 0:
            stores.append(_store(state, output, state.identity()))
        elif state.phase(output.value) == 1:
            after.append(_store(state, output, _kept_index(state, output.value.shape)))
        else:
            raise NotLowered("what follows a reduction over columns is another region")
    accumulates = []
    for number, (operation, argument, inner_expr) in enumerate(state.reduced):
        if state.phase(argument):
            raise NotLowered("a reduction over columns follows another")
        accumulates.append(Accumulate(number, operation, inner_expr, keep_last=True))
    inner = [axis for axis in range(last) if axis in state.axes] + [last]
    outer = [axis for axis in range(last) if axis not in state.axes]
    axes = tuple(Axis(axis, state.space[axis]) for axis in inner)
    return state.nest("columns", outer, inner, Loop(axes, tuple(accumulates), tuple(stores), tuple(after)))
