"""Strings (`hr.strings`): joining, splitting, parsing, formatting and decoding. Strings are bytes of any length."""

from __future__ import annotations

from collections.abc import Sequence

from headrace import types
from headrace.errors import AttrError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.csv_records import decode_csv
from headrace.ops.debugging import format_tensors as format
from headrace.ops.hashing import to_hash_bucket
from headrace.ops.shapes import check_scalar
from headrace.types import DTypeLike, Shape, as_dtype, broadcast_shapes, float32, string

__all__ = [
    "as_string",
    "decode_csv",
    "decode_raw",
    "format",
    "join",
    "length",
    "lower",
    "regex_full_match",
    "regex_replace",
    "split",
    "substr",
    "to_hash_bucket",
    "to_number",
    "upper",
]

_UNIT = attr.string("BYTE", allowed=["BYTE", "UTF8_CHAR"])
_ENCODING = attr.string("", allowed=["", "utf-8"])
_INPUT = {"input": "string"}
_OUTPUT = {"output": "string"}


@register_op(
    "StringJoin",
    inputs={"inputs": "N * string"},
    outputs=_OUTPUT,
    attrs={"N": attr.int(minimum=1), "separator": attr.string("")},
)
def _join_shape(op: InferenceContext) -> list[Shape]:
    """The strings at each position of several tensors joined; scalars join everywhere."""
    shapes = [item.shape for item in op.inputs]
    result = Shape([])
    for shape in shapes:
        if shape.rank is None:
            return [Shape()]
        if shape.rank:
            result = shape if result.rank == 0 else result.merge(shape)
    return [result]


@register_op(
    "StringSplitV2",
    inputs={"input": "string", "sep": "string"},
    outputs={"indices": "int64", "values": "string", "shape": "int64"},
    attrs={"maxsplit": attr.int(-1)},
)
def _split_shape(op: InferenceContext) -> list[Shape]:
    """The pieces of each string of a vector, as a sparse matrix: positions `[n, 2]`, pieces `[n]`, shape `[2]`."""
    op.inputs[0].shape.with_rank(1)
    op.inputs[1].shape.with_rank(0)
    return [Shape([None, 2]), Shape([None]), Shape([2])]


@register_op(
    "AsString",
    inputs={"input": "T"},
    outputs=_OUTPUT,
    attrs={
        "T": attr.type(*types.COMPUTABLE, string),
        "precision": attr.int(-1),
        "scientific": attr.bool(False),
        "shortest": attr.bool(False),
        "width": attr.int(-1),
        "fill": attr.string(""),
    },
)
def _as_string_shape(op: InferenceContext) -> list[Shape]:
    """Each number as C's printf writes it: `%f`, `%e` (scientific) or `%g` (shortest), and `%d`; or true, false."""
    _check_format(op)
    return [op.inputs[0].shape]


def _check_format(op: InferenceContext) -> None:
    """Only the flags of printf may fill: a letter would become a conversion of its own."""
    dtype, fill = op.inputs[0].dtype, op.attr("fill")
    if fill not in ("", " ", "0", "-", "+", "#"):
        raise AttrError(
            "attr 'fill' has a wrong value",
            expected="one of ' ', '0', '-', '+', '#', or none",
            got=repr(fill),
            hint="put other characters in front with hr.strings.join",
        )
    if op.attr("scientific") and op.attr("shortest"):
        raise AttrError(
            "a number is written in one form",
            expected="scientific or shortest",
            got="both",
            hint="leave one out: shortest picks the form for each number, scientific is always an exponent",
        )
    if dtype.is_integer or dtype is types.bool:
        for name, default in (("precision", -1), ("scientific", False), ("shortest", False)):
            if op.attr(name) != default:
                raise AttrError(
                    f"attr '{name}' is for floats",
                    expected=f"{default} for {dtype}",
                    got=str(op.attr(name)),
                    hint=f"leave {name} out, or hr.astype(x, hr.float32) first",
                )


@register_op("StringLength", inputs=_INPUT, outputs={"output": "int32"}, attrs={"unit": _UNIT})
def _length_shape(op: InferenceContext) -> list[Shape]:
    """The length of each string in bytes, or in characters of UTF-8."""
    return [op.inputs[0].shape]


