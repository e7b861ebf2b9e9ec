"""Operations that choose elements by a condition."""

from __future__ import annotations

from headrace import types
from headrace.errors import DTypeError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor, graph_of
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.graph.scopes import name_scope
from headrace.ops.promotion import promoted
from headrace.types import DTypeLike, Shape, as_dtype, broadcast_shapes

__all__ = ["argwhere", "boolean_mask", "check_select", "sequence_mask", "where"]


@register_op(
    "SelectV2",
    inputs={"condition": "bool", "t": "T", "e": "T"},
    outputs={"output": "T"},
)
def _select_v2_shape(op: InferenceContext) -> list[Shape]:
    """The element of t where the condition is true, that of e elsewhere; all three broadcast."""
    return [broadcast_shapes(*(spec.shape for spec in op.inputs))]


@register_op(
    "Select",
    inputs={"condition": "bool", "t": "T", "e": "T"},
    outputs={"output": "T"},
)
def _select_shape(op: InferenceContext) -> list[Shape]:
    """As `SelectV2`, for t and e of one shape and a condition that has it too, is a scalar, or chooses whole rows."""
    condition, first, second = (spec.shape for spec in op.inputs)
    shape = check_select(condition, first, second)
    return [shape]


def check_select(condition: Shape, first: Shape, second: Shape) -> Shape:
    """The shape of a `Select`.

    Raises:
      ShapeError: the inputs do not fit together.
    """
    if not first.is_compatible_with(second):
        raise ShapeError(
            "the tensors to choose from differ",
            expected=str(first),
            got=str(second),
            hint="hr.where broadcasts them; for Select use hr.broadcast_to first",
        )
    shape = first.merge(second)
    rows = Shape() if shape.dims is None else Shape(shape.dims[:1])
    chooses_rows = condition.rank == 1 and condition.is_compatible_with(rows)
    if condition.rank not in (None, 0) and not chooses_rows and not condition.is_compatible_with(shape):
        raise ShapeError(
            "the condition does not fit",
            expected=f"[], {rows} or {shape}",
            got=str(condition),
            hint="hr.where broadcasts the condition; for Select use hr.broadcast_to first",
        )
    return shape


@register_op(
    "Where",
    inputs={"input": "T"},
    outputs={"index": "int64"},
    attrs={"T": attr.type(*types.COMPUTABLE, default=types.bool)},
)
def _where_shape(op: InferenceContext) -> list[Shape]:
    """The coordinates of the elements that are true, or not zero, row by row: one row for each."""
    return [Shape([None, op.inputs[0].shape.rank])]


def where(condition: TensorLike, x: TensorLike, y: TensorLike, *, name: str | None = None) -> Tensor:
    """The element of `x` where the condition is true, that of `y` elsewhere.

    Both are computed for all elements. The gradient of an element that was not chosen is zero; where it was computed by
    something whose derivative is infinite, zero times infinity is NaN all the same: put a harmless value into it first.

    Args:
      condition: bool.
      x: any dtype.
      y: any dtype; the two are promoted to a common one.
      name: the operation's name.
    Returns:
      The shape to which the three broadcast. `hr.argwhere` gives the coordinates of true elements.

    Both sides are computed, and what is not chosen gets the gradient 0, which comes to `0 * inf`, NaN, where the slope
    on the way to it is infinite: as in TensorFlow, the gradient of `hr.where(x > 0, hr.log(x), 0)` at 0 is NaN. Keep
    the side that is not chosen away from such points: `hr.where(x > 0, hr.log(hr.where(x > 0, x, 1)), 0)`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.where([True, False, True], [1, 2, 3], 0)
      >>> print(hr.Session(graph).run(x))
      [1 0 3]
    """
    result: Tensor = apply_op("SelectV2", condition, *promoted(x, y), name=name)
    return result


