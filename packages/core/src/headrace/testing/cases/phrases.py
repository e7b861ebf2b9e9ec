"""Cases of the phrases family."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase


def _text(*values: Any) -> np.ndarray:
    return np.array(values, object)


def _i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


_MATRIX = _text([b"a", b"b"], [b"c", b"d"], [b"e", b"f"])
_CUBE = _text([[b"a", b"b"], [b"c", b"d"]], [[b"e", b"f"], [b"g", b"h"]])
_LETTERS = _text(b"a", b"b", b"c", b"d", b"e")


def _reduced(what: str, texts: Any, axes: Any, expected: Any, **attrs: Any) -> OpCase:
    word = {"raises": expected} if isinstance(expected, str) else {"expected": np.array(expected, object)}
    return OpCase(f"ReduceJoin/{what}", "ReduceJoin", [texts, np.array(axes, np.int32)], attrs, **word)


_REDUCED = [
    _reduced("rows", _MATRIX, 0, [b"ace", b"bdf"]),
    _reduced("columns first", _MATRIX, [1, 0], b"a-b-c-d-e-f", separator="-"),
    _reduced("rows first", _MATRIX, [0, 1], [[b"a-c-e-b-d-f"]], separator="-", keep_dims=True),
    _reduced("negative axis", _MATRIX, -1, [[b"ab"], [b"cd"], [b"ef"]], keep_dims=True),
    _reduced("axes apart", _CUBE, [2, 0], [b"a,b,e,f", b"c,d,g,h"], separator=","),
    _reduced("no axes", _MATRIX, [], _MATRIX),
    _reduced("scalar", _text(b"a").reshape(()), [], b"a"),
    _reduced("of nothing", np.empty((0, 2), object), 0, [b"", b""]),
    _reduced("nothing", np.empty((2, 0), object), 0, np.empty(0, object)),
    _reduced("not ASCII", _text(b"\xff", b"\x00"), 0, b"\xff\xc3\xa9\x00", separator="é"),
    _reduced("no such axis", _MATRIX, 2, r"axis is out of range"),
    _reduced("one axis twice", _MATRIX, [0, -2], r"an axis is to be joined twice"),
]


def _joined(what: str, texts: Any, ids: Any, count: int, expected: Any) -> OpCase:
    inputs = [texts, np.array(ids, np.int32), np.int32(count)]
    word = {"raises": expected} if isinstance(expected, str) else {"expected": np.array(expected, object)}
    return OpCase(f"UnsortedSegmentJoin/{what}", "UnsortedSegmentJoin", inputs, {"separator": ","}, **word)


_JOINED = [
    _joined("words", _LETTERS, [1, 0, 1, 0, 0], 3, [b"b,d,e", b"a,c", b""]),
    _joined("rows", _MATRIX, [1, 0, 1], 3, [[b"c", b"d"], [b"a,e", b"b,f"], [b"", b""]]),
    _joined("elements", _MATRIX, [[1, 0], [1, 1], [0, 0]], 2, [b"b,e,f", b"a,c,d"]),
    _joined("nothing", np.empty((0, 2), object), [], 2, [[b"", b""], [b"", b""]]),
    _joined("too large", _LETTERS, [1, 0, 1, 5, 0], 3, r"id is out of range[^$]*0 <= id < 3"),
    _joined("negative", _LETTERS, [1, 0, 1, -1, 0], 3, r"id is out of range"),
    _joined("ids of another length", _LETTERS, [1, 0, 1], 3, r"ids must cover the leading axes"),
    _joined("scalar", _text(b"a").reshape(()), 0, 2, r"ids must cover the leading axes"),
    _joined("negative number", _LETTERS, [0] * 5, -3, r"a size is negative"),
]


def _ngrams(
    what: str, splits: Any, widths: list[int], expected: Any, *ends: int, words: Any = _LETTERS, **attrs: Any
) -> OpCase:
    plain = {"separator": "|", "left_pad": "", "right_pad": "", "pad_width": 0, "preserve_short_sequences": False}
    given = {**plain, "ngram_widths": widths, **attrs}
    name = f"StringNGrams/{what}"
    if isinstance(expected, str):
        return OpCase(name, "StringNGrams", [words, splits], given, raises=expected)
    texts = np.array([item.encode() for item in expected], object)
    return OpCase(name, "StringNGrams", [words, splits], given, (texts, np.array(ends, splits.dtype)))


_ROWS, _GAP = _i64(0, 3, 5), _i64(0, 3, 3, 5)
_PADS: dict[str, Any] = {"left_pad": "L", "right_pad": "R"}
_FULL = (
    "L|L|L|a L|L|a|b L|a|b|c a|b|c|R b|c|R|R c|R|R|R L|L|L|R L|L|R|R L|R|R|R L|L|L|d L|L|d|e L|d|e|R d|e|R|R e|R|R|R"
)

_NGRAMS = [
    _ngrams("pairs", _ROWS, [2], ["a|b", "b|c", "d|e"], 0, 2, 3),
    _ngrams("several widths", _ROWS, [1, 2, 3], ["a", "b", "c", "a|b", "b|c", "a|b|c", "d", "e", "d|e"], 0, 6, 9),
    _ngrams("padded", _ROWS, [3], ["L|a|b", "a|b|c", "b|c|R", "L|d|e", "d|e|R"], 0, 3, 5, pad_width=1, **_PADS),
    _ngrams("padded as far as it goes", _GAP, [4], _FULL.split(), 0, 6, 9, 14, pad_width=-1, **_PADS),
    _ngrams("no more pads than words beside", _GAP, [4], _FULL.split(), 0, 6, 9, 14, pad_width=10, **_PADS),
    _ngrams("short rows stay", _GAP, [4], ["a|b|c", "d|e"], 0, 1, 1, 2, preserve_short_sequences=True),
    _ngrams(
        "short rows stay padded",
        _i64(0, 1, 5),
        [4],
        ["L|a|R", "L|b|c|d", "b|c|d|e", "c|d|e|R"],
        0,
        1,
        4,
        pad_width=1,
        preserve_short_sequences=True,
        **_PADS,
    ),
    _ngrams("no widths", _ROWS, [], [], 0, 0, 0),
    _ngrams("no words", _i64(0), [2], [], 0, words=np.empty(0, object)),
    _ngrams("no rows", _i64(), [2], [], words=np.empty(0, object)),
    _ngrams("int32 splits", np.array([0, 5], np.int32), [5], ["a|b|c|d|e"], 0, 1),
    _ngrams("width 0", _ROWS, [0], r"a sequence has no words"),
    _ngrams("too few values", _i64(0, 6), [2], r"do not hold its 5 values"),
    _ngrams("late", _i64(1, 5), [2], r"do not begin at 0"),
    _ngrams("unordered", _i64(0, 3, 2, 5), [2], r"out of order"),
]

CASES = [*_REDUCED, *_JOINED, *_NGRAMS]
