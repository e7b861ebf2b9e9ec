"""Text in the encodings of Unicode: from bytes to characters, back, and from one encoding to another."""

from __future__ import annotations

import codecs

from headrace.errors import InvalidArgumentError
from headrace.graph import attr
from headrace.graph.op_def import InferenceContext, register_op
from headrace.types import Shape, int32, int64

__all__ = ["LAST_CHARACTER", "codec_of"]

_CODECS = ("utf-8", "utf-16-be", "utf-16-le", "utf-32-be", "utf-32-le", "ascii", "iso8859-1")
LAST_CHARACTER = 0x10FFFF

_SPLITS = attr.type(int32, int64, default=int64)
_TOLERANT = {
    "errors": attr.string("replace", allowed=["strict", "replace", "ignore"]),
    "replacement_char": attr.int(0xFFFD),
}
_READ = {"input_encoding": attr.string(), **_TOLERANT, "replace_control_characters": attr.bool(False)}
_WRITTEN = attr.string(allowed=["UTF-8", "UTF-16-BE", "UTF-32-BE"])


def codec_of(encoding: str) -> str:
    """Python's name of an encoding.

    Raises:
      InvalidArgumentError: it is none that these operations read.
    """
    try:
        name = codecs.lookup(encoding).name
    except LookupError:
        name = ""
    if name not in _CODECS:
        raise InvalidArgumentError(
            "the encoding is not known",
            expected="UTF-8, UTF-16-BE, UTF-16-LE, UTF-32-BE, UTF-32-LE, US-ASCII or ISO-8859-1",
            got=repr(encoding),
            hint="bring the text into UTF-8 before it goes into the graph",
        )
    return name


def _check_replacement(op: InferenceContext) -> None:
    character = op.attr("replacement_char")
    if not 0 <= character <= LAST_CHARACTER:
        raise InvalidArgumentError(
            "the replacement is no character",
            expected=f"0 to {LAST_CHARACTER}",
            got=str(character),
            hint="0xFFFD is the replacement character of Unicode",
        )


def _decoded(op: InferenceContext) -> list[Shape]:
    codec_of(op.attr("input_encoding"))
    _check_replacement(op)
    count = op.inputs[0].shape.num_elements
    return [Shape([None if count is None else count + 1]), Shape([None])]


@register_op(
    "UnicodeDecode",
    inputs={"input": "string"},
    outputs={"row_splits": "Tsplits", "char_values": "int32"},
    attrs={**_READ, "Tsplits": _SPLITS},
)
def _decode_shape(op: InferenceContext) -> list[Shape]:
    """The characters of each string as a ragged tensor: where the rows end `[n + 1]`, and code points."""
    return _decoded(op)


@register_op(
    "UnicodeDecodeWithOffsets",
    inputs={"input": "string"},
    outputs={"row_splits": "Tsplits", "char_values": "int32", "char_to_byte_starts": "int64"},
    attrs={**_READ, "Tsplits": _SPLITS},
)
def _decode_with_offsets_shape(op: InferenceContext) -> list[Shape]:
    """`UnicodeDecode`, and for each character the place of its first byte in its string."""
    return [*_decoded(op), Shape([None])]


@register_op(
    "UnicodeEncode",
    inputs={"input_values": "int32", "input_splits": "Tsplits"},
    outputs={"output": "string"},
    attrs={**_TOLERANT, "output_encoding": _WRITTEN, "Tsplits": _SPLITS},
)
def _encode_shape(op: InferenceContext) -> list[Shape]:
    """A string of each row of code points of a ragged tensor."""
    _check_replacement(op)
    op.inputs[0].shape.with_rank(1)
    (ends,) = op.inputs[1].shape.with_rank(1)
    return [Shape([None if ends is None else max(ends - 1, 0)])]


@register_op(
    "UnicodeTranscode",
    inputs={"input": "string"},
    outputs={"output": "string"},
    attrs={**_READ, "output_encoding": _WRITTEN},
)
def _transcode_shape(op: InferenceContext) -> list[Shape]:
    """Each string in another encoding."""
    codec_of(op.attr("input_encoding"))
    _check_replacement(op)
    return [op.inputs[0].shape]
