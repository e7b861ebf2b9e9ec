"""Examples as record files hold them: serialised `Example` messages, parsed to tensors by the names of features.

A feature is a list of floats, integers or strings. Of all examples of a batch those of one name become one tensor:
dense where each has the same number of values, sparse or ragged where not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.sparse import SparseTensor
from headrace.types import DType, DTypeLike, Shape, as_dtype, as_shape, float32, int32, int64, string

__all__ = ["FixedLenFeature", "VarLenFeature", "check_batch", "parse_example"]

_TYPES = attr.list_of(attr.type(float32, int64, string))
_DENSE = {"Tdense": _TYPES, "sparse_types": _TYPES, "dense_shapes": attr.list_of(attr.shape())}


def _outputs(op: InferenceContext, batch: Shape, sparse: int) -> list[Shape]:
    """The shapes of the sparse and the dense outputs for a batch of examples, or for one alone."""
    shapes, kinds = op.attr("dense_shapes"), op.attr("Tdense")
    if len(shapes) != len(kinds):
        raise InvalidArgumentError(
            "each dense feature has one shape",
            expected=f"{len(kinds)} shapes",
            got=str(len(shapes)),
            hint="[] for one number; None in front for any number of rows",
        )
    rank = None if batch.rank is None else batch.rank + 1
    count = len(op.attr("sparse_types"))
    if count != sparse:
        raise InvalidArgumentError(
            "each sparse feature has one dtype",
            expected=f"{sparse} dtypes",
            got=str(count),
            hint="float32, int64 or string",
        )
    return [
        *[Shape([None, rank])] * count,
        *[Shape([None])] * count,
        *[Shape([rank])] * count,
        *(batch + shape for shape in shapes),
    ]


_SPARSE_OUTPUTS = {"sparse_indices": "N*int64", "sparse_values": "sparse_types", "sparse_shapes": "N*int64"}


def _named(number: str) -> dict[str, str]:
    return {name: kind.replace("N", number, 1) for name, kind in _SPARSE_OUTPUTS.items()}


@register_op(
    "ParseExample",
    inputs={
        "serialized": "string",
        "names": "string",
        "sparse_keys": "Nsparse*string",
        "dense_keys": "Ndense*string",
        "dense_defaults": "Tdense",
    },
    outputs={**_named("Nsparse"), "dense_values": "Tdense"},
    attrs={"Nsparse": attr.int(minimum=0), "Ndense": attr.int(minimum=0), **_DENSE},
)
def _parse_example_shape(op: InferenceContext) -> list[Shape]:
    """The features of serialised examples: sparse ones as indices, values and shape each, then dense ones.

    A dense feature that an example lacks is its default; an empty default says that it must be there. Where the shape
    of a dense feature begins with an open size, shorter examples are filled up with the default. `names` describe the
    examples in errors.
    """
    return _outputs(op, op.inputs[0].shape.with_rank(1), int(op.attr("Nsparse")))


@register_op(
    "ParseExampleV2",
    inputs={
        "serialized": "string",
        "names": "string",
        "sparse_keys": "string",
        "dense_keys": "string",
        "ragged_keys": "string",
        "dense_defaults": "Tdense",
    },
    outputs={
        **_named("num_sparse"),
        "dense_values": "Tdense",
        "ragged_values": "ragged_value_types",
        "ragged_row_splits": "ragged_split_types",
    },
    attrs={
        "num_sparse": attr.int(minimum=0),
        **_DENSE,
        "ragged_value_types": _TYPES,
        "ragged_split_types": attr.list_of(attr.type(int32, int64)),
    },
)
def _parse_example_v2_shape(op: InferenceContext) -> list[Shape]:
    """As ParseExample, with the keys of a kind in one vector; also of one example alone, without the axis of the batch.

    Ragged features come as all their values, and where those of each example begin and end.
    """
    batch = op.inputs[0].shape
    check_batch(batch)
    ragged = len(op.attr("ragged_value_types"))
    size = None if batch.dims is None else batch.dims[0] + 1 if batch.dims and batch.dims[0] is not None else None
    splits = Shape([0]) if batch.rank == 0 else Shape([size])
    return [*_outputs(op, batch, int(op.attr("num_sparse"))), *[Shape([None])] * ragged, *[splits] * ragged]


@register_op(
    "ParseSingleExample",
    inputs={"serialized": "string", "dense_defaults": "Tdense"},
    outputs={**_named("num_sparse"), "dense_values": "Tdense"},
    attrs={
        "num_sparse": attr.int(minimum=0),
        "sparse_keys": attr.list_of(attr.string()),
        "dense_keys": attr.list_of(attr.string()),
        **_DENSE,
    },
)
def _parse_single_example_shape(op: InferenceContext) -> list[Shape]:
    """As ParseExample of one example alone, without the axis of the batch."""
    return _outputs(op, op.inputs[0].shape.with_rank(0), int(op.attr("num_sparse")))


def check_batch(batch: Shape) -> None:
    """Raise ShapeError unless examples are a vector, or one alone."""
    if batch.rank is not None and batch.rank > 1:
        raise ShapeError(
            "examples are a vector",
            expected="shape [batch], or [] for one example",
            got=str(batch),
            hint="hr.reshape(serialized, [-1])",
        )


@dataclass(frozen=True, slots=True)
class FixedLenFeature:
    """A feature with the same number of values in every example: a dense tensor.

    Attributes:
      shape: of one example's values; an open first size lets it vary, filled up with the default.
      dtype: float32, int64 or string.
      default: what an example without the feature has; None if each must have it.
    """

    shape: Sequence[int | None]
    dtype: DTypeLike
    default: Any = None


@dataclass(frozen=True, slots=True)
class VarLenFeature:
    """A feature with any number of values: a sparse tensor.

    Attributes:
      dtype: float32, int64 or string.
    """

    dtype: DTypeLike


def parse_example(
    serialized: TensorLike,
    features: Mapping[str, FixedLenFeature | VarLenFeature],
    *,
    names: TensorLike | None = None,
    name: str | None = None,
) -> dict[str, Any]:
    """The features of serialised `Example` messages, as record files hold them.

    Args:
      serialized: string `[batch]`, or a scalar for one example.
      features: for the name of each feature what it is; others that the examples have are passed over.
      names: string `[batch]`, how errors call the examples.
      name: the operation's name.
    Returns:
      For each name a tensor `[batch, shape...]` or a `SparseTensor` `[batch, most values]`; without the batch for one
      example.
    Raises:
      InvalidArgumentError: in the step, if bytes are no example, or a feature is missing or of another dtype or size.

    Example:
      >>> import headrace as hr
      >>> from headrace.graph.proto.example_pb2 import Example
      >>> example = Example()
      >>> example.features.feature["age"].int64_list.value.append(7)
      >>> example.features.feature["tags"].bytes_list.value.extend([b"a", b"b"])
      >>> with hr.Graph().as_default() as graph:
      ...     found = hr.parse_example(
      ...         [example.SerializeToString(), b""],
      ...         {"age": hr.FixedLenFeature([], hr.int64, default=-1), "tags": hr.VarLenFeature(hr.string)},
      ...     )
      >>> value = hr.Session(graph).run(found)
      >>> print(value["age"], value["tags"].values, value["tags"].shape)
      [ 7 -1] [b'a' b'b'] [2 2]
    """
    examples = convert_to_tensor(serialized)
    sparse = {key: as_dtype(item.dtype) for key, item in features.items() if isinstance(item, VarLenFeature)}
    dense = {key: item for key, item in features.items() if isinstance(item, FixedLenFeature)}
    shapes = [as_shape(item.shape) for item in dense.values()]
    kinds = [as_dtype(item.dtype) for item in dense.values()]
    defaults = [_default(item, kind) for item, kind in zip(dense.values(), kinds, strict=True)]
    outputs = apply_op(
        "ParseExampleV2",
        examples,
        convert_to_tensor(np.zeros(0, object) if names is None else names, string),
        *(convert_to_tensor(np.array([key.encode() for key in keys], object)) for keys in (sparse, dense, ())),
        defaults,
        num_sparse=len(sparse),
        sparse_types=list(sparse.values()),
        Tdense=kinds,
        dense_shapes=shapes,
        ragged_value_types=[],
        ragged_split_types=[],
        name=name,
    )
    indices, values, sizes, dense_values = outputs[:4]
    parsed: dict[str, Any] = dict(zip(dense, dense_values, strict=True))
    for key, *parts in zip(sparse, indices, values, sizes, strict=True):
        parsed[key] = SparseTensor(*parts)
    return {key: parsed[key] for key in features}


def _default(item: FixedLenFeature, kind: DType) -> Tensor:
    """The default as a tensor of the feature's shape; an empty one says that there is none."""
    if item.default is None:
        return convert_to_tensor(np.zeros(0, kind.array_type))
    given = convert_to_tensor(item.default, kind)
    shape = as_shape(item.shape)
    if given.shape.rank == 0 and shape.is_fully_defined and shape.rank:
        filled: Tensor = apply_op("Fill", list(shape.as_tuple()), given)
        return filled
    return given
