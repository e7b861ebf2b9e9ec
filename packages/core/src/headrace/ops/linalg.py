"""Linear algebra: matrix products, factorisations and solutions."""

from __future__ import annotations

from headrace.errors import ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.graph.operators import overload_operator
from headrace.ops.promotion import promoted
from headrace.types import Shape, broadcast_shapes

__all__ = ["matmul"]


def check_product(op: InferenceContext, left: int | None, right: int | None, hint: str) -> None:
    """Raise ShapeError unless the inner sizes of a product can be equal."""
    if left is not None and right is not None and left != right:
        raise ShapeError(
            f"{op.type} '{op.name}' cannot multiply its inputs",
            expected="as many columns on the left as rows on the right",
            got=f"{op.inputs[0]} and {op.inputs[1]}: {left} columns and {right} rows",
            hint=hint,
        )


@register_op(
    "MatMul",
    inputs={"a": "T", "b": "T"},
    outputs={"product": "T"},
    attrs={
        "transpose_a": attr.bool(False),
        "transpose_b": attr.bool(False),
        "T": attr.numeric,
        "grad_a": attr.bool(False),
        "grad_b": attr.bool(False),
    },
)
def _matmul_shape(op: InferenceContext) -> list[Shape]:
    """The product of two matrices, each transposed first if asked; `grad_a` and `grad_b` change nothing."""
    rows, inner = op.inputs[0].shape.with_rank(2)
    other, columns = op.inputs[1].shape.with_rank(2)
    if op.attr("transpose_a"):
        rows, inner = inner, rows
    if op.attr("transpose_b"):
        other, columns = columns, other
    check_product(op, inner, other, "transpose_a=True or transpose_b=True, or exchange the inputs")
    return [Shape([rows, columns])]


def _batch_matmul_shape(op: InferenceContext) -> list[Shape]:
    left, right = op.inputs[0].shape, op.inputs[1].shape
    if left.dims is None or right.dims is None:
        return [Shape()]
    if len(left) < 2 or len(right) < 2:
        raise ShapeError(f"{op.type} multiplies matrices", expected="rank >= 2", got=f"{left} and {right}")
    (rows, inner), (other, columns) = left.dims[-2:], right.dims[-2:]
    if op.attr("adj_x"):
        rows, inner = inner, rows
    if op.attr("adj_y"):
        other, columns = columns, other
    check_product(op, inner, other, "adj_x=True or adj_y=True, or exchange the inputs")
    return [broadcast_shapes(Shape(left.dims[:-2]), Shape(right.dims[:-2])) + Shape([rows, columns])]


_BATCH_ATTRS = {
    "T": attr.numeric,
    "adj_x": attr.bool(False),
    "adj_y": attr.bool(False),
    "grad_x": attr.bool(False),
    "grad_y": attr.bool(False),
}


@register_op("BatchMatMulV2", inputs={"x": "T", "y": "T"}, outputs={"output": "T"}, attrs=_BATCH_ATTRS)
def _batch_matmul_v2_shape(op: InferenceContext) -> list[Shape]:
    """Products of matrices, `[..., n, k]` and `[..., k, m]`, whose leading axes broadcast; `adj` is the conjugate transpose."""
    return _batch_matmul_shape(op)


@register_op("BatchMatMul", inputs={"x": "T", "y": "T"}, outputs={"output": "T"}, attrs=_BATCH_ATTRS)
def _batch_matmul_v1_shape(op: InferenceContext) -> list[Shape]:
    """Products of matrices, `[..., n, k]` and `[..., k, m]`, of equal leading axes."""
    left, right = op.inputs[0].shape, op.inputs[1].shape
    if left.dims is not None and right.dims is not None:
        batches = Shape(left.dims[:-2]), Shape(right.dims[:-2])
        if not batches[0].is_compatible_with(batches[1]):
            raise ShapeError("BatchMatMul does not broadcast", expected=str(batches[0]), got=str(batches[1]))
    return _batch_matmul_shape(op)


@overload_operator("matmul")
def matmul(
    a: TensorLike,
    b: TensorLike,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    name: str | None = None,
) -> Tensor:
    """The matrix product of a and b.

    Args:
      a: numeric `[..., n, k]`, or `[k]` for a row of one matrix.
      b: numeric `[..., k, m]`, or `[k]` for a column; the leading axes broadcast with those of `a`.
      transpose_a: take `a` as `[..., k, n]`.
      transpose_b: take `b` as `[..., m, k]`.
      name: the operation's name.
    Returns:
      The promoted dtype, `[..., n, m]`, without the axis that a vector does not have. Zeros where k is 0.
    Raises:
      ShapeError: the inner sizes differ, or an input is a scalar.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.matmul([[1.0, 2.0], [3.0, 4.0]], [[1.0], [10.0]])
      >>> print(hr.Session(graph).run(y))
      [[21.]
       [43.]]
    """
    left, right = promoted(a, b)
    ranks = (left.shape.rank, right.shape.rank)
    if ranks == (2, 2):
        product: Tensor = apply_op("MatMul", left, right, transpose_a=transpose_a, transpose_b=transpose_b, name=name)
        return product
    if 0 in ranks:
        raise ShapeError("matmul multiplies matrices", expected="rank >= 1", got=f"{left.spec} and {right.spec}")
    if ranks[0] == 1:
        left = apply_op("ExpandDims", left, -1 if transpose_a else 0)
    if ranks[1] == 1:
        right = apply_op("ExpandDims", right, 0 if transpose_b else -1)
    if left.dtype.is_complex:  # adj conjugates, transpose does not
        left = apply_op("Conj", left) if transpose_a else left
        right = apply_op("Conj", right) if transpose_b else right
    product = apply_op("BatchMatMulV2", left, right, adj_x=transpose_a, adj_y=transpose_b, name=name)
    squeezed = [axis for axis, rank in ((-2, ranks[0]), (-1, ranks[1])) if rank == 1]
    return apply_op("Squeeze", product, squeeze_dims=squeezed) if squeezed else product  # type: ignore[no-any-return]
