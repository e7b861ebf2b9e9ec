"""Products of vectors, powers of matrices, and their diagonals and traces."""

from __future__ import annotations

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.axes import along_last, known_rank, moveaxis
from headrace.ops.complex import conj
from headrace.ops.promotion import promoted
from headrace.ops.reduction import sum as total
from headrace.ops.repetition import broadcast_arrays
from headrace.types import DTypeLike, Shape

__all__ = ["check_cross", "cross", "diagonal", "matrix_power", "outer", "trace", "vecdot"]


@register_op("Cross", inputs={"a": "T", "b": "T"}, outputs={"product": "T"}, attrs={"T": attr.ordered})
def _cross_shape(op: InferenceContext) -> list[Shape]:
    """The cross products of vectors of three elements along the last axis, of tensors of one shape."""
    return [check_cross(op.inputs[0].shape, op.inputs[1].shape)]


def check_cross(a: Shape, b: Shape) -> Shape:
    """The shape of cross products.

    Raises:
      ShapeError: the shapes differ, or the last axis has not three elements.
    """
    if not a.is_compatible_with(b):
        raise ShapeError(
            "the vectors of a cross product must be as many",
            expected=str(a),
            got=str(b),
            hint="hr.linalg.cross broadcasts the two first",
        )
    shape = a.merge(b)
    if shape.dims is not None and not Shape(shape.dims[-1:]).is_compatible_with(Shape([3])):
        raise ShapeError(
            "the cross product is that of three dimensions",
            expected="[..., 3]",
            got=str(shape),
            hint="hr.linalg.cross(..., axis=...) says where the vectors lie; append a zero to vectors of two",
        )
    return shape


def vecdot(x1: TensorLike, x2: TensorLike, *, axis: int = -1, name: str | None = None) -> Tensor:
    """The sum of products of two vectors, the first one conjugated.

    Args:
      x1: numeric `[..., n]`.
      x2: numeric `[..., n]`; the other axes broadcast with those of `x1`.
      axis: the axis of the vectors, counted from the end: `-1` is the last.
      name: the operation's name.
    Returns:
      The promoted dtype, the broadcast shape of the other axes.
    Raises:
      InvalidArgumentError: the axis is not negative.
      ShapeError: the vectors are not of one length.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.vecdot([[1.0, 2.0], [3.0, 4.0]], [10.0, 1.0])
      >>> print(hr.Session(graph).run(y))
      [12. 34.]
    """
    if axis >= 0:
        raise InvalidArgumentError(
            "the axis must be counted from the end",
            expected="axis < 0",
            got=str(axis),
            hint="-1 is the last axis, -2 the one before it: subtract the rank",
        )
    first, second = (along_last(x, axis, "vecdot")[0] for x in promoted(x1, x2))
    lengths = {x.shape[-1] for x in (first, second)} - {None}
    if len(lengths) > 1:
        raise ShapeError(
            "the vectors differ in length",
            expected="equal lengths",
            got=f"{first.spec} and {second.spec}",
            hint="set axis, slice the longer one, or hr.broadcast_to one of size 1",
        )
    result: Tensor = apply_op("Einsum", [conj(first), second], equation="...i,...i->...", name=name)
    return result


def outer(x1: TensorLike, x2: TensorLike, *, name: str | None = None) -> Tensor:
    """The products of every element of one vector with every element of another.

    Args:
      x1: numeric `[n]`.
      x2: numeric `[m]`.
      name: the operation's name.
    Returns:
      The promoted dtype, `[n, m]`.
    Raises:
      ShapeError: one is not a vector.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.linalg.outer([1, 2], [10, 1])
      >>> print(hr.Session(graph).run(y))
      [[10  1]
       [20  2]]
    """
    first, second = promoted(x1, x2)
    first.shape.with_rank(1)
    second.shape.with_rank(1)
    result: Tensor = apply_op("Einsum", [first, second], equation="i,j->ij", name=name)
    return result


def cross(x1: TensorLike, x2: TensorLike, *, axis: int = -1, name: str | None = None) -> Tensor:
    """The cross product: perpendicular to two vectors of three elements, as long as the area they span.

    Args:
      x1: numeric `[..., 3]`.
      x2: numeric `[..., 3]`; the other axes broadcast with those of `x1`.
      axis: the axis of the vectors.
      name: the operation's name.
    Returns:
      The promoted dtype and the broadcast shape.
    Raises:
      ShapeError: the vectors do not have three elements.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.linalg.cross([1, 0, 0], [0, 1, 0])
      >>> print(hr.Session(graph).run(y))
      [0 0 1]
    """
    first, second = promoted(x1, x2)
    (first, position), (second, _) = (along_last(x, axis, "cross") for x in (first, second))
    for x in (first, second):
        check_cross(x.shape, x.shape)
    if first.dtype.is_complex:
        product = _complex_cross(first, second)
    else:
        product = apply_op("Cross", *broadcast_arrays(first, second), name=name if position == -1 else None)
    return product if position == -1 else moveaxis(product, -1, position, name=name)


