"""Kernels of the strings family: arrays of objects, one Python call per string."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError, OutOfRangeError
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.types import Array, DType

__all__ = ["parse_number"]

_INTEGER = re.compile(rb"[+-]?[0-9]+")
_FLOAT = re.compile(rb"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf|infinity|nan)", re.IGNORECASE)
_HEXADECIMAL = re.compile(rb"[+-]?0x([0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(p[+-]?[0-9]+)?", re.IGNORECASE)


def _each(function: Callable[..., Any], *arrays: Array, dtype: Any = object) -> Array:
    """The function of the elements at each position; arrays broadcast."""
    given = np.broadcast_arrays(*arrays)
    result = np.empty(given[0].shape, dtype)
    flat = result.reshape(-1)
    for index, items in enumerate(zip(*(array.reshape(-1).tolist() for array in given), strict=True)):
        flat[index] = function(*items)
    return result


@register_kernel("StringJoin")
def _join(op: OpContext, inputs: list[Array]) -> Array:
    separator = op.attr("separator")
    glue = separator.encode() if isinstance(separator, str) else separator
    return _each(lambda *parts: glue.join(parts), *inputs)


@register_kernel("StringSplitV2")
def _split(op: OpContext, text: Array, separator: Array) -> tuple[Array, Array, Array]:
    cut = separator.item() or None
    rows = [row.split(cut, op.attr("maxsplit")) for row in text.tolist()]
    indices = [(row, column) for row, pieces in enumerate(rows) for column in range(len(pieces))]
    values = np.array([piece for pieces in rows for piece in pieces], object)
    widest = max((len(pieces) for pieces in rows), default=0)
    return np.array(indices, np.int64).reshape(-1, 2), values, np.array([len(rows), widest], np.int64)


@register_kernel("AsString")
def _as_string(op: OpContext, x: Array) -> Array:
    dtype = op.inputs[0].dtype
    if dtype.kind == "bool":
        return _each(lambda value: b"true" if value else b"false", x)
    if dtype.kind == "string":
        text = _format(op, b"s")
        return _each(lambda value: text % value, x)
    if dtype.is_integer:
        number = _format(op, b"d", signed=dtype.kind == "int")
        return _each(lambda value: number % value, x)
    write = _float_writer(op)
    if dtype.is_complex:
        return _each(lambda value: b"(%b,%b)" % (write(value.real), write(value.imag)), x)
    return _each(write, x.astype(np.float64))


def _format(op: OpContext, conversion: bytes, *, signed: bool = True, zeros: bool = True) -> bytes:
    """A format of printf; the fill was checked when the graph was built."""
    fill, width, precision = op.attr("fill"), op.attr("width"), op.attr("precision")
    unused = ("0" if not zeros or conversion == b"s" else "") + ("" if signed else "+")
    flag = "" if fill in unused else fill
    size = f"{width}" if width > -1 else ""
    digits = f".{precision}" if precision > -1 else ""
    return b"%" + f"{flag}{size}{digits}".encode() + conversion


def _float_writer(op: OpContext) -> Callable[[float], bytes]:
    """Infinities and NaN are never filled with zeros."""
    conversion = b"g" if op.attr("shortest") else b"e" if op.attr("scientific") else b"f"
    finite, other = _format(op, conversion), _format(op, conversion, zeros=False)
    return lambda value: (finite if np.isfinite(value) else other) % value


def _characters(text: bytes) -> list[bytes]:
    """The characters of UTF-8: each byte that continues one belongs to the byte before it."""
    return re.findall(rb"[\x00-\xff][\x80-\xbf]*", text, re.DOTALL)


@register_kernel("StringLength")
def _length(op: OpContext, text: Array) -> Array:
    if op.attr("unit") == "BYTE":
        return _each(len, text, dtype=np.int32)
    return _each(lambda value: sum(byte & 0xC0 != 0x80 for byte in value), text, dtype=np.int32)


@register_kernel("StringLower")
def _lower(op: OpContext, text: Array) -> Array:
    if not op.attr("encoding"):
        return _each(bytes.lower, text)
    return _each(lambda value: value.decode("utf-8", "replace").lower().encode(), text)


@register_kernel("StringUpper")
def _upper(op: OpContext, text: Array) -> Array:
    if not op.attr("encoding"):
        return _each(bytes.upper, text)
    return _each(lambda value: value.decode("utf-8", "replace").upper().encode(), text)


@register_kernel("Substr")
def _substr(op: OpContext, text: Array, position: Array, size: Array) -> Array:
    def part(value: bytes, start: int, count: int) -> bytes:
        units: Any = value if op.attr("unit") == "BYTE" else _characters(value)
        if not -len(units) <= start <= len(units):
            raise OutOfRangeError(
                "a position is not in its string",
                expected=f"at most {len(units)} from either end",
                got=str(start),
                hint="hr.minimum(position, hr.strings.length(x, unit)) stays inside",
            )
        if count < 0:
            raise InvalidArgumentError(
                "a part has a negative length",
                expected="len >= 0",
                got=str(count),
                hint="give how many to take, not where to stop; a large len takes the rest",
            )
        first = start + len(units) if start < 0 else start
        return b"".join(units[first : first + count]) if isinstance(units, list) else units[first : first + count]

    return _each(part, text, position, size)


def parse_number(text: bytes, dtype: DType) -> float:
    """The number that a string says.

    Raises:
      InvalidArgumentError: it says none, or one that the dtype does not hold.
    """
    return _integer_parser(dtype.array_type)(text) if dtype.is_integer else _parse_float(text)


@register_kernel("StringToNumber")
def _to_number(op: OpContext, text: Array) -> Array:
    dtype = op.attr("out_type")
    parse = _integer_parser(dtype.array_type) if dtype.is_integer else _parse_float
    return _each(parse, text, dtype=np.float64 if dtype.is_floating else dtype.array_type).astype(dtype.array_type)


def _integer_parser(dtype: np.dtype[Any]) -> Callable[[bytes], int]:
    bounds = np.iinfo(dtype)

    def parse(value: bytes) -> int:
        stripped = value.strip()
        if not _INTEGER.fullmatch(stripped) or len(stripped) > 64 or not bounds.min <= int(stripped) <= bounds.max:
            raise _not_a_number(value, str(dtype))
        return int(stripped)

    return parse


def _parse_float(value: bytes) -> float:
    stripped = value.strip()
    if _FLOAT.fullmatch(stripped):
        return float(stripped)
    if _HEXADECIMAL.fullmatch(stripped):
        return float.fromhex(stripped.decode())
    raise _not_a_number(value, "float")


def _not_a_number(value: bytes, wanted: str) -> InvalidArgumentError:
    shown = value if len(value) <= 40 else value[:37] + b"..."
    return InvalidArgumentError(
        "a string is not a number",
        expected=f"a number of type {wanted}",
        got=repr(shown),
        hint="hr.strings.substr cuts off what is beside the number; dtype=hr.float64 reads decimals",
    )


@register_kernel("DecodeRaw")
def _decode_raw(op: OpContext, text: Array) -> Array:
    dtype = op.attr("out_type").array_type
    values = text.reshape(-1).tolist()
    lengths = {len(value) for value in values} or {0}
    if len(lengths) > 1:
        raise InvalidArgumentError(
            "the strings to decode differ in length",
            expected="one length",
            got=str(sorted(lengths)),
            hint="pad them to one length, or decode them one by one",
        )
    (length,) = lengths
    if length % dtype.itemsize:
        raise InvalidArgumentError(
            "a string does not hold whole numbers",
            expected=f"a multiple of {dtype.itemsize} bytes",
            got=f"{length} bytes",
            hint="decode with the dtype that they were written in; hr.uint8 gives the single bytes",
        )
    raw = np.frombuffer(b"".join(values), np.uint8)
    if dtype == np.bool_:
        return np.asarray(raw != 0).reshape(*text.shape, length)
    part = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
    ordered = raw if op.attr("little_endian") else raw.reshape(-1, part)[:, ::-1]
    return np.frombuffer(ordered.tobytes(), dtype).reshape(*text.shape, length // dtype.itemsize).copy()


_OUTSIDE_RE2 = re.compile(r"(?<!\\)(?:\\\\)*(?:\(\?(?:[=!]|<[=!]|#|\()|\\[1-9])")
"""Look-around, comments, conditions and references to groups: RE2 has none of them, so that it never backtracks."""
_CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": "\\x00-\\x7F", "blank": "\\t ", "cntrl": "\\x00-\\x1F\\x7F",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\v\\f\\r ", "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _pattern(value: Array) -> re.Pattern[str]:
    """The expression in Python's syntax; classes of characters are those of ASCII in both."""
    text = _text(np.asarray(value).item())
    converted = re.sub(r"\[:(\w+):\]", lambda found: _CLASSES.get(found[1], found[0]), text).replace(r"\z", r"\Z")
    try:
        if _OUTSIDE_RE2.search(text):
            raise re.error("look-around and references to groups are not supported")
        return re.compile(converted, re.ASCII)
    except re.error as error:
        raise InvalidArgumentError(
            "the regular expression is not right",
            expected="what RE2 and Python's re have in common",
            got=f"{text!r}: {error}",
            hint="escape special characters with a backslash; write (?:...) for a group without number",
        ) from error


