"""Cases of the debugging family."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.types import Array

_NAN, _INF = np.nan, np.inf
_MIXED = np.array([[1, -2, 0], [_NAN, _INF, -_INF]], np.float32)


def _text(text: str) -> Array:
    result = np.empty((), object)
    result[()] = text.encode()
    return result


def _format(label: str, values: list[Any], expected: str, **attrs: Any) -> OpCase:
    return OpCase(f"StringFormat/{label}", "StringFormat", [values], attrs, expected=_text(expected))


def _summary(mode: int, values: list[float], tensor: Array = _MIXED, **attrs: Any) -> OpCase:
    return OpCase(
        f"DebugNumericSummaryV2/mode {mode} {tensor.dtype}",
        "DebugNumericSummaryV2",
        [tensor],
        {"tensor_debug_mode": mode, "tensor_id": 7, **attrs},
        expected=np.array(values),
    )


CASES = [
    _format("no tensors", [], "plain", template="plain"),
    _format("scalars", [np.float32(1.5), np.int32(-3), np.array(True)], "1.5|-3|1",
            template="{}|{}|{}", placeholder="{}"),
    _format("vector", [np.arange(4, dtype=np.int32)], "[0 1 2 3]"),
    _format("long vector", [np.arange(10, dtype=np.int64)], "[0 1 2 ... 7 8 9]"),
    _format("all of it", [np.arange(8, dtype=np.int64)], "[0 1 2 3 4 5 6 7]", summarize=-1),
    _format("one of each end", [np.arange(8, dtype=np.int64)], "[0 ... 7]", summarize=1),
    _format("matrix", [np.array([[1, 2], [3, 4]], np.float32)], "[[1 2]\n [3 4]]"),
    _format("rank 3", [np.arange(8, dtype=np.int32).reshape(2, 2, 2)], "[[[0 1]\n  [2 3]]\n\n [[4 5]\n  [6 7]]]"),
    _format("tall matrix", [np.arange(14, dtype=np.int32).reshape(7, 2)],
            "[[0 1]\n [2 3]\n [4 5]\n ...\n [8 9]\n [10 11]\n [12 13]]"),
    _format("floats", [np.array([0.1, 1e-7, 123456.0, 1e20], np.float32)], "[0.1 1e-07 123456 1e+20]", summarize=-1),
    _format("not finite", [np.array([_INF, -_INF, _NAN])], "[inf -inf nan]"),
    _format("float64", [np.array([1 / 3, 0.1])], "[0.33333333333333331 0.1]"),
    _format("float32", [np.array([1 / 3, 0.1], np.float32)], "[0.333333343 0.1]"),
    _format("float16", [np.array([1 / 3, 2], np.float16)], "[0.333251953 2]"),
    _format("strings", [np.array([b"a", b"\\\""], object)], '["a" "\\\\\\""]'),
    _format("empty", [np.zeros(0, np.float32)], "[]"),
    OpCase(
        "StringFormat/complex", "StringFormat", [[np.array([1 + 2j], np.complex64)]], expected=_text("[(1,2)]"),
        deviation="TensorFlow shows a question mark",
    ),
    OpCase("StringFormat/places", "StringFormat", [[np.int32(1)]], {"template": "none"}, raises="one place for each"),
    _summary(2, [7, 1]),
    _summary(2, [7, 0], np.ones(3, np.int32)),
    _summary(3, [7, 6, 1, 1, 1]),
    _summary(4, [7, -1, 1, 2, 6, 1, 1, 1, 1, 1, 1]),
    _summary(5, [7, 1, 2, 6, 2, 3, 0, 0, 0, 0]),
    _summary(8, [-_INF, _INF, _NAN]),
    _summary(3, [7, 2, 0, 1, 0], np.array([1, _INF]), output_dtype="float64"),
    OpCase(
        "DebugNumericSummaryV2/no such mode",
        "DebugNumericSummaryV2",
        [_MIXED],
        {"tensor_debug_mode": 1},
        raises="no such mode",
    ),
]  # fmt: skip
