"""From values to regions: the forms, what they print, what is fused and what is refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import headrace as hr
from headrace import loops
from headrace.loops.fusion import Item, fuse
from headrace.loops.interpreter import run_region
from headrace.loops.ir import Access, Expr, Loop, Region, Store
from headrace.loops.lowering import Output, lower
from headrace.loops.printer import region_text
from headrace.loops.value import Value
from headrace.loops.verifier import verify_region
from headrace.types import Array, float32


def value_of(key: object, *shape: int) -> Value:
    return Value("input", float32, shape, (), key)


def test_softmax_is_one_region_of_three_loops_over_a_row_buffer() -> None:
    x = value_of("x", 4, 10)
    e = loops.exp(x - loops.max(x, -1, keepdims=True))
    (lowered,) = lower((4, 10), (1,), {}, [Output("y", e / loops.sum(e, -1, keepdims=True))])
    assert (
        region_text(lowered.region, "softmax")
        == """softmax outer [4]
  buffer b0: out float32[40]
  buffer b1: in float32[40]
  buffer b2: row float32[10]
  loop i1 < 10
    %0 = float32 load b1[10 i0 + i1]
    local0 = max %0
  loop i1 < 10
    %0 = float32 load b1[10 i0 + i1]
    %2 = float32 sub %0, local0
    %3 = float32 exp %2
    local1 = sum %3
    b2[i1] = %3
  loop i1 < 10
    %0 = float32 load b2[i1]
    %2 = float32 div %0, local1
    b0[10 i0 + i1] = %2