def argwhere(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The coordinates of the elements that are true, or not zero.

    Args:
      x: bool or numeric, rank n.
      name: the operation's name.
    Returns:
      int64 `[true elements, n]`, row by row.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.argwhere([[True, False], [True, True]])
      >>> print(hr.Session(graph).run(x))
      [[0 0]
       [1 0]
       [1 1]]
    """
    result: Tensor = apply_op("Where", convert_to_tensor(x), name=name)
    return result


def sequence_mask(
    lengths: TensorLike, maxlen: TensorLike | None = None, dtype: DTypeLike = types.bool, *, name: str | None = None
) -> Tensor:
    """Which positions lie within sequences of some lengths: element j of a row is true if j is less than its length.

    Args:
      lengths: integer, any shape.
      maxlen: how many positions there are, an integer scalar; the largest length by default.
      dtype: of the result, in which true is 1.
      name: the name scope.
    Returns:
      `[lengths..., maxlen]`.
    Raises:
      DTypeError: `lengths` are no integers.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.sequence_mask([1, 3, 0], dtype=hr.int32)
      >>> print(hr.Session(graph).run(x))
      [[1 0 0]
       [1 1 1]
       [0 0 0]]
    """
    with graph_of([lengths]), name_scope(name or "sequence_mask"):
        given = convert_to_tensor(lengths)
        if not given.dtype.is_integer:
            raise DTypeError(
                "the lengths of sequence_mask are no integers",
                where=given.op.location,
                expected="an integer dtype",
                got=str(given.spec),
                hint="hr.astype(lengths, hr.int32) cuts fractions off",
            )
        if maxlen is None:
            limit = apply_op("Maximum", apply_op("Max", apply_op("Reshape", given, [-1]), [0]), 0)
        else:
            limit = convert_to_tensor(maxlen, given.dtype)
        positions = apply_op("Range", convert_to_tensor(0, given.dtype), limit, convert_to_tensor(1, given.dtype))
        mask: Tensor = apply_op("Less", positions, apply_op("ExpandDims", given, -1))
        return mask if as_dtype(dtype) is types.bool else apply_op("Cast", mask, DstT=as_dtype(dtype))


def boolean_mask(x: TensorLike, mask: TensorLike, *, axis: int = 0, name: str | None = None) -> Tensor:
    """The elements, or slices, of `x` where the mask is true.

    Args:
      x: any dtype, `[outer..., masked..., inner...]` with `axis` outer axes.
      mask: bool `[masked...]`, of known rank >= 1.
      axis: the first axis of which the mask speaks.
      name: the operation's name.
    Returns:
      `[outer..., true elements, inner...]`.
    Raises:
      ShapeError: the mask does not fit the axes, or its rank is not known or 0.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.boolean_mask([[1, 2], [3, 4], [5, 6]], [True, False, True])
      >>> print(hr.Session(graph).run(x))
      [[1 2]
       [5 6]]
    """
    tensor, chosen = convert_to_tensor(x), convert_to_tensor(mask, types.bool)
    depth = chosen.shape.rank
    if not depth:
        raise ShapeError(
            "a mask needs a known rank",
            where=chosen.op.location,
            expected="rank >= 1",
            got=str(chosen.shape),
            hint="hr.ensure_shape(mask, [None]) states the rank; hr.where chooses by a scalar",
        )
    first = axis + len(tensor.shape) if axis < 0 else axis
    if tensor.shape.dims is not None and not chosen.shape.is_compatible_with(
        Shape(tensor.shape.dims[first : first + depth])
    ):
        raise ShapeError(
            "the mask does not fit the tensor",
            expected=f"the sizes of {tensor.shape} from axis {first} on",
            got=str(chosen.shape),
            hint="axis= says where the axes of the mask begin; hr.where broadcasts a mask",
        )
    sizes: Tensor = apply_op("Shape", tensor)
    merged = apply_op("ConcatV2", [sizes[:first], convert_to_tensor([-1]), sizes[first + depth :]], 0)
    rows = apply_op("Reshape", tensor, merged) if depth > 1 else tensor
    positions = apply_op("Squeeze", apply_op("Where", apply_op("Reshape", chosen, [-1])), squeeze_dims=[1])
    result: Tensor = apply_op("GatherV2", rows, positions, first, name=name)
    return result
