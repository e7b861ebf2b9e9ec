"""Operations on the diagonals of matrices."""

from __future__ import annotations

from headrace import types
from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.shapes import scalar_of
from headrace.types import Array, DTypeLike, Shape, as_dtype

__all__ = ["band_part", "band_width", "check_diagonal", "diag", "diagonal_half", "diagonal_shape", "eye"]

_DIAG_TYPES = attr.type(
    types.bfloat16, types.float16, types.float32, types.float64, types.int32, types.int64, types.complex64,
    types.complex128,
)  # fmt: skip


@register_op(
    "MatrixBandPart",
    inputs={"input": "T", "num_lower": "Tindex", "num_upper": "Tindex"},
    outputs={"band": "T"},
    attrs={"Tindex": attr.type(types.int32, types.int64, default=types.int64)},
)
def _band_part_shape(op: InferenceContext) -> list[Shape]:
    """Each matrix with zeros outside a band of num_lower diagonals below the main one and num_upper above; -1: all."""
    shape = _at_least(op.inputs[0].shape, 2)
    rows, columns = (None, None) if shape.dims is None else shape.dims[-2:]
    for index, size, what in ((1, rows, "num_lower"), (2, columns, "num_upper")):
        value = op.constant(index)
        if value is not None:
            band_width(value, size, what)
    return [shape]


def band_width(value: Array, size: int | None, what: str) -> int | None:
    """How many diagonals on one side are kept, or None for all.

    Raises:
      InvalidArgumentError: more than there are rows or columns.
    """
    width = scalar_of(value, what)
    if size is not None and width > size:
        raise InvalidArgumentError(
            f"{what} is out of range",
            expected=f"{what} <= {size}, or negative for all",
            got=str(width),
            hint="hr.tril or hr.triu keeps a whole triangle",
        )
    return None if width < 0 else width


@register_op("Diag", inputs={"diagonal": "T"}, outputs={"output": "T"}, attrs={"T": _DIAG_TYPES})
def _diag_shape(op: InferenceContext) -> list[Shape]:
    """A tensor `[s..., s...]` with the input `[s...]` where both halves of the index are equal, zeros elsewhere."""
    shape = op.inputs[0].shape
    if shape.rank == 0:
        raise ShapeError(
            "a scalar has no diagonal",
            expected="rank >= 1",
            got="shape []",
            hint="hr.reshape(x, [1]) makes a diagonal of one element",
        )
    return [shape + shape]


@register_op("DiagPart", inputs={"input": "T"}, outputs={"diagonal": "T"}, attrs={"T": _DIAG_TYPES})
def _diag_part_shape(op: InferenceContext) -> list[Shape]:
    """The elements of a tensor `[s..., s...]` where both halves of the index are equal; the transpose of `Diag`."""
    return [diagonal_half(op.inputs[0].shape)]


def diagonal_half(shape: Shape) -> Shape:
    """The `s...` of a shape `[s..., s...]`.

    Raises:
      ShapeError: the halves differ, or the rank is odd or zero.
    """
    if shape.dims is None:
        return Shape()
    half = len(shape.dims) // 2
    first, second = Shape(shape.dims[:half]), Shape(shape.dims[half:])
    if not half or not first.is_compatible_with(second):
        raise ShapeError(
            "the tensor has no diagonal",
            expected="a shape of two equal halves",
            got=str(shape),
            hint="hr.linalg.diagonal takes the diagonals of matrices of any size",
        )
    return first.merge(second)


@register_op("MatrixDiag", inputs={"diagonal": "T"}, outputs={"output": "T"})
def _matrix_diag_shape(op: InferenceContext) -> list[Shape]:
    """Square matrices with the rows of the input on their diagonals, zeros elsewhere."""
    shape = _at_least(op.inputs[0].shape, 1)
    return [Shape() if shape.dims is None else Shape((*shape.dims, shape.dims[-1]))]


@register_op("MatrixDiagPart", inputs={"input": "T"}, outputs={"diagonal": "T"})
def _matrix_diag_part_shape(op: InferenceContext) -> list[Shape]:
    """The main diagonal of each matrix."""
    return [diagonal_shape(op.inputs[0].shape)]


