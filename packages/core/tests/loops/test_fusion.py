"""Fusion: what it asks of a group that grows is what it would ask of the whole."""

from __future__ import annotations

from headrace.loops.fusion import Item, fuse
from headrace.loops.lowering import Output, Trial, misfit
from headrace.loops.value import Value
from headrace.types import float32


def _input(key: int, *shape: int) -> Value:
    return Value("input", float32, shape, (), key)


def test_a_trial_refuses_what_misfit_refuses_of_the_whole() -> None:
    """Asked of one addition after the other, it gives the answer that all of them together would get."""
    total = Value("reduce", float32, (8, 1), (_input(0, 8, 4),), ("sum", (1,)))
    scaled = _input(0, 8, 4) * _input(1, 8, 1)
    transposed = _input(2, 4, 8) * 2.0
    trial = Trial((8, 4), (1,))
    assert trial.misfit({1: total}, [Output(1, total)]) is None
    assert trial.misfit({2: scaled}, [Output(2, scaled)]) is None
    reason = trial.misfit({}, [Output(3, transposed)])
    whole = misfit((8, 4), (1,), {1: total, 2: scaled}, [Output(1, total), Output(2, scaled), Output(3, transposed)])
    assert reason is not None
    assert reason == whole


def test_an_item_that_does_not_fit_leaves_the_group_open_to_others() -> None:
    """Softmax: the row sum, an item that reads it at another place, and one that divides by it."""
    total = Value("reduce", float32, (8, 1), (_input(0, 8, 4),), ("sum", (1,)))
    turned = Value("view", float32, (8, 4), (_input(1, 8, 1),), ((0, -1, 7), (None, 0, 0)))
    values = {1: total, 2: turned * 2.0, 3: _input(0, 8, 4) / _input(1, 8, 1)}
    reads = {1: (0,), 2: (1,), 3: (0, 1)}
    items = [Item(f"item{key}", (Output(key, value),), reads[key], (key,)) for key, value in values.items()]
    groups = [group.items for group in fuse(items, dict.fromkeys(range(4), 128))]
    assert groups == [[0, 2], [1]]


def _changing(last: Value, changes_first: bool) -> list[list[int]]:
    """The groups of: a variable read and negated, changed to that, and something made of what was negated."""
    old, made = Value("input", float32, (4, 4), (), ("variable", 0)), _input(1, 4, 4)
    mutable = frozenset({("variable", 0)})
    negated = Item("negated", (Output(1, -old),), (("variable", 0),), (1,), mutable)
    change = Item("change", (Output(("variable", 0), made),), (1,), (("variable", 0),), mutable)
    late = Item("late", (Output(2, last),), (1,), (2,))
    items = [negated, change, late] if changes_first else [negated, late, change]
    return [group.items for group in fuse(items, {("variable", 0): 64, 1: 64, 2: 64})]


def test_what_takes_its_elements_from_other_places_stays_out_of_a_group_that_changes_what_they_follow_from() -> None:
    """What lies nowhere is computed again where it is read: of a variable that has been changed there, or not yet."""
    made = _input(1, 4, 4)
    turned = Value("view", float32, (4, 4), (made,), ((1, 1, 0), (0, 1, 0)))
    first = Value("view", float32, (4, 4), (made,), ((0, 1, 0), (None, 0, 0)))
    for last in (turned, first, made + turned):
        assert _changing(last, changes_first=True) == [[0, 1], [2]]
        assert _changing(last, changes_first=False) == [[0, 1], [2]]
    assert _changing(made * 2.0, changes_first=True) == [[0, 1, 2]]
    assert _changing(made * _input(3, 1, 1), changes_first=True) == [[0, 1, 2]]
