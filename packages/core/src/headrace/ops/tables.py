"""Tables from keys to values that live in a session: vocabularies and other fixed mappings.

A `HashTableV2` yields the handle of a table, which is filled once and then only read.
"""

from __future__ import annotations

from headrace.errors import ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Operation, Tensor
from headrace.ops.shapes import check_scalar
from headrace.types import DType, Shape

__all__ = ["HashTable"]


@register_op(
    "HashTableV2",
    outputs={"table_handle": "resource"},
    attrs={
        "container": attr.string(""),
        "shared_name": attr.string(""),
        "use_node_name_sharing": attr.bool(False),
        "key_dtype": attr.any_type,
        "value_dtype": attr.any_type,
    },
    stateful=True,
    reads_only=True,
)
def _table_shape(op: InferenceContext) -> list[Shape]:
    """The handle of the table named `shared_name`, or else as the operation is, in `container`."""
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
    """Fills a table; a table that is filled is left as it is, and must hold the same."""
    if not op.inputs[1].shape.is_compatible_with(op.inputs[2].shape):
        raise ShapeError(
            "each key has one value",
            expected=str(op.inputs[1].shape),
            got=str(op.inputs[2].shape),
            hint="take both from one dict: list(d) and list(d.values())",
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
