"""Graphs as text."""

from __future__ import annotations

import numpy as np

import headrace as hr

GOLDEN = """\
x: float32[?, 3] = Placeholder(shape=[?, 3])
s/w: float64[8] = Const(value=[8][0.0, 1.0, 2.0, 3.0, 4.0, 5.0, ...]) on /device:GPU:0
Cast: float32[8] = Cast(s/w)
done = NoOp(^x, ^Cast)
"""


def test_text_is_deterministic_and_shows_what_matters() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [None, 3], name="x")
        with hr.name_scope("s"), hr.device("/device:GPU:0"):
            w = hr.constant(np.arange(8.0), name="w")
        hr.group([x, hr.astype(w, hr.float32)], name="done")
    assert hr.format_graph(graph) == GOLDEN
    assert "# test_printer.py:" in hr.format_graph(graph, sources=True)
    assert hr.format_graph(hr.Graph()) == ""


def test_an_empty_constant_of_many_rows_is_printed_by_its_shape() -> None:
    """Python would make a list of 2**31 empty lists of it."""
    graph = hr.Graph()
    graph.create_op("Const", (), {"value": np.zeros((2**31, 0)), "dtype": hr.float64}, name="empty")
    assert hr.format_graph(graph) == "empty: float64[2147483648, 0] = Const(value=[2147483648, 0][])\n"
