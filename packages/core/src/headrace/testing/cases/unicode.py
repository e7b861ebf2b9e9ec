"""Cases of the unicode family. Faults are those of chapter 3.9 of the Unicode standard, "maximal subparts"."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase


def _texts(*values: bytes) -> np.ndarray:
    return np.array(values, object)


def _i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def _i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


_X = 0xFFFD
_WORDS = "aé€😀"
_UTF8: list[tuple[bytes, list[int], list[int]]] = [
    (_WORDS.encode(), [97, 233, 8364, 128512], [0, 1, 3, 6]),
    (b"", [], []),
    (b"x\xffy", [120, _X, 121], [0, 1, 2]),
    (b"\xc3(", [_X, 40], [0, 1]),
    (b"\xe2\x82", [_X], [0]),
    (b"\xe2\x82A", [_X, 65], [0, 2]),
    (b"\xf0\x9f\x98", [_X], [0]),
    (b"\xf0\x9fA", [_X, 65], [0, 2]),
    (b"\xed\xa0\x80", [_X] * 3, [0, 1, 2]),
    (b"\xf4\x90\x80\x80", [_X] * 4, [0, 1, 2, 3]),
    (b"\xc0\x80", [_X] * 2, [0, 1]),
    (b"\xe0\x80\x80", [_X] * 3, [0, 1, 2]),
    (b"\xf8\x88\x80\x80\x80", [_X] * 5, [0, 1, 2, 3, 4]),
    (b"\xef\xbf\xbd", [_X], [0]),
    (b"a\x00\x01b\x85", [97, 0, 1, 98, _X], [0, 1, 2, 3, 4]),
    (b"\xc2\x85\x7f", [133, 127], [0, 2]),
]
"""Bytes, their characters, and where each begins."""
_CONTROL = b"a\x00\x1f\xc2\x85\x7f"


def _decoded(
    what: str, texts: Any, encoding: str, points: Any, starts: Any = (), ends: Any = None, **attrs: Any
) -> OpCase:
    """Characters of all strings together; by default there is one string."""
    given = {"input_encoding": encoding, **attrs}
    name = f"UnicodeDecodeWithOffsets/{what}"
    if isinstance(points, str):
        return OpCase(name, "UnicodeDecodeWithOffsets", [texts], given, raises=points)
    splits = np.array([0, len(points)] if ends is None else ends, attrs.get("Tsplits", np.int64))
    expected = (splits, _i32(*points), _i64(*starts))
    return OpCase(name, "UnicodeDecodeWithOffsets", [texts], given, expected)


_ALL = _texts(*(text for text, _, _ in _UTF8))
_DECODED = [
    _decoded(
        "UTF-8",
        _ALL,
        "UTF-8",
        [point for _, points, _ in _UTF8 for point in points],
        [start for _, _, starts in _UTF8 for start in starts],
        np.cumsum([0, *(len(points) for _, points, _ in _UTF8)]),
    ),
    _decoded(
        "faults left out",
        _ALL,
        "UTF-8",
        [point for text, points, _ in _UTF8 for point in points if point != _X or text == b"\xef\xbf\xbd"],
        [
            start
            for text, points, starts in _UTF8
            for point, start in zip(points, starts, strict=True)
            if point != _X or text == b"\xef\xbf\xbd"
        ],
        np.cumsum([0, *(sum(p != _X or t == b"\xef\xbf\xbd" for p in points) for t, points, _ in _UTF8)]),
        errors="ignore",
    ),
    _decoded("strict", _texts(_WORDS.encode()), "UTF-8", _UTF8[0][1], _UTF8[0][2], errors="strict"),
    _decoded("strict, ill-formed", _texts(b"a\xff"), "UTF-8", r"a text is ill-formed", errors="strict"),
    _decoded("UTF-16-BE", _texts(_WORDS.encode("utf-16-be")), "UTF-16-BE", [97, 233, 8364, 128512], [0, 2, 4, 6]),
    _decoded(
        "UTF-16-BE, faults", _texts(b"\xdc\x00\x00a\xd8\x00\x00bc"), "UTF-16-BE", [_X, 97, _X, 98, _X], [0, 2, 4, 6, 8]
    ),
    _decoded("UTF-16-LE", _texts(_WORDS.encode("utf-16-le")), "UTF-16-LE", [97, 233, 8364, 128512], [0, 2, 4, 6]),
    _decoded("UTF-32-BE", _texts(_WORDS.encode("utf-32-be")), "UTF-32-BE", [97, 233, 8364, 128512], [0, 4, 8, 12]),
    _decoded("UTF-32-BE, faults", _texts(b"\x00\x11\x00\x00\x00\x00\x00ab"), "UTF-32-BE", [_X, 97, _X], [0, 4, 8]),
    _decoded("ASCII", _texts(b"a\xc3\xa9"), "US-ASCII", [97, _X, _X], [0, 1, 2]),
    _decoded("Latin 1", _texts(b"a\xc3\xa9"), "ISO-8859-1", [97, 0xC3, 0xA9], [0, 1, 2]),
    _decoded("no strings", np.empty(0, object), "UTF-8", [], [], [0]),
    _decoded("scalar", _texts(b"ab").reshape(()), "UTF-8", [97, 98], [0, 1]),
    _decoded("matrix", _texts(b"ab", b"c").reshape(1, 2), "UTF-8", [97, 98, 99], [0, 1, 0], [0, 2, 3]),
    # TensorFlow 2.21 ends its process on splits that are int32
    replace(_decoded("int32 splits", _texts(b"a"), "UTF-8", [97], [0], Tsplits=np.int32), oracle=False),
    _decoded("no such encoding", _texts(b"a"), "nonsense", r"the encoding is not known"),
    _decoded("no such character", _texts(b"a"), "UTF-8", r"the replacement is no character", replacement_char=0x110000),
    OpCase(
        "UnicodeDecode/controls",
        "UnicodeDecode",
        [_texts(_CONTROL, b"b\xff")],
        {"input_encoding": "UTF-8", "replace_control_characters": True, "replacement_char": 63},
        (_i64(0, 5, 7), _i32(97, 63, 63, 133, 127, 98, 63)),
    ),
    OpCase(
        "UnicodeDecode/controls left out",
        "UnicodeDecode",
        [_texts(_CONTROL, b"b\xff")],
        {"input_encoding": "UTF-8", "replace_control_characters": True, "errors": "ignore"},
        (_i64(0, 3, 4), _i32(97, 133, 127, 98)),
    ),
]


def _encoded(what: str, points: Any, splits: Any, expected: Any, encoding: str = "UTF-8", **attrs: Any) -> OpCase:
    word = {"raises": expected} if isinstance(expected, str) else {"expected": _texts(*expected)}
    inputs = [_i32(*points), np.array(splits, np.int64)]
    return OpCase(f"UnicodeEncode/{what}", "UnicodeEncode", inputs, {"output_encoding": encoding, **attrs}, **word)


_POINTS = [97, 233, 8364, 128512, 0x10FFFF]
_WRONG = [97, 0xD800, 0x110000, -1, 0xDFFF, 98, 0xFFFE, 0]
_ENCODED = [
    *(
        _encoded(
            encoding,
            _POINTS,
            [0, 2, 2, 5],
            ["aé".encode(encoding), b"", "€😀\U0010ffff".encode(encoding)],
            encoding,
        )
        for encoding in ("UTF-8", "UTF-16-BE", "UTF-32-BE")
    ),
    _encoded("no characters", _WRONG, [0, 8], [("a" + "\ufffd" * 4 + "b\ufffe\x00").encode()]),
    _encoded("another replacement", [0xD800], [0, 1], [b"?"], replacement_char=63),
    _encoded("no characters left out", _WRONG, [0, 8], ["ab\ufffe\x00".encode()], errors="ignore"),
    _encoded("no characters, strict", _WRONG, [0, 8], r"a text is ill-formed", errors="strict"),
    _encoded("no rows", [], [0], []),
    _encoded("too few values", [97], [0, 2], r"do not hold its 1 values"),
    _encoded("late", [97], [1, 1], r"do not begin at 0"),
    _encoded("unordered", [97, 98], [0, 2, 1], r"out of order"),
    _encoded("no splits", [97], [], r"do not begin at 0"),
]


def _transcoded(what: str, texts: Any, expected: Any, encoding: str = "UTF-8", **attrs: Any) -> OpCase:
    given = {"input_encoding": "UTF-8", "output_encoding": encoding, **attrs}
    word = {"raises": expected} if isinstance(expected, str) else {"expected": np.array(expected, object)}
    return OpCase(f"UnicodeTranscode/{what}", "UnicodeTranscode", [texts], given, **word)


_TRANSCODED = [
    _transcoded("to UTF-16-BE", _texts(_WORDS.encode()).reshape(()), _WORDS.encode("utf-16-be"), "UTF-16-BE"),
    _transcoded("from UTF-16-BE", _texts(_WORDS.encode("utf-16-be")), [_WORDS.encode()], input_encoding="UTF-16-BE"),
    _transcoded("faults", _texts(b"x\xffy", b"\xe2\x82A").reshape(2, 1), [["x\ufffdy".encode()], ["\ufffdA".encode()]]),
    _transcoded("faults left out", _texts(b"x\xffy", b""), [b"xy", b""], errors="ignore"),
    _transcoded(
        "controls", _texts(_CONTROL), [b"a  \xc2\x85\x7f"], replace_control_characters=True, replacement_char=32
    ),
    _transcoded("strict", _texts(b"\xff"), r"a text is ill-formed", errors="strict"),
]

CASES = [*_DECODED, *_ENCODED, *_TRANSCODED]