@register_op("StringLower", inputs=_INPUT, outputs=_OUTPUT, attrs={"encoding": _ENCODING})
def _lower_shape(op: InferenceContext) -> list[Shape]:
    """Each string in lower case: the letters of ASCII, or with `utf-8` all."""
    return [op.inputs[0].shape]


@register_op("StringUpper", inputs=_INPUT, outputs=_OUTPUT, attrs={"encoding": _ENCODING})
def _upper_shape(op: InferenceContext) -> list[Shape]:
    """Each string in upper case: the letters of ASCII, or with `utf-8` all."""
    return [op.inputs[0].shape]


@register_op(
    "Substr",
    inputs={"input": "string", "pos": "T", "len": "T"},
    outputs=_OUTPUT,
    attrs={"T": attr.type(types.int32, types.int64), "unit": _UNIT},
)
def _substr_shape(op: InferenceContext) -> list[Shape]:
    """`len` bytes or characters of each string from `pos` on, or up to its end; `pos` below 0 counts from the end."""
    text, position, size = (item.shape for item in op.inputs)
    if not position.is_compatible_with(size):
        raise ShapeError(
            "pos and len differ in shape",
            expected=str(position),
            got=str(size),
            hint="hr.broadcast_to one to the shape of the other; two scalars serve all strings",
        )
    return [broadcast_shapes(text, position.merge(size))]


@register_op(
    "StringToNumber",
    inputs={"string_tensor": "string"},
    outputs={"output": "out_type"},
    attrs={
        "out_type": attr.type(
            types.float32, types.float64, types.int32, types.int64, types.uint32, types.uint64, default=float32
        )
    },
)
def _to_number_shape(op: InferenceContext) -> list[Shape]:
    """The number that each string writes, spaces around it allowed."""
    return [op.inputs[0].shape]


@register_op(
    "DecodeRaw",
    inputs={"bytes": "string"},
    outputs={"output": "out_type"},
    attrs={
        "out_type": attr.type(
            types.float16, types.bfloat16, types.float32, types.float64, types.int8, types.int16, types.int32,
            types.int64, types.uint8, types.uint16, types.complex64, types.complex128, types.bool,
        ),
        "little_endian": attr.bool(True),
    },
)  # fmt: skip
def _decode_raw_shape(op: InferenceContext) -> list[Shape]:
    """The bytes of each string as numbers along one more axis; all strings have one length."""
    return [op.inputs[0].shape + Shape([None])]


@register_op(
    "RegexReplace",
    inputs={"input": "string", "pattern": "string", "rewrite": "string"},
    outputs=_OUTPUT,
    attrs={"replace_global": attr.bool(True)},
)
def _regex_replace_shape(op: InferenceContext) -> list[Shape]:
    """Each string with what matches a regular expression replaced: everywhere, or the first time only."""
    check_scalar(op.inputs[1].shape, "pattern")
    check_scalar(op.inputs[2].shape, "rewrite")
    return [op.inputs[0].shape]


@register_op("RegexFullMatch", inputs={"input": "string", "pattern": "string"}, outputs={"output": "bool"})
def _regex_full_match_shape(op: InferenceContext) -> list[Shape]:
    """Whether a regular expression matches the whole of each string."""
    check_scalar(op.inputs[1].shape, "pattern")
    return [op.inputs[0].shape]


@register_op(
    "StaticRegexReplace",
    inputs=_INPUT,
    outputs=_OUTPUT,
    attrs={"pattern": attr.string(), "rewrite": attr.string(), "replace_global": attr.bool(True)},
)
def _static_regex_replace_shape(op: InferenceContext) -> list[Shape]:
    """`RegexReplace` with a regular expression that never changes."""
    return [op.inputs[0].shape]


@register_op("StaticRegexFullMatch", inputs=_INPUT, outputs={"output": "bool"}, attrs={"pattern": attr.string()})
def _static_regex_full_match_shape(op: InferenceContext) -> list[Shape]:
    """`RegexFullMatch` with a regular expression that never changes."""
    return [op.inputs[0].shape]


@register_op("StringStrip", inputs=_INPUT, outputs=_OUTPUT)
def _strip_shape(op: InferenceContext) -> list[Shape]:
    """Each string without the white space of ASCII at both ends."""
    return [op.inputs[0].shape]


