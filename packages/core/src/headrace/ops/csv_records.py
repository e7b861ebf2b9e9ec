"""Lines of comma-separated values (`hr.strings.decode_csv`): RFC 4180 without line breaks between records."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.types import DType, Shape, float32, float64, int32, int64, string

__all__ = ["decode_csv"]


@register_op(
    "DecodeCSV",
    inputs={"records": "string", "record_defaults": "OUT_TYPE"},
    outputs={"output": "OUT_TYPE"},
    attrs={
        "OUT_TYPE": attr.list_of(attr.type(float32, float64, int32, int64, string), minimum=1),
        "field_delim": attr.string(","),
        "use_quote_delim": attr.bool(True),
        "na_value": attr.string(""),
        "select_cols": attr.list_of(attr.int(), ()),
    },
)
def _decode_csv_shape(op: InferenceContext) -> list[Shape]:
    """The fields of each record, one tensor for each column; empty ones are the default, if there is one."""
    for default in op.inputs[1:]:
        known = default.shape
        if known.rank not in (None, 0, 1) or (known.rank == 1 and known[0] not in (None, 0, 1)):
            raise ShapeError(
                "a default is one value or none",
                expected="shape [], [1], or [0] for a field that must be there",
                got=str(known),
                hint="give one default for each column",
            )
    columns = op.attr("select_cols")
    rising = all(a < b for a, b in pairwise(columns))
    if columns and (len(columns) != len(op.inputs) - 1 or not rising or columns[0] < 0):
        raise InvalidArgumentError(
            "the chosen columns are not right",
            expected=f"{len(op.inputs) - 1} ascending numbers from 0, one for each default",
            got=str(list(columns)),
            hint="count the columns of the file from 0",
        )
    delimiter = op.attr("field_delim")
    if len(delimiter if isinstance(delimiter, bytes) else str(delimiter).encode()) != 1:
        raise InvalidArgumentError(
            "the delimiter is not one byte",
            expected="one byte",
            got=repr(delimiter),
            hint="field_delim=';', or '\\t' for tabs",
        )
    return [op.inputs[0].shape] * (len(op.inputs) - 1)


def decode_csv(
    records: TensorLike,
    defaults: Sequence[TensorLike | DType],
    *,
    delimiter: str = ",",
    quotes: bool = True,
    missing: str = "",
    columns: Sequence[int] | None = None,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Split lines of comma-separated values into columns of numbers and strings.

    Args:
      records: string, any shape: a line each, without its line break.
      defaults: for each column what an empty field stands for, or a dtype if it must not be empty; float32, float64,
        int32, int64 or string.
      delimiter: what separates fields, one byte.
      quotes: fields may stand in double quotes, which hide delimiters; two of them then stand for one.
      missing: what stands in an empty field.
      columns: the numbers of the columns to take, ascending from 0; by default all.
      name: the operation's name.
    Returns:
      For each column a tensor of the shape of `records`.
    Raises:
      InvalidArgumentError: in the step, if a record has another number of fields, or a field is no number.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     numbers, names = hr.strings.decode_csv(['1,"a,b"', ",c"], [0.5, hr.string])
      >>> print(*hr.Session(graph).run([numbers, names]))
      [1.  0.5] [b'a,b' b'c']
    """
    tensors = [
        apply_op("Fill", [0], convert_to_tensor(b"" if item is string else 0, item))
        if isinstance(item, DType)
        else convert_to_tensor(item)
        for item in defaults
    ]
    fields: tuple[Tensor, ...] = apply_op(
        "DecodeCSV",
        records,
        tensors,
        field_delim=delimiter,
        use_quote_delim=quotes,
        na_value=missing,
        select_cols=list(columns or ()),
        name=name,
    )
    return fields
