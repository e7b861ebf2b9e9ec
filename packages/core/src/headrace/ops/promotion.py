"""Promotion of operands: from what a user wrote to tensors of one dtype."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.config import current_config
from headrace.errors import DTypeError
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor, graph_of, natural_array
from headrace.graph.operation import Tensor
from headrace.types import DType, Scalar, as_dtype, dtype_of_number, promote_types, promote_with_scalar

__all__ = ["common_dtype", "promoted"]


def promoted(*operands: TensorLike) -> list[Tensor]:
    """Convert operands to tensors of their common dtype by the promotion table (docs/promotion.md).

    Python numbers are weak: they take the dtype of the tensors and arrays beside them.

    Raises:
      DTypeError: the dtypes have no common one, or `hr.config(strict_promotion=True)` forbids it.
    """
    with graph_of(operands):
        dtype = common_dtype(operands)
        return [_converted(operand, dtype) for operand in operands]


def common_dtype(operands: Sequence[TensorLike]) -> DType:
    """The dtype in which the operands meet."""
    strict = current_config().strict_promotion
    strong = [as_dtype(operand.dtype) for operand in operands if hasattr(operand, "dtype")]
    weak = [operand for operand in operands if not hasattr(operand, "dtype")]
    dtype: DType | None = None
    for other in strong:
        dtype = other if dtype is None else promote_types(dtype, other, strict=strict)
    for value in weak:
        dtype = _with_python_value(dtype, value, strict=strict)
    if dtype is None:
        raise DTypeError(
            "there is nothing to promote",
            expected="at least one operand",
            got="none",
            hint="pass a dtype, tensor, array or number",
        )
    return dtype


def _with_python_value(dtype: DType | None, value: TensorLike, *, strict: bool) -> DType:
    if isinstance(value, (bool, int, float, complex)):
        if dtype is None:
            return dtype_of_number(value)
        lifted = promote_with_scalar(dtype, value)
        if strict and lifted is not dtype:
            raise DTypeError(
                f"{dtype} and the Python number {value} are of different kinds",
                expected="equal kinds under strict_promotion",
                got=f"{dtype} with {type(value).__name__}",
                hint=f"hr.astype(x, hr.{lifted}) first, or hr.config(strict_promotion=False)",
            )
        return lifted
    natural = convert_to_tensor(value).dtype if dtype is None else _sequence_dtype(value, dtype)
    return natural if dtype is None else promote_types(dtype, natural, strict=strict)


def _sequence_dtype(value: TensorLike, dtype: DType) -> DType:
    """A list of Python numbers is as weak as one of its highest kind; integers must all fit, as one must."""
    numbers = natural_array(value)
    if numbers.dtype.kind in "iu" and numbers.size:
        promote_with_scalar(dtype, int(numbers.min()))
        return promote_with_scalar(dtype, int(numbers.max()))
    kinds: dict[str, Scalar] = {"b": True, "f": 0.5, "c": 1j}
    number = kinds.get(numbers.dtype.kind)
    return convert_to_tensor(value).dtype if number is None else promote_with_scalar(dtype, number)


def _converted(operand: TensorLike, dtype: DType) -> Tensor:
    """A number or list takes the dtype directly; a tensor, variable or array of another dtype is cast."""
    if isinstance(operand, np.ndarray | np.generic) and as_dtype(operand.dtype) is not dtype:
        return convert_to_tensor(operand.astype(dtype.array_type))
    if not hasattr(operand, "dtype"):
        return convert_to_tensor(operand, dtype)
    tensor = convert_to_tensor(operand)
    if tensor.dtype is dtype:
        return tensor
    result: Tensor = apply_op("Cast", tensor, DstT=dtype)
    return result
