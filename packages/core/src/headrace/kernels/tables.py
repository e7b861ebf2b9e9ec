"""Kernels of the tables family."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from headrace.errors import DTypeError, FailedPreconditionError, InvalidArgumentError, NotFoundError
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.kernels.strings import parse_number
from headrace.types import Array, DType, string


class Table:
    """A mapping behind a handle. Mutable and thread-safe: it is filled once, in one piece, and then only read."""

    def __init__(self, name: str, key_dtype: DType, value_dtype: DType) -> None:
        self.name = name
        self.key_dtype = key_dtype
        self.value_dtype = value_dtype
        self._entries: Mapping[Any, Any] | None = None
        self._lock = threading.Lock()

    def entries(self) -> Mapping[Any, Any]:
        """The values by key; the caller must not change it."""
        entries = self._entries
        if entries is None:
            raise FailedPreconditionError(
                f"table '{self.name}' is empty yet",
                expected="its initializer to run before the first use",
                got="not filled",
                hint="session.run(table.initializer)",
            )
        return entries

    def fill(self, entries: Mapping[Any, Any]) -> None:
        """Take the entries, if there are none yet."""
        with self._lock:
            if self._entries is None:
                self._entries = entries
            elif self._entries != entries:
                raise FailedPreconditionError(
                    f"table '{self.name}' is filled already",
                    expected="the entries that it has",
                    got=f"{len(entries)} others",
                    hint="make another table",
                )

    def check(self, key_dtype: DType, value_dtype: DType) -> None:
        """Raise DTypeError unless an operation states the table's dtypes."""
        if (key_dtype, value_dtype) != (self.key_dtype, self.value_dtype):
            raise DTypeError(
                f"table '{self.name}' has other dtypes",
                expected=f"{self.key_dtype} to {self.value_dtype}",
                got=f"{key_dtype} to {value_dtype}",
                hint="hr.astype the keys or values, or give another table another name",
            )


class MutableTable(Table):
    """A mapping behind a handle that steps change. Mutable and thread-safe: each change is one piece."""

    def __init__(self, name: str, key_dtype: DType, value_dtype: DType) -> None:
        super().__init__(name, key_dtype, value_dtype)
        self._entries = {}

    def fill(self, entries: Mapping[Any, Any]) -> None:
        """Take these entries in the place of all others."""
        with self._lock:
            self._entries = dict(entries)

    def change(self, added: Mapping[Any, Any], removed: Iterable[Any] = ()) -> None:
        """Add entries and take keys out. Readers keep the mapping that they have, so it is replaced as a whole."""
        with self._lock:
            entries = {**(self._entries or {}), **added}
            for key in removed:
                entries.pop(key, None)
            self._entries = entries


def _register_table(op_type: str, kind: type[Table]) -> None:
    @register_kernel(op_type, binds_once=True)
    def _table(op: OpContext) -> Table:
        name = op.attr("shared_name") or op.name
        dtypes = op.attr("key_dtype"), op.attr("value_dtype")
        table: Table = op.resources.lookup_or_create((Table, op.attr("container"), name), lambda: kind(name, *dtypes))
        table.check(*dtypes)
        return table


_register_table("HashTableV2", Table)
_register_table("MutableHashTableV2", MutableTable)


def _mutable(op: OpContext, table: Table) -> MutableTable:
    if not isinstance(table, MutableTable):
        raise InvalidArgumentError(
            f"table '{table.name}' does not change",
            expected="a MutableHashTableV2",
            got="a HashTableV2, which is filled once",
            hint="hr.MutableHashTable makes a table that steps change",
        )
    return table


@register_kernel("LookupTableInsertV2")
def _insert(op: OpContext, table: Table, keys: Array, values: Array) -> None:
    table.check(op.attr("Tin"), op.attr("Tout"))
    _mutable(op, table).change(dict(zip(np.reshape(keys, -1).tolist(), np.reshape(values, -1), strict=True)))


@register_kernel("LookupTableRemoveV2")
def _remove(op: OpContext, table: Table, keys: Array) -> None:
    table.check(op.attr("Tin"), table.value_dtype)
    _mutable(op, table).change({}, np.reshape(keys, -1).tolist())


