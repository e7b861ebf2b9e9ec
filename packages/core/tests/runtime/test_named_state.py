"""Variables and random streams by the names of a graph: what is found, and that errors leave all as it was."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.kernels.philox import PhiloxStream
from headrace.runtime.named_state import buffers_by_name, check_names, restart_streams, stream_states, write_values
from headrace.runtime.resources import ResourceManager


def two_variables() -> hr.Graph:
    with hr.Graph().as_default() as graph:
        hr.Variable(np.zeros(2, np.float32), name="w")
        hr.Variable(np.zeros(3, np.float32), name="b")
    return graph


def test_buffers_come_in_the_order_of_creation_and_are_those_of_the_container() -> None:
    graph, resources = two_variables(), ResourceManager()
    buffers = buffers_by_name(graph, resources)
    assert list(buffers) == ["w", "b"]
    assert buffers_by_name(graph, resources)["w"] is buffers["w"]
    assert buffers_by_name(graph, ResourceManager())["w"] is not buffers["w"]


def test_a_name_of_no_variable_is_refused_with_those_that_there_are() -> None:
    buffers = buffers_by_name(two_variables(), ResourceManager())
    check_names(["b", "w"], buffers)
    with pytest.raises(hr.errors.NotFoundError, match="no variable 'v'(.|\n)*w"):
        check_names(["w", "v"], buffers)


@pytest.mark.parametrize("copy", [True, False])
def test_values_are_written_all_or_none(copy: bool) -> None:
    buffers = buffers_by_name(two_variables(), ResourceManager())
    good, wrong = np.ones(2, np.float32), np.ones(2, np.float32)
    good.flags.writeable = wrong.flags.writeable = False
    with pytest.raises(hr.errors.ShapeError, match="'b' cannot"):
        write_values({"w": good, "b": wrong}, buffers, copy=copy)
    assert not buffers["w"].is_initialized
    write_values({"w": good}, buffers, copy=copy)
    assert np.shares_memory(buffers["w"].read(None), good) is not copy


def test_no_stream_changes_where_one_cannot() -> None:
    with hr.Graph(seed=1).as_default() as graph:
        op = hr.random.uniform([2], name="numbers").op
    resources = ResourceManager()
    restart_streams({op.name: (3, 5)}, graph, resources)
    assert stream_states(resources) == {op.name: (3, 5)}
    with pytest.raises(hr.errors.NotFoundError, match="no operation 'others'"):
        restart_streams({op.name: (4, 4), "others": (0, 0)}, graph, resources)
    assert stream_states(resources) == {op.name: (3, 5)}
    assert len(resources.objects(PhiloxStream)) == 1