@register_op("MatrixSetDiag", inputs={"input": "T", "diagonal": "T"}, outputs={"output": "T"})
def _matrix_set_diag_shape(op: InferenceContext) -> list[Shape]:
    """Each matrix with its main diagonal replaced."""
    check_diagonal(op.inputs[0].shape, op.inputs[1].shape)
    return [op.inputs[0].shape]


def check_diagonal(matrices: Shape, diagonals: Shape) -> None:
    """Raise ShapeError unless `diagonals` has the shape of the main diagonals of `matrices`."""
    wanted = diagonal_shape(matrices)
    if not wanted.is_compatible_with(diagonals):
        raise ShapeError(
            "the diagonal does not fit",
            expected=str(wanted),
            got=str(diagonals),
            hint="hr.reshape it, or repeat one diagonal for all matrices with hr.broadcast_to",
        )


def diagonal_shape(matrices: Shape) -> Shape:
    """The shape of the main diagonals of matrices."""
    shape = _at_least(matrices, 2)
    if shape.dims is None:
        return Shape()
    rows, columns = shape.dims[-2:]
    known = rows is not None and columns is not None
    return Shape((*shape.dims[:-2], min(rows or 0, columns or 0) if known else None))


def _at_least(shape: Shape, rank: int) -> Shape:
    if shape.rank is not None and shape.rank < rank:
        raise ShapeError(
            "the rank is too low",
            expected=f"rank >= {rank}",
            got=str(shape),
            hint="hr.expand_dims adds an axis of size 1",
        )
    return shape


def diag(x: TensorLike, *, name: str | None = None) -> Tensor:
    """Square matrices with the rows of `x` on their diagonals, zeros elsewhere.

    Args:
      x: any dtype `[..., n]`.
      name: the operation's name.
    Returns:
      `[..., n, n]`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.diag([1, 2])
      >>> print(hr.Session(graph).run(x))
      [[1 0]
       [0 2]]
    """
    result: Tensor = apply_op("MatrixDiag", x, name=name)
    return result


def band_part(x: TensorLike, lower: TensorLike, upper: TensorLike, *, name: str | None = None) -> Tensor:
    """Each matrix with zeros outside a band around its main diagonal.

    Args:
      x: any dtype `[..., m, n]`.
      lower: how many diagonals below the main one stay, an integer scalar; -1 for all.
      upper: how many above it stay.
      name: the operation's name.
    Returns:
      The same shape; `band_part(x, -1, 0)` is the lower triangle, `band_part(x, 0, -1)` the upper one.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.band_part([[1, 2], [3, 4]], -1, 0)
      >>> print(hr.Session(graph).run(x))
      [[1 0]
       [3 4]]
    """
    result: Tensor = apply_op("MatrixBandPart", x, lower, upper, name=name)
    return result


def eye(
    n_rows: int, n_cols: int | None = None, *, k: int = 0, dtype: DTypeLike = types.float32, name: str | None = None
) -> Tensor:
    """The unit matrix.

    Args:
      n_rows: the number of rows.
      n_cols: the number of columns; by default as many.
      k: on which diagonal the ones stand: 0 is the main one, 1 the one above it, -1 the one below.
      dtype: the element type.
      name: the operation's name.
    Returns:
      `[n_rows, n_cols]`, ones on the diagonal, zeros elsewhere.
    Raises:
      ShapeError: a size is negative.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.eye(2, 3)
      >>> print(hr.Session(graph).run(x))
      [[1. 0. 0.]
       [0. 1. 0.]]
    """
    if n_rows < 0 or (n_cols is not None and n_cols < 0):
        raise ShapeError(
            "a size is negative",
            expected="sizes >= 0",
            got=f"{n_rows}, {n_cols}",
            hint="bound a computed size with max(0, ...)",
        )
    rows = apply_op("ExpandDims", apply_op("Range", 0, n_rows, 1), 1)
    columns = apply_op("Range", 0, n_rows if n_cols is None else n_cols, 1)
    ones = apply_op("Equal", apply_op("Sub", columns, rows), k)
    result: Tensor = apply_op("Cast", ones, DstT=as_dtype(dtype), name=name)
    return result
