"""PartitionedVariable: one variable to its user, in shards that may lie in different places."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph.apply import TensorLike, apply_op, as_array, convert_to_tensor
from headrace.graph.operation import Operation, Tensor
from headrace.graph.operators import Operators
from headrace.graph.scopes import colocate_with, has_graph
from headrace.ops.control import group
from headrace.ops.embedding import embedding_lookup
from headrace.types import DType, DTypeLike, Shape, ShapeLike, as_dtype, as_shape, float32
from headrace.variable import Variable

__all__ = ["PartitionedVariable"]

InitialValue = Callable[[Shape], TensorLike]


class PartitionedVariable(Operators):
    """A variable whose rows, along axis 0, are dealt out in runs to several variables.

    The first shards have one row more where the number does not divide evenly. Used as a tensor it is the whole value;
    `hr.nn.embedding_lookup` reads of each shard only the rows asked for, where the shard lies. Optimisers, sessions and
    checkpoints see the shards, `NAME/part_0` and so on.

    Args:
      initial_value: an array or Python value of the whole; or a function of the shape of one shard, so that the whole
        need not fit anywhere.
      shards: how many.
      shape: the shape of the whole, needed where `initial_value` is a function.
      max_shard_bytes: instead of `shards`: as many as are needed so that none is larger.
      name: its name.
      dtype: the element type; by default that of the initial value.
      trainable: whether optimisers update it.
    Attributes:
      shards: the variables.
      name: its name.
      shape: the shape of the whole.
      dtype: the element type.
    Raises:
      InvalidArgumentError: not one of `shards` and `max_shard_bytes`, or no shards.
      ShapeError: there are fewer rows than shards, or the shape is not known.

    Example:
      >>> import headrace as hr, numpy as np
      >>> with hr.Graph().as_default() as graph:
      ...     table = hr.PartitionedVariable(np.arange(5.0), shards=2, name="table")
      ...     rows = hr.nn.embedding_lookup(table, [4, 0])
      >>> [shard.shape for shard in table.shards]
      [Shape([3]), Shape([2])]
      >>> print(hr.Session(graph).run(rows))
      [4. 0.]
    """

    __slots__ = ("dtype", "name", "shape", "shards")

    def __init__(
        self,
        initial_value: TensorLike | InitialValue,
        *,
        shards: int | None = None,
        shape: ShapeLike | None = None,
        max_shard_bytes: int | None = None,
        name: str = "PartitionedVariable",
        dtype: DTypeLike | None = None,
        trainable: bool = True,
    ) -> None:
        wanted = None if dtype is None else as_dtype(dtype)
        value = None if callable(initial_value) else as_array(initial_value, wanted)
        self.shape = _whole_shape(shape if value is None else value.shape)
        size = value.dtype.itemsize if value is not None else (wanted or float32).size
        rows, *row = self.shape.as_tuple()
        count = _shard_count(shards, max_shard_bytes, rows, rows * math.prod(row) * size)
        made = []
        for number, (start, length) in enumerate(_runs(rows, count)):
            part: Any = (
                functools.partial(initial_value, Shape((length, *row)))
                if callable(initial_value)
                else np.asarray(value)[start : start + length]
            )
            made.append(Variable(part, name=f"{name}/part_{number}", dtype=wanted, trainable=trainable))
        self.shards: tuple[Variable, ...] = tuple(made)
        self.dtype: DType = self.shards[0].dtype
        self.name = self.shards[0].name.rpartition("/")[0]

    def read(self) -> Tensor:
        """A tensor of the whole value: the shards, each read where it lies, put together."""
        values = []
        for shard in self.shards:
            with colocate_with(shard.handle):
                values.append(shard.read())
        if len(values) == 1:
            return values[0]
        whole: Tensor = apply_op("ConcatV2", values, 0, name="read")
        return whole

    def __headrace_tensor__(self) -> Tensor:
        return self.read()

    def lookup(self, ids: TensorLike) -> Tensor:
        """Rows by number; see `hr.nn.embedding_lookup`.

        Args:
          ids: int32 or int64, any shape.
        """
        return embedding_lookup(self.shards, ids, "div")

    def assign(self, value: TensorLike) -> Operation | None:
        """Replace the value; see `Variable.assign`."""
        return self._change(Variable.assign, value)

    def assign_add(self, value: TensorLike) -> Operation | None:
        """Add to the value; atomic for each shard."""
        return self._change(Variable.assign_add, value)

    def assign_sub(self, value: TensorLike) -> Operation | None:
        """Subtract from the value; atomic for each shard."""
        return self._change(Variable.assign_sub, value)

    def _change(self, change: Callable[[Variable, Any], Operation | None], value: TensorLike) -> Operation | None:
        lengths = [shard.shape.as_tuple()[0] for shard in self.shards]
        if not has_graph():
            whole = np.asarray(value)
            pieces: Sequence[Any] = np.split(whole, np.cumsum(lengths)[:-1])
        elif len(lengths) == 1:
            pieces = [value]
        else:
            tensor = convert_to_tensor(value, self.dtype)
            pieces = apply_op("SplitV", tensor, lengths, 0, num_split=len(lengths))
        changes = [change(shard, piece) for shard, piece in zip(self.shards, pieces, strict=True)]
        operations = [operation for operation in changes if operation is not None]
        return group(operations) if operations else None

    def __repr__(self) -> str:
        return f"<hr.PartitionedVariable '{self.name}' {self.dtype}{self.shape} in {len(self.shards)} shards>"

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


def _whole_shape(given: Any) -> Shape:
    shape = Shape() if given is None else as_shape(given)
    if not shape.is_fully_defined or not shape.rank:
        raise ShapeError(
            "a variable in shards needs to know its rows",
            expected="a shape of rank >= 1, all of it known",
            got=str(shape),
            hint="hr.PartitionedVariable(initializer, shards=4, shape=[rows, columns])",
        )
    return shape


def _shard_count(shards: int | None, max_shard_bytes: int | None, rows: int, byte_count: int) -> int:
    if (shards is None) == (max_shard_bytes is None):
        raise InvalidArgumentError(
            "it is not clear into how many shards to divide",
            expected="either shards or max_shard_bytes",
            got=f"shards={shards}, max_shard_bytes={max_shard_bytes}",
            hint="shards=4",
        )
    limit = shards if max_shard_bytes is None else max_shard_bytes
    if limit is None or limit < 1:
        raise InvalidArgumentError(
            "a variable has at least one shard, of at least one byte",
            expected="a positive number",
            got=str(limit),
            hint="shards=1 keeps it whole",
        )
    if max_shard_bytes is not None:
        return min(max(rows, 1), max(1, -(-byte_count // max_shard_bytes)))
    if limit > max(rows, 1):
        raise ShapeError(
            "there are fewer rows than shards",
            expected=f"at most {rows} shards",
            got=str(limit),
            hint="use max_shard_bytes to let the size decide",
        )
    return limit


def _runs(rows: int, count: int) -> list[tuple[int, int]]:
    """Start and length of each shard; the first ones are longer by one where it does not divide evenly."""
    lengths = [rows // count + (number < rows % count) for number in range(count)]
    return [(sum(lengths[:number]), length) for number, length in enumerate(lengths)]
