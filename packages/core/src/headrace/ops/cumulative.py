"""Running sums, products and log-sum-exps along one axis."""

from __future__ import annotations

from headrace.errors import ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.attr import AttrSpec
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.reduction import normalize_axis
from headrace.types import Shape

__all__ = ["cumulative_logsumexp", "cumulative_prod", "cumulative_sum"]


def _register_scan(name: str, spec: AttrSpec, doc: str) -> None:
    def shape(op: InferenceContext) -> list[Shape]:
        x, axis = op.inputs[0].shape, op.constant(1)
        if op.inputs[1].shape.rank not in (None, 0):
            raise ShapeError("the axis is not a scalar", expected="[]", got=str(op.inputs[1].shape))
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
    x: TensorLike, *, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Tensor:
    """The sum of all elements up to each one along an axis.

    Args:
      x: numeric, rank >= 1. float16 and bfloat16 are added up in float32.
      axis: the axis; a negative one counts from the last.
      exclusive: leave the element itself out: the first one is 0.
      reverse: go from the last element to the first.
      name: the operation's name.
    Returns:
      The same dtype and shape.
    Raises:
      InvalidArgumentError: the axis is out of range.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.cumulative_sum([1, 2, 3], exclusive=True, reverse=True)
      >>> print(hr.Session(graph).run(y))
      [5 3 0]
    """
    return _scan("Cumsum", x, axis, exclusive, reverse, name)


def cumulative_prod(
    x: TensorLike, *, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Tensor:
    """The product of all elements up to each one along an axis; an exclusive one starts with 1; see `cumulative_sum`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.cumulative_prod([1, 2, 3])
      >>> print(hr.Session(graph).run(y))
      [1 2 6]
    """
    return _scan("Cumprod", x, axis, exclusive, reverse, name)


def cumulative_logsumexp(
    x: TensorLike, *, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Tensor:
    """log(cumsum(exp(x))) along an axis, without overflow; floating; see `cumulative_sum`.

    An exclusive one starts with minus infinity.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.cumulative_logsumexp([1000.0, 1000.0])
      >>> print(hr.Session(graph).run(y).round(2))
      [1000.   1000.69]
    """
    return _scan("CumulativeLogsumexp", x, axis, exclusive, reverse, name)


def _scan(op_type: str, x: TensorLike, axis: int, exclusive: bool, reverse: bool, name: str | None) -> Tensor:
    result: Tensor = apply_op(op_type, convert_to_tensor(x), axis, exclusive=exclusive, reverse=reverse, name=name)
    return result