def _rewriting(rewrite: Array, groups: int) -> Callable[[re.Match[str]], str]:
    text = _text(np.asarray(rewrite).item())
    pieces = re.split(r"\\(.?)", text, flags=re.DOTALL)
    for escaped in pieces[1::2]:
        if not (escaped == "\\" or (escaped.isdigit() and int(escaped) <= groups)):
            raise InvalidArgumentError(
                "the rewrite is not right",
                expected=f"\\\\0 to \\\\{groups} for the groups of the pattern, and two backslashes for one",
                got=repr(text),
                hint="put the part of the pattern that you mean in parentheses",
            )

    def replace(found: re.Match[str]) -> str:
        parts = [
            piece if index % 2 == 0 else piece if piece == "\\" else found.group(int(piece)) or ""
            for index, piece in enumerate(pieces)
        ]
        return "".join(parts)

    return replace


@register_kernel("StringStrip")
def _strip(op: OpContext, text: Array) -> Array:
    return _each(bytes.strip, text)


@register_kernel("EncodeBase64")
def _encode_base64(op: OpContext, text: Array) -> Array:
    end = b"" if op.attr("pad") else b"="
    return _each(lambda value: base64.urlsafe_b64encode(value).rstrip(end), text)


@register_kernel("DecodeBase64")
def _decode_base64(op: OpContext, text: Array) -> Array:
    def decoded(value: bytes) -> bytes:
        bare = value.removesuffix(b"=").removesuffix(b"=") if len(value) % 4 == 0 else value
        if not re.fullmatch(rb"[\w-]*", bare) or len(bare) % 4 == 1:
            raise InvalidArgumentError(
                "a string is no base64",
                expected="letters, digits, - and _, with or without = at the end",
                got=f"{value[:40]!r} of {len(value)} bytes",
                hint="the base64 with + and / is another one: hr.strings.regex_replace changes them to - and _",
            )
        return base64.urlsafe_b64decode(bare + b"=" * (-len(bare) % 4))

    return _each(decoded, text)


