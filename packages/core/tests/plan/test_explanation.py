"""Explanations: what they say, as text and as data."""

from __future__ import annotations

import json

import numpy as np

import headrace as hr
from headrace.plan.explanation import Explanation
from headrace.plan.needs import PlannedMemory, combined


def session_of_a_layer(**options: object) -> hr.Session:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [None, 64], name="x")
        w = hr.constant(np.ones((64, 32), np.float32), name="w")
        hr.nn.relu(hr.matmul(x, w, name="product"), name="y")
    return hr.Session(graph, config=hr.config(**{"backend": "numpy", **options}))


FEEDS = {"x:0": np.ones((100, 64), np.float32)}


def test_it_says_what_computes_each_operation() -> None:
    with session_of_a_layer() as session:
        work = session.explain("y:0", FEEDS).work
    assert [(item.operations, item.types, item.kind) for item in work] == [
        (("product",), ("MatMul",), "numpy"),
        (("y",), ("Relu",), "numpy"),
    ]
    assert work[0].kernel.startswith("numpy.") or work[0].kernel.startswith("headrace.kernels.")


def test_arithmetic_and_traffic_follow_from_shapes() -> None:
    with session_of_a_layer() as session:
        explanation = session.explain("y:0", FEEDS)
    assert [item.flops for item in explanation.work] == [2 * 100 * 64 * 32, 100 * 32]
    assert [item.bytes for item in explanation.work] == [4 * (100 * 64 + 64 * 32 + 100 * 32), 4 * 2 * 100 * 32]
    assert explanation.flops == 2 * 100 * 64 * 32 + 100 * 32
    assert explanation.bytes == sum(item.bytes for item in explanation.work)


def test_convolutions_count_what_they_sum_over() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.float32, [2, 8, 8, 3], name="x")
        k = hr.Variable(np.ones((3, 3, 3, 5), np.float32))
        d = hr.Variable(np.ones((3, 3, 5, 2), np.float32))
        y = hr.nn.depthwise_conv2d(hr.nn.conv2d(x, k, padding="SAME"), d, padding="VALID")
        loss = hr.sum(y)
        fetches = [loss, *hr.gradients(loss, [k, d])]
    with hr.Session(graph, config=hr.config(backend="numpy")) as session:
        work = session.explain(fetches, {x: np.ones((2, 8, 8, 3), np.float32)}).work
    flops = {item.types[0]: item.flops for item in work}
    first, second = 2 * 2 * 8 * 8 * 5 * 27, 2 * 2 * 6 * 6 * 10 * 9
    assert flops["Conv2D"] == flops["Conv2DBackpropFilter"] == first
    assert flops["DepthwiseConv2dNative"] == flops["DepthwiseConv2dNativeBackpropInput"] == second
    assert flops["DepthwiseConv2dNativeBackpropFilter"] == second


def test_the_text_names_the_backend_the_memory_and_the_operations() -> None:
    with session_of_a_layer() as session:
        lines = str(session.explain("y:0", FEEDS)).splitlines()
    assert lines[:3] == [
        "backend numpy: one segment of 2 operations",
        "work:    413 kflop, 72.2 kB read and written",
        "memory:  25.6 kB at most: an arena of 12.8 kB (12.8 kB alive at once), 12.8 kB beside it",
    ]
    assert "'y:0' float32[100, 32] (12,800 bytes)" in lines[3] + lines[4] + lines[5]
    assert "MatMul 'product' and 1 more" in lines
    assert lines[-1].split()[:5] == ["numpy", "3.2", "kflop", "25.6", "kB"]


def test_it_is_data_too() -> None:
    with session_of_a_layer() as session:
        explanation = session.explain("y:0", FEEDS)
    data = json.loads(json.dumps(explanation.as_dict()))
    assert data["backend"] == "numpy"
    assert data["memory"]["peak_bytes"] == explanation.memory.peak_bytes
    assert data["segments"][0]["memory"] == data["memory"]
    assert data["segments"][0]["work"][1]["operations"] == ["y"]
    assert data["flops"] == explanation.flops


def test_sizes_that_only_show_in_the_step_are_named() -> None:
    graph = hr.Graph()
    with graph.as_default():
        x = hr.placeholder(hr.int32, [100], name="x")
        y = hr.unique_values(x)
    with hr.Session(graph, config=hr.config(backend="numpy")) as session:
        explanation = session.explain(y, {x: np.arange(100, dtype=np.int32)})
    assert "or more: the size of 'Unique:0' only shows in the step" in str(explanation)


def test_loops_say_that_their_functions_come_later() -> None:
    graph = hr.Graph()
    with graph.as_default():
        y = hr.while_loop(lambda i: i < 3, lambda i: (i + 1,), (hr.constant(0),))[0]
    with hr.Session(graph, config=hr.config(backend="numpy")) as session:
        reasons = session.explain(y).memory.unknown
    assert any("calls functions, which are compiled when they are called" in reason for reason in reasons)


def test_every_segment_of_a_divided_step_is_explained() -> None:
    graph = hr.Graph()
    with graph.as_default():
        first, second = (hr.FIFOQueue(2, [hr.float32], shapes=[[]], name=name) for name in ("first", "second"))
        y = hr.exp(first.dequeue()) + hr.exp(second.dequeue())
    with hr.Session(graph, config=hr.config(backend="numpy")) as session:
        explanation = session.explain(y)
    assert len(explanation.segments) > 2
    assert "segments of" in str(explanation)
    assert {"QueueDequeueV2", "Exp"} <= {name for item in explanation.work for name in item.types}


def test_a_function_explains_what_a_call_becomes() -> None:
    @hr.function
    def doubled(x: hr.Tensor) -> hr.Tensor:
        return x + x

    text = doubled.lower(np.ones(3, np.float32)).explain()
    assert "one segment of 1 operations" in text
    assert "AddV2" in text


def test_copies_of_weights_are_said_and_added_up() -> None:
    part = PlannedMemory(1000, 200, 900, (), copies_bytes=3000)
    memory = combined([part, None, part])
    assert (memory.copies_bytes, memory.peak_bytes) == (6000, 8400)
    text = str(Explanation("cpu", (), memory))
    assert "8.4 kB at most: an arena of 2 kB (1.8 kB alive at once), 400 B beside it, 6 kB of weights in other" in text