@register_op("EncodeBase64", inputs=_INPUT, outputs=_OUTPUT, attrs={"pad": attr.bool(False)})
def _encode_base64_shape(op: InferenceContext) -> list[Shape]:
    """Each string in the base64 that is safe in addresses, `-` and `_` for 62 and 63, with `=` at the end if `pad`."""
    return [op.inputs[0].shape]


@register_op("DecodeBase64", inputs=_INPUT, outputs=_OUTPUT)
def _decode_base64_shape(op: InferenceContext) -> list[Shape]:
    """The bytes that strings in the base64 of `EncodeBase64` stand for; `=` at the end may be there or not."""
    return [op.inputs[0].shape]


def regex_replace(
    x: TensorLike, pattern: TensorLike, rewrite: TensorLike, *, replace_all: bool = True, name: str | None = None
) -> Tensor:
    r"""Each string with what matches a regular expression replaced.

    Args:
      x: string, any shape; taken as UTF-8, bytes that are not stay as they are.
      pattern: string scalar, in the syntax that RE2 and Python share: no look-around, no references to groups.
      rewrite: string scalar; `\1` to `\9` stand for the groups of the match, `\0` for all of it.
      replace_all: every match; else the first.
      name: the operation's name.
    Returns:
      string of the same shape.
    Raises:
      InvalidArgumentError: in the step, if the pattern or the rewrite is not right.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.strings.regex_replace(["a1b22"], "([0-9]+)", r"<\1>")
      >>> print(hr.Session(graph).run(y))
      [b'a<1>b<22>']
    """
    result: Tensor = apply_op("RegexReplace", x, pattern, rewrite, replace_global=replace_all, name=name)
    return result


def regex_full_match(x: TensorLike, pattern: TensorLike, *, name: str | None = None) -> Tensor:
    """Whether a regular expression matches the whole of each string; see `regex_replace`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.strings.regex_full_match(["abc", "abcd"], "[a-c]*")
      >>> print(hr.Session(graph).run(y))
      [ True False]
    """
    result: Tensor = apply_op("RegexFullMatch", x, pattern, name=name)
    return result


def join(inputs: Sequence[TensorLike], separator: str = "", *, name: str | None = None) -> Tensor:
    """The strings at each position of several tensors, joined.

    Args:
      inputs: string tensors of one shape, or scalars, which join at every position.
      separator: put between them.
      name: the operation's name.
    Returns:
      string, the common shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     names = hr.strings.join([["a", "b"], "x"], separator="-")
      >>> print(hr.Session(graph).run(names))
      [b'a-x' b'b-x']
    """
    result: Tensor = apply_op("StringJoin", inputs, separator=separator, name=name)
    return result


