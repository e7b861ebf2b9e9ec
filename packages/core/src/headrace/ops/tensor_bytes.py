"""Tensors as bytes: a scalar string that holds dtype, shape and elements in TensorFlow's wire form."""

from __future__ import annotations

from headrace.errors import ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.attr import AttrSpec
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.shapes import check_scalar
from headrace.types import DTypeLike, Shape, as_dtype, string

__all__ = ["parse_tensor", "serialize_tensor"]


@register_op("SerializeTensor", inputs={"tensor": "T"}, outputs={"serialized": "string"}, attrs={"T": attr.any_type})
def _serialize_shape(op: InferenceContext) -> list[Shape]:
    """A tensor as the bytes of a TensorProto."""
    return [Shape([])]


@register_op(
    "ParseTensor",
    inputs={"serialized": "string"},
    outputs={"output": "out_type"},
    attrs={"out_type": attr.any_type},
)
def _parse_shape(op: InferenceContext) -> list[Shape]:
    """The tensor in the bytes of a TensorProto."""
    check_scalar(op.inputs[0].shape, "serialized")
    return [Shape()]


_SPARSE = {"sparse_indices": "int64", "sparse_values": "T", "sparse_shape": "int64"}
_SPARSE_BACK = {"sparse_indices": "int64", "sparse_values": "dtype", "sparse_shape": "int64"}
_AS_STRING = {"T": attr.any_type, "out_type": AttrSpec("type", default=string, allowed=(string,))}


def _check_sparse(op: InferenceContext) -> int | None:
    """The number of axes of the sparse tensor that three inputs are, if it is known."""
    count = op.inputs[1].shape.with_rank(1)[0]
    rank = op.inputs[2].shape.with_rank(1)[0]
    return op.inputs[0].shape.merge(Shape([count, rank]))[1]


@register_op("SerializeSparse", inputs=_SPARSE, outputs={"serialized_sparse": "out_type"}, attrs=_AS_STRING)
def _serialize_sparse_shape(op: InferenceContext) -> list[Shape]:
    """The three parts of a sparse tensor, each as the bytes of a TensorProto."""
    _check_sparse(op)
    return [Shape([3])]


@register_op("SerializeManySparse", inputs=_SPARSE, outputs={"serialized_sparse": "out_type"}, attrs=_AS_STRING)
def _serialize_many_sparse_shape(op: InferenceContext) -> list[Shape]:
    """A sparse tensor cut along its first axis, each of its rows as SerializeSparse gives it: `[rows, 3]`."""
    rank = _check_sparse(op)
    if rank is not None and rank < 2:
        raise ShapeError(
            "there are no rows to cut",
            expected="a sparse tensor of at least two axes",
            got=f"rank {rank}",
            hint="SerializeSparse takes it as a whole",
        )
    sizes = op.constant(2)
    return [Shape([None if sizes is None else int(sizes[0]), 3])]


def _deserialized(op: InferenceContext, given: Shape, fewest: int) -> list[Shape]:
    if given.rank is not None and (given.rank < fewest or given.dims is None or given.dims[-1] not in (None, 3)):
        raise ShapeError(
            "these are no serialised sparse tensors",
            expected=f"rank {fewest} or more with a last axis of 3",
            got=str(given),
            hint="the three strings are indices, values and shape",
        )
    return [Shape([None, None]), Shape([None]), Shape([None])]


@register_op(
    "DeserializeSparse",
    inputs={"serialized_sparse": "Tserialized"},
    outputs=_SPARSE_BACK,
    attrs={"dtype": attr.any_type, "Tserialized": AttrSpec("type", default=string, allowed=(string,))},
)
def _deserialize_sparse_shape(op: InferenceContext) -> list[Shape]:
    """The sparse tensors in bytes, `[batch..., 3]`, one above the other along new leading axes."""
    return _deserialized(op, op.inputs[0].shape, 1)


@register_op(
    "DeserializeManySparse",
    inputs={"serialized_sparse": "string"},
    outputs=_SPARSE_BACK,
    attrs={"dtype": attr.any_type},
)
def _deserialize_many_sparse_shape(op: InferenceContext) -> list[Shape]:
    """The sparse tensors in bytes, `[batch, 3]`, one above the other along a new first axis."""
    return _deserialized(op, op.inputs[0].shape.with_rank(2), 2)


def serialize_tensor(x: TensorLike, *, name: str | None = None) -> Tensor:
    """A tensor as bytes, that other languages can read too.

    Args:
      x: any dtype and shape.
      name: the operation's name.
    Returns:
      string scalar: the bytes of a TensorProto.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.parse_tensor(hr.serialize_tensor([[1, 2]]), hr.int32)
      >>> print(hr.Session(graph).run(y))
      [[1 2]]
    """
    result: Tensor = apply_op("SerializeTensor", convert_to_tensor(x), name=name)
    return result


def parse_tensor(serialized: TensorLike, dtype: DTypeLike, *, name: str | None = None) -> Tensor:
    """The tensor in bytes that `serialize_tensor` made.

    Args:
      serialized: string scalar.
      dtype: the element type; it must be that of the bytes.
      name: the operation's name.
    Returns:
      The tensor, of a shape that is not known while the graph is built.
    Raises:
      InvalidArgumentError: the bytes are damaged, or hold another dtype.
    """
    result: Tensor = apply_op("ParseTensor", serialized, out_type=as_dtype(dtype), name=name)
    return result
