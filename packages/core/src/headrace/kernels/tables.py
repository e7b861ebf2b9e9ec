"""Kernels of the tables family."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from headrace.errors import DTypeError, FailedPreconditionError, InvalidArgumentError
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.types import Array, DType


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


@register_kernel("HashTableV2", binds_once=True)
def _table(op: OpContext) -> Table:
    name = op.attr("shared_name") or op.name
    dtypes = op.attr("key_dtype"), op.attr("value_dtype")
    table: Table = op.resources.lookup_or_create((Table, op.attr("container"), name), lambda: Table(name, *dtypes))
    table.check(*dtypes)
    return table


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
    entries: dict[Any, Any] = {}
    for key, value in zip(np.reshape(keys, -1).tolist(), np.reshape(values, -1), strict=True):
        if entries.setdefault(key, value) != value:
            raise InvalidArgumentError(
                "a key has two values",
                expected="one",
                got=f"{key!r}: {entries[key]}, {value}",
                hint="leave one of the two out, or map to row numbers and hr.gather the rows",
            )
    table.fill(entries)


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
