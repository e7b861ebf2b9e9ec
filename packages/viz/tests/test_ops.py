"""Summary operations: what TensorFlow's operations of these names give, and clear refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
import headrace_viz
from headrace.errors import AlreadyExistsError, AttrError, ShapeError
from headrace.testing import OpCase, check_case
from headrace_viz.proto.event_pb2 import Event, Summary
from headrace_viz.records import read_records


def strings(*values: bytes) -> Any:
    """A vector of bytes objects."""
    return np.array(values, object)


def serialized(**values: float) -> Any:
    """A Summary with these values by tag, as an operation gives it."""
    summary = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])
    return np.array(summary.SerializeToString(), object)


CASES = [
    OpCase("ScalarSummary/scalar", "ScalarSummary", [b"a", np.float32(1.5)], expected=serialized(a=1.5)),
    OpCase(
        "ScalarSummary/vector",
        "ScalarSummary",
        [strings(b"a", b"b"), np.array([1, 2], np.int64)],
        expected=serialized(a=1, b=2),
    ),
    OpCase("ScalarSummary/empty", "ScalarSummary", [strings(), np.zeros(0, np.float16)], expected=serialized()),
    OpCase(
        "ScalarSummary/B05 not finite",
        "ScalarSummary",
        [strings(b"n", b"p", b"m"), np.array([np.nan, np.inf, -np.inf], np.float32)],
        expected=serialized(n=np.nan, p=np.inf, m=-np.inf),
    ),
    OpCase("ScalarSummary/beyond float32", "ScalarSummary", [b"a", np.float64(1e39)], expected=serialized(a=np.inf)),
    OpCase(
        "ScalarSummary/B07 tags are kept",
        "ScalarSummary",
        [strings(b"loss: (a) %", "损失".encode()), np.ones(2, np.float32)],
        expected=serialized(**{"loss: (a) %": 1, "损失": 1}),
    ),
    OpCase(
        "ScalarSummary/other shapes",
        "ScalarSummary",
        [strings(b"a"), np.ones(2, np.float32)],
        expected=None,
        raises="tags and values of (a )?summary .*do not match",
    ),
    OpCase(
        "ScalarSummary/other",
        "ScalarSummary",
        [b"\xff", np.float32(1)],
        expected=None,
        raises="a tag that is no text",
    ),
    OpCase(
        "MergeSummary/several",
        "MergeSummary",
        [[serialized(a=1), strings(serialized(b=2).item(), serialized(c=3).item()), b""]],
        expected=serialized(a=1, b=2, c=3),
    ),
    OpCase(
        "MergeSummary/one tag twice",
        "MergeSummary",
        [[serialized(a=1), serialized(a=1)]],
        expected=None,
        raises="merges two values of one tag\n(.*\n)*.*'a' twice",
    ),
    OpCase("MergeSummary/no summary", "MergeSummary", [[b"\xff"]], expected=None, raises="cannot merge its inputs"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases(case: OpCase) -> None:
    check_case(case)


def test_no_gradient_and_the_reason() -> None:
    with hr.Graph().as_default():
        x = hr.constant(1.0)
        summary = headrace_viz.summary.scalar("a", x)
        for stopped in (summary, headrace_viz.summary.merge([summary])):
            assert "a summary is a record for people, not a number" in hr.explain_gradient(stopped, x)


def test_functions_add_operations_and_the_writer_takes_their_values(tmp_path: Path) -> None:
    with hr.Graph().as_default() as graph:
        curves = [headrace_viz.summary.scalar(tag, value) for tag, value in [("loss: (a) %", 0.5), ("损失", 2)]]
        summary = headrace_viz.summary.merge(curves, name="all")
    assert [curve.op.name for curve in curves] == ["loss___a___", "ScalarSummary"]
    assert (summary.name, summary.shape.dims) == ("all:0", ())
    with hr.Session(graph) as session, headrace_viz.EventWriter(tmp_path) as writer:
        writer.summary(session.run(summary), 7)
    _, event = (Event.FromString(data) for data in read_records(writer.path))
    assert event.step == 7
    assert [(value.tag, value.simple_value) for value in event.summary.value] == [("loss: (a) %", 0.5), ("损失", 2.0)]


def test_what_is_no_scalar_fails_where_it_is_written() -> None:
    with hr.Graph().as_default():
        with pytest.raises(ShapeError, match="tags and values of a summary do not match"):
            headrace_viz.summary.scalar("a", [1.0, 2.0])
        with pytest.raises(AttrError, match=r"attr 'T' has a wrong value\n  where: +ScalarSummary 'a'"):
            headrace_viz.summary.scalar("a", "text")


def test_shapes_that_differ_only_when_it_runs() -> None:
    with hr.Graph().as_default() as graph:
        x = hr.placeholder(hr.float32, [None])
        values, _ = hr.apply_op("Unique", x)  # how many only the kernel knows
        summary = hr.apply_op("ScalarSummary", hr.constant([b"a", b"b"]), values, name="curves")
    with (
        hr.Session(graph) as session,
        pytest.raises(ShapeError, match=r"summary 'curves' do not match\n(.*\n)*.*2. tags, .1. values"),
    ):
        session.run(summary, feeds={x: np.ones(3, np.float32)})


def test_no_tag_may_repeat() -> None:
    with hr.Graph().as_default() as graph:
        twice = headrace_viz.summary.merge([headrace_viz.summary.scalar("a", 1.0)] * 2)
    with hr.Session(graph) as session, pytest.raises(AlreadyExistsError, match="'a' twice"):
        session.run(twice)
