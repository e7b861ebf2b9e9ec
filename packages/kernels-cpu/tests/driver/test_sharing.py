"""What runs side by side: never what needs each other, and the same bits as one after the other."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from laid_out import laid_out

import headrace as hr
from headrace.types import int32
from headrace_cpu.driver import shared_code, sharing
from headrace_cpu.driver.block import Block, Place, block_of
from headrace_cpu.driver.sharing import Share, shares, side_by_side
from headrace_cpu.layout import Unit
from headrace_cpu.primitives.indices import RangeCheck
from headrace_cpu.primitives.scans import Scan
from headrace_cpu.primitives.scattering import Rows
from headrace_cpu.step import source

ENOUGH = 10**6


def scan(length: int = ENOUGH) -> Scan:
    """Shared work of so many elements."""
    return Scan("add", hr.float32, 1, length, 1, exclusive=False, reverse=False)


def unit(reads: str, writes: str, call: Any = None) -> Unit:
    """Work that reads and writes memories with names of one letter."""
    return Unit(None, call or scan(), tuple(reads + writes), tuple(reads), tuple(writes))


def block(*found: Unit, places: dict[str, Place] | None = None, sizes: dict[str, int] | None = None) -> Block:
    """A block of units; what has no place is a slot of its own, what has no size has 64 bytes."""
    keys = sorted({key for one in found for key in one.keys})
    slots = {key: ("slot", number) for number, key in enumerate(keys)}
    scratch: list[list[Place]] = [[] for _ in found]
    return Block(tuple(found), slots | (places or {}), (), scratch, dict.fromkeys(keys, 64) | (sizes or {}), {})


def test_units_that_share_nothing_but_what_they_read_run_side_by_side() -> None:
    assert side_by_side(block(unit("a", "x"), unit("a", "y"), unit("ab", "z"))) == (range(3),)


@pytest.mark.parametrize(
    ("first", "second"),
    [(("a", "x"), ("x", "y")), (("a", "x"), ("b", "a")), (("a", "x"), ("b", "x")), (("ax", "x"), ("xb", "y"))],
    ids=["reads what was written", "writes what was read", "writes what was written", "reads what was changed"],
)
def test_a_unit_that_needs_another_one_waits_for_it(first: tuple[str, str], second: tuple[str, str]) -> None:
    assert side_by_side(block(unit(*first), unit(*second))) == ()
    assert side_by_side(block(unit(*first), unit("c", "z"), unit(*second), unit("d", "w"))) == (range(2), range(2, 4))


@pytest.mark.parametrize(
    ("start", "joins"), [(0, False), (1, False), (63, False), (64, True), (120, True), (121, False)]
)
def test_memory_that_is_used_again_counts_by_its_bytes(start: int, joins: bool) -> None:
    """Two values of 64 bytes at 0 and at 128 are read; another one of 8 bytes is written to where they may lie."""
    places: dict[str, Place] = {"a": ("arena", 0), "b": ("arena", 128), "y": ("arena", start)}
    found = side_by_side(block(unit("ab", "x"), unit("c", "y"), places=places, sizes={"y": 8}))
    assert found == ((range(2),) if joins else ())


def test_one_number_in_two_kinds_of_memory_is_not_one_place() -> None:
    places: dict[str, Place] = {"a": ("arena", 0), "y": ("slot", 0)}
    assert side_by_side(block(unit("a", "x"), unit("b", "y"), places=places)) == (range(2),)


def test_constants_may_be_read_by_all() -> None:
    places: dict[str, Place] = {"a": ("constant", 0)}
    assert side_by_side(block(unit("a", "x"), unit("a", "y"), places=places)) == (range(2),)


def rows(*, checked: bool) -> Rows:
    check = RangeCheck(int32, 4, 8) if checked else None
    return Rows("sum", int32, hr.float32, 4, 8, 4, check, (0, 1, 2))


def test_the_memory_in_which_a_unit_works_counts() -> None:
    made = block(unit("ai", "x", rows(checked=False)), unit("b", "y"), places={"b": ("arena", 7)})
    other = block(unit("ai", "x", rows(checked=False)), unit("b", "y"), places={"b": ("arena", 8)})
    for one in (made, other):
        one.scratch[0].append(("arena", 0))  # type: ignore[attr-defined]  # a list here
    assert (side_by_side(made), side_by_side(other)) == ((), (range(2),))


def test_what_may_fail_and_what_a_library_does_stand_alone() -> None:
    apart = [rows(checked=True), "a library", RangeCheck(int32, 4, 8)]
    for call in apart:
        found = side_by_side(block(unit("a", "x"), unit("b", "y"), unit("ci", "z", call), unit("d", "v")))
        assert found == (range(2),)


def test_little_work_wakes_nobody() -> None:
    few, many = ([unit("a", letter, scan(100)) for letter in "bcdefghijklm"[:count]] for count in (2, 12))
    assert side_by_side(block(*few)) == ()
    assert sum(map(sharing.shared_nanoseconds, many)) < sharing.SERIAL_NANOSECONDS
    assert side_by_side(block(*many)) == ()
    assert side_by_side(block(*few, unit("a", "z"))) == (range(3),)


def test_a_driver_can_pause_between_much_work() -> None:
    letters = "bcdefghijklm"
    longest = sharing.LONGEST_NANOSECONDS
    each = sharing.shared_nanoseconds(unit("a", "b"))
    found = side_by_side(block(*(unit("a", letter) for letter in letters)))
    assert len(found) > 1
    assert all(len(positions) * each <= longest for positions in found)
    assert [position for positions in found for position in positions] == list(range(len(letters)))


def test_the_table_on_the_stack_is_bounded() -> None:
    count = 2 * sharing.MOST_UNITS + 1
    made = [Unit(None, scan(100), ("a", number), ("a",), (number,)) for number in range(count)]
    places: dict[Any, Place] = {"a": ("slot", count)} | {number: ("slot", number) for number in range(count)}
    found = side_by_side(Block(tuple(made), places, (), [[] for _ in made], {}, {}))
    assert [len(positions) for positions in found] == [sharing.MOST_UNITS] * 2


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_SIDE_BY_SIDE", "off")
    assert side_by_side(block(unit("a", "x"), unit("b", "y"))) == ()


def part_of(share: Share, thread: int, count: int) -> list[int]:
    """The points that a thread does, by what `Share` says."""
    begin, end = share.total * thread // count, share.total * (thread + 1) // count
    return [point for point in range(share.points) if begin <= share.start + point * share.cost < end]


def test_every_point_is_done_by_one_thread() -> None:
    rng = random.Random(0)
    for _ in range(50):
        given = [(rng.choice([0, 1, 2, 7, 64]), rng.choice([0.0, 3.0, 900.0, 50_000.0])) for _ in range(9)]
        for share, (points, _) in zip(shares(given), given, strict=True):
            for count in (1, 2, 3, 64):
                done = [point for thread in range(count) for point in part_of(share, thread, count)]
                assert done == list(range(points))


def test_small_units_stay_whole_and_large_ones_are_cut_in_equal_parts() -> None:
    small, large = (4, 1000.0), (100, 10**6)
    found = shares([small, large, small, large, small, small])
    one, other = ([len(part_of(share, thread, 2)) for share in found] for thread in (0, 1))
    assert one == [4, 50, 4, 50, 0, 0]
    assert other == [0, 50, 0, 50, 4, 4]


def adam(count: int, size: int) -> Any:
    """A step of Adam over variables of one size."""

    def build(*gradients: hr.Tensor) -> Any:
        variables = [hr.Variable(np.ones(size, np.float32)) for _ in gradients]
        return hr.optim.Adam(0.1).apply_gradients(list(zip(gradients, variables, strict=True)))

    return laid_out(build, *[(hr.float32, (size,))] * count)


def test_an_update_of_many_variables_is_one_fork() -> None:
    layout = adam(10, 20_000)
    (run,) = [run for run in layout.runs if run.kind == "update"]
    (positions,) = side_by_side(block_of(layout, run.units, lambda value: 0))
    assert len(positions) >= 10


def program_of(seed: int) -> tuple[hr.Graph, list[hr.Tensor], list[Any]]:
    """A graph of loops that meet each other's memory, and changes of variables."""
    rng = random.Random(seed)
    graph = hr.Graph()
    with graph.as_default():
        inputs = [hr.placeholder(hr.float32, [6, 5]) for _ in range(2)]
        variables = [hr.Variable(np.full((6, 5), number, np.float32)) for number in range(3)]
        found: list[hr.Tensor] = [*inputs, *(variable.value for variable in variables)]
        for _ in range(30):
            x, y = rng.sample(found[-8:] + found[:3], 2)
            made = [
                lambda x, y: hr.exp(x * 0.01) + y,
                lambda x, y: x - hr.mean(y, axis=0),
                lambda x, y: x * hr.max(y, axis=1, keepdims=True),
                lambda x, y: hr.cumulative_sum(x, axis=0) * 0.1,
                lambda x, y: hr.reshape(hr.permute_dims(x, [1, 0]), [6, 5]) - y,
                lambda x, y: hr.nn.softmax(x + y),
            ]
            found.append(rng.choice(made)(x, y) * 0.5)
        changes = [variable.assign_add(rng.choice(found[-10:])) for variable in variables]
        results = [*rng.sample(found[5:], 4), hr.add_n(found)]
    return graph, inputs, [*results, *changes]


