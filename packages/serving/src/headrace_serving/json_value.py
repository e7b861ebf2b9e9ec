"""JSON as TensorFlow Serving reads it: bare `NaN` and `Infinity` are numbers, and what follows the document is ignored.

orjson is tried first: it is five times faster than the standard library and refuses exactly those two things. What it
refuses goes to the standard library's parser, set to the same limits: a number beyond float64 is an error, an integer
beyond 64 bits a float.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from headrace_serving.errors import BadRequestError

NumberArray: TypeAlias = NDArray[np.int64] | NDArray[np.float64]
JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"] | NumberArray
"""An array stands for nested lists of as many integers, or of numbers at least one of which is none."""

_SHOWN_CHARACTERS = 256
_TYPE_NAMES = {
    type(None): "Null",
    int: "Number",
    float: "Number",
    str: "String",
    list: "Array",
    dict: "Object",
    np.ndarray: "Array",
}


def parse_json(body: bytes, *, tokens: bool = True, trailing: bool = True) -> JsonValue:
    """Parse a document.

    Args:
      body: UTF-8 text.
      tokens: whether the bare tokens `NaN`, `Infinity` and `-Infinity` are numbers, instead of errors.
      trailing: whether what follows the document is ignored, instead of an error.
    Raises:
      BadRequestError: empty, no JSON, nested more than some 1000 deep, or with a number that no float64 holds.
    """
    if not body:
        raise BadRequestError("JSON Parse error: The document is empty")
    try:
        parsed: JsonValue = orjson.loads(body)
    except orjson.JSONDecodeError:
        parsed = _parse_tolerantly(body, _DECODER if tokens else _STRICT_DECODER, trailing=trailing)
    return parsed


def _parse_tolerantly(body: bytes, decoder: json.JSONDecoder, *, trailing: bool) -> JsonValue:
    try:
        text = body.decode("utf-8-sig").lstrip(" \t\r\n")
        parsed: JsonValue
        parsed, end = decoder.raw_decode(text)
        if not trailing and text[end:].strip(" \t\r\n"):
            raise BadRequestError(f"JSON Parse error: Extra data at offset: {end}")
    except json.JSONDecodeError as error:
        if not text:
            raise BadRequestError("JSON Parse error: The document is empty") from error
        raise BadRequestError(f"JSON Parse error: {error.msg} at offset: {error.pos}") from error
    except UnicodeDecodeError as error:
        raise BadRequestError(f"JSON Parse error: not UTF-8 at offset: {error.start}") from error
    except RecursionError as error:
        raise BadRequestError("JSON Parse error: nested too deeply") from error
    return parsed


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise BadRequestError(f"JSON Parse error: Number too big to be stored in double: {digits[:40]}")
    return number


def _integer(digits: str) -> int | float:
    if len(digits) > 20:  # the longest 64-bit integer
        return _finite(digits)
    number = int(digits)
    return number if -(2**63) <= number < 2**64 else float(number)


def _refuse_token(token: str) -> float:
    raise BadRequestError(f"JSON Parse error: {token} is no JSON number")


_DECODER = json.JSONDecoder(parse_float=_finite, parse_int=_integer)
_STRICT_DECODER = json.JSONDecoder(parse_float=_finite, parse_int=_integer, parse_constant=_refuse_token)


def show(value: JsonValue) -> str:
    """Return a value as JSON for an error text, cut after 256 characters."""
    return _joined_up_to(_SHOWN_CHARACTERS, _Shown(ensure_ascii=False).iterencode(value))


class _Shown(json.JSONEncoder):
    def default(self, o: object) -> object:
        return o.tolist() if isinstance(o, np.ndarray) else super().default(o)


def _joined_up_to(limit: int, pieces: Iterable[str]) -> str:
    text = ""
    for piece in pieces:
        text += piece[: limit + 1]
        if len(text) > limit:
            return text[:limit] + "..."
    return text


def json_type(value: JsonValue) -> str:
    """Return the name of a value's JSON type as error texts have it."""
    if isinstance(value, bool):
        return str(value)
    return _TYPE_NAMES[type(value)]