@register_kernel("StaticRegexReplace")
def _static_regex_replace(op: OpContext, text: Array) -> Array:
    pattern, rewrite = (np.array(op.attr(name).encode(), object) for name in ("pattern", "rewrite"))
    return _regex_replace(op, text, pattern, rewrite)


@register_kernel("StaticRegexFullMatch")
def _static_regex_full_match(op: OpContext, text: Array) -> Array:
    return _regex_full_match(op, text, np.array(op.attr("pattern").encode(), object))


@register_kernel("RegexReplace")
def _regex_replace(op: OpContext, text: Array, pattern: Array, rewrite: Array) -> Array:
    expression = _pattern(pattern)
    replace = _rewriting(rewrite, expression.groups)
    most = None if op.attr("replace_global") else 1

    def replaced(value: bytes) -> bytes:
        given, parts, last, count = _text(value), [], 0, 0
        previous = -1
        for found in expression.finditer(given):
            if count == most:
                break
            if found.start() == found.end() == previous:
                continue  # nothing matches again where a match has just ended
            parts += [given[last : found.start()], replace(found)]
            previous = last = found.end()
            count += 1
        return "".join([*parts, given[last:]]).encode("utf-8", "surrogateescape")

    return _each(replaced, text)


@register_kernel("RegexFullMatch")
def _regex_full_match(op: OpContext, text: Array, pattern: Array) -> Array:
    expression = _pattern(pattern)
    return _each(lambda value: expression.fullmatch(_text(value)) is not None, text, dtype=np.bool_)
