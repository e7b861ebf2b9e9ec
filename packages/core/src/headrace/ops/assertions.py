"""Assertions about tensors (`hr.assert_...`): each is an operation that ends the step with an error unless it holds.

Run others after one by `hr.control_dependencies`; inside `@hr.function` it runs without that. What is known while the
graph is built is checked there.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import ShapeError
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.operation import Operation, Tensor
from headrace.ops.promotion import promoted
from headrace.ops.sequencing import assert_true
from headrace.types import Shape, as_shape, int32

__all__ = [
    "assert_equal",
    "assert_finite",
    "assert_greater",
    "assert_greater_equal",
    "assert_less",
    "assert_less_equal",
    "assert_near",
    "assert_non_negative",
    "assert_not_equal",
    "assert_positive",
    "assert_rank",
    "assert_shape",
]


def _compare(
    op_type: str,
    sign: str,
    x: TensorLike,
    y: TensorLike,
    message: str | None,
    summarize: int,
    name: str | None,
) -> Operation:
    left, right = promoted(x, y)
    holds = apply_op("All", apply_op(op_type, left, right), _all_axes(left, right))
    text = message or f"x {sign} y must hold for every element"
    return assert_true(holds, [f"{text}; x is", left, "y is", right], summarize=summarize, name=name)


def _all_axes(*tensors: Tensor) -> Tensor:
    """Every axis of the broadcast tensors."""
    ranks = [tensor.shape.rank for tensor in tensors]
    known = [rank for rank in ranks if rank is not None]
    if len(known) == len(ranks):
        return convert_to_tensor(list(range(max(known))), int32)
    rank = apply_op("Rank", tensors[0])
    for tensor in tensors[1:]:
        rank = apply_op("Maximum", rank, apply_op("Rank", tensor))
    axes: Tensor = apply_op("Range", 0, rank, 1)
    return axes


def assert_equal(
    x: TensorLike, y: TensorLike, *, message: str | None = None, summarize: int = 3, name: str | None = None
) -> Operation:
    """End the step unless x == y for every element.

    Args:
      x: any dtype and shape.
      y: broadcasts with x.
      message: what the error says before the values.
      summarize: how many elements of each it shows; all if negative.
      name: the operation's name.
    Returns:
      The operation that checks.
    Raises:
      InvalidArgumentError: when it runs and does not hold; it names the line that asked for it.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.placeholder(hr.int32, [None])
      ...     with hr.control_dependencies([hr.assert_equal(hr.sum(x), 3)]):
      ...         y = hr.identity(x)
      >>> print(hr.Session(graph).run(y, feeds={x: [1, 2]}))
      [1 2]
    """
    return _compare("Equal", "==", x, y, message, summarize, name)


def assert_not_equal(
    x: TensorLike, y: TensorLike, *, message: str | None = None, summarize: int = 3, name: str | None = None
) -> Operation:
    """End the step unless x != y for every element; see `assert_equal`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     check = hr.assert_not_equal([1, 2], [2, 1])
      >>> hr.Session(graph).run(check)
    """
    return _compare("NotEqual", "!=", x, y, message, summarize, name)


def assert_less(
    x: TensorLike, y: TensorLike, *, message: str | None = None, summarize: int = 3, name: str | None = None
) -> Operation:
    """End the step unless x < y for every element; see `assert_equal`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     check = hr.assert_less([1, 2], 3)
      >>> hr.Session(graph).run(check)
    """
    return _compare("Less", "<", x, y, message, summarize, name)


def assert_less_equal(
    x: TensorLike, y: TensorLike, *, message: str | None = None, summarize: int = 3, name: str | None = None
) -> Operation:
    """End the step unless x <= y for every element; see `assert_equal`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     check = hr.assert_less_equal([1, 3], 3)
      >>> hr.Session(graph).run(check)
    """
    return _compare("LessEqual", "<=", x, y, message, summarize, name)


def assert_greater(
    x: TensorLike, y: TensorLike, *, message: str | None = None, summarize: int = 3, name: str | None = None
) -> Operation:
    """End the step unless x > y for every element; see `assert_equal`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     check = hr.assert_greater([4, 5], 3)
      >>> hr.Session(graph).run(check)
    """
    return _compare("Greater", ">", x, y, message, summarize, name)


def assert_greater_equal(
    x: TensorLike, y: TensorLike, *, message: str | None = None, summarize: int = 3, name: str | None = None
) -> Operation:
    """End the step unless x >= y for every element; see `assert_equal`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     check = hr.assert_greater_equal([3, 5], 3)
      >>> hr.Session(graph).run(check)
    """
    return _compare("GreaterEqual", ">=", x, y, message, summarize, name)


def assert_positive(
    x: TensorLike, *, message: str | None = None, summarize: int = 3, name: str | None = None
) -> Operation:
    """End the step unless x > 0 for every element; see `assert_equal`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     check = hr.assert_positive([3.0, 5.0])
      >>> hr.Session(graph).run(check)
    """
    return _compare("Greater", ">", x, 0, message or "x > 0 must hold for every element", summarize, name)


def assert_non_negative(
    x: TensorLike, *, message: str | None = None, summarize: int = 3, name: str | None = None
) -> Operation:
    """End the step unless x >= 0 for every element; see `assert_equal`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     check = hr.assert_non_negative([0.0, 5.0])
      >>> hr.Session(graph).run(check)
    """
    return _compare("GreaterEqual", ">=", x, 0, message or "x >= 0 must hold for every element", summarize, name)


def assert_near(
    x: TensorLike,
    y: TensorLike,
    *,
    relative: float = 1e-5,
    absolute: float = 1e-5,
    message: str | None = None,
    summarize: int = 3,
    name: str | None = None,
) -> Operation:
    """End the step unless |x - y| <= absolute + relative * |y| for every element; see `assert_equal`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     check = hr.assert_near([1.0, 2.0], [1.0, 2.000001])
      >>> hr.Session(graph).run(check)
    """
    left, right = promoted(x, y)
    limit = apply_op("AddV2", apply_op("Mul", apply_op("Abs", right), relative), absolute)
    near = apply_op("LessEqual", apply_op("Abs", apply_op("Sub", left, right)), limit)
    holds = apply_op("All", near, _all_axes(left, right))
    text = message or f"x and y must differ by no more than {absolute} + {relative} * |y|"
    return assert_true(holds, [f"{text}; x is", left, "y is", right], summarize=summarize, name=name)


def assert_finite(
    x: TensorLike, *, message: str | None = None, summarize: int = 3, name: str | None = None
) -> Operation:
    """End the step if an element of x is infinite or NaN; see `assert_equal`. `hr.debug` checks every operation.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     check = hr.assert_finite([0.0, 5.0])
      >>> hr.Session(graph).run(check)
    """
    tensor = convert_to_tensor(x)
    holds = apply_op("All", apply_op("IsFinite", tensor), _all_axes(tensor))
    return assert_true(holds, [f"{message or 'x must be finite'}; x is", tensor], summarize=summarize, name=name)


def assert_rank(x: TensorLike, rank: int, *, message: str | None = None, name: str | None = None) -> Operation:
    """End the step unless x has a number of axes.

    Args:
      x: any dtype and shape.
      rank: the number of axes.
      message: what the error says before the shape.
      name: the operation's name.
    Returns:
      The operation that checks.
    Raises:
      ShapeError: at once, if the static shape has another rank.
      InvalidArgumentError: when it runs and does not hold.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     check = hr.assert_rank([[1, 2]], 2)
      >>> hr.Session(graph).run(check)
    """
    tensor = convert_to_tensor(x)
    text = message or f"x must have rank {rank}"
    if tensor.shape.rank not in (None, rank):
        raise _shape_error(text, f"rank {rank}", tensor)
    holds = apply_op("Equal", apply_op("Rank", tensor), rank)
    return assert_true(holds, [f"{text}; its shape is", apply_op("Shape", tensor)], summarize=-1, name=name)


def assert_shape(
    x: TensorLike, shape: Shape | Sequence[int | None], *, message: str | None = None, name: str | None = None
) -> Operation:
    """End the step unless x has a shape, of which some sizes may be open.

    Args:
      x: any dtype and shape.
      shape: for each axis a size, or None for any.
      message: what the error says before the shape.
      name: the operation's name.
    Returns:
      The operation that checks.
    Raises:
      ShapeError: at once, if the static shape does not fit.
      InvalidArgumentError: when it runs and does not hold.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     check = hr.assert_shape([[1, 2]], [None, 2])
      >>> hr.Session(graph).run(check)
    """
    tensor, wanted = convert_to_tensor(x), as_shape(shape)
    text = message or f"x must have shape {wanted}"
    if not tensor.shape.is_compatible_with(wanted):
        raise _shape_error(text, str(wanted), tensor)
    sizes = apply_op("Shape", tensor)
    if wanted.dims is None:
        return assert_true(True, [text], name=name)
    # A comparison by strings of sizes would hide which one differs; -1 stands for an open one on both sides.
    asked = [-1 if size is None else size for size in wanted.dims]
    same = apply_op("Equal", apply_op("Rank", tensor), len(asked))
    padded = apply_op("Slice", apply_op("ConcatV2", [sizes, [-1] * len(asked)], 0), [0], [len(asked)])
    fits = apply_op("LogicalOr", apply_op("Equal", asked, -1), apply_op("Equal", padded, asked))
    holds = apply_op("LogicalAnd", same, apply_op("All", fits, [0]))
    return assert_true(holds, [f"{text}; its shape is", sizes], summarize=-1, name=name)


def _shape_error(text: str, expected: str, tensor: Tensor) -> ShapeError:
    return ShapeError(
        text,
        where=tensor.op.location,
        expected=expected,
        got=str(tensor.shape),
        hint="hr.reshape it, or correct what it is made of",
    )
