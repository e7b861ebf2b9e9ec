"""Tables from keys to values that live in a session: vocabularies and other fixed mappings.

A `HashTableV2` yields the handle of a table, which is filled once and then only read.
"""

from __future__ import annotations

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Operation, Tensor
from headrace.ops.shapes import check_scalar
from headrace.types import DType, DTypeLike, Shape, as_dtype, int64, string

__all__ = ["HashTable", "MutableHashTable"]

_HANDLE = {
    "container": attr.string(""),
    "shared_name": attr.string(""),
    "use_node_name_sharing": attr.bool(False),
    "key_dtype": attr.any_type,
    "value_dtype": attr.any_type,
}


@register_op(
    "HashTableV2",
    outputs={"table_handle": "resource"},
    attrs=_HANDLE,
    stateful=True,
    reads_only=True,
)
def _table_shape(op: InferenceContext) -> list[Shape]:
    """The handle of the table named `shared_name`, or else as the operation is, in `container`."""
    return [Shape([])]


@register_op(
    "MutableHashTableV2",
    outputs={"table_handle": "resource"},
    attrs=_HANDLE,
    stateful=True,
    reads_only=True,
)
def _mutable_table_shape(op: InferenceContext) -> list[Shape]:
    """The handle of a table that is empty at first and changes with every insertion; named as by HashTableV2."""
    return [Shape([])]


@register_op(
    "LookupTableFindV2",
    inputs={"table_handle": "resource", "keys": "Tin", "default_value": "Tout"},
    outputs={"values": "Tout"},
    attrs={"Tin": attr.any_type, "Tout": attr.any_type},
    stateful=True,
    reads_only=True,
)
def _find_shape(op: InferenceContext) -> list[Shape]:
    """The value of each key, and a default for keys that are not in the table."""
    check_scalar(op.inputs[2].shape, "default_value")
    return [op.inputs[1].shape]


@register_op(
    "LookupTableImportV2",
    inputs={"table_handle": "resource", "keys": "Tin", "values": "Tout"},
    attrs={"Tin": attr.any_type, "Tout": attr.any_type},
    stateful=True,
)
def _import_shape(op: InferenceContext) -> list[Shape]:
    """Fills a table; one that is filled is left as it is and must hold the same, a mutable one gets these instead."""
    return _check_entries(op)


@register_op(
    "InitializeTableV2",
    inputs={"table_handle": "resource", "keys": "Tkey", "values": "Tval"},
    attrs={"Tkey": attr.any_type, "Tval": attr.any_type},
    stateful=True,
)
def _initialize_shape(op: InferenceContext) -> list[Shape]:
    """As LookupTableImportV2."""
    return _check_entries(op)


@register_op(
    "LookupTableInsertV2",
    inputs={"table_handle": "resource", "keys": "Tin", "values": "Tout"},
    attrs={"Tin": attr.any_type, "Tout": attr.any_type},
    stateful=True,
)
def _insert_shape(op: InferenceContext) -> list[Shape]:
    """Adds entries to a mutable table; a key that is there gets the new value, of repeated ones the last counts."""
    return _check_entries(op)


@register_op(
    "LookupTableRemoveV2",
    inputs={"table_handle": "resource", "keys": "Tin"},
    attrs={"Tin": attr.any_type},
    stateful=True,
)
def _remove_shape(op: InferenceContext) -> list[Shape]:
    """Takes keys out of a mutable table; those that are not there do not matter."""
    return []


def _check_entries(op: InferenceContext) -> list[Shape]:
    if not op.inputs[1].shape.is_compatible_with(op.inputs[2].shape):
        raise ShapeError(
            "each key has one value",
            expected=str(op.inputs[1].shape),
            got=str(op.inputs[2].shape),
            hint="take both from one dict: list(d) and list(d.values())",
        )
    return []


