"""Kernels of the accumulators family."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.errors import DTypeError, InvalidArgumentError
from headrace.graph.operation import Operation
from headrace.interfaces import OpContext, Resources
from headrace.kernels.gradient_accumulator import DenseSum, GradientAccumulator, SparseGradient, SparseSum
from headrace.kernels.registry import register_kernel
from headrace.ops.accumulators import ACCUMULATOR_TYPES
from headrace.ops.shapes import scalar_of
from headrace.types import Array, DType, bfloat16, complex64, complex128, float16, float32, float64

__all__ = ["Accumulator", "accumulator_behind"]

_HAVE_MEANS = (bfloat16, float16, float32, float64, complex64, complex128)


class Accumulator(GradientAccumulator[Any]):
    """The accumulator behind a handle. Mutable and thread-safe.

    Args:
      name: its name.
      total: adds gradients up.
      dtype: the dtype of the gradients.
      reduction: `"MEAN"` or `"SUM"`.
      properties: what two operations that share it must agree on.
    """

    def __init__(
        self, name: str, total: DenseSum | SparseSum, dtype: DType, reduction: str, properties: tuple[str, ...]
    ) -> None:
        super().__init__(name, total, mean=reduction == "MEAN")
        self.dtype = dtype
        self.properties = properties

    def check(self, dtype: DType) -> None:
        """Raise DTypeError unless an operation states the dtype of the gradients."""
        if dtype is not self.dtype:
            raise DTypeError(
                f"accumulator '{self.name}' has another dtype",
                expected=str(self.dtype),
                got=str(dtype),
                hint="hr.astype the gradient",
            )


def accumulator_behind(op: OpContext | Operation, resources: Resources) -> Accumulator:
    """The accumulator of a session, made at the first request.

    Args:
      op: the operation that makes its handle.
      resources: the session's container.
    Raises:
      InvalidArgumentError: it exists with other properties.
    """
    name, dtype, shape = op.attr("shared_name") or op.name, op.attr("dtype"), op.attr("shape")
    kind = "sparse" if op.type == "SparseConditionalAccumulator" else "dense"
    total = SparseSum(dtype, shape) if kind == "sparse" else DenseSum(dtype, shape)
    properties = (kind, f"{dtype}{shape}", op.attr("reduction_type"))
    made = Accumulator(name, total, dtype, op.attr("reduction_type"), properties)
    found: Accumulator = resources.lookup_or_create((Accumulator, op.attr("container"), name), lambda: made)
    if found.properties != properties:
        raise InvalidArgumentError(
            f"accumulator '{name}' exists with other properties",
            expected=", ".join(found.properties),
            got=", ".join(properties),
            hint="make both the same, or give one of them another shared_name",
        )
    return found


for _accumulator_type in ACCUMULATOR_TYPES:

    @register_kernel(_accumulator_type, dtypes={"dtype": _HAVE_MEANS}, binds_once=True)
    def _accumulator(op: OpContext) -> Accumulator:
        return accumulator_behind(op, op.resources)


for _prefix in ("", "Resource"):

    @register_kernel(f"{_prefix}AccumulatorApplyGradient")
    def _apply(op: OpContext, accumulator: Accumulator, local_step: Array, gradient: Array) -> None:
        accumulator.check(op.attr("dtype"))
        accumulator.add(gradient, scalar_of(local_step, "local_step"))

    @register_kernel(f"{_prefix}AccumulatorTakeGradient")
    def _take(op: OpContext, accumulator: Accumulator, num_required: Array) -> Array:
        accumulator.check(op.attr("dtype"))
        gradient: Array = accumulator.take(scalar_of(num_required, "num_required"), op.step)
        return gradient

    @register_kernel(f"{_prefix}AccumulatorSetGlobalStep")
    def _set_step(op: OpContext, accumulator: Accumulator, step: Array) -> None:
        accumulator.set_step(scalar_of(step, "new_global_step"))

    @register_kernel(f"{_prefix}AccumulatorNumAccumulated")
    def _num_accumulated(op: OpContext, accumulator: Accumulator) -> Array:
        return np.array(accumulator.count, np.int32)


@register_kernel("SparseAccumulatorApplyGradient")
def _apply_sparse(
    op: OpContext, accumulator: Accumulator, local_step: Array, indices: Array, values: Array, shape: Array
) -> None:
    accumulator.check(op.attr("dtype"))
    whole = np.asarray(shape) if op.attr("has_known_shape") else np.zeros(0, np.int64)
    accumulator.add(SparseGradient(indices, values, whole), scalar_of(local_step, "local_step"))


@register_kernel("SparseAccumulatorTakeGradient")
def _take_sparse(op: OpContext, accumulator: Accumulator, num_required: Array) -> tuple[Array, Array, Array]:
    accumulator.check(op.attr("dtype"))
    gradient: SparseGradient = accumulator.take(scalar_of(num_required, "num_required"), op.step)
    return gradient.indices, gradient.values, gradient.shape
