"""What is remembered of objects, and for how long."""

from __future__ import annotations

import gc
import weakref

from headrace_serving.facts import Facts


class Thing:
    """Equal to every other; without a hash."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Thing)


def test_each_object_is_asked_about_once() -> None:
    asked: list[Thing] = []
    facts = Facts[Thing, int](lambda thing: asked.append(thing) or len(asked))  # type: ignore[func-returns-value]
    first, second = Thing(), Thing()
    assert [facts.of(thing) for thing in (first, second, first, second)] == [1, 2, 1, 2]


def test_what_is_known_goes_with_its_object() -> None:
    class Value:
        pass

    facts = Facts[Thing, Value](lambda thing: Value())
    thing = Thing()
    value = weakref.ref(facts.of(thing))
    assert value() is facts.of(thing)
    del thing
    gc.collect()
    assert value() is None


def test_objects_without_weak_references_are_asked_about_each_time() -> None:
    counts = iter(range(9))
    facts = Facts[tuple[int], int](lambda _: next(counts))
    thing = (1,)
    assert [facts.of(thing), facts.of(thing)] == [0, 1]