@register_kernel("InitializeTableFromTextFileV2")
def _from_text_file(op: OpContext, table: Table, filename: Array) -> None:
    path = Path(np.asarray(filename).item().decode())
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise NotFoundError(
            f"the vocabulary of table '{table.name}' cannot be read",
            expected="a text file",
            got=f"{path}: {error.strerror}",
            hint="give the path as seen by the process that runs the step",
        ) from error
    lines = lines[op.attr("offset") :]
    wanted = op.attr("vocab_size")
    if wanted >= 0 and len(lines) < wanted:
        raise InvalidArgumentError(
            "the vocabulary is too short",
            expected=f"{wanted} lines",
            got=f"{len(lines)} in {path}",
            hint="vocab_size=-1 takes all lines",
        )
    entries: dict[Any, Any] = {}
    places = op.attr("key_index"), op.attr("value_index")
    kinds = table.key_dtype, table.value_dtype
    for number, line in enumerate(lines if wanted < 0 else lines[:wanted]):
        key, value = (_column(op, line, number, place, kind) for place, kind in zip(places, kinds, strict=True))
        if entries.setdefault(key, value) != value:
            raise _two_values(key, entries[key], value)
    table.fill(entries)


def _column(op: OpContext, line: bytes, number: int, place: int, kind: DType) -> Any:
    if place == -1:
        return number
    delimiter = op.attr("delimiter")
    parts = [line] if place == -2 else line.split(delimiter if isinstance(delimiter, bytes) else delimiter.encode())
    if place >= len(parts):
        raise InvalidArgumentError(
            "a line of the vocabulary has too few columns",
            expected=f"at least {place + 1}",
            got=f"{len(parts)} in line {number}",
            hint="check the delimiter",
        )
    text = parts[0 if place == -2 else place]
    return text if kind is string else kind.array_type.type(parse_number(text, kind))


@register_kernel("LookupTableFindV2")
def _find(op: OpContext, table: Table, keys: Array, default: Array) -> Array:
    table.check(op.attr("Tin"), op.attr("Tout"))
    entries, missing = table.entries(), np.asarray(default)[()]
    values = np.empty(np.shape(keys), op.attr("Tout").array_type)
    flat = values.reshape(-1)
    for position, key in enumerate(np.reshape(keys, -1).tolist()):
        flat[position] = entries.get(key, missing)
    return values


@register_kernel("LookupTableImportV2")
def _import(op: OpContext, table: Table, keys: Array, values: Array) -> None:
    table.check(op.attr("Tin"), op.attr("Tout"))
    _fill(table, keys, values)


@register_kernel("InitializeTableV2")
def _initialize(op: OpContext, table: Table, keys: Array, values: Array) -> None:
    table.check(op.attr("Tkey"), op.attr("Tval"))
    _fill(table, keys, values)


def _fill(table: Table, keys: Array, values: Array) -> None:
    entries: dict[Any, Any] = {}
    for key, value in zip(np.reshape(keys, -1).tolist(), np.reshape(values, -1), strict=True):
        if entries.setdefault(key, value) != value:
            raise _two_values(key, entries[key], value)
    table.fill(entries)


def _two_values(key: Any, first: Any, second: Any) -> InvalidArgumentError:
    return InvalidArgumentError(
        "a key has two values",
        expected="one",
        got=f"{key!r}: {first}, {second}",
        hint="leave one of the two out, or map to row numbers and hr.gather the rows",
    )


@register_kernel("LookupTableSizeV2")
def _size(op: OpContext, table: Table) -> Array:
    return np.array(len(table.entries()), np.int64)


@register_kernel("LookupTableExportV2")
def _export(op: OpContext, table: Table) -> tuple[Array, Array]:
    table.check(op.attr("Tkeys"), op.attr("Tvalues"))
    entries = table.entries()
    keys = np.empty(len(entries), table.key_dtype.array_type)
    values = np.empty(len(entries), table.value_dtype.array_type)
    keys[:], values[:] = list(entries), list(entries.values())
    return keys, values
