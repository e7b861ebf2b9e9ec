"""Kernels of the csv_records family."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.kernels.strings import parse_number
from headrace.types import Array, DType, string

__all__: list[str] = []


@register_kernel("DecodeCSV")
def _decode_csv(op: OpContext, records: Array, defaults: list[Array]) -> tuple[Array, ...]:
    kinds, columns = op.attr("OUT_TYPE"), op.attr("select_cols") or range(len(defaults))
    delimiter, missing = (_bytes(op.attr(name)) for name in ("field_delim", "na_value"))
    flat = np.reshape(records, -1).tolist()
    results = [np.empty(len(flat), kind.array_type) for kind in kinds]
    for row, record in enumerate(flat):
        fields = _fields(record, delimiter, quotes=bool(op.attr("use_quote_delim")), row=row)
        wanted = columns[-1] + 1
        if len(fields) < wanted or (not op.attr("select_cols") and len(fields) != wanted):
            raise InvalidArgumentError(
                "a record has another number of fields",
                expected=f"{wanted}",
                got=f"{len(fields)} in record {row}: {record[:60]!r}",
                hint="give one default for each column, or choose columns with select_cols",
            )
        for place, column in enumerate(columns):
            field = fields[column]
            if field in (b"", missing):
                results[place][row] = _default(defaults[place], column, row)
            else:
                results[place][row] = _value(field, kinds[place], column, row)
    return tuple(result.reshape(np.shape(records)) for result in results)


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def _default(default: Array, column: int, row: int) -> Any:
    values = np.reshape(default, -1)
    if not values.size:
        raise InvalidArgumentError(
            "a field that must be there is empty",
            expected=f"a value in column {column}",
            got=f"none in record {row}",
            hint="give the column a default",
        )
    return values[0]


def _value(field: bytes, kind: DType, column: int, row: int) -> Any:
    if kind is string:
        return field
    try:
        return parse_number(field, kind)
    except InvalidArgumentError as error:
        error.what = f"field {column} of record {row} is not a number"
        raise


def _fields(record: bytes, delimiter: bytes, *, quotes: bool, row: int) -> list[bytes]:
    if not quotes or b'"' not in record:
        if b"\n" in record or b"\r" in record:
            raise _wrong("a field without quotes has a line break", record, row)
        return record.split(delimiter)
    fields: list[bytes] = []
    at, end = 0, len(record)
    while True:
        if record[at : at + 1] == b'"':
            field, at = _quoted(record, at + 1, row)
            if at < end and record[at : at + 1] != delimiter:
                raise _wrong("a quoted field goes on after its quotes", record, row)
        else:
            stop = record.find(delimiter, at)
            stop = end if stop < 0 else stop
            field, at = record[at:stop], stop
            if any(mark in field for mark in (b'"', b"\n", b"\r")):
                raise _wrong("a field without quotes has a quote or line break", record, row)
        fields.append(field)
        if at >= end:
            return fields
        at += 1


def _quoted(record: bytes, start: int, row: int) -> tuple[bytes, int]:
    """A field in quotes, and the place after them; two quotes inside stand for one."""
    at = start
    while True:
        stop = record.find(b'"', at)
        if stop < 0:
            raise _wrong("a quoted field has no end", record, row)
        if record[stop + 1 : stop + 2] != b'"':
            return record[start:stop].replace(b'""', b'"'), stop + 1
        at = stop + 2


def _wrong(what: str, record: bytes, row: int) -> InvalidArgumentError:
    return InvalidArgumentError(
        what,
        expected="a line of fields, quoted as a whole where they contain delimiters",
        got=f"record {row}: {record[:60]!r}",
        hint='double a quote inside quotes: "a ""b"" c"; quotes=False takes them as they are',
    )
