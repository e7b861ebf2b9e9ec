"""Steps that are more than one segment: branches and loops of tokens, operations that wait for each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import headrace as hr


def counting_loop(limit: Any, body: Callable[[hr.Tensor], hr.Tensor] | None = None, **attrs: Any) -> hr.Tensor:
    """while i < limit: i = i + 1, built by hand."""
    start = hr.apply_op("Enter", hr.constant(0), frame_name="count", **attrs)
    bound = hr.apply_op("Enter", limit, frame_name="count", is_constant=True, **attrs)
    i, _ = hr.apply_op("Merge", [start])
    more = hr.apply_op("LoopCond", i < bound)
    done, go = hr.apply_op("Switch", i, more)
    following = go + 1 if body is None else body(go)
    i.op.graph.close_loop(i.op, hr.apply_op("NextIteration", following))
    result: hr.Tensor = hr.apply_op("Exit", done)
    return result


def test_a_loop() -> None:
    with hr.Graph().as_default() as graph:
        n = hr.placeholder(hr.int32, [])
        result = counting_loop(n)
    session = hr.Session(graph)
    for count in (0, 1, 7, 1000):
        assert session.run(result, feeds={n: count}) == count