"""
    )
    rows = np.linspace(-2, 2, 40, dtype=np.float32)
    memory = {"x": rows, "y": np.zeros(40, np.float32)}
    run_region(lowered.region, [memory[str(key)] for key in lowered.keys])
    np.testing.assert_allclose(memory["y"].reshape(4, 10).sum(1), 1, rtol=1e-6)


def item(name: str, value: Value, *reads: str) -> Item:
    return Item(name, (Output(name, value),), reads, (name,))


def grouped(*items: Item) -> list[list[str]]:
    sizes = {key: 4096 for part in items for key in (*part.reads, *part.writes)}
    return [[items[position].name for position in group.items] for group in fuse(items, sizes)]


def test_a_chain_is_one_group_and_another_shape_is_not() -> None:
    a, b = value_of("a", 8, 8), value_of("b", 8, 8)
    column = loops.sum(value_of("b", 8, 8), 0)
    wide = loops.broadcast_to(value_of("b", 8, 8), (3, 8, 8))
    groups = grouped(
        item("b", a * 2.0, "a"), item("c", loops.tanh(b), "b"), item("d", column, "b"), item("e", wide, "b")
    )
    assert groups == [["b", "c", "d"], ["e"]]


def test_what_runs_on_its_own_keeps_its_place() -> None:
    opaque = Item("product", (), ("b",), ("p",))
    after = value_of("p", 8, 8) + value_of("b", 8, 8)
    assert grouped(item("b", value_of("a", 8, 8) * 2.0, "a"), opaque, item("c", after, "p", "b")) == [
        ["b"], ["product"], ["c"]
    ]  # fmt: skip


def test_a_state_is_updated_with_what_reads_it_and_read_anew_after() -> None:
    v = frozenset({"v"})
    read = Item("m", (Output("m", value_of("v", 8) * 0.9),), ("v",), ("m",), v)
    write = Item("w", (Output("v", value_of("m", 8)),), ("m",), ("v",), v)
    again = Item("r", (Output("r", value_of("v", 8) + 1.0),), ("v",), ("r",), v)
    assert grouped(read, write, again) == [["m", "w"], ["r"]]


def sums_of(between: Item, first: Item) -> list[list[str]]:
    """The groups where two items from different places are added, and something else comes in between."""
    second = item("b", value_of("y", 8) * 3.0, "y")
    return grouped(first, between, second, item("s", value_of("a", 8) + value_of("b", 8), "a", "b"))


def test_groups_that_one_item_reads_move_to_it() -> None:
    first = item("a", value_of("x", 8) * 2.0, "x")
    assert sums_of(Item("other", (), ("z",), ("o",)), first) == [["other"], ["a", "b", "s"]]


def test_a_group_does_not_move_past_what_reads_it() -> None:
    first = item("a", value_of("x", 8) * 2.0, "x")
    assert sums_of(Item("other", (), ("a",), ("o",)), first) == [["a"], ["other"], ["b", "s"]]


def test_a_group_does_not_move_past_a_write_to_what_it_reads() -> None:
    first = Item("a", (Output("a", value_of("v", 8) * 2.0),), ("v",), ("a",), frozenset({"v"}))
    write = Item("write", (), ("z",), ("v",), frozenset({"v"}))
    assert sums_of(write, first) == [["a"], ["write"], ["b", "s"]]


def test_a_group_does_not_move_past_what_waits_for_it() -> None:
    first = item("a", value_of("x", 8) * 2.0, "x")
    assert sums_of(Item("waits", (), (), ("w",), after=frozenset({0})), first) == [["a"], ["waits"], ["b", "s"]]


def test_dtypes_and_shapes_of_a_rule_are_checked() -> None:
    x, y = value_of("x", 3), Value("input", hr.float64, (3,), (), "y")
    with pytest.raises(hr.errors.InvalidArgumentError, match="operands of different dtypes(.|\\n)*hr.loops.cast"):
        x + y
    with pytest.raises(hr.errors.ShapeError, match=r"do not broadcast(.|\n)*\[3\], \[4\]"):
        x + value_of("z", 4)


def test_a_second_rule_for_a_type_is_refused() -> None:
    with pytest.raises(hr.errors.AlreadyExistsError, match="Relu has loops already"):
        hr.register_loops("Relu")(lambda op, x: x)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda r: dataclasses.replace(r, outer=(5,)), "reaches from 0 to 49 of 40"),
        (lambda r: dataclasses.replace(r, buffers=tuple(reversed(r.buffers))), "is an input and is written"),
        (
            lambda r: dataclasses.replace(r, loops=(Loop(r.loops[0].axes, stores=(_stored(r, "local", payload=3),)),)),
            "local 3 is used before it is reduced",
        ),
        (
            lambda r: dataclasses.replace(r, loops=(Loop(r.loops[0].axes, stores=(_stored(r, "add"),)),)),
            "'add' has 0 operands",
        ),
        (
            lambda r: dataclasses.replace(
                r, loops=(Loop(r.loops[0].axes, stores=(_stored(r, "position", Access(0, ((7, 1),))),)),)
            ),
            "a position uses axis 7 outside its loop",
        ),
        (
            lambda r: dataclasses.replace(r, loops=(Loop(r.loops[0].axes, stores=(_of_numbers("philox"),)),)),
            "a philox of float32, float32, float32, float32 gives float32",
        ),
    ],
)
def test_a_broken_region_is_found(change: object, fault: str) -> None:
    x, bias = value_of("x", 4, 10), value_of("bias", 10)
    (lowered,) = lower((4, 10), (), {}, [Output("y", x + bias)])
    verify_region(lowered.region)
    with pytest.raises(hr.errors.InternalError, match=fault):
        verify_region(change(lowered.region))  # type: ignore[operator]  # a function of the table above


def _stored(region: Region, op: str, payload: object = None) -> Store:
    return Store(0, Access(0, ((0, 10), (1, 1))), Expr(op, float32, (), payload))


def _of_numbers(op: str) -> Store:
    return Store(0, Access(0, ((0, 10), (1, 1))), Expr(op, float32, (Expr("const", float32, (), 1.0),) * 4))


def test_pieces_are_written_to_their_places() -> None:
    x = value_of("x", 2, 3)
    whole = loops.assemble((2, 7), [(x, (0, 4), (1, 1))], 0)
    places, filling = whole.payload
    assert filling == 0
    (lowered,) = lower((2, 3), (), {}, [Output("y", x, places[0])])
    out: Array = np.zeros(14, np.float32)
    buffers = {"x": np.arange(1, 7, dtype=np.float32), "y": out}
    run_region(lowered.region, [buffers[str(key)] for key in lowered.keys])
    assert out.reshape(2, 7).tolist() == [[0, 0, 0, 0, 1, 2, 3], [0, 0, 0, 0, 4, 5, 6]]