def steps_of(seed: int, threads: int) -> list[np.ndarray]:
    graph, inputs, fetches = program_of(seed)
    numbers = np.random.default_rng(seed).standard_normal((2, 6, 5)).astype(np.float32)
    with hr.Session(graph, config=hr.config(backend="cpu", threads=threads)) as session:
        step = session.make_callable(fetches, inputs)
        return [np.asarray(value) for _ in range(3) for value in step(*numbers) if value is not None]


@pytest.mark.parametrize("seed", range(8))
def test_random_graphs_have_the_same_bits_side_by_side(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where threads are woken for the smallest work, however many there are."""
    with monkeypatch.context() as patch:
        patch.setenv("HEADRACE_SIDE_BY_SIDE", "off")
        expected = steps_of(seed, 1)
    joined = 0

    def counted(given: Block) -> tuple[range, ...]:
        nonlocal joined
        found = side_by_side(given)
        joined += sum(map(len, found))
        return found

    for module in (sharing, shared_code):
        monkeypatch.setattr(module, "SERIAL_NANOSECONDS", 0)
    monkeypatch.setattr(source, "side_by_side", counted)
    for threads in (1, 2, 5):
        for value, other in zip(expected, steps_of(seed, threads), strict=True):
            assert value.tobytes() == other.tobytes()
    assert joined > 0


def test_a_trace_has_one_time_for_what_runs_side_by_side() -> None:
    graph = hr.Graph()
    with graph.as_default():
        inputs = [hr.placeholder(hr.float32, shape) for shape in ([400, 300], [300, 500])]
        made = [hr.nn.softmax(x, name=f"softmax{number}") for number, x in enumerate(inputs)]
    feeds: dict[hr.Tensor, Any] = {x: np.zeros(x.shape.as_tuple(), np.float32) for x in inputs}
    with hr.Session(graph, config=hr.config(backend="cpu")) as session:
        trace = hr.Trace()
        session.run(made, feeds=feeds, trace=trace)
    (record,) = trace.records
    assert (record.type, record.names) == ("Softmax x2", ("softmax0", "softmax1"))


def test_a_step_that_is_followed_gives_the_same() -> None:
    """A stop between what runs side by side would do some of it twice."""
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [300, 400])
        first = [hr.nn.softmax(x * number) for number in (1.0, 2.0)]
        made = [hr.cumulative_sum(y, axis=0) for y in first]
    numbers = np.random.default_rng(0).standard_normal((300, 400)).astype(np.float32)
    with hr.Session(graph, config=hr.config(backend="cpu")) as session:
        plain = session.run(made, feeds={x: numbers})
        for value, other in zip(plain, session.run(made, feeds={x: numbers}, trace=hr.Trace()), strict=True):
            assert value.tobytes() == other.tobytes()
