"""NumPy kernels of the unicode family.

Python's decoders find the same faults as the library that TensorFlow reads text with: of a sequence that breaks off,
the longest part that could have begun a character counts as one. `_mark_fault` puts a surrogate in the place of each,
which no well-formed text can hold, so that a string is decoded in one call however many faults it has.
"""

from __future__ import annotations

import codecs
from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError
from headrace.interfaces import OpContext
from headrace.kernels.ragged import check_splits
from headrace.kernels.registry import register_kernel
from headrace.ops.unicode import LAST_CHARACTER, codec_of
from headrace.types import Array

__all__: list[str] = []

_FAULT = 0xD800
"""The first surrogate; a fault of n bytes is marked by the n-th after it."""
_FIRST_AFTER_SURROGATES = 0xE000
_MARK = "headrace.mark_fault"


def _mark_fault(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return chr(_FAULT + error.end - error.start), error.end


codecs.register_error(_MARK, _mark_fault)


def _is_surrogate(points: Array) -> Array:
    return (points >= _FAULT) & (points < _FIRST_AFTER_SURROGATES)


def _ill_formed(got: Any) -> InvalidArgumentError:
    return InvalidArgumentError(
        "a text is ill-formed",
        expected="characters of Unicode",
        got=repr(got),
        hint="errors='replace' puts U+FFFD in the place of what cannot be read, errors='ignore' leaves it out",
    )


def _points(op: OpContext, text: bytes) -> tuple[Array, Array]:
    """The code points of a string, int32, and the place of the first byte of each."""
    codec = codec_of(op.attr("input_encoding"))
    marked = text.decode(codec, _MARK)
    points = np.frombuffer(marked.encode("utf-32-le", "surrogatepass"), np.int32)
    faults = _is_surrogate(points)
    if faults.any() and op.attr("errors") == "strict":
        raise _ill_formed(text[:64])
    widths = np.where(faults, points - _FAULT, _widths(points, codec))
    starts = np.cumsum(widths) - widths
    wrong = faults | (points < 0x20) if op.attr("replace_control_characters") else faults
    if op.attr("errors") == "ignore":
        return points[~wrong], starts[~wrong]
    return np.where(wrong, np.int32(op.attr("replacement_char")), points), starts


def _widths(points: Array, codec: str) -> Any:
    """How many bytes each character takes."""
    if codec == "utf-8":
        return 1 + np.searchsorted([0x80, 0x800, 0x10000], points, side="right")
    if codec.startswith("utf-16"):
        return 2 + 2 * (points > 0xFFFF)
    return 4 if codec.startswith("utf-32") else 1


def _text(points: Array, encoding: str) -> bytes:
    return points.astype("<i4").tobytes().decode("utf-32-le").encode(codec_of(encoding))


@register_kernel("UnicodeDecode")
def _decode(op: OpContext, texts: Array) -> tuple[Array, Array]:
    splits, points, _ = _decode_with_offsets(op, texts)
    return splits, points


@register_kernel("UnicodeDecodeWithOffsets")
def _decode_with_offsets(op: OpContext, texts: Array) -> tuple[Array, Array, Array]:
    rows = [_points(op, text) for text in np.reshape(texts, -1).tolist()]
    splits = np.cumsum([0, *(len(points) for points, _ in rows)]).astype(op.attr("Tsplits").array_type)
    points = np.concatenate([np.empty(0, np.int32), *(points for points, _ in rows)])
    return splits, points, np.concatenate([np.empty(0, np.int64), *(starts for _, starts in rows)])


@register_kernel("UnicodeEncode")
def _encode(op: OpContext, points: Array, splits: Array) -> Array:
    check_splits(splits, len(points))
    wrong = (points < 0) | (points > LAST_CHARACTER) | _is_surrogate(points)
    kept = np.ones(len(points), bool)
    if wrong.any():
        if op.attr("errors") == "strict":
            raise _ill_formed(int(points[wrong][0]))
        points = np.where(wrong, np.int32(op.attr("replacement_char")), points)
        kept = ~wrong if op.attr("errors") == "ignore" else kept
    result = np.empty(splits.size - 1, object)
    for row in range(result.size):
        part = slice(int(splits[row]), int(splits[row + 1]))
        result[row] = _text(points[part][kept[part]], op.attr("output_encoding"))
    return result


@register_kernel("UnicodeTranscode")
def _transcode(op: OpContext, texts: Array) -> Array:
    result = np.empty(np.shape(texts), object)
    flat = result.reshape(-1)
    for index, text in enumerate(np.reshape(texts, -1).tolist()):
        flat[index] = _text(_points(op, text)[0], op.attr("output_encoding"))
    return result
