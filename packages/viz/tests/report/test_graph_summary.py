"""Graphs in a few numbers."""

from __future__ import annotations

import headrace as hr
from headrace_viz.report.graph_summary import summarize_graph


def test_operations_types_scopes_devices_and_parameters_are_counted() -> None:
    with hr.Graph().as_default() as graph:
        with hr.name_scope("layer"), hr.device("/device:CPU:1"):
            w = hr.Variable(hr.zeros([3, 4]), name="w")
        x = hr.placeholder(hr.float32, [None, 3], name="x")
        hr.matmul(x, w)
    found = summarize_graph(hr.to_graph_def(graph).SerializeToString())
    assert found is not None
    assert found.operations == len(graph.operations)
    assert (found.variables, found.parameters) == (1, 12)
    assert found.types["Placeholder"] == 1
    assert found.scopes["layer"] >= 1
    assert "/device:CPU:1" in found.devices


def test_bytes_that_are_no_graph_have_no_summary() -> None:
    assert summarize_graph(b"\xff\xff") is None
