"""Hashes of strings: from words without a vocabulary to numbers of buckets."""

from __future__ import annotations

from headrace.errors import InvalidArgumentError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.types import Shape

__all__ = ["to_hash_bucket"]


@register_op(
    "StringToHashBucketFast",
    inputs={"input": "string"},
    outputs={"output": "int64"},
    attrs={"num_buckets": attr.int(minimum=1)},
)
def _hash_shape(op: InferenceContext) -> list[Shape]:
    """FarmHash's 64-bit fingerprint of each string, modulo the number of buckets; the same on every machine."""
    return [op.inputs[0].shape]


@register_op(
    "StringToHashBucketStrong",
    inputs={"input": "string"},
    outputs={"output": "int64"},
    attrs={"num_buckets": attr.int(minimum=1), "key": attr.list_of(attr.int())},
)
def _strong_hash_shape(op: InferenceContext) -> list[Shape]:
    """SipHash of each string under a key of two numbers, modulo the number of buckets; the same on every machine."""
    if len(op.attr("key")) != 2:
        raise InvalidArgumentError(
            "the key of a hash has a wrong length",
            expected="two numbers",
            got=str(list(op.attr("key"))),
            hint="draw two 64-bit numbers and keep them secret",
        )
    return [op.inputs[0].shape]


def to_hash_bucket(x: TensorLike, num_buckets: int, *, name: str | None = None) -> Tensor:
    """A bucket for each string, the same on every machine and in every program that uses FarmHash.

    Someone who chooses the strings can choose them to fall into one bucket.

    Args:
      x: string, any shape.
      num_buckets: how many there are, at least 1.
      name: the operation's name.
    Returns:
      int64 of the same shape, each `0 <= bucket < num_buckets`.
    Source: G. Pike, FarmHash, `Fingerprint64`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     buckets = hr.strings.to_hash_bucket(["Hello", "TensorFlow", "2.x"], 3)
      >>> print(hr.Session(graph).run(buckets))
      [0 2 2]
    """
    result: Tensor = apply_op("StringToHashBucketFast", x, num_buckets=num_buckets, name=name)
    return result
