"""Queues, accumulators, barriers and tables of TensorFlow 1, whose handles are references there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import headrace as hr

TENSORFLOW = Path(__file__).parents[1] / "graph" / "tensorflow_v1"
"""Graphs that TensorFlow 2.21 wrote through its first version's interface."""


def first_version(graph: hr.Graph) -> bytes:
    """The graph as TensorFlow 1 wrote it, with the operations on references."""
    proto = hr.to_graph_def(graph)
    for node in proto.node:
        if node.op.startswith(("Queue", "FIFO", "Random", "Priority", "Padding", "HashTable", "LookupTable")):
            node.op = node.op.removesuffix("V2")
        node.op = node.op.replace("ResourceAccumulator", "Accumulator").replace("ResourceConditional", "Conditional")
    return proto.SerializeToString()


@pytest.mark.parametrize("kind", [hr.FIFOQueue, hr.PaddingFIFOQueue, hr.PriorityQueue, hr.RandomShuffleQueue])
def test_a_queue_of_tensorflow_1_runs(kind: type[hr.FIFOQueue]) -> None:
    options = {"min_after_dequeue": 0, "seed": 1} if kind is hr.RandomShuffleQueue else {}
    first = [np.array([3, 1, 2])] if kind is hr.PriorityQueue else []
    with hr.Graph().as_default() as graph:
        queue = kind(capacity=5, dtypes=hr.int32, shapes=[[]], name="q", **options)
        queue.enqueue_many([*first, np.array([7, 8, 9], np.int32)] if first else [7, 8, 9], name="fill")
        queue.enqueue([np.int64(0), 5] if first else 5, name="add")
        queue.dequeue(name="take")
        queue.dequeue_many(2, name="pair")
        queue.dequeue_up_to(9, name="rest")
        queue.size(name="size")
        queue.is_closed(name="is_closed")
        queue.close(name="close")
    imported = hr.import_graph_def(first_version(graph))
    assert imported.operation("q").type == f"{kind.__name__}V2"
    results = []
    for each in (graph, imported):
        session = hr.Session(each)
        session.run("fill")
        session.run("add")
        taken = [session.run(["take:0", "size:0"]), session.run("pair:0").tolist()]
        session.run("close")
        results.append([taken, session.run("rest:0").tolist(), session.run("is_closed:0"), session.run("size:0")])
    assert results[0] == results[1]
    with pytest.raises(hr.errors.EndOfDataError, match="too few elements"):
        session.run("take:0")


def test_the_queue_of_an_imported_graph_is_filled_by_names() -> None:
    with hr.Graph().as_default() as graph:
        queue = hr.FIFOQueue(5, hr.int32, shapes=[[]], name="q")
        queue.enqueue(hr.constant(3) * 2, name="add")
        queue.dequeue(name="take")
    imported = hr.import_graph_def(first_version(graph))
    with hr.Session(imported) as session, hr.Coordinator() as coordinator:
        threads = hr.QueueRunner(imported.operation("q"), ["add"] * 2).start(session, coordinator)
        assert [session.run("take:0") for _ in range(20)] == [6] * 20
    assert threads[0].name == "q/0"
    with pytest.raises(hr.errors.InvalidArgumentError, match=r"fills a queue(.|\n)*type QueueDequeueV2"):
        hr.QueueRunner(imported.operation("take"), ["add"])


def test_a_loop_and_a_branch_of_tensorflow_1_take_from_a_queue() -> None:
    graph = hr.import_graph_def(TENSORFLOW / "queue_loop.pbtxt")
    session = hr.Session(graph)
    session.run("fill")
    assert session.run("sum:0") == sum(range(10))
    assert [int(session.run("maybe:0", feeds={"p:0": value})) for value in (True, False, True)] == [10, -1, 11]


def test_an_input_pipeline_of_tensorflow_1_runs_to_the_end_of_its_data() -> None:
    """A producer of numbers for one epoch, and a queue of batches of which the last is smaller, as seen there."""
    graph = hr.import_graph_def(TENSORFLOW / "input_pipeline.pbtxt")
    batches = []
    with hr.Session(graph) as session, hr.Coordinator() as coordinator:
        session.run([op for op in graph.operations if op.type == "AssignVariableOp"])
        for queue in [op for op in graph.operations if op.type.endswith("QueueV2")]:
            fill = [op for op in graph.operations if op.type.startswith("QueueEnqueue") and op.inputs[0].op is queue]
            hr.QueueRunner(queue, fill).start(session, coordinator)
        while not coordinator.should_stop():
            batches.append(session.run("taken:0").tolist())
    assert batches == [[0, 2, 4], [6, 8, 10], [12, 14, 16], [18]]


def test_an_accumulator_a_barrier_and_a_table_of_tensorflow_1_run() -> None:
    with hr.Graph().as_default() as graph:
        accumulator = hr.ConditionalAccumulator(hr.float32, [])
        accumulator.apply_grad(4.0, name="apply")
        accumulator.take_grad(1, name="mean")
        barrier = hr.Barrier([hr.float32])
        barrier.insert_many(0, ["k"], [5.0], name="insert")
        barrier.take_many(1, name="elements")
        table = hr.HashTable(["a", "b"], [1, 2], default=0)
        table.lookup(["b"], name="found")
    imported = hr.import_graph_def(first_version(graph))
    session = hr.Session(imported)
    session.run("apply")
    session.run("insert")
    session.run(imported.operation(table.initializer.name))
    mean, value, found = session.run(["mean:0", "elements:2", "found:0"])
    assert (mean, value.tolist(), found.tolist()) == (4.0, [5.0], [2])


def test_a_graph_with_queues_comes_back_from_its_file() -> None:
    with hr.Graph().as_default() as graph:
        queue = hr.RandomShuffleQueue(9, 2, [hr.float32, hr.string], shapes=[[2], []], seed=3, shared_name="s")
        queue.enqueue([[1.0, 2.0], "a"], name="add")
        queue.dequeue(name="take")
        area = hr.StagingArea([hr.int32], [[]], capacity=2)
        area.put([1], name="put")
    copy = hr.from_graph_def(hr.to_graph_def(graph))
    lines = [sorted(hr.format_graph(each).splitlines()) for each in (copy, graph)]  # their order may differ
    assert lines[0] == lines[1]
    assert [str(tensor.shape) for tensor in copy.operation("take").outputs] == ["[2]", "[]"]
