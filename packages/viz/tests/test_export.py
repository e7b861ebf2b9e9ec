"""Exports: CSV that reads back, and JSON that any strict parser takes."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
from typing import Any

import numpy as np
import pytest

from headrace_viz.export import write_csv, write_json_lines
from headrace_viz.reading import LoggedValue


def _value(kind: str, value: Any) -> LoggedValue:
    return LoggedValue("train/loss, 损失", 3, 1234.5678901, kind, value)


def _strict(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def test_csv_keeps_every_digit() -> None:
    file = io.StringIO()
    numbers = [0.1, float(np.float32(0.1)), math.nan, -math.inf]
    write_csv([("run", _value("scalars", number)) for number in numbers] + [("run", _value("text", "x"))], file)
    names, *rows = csv.reader(io.StringIO(file.getvalue()))
    assert names == ["run", "tag", "step", "wall_time", "value"]
    assert [row[:4] for row in rows] == [["run", "train/loss, 损失", "3", "1234.5678901"]] * 4
    np.testing.assert_array_equal([float(row[4]) for row in rows], numbers)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.1, 0.1),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (np.array([[1, math.nan]]), [[1, "NaN"]]),
        ([b"png"], [base64.b64encode(b"png").decode()]),
        (np.array(["a"]), ["a"]),
        (np.array([b"a"], object), ["YQ=="]),
        (np.array([1 + 2j]), [[1, 2]]),
        (np.float32(0.5), 0.5),
    ],
)
def test_B05_json_is_json_whatever_the_value(value: Any, expected: Any) -> None:
    file = io.StringIO()
    write_json_lines([("run", _value("kind", value))] * 2, file)
    first, second = (json.loads(line, parse_constant=_strict) for line in file.getvalue().splitlines())
    assert first == second
    assert first == {
        "run": "run",
        "tag": "train/loss, 损失",
        "step": 3,
        "wall_time": 1234.5678901,
        "kind": "kind",
        "value": expected,
    }