def _complex_cross(first: Tensor, second: Tensor) -> Tensor:
    """Element i is x[i + 1] y[i + 2] - x[i + 2] y[i + 1]; the operation takes real numbers only."""
    ahead, behind = [1, 2, 0], [2, 0, 1]
    products = [
        apply_op("Mul", apply_op("GatherV2", first, left, -1), apply_op("GatherV2", second, right, -1))
        for left, right in ((ahead, behind), (behind, ahead))
    ]
    result: Tensor = apply_op("Sub", *products)
    return result


def matrix_power(x: TensorLike, n: int, *, name: str | None = None) -> Tensor:
    """The product of n copies of each matrix.

    Args:
      x: numeric `[..., m, m]`; floating or complex where n is negative.
      n: the power; 0 gives the unit matrix, a negative one is that of the inverse.
      name: the operation's name.
    Returns:
      The same dtype and shape.
    Raises:
      ShapeError: the matrices are not square.
      InvalidArgumentError: n is not an integer; or a matrix is singular and n negative (when the step runs).

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.linalg.matrix_power([[1, 1], [0, 1]], 5)
      >>> print(hr.Session(graph).run(y))
      [[1 5]
       [0 1]]
    """
    tensor = convert_to_tensor(x)
    known_rank(tensor, "matrix_power", least=2)
    if None is not tensor.shape[-1] != tensor.shape[-2] is not None:
        raise ShapeError(
            "matrix_power takes square matrices",
            expected="[..., n, n]",
            got=str(tensor.spec),
            hint="hr.pow(x, n) raises each element by itself; hr.matmul(x, x.mT) is square",
        )
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise InvalidArgumentError(
            "the power must be an integer",
            expected="an int",
            got=repr(n),
            hint="int(n) if it is whole; hr.pow takes fractions and tensors, for each element by itself",
        )
    square: Tensor = apply_op("MatrixInverse", tensor) if n < 0 else tensor
    exponent, result = abs(n.__index__()), _unit(tensor) if n == 0 else None
    while exponent:
        if exponent & 1:
            result = square if result is None else apply_op("BatchMatMulV2", result, square)
        exponent >>= 1
        square = apply_op("BatchMatMulV2", square, square) if exponent else square
    named: Tensor = apply_op("Identity", result, name=name)
    return named


def _unit(x: Tensor) -> Tensor:
    """The unit matrix, as often as there are matrices."""
    ones = apply_op("OnesLike", apply_op("MatrixDiagPart", x))
    result: Tensor = apply_op("MatrixSetDiag", apply_op("ZerosLike", x), ones)
    return result


def diagonal(x: TensorLike, *, offset: int = 0, name: str | None = None) -> Tensor:
    """A diagonal of each matrix.

    Args:
      x: any dtype `[..., m, n]`.
      offset: which one: 0 is the main diagonal, 1 the one above it, -1 the one below.
      name: the operation's name.
    Returns:
      `[..., k]`, as many elements as the diagonal has; none where it lies outside.
    Raises:
      ShapeError: the rank is less than 2.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.linalg.diagonal([[1, 2, 3], [4, 5, 6]], offset=1)
      >>> print(hr.Session(graph).run(y))
      [2 6]
    """
    tensor = convert_to_tensor(x)
    if offset > 0:
        tensor = tensor[..., offset:]
    elif offset < 0:
        tensor = tensor[..., -offset:, :]
    result: Tensor = apply_op("MatrixDiagPart", tensor, name=name)
    return result


def trace(x: TensorLike, *, offset: int = 0, dtype: DTypeLike | None = None, name: str | None = None) -> Tensor:
    """The sum of a diagonal of each matrix.

    Args:
      x: numeric `[..., m, n]`.
      offset: see `diagonal`.
      dtype: see `hr.sum`.
      name: the operation's name.
    Returns:
      `[...]`, of the dtype that `hr.sum` gives.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.linalg.trace([[2.0, 1.0], [0.0, 4.0]])
      >>> print(hr.Session(graph).run(y))
      6.0
    """
    return total(diagonal(x, offset=offset), axis=-1, dtype=dtype, name=name)
