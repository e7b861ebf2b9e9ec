"""Random sequences of steps on queues: ours and TensorFlow's give the same elements, sizes and kinds of error.

A sequence runs on one graph, made here and read there. Each of its steps is one that does not wait, which the size of
our queue tells.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

import headrace as hr
from oracle.graphs import Difference

DIRECTION = "sequences of queue steps"
QUEUES: Mapping[str, Callable[[int, int], Any]] = {
    "fifo": lambda capacity, least: hr.FIFOQueue(capacity, hr.int32, [[]]),
    "padding": lambda capacity, least: hr.PaddingFIFOQueue(capacity, hr.int32, [[None]]),
    "priority": lambda capacity, least: hr.PriorityQueue(capacity, hr.int32, [[]]),
    "random": lambda capacity, least: hr.RandomShuffleQueue(capacity, least, hr.int32, [[]], seed=7),
}
KINDS_OF_ERROR = {
    "EndOfDataError": "end of data",
    "OutOfRangeError": "end of data",
    "CancelledError": "cancelled",
    "InvalidArgumentError": "invalid",
}
Run = Callable[[str, Mapping[str, Any]], Any]


def build(kind: str, capacity: int, least: int) -> hr.Graph:
    """Return a graph with a queue and everything that can be done with it, under fixed names."""
    with hr.Graph().as_default() as graph:
        queue = QUEUES[kind](capacity, least)
        value, n = hr.placeholder(hr.int32, None, name="value"), hr.placeholder(hr.int32, [], name="n")
        priority = hr.placeholder(hr.int64, None, name="priority")
        element = [priority, value] if kind == "priority" else value
        queue.enqueue(element, name="add")
        queue.enqueue_many(element, name="add_many")
        queue.dequeue(name="take")
        queue.dequeue_many(n, name="take_many")
        queue.dequeue_up_to(n, name="take_up_to")
        queue.close(name="close")
        queue.close(cancel_pending_enqueues=True, name="cancel")
        queue.size(name="size")
        queue.is_closed(name="is_closed")
    return graph


def fetches(graph: hr.Graph, step: str) -> Any:
    """Return what a step fetches: the outputs of the operation of that name, or itself."""
    outputs = [tensor.name for tensor in graph.operation(step).outputs]
    return outputs or step


def outcome(run: Run, step: str, feeds: Mapping[str, Any]) -> Any:
    """Return what a step gives, as plain values, or the kind of its error."""
    try:
        values = run(step, feeds)
    except (hr.errors.HeadraceError, tf.errors.OpError) as error:
        return KINDS_OF_ERROR.get(type(error).__name__, type(error).__name__)
    return None if values is None else [np.asarray(value).tolist() for value in values]


def steps(
    kind: str, capacity: int, least: int, choose: random.Random, run: Run
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield steps that do not wait, each with its feeds; `run` tells how our queue stands."""
    number = 0
    for _ in range(choose.randrange(3, 30)):
        step = choose.choice(["add", "add_many", "take", "take_many", "take_up_to"])
        if choose.random() < 0.1:
            step = choose.choice(["close", "cancel"])
        size, closed = int(run("size", {})[0]), bool(run("is_closed", {})[0])
        n = choose.randrange(-1, 5) if step.startswith("take_") else choose.randrange(4) if step == "add_many" else 1
        if kind == "priority" and step == "take_up_to" and closed and size < n:
            continue  # TensorFlow says that this gives the rest, but its priority queue gives the end of data
        available = size if closed else size - least
        waits = 0 <= capacity < size + n if step.startswith("add") else n > available
        if waits and not closed and step not in ("close", "cancel"):
            continue
        feeds: dict[str, Any] = {}
        if step.startswith("add"):
            width = [choose.randrange(1, 4)] if kind == "padding" else []  # [1, 0] ends TensorFlow's process
            shape = [n, *width] if step == "add_many" else width
            feeds["value:0"] = np.full(shape, choose.randrange(100), np.int32)
            if kind == "priority":  # all different: TensorFlow promises no order of equal ones
                numbers = np.arange(number, number + n) * 7919 % 1000
                feeds["priority:0"] = numbers if step == "add_many" else numbers[0]
                number += n
        elif step.startswith("take_"):
            feeds["n:0"] = np.int32(n)
        yield step, feeds


def compare(count: int) -> list[Difference]:
    """Run sequences both ways and return those that differ.

    Args:
      count: how many.
    """
    differences = []
    for seed in range(count):
        choose = random.Random(seed)
        kind = choose.choice(list(QUEUES))
        capacity, least = choose.choice([-1, 2, 4, 8]), choose.choice([0, 1]) if kind == "random" else 0
        graph = build(kind, capacity, least)
        with tf.Graph().as_default() as theirs:
            tf.compat.v1.import_graph_def(tf.compat.v1.GraphDef.FromString(serialized(graph)), name="")
        with hr.Session(graph) as session, tf.compat.v1.Session(graph=theirs) as peer:

            def run(step: str, feeds: Mapping[str, Any], session: hr.Session = session, graph: hr.Graph = graph) -> Any:
                return session.run(fetches(graph, step), feeds=feeds)

            def run_there(step: str, feeds: Mapping[str, Any], peer: Any = peer, graph: hr.Graph = graph) -> Any:
                return peer.run(fetches(graph, step), feed_dict=dict(feeds))

            for step, feeds in steps(kind, capacity, least, choose, run):
                here, there = outcome(run, step, feeds), outcome(run_there, step, feeds)
                if here != there:
                    what = f"{kind} queue of capacity {capacity}: {step} gives {here} here, {there} there"
                    differences.append(Difference(seed, DIRECTION, what))
                    break
    return differences


def serialized(graph: hr.Graph) -> bytes:
    """Return a graph as the bytes of a GraphDef."""
    data: bytes = hr.to_graph_def(graph).SerializeToString()
    return data
