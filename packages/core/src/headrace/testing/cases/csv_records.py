"""Cases of the csv_records family."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.types import Array


def _strings(*values: bytes) -> Array:
    return np.array(values, object)


_NUMBERS = [np.array([0.5], np.float32), np.array([7], np.int64)]
_TEXT = [np.array([b"?"], object)]


def _case(label: str, records: Array, defaults: list[Any], *expected: Any, **attrs: Any) -> OpCase:
    return OpCase(f"DecodeCSV/{label}", "DecodeCSV", [records, defaults], attrs, expected=expected)


def _refused(label: str, record: bytes, defaults: list[Any], text: str, **attrs: Any) -> OpCase:
    return OpCase(f"DecodeCSV/{label}", "DecodeCSV", [_strings(record), defaults], attrs, raises=text)


CASES = [
    _case(
        "numbers", _strings(b"1.5,2", b",", b"-1e3,-9"), _NUMBERS,
        np.array([1.5, 0.5, -1000], np.float32), np.array([2, 7, -9]),
    ),
    _case(
        "every dtype",
        _strings(b"1,2,3,4,x"),
        [np.array([0], kind) for kind in ("float32", "float64", "int32", "int64")] + _TEXT,
        *(np.array([value], kind) for value, kind in zip((1, 2, 3, 4), ("f4", "f8", "i4", "i8"), strict=True)),
        _strings(b"x"),
    ),
    _case("quotes", _strings(b'"a,b"', b'"a ""b"""', b"", b'""'), _TEXT, _strings(b"a,b", b'a "b"', b"?", b"?")),
    _case("no quotes", _strings(b'"a"'), _TEXT, _strings(b'"a"'), use_quote_delim=False),
    _case("tabs", _strings(b"1\t2"), _NUMBERS, np.array([1], np.float32), np.array([2]), field_delim="\t"),
    _case("what stands for nothing", _strings(b"NA,3"), _NUMBERS, np.array([0.5], np.float32), np.array([3]),
          na_value="NA"),
    _case("chosen columns", _strings(b"x,1,y,2,z"), _NUMBERS, np.array([1], np.float32), np.array([2]),
          select_cols=[1, 3]),
    _case("matrix", _strings(b"1", b"2").reshape(2, 1), [np.array([], np.int32)], np.array([[1], [2]], np.int32)),
    _case("scalar", np.array(b"1", object), [np.array(5, np.int32)], np.array(1, np.int32)),
    _case("no records", _strings(), _NUMBERS, np.zeros(0, np.float32), np.zeros(0, np.int64)),
    _refused("too few fields", b"1", _NUMBERS, "another number of fields"),
    _refused("too many fields", b"1,2,3", _NUMBERS, "another number of fields"),
    _refused("no number", b"a,2", _NUMBERS, "not a number"),
    _refused("too large", b"1,99999999999999999999", _NUMBERS, "not a number"),
    _refused("nothing where there must be something", b"", [np.array([], np.int32)], "must be there"),
    _refused("open quotes", b'"a', _TEXT, "no end"),
    _refused("text after quotes", b'"a"b', _TEXT, "goes on after"),
    _refused("quotes inside", b'a"b"', _TEXT, "has a quote"),
    _refused("line break", b"a\nb", _TEXT, "line break"),
    _refused("two defaults", b"a", [np.array([1, 2], np.int32)], "one value or none"),
    _refused("columns descend", b"1,2", _NUMBERS, "columns are not right", select_cols=[1, 0]),
    _refused("long delimiter", b"1,2", _NUMBERS, "not one byte", field_delim=", "),
]  # fmt: skip
