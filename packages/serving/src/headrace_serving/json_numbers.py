"""Large JSON documents whose bulk is numbers, read straight into arrays.

Most of the time of a large request goes into Python objects for numbers, which become an array right after. simdjson
gives the numbers of nested lists as one buffer, without their nesting, so the nesting is checked here. It is for
documents that are right: whatever is unusual is left to the parser that knows how to tell it.
"""

from __future__ import annotations

import functools
import itertools
import math
import threading
from typing import Any

import numpy as np

from headrace_serving.json_value import JsonValue, NumberArray

MIN_BYTES = 16 << 10
"""Below this many bytes the other parser is as fast."""
_MIN_NUMBERS = 1000
_MAX_OBJECTS = 64  # a list of more is one of rows, each of them small
_MAX_RANK = 32
_PIECE_BYTES = 1 << 20  # what it makes of each stays in the processor's cache; each lets other threads have a turn
_KEPT_BYTES = 8 << 20
"""Documents up to this size are read by a parser that each thread keeps. A new one gets 12 bytes of memory for each of
the document's, which took a sixth of the parsing; what is kept for larger ones would be missed elsewhere."""


class _Unusual(Exception):
    """A document that is not of the kind that this module is for."""


class _Kept(threading.local):
    """The parser of each thread."""

    parser: Any = None


_kept = _Kept()


def parse_numbers(body: bytes | memoryview) -> JsonValue:
    """Parse a document, with its large nested lists of numbers as arrays of int64 or float64.

    Returns:
      the document; None if it is not of this kind, whatever else it is.

    Example:
      >>> parse_numbers(b'{"a": [1, 2], "a": 3}') is None
      True
    """
    simdjson = _simdjson()
    if simdjson is None:
        return None
    parser = _kept.parser if len(body) <= _KEPT_BYTES else None
    _kept.parser = None  # one whose values are still there, as after an error, cannot parse anything else
    if parser is None:
        parser = simdjson.Parser()
    try:
        lists = [0]
        parsed = _value(parser.parse(body), lists, simdjson)
    except (ValueError, TypeError, RuntimeError, RecursionError, _Unusual):
        return None
    if len(body) <= _KEPT_BYTES:
        _kept.parser = parser
    return parsed if lists[0] == _brackets(body) else None  # else one of the lists holds others at its end


def _brackets(body: bytes | memoryview) -> int:
    """Return how many lists begin; six times as fast as `bytes.count`, which took a quarter of the parsing."""
    octets = np.frombuffer(body, np.uint8)
    pieces = range(0, len(octets), _PIECE_BYTES)
    return sum(int(np.count_nonzero(octets[start : start + _PIECE_BYTES] == ord("["))) for start in pieces)


@functools.cache
def _simdjson() -> Any:
    try:
        import simdjson  # there is none for the newest versions of Python
    except ImportError:
        return None
    return simdjson


def _value(value: Any, lists: list[int], simdjson: Any) -> JsonValue:
    """Return a value as Python has it, and count the lists in it."""
    if isinstance(value, simdjson.Object):
        keys = list(value.keys())
        if len(set(keys)) != len(keys):
            raise _Unusual
        return {key: _value(value[key], lists, simdjson) for key in keys}
    if not isinstance(value, simdjson.Array):
        plain: JsonValue = value
        return plain
    first = value[0] if len(value) else None
    if isinstance(first, simdjson.Object):
        if len(value) > _MAX_OBJECTS:
            raise _Unusual
        lists[0] += 1
        return [_value(item, lists, simdjson) for item in value]
    return _array(value, lists, simdjson)


def _array(value: Any, lists: list[int], simdjson: Any) -> JsonValue:
    shape: list[int] = []
    probe, level = value, [value]
    while isinstance(probe, simdjson.Array):
        size = len(probe)
        if set(map(len, level)) != {size} or len(shape) == _MAX_RANK:
            raise _Unusual
        shape.append(size)
        lists[0] += len(level)
        probe = probe[0] if size else None
        if isinstance(probe, simdjson.Array):
            level = list(itertools.chain.from_iterable(level))
            if set(map(type, level)) != {simdjson.Array}:
                raise _Unusual
    if not isinstance(probe, (int, float)) or math.prod(shape) < _MIN_NUMBERS:
        if len(shape) > 1:
            raise _Unusual
        return list(value.as_list())
    return _numbers(value).reshape(shape)


def _numbers(value: Any) -> NumberArray:
    try:
        return np.frombuffer(value.as_buffer(of_type="i"), np.int64)
    except (TypeError, ValueError):  # at the first that is no integer, or too large for one
        return np.frombuffer(value.as_buffer(of_type="d"), np.float64)