@register_op(
    "InitializeTableFromTextFileV2",
    inputs={"table_handle": "resource", "filename": "string"},
    attrs={
        "key_index": attr.int(minimum=-2),
        "value_index": attr.int(minimum=-2),
        "vocab_size": attr.int(-1, minimum=-1),
        "delimiter": attr.string("\t"),
        "offset": attr.int(0),
    },
    stateful=True,
)
def _from_text_file_shape(op: InferenceContext) -> list[Shape]:
    """Fills a table from the lines of a file, each cut at the delimiter.

    Keys and values are columns from 0 on; -1 stands for the number of the line, -2 for the whole of it. vocab_size is
    the number of lines to take, the first `offset` are passed over.
    """
    check_scalar(op.inputs[1].shape, "filename")
    if op.attr("key_index") == op.attr("value_index"):
        raise InvalidArgumentError(
            "keys and values are the same column",
            expected="different key_index and value_index",
            got=str(op.attr("key_index")),
            hint="-1 is the number of the line, -2 the whole line",
        )
    return []


@register_op(
    "LookupTableSizeV2",
    inputs={"table_handle": "resource"},
    outputs={"size": "int64"},
    stateful=True,
    reads_only=True,
)
def _size_shape(op: InferenceContext) -> list[Shape]:
    """How many keys a table has."""
    return [Shape([])]


@register_op(
    "LookupTableExportV2",
    inputs={"table_handle": "resource"},
    outputs={"keys": "Tkeys", "values": "Tvalues"},
    attrs={"Tkeys": attr.any_type, "Tvalues": attr.any_type},
    stateful=True,
    reads_only=True,
)
def _export_shape(op: InferenceContext) -> list[Shape]:
    """The keys and values of a table, in the order in which they came."""
    return [Shape([None]), Shape([None])]


class HashTable:
    """A fixed mapping that lives in a session. Mutable only in that running `initializer` fills it.

    Args:
      keys: strings or integers `[n]`, all different.
      values: any dtype `[n]`.
      default: what keys that are not there have.
      name: the name of the table.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     vocabulary = hr.HashTable(["the", "cat"], [1, 2], default=0)
      ...     numbers = vocabulary.lookup(["the", "dog", "cat"])
      >>> with hr.Session(graph) as session:
      ...     session.run(vocabulary.initializer)
      ...     print(session.run(numbers))
      [1 0 2]
    """

    def __init__(self, keys: TensorLike, values: TensorLike, *, default: TensorLike, name: str | None = None) -> None:
        entries = convert_to_tensor(keys), convert_to_tensor(values)
        self.key_dtype: DType = entries[0].dtype
        self.value_dtype: DType = entries[1].dtype
        self.default = convert_to_tensor(default, self.value_dtype)
        self.handle: Tensor = apply_op(
            "HashTableV2", key_dtype=self.key_dtype, value_dtype=self.value_dtype, name=name or "table"
        )
        self.initializer: Operation = apply_op("LookupTableImportV2", self.handle, *entries)

    def lookup(self, keys: TensorLike, *, name: str | None = None) -> Tensor:
        """The value of each key.

        Args:
          keys: of the keys' dtype, any shape.
          name: the operation's name.
        Returns:
          The values, or the default, of the keys' shape.
        Raises:
          FailedPreconditionError: in the step, if the table was not filled.
        """
        found: Tensor = apply_op(
            "LookupTableFindV2", self.handle, convert_to_tensor(keys, self.key_dtype), self.default, name=name
        )
        return found

    def size(self, *, name: str | None = None) -> Tensor:
        """How many keys there are, int64 scalar."""
        count: Tensor = apply_op("LookupTableSizeV2", self.handle, name=name)
        return count

    @classmethod
    def from_text_file(
        cls,
        path: TensorLike,
        *,
        keys: int | str = "line",
        values: int | str = "number",
        delimiter: str = "\t",
        key_dtype: DTypeLike = string,
        value_dtype: DTypeLike = int64,
        default: TensorLike = -1,
        name: str | None = None,
    ) -> HashTable:
        """A table that running `initializer` fills from a file, by default the numbers of its lines by the lines.

        Args:
          path: string scalar, the file.
          keys: the column of the keys from 0 on, `"line"` for the whole of each, or `"number"` for its number from 0.
          values: the same for the values.
          delimiter: what separates columns.
          key_dtype: string or an integer dtype.
          value_dtype: string, an integer or a floating dtype.
          default: what keys that are not there have.
          name: the name of the table.
        """
        table = cls.__new__(cls)
        table.key_dtype, table.value_dtype = as_dtype(key_dtype), as_dtype(value_dtype)
        table.default = convert_to_tensor(default, table.value_dtype)
        table.handle = apply_op(
            "HashTableV2", key_dtype=table.key_dtype, value_dtype=table.value_dtype, name=name or "table"
        )
        places = {"line": -2, "number": -1}
        columns = [places[item] if isinstance(item, str) else item for item in (keys, values)]
        table.initializer = apply_op(
            "InitializeTableFromTextFileV2",
            table.handle,
            path,
            key_index=columns[0],
            value_index=columns[1],
            delimiter=delimiter,
        )
        return table


