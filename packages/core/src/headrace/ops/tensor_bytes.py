"""Tensors as bytes: a scalar string that holds dtype, shape and elements in TensorFlow's wire form."""

from __future__ import annotations

from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.shapes import check_scalar
from headrace.types import DTypeLike, Shape, as_dtype

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
