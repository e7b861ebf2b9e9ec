"""Embeddings and other parameters that are too large for one place: tables in shards, looked up row by row.

A table of n rows in k shards holds row r in shard r % k as its row r // k ("mod"), or in contiguous runs of which the
first n % k are one row longer ("div"). What is looked up is read beside its shard, so only rows travel, and each shard
gets a gradient of the rows that were read.

Source: paper, section 4.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from headrace.errors import InvalidArgumentError, ShapeError, known_names
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.operation import Tensor
from headrace.graph.scopes import colocate_with, name_scope
from headrace.ops.gather import gather
from headrace.ops.partition import dynamic_partition, dynamic_stitch
from headrace.ops.sparse import SparseTensor
from headrace.types import int32, int64

__all__ = ["embedding_lookup", "embedding_lookup_sparse", "sharded_softmax_cross_entropy"]

_STRATEGIES = ("mod", "div")
_COMBINERS = ("sum", "mean", "sqrtn")


def _shards(params: Any) -> list[Any]:
    is_list = isinstance(params, (list, tuple)) and all(hasattr(part, "shape") for part in params)
    shards = list(params) if is_list else [params]  # a list of numbers is a table
    if not shards:
        raise InvalidArgumentError(
            "there is no table to look up",
            expected="a Variable or tensor, or a list of shards",
            got="an empty list",
            hint="give one shard at least",
        )
    return shards


def _dealt(params: Any, strategy: str) -> tuple[list[Any], str]:
    """The shards of a table and how its rows were dealt to them; a `PartitionedVariable` knows that itself."""
    parts = getattr(params, "shards", None)
    return (_shards(params), strategy) if parts is None else (list(parts), "div")


def _beside(shard: Any) -> Any:
    """The scope in which operations stay with a shard."""
    handle = getattr(shard, "handle", shard)
    return colocate_with(handle) if isinstance(handle, Tensor) else nullcontext()


def _rows(shard: Any) -> Any:
    """How many rows a shard has: a number, or a scalar tensor where it is not known."""
    tensor = shard if hasattr(shard, "shape") else convert_to_tensor(shard)
    known = tensor.shape[0] if len(tensor.shape) else None
    return known if known is not None else apply_op("GatherV2", apply_op("Shape", tensor), 0, 0)


def _check_strategy(strategy: str) -> None:
    if strategy not in _STRATEGIES:
        raise InvalidArgumentError(
            f"there is no strategy '{strategy}'",
            expected=known_names(strategy, _STRATEGIES),
            got=strategy,
            hint="'mod' deals the rows out in turn, 'div' cuts the table into runs",
        )


def _place(ids: Tensor, shards: Sequence[Any], strategy: str) -> tuple[Tensor, Tensor]:
    """For each id the shard and the row in it; both of the dtype of the ids, the shard as int32."""
    count = len(shards)
    if strategy == "mod":
        shard, row = apply_op("FloorMod", ids, count), apply_op("FloorDiv", ids, count)
    else:
        total: Any = 0
        for rows in map(_rows, shards):
            total = rows + total if isinstance(rows, int) and isinstance(total, int) else apply_op("AddV2", rows, total)
        rows = apply_op("Cast", total, DstT=ids.dtype) if isinstance(total, Tensor) else total
        each = rows // count
        longer = rows - each * count
        # The first `longer` shards hold each + 1 rows, the others each: an id is past the former or it is not.
        shard = apply_op("Maximum", ids // (each + 1), (ids - longer) // _at_least_one(each))
        row = ids - apply_op("Minimum", shard, longer) - shard * each
    return apply_op("Cast", shard, DstT=int32), row


def _at_least_one(number: Any) -> Any:
    return apply_op("Maximum", number, 1) if isinstance(number, Tensor) else max(number, 1)


def embedding_lookup(
    params: TensorLike | Sequence[TensorLike],
    ids: TensorLike,
    strategy: str = "mod",
    *,
    max_norm: float | None = None,
    name: str | None = None,
) -> Tensor:
    """Rows of a table by number; the table may lie in shards.

    Args:
      params: a Variable or tensor `[rows, ...]`, a list of shards of it, or a PartitionedVariable. Of a Variable only
        the rows asked for are read, where it is, and only they get a gradient.
      ids: int32 or int64, any shape, each `0 <= id < rows`.
      strategy: how rows are dealt to shards: `"mod"` in turn, `"div"` in runs of equal length, as in a
        PartitionedVariable, whatever is said here.
      max_norm: rows that are longer are scaled down to this Euclidean norm, after they were read.
      name: names the operations.
    Returns:
      `[ids..., row...]` of the dtype of `params`.
    Raises:
      InvalidArgumentError: there is no shard, or no such strategy.
      OutOfRangeError: an id is not a row (when it is run).

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     shards = [hr.Variable([[0.0], [2.0]]), hr.Variable([[1.0], [3.0]])]
      ...     rows = hr.nn.embedding_lookup(shards, [[3, 0], [1, 2]])
      >>> print(hr.Session(graph).run(rows).tolist())
      [[[3.0], [0.0]], [[1.0], [2.0]]]
    """
    _check_strategy(strategy)
    shards, strategy = _dealt(params, strategy)
    if len(shards) == 1:
        whole = gather(shards[0], ids, name=name)
        return whole if max_norm is None else _limited(whole, max_norm, convert_to_tensor(ids).shape.rank)
    with name_scope(name or "embedding_lookup"):
        tensor = convert_to_tensor(ids)
        flat: Tensor = apply_op("Reshape", tensor, [-1])
        shard, row = _place(flat, shards, strategy)
        order = apply_op("Range", 0, apply_op("Size", flat), 1)
        places = dynamic_partition(order, shard, len(shards))
        rows = dynamic_partition(row, shard, len(shards))
        found = []
        for item, local in zip(shards, rows, strict=True):
            with _beside(item):
                part = gather(item, local)
                found.append(part if max_norm is None else _limited(part, max_norm, 1))
        stitched = dynamic_stitch(places, found)
        row_shape = apply_op("StridedSlice", apply_op("Shape", found[0]), [1], [0], [1], end_mask=1)
        result: Tensor = apply_op("Reshape", stitched, apply_op("ConcatV2", [apply_op("Shape", tensor), row_shape], 0))
        if tensor.shape.dims is not None and found[0].shape.dims is not None:
            result.set_shape(tensor.shape + type(tensor.shape)(found[0].shape.dims[1:]))
    return result


def _limited(rows: Tensor, limit: float, lead: int | None) -> Tensor:
    """Rows, `[lead axes..., row...]`, scaled down to a norm; rows of norm 0 stay."""
    rank = rows.shape.rank
    if lead is None or rank is None:
        raise ShapeError(
            "max_norm needs to know the rank of the rows",
            expected="ids and params of known rank",
            got=str(rows.shape),
            hint="hr.ensure_shape states it",
        )
    axes = list(range(lead, rank))
    norms = apply_op("Sqrt", apply_op("Sum", apply_op("Square", rows), axes, keep_dims=True))
    result: Tensor = apply_op("Mul", rows, apply_op("RealDiv", limit, apply_op("Maximum", norms, limit)))
    return result


def embedding_lookup_sparse(
    params: TensorLike | Sequence[TensorLike],
    ids: SparseTensor,
    weights: SparseTensor | None = None,
    strategy: str = "mod",
    *,
    combiner: str = "mean",
    max_norm: float | None = None,
    name: str | None = None,
) -> Tensor:
    """For each example the sum or mean of the rows of a table that its ids name.

    Args:
      params: see `embedding_lookup`; an id that comes several times is read once.
      ids: int32 or int64 `[batch, any]`, sparse, with indices in order.
      weights: floating, of the same indices: what each row is multiplied by; 1 if None.
      strategy: see `embedding_lookup`.
      combiner: `"sum"` of the weighted rows, `"mean"`: divided by the sum of the weights, or `"sqrtn"`: divided by the
        root of the sum of their squares.
      max_norm: see `embedding_lookup`.
      name: names the operations.
    Returns:
      `[batch, row...]`; zeros for an example without ids.
    Raises:
      InvalidArgumentError: there is no such combiner or strategy.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     table = hr.Variable([[1.0], [2.0], [4.0]])
      ...     ids = hr.SparseTensor([[0, 0], [0, 1], [2, 0]], [0, 2, 1], [3, 2])
      ...     rows = hr.nn.embedding_lookup_sparse(table, ids, combiner="sum")
      >>> print(hr.Session(graph).run(rows).tolist())
      [[5.0], [0.0], [2.0]]
    """
    if combiner not in _COMBINERS:
        raise InvalidArgumentError(
            f"there is no combiner '{combiner}'",
            expected=known_names(combiner, _COMBINERS),
            got=combiner,
            hint="combiner='mean' divides by the number of ids",
        )
    with name_scope(name or "embedding_lookup_sparse"):
        indices = convert_to_tensor(ids.indices, None if isinstance(ids.indices, Tensor) else int64)
        sizes = convert_to_tensor(ids.shape, None if isinstance(ids.shape, Tensor) else int64)
        example = apply_op(
            "StridedSlice", indices, [0, 0], [0, 1], [1, 1], begin_mask=1, end_mask=1, shrink_axis_mask=2
        )
        batch = apply_op("GatherV2", sizes, 0, 0)
        different, number = apply_op("Unique", convert_to_tensor(ids.values))
        table = embedding_lookup(params, different, strategy, max_norm=max_norm)
        rows = gather(table, number)
        if weights is None:
            factors = apply_op("Fill", apply_op("Shape", number), apply_op("Cast", 1.0, DstT=rows.dtype))
        else:
            factors = convert_to_tensor(weights.values)
            factors = factors if factors.dtype is rows.dtype else apply_op("Cast", factors, DstT=rows.dtype)
            rows = apply_op("Mul", rows, _columns(factors, rows))
        total: Tensor = apply_op("UnsortedSegmentSum", rows, example, batch)
        if combiner == "sum":
            return total
        squares = factors if combiner == "mean" else apply_op("Square", factors)
        divisor = apply_op("UnsortedSegmentSum", squares, example, batch)
        divisor = divisor if combiner == "mean" else apply_op("Sqrt", divisor)
        result: Tensor = apply_op("DivNoNan", total, _columns(divisor, total))
    return result


def _columns(vector: Tensor, rows: Tensor) -> Tensor:
    """A number for each row, shaped to broadcast with the rows."""
    trailing = apply_op("OnesLike", apply_op("StridedSlice", apply_op("Shape", rows), [1], [0], [1], end_mask=1))
    result: Tensor = apply_op("Reshape", vector, apply_op("ConcatV2", [[-1], trailing], 0))
    return result


def sharded_softmax_cross_entropy(
    weights: Sequence[TensorLike],
    biases: Sequence[TensorLike] | None,
    labels: TensorLike,
    inputs: TensorLike,
    strategy: str = "mod",
    *,
    name: str | None = None,
) -> Tensor:
    """The cross entropy of a softmax over more classes than fit one place: each shard multiplies where it is.

    Of each shard only the largest logit, a sum and the logit of the true class travel, `[batch]` each.

    Args:
      weights: shards of `[classes, features]`.
      biases: shards of `[classes]`, or None.
      labels: int32 or int64 `[batch]`.
      inputs: `[batch, features]`, the activations below the softmax.
      strategy: how classes are dealt to shards, see `embedding_lookup`.
      name: names the operations.
    Returns:
      `[batch]`, the loss in nats.
    Raises:
      InvalidArgumentError: there is no shard or no such strategy, or not one shard of biases for each of weights.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     shards = [hr.zeros([3, 2]), hr.zeros([2, 2])]
      ...     loss = hr.nn.sharded_softmax_cross_entropy(shards, None, [4], [[1.0, 1.0]])
      >>> print(hr.Session(graph).run(loss).round(4))
      [1.6094]
    """
    _check_strategy(strategy)
    shards, strategy = _dealt(weights, strategy)
    offsets = [None] * len(shards) if biases is None else _dealt(biases, strategy)[0]
    if len(offsets) != len(shards):
        raise InvalidArgumentError(
            "weights and biases differ in their shards",
            expected=f"{len(shards)} shards of biases",
            got=str(len(offsets)),
            hint="deal both out by the same strategy",
        )
    with name_scope(name or "sharded_softmax_cross_entropy"):
        x, classes = convert_to_tensor(inputs), convert_to_tensor(labels)
        owner, row = _place(classes, shards, strategy)
        pieces = []
        for number, (item, offset) in enumerate(zip(shards, offsets, strict=True)):
            with _beside(item):
                pieces.append(_piece(x, item, offset, apply_op("Equal", owner, number), row))
        largest = pieces[0][0]
        for highest, _, _ in pieces[1:]:
            largest = apply_op("Maximum", largest, highest)
        largest = apply_op("StopGradient", largest)  # it only keeps the exponentials small
        scaled = [total * apply_op("Exp", highest - largest) for highest, total, _ in pieces]
        logs = apply_op("Log", apply_op("AddN", scaled)) + largest
        loss: Tensor = logs - apply_op("AddN", [true for _, _, true in pieces])
    return loss


def _piece(x: Tensor, weights: Any, biases: Any, mine: Tensor, row: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of one shard's logits `[batch, classes]`: the largest, the sum of exp below it, and the true ones, else 0."""
    logits = apply_op("MatMul", x, weights, transpose_b=True)
    logits = logits if biases is None else logits + convert_to_tensor(biases)
    highest = apply_op("StopGradient", apply_op("Max", logits, [1]))
    total = apply_op("Sum", apply_op("Exp", logits - apply_op("ExpandDims", highest, 1)), [1])
    inside = apply_op("SelectV2", mine, row, apply_op("ZerosLike", row))
    picked = gather(logits, apply_op("ExpandDims", inside, 1), axis=1, batch_dims=1)
    true = apply_op("SelectV2", mine, apply_op("Squeeze", picked, squeeze_dims=[1]), apply_op("ZerosLike", highest))
    return highest, total, true
