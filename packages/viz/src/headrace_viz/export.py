"""Write the values of runs as CSV or as JSON lines."""

from __future__ import annotations

import base64
import csv
import json
import math
from collections.abc import Iterable
from typing import Any, TextIO

import numpy as np

from headrace_viz.reading import LoggedValue

__all__ = ["write_csv", "write_json_lines"]

COLUMNS = ("run", "tag", "step", "wall_time", "value")


def write_csv(values: Iterable[tuple[str, LoggedValue]], file: TextIO) -> None:
    """Write scalars as CSV: a line of names, then a line for each.

    Args:
      values: pairs of the run's name and the value; values of other kinds are passed over.
      file: opened with `newline=""`.
    """
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for run, value in values:
        if value.kind == "scalars":
            writer.writerow([run, value.tag, value.step, repr(value.wall_time), repr(value.value)])


def write_json_lines(values: Iterable[tuple[str, LoggedValue]], file: TextIO) -> None:
    """Write values of any kind, each as an object of JSON on a line of its own.

    Numbers that JSON does not have become the texts "NaN", "Infinity" and "-Infinity"; bytes become base64.

    Args:
      values: pairs of the run's name and the value.
      file: where to.
    """
    for run, value in values:
        record = {
            "run": run,
            "tag": value.tag,
            "step": value.step,
            "wall_time": value.wall_time,
            "kind": value.kind,
            "value": json_value(value.value),
        }
        file.write(json.dumps(record, allow_nan=False, ensure_ascii=False) + "\n")


def json_value(value: Any) -> Any:
    """Return a value as JSON has it, see `write_json_lines`."""
    if isinstance(value, np.ndarray | np.generic):
        return json_value(value.tolist())
    if isinstance(value, list):
        return [json_value(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, complex):
        return [json_value(value.real), json_value(value.imag)]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
