"""Lowering: from the values that a group of operations computes to regions of the loop IR. Pure.

A group has one iteration space, a shape, and perhaps axes of it that reductions run over. Three forms:

- map: no reduction; every output has the shape of the space.
- rows: the last axis is reduced. The kept axes are outer; each reduction ends a phase, and what depends on it is
  computed in a later loop over the same row. Costly values of an earlier phase are kept in row buffers.
- columns: the last axis is kept and is the one to vectorise; the reduced axes are looped over inside.

A reduction of much to little is cut in two regions with partial results, whose number depends on the shape only, so
that the order of additions does not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.loops.ir import Access, Accumulate, Axis, Buffer, Builder, Expr, Loop, Region, Store, in_order
from headrace.loops.moments import join_moments
from headrace.loops.value import Piece, Value
from headrace.types import DType, int64

__all__ = ["COSTLY", "LoweredRegion", "NotLowered", "Output", "Trial", "lower", "misfit"]

TILE = 4096
"""Elements of one outer point where a long axis is cut."""
COLUMNS = 512
"""Columns of one outer point of the column form: enough of each row in one piece for the memory to follow."""
SPLIT = 32768
"""Elements that one outer point reduces before the reduction is cut in two."""
ROW_BYTES = 1 << 18
"""Bytes of row buffers that one outer point may have: they live on the stack and should stay in the second cache,
beside as much that is read."""
COSTLY = frozenset(
    {"cos", "div", "erf", "exp", "expm1", "log", "log1p", "philox", "pow", "rsqrt", "sigmoid", "sin", "sqrt", "tanh"}
)
"""Operators that cost more than reading their result from a cache."""

Form = tuple[int, tuple[tuple[int, int], ...]]
"""An affine form: a constant and (axis, coefficient) pairs, sorted, without zeros."""
ZERO: Form = (0, ())


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


@dataclass(frozen=True, slots=True)
class LoweredRegion:
    """A region and what its buffers are.

    Attributes:
      region: the loops.
      keys: for each buffer that is no row buffer the key of its memory; (name, "partial", n) names memory that a first
        region leaves for a second one.
      identity: keys of inputs that are read only at the place that is written: such an input may be the output.
    """

    region: Region
    keys: tuple[Hashable, ...]
    identity: frozenset[Hashable]


@dataclass(slots=True)
class _Lowering:
    """The state of one lowering. Mutable."""

    name: str
    space: tuple[int, ...]
    axes: tuple[int, ...]
    produced: Mapping[Hashable, Value]
    builder: Builder = field(default_factory=Builder)
    buffers: dict[tuple[Hashable, str], int] = field(default_factory=dict)
    kinds: list[Buffer] = field(default_factory=list)
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

    def buffer(self, key: Hashable, dtype: DType, size: int, role: str) -> int:
        found = self.buffers.get((key, role))
        if found is None:
            found = self.buffers[key, role] = len(self.kinds)
            self.kinds.append(Buffer(dtype, size, role))  # type: ignore[arg-type]  # in or out
        return found

    def identity(self) -> tuple[Form, ...]:
        return tuple((0, ((axis, 1),)) if size != 1 else ZERO for axis, size in enumerate(self.space))

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
            buffer = self.buffer(value.payload, value.dtype, math.prod(value.shape), "in")
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


def flat_access(shape: Sequence[int], index: Sequence[Form]) -> Access:
    """The place of an element in a contiguous buffer of that shape."""
    terms: dict[int, int] = {}
    constant, stride = 0, 1
    for size, (start, parts) in zip(reversed(shape), reversed(index), strict=True):
        constant += start * stride
        for axis, factor in parts:
            terms[axis] = terms.get(axis, 0) + factor * stride
        stride *= size
    return Access(constant, tuple(sorted((axis, factor) for axis, factor in terms.items() if factor)))


def moved(access: Access, step: int, start: int) -> Access:
    """step * access + start."""
    return Access(access.constant * step + start, tuple((axis, factor * step) for axis, factor in access.terms))


def scaled(form: Form, step: int, start: int) -> Form:
    """step * form + start."""
    constant, terms = form
    return constant * step + start, tuple((axis, factor * step) for axis, factor in terms)


def aligned(shape: Sequence[int], index: tuple[Form, ...]) -> tuple[Form, ...]:
    """The index into an operand that is broadcast."""
    lead = len(index) - len(shape)
    return tuple(ZERO if size == 1 else index[lead + axis] for axis, size in enumerate(shape))


def lower(
    name: str,
    space: tuple[int, ...],
    axes: tuple[int, ...],
    produced: Mapping[Hashable, Value],
    outputs: Sequence[Output],
) -> list[LoweredRegion]:
    """Make the regions of one group.

    Args:
      name: what to call them; it tells apart the partial results of different groups.
      space: the iteration space.
      axes: those that reductions run over.
      produced: what the group computes for keys that its own values take as inputs.
      outputs: what it has to write.
    Raises:
      NotLowered: the group does not fit one of the three forms.
    """
    state = _Lowering(name, space, axes, produced)
    nest = _nest(state, outputs, produced)
    if nest.form == "rows":
        count = math.prod(space[axis] for axis in nest.inner)
        nest.loops = _with_row_buffers(state, join_moments(state.builder, nest.loops, nest.inner, count))
    return nest.joined().regions()


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
        self._state = _Lowering("", space, axes, self._produced)

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


def _nest(state: _Lowering, outputs: Sequence[Output], produced: Mapping[Hashable, Value]) -> _Nest:
    if 0 in state.space and state.axes:
        raise NotLowered("there is nothing to reduce")
    state.begin(produced)
    if not state.axes:
        return _map(state, outputs)
    if len(state.space) - 1 in state.axes:
        return _rows(state, outputs)
    return _columns(state, outputs)


def _map(state: _Lowering, outputs: Sequence[Output]) -> _Nest:
    stores = []
    for output in outputs:
        if output.value.shape != state.space:
            raise NotLowered("an output has another shape than the space")
        stores.append(_store(state, output, state.identity()))
    loop = Loop(tuple(Axis(axis, size) for axis, size in enumerate(state.space)), stores=tuple(stores))
    return _Nest(state, "map", [], list(range(len(state.space))), [loop])


def _store(state: _Lowering, output: Output, index: tuple[Form, ...]) -> Store:
    value, piece = output.value, output.piece
    shape = value.shape if piece is None else piece.shape
    place = index
    if piece is not None:
        if len(index) != len(shape):
            raise NotLowered("a piece is reduced")
        place = tuple(map(scaled, index, piece.steps, piece.starts))
    number = state.buffer(output.key, value.dtype, math.prod(shape), "out")
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


def _rows(state: _Lowering, outputs: Sequence[Output]) -> _Nest:
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
    return _Nest(state, "rows", outer, inner, loops)


def _columns(state: _Lowering, outputs: Sequence[Output]) -> _Nest:
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
    return _Nest(state, "columns", outer, inner, [Loop(axes, tuple(accumulates), tuple(stores), tuple(after))])


def _with_row_buffers(state: _Lowering, loops: list[Loop]) -> list[Loop]:
    """Keep costly expressions that a later loop over the row needs again, as far as row buffers may grow."""
    sizes = [state.space[axis] for axis in range(len(state.space)) if axis in state.axes]
    place = flat_access(sizes, [state.identity()[axis] for axis in range(len(state.space)) if axis in state.axes])
    budget = ROW_BYTES
    result = list(loops)
    seen: dict[int, int] = {}  # expression -> the first loop that computes it
    kept: dict[int, Expr] = {}  # expression -> its load
    for position, loop in enumerate(loops):
        if not loop.axes:
            continue
        used = _values(loop)
        for expr in _repeated(used, seen, kept):
            needed = math.prod(sizes) * max(expr.dtype.size, 1)
            stored = next((store for store in loops[seen[id(expr)]].stores if store.value is expr), None)
            if stored is None and needed <= budget:
                budget -= needed
                number = state.buffer((len(state.kinds), "row"), expr.dtype, math.prod(sizes), "row")
                stored = Store(number, place, expr)
                first = result[seen[id(expr)]]
                result[seen[id(expr)]] = replace(first, stores=(*first.stores, stored))
            if stored is not None:
                kept[id(expr)] = state.builder.make("load", expr.dtype, (), (stored.buffer, stored.access))
        for expr in in_order(used):
            seen.setdefault(id(expr), position)
        result[position] = _changed(state.builder, result[position], lambda expr: kept.get(id(expr)))
    return result


def _repeated(roots: Sequence[Expr], seen: Mapping[int, int], kept: Mapping[int, Expr]) -> list[Expr]:
    """The largest expressions that an earlier loop computed too and that are not cheap to repeat."""
    found: dict[int, Expr] = {}
    visited: set[int] = set()
    stack = list(roots)
    while stack:
        expr = stack.pop()
        if id(expr) in visited or id(expr) in kept:
            continue
        visited.add(id(expr))
        if id(expr) in seen and _is_costly(expr):
            found[id(expr)] = expr
        else:
            stack.extend(expr.args)
    return list(found.values())


def _is_costly(root: Expr) -> bool:
    """True if something that differs along the row goes through a costly operator."""
    varying: set[int] = set()
    for expr in in_order([root]):
        if expr.op in ("load", "index", "position") or any(id(arg) in varying for arg in expr.args):
            varying.add(id(expr))
            if expr.op in COSTLY:
                return True
    return False


def _values(loop: Loop) -> list[Expr]:
    return [item.value for item in loop.accumulates] + [store.value for store in (*loop.stores, *loop.after)]


def _every(loops: Sequence[Loop]) -> list[Expr]:
    return in_order([value for loop in loops for value in _values(loop)])


def _loads(loops: Sequence[Loop]) -> list[tuple[int, Access]]:
    return [expr.payload for expr in _every(loops) if expr.op == "load"]


def _changed(
    builder: Builder,
    loop: Loop,
    change: Callable[[Expr], Expr | None],
    place: Callable[[Access], Access] | None = None,
    buffers: Mapping[int, int] | None = None,
) -> Loop:
    """A loop with its expressions rewritten, and where it reads and writes: places, and the numbers of buffers."""

    def access_of(access: Access) -> Access:
        return access if place is None else place(access)

    def buffer_of(number: int) -> int:
        return number if buffers is None else buffers[number]

    def full(expr: Expr) -> Expr | None:
        if expr.op == "load":
            buffer, access = expr.payload
            kept = change(expr)
            return kept or builder.make("load", expr.dtype, (), (buffer_of(buffer), access_of(access)))
        if expr.op == "position":
            return builder.make("position", expr.dtype, (), access_of(expr.payload))
        return change(expr)

    def store(item: Store) -> Store:
        return Store(buffer_of(item.buffer), access_of(item.access), builder.rewritten(item.value, full))

    return replace(
        loop,
        accumulates=tuple(replace(item, value=builder.rewritten(item.value, full)) for item in loop.accumulates),
        stores=tuple(map(store, loop.stores)),
        after=tuple(map(store, loop.after)),
    )


def _same(expr: Expr) -> Expr | None:
    return None


@dataclass(slots=True)
class _Nest:
    """Loops over the axes of the space before these are joined, cut and numbered. Mutable.

    Attributes:
      state: what the loops were made with.
      form: map, rows or columns.
      outer, inner: the axes by number, from the outermost to the innermost.
      loops: the loops; those with axes have all of `inner`.
      extents: of each axis.
    """

    state: _Lowering
    form: str
    outer: list[int]
    inner: list[int]
    loops: list[Loop]
    extents: dict[int, int] = field(default_factory=dict)

    def joined(self) -> _Nest:
        """Without axes of one index, and with neighbours joined that all accesses walk as one."""
        self.extents = dict(enumerate(self.state.space))
        places = [access for _, access in _loads(self.loops)]
        places += [store.access for loop in self.loops for store in (*loop.stores, *loop.after)]
        every = _every(self.loops)
        places += [expr.payload for expr in every if expr.op == "position"]
        fixed = {expr.payload for expr in every if expr.op == "index"}
        gone: set[object] = set()
        for axes in (self.outer, self.inner):
            left: list[int] = []
            pinned = fixed | ({axes[-1]} if axes is self.inner and self.form == "columns" and axes else set())
            for axis in axes:
                if self.extents[axis] == 1 and axis not in pinned:
                    gone.add(axis)
                    continue
                last = left[-1] if left else None
                if last is not None and not {last, axis} & pinned and self._walks_as_one(last, axis, places):
                    gone.add(left.pop())
                    self.extents[axis] *= self.extents[last]
                left.append(axis)
            if axes and not left:  # a loop has an axis, if only for one index
                left = [axes[-1]]
                gone.discard(axes[-1])
            axes[:] = left

        def place(access: Access) -> Access:
            return Access(access.constant, tuple(term for term in access.terms if term[0] not in gone))

        loops = [_changed(self.state.builder, loop, _same, place) for loop in self.loops]
        self.loops = [replace(loop, axes=self._axes() if loop.axes else ()) for loop in loops]
        return self

    def _axes(self) -> tuple[Axis, ...]:
        return tuple(Axis(axis, self.extents[axis]) for axis in self.inner)

    def _walks_as_one(self, first: int, second: int, places: Sequence[Access]) -> bool:
        size = self.extents[second]
        return all(item.coefficient(first) == item.coefficient(second) * size for item in places)

    def regions(self) -> list[LoweredRegion]:
        """Cut long axes, split reductions of much to little, and number what is left."""
        if self.form == "map":
            self.outer, self.inner = self.inner[:-1], self.inner[-1:]
            self.loops = [replace(loop, axes=self._axes()) for loop in self.loops]
            return [self._numbered("", self._tile(TILE) if not self.outer else None)]
        points = math.prod(self.extents[axis] for axis in self.outer)
        work = math.prod(self.extents[axis] for axis in self.inner)
        if self.form == "rows":
            simple = not any(loop.accumulates or loop.axes for loop in self.loops[1:])
            if simple and work > SPLIT and points < 16 and not self._has_positions():
                return self._two_stages(points, 1)
            return [self._numbered("", None)]
        columns = self.extents[self.inner[-1]]
        tiles = -(-columns // COLUMNS)
        long = work // columns * min(columns, COLUMNS) > SPLIT
        if long and points * tiles < 16 and not self._has_positions():
            return self._two_stages(points, columns)
        return [self._numbered("", self._tile(COLUMNS))]

    def _has_positions(self) -> bool:
        """True if an expression speaks of an index, which a reduction that is cut would have to shift."""
        return any(expr.op == "index" for expr in in_order(_values(self.loops[0])))

    def _tile(self, size: int) -> tuple[int, int] | None:
        """The last inner axis and the size of its pieces, if it is longer than one."""
        if not self.inner or self.extents[self.inner[-1]] <= size:
            return None
        return self.inner[-1], size

    def _two_stages(self, points: int, columns: int) -> list[LoweredRegion]:
        """First the reductions over each piece of the first inner axis, then those over the pieces."""
        state, main, cut = self.state, self.loops[0], self.inner[0]
        size = max(
            1,
            -(-self.extents[cut] // 128),
            TILE * self.extents[cut] // math.prod(self.extents[axis] for axis in self.inner),
        )
        pieces = -(-self.extents[cut] // size)
        piece = max(self.extents) + 1
        own = ((self.inner[-1], 1),) if self.form == "columns" else ()
        partials: list[Store] = []
        totals: list[Accumulate] = []
        for item in main.accumulates:
            key = (state.name, "partial", item.local)
            number = state.buffer(key, item.value.dtype, points * pieces * columns, "out")
            terms, stride = [(piece, columns), *own], pieces * columns
            for axis in reversed(self.outer):
                terms.append((axis, stride))
                stride *= self.extents[axis]
            access = Access(0, tuple(sorted(terms)))
            partials.append(Store(number, access, state.builder.make("local", item.value.dtype, (), item.local)))
            totals.append(replace(item, value=state.builder.make("load", item.value.dtype, (), (number, access))))
        extents = {**self.extents, piece: pieces}
        axes = tuple(Axis(cut, size, piece, self.extents[cut]) if axis == cut else Axis(axis, self.extents[axis])
                     for axis in self.inner)  # fmt: skip

        def place(access: Access) -> Access:
            factor = access.coefficient(cut)
            return Access(access.constant, (*access.terms, (piece, factor * size)) if factor else access.terms)

        head = replace(_changed(state.builder, replace(main, after=()), _same, place), axes=axes)
        if self.form == "columns":
            parts = [replace(head, after=tuple(partials))]
        else:
            parts = [head, Loop((), stores=tuple(partials))]
        first = _Nest(state, self.form, [*self.outer, piece], self.inner, parts, extents)
        inner = [piece, self.inner[-1]] if self.form == "columns" else [piece]
        second = _Nest(state, self.form, self.outer, inner, [], extents)
        second.loops = [Loop(second._axes(), tuple(totals), (), main.after), *self.loops[1:]]
        own_tile, tile = (part._tile(COLUMNS) if self.form == "columns" else None for part in (first, second))
        return [first._numbered("_parts", own_tile), second._numbered("_total", tile)]

    def _numbered(self, suffix: str, tile: tuple[int, int] | None) -> LoweredRegion:
        """Number axes and used buffers from 0; one axis may be cut into pieces, which become the last outer axis."""
        builder = self.state.builder
        outer = [self.extents[axis] for axis in self.outer]
        if tile is not None:
            outer.append(-(-self.extents[tile[0]] // tile[1]))
        pieces = len(outer) - 1
        numbers = {
            axis: position for position, axis in enumerate((*self.outer, *[-1] * (tile is not None), *self.inner))
        }
        written = {store.buffer for loop in self.loops for store in (*loop.stores, *loop.after)}
        reads = _loads(self.loops)
        kinds = self.state.kinds
        used = sorted(written | {buffer for buffer, _ in reads}, key=lambda item: (kinds[item].role == "row", item))
        places = {old: new for new, old in enumerate(used)}

        def place(access: Access) -> Access:
            terms = [(numbers[axis], factor) for axis, factor in access.terms]
            if tile is not None and access.coefficient(tile[0]):
                terms.append((pieces, access.coefficient(tile[0]) * tile[1]))
            return Access(access.constant, tuple(sorted(terms)))

        def index(expr: Expr) -> Expr | None:
            if expr.op != "index":
                return None
            own = builder.make("index", int64, (), numbers[expr.payload])
            if tile is None or expr.payload != tile[0]:
                return own
            start = builder.make("index", int64, (), pieces), builder.make("const", int64, (), tile[1])
            return builder.make("add", int64, (builder.make("mul", int64, start), own))

        def axis(item: Axis) -> Axis:
            if tile is not None and item.number == tile[0]:
                return Axis(numbers[item.number], tile[1], pieces, item.extent)
            return replace(item, number=numbers[item.number], outer=None if item.outer is None else numbers[item.outer])

        loops = tuple(
            replace(_changed(builder, loop, index, place, places), axes=tuple(map(axis, loop.axes)))
            for loop in self.loops
        )
        buffers = tuple(
            replace(kinds[old], role="in" if kinds[old].role == "out" and old not in written else kinds[old].role)
            for old in used
        )
        keys = {number: key for (key, _), number in self.state.buffers.items()}
        region = Region(self.state.name + suffix, tuple(outer), buffers, loops)
        shared = self._identity(keys)
        return LoweredRegion(region, tuple(keys[old] for old in used if kinds[old].role != "row"), shared)

    def _identity(self, keys: Mapping[int, Hashable]) -> frozenset[Hashable]:
        """See `LoweredRegion`; a row that is gone over several times may be written where it is read for the last time.

        Rows of columns are walked across, several outer points through one row.
        """
        wholes = [
            (number, store.access)
            for number, loop in enumerate(self.loops)
            for store in loop.stores
            if loop.axes and self.state.kinds[store.buffer].role != "row"
        ]
        if self.form == "columns" or not wholes:
            return frozenset()
        first, written = min(number for number, _ in wholes), {access for _, access in wholes}
        starts = {Access(item.constant, tuple(t for t in item.terms if t[0] not in self.inner)) for item in written}
        accesses: dict[int, set[Access]] = {}
        last: dict[int, int] = {}
        for number, loop in enumerate(self.loops):
            for buffer, access in _loads([loop]):
                if number < first and access in starts:
                    continue
                accesses.setdefault(buffer, set()).add(access)
                last[buffer] = number
        return frozenset(
            keys[buffer]
            for buffer, found in accesses.items()
            if found == written and last[buffer] <= first and self.state.kinds[buffer].role == "in"
        )
