"""What is cheap is computed again where it is needed, and not kept."""

from __future__ import annotations

from headrace import loops
from headrace.loops.fusion import Item, fuse
from headrace.loops.lowering import Output
from headrace.loops.recompute import recomputed
from headrace.loops.value import Value
from headrace.types import bfloat16, float32


def value_of(key: object) -> Value:
    return Value("input", float32, (8, 8), (), key)


def item(key: int, value: Value, *reads: int) -> Item:
    return Item(f"item {key}", (Output(key, value),), reads, (key,))


def test_a_scaled_input_is_computed_again_and_a_root_is_kept() -> None:
    forward = [item(1, value_of(0) * 0.5, 0), item(2, loops.sqrt(value_of(1)), 1)]
    product = Item("product", (), (2,), (3,))
    backward = [item(4, value_of(3) * value_of(1) * value_of(2), 3, 1, 2)]
    items = [*forward, product, *backward]
    groups = fuse(items, dict.fromkeys(range(5), 256))
    assert [group.items for group in groups] == [[0, 1], [2], [3]]
    assert recomputed(items, groups, {4}) == [[], [], [0]]
    assert groups[2].reads == {0, 2, 3}


def test_what_would_need_more_memory_than_it_saves_is_read() -> None:
    items = [
        item(2, value_of(0) + value_of(1), 0, 1),
        Item("product", (), (2,), (3,)),
        item(4, value_of(3) * value_of(2), 3, 2),
    ]
    groups = fuse(items, dict.fromkeys(range(5), 256))
    assert recomputed(items, groups, {4}) == [[], [], []]


def test_what_a_library_reads_lies_in_memory_so_that_nothing_before_it_is_computed_again() -> None:
    items = [
        item(1, loops.sqrt(value_of(0)), 0),
        item(2, value_of(1) * 0.5, 1),
        item(3, value_of(2) + 1.0, 2),
        Item("product", (), (2,), (4,)),
        item(5, value_of(4) * value_of(3), 4, 3),
    ]
    groups = fuse(items, dict.fromkeys(range(6), 256))
    assert recomputed(items, groups, {5}) == [[], [], [2]]
    assert groups[2].reads == {2, 4}


def test_a_widened_value_is_widened_where_it_is_read_and_kept_narrow() -> None:
    narrow = Value("input", bfloat16, (8, 8), (), 2)
    items = [
        item(1, loops.sqrt(value_of(0)), 0),
        item(2, loops.cast(value_of(1), bfloat16), 1),
        item(3, loops.cast(narrow, float32), 2),
        Item("product", (), (1,), (4,)),
        item(5, value_of(4) * value_of(3), 4, 3),
    ]
    groups = fuse(items, dict.fromkeys(range(6), 256))
    assert recomputed(items, groups, {5}) == [[], [], [2]]
    assert groups[2].reads == {2, 4}


def test_what_a_library_needs_later_is_read_since_its_source_need_not_live_so_long() -> None:
    """After a product that reads relu's output: the gradient of relu reads that, not what relu was given."""
    items = [
        Item("forward", (), (0,), (1,)),
        item(2, loops.maximum(value_of(1), 0.0), 1),
        Item("product", (), (2,), (3,)),
        Item("gradient", (), (3, 2), (4,)),
        item(5, value_of(4) * value_of(2), 4, 2),
    ]
    groups = fuse(items, dict.fromkeys(range(6), 256))
    assert recomputed(items, groups, {5}) == [[], [], [], [], []]
    assert groups[4].reads == {2, 4}


def test_what_values_that_live_on_tell_is_not_kept_for_the_last_that_reads_it() -> None:
    """A normalised row follows from the centred one, which its gradient reads besides."""
    items = [
        item(1, loops.sqrt(value_of(0)), 0),
        item(2, value_of(1) * 0.5, 1),
        item(3, value_of(2) * value_of(1), 2, 1),
        Item("product", (), (2, 3), (4,)),
        item(5, value_of(4) * value_of(3) + value_of(1), 4, 3, 1),
    ]
    groups = fuse(items, dict.fromkeys(range(6), 256))
    again = recomputed(items, groups, {5})
    assert again == [[], [], [1, 2]]
    assert groups[2].reads == {1, 4}


def test_swift_operators_are_repeated_where_memory_is_far() -> None:
    def with_rows(rows: int) -> list[list[int]]:
        def value(key: int) -> Value:
            return Value("input", float32, (rows, 8), (), key)

        items = [
            Item("forward", (), (0,), (1,)),
            item(2, loops.tanh(value(1)), 1),
            item(3, value(2) * value(1), 2, 1),
            Item("product", (), (3, 1), (4,)),
            item(5, value(4) * value(2) + value(1), 4, 2, 1),
        ]
        groups = fuse(items, dict.fromkeys(range(6), rows * 32))
        return recomputed(items, groups, {5})

    assert with_rows(8) == [[], [], [], []]
    assert with_rows(1 << 16) == [[], [], [], [1]]
