"""Printing, time stamps, and what representations say."""

from __future__ import annotations

import logging
import time

import numpy as np
import pytest

import headrace as hr
from headrace.errors import InvalidArgumentError


def run_printing(**options):
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None])
        shown = hr.print("x =", x, hr.sum(x), **options)
    hr.Session(graph).run(shown, feeds={x: [1.0, 2.5]})


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_prints_to_a_stream(capfd, stream):
    run_printing(output_stream=stream)
    assert getattr(capfd.readouterr(), "out" if stream == "stdout" else "err") == "x = [1 2.5] 3.5\n"


def test_prints_to_the_log(caplog):
    with caplog.at_level(logging.INFO, "headrace.print"):
        run_printing(output_stream="log(warning)")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [("WARNING", "x = [1 2.5] 3.5")]


def test_prints_to_the_end_of_a_file(tmp_path):
    path = tmp_path / "out.txt"
    for _ in range(2):
        run_printing(output_stream=f"file://{path}", sep=",", end=";")
    assert path.read_text() == "x =,[1 2.5],3.5;" * 2


def test_an_unknown_stream_is_refused_when_the_graph_is_built():
    with hr.Graph().as_default(), pytest.raises(InvalidArgumentError, match="no such stream"):
        hr.print("x", output_stream="paper")


def test_braces_in_the_text_are_printed_as_they_are(capfd):
    with hr.Graph().as_default() as graph:
        shown = hr.print("{} and {{}}", hr.constant(1), output_stream="stdout")
    hr.Session(graph).run(shown)
    assert capfd.readouterr().out == "{} and {{}} 1\n"


def test_d21_print_runs_in_order_inside_a_function(capfd):
    @hr.function
    def f(x):
        hr.print("first", x, output_stream="stdout")
        hr.print("second", x + 1, output_stream="stdout")
        return x * 2

    assert f(np.int32(1)) == 2
    assert capfd.readouterr().out == "first 1\nsecond 2\n"


def test_d21_repr_says_how_to_get_the_value():
    with hr.Graph().as_default():
        x = hr.constant([1.0, 2.0], name="x")
    assert repr(x) == "<hr.Tensor 'x:0' float32[2]; session.run(...) gives its value>"


def test_timestamps_are_those_of_the_step():
    with hr.Graph().as_default() as graph:
        now = hr.timestamp()
    session = hr.Session(graph)
    before = time.time()
    first = session.run(now)
    assert before <= first <= session.run(now) <= time.time()
