"""When a step function forgets what it holds."""

from __future__ import annotations

from headrace_cpu.step.statements import Expression, Statement, dying, joined, local


def statement(reads: tuple[int, ...] = (), writes: tuple[int, ...] = ()) -> Statement:
    return Statement("", "", reads, writes)


def test_a_value_dies_at_its_last_use() -> None:
    assert dying([statement(writes=(3,)), statement(reads=(3,)), statement(reads=(3,)), statement()], []) == [
        [],
        [],
        [3],
        [],
    ]


def test_what_nothing_reads_dies_where_it_is_made() -> None:
    assert dying([statement(reads=(1,), writes=(2, 3)), statement(reads=(3,))], []) == [[2], [3]]


def test_arguments_do_not_die() -> None:
    assert dying([statement(reads=(0, 1)), statement(reads=(1,))], []) == [[], []]


def test_results_do_not_die() -> None:
    made = [statement(writes=(4, 5)), statement(reads=(4, 5))]
    assert dying(made, [Expression("r0"), local(5).wrapped("copy(", ")")]) == [[], [4]]


def test_a_value_dies_once_however_often_a_statement_reads_it() -> None:
    assert dying([statement(writes=(7,)), statement(reads=(7, 7))], []) == [[], [7]]


def test_values_die_in_the_order_in_which_they_came() -> None:
    made = [statement(writes=(9,)), statement(writes=(8,)), statement(reads=(8, 9))]
    assert dying(made, []) == [[], [], [9, 8]]


def test_an_expression_reads_what_its_parts_read() -> None:
    whole = joined([local(3), Expression("c1"), local(12).wrapped("", ".reshape((2,))")]).wrapped("[", "]")
    assert whole == Expression("[v3, c1, v12.reshape((2,))]", (3, 12))
    assert joined([]) == Expression("")