def split(
    x: TensorLike, separator: TensorLike = "", maxsplit: int = -1, *, name: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The pieces of each string, cut as Python's `str.split` cuts.

    Args:
      x: string `[rows]`.
      separator: where to cut; empty means at runs of white space.
      maxsplit: how often to cut at most, -1 for no limit.
      name: the operation's name.
    Returns:
      A sparse matrix: int64 positions `[n, 2]`, the pieces `[n]`, and int64 `[2]`, the rows and the most pieces of one.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     indices, pieces, shape = hr.strings.split(["to be", "or"])
      >>> print(hr.Session(graph).run(pieces))
      [b'to' b'be' b'or']
    """
    indices, pieces, shape = apply_op("StringSplitV2", x, separator, maxsplit=maxsplit, name=name)
    return indices, pieces, shape


def as_string(
    x: TensorLike,
    *,
    precision: int = -1,
    scientific: bool = False,
    shortest: bool = False,
    width: int = -1,
    fill: str = "",
    name: str | None = None,
) -> Tensor:
    """Each number as text.

    Args:
      x: numeric, bool or string, any shape.
      precision: digits after the point of floats, -1 for six.
      scientific: write floats with an exponent.
      shortest: write floats in the shorter of the two forms.
      width: the least number of characters, -1 for none; bool ignores it.
      fill: `"0"` fills with zeros, `"-"` on the right, `"+"` writes the sign; empty fills with spaces.
      name: the operation's name.
    Returns:
      string, the same shape.
    Raises:
      AttrError: another fill, or an option that is not for the dtype.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     text = hr.strings.as_string([1.5, -2.0], precision=2)
      >>> print(hr.Session(graph).run(text))
      [b'1.50' b'-2.00']
    """
    attrs = {"precision": precision, "scientific": scientific, "shortest": shortest, "width": width, "fill": fill}
    result: Tensor = apply_op("AsString", x, **attrs, name=name)
    return result


def length(x: TensorLike, unit: str = "BYTE", *, name: str | None = None) -> Tensor:
    """The length of each string.

    Args:
      x: string, any shape.
      unit: `"BYTE"` or `"UTF8_CHAR"`.
      name: the operation's name.
    Returns:
      int32, the same shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     sizes = hr.strings.length(["é", "ab"])
      >>> print(hr.Session(graph).run(sizes))
      [2 2]
    """
    result: Tensor = apply_op("StringLength", x, unit=unit, name=name)
    return result


def lower(x: TensorLike, encoding: str = "", *, name: str | None = None) -> Tensor:
    """Each string in lower case.

    Args:
      x: string, any shape.
      encoding: empty for the letters of ASCII only, or `"utf-8"`.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     text = hr.strings.lower(["Ab"])
      >>> print(hr.Session(graph).run(text))
      [b'ab']
    """
    result: Tensor = apply_op("StringLower", x, encoding=encoding, name=name)
    return result


def upper(x: TensorLike, encoding: str = "", *, name: str | None = None) -> Tensor:
    """Each string in upper case; see `lower`.

    Args:
      x: string, any shape.
      encoding: empty for the letters of ASCII only, or `"utf-8"`.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     text = hr.strings.upper(["Ab"])
      >>> print(hr.Session(graph).run(text))
      [b'AB']
    """
    result: Tensor = apply_op("StringUpper", x, encoding=encoding, name=name)
    return result


def substr(
    x: TensorLike, position: TensorLike, size: TensorLike, unit: str = "BYTE", *, name: str | None = None
) -> Tensor:
    """A part of each string.

    Args:
      x: string, any shape.
      position: int32 or int64, a shape that broadcasts with that of `x`; where the part begins, below 0 from the end.
      size: the dtype and shape of `position`; the length of the part, which ends with the string if that is shorter.
      unit: `"BYTE"` or `"UTF8_CHAR"`.
      name: the operation's name.
    Returns:
      string, the broadcast shape.
    Raises:
      OutOfRangeError: a position is not in the string (when it is run).

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     text = hr.strings.substr(["hello"], -3, 2)
      >>> print(hr.Session(graph).run(text))
      [b'll']
    """
    result: Tensor = apply_op("Substr", x, position, size, unit=unit, name=name)
    return result


def to_number(x: TensorLike, dtype: DTypeLike = float32, *, name: str | None = None) -> Tensor:
    """The number that each string writes.

    Args:
      x: string, any shape.
      dtype: float32, float64, int32, int64, uint32 or uint64.
      name: the operation's name.
    Returns:
      `dtype`, the same shape.
    Raises:
      InvalidArgumentError: a string is not such a number (when it is run).

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     numbers = hr.strings.to_number([" 1.5 ", "inf"])
      >>> print(hr.Session(graph).run(numbers))
      [1.5 inf]
    """
    result: Tensor = apply_op("StringToNumber", x, out_type=as_dtype(dtype), name=name)
    return result


def decode_raw(x: TensorLike, dtype: DTypeLike, *, little_endian: bool = True, name: str | None = None) -> Tensor:
    r"""The bytes of each string as numbers.

    Args:
      x: string, any shape; all of one length.
      dtype: what the bytes are.
      little_endian: the order of the bytes of one number.
      name: the operation's name.
    Returns:
      `dtype`, the shape of `x` and one axis more.
    Raises:
      InvalidArgumentError: the lengths differ, or are no multiple of the size of one number (when it is run).

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     numbers = hr.strings.decode_raw([b"\x01\x00\x02\x00"], hr.int16)
      >>> print(hr.Session(graph).run(numbers))
      [[1 2]]
    """
    result: Tensor = apply_op("DecodeRaw", x, out_type=as_dtype(dtype), little_endian=little_endian, name=name)
    return result
