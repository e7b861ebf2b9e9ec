"""Cases of the strings family; the values are TensorFlow's, or Python's where its documentation refers to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.testing.op_case import OpCase
from headrace.types import Array, bfloat16

_NAN, _INF = np.nan, np.inf


def _text(*values: bytes) -> Array:
    return np.array(values, object)


def _scalar(value: bytes) -> Array:
    return np.array(value, object)


def _case(op: str, label: str, inputs: list[Any], expected: Any, **attrs: Any) -> OpCase:
    return OpCase(f"{op}/{label}", op, inputs, attrs, expected=expected)


def _wrong(op: str, label: str, inputs: list[Any], raises: str, **attrs: Any) -> OpCase:
    return OpCase(f"{op}/{label}", op, inputs, attrs, raises=raises)


def _split(label: str, rows: list[bytes], separator: bytes, pieces: list[list[bytes]], **attrs: Any) -> OpCase:
    indices = [(row, column) for row, found in enumerate(pieces) for column in range(len(found))]
    expected = (
        np.array(indices, np.int64).reshape(-1, 2),
        _text(*(piece for found in pieces for piece in found)),
        np.array([len(rows), max((len(found) for found in pieces), default=0)]),
    )
    return _case("StringSplitV2", label, [_text(*rows), _scalar(separator)], expected, **attrs)


_FLOATS = np.array([1.5, -0.0, _NAN, -_INF, 1e20, 0.1], np.float32)
_INTS = np.array([1234, -5], np.int32)
_HELLO = _scalar(b"hello")
_ACCENT = _text("héllo".encode())
_TWO = _text(b"hello", b"world")

CASES = [
    _case("StringJoin", "two", [[_text(b"a", b"b"), _text(b"x", b"y")]], _text(b"a-x", b"b-y"), separator="-"),
    _case("StringJoin", "scalar and vector", [[_text(b"a", b"b"), _scalar(b"x")]], _text(b"ax", b"bx")),
    _case("StringJoin", "scalars", [[_scalar(b"a\x00"), _scalar(b"b")]], _scalar(b"a\x00b")),
    _case("StringJoin", "one", [[_text(b"a")]], _text(b"a"), separator="-"),
    _case("StringJoin", "empty", [[_text(), _text()]], _text()),
    _wrong("StringJoin", "shapes differ", [[_text(b"a"), _text(b"b", b"c")]], "contradict each other|different shapes"),
    _split("white space", [b" a \t b\x0b\x0c\n", b"", b"c"], b"", [[b"a", b"b"], [], [b"c"]]),
    _split("separator", [b"a,b,,c", b"", b","], b",", [[b"a", b"b", b"", b"c"], [b""], [b"", b""]]),
    _split("long separator", [b"a<>b<c"], b"<>", [[b"a", b"b<c"]]),
    _split("at most two cuts", [b"a,b,,c"], b",", [[b"a", b"b", b",c"]], maxsplit=2),
    _split("at most one cut at white space", [b" a  b c "], b"", [[b"a", b"b c "]], maxsplit=1),
    _split("no cut", [b"a,b"], b",", [[b"a,b"]], maxsplit=0),
    _split("no rows", [], b"", []),
    OpCase(
        "StringSplitV2/fewer pieces than cuts",
        "StringSplitV2",
        [_text(b"a b"), _scalar(b"")],
        {"maxsplit": 2},
        expected=(np.array([[0, 0], [0, 1]]), _text(b"a", b"b"), np.array([1, 2])),
        deviation="TensorFlow adds an empty piece; it promises what Python's split gives",
    ),
    _wrong("StringSplitV2", "scalar", [_scalar(b"a"), _scalar(b",")], "rank is wrong"),
    _wrong("StringSplitV2", "several separators", [_text(b"a"), _text(b",")], "rank is wrong"),
    _case(
        "AsString",
        "floats",
        [_FLOATS],
        _text(b"1.500000", b"-0.000000", b"nan", b"-inf", b"100000002004087734272.000000", b"0.100000"),
    ),
    _case(
        "AsString",
        "precision",
        [_FLOATS],
        _text(b"1.500", b"-0.000", b"nan", b"-inf", b"100000002004087734272.000", b"0.100"),
        precision=3,
    ),
    _case(
        "AsString",
        "scientific",
        [_FLOATS],
        _text(b"1.500000e+00", b"-0.000000e+00", b"nan", b"-inf", b"1.000000e+20", b"1.000000e-01"),
        scientific=True,
    ),
    _case("AsString", "shortest", [_FLOATS], _text(b"1.5", b"-0", b"nan", b"-inf", b"1e+20", b"0.1"), shortest=True),
    _case(
        "AsString",
        "filled with zeros",
        [_FLOATS[:4]],
        _text(b"001.500000", b"-00.000000", b"       nan", b"      -inf"),
        width=10,
        fill="0",
    ),
    _case(
        "AsString",
        "sign",
        [_FLOATS[:4]],
        _text(b" +1.500000", b" -0.000000", b"      +nan", b"      -inf"),
        width=10,
        fill="+",
    ),
    _case("AsString", "integers", [_INTS], _text(b"1234", b"-5")),
    _case("AsString", "scalar", [np.int8(-128)], _scalar(b"-128")),
    _case("AsString", "uint64", [np.array([2**64 - 1], np.uint64)], _text(b"18446744073709551615")),
    _case("AsString", "sign of an unsigned number", [np.array([200], np.uint8)], _text(b"  200"), width=5, fill="+"),
    _case("AsString", "bool", [np.array([True, False])], _text(b"true", b"false"), width=10),
    _case("AsString", "complex64", [np.array([1 + 2j], np.complex64)], _text(b"(1.000000,2.000000)")),
    _case("AsString", "strings", [_text(b"ab")], _text(b"    ab"), width=6, fill="0"),
    _case("AsString", "float16", [np.array([0.1], np.float16)], _text(b"0.099976")),
    _case("AsString", "bfloat16", [np.array([0.1], bfloat16.array_type)], _text(b"0.100098")),
    _case("AsString", "empty", [np.zeros((0, 2), np.float32)], np.empty((0, 2), object)),
    _case("AsString", "O47 fill on the right", [_INTS[:1]], _text(b"1234  "), width=6, fill="-"),
    _case("AsString", "O47 fill with zeros", [_INTS[:1]], _text(b"001234"), width=6, fill="0"),
    _case("AsString", "O47 fill with spaces", [_INTS[:1]], _text(b"  1234"), width=6, fill=" "),
    *(
        _wrong("AsString", f"O47 fill {fill}", [_INTS[:1]], "attr 'fill' has a wrong value", width=6, fill=fill)
        for fill in ("n", "s", "h", "%", "00")
    ),
    _wrong("AsString", "both forms", [_FLOATS], "written in one form", scientific=True, shortest=True),
    _wrong("AsString", "precision of integers", [_INTS], "attr 'precision' is for floats", precision=3),
    _wrong("AsString", "scientific bool", [np.array([True])], "attr 'scientific' is for floats", scientific=True),
    _case("StringLength", "bytes", [_text(b"a\x00\xc3\xa9", b"")], np.array([4, 0], np.int32)),
    _case(
        "StringLength",
        "characters",
        [_text(b"a\x00\xc3\xa9", b"\xff\x80\x80a")],
        np.array([3, 2], np.int32),
        unit="UTF8_CHAR",
    ),
    _case("StringLength", "scalar", [_HELLO], np.int32(5)),
    _wrong("StringLength", "unit", [_HELLO], "attr 'unit' has a wrong value", unit="WORD"),
    _case("StringLower", "ASCII", [_text("AÉß".encode())], _text(b"a\xc3\x89\xc3\x9f")),
    _case(
        "StringLower",
        "UTF-8",
        [_text("AÉß".encode(), b"A\xff")],
        _text("aéß".encode(), b"a\xef\xbf\xbd"),
        encoding="utf-8",
    ),
    _wrong("StringLower", "encoding", [_HELLO], "attr 'encoding' has a wrong value", encoding="latin"),
    _case("StringUpper", "ASCII", [_text("aéß".encode())], _text(b"A\xc3\xa9\xc3\x9f")),
    _case("StringUpper", "UTF-8", [_text("aéß".encode())], _text("AÉSS".encode()), encoding="utf-8"),
    _case("Substr", "part", [_HELLO, np.int32(1), np.int32(3)], _scalar(b"ell")),
    _case("Substr", "from the end", [_HELLO, np.int64(-3), np.int64(2)], _scalar(b"ll")),
    _case("Substr", "beyond the end", [_HELLO, np.int32(3), np.int32(99)], _scalar(b"lo")),
    _case("Substr", "at the end", [_HELLO, np.int32(5), np.int32(2)], _scalar(b"")),
    _case("Substr", "nothing", [_HELLO, np.int32(1), np.int32(0)], _scalar(b"")),
    _case(
        "Substr", "each its own", [_TWO, np.array([1, 2], np.int32), np.array([2, 3], np.int32)], _text(b"el", b"rld")
    ),
    _case(
        "Substr",
        "broadcast",
        [_TWO, np.array([[1], [2]], np.int32), np.array([[2], [1]], np.int32)],
        np.array([[b"el", b"or"], [b"l", b"r"]], object),
    ),
    _case("Substr", "characters", [_ACCENT, np.int32(1), np.int32(2)], _text("él".encode()), unit="UTF8_CHAR"),
    _case(
        "Substr",
        "characters from the end",
        [_ACCENT, np.int32(-4), np.int32(2)],
        _text("él".encode()),
        unit="UTF8_CHAR",
    ),
    _wrong("Substr", "position after the end", [_HELLO, np.int32(6), np.int32(1)], "a position is not in its string"),
    _wrong(
        "Substr", "position before the start", [_HELLO, np.int32(-6), np.int32(1)], "a position is not in its string"
    ),
    OpCase(
        "Substr/negative length",
        "Substr",
        [_HELLO, np.int32(1), np.int32(-1)],
        raises="a part has a negative length",
        deviation="TensorFlow takes a negative length for a very large one",
    ),
    _wrong("Substr", "shapes differ", [_HELLO, np.int32(1), np.array([1], np.int32)], "pos and len differ in shape"),
    _case(
        "StringToNumber",
        "floats",
        [_text(b"1.5", b" 2 ", b"+3", b".5", b"5.", b"1e-3", b"0x10", b"1e39", b"1e-50")],
        np.array([1.5, 2, 3, 0.5, 5, 1e-3, 16, _INF, 0], np.float32),
    ),
    _case(
        "StringToNumber", "not finite", [_text(b"inf", b"-Infinity", b"NaN")], np.array([_INF, -_INF, _NAN], np.float32)
    ),
    _case("StringToNumber", "float64", [_text(b"0.1")], np.array([0.1]), out_type="float64"),
    _case(
        "StringToNumber",
        "int32",
        [_text(b"15", b" +2 ", b"-2147483648")],
        np.array([15, 2, -(2**31)], np.int32),
        out_type="int32",
    ),
    _case("StringToNumber", "int64", [_text(b"9223372036854775807")], np.array([2**63 - 1]), out_type="int64"),
    _case(
        "StringToNumber",
        "uint64",
        [_text(b"18446744073709551615")],
        np.array([2**64 - 1], np.uint64),
        out_type="uint64",
    ),
    _case("StringToNumber", "scalar", [_scalar(b"7")], np.float32(7)),
    *(
        _wrong("StringToNumber", f"not a float {text!r}", [_text(text)], "a string is not a number")
        for text in (b"", b"1e", b"1.5.2", b"1_0", b"x")
    ),
    *(
        _wrong("StringToNumber", f"not an int32 {text!r}", [_text(text)], "a string is not a number", out_type="int32")
        for text in (b"", b"2147483648", b"1.0", b"0x10", b"1e3", b"- 3", b"9" * 99)
    ),
    _wrong("StringToNumber", "not a uint32", [_text(b"-1")], "a string is not a number", out_type="uint32"),
    _case(
        "DecodeRaw", "little end first", [_text(b"\x01\x00\x02\x00")], np.array([[1, 2]], np.int16), out_type="int16"
    ),
    _case(
        "DecodeRaw",
        "big end first",
        [_text(b"\x01\x00\x02\x00")],
        np.array([[256, 512]], np.int16),
        out_type="int16",
        little_endian=False,
    ),
    _case(
        "DecodeRaw",
        "complex64, big end first",
        [_text(b"\x3f\x80\x00\x00\x40\x00\x00\x00")],
        np.array([[1 + 2j]], np.complex64),
        out_type="complex64",
        little_endian=False,
    ),
    _case("DecodeRaw", "scalar, bool", [_scalar(b"\x02\x00")], np.array([True, False]), out_type="bool"),
    _case("DecodeRaw", "bfloat16", [_text(b"\x80\x3f")], np.array([[1]], bfloat16.array_type), out_type="bfloat16"),
    _case("DecodeRaw", "empty strings", [_text(b"", b"")], np.zeros((2, 0), np.float32), out_type="float32"),
    _case("DecodeRaw", "no strings", [np.empty((2, 0), object)], np.zeros((2, 0, 0), np.float32), out_type="float32"),
    _wrong("DecodeRaw", "part of a number", [_text(b"abc")], "does not hold whole numbers", out_type="int16"),
    _wrong("DecodeRaw", "lengths differ", [_text(b"a", b"ab")], "differ in length", out_type="uint8"),
    *(
        OpCase(
            f"RegexReplace/{label}",
            "RegexReplace",
            [np.array([text], object), pattern, rewrite],
            {"replace_global": everywhere},
            expected=np.array([expected], object),
        )
        for label, text, pattern, rewrite, everywhere, expected in (
            ("all", b"a1b22", b"[0-9]+", b"#", True, b"a#b#"),
            ("first", b"a1b22", b"[0-9]+", b"#", False, b"a#b22"),
            ("groups", b"key=value", rb"(\w+)=(\w+)", rb"\2:\1 \0", True, b"value:key key=value"),
            ("a group that did not match", b"b", b"(a)?b", rb"<\1>", True, b"<>"),
            ("a backslash", b"a", b"a", rb"\\", True, b"\\"),
            ("empty matches", b"baaac", b"a*", b"-", True, b"-b-c-"),
            ("no match", b"xyz", b"a", b"b", True, b"xyz"),
            ("UTF-8", "größe".encode(), "ö.".encode(), b"_", True, b"gr_e"),
            ("class of characters", b"a1 B", b"[[:alpha:]]", b"_", True, b"_1 _"),
            ("case", b"aA", b"(?i)a", b"b", True, b"bb"),
            ("anchors", b"aa", b"^a", b"b", True, b"ba"),
        )
    ),
    OpCase(
        "RegexReplace/scalar and empty",
        "RegexReplace",
        [np.array([], object), b"a", b"b"],
        expected=np.array([], object),
    ),
    *(
        OpCase(
            f"RegexReplace/{label}",
            "RegexReplace",
            [np.array([b"a"], object), pattern, rewrite],
            raises=text,
            deviation="TensorFlow logs an error and goes on" if text.startswith("rewrite") else None,
        )
        for label, pattern, rewrite, text in (
            ("open bracket", b"[a", b"b", "regular expression is not right"),
            ("look-ahead", b"a(?=b)", b"b", "regular expression is not right"),
            ("reference", rb"(a)\1", b"b", "regular expression is not right"),
            ("group that is not there", b"(a)", rb"\2", "rewrite is not right"),
            ("end of a rewrite", b"(a)", b"b\\", "rewrite is not right"),
        )
    ),
    OpCase(
        "RegexReplace/pattern of rank 1",
        "RegexReplace",
        [np.array([b"a"], object), np.array([b"a"], object), b"b"],
        raises="pattern must be a scalar",
    ),
    OpCase(
        "RegexFullMatch/whole strings",
        "RegexFullMatch",
        [np.array([[b"abc", b"abcd"], [b"", b"xabc"]], object), b"[a-c]*"],
        expected=np.array([[True, False], [True, False]]),
    ),
    _case(
        "StaticRegexReplace",
        "all",
        [_text(b"a1b22", b"")],
        _text(b"a<1>b<22>", b""),
        pattern="([0-9]+)",
        rewrite=r"<\1>",
    ),
    _case(
        "StaticRegexReplace",
        "first",
        [_text(b"a1b22")],
        _text(b"a#b22"),
        pattern="[0-9]+",
        rewrite="#",
        replace_global=False,
    ),
    _case(
        "StaticRegexReplace", "punctuation", [_text(b"It's, ok!")], _text(b"Its ok"), pattern="[[:punct:]]", rewrite=""
    ),
    _wrong("StaticRegexReplace", "open bracket", [_HELLO], "expression is not right", pattern="[a", rewrite=""),
    _case("StaticRegexFullMatch", "whole", [_text(b"abc", b"abcd")], np.array([True, False]), pattern="[a-c]*"),
    _wrong("StaticRegexFullMatch", "look-ahead", [_HELLO], "expression is not right", pattern="a(?=b)"),
    _case("StringStrip", "ends", [_text(b" a b\t\n", b"\x0b\x0c\r", b"")], _text(b"a b", b"", b"")),
    _case("StringStrip", "other bytes stay", [_text(b"\x00a\xa0")], _text(b"\x00a\xa0")),
    _case(
        "EncodeBase64",
        "bare",
        [_text(b"a", b"ab", b"abc", b"", b"\xfb\xff")],
        _text(b"YQ", b"YWI", b"YWJj", b"", b"-_8"),
    ),
    _case("EncodeBase64", "padded", [_text(b"a", b"ab", b"abc")], _text(b"YQ==", b"YWI=", b"YWJj"), pad=True),
    _case(
        "DecodeBase64",
        "bare and padded",
        [_text(b"YQ", b"YQ==", b"YWI", b"", b"-_8")],
        _text(b"a", b"a", b"ab", b"", b"\xfb\xff"),
    ),
    _wrong("DecodeBase64", "another alphabet", [_text(b"+/8=")], "no base64|base64"),
    _wrong("DecodeBase64", "too short", [_text(b"YWJjZ")], "no base64|base64"),
    _wrong("DecodeBase64", "space", [_text(b"Y Q=")], "no base64|base64"),
]