class MutableHashTable:
    """A mapping that steps change, and that lives in a session. Mutable and thread-safe.

    Args:
      key_dtype: string or an integer dtype.
      value_dtype: any dtype.
      default: what keys that are not there have; a scalar.
      name: the name of the table.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     counts = hr.MutableHashTable(hr.string, hr.int64, default=0)
      ...     seen = counts.insert(["a", "b"], [1, 2])
      ...     found = counts.lookup(["b", "c"])
      >>> with hr.Session(graph) as session:
      ...     print(session.run(found))
      ...     session.run(seen)
      ...     print(session.run(found))
      [0 0]
      [2 0]
    """

    def __init__(
        self, key_dtype: DTypeLike, value_dtype: DTypeLike, *, default: TensorLike, name: str | None = None
    ) -> None:
        self.key_dtype: DType = as_dtype(key_dtype)
        self.value_dtype: DType = as_dtype(value_dtype)
        self.default = convert_to_tensor(default, self.value_dtype)
        self.handle: Tensor = apply_op(
            "MutableHashTableV2", key_dtype=self.key_dtype, value_dtype=self.value_dtype, name=name or "table"
        )

    def lookup(self, keys: TensorLike, *, name: str | None = None) -> Tensor:
        """The value of each key, or the default, of the keys' shape."""
        found: Tensor = apply_op(
            "LookupTableFindV2", self.handle, convert_to_tensor(keys, self.key_dtype), self.default, name=name
        )
        return found

    def insert(self, keys: TensorLike, values: TensorLike, *, name: str | None = None) -> Operation:
        """The operation that adds entries; a key that is there gets the new value."""
        entries = convert_to_tensor(keys, self.key_dtype), convert_to_tensor(values, self.value_dtype)
        operation: Operation = apply_op("LookupTableInsertV2", self.handle, *entries, name=name)
        return operation

    def remove(self, keys: TensorLike, *, name: str | None = None) -> Operation:
        """The operation that takes keys out, where they are there."""
        operation: Operation = apply_op(
            "LookupTableRemoveV2", self.handle, convert_to_tensor(keys, self.key_dtype), name=name
        )
        return operation

    def size(self, *, name: str | None = None) -> Tensor:
        """How many keys there are, int64 scalar."""
        count: Tensor = apply_op("LookupTableSizeV2", self.handle, name=name)
        return count

    def export(self, *, name: str | None = None) -> tuple[Tensor, Tensor]:
        """All keys and their values, in the order in which the keys came."""
        keys, values = apply_op(
            "LookupTableExportV2", self.handle, Tkeys=self.key_dtype, Tvalues=self.value_dtype, name=name
        )
        return keys, values
