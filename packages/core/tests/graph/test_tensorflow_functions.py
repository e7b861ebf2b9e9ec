"""Graphs with functions that TensorFlow 2 wrote: they compute here what they computed there, gradients included."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import headrace as hr

GOLDENS = Path(__file__).parent / "goldens"
VALUES = json.loads((GOLDENS / "functions.json").read_text())
FEEDS = {"x:0": np.array([0.1, 0.5, -0.3], np.float32), "n:0": 4}
"""As in goldens/make_functions.py."""


@pytest.mark.parametrize("name", VALUES)
def test_a_graph_of_tensorflow_computes_the_same(name: str) -> None:
    graph = hr.import_graph_def(GOLDENS / f"{name}.pb")
    fetches = list(VALUES[name])
    for found, expected in zip(hr.Session(graph).run(fetches, feeds=FEEDS), VALUES[name].values(), strict=True):
        np.testing.assert_allclose(found, np.array(expected, np.float32), rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("name", VALUES)
def test_its_functions_are_written_out_again_as_they_were(name: str) -> None:
    graph = hr.import_graph_def(GOLDENS / f"{name}.pb")
    again = hr.import_graph_def(hr.to_graph_def(graph).SerializeToString())
    assert hr.to_graph_def(again) == hr.to_graph_def(graph)
    fetches = list(VALUES[name])
    values = [hr.Session(each).run(fetches, feeds=FEEDS) for each in (graph, again)]
    for one, other in zip(*values, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", [name for name in VALUES if name != "arrays"])
def test_our_gradient_of_its_operations_is_the_one_that_it_wrote(name: str) -> None:
    graph = hr.import_graph_def(GOLDENS / f"{name}.pb")
    value, gradient = VALUES[name]
    with graph.as_default():
        (ours,) = hr.gradients(graph.tensor(value), [graph.tensor("x:0")])
    found, expected = hr.Session(graph).run([ours, gradient], feeds=FEEDS)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
