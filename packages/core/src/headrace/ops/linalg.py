"""Linear algebra (`hr.linalg`): the functions of the families below it, matrix products, inverses and solutions."""

from __future__ import annotations

from headrace.errors import ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.graph.operators import overload_operator
from headrace.ops.axes import matrix_transpose
from headrace.ops.complex import conj
from headrace.ops.einsum import tensordot
from headrace.ops.factorization import (
    FACTORED,
    eigh,
    eigvalsh,
    matrix_rank,
    matrix_shape,
    pinv,
    qr,
    slogdet,
    solve_triangular,
    svd,
    svdvals,
)
from headrace.ops.math import apply_unary
from headrace.ops.norms import matrix_norm, vector_norm
from headrace.ops.products import cross, diagonal, matrix_power, outer, trace, vecdot
from headrace.ops.promotion import promoted
from headrace.types import Shape, broadcast_shapes

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


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
        "grad_a": attr.bool(False, recent=True),
        "grad_b": attr.bool(False, recent=True),
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
        raise ShapeError(
            f"{op.type} multiplies matrices",
            expected="rank >= 2",
            got=f"{left} and {right}",
            hint="hr.matmul takes vectors too; hr.expand_dims makes a matrix of one",
        )
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
    "grad_x": attr.bool(False, recent=True),
    "grad_y": attr.bool(False, recent=True),
}


@register_op("BatchMatMulV2", inputs={"x": "T", "y": "T"}, outputs={"output": "T"}, attrs=_BATCH_ATTRS)
def _batch_matmul_v2_shape(op: InferenceContext) -> list[Shape]:
    """Products of matrices `[..., n, k]` and `[..., k, m]` whose leading axes broadcast."""
    return _batch_matmul_shape(op)


@register_op("BatchMatMul", inputs={"x": "T", "y": "T"}, outputs={"output": "T"}, attrs=_BATCH_ATTRS)
def _batch_matmul_v1_shape(op: InferenceContext) -> list[Shape]:
    """Products of matrices, `[..., n, k]` and `[..., k, m]`, of equal leading axes."""
    left, right = op.inputs[0].shape, op.inputs[1].shape
    if left.dims is not None and right.dims is not None:
        batches = Shape(left.dims[:-2]), Shape(right.dims[:-2])
        if not batches[0].is_compatible_with(batches[1]):
            raise ShapeError(
                "BatchMatMul does not broadcast",
                expected=str(batches[0]),
                got=str(batches[1]),
                hint="hr.matmul broadcasts, or hr.broadcast_to one of them",
            )
    return _batch_matmul_shape(op)


@register_op("Cholesky", inputs={"input": "T"}, outputs={"output": "T"}, attrs={"T": FACTORED})
def _cholesky_shape(op: InferenceContext) -> list[Shape]:
    """The lower triangular L with L L* = A, for positive definite A of which only the lower triangle is read."""
    matrix_shape(op, 0, square=True)
    return [op.inputs[0].shape]


@register_op(
    "MatrixInverse",
    inputs={"input": "T"},
    outputs={"output": "T"},
    attrs={"adjoint": attr.bool(False), "T": FACTORED},
)
def _inverse_shape(op: InferenceContext) -> list[Shape]:
    """The inverse of square matrices, or of their adjoints; a singular one is an error."""
    matrix_shape(op, 0, square=True)
    return [op.inputs[0].shape]


@register_op("MatrixDeterminant", inputs={"input": "T"}, outputs={"output": "T"}, attrs={"T": FACTORED})
def _determinant_shape(op: InferenceContext) -> list[Shape]:
    """The determinants of square matrices; 1 of an empty one."""
    return [matrix_shape(op, 0, square=True)[0]]


