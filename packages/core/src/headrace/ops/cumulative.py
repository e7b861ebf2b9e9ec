"""Running sums, products and log-sum-exps along one axis, and differences of neighbours."""

from __future__ import annotations

import numpy as np

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.attr import AttrSpec
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.axes import known_rank
from headrace.ops.promotion import promoted
from headrace.ops.reduction import normalize_axis, summable
from headrace.types import DTypeLike, Shape, int32
from headrace.types import bool as bool_dtype

__all__ = ["cumulative_logsumexp", "cumulative_prod", "cumulative_sum", "diff"]


def _register_scan(name: str, spec: AttrSpec, doc: str) -> None:
    def shape(op: InferenceContext) -> list[Shape]:
        x, axis = op.inputs[0].shape, op.constant(1)
        if op.inputs[1].shape.rank not in (None, 0):
            raise ShapeError(
                "the axis is not a scalar",
                expected="[]",
                got=str(op.inputs[1].shape),
                hint="scan along one axis at a time, one call for each",
            )
        if axis is not None and x.rank is not None:
            normalize_axis(int(axis), x.rank)
        return [x]

    shape.__doc__ = doc
    attrs = {"exclusive": attr.bool(False), "reverse": attr.bool(False), "T": spec, "Tidx": attr.index_type}
    register_op(name, inputs={"x": "T", "axis": "Tidx"}, outputs={"out": "T"}, attrs=attrs)(shape)


_register_scan("Cumsum", attr.numeric, "The sum of all elements up to each one along an axis.")
_register_scan("Cumprod", attr.numeric, "The product of all elements up to each one along an axis.")
_register_scan(
    "CumulativeLogsumexp",
    attr.floating,
    "log(cumsum(exp(x))) along an axis; the log-sum-exp of no elements is minus infinity.",
)


def cumulative_sum(
    x: TensorLike,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Tensor:
    """The sum of all elements up to each one along an axis.

    Args:
      x: numeric, rank >= 1; narrow integers and bools are counted as in `hr.sum`. float16 and bfloat16 are added up in
        float32.
      axis: the axis; a negative one counts from the last. Needed unless `x` is a vector.
      dtype: the dtype to convert to before.
      include_initial: put the sum of no elements, 0, first, so that the result has one element more along the axis.
      exclusive: leave the element itself out: the first one is 0.
      reverse: go from the last element to the first (with `include_initial`, 0 is the last one).
      name: the operation's name.
    Returns:
      The dtype that is counted in, and the shape of `x`.
    Raises:
      InvalidArgumentError: the axis is out of range, or needed; or both `include_initial` and `exclusive` are given.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.cumulative_sum([1, 2, 3], include_initial=True)
      >>> print(hr.Session(graph).run(y))
      [0 1 3 6]
    """
    return _scan("Cumsum", summable(x, dtype), axis, 0 if include_initial else None, exclusive, reverse, name)


def cumulative_prod(
    x: TensorLike,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Tensor:
    """The product of all elements up to each one along an axis, 1 where there are none; see `cumulative_sum`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.cumulative_prod([1, 2, 3])
      >>> print(hr.Session(graph).run(y))
      [1 2 6]
    """
    return _scan("Cumprod", summable(x, dtype), axis, 1 if include_initial else None, exclusive, reverse, name)


def cumulative_logsumexp(
    x: TensorLike,
    *,
    axis: int | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Tensor:
    """log(cumsum(exp(x))) along an axis, without overflow; floating; see `cumulative_sum`.

    An exclusive one starts with the lowest finite number, which stands for minus infinity.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.cumulative_logsumexp([1000.0, 1000.0])
      >>> print(hr.Session(graph).run(y).round(2))
      [1000.   1000.69]
    """
    return _scan("CumulativeLogsumexp", convert_to_tensor(x), axis, None, exclusive, reverse, name)


def _scan(
    op_type: str,
    x: Tensor,
    axis: int | None,
    initial: int | None,
    exclusive: bool,
    reverse: bool,
    name: str | None,
) -> Tensor:
    if axis is None and x.shape.rank != 1:
        raise InvalidArgumentError(
            "the axis must be given",
            where=x.op.location,
            expected="axis=..., or a vector",
            got=str(x.spec),
            hint="axis=0 goes along the first axis; hr.reshape(x, [-1]) makes a vector",
        )
    chosen = 0 if axis is None else axis
    if initial is None:
        result: Tensor = apply_op(op_type, x, chosen, exclusive=exclusive, reverse=reverse, name=name)
        return result
    if exclusive:
        raise InvalidArgumentError(
            "an exclusive scan begins with the initial value already",
            expected="include_initial or exclusive",
            got="both",
            hint="drop exclusive=True, or include_initial=True if the size is to stay",
        )
    rank = known_rank(x, "include_initial", least=1)
    position, shape = normalize_axis(chosen, rank), apply_op("Shape", x)
    sizes = convert_to_tensor([1 if index == position else shape[index] for index in range(rank)], int32)
    first = apply_op("Fill", sizes, np.array(initial, x.dtype.array_type))
    scanned = apply_op(op_type, x, chosen, reverse=reverse)
    joined: Tensor = apply_op("ConcatV2", [scanned, first] if reverse else [first, scanned], chosen, name=name)
    return joined


def diff(
    x: TensorLike,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: TensorLike | None = None,
    append: TensorLike | None = None,
    name: str | None = None,
) -> Tensor:
    """The differences of neighbours along an axis: each element less the one before it.

    Args:
      x: numeric or bool, of known rank >= 1; of bools, whether neighbours differ.
      axis: the axis.
      n: how many times differences are taken, of differences the second time.
      prepend: what to put before the first element first, of the shape of `x` but along the axis.
      append: what to put behind the last element first.
      name: the operation's name.
    Returns:
      The dtype of `x` (promoted with those of `prepend` and `append`), and its shape with n elements less along the
      axis.
    Raises:
      InvalidArgumentError: n is negative, or the axis is out of range.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.diff([1, 4, 9, 16])
      >>> print(hr.Session(graph).run(y))
      [3 5 7]
    """
    if n < 0:
        raise InvalidArgumentError(
            "the number of differences is negative",
            expected="n >= 0",
            got=str(n),
            hint="n=0 takes none; hr.cumulative_sum undoes differences",
        )
    parts = promoted(*(part for part in (prepend, x, append) if part is not None))
    result: Tensor = parts[0] if len(parts) == 1 else apply_op("ConcatV2", parts, axis)
    before = (slice(None),) * normalize_axis(axis, known_rank(result, "diff", least=1))
    difference = "NotEqual" if result.dtype is bool_dtype else "Sub"
    for _ in range(n):
        result = apply_op(difference, result[(*before, slice(1, None))], result[(*before, slice(None, -1))])
    named: Tensor = apply_op("Identity", result, name=name) if name is not None else result
    return named
