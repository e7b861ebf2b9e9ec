"""Nests: which axes are joined, which stay, and how buffers are numbered."""

from __future__ import annotations

from headrace import loops
from headrace.loops.ir import Access, Axis, Buffer, Builder, Loop, Store
from headrace.loops.lowering import Output, lower
from headrace.loops.nest import Buffers, Nest, NestForm, changed, loads_of
from headrace.loops.value import Value
from headrace.types import float32, int64


def value_of(key: object, *shape: int) -> Value:
    return Value("input", float32, shape, (), key)


def nest_of(form: NestForm, outer: dict[int, int], inner: dict[int, int], access: Access) -> Nest:
    """A copy from one buffer to another one, at one and the same place."""
    builder, buffers = Builder(), Buffers()
    source, target = buffers.number("x", float32, 100, "in"), buffers.number("y", float32, 100, "out")
    store = Store(target, access, builder.make("load", float32, (), (source, access)))
    loop = Loop(tuple(Axis(*axis) for axis in inner.items()), stores=(store,))
    return Nest(builder, buffers, form, outer | inner, tuple(outer), tuple(inner), (loop,))


def test_neighbouring_axes_are_walked_as_one() -> None:
    x, bias = value_of("x", 2, 3, 4), value_of("bias", 4)
    (lowered,) = lower((2, 3, 4), (), {}, [Output("y", x + bias)])
    assert lowered.region.outer == (6,)
    (lowered,) = lower((2, 3, 4), (), {}, [Output("y", x + x)])
    assert (lowered.region.outer, lowered.region.loops[0].axes[0].extent) == ((), 24)


def test_outer_axes_are_joined_with_outer_ones_and_inner_with_inner_ones() -> None:
    nest = nest_of("rows", {0: 2, 1: 3}, {2: 4, 3: 5}, Access(0, ((0, 60), (1, 20), (2, 5), (3, 1)))).joined()
    assert (nest.outer, nest.inner, nest.extents[1], nest.extents[3]) == ((1,), (3,), 6, 20)
    assert nest.loops[0].axes == (Axis(3, 20),)
    assert nest.loops[0].stores[0].access == Access(0, ((1, 20), (3, 1)))


def test_the_last_axis_of_columns_is_not_joined() -> None:
    nest = nest_of("columns", {}, {0: 2, 1: 3, 2: 4}, Access(0, ((0, 12), (1, 4), (2, 1)))).joined()
    assert (nest.inner, nest.extents[1]) == ((1, 2), 6)
    assert nest_of("map", {}, {0: 2, 1: 3, 2: 4}, Access(0, ((0, 12), (1, 4), (2, 1)))).joined().inner == (2,)


def test_axes_of_one_index_are_gone_but_a_loop_keeps_one() -> None:
    nest = nest_of("map", {}, {0: 3, 1: 1, 2: 4}, Access(0, ((0, 5), (1, 4), (2, 1)))).joined()
    assert (nest.inner, nest.loops[0].axes) == ((0, 2), (Axis(0, 3), Axis(2, 4)))
    assert nest_of("map", {}, {0: 1, 1: 1}, Access(0, ())).joined().loops[0].axes == (Axis(1, 1),)


def test_an_axis_whose_index_is_a_value_stays_as_it_is() -> None:
    positions = loops.cast(loops.index((2, 3), 1), float32)
    (lowered,) = lower((2, 3), (), {}, [Output("y", value_of("x", 2, 3) + positions)])
    assert (lowered.region.outer, lowered.region.loops[0].axes) == ((2,), (Axis(1, 3),))


def test_memory_has_a_number_for_each_role() -> None:
    buffers = Buffers()
    assert buffers.number("x", float32, 8, "in") == 0
    assert buffers.number("x", float32, 8, "out") == 1
    assert buffers.number("x", float32, 8, "in") == 0
    assert (buffers.keys, buffers.kinds) == (["x", "x"], [Buffer(float32, 8, "in"), Buffer(float32, 8, "out")])


def test_a_loop_is_moved_to_other_places_and_buffers() -> None:
    builder = Builder()
    value = builder.make("cast", float32, (builder.make("position", int64, (), Access(0, ((0, 1),))),))
    total = builder.make("add", float32, (value, builder.make("load", float32, (), (0, Access(0, ((0, 1),))))))
    loop = Loop((Axis(0, 4),), stores=(Store(1, Access(0, ((0, 1),)), total),))
    far = changed(builder, loop, place=lambda access: Access(access.constant + 7, access.terms), buffers={0: 1, 1: 0})
    (store,) = far.stores
    assert (store.buffer, store.access.constant, loads_of([far])) == (0, 7, [(1, Access(7, ((0, 1),)))])
    assert store.value.args[0].args[0].payload == Access(7, ((0, 1),))
    instead = changed(builder, loop, lambda expr: value if expr.op == "load" else None)
    assert instead.stores[0].value is builder.make("add", float32, (value, value))