@register_op(
    "MatrixSolve",
    inputs={"matrix": "T", "rhs": "T"},
    outputs={"output": "T"},
    attrs={"adjoint": attr.bool(False), "T": FACTORED},
)
def _solve_shape(op: InferenceContext) -> list[Shape]:
    """X with A X = B, or A* X = B, for square A `[..., n, n]` and B `[..., n, k]`; a singular A is an error."""
    matrix_shape(op, 0, square=True)
    matrix, rhs = op.inputs[0].shape, op.inputs[1].shape
    if matrix.dims is None or rhs.dims is None:
        return [rhs]
    if len(rhs) < 2 or not Shape(matrix.dims[:-1]).is_compatible_with(Shape(rhs.dims[:-1])):
        raise ShapeError(
            "the right side does not fit the matrix",
            expected=f"{Shape(matrix.dims[:-1])} + [k]",
            got=str(rhs),
            hint="hr.expand_dims(b, axis=-1) makes a column of a vector; hr.broadcast_to adds leading axes",
        )
    return [rhs]


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
        raise ShapeError(
            "matmul multiplies matrices",
            expected="rank >= 1",
            got=f"{left.spec} and {right.spec}",
            hint="hr.multiply, or *, scales by a number",
        )
    if ranks[0] == 1:
        left = apply_op("ExpandDims", left, -1 if transpose_a else 0)
    if ranks[1] == 1:
        right = apply_op("ExpandDims", right, 0 if transpose_b else -1)
    if left.dtype.is_complex:  # adj conjugates, transpose does not
        left = apply_op("Conj", left) if transpose_a else left
        right = apply_op("Conj", right) if transpose_b else right
    product = apply_op("BatchMatMulV2", left, right, adj_x=transpose_a, adj_y=transpose_b, name=name)
    squeezed = [axis for axis, rank in ((-2, ranks[0]), (-1, ranks[1])) if rank == 1]
    return apply_op("Squeeze", product, squeeze_dims=squeezed) if squeezed else product


def cholesky(x: TensorLike, *, upper: bool = False, name: str | None = None) -> Tensor:
    """The lower triangular L with L L* = x.

    Args:
      x: floating or complex `[..., n, n]`, positive definite; only the lower triangle is read.
      upper: give L*, the upper triangular U with U* U = x.
      name: the operation's name.
    Returns:
      The same dtype and shape. The gradient is symmetric, as if both triangles had been read.
    Raises:
      ShapeError: the matrices are not square.
      InvalidArgumentError: one is not positive definite (when the step runs).

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.linalg.cholesky([[4.0, 2.0], [2.0, 5.0]])
      >>> print(hr.Session(graph).run(y))
      [[2. 0.]
       [1. 2.]]
    """
    if not upper:
        return apply_unary("Cholesky", x, name)
    adjoint: Tensor = apply_op("Einsum", [conj(apply_unary("Cholesky", x, None))], equation="...ij->...ji", name=name)
    return adjoint


def inv(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The inverse of each matrix of x, floating or complex `[..., n, n]`.

    Raises:
      ShapeError: the matrices are not square.
      InvalidArgumentError: one is singular (when the step runs).

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.linalg.inv([[2.0, 0.0], [0.0, 4.0]])
      >>> print(hr.Session(graph).run(y))
      [[0.5  0.  ]
       [0.   0.25]]
    """
    return apply_unary("MatrixInverse", x, name)


def det(x: TensorLike, *, name: str | None = None) -> Tensor:
    """The determinant of each matrix of x, floating or complex `[..., n, n]`; `[...]`, 1 where n is 0.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.linalg.det([[2.0, 1.0], [0.0, 4.0]])
      >>> print(hr.Session(graph).run(y))
      8.0
    """
    return apply_unary("MatrixDeterminant", x, name)


def solve(a: TensorLike, b: TensorLike, *, name: str | None = None) -> Tensor:
    """x with a x = b.

    Args:
      a: floating or complex `[..., n, n]`.
      b: `[..., n, k]` with the same leading axes, or `[n]`.
      name: the operation's name.
    Returns:
      The promoted dtype and the shape of `b`.
    Raises:
      ShapeError: `a` is not square, or `b` does not fit it.
      InvalidArgumentError: a matrix is singular (when the step runs).

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [1.0, 1.0])
      >>> print(hr.Session(graph).run(x))
      [0.5  0.25]
    """
    matrix, rhs = promoted(a, b)
    if rhs.shape.rank != 1:
        result: Tensor = apply_op("MatrixSolve", matrix, rhs, name=name)
        return result
    column: Tensor = apply_op("MatrixSolve", matrix, apply_op("ExpandDims", rhs, -1), name=name)
    vector: Tensor = apply_op("Squeeze", column, squeeze_dims=[-1])
    return vector
