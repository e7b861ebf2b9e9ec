"""Accumulators as users hold them: the gradients of several workers become one update, and late ones are dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.errors import InvalidArgumentError
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.operation import Operation, Tensor
from headrace.kernels.accumulators import Accumulator as AccumulatorState
from headrace.kernels.accumulators import accumulator_behind
from headrace.kernels.gradient_accumulator import DroppedGradient
from headrace.ops.dtypes import astype
from headrace.ops.indexed_slices import IndexedSlices
from headrace.types import DTypeLike, ShapeLike, TensorSpec, as_dtype, as_shape, int64

if TYPE_CHECKING:
    from headrace.session import Session

__all__ = ["Accumulator", "ConditionalAccumulator", "SparseConditionalAccumulator"]


class Accumulator:
    """What both kinds have in common; made by its subclasses. The gradients live in the session that runs the graph.

    Attributes:
      handle: the handle of the accumulator, for `hr.apply_op`.
      spec: dtype and shape of the gradients.
    """

    def __init__(self, op_type: str, dtype: DTypeLike, shape: ShapeLike, reduction: str, shared_name: str, name: str):
        self.spec = TensorSpec(as_dtype(dtype), as_shape(shape))
        self.handle: Tensor = apply_op(
            op_type,
            dtype=self.spec.dtype,
            shape=self.spec.shape,
            reduction_type=reduction.upper(),
            shared_name=shared_name,
            name=name,
        )
        self._prefix = "Resource" if op_type.startswith("Resource") else ""

    @property
    def name(self) -> str:
        """The name of the operation that makes it."""
        return self.handle.op.name

    def num_accumulated(self, *, name: str | None = None) -> Tensor:
        """How many gradients were added since one was taken, int32 scalar."""
        count: Tensor = apply_op(
            f"{self._prefix}AccumulatorNumAccumulated", self.handle, name=name or "num_accumulated"
        )
        return count

    def set_global_step(self, step: TensorLike, *, name: str | None = None) -> Operation:
        """Let the accumulator stand at another step: gradients of earlier ones are dropped from now on.

        Args:
          step: int64 scalar.
          name: the operation's name.
        """
        changed: Operation = apply_op(
            f"{self._prefix}AccumulatorSetGlobalStep",
            self.handle,
            convert_to_tensor(step, int64),
            name=name or "set_global_step",
        )
        return changed

    def on_drop(self, session: Session, observer: Callable[[DroppedGradient], None]) -> None:
        """Call `observer` for each gradient that comes too late in a session, in the thread of the step that brings it.

        Args:
          session: the session.
          observer: gets the step of the gradient, that of the accumulator, and their distance, `staleness`.
        """
        self._state(session).observe(observer)

    def num_dropped(self, session: Session) -> int:
        """How many gradients came too late in a session so far."""
        return self._state(session).dropped

    def _state(self, session: Session) -> AccumulatorState:
        return accumulator_behind(self.handle.op, session.resources)

    def __repr__(self) -> str:
        return f"<hr.{type(self).__name__} '{self.name}' of {self.spec}>"


class ConditionalAccumulator(Accumulator):
    """Adds up gradients until enough are there, and then gives their mean or sum once.

    It stands at a step, at first 0, which goes up by one each time that a gradient is taken. A gradient that is added
    is dropped if the step whose values it was computed from is earlier.

    Args:
      dtype: the dtype of the gradients.
      shape: their shape, or what is known of it.
      reduction: `"mean"` or `"sum"`.
      shared_name: the name under which operations of several graphs reach the same accumulator of a session.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     accumulator = hr.ConditionalAccumulator(hr.float32, [])
      ...     x = hr.placeholder(hr.float32, [])
      ...     add, mean = accumulator.apply_grad(x), accumulator.take_grad(2)
      >>> with hr.Session(graph) as session:
      ...     session.run(add, feeds={x: 1.0})
      ...     session.run(add, feeds={x: 4.0})
      ...     print(session.run(mean))
      2.5
    """

    def __init__(
        self,
        dtype: DTypeLike,
        shape: ShapeLike = None,
        *,
        reduction: str = "mean",
        shared_name: str = "",
        name: str | None = None,
    ) -> None:
        super().__init__(
            "ResourceConditionalAccumulator", dtype, shape, reduction, shared_name, name or "conditional_accumulator"
        )

    def apply_grad(self, grad: TensorLike, local_step: TensorLike = 0, *, name: str | None = None) -> Operation:
        """Add a gradient, or drop it if it comes too late.

        Args:
          grad: the gradient.
          local_step: int64 scalar, the step whose values it was computed from.
          name: the operation's name.
        Returns:
          The operation to run.
        Raises:
          ShapeError: the gradient has another shape; here, or in the step.
        """
        added: Operation = apply_op(
            "ResourceAccumulatorApplyGradient",
            self.handle,
            convert_to_tensor(local_step, int64),
            convert_to_tensor(grad, self.spec.dtype),
            name=name or "apply_grad",
        )
        return added

    def take_grad(self, num_required: TensorLike, *, name: str | None = None) -> Tensor:
        """Wait until enough gradients are there, and take the mean or sum of all that are; they are gone then.

        Args:
          num_required: int32 scalar, at least 1.
          name: the operation's name.
        Returns:
          The mean or sum.
        Raises:
          InvalidArgumentError: in the step: num_required is not positive.
        """
        taken: Tensor = apply_op(
            "ResourceAccumulatorTakeGradient",
            self.handle,
            num_required,
            dtype=self.spec.dtype,
            name=name or "take_grad",
        )
        taken.set_shape(self.spec.shape)  # a branch or loop sees only a handle
        return taken


class SparseConditionalAccumulator(Accumulator):
    """As `ConditionalAccumulator`, for gradients of which only some rows are there (`hr.IndexedSlices`).

    The mean of a row is over those gradients that have it.

    Args:
      dtype: the dtype of the gradients.
      shape: the shape of the whole gradient, or what is known of it.
      reduction: `"mean"` or `"sum"`.
      shared_name: the name under which operations of several graphs reach the same accumulator of a session.
      name: the operation's name.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     accumulator = hr.SparseConditionalAccumulator(hr.float32, [5, 1])
      ...     add = accumulator.apply_grad(hr.IndexedSlices([[1.0], [2.0]], [3, 0], [5, 1]))
      ...     slices = accumulator.take_grad(1)
      >>> with hr.Session(graph) as session:
      ...     session.run(add)
      ...     print(session.run(slices.indices))
      [0 3]
    """

    def __init__(
        self,
        dtype: DTypeLike,
        shape: ShapeLike = None,
        *,
        reduction: str = "mean",
        shared_name: str = "",
        name: str | None = None,
    ) -> None:
        super().__init__(
            "SparseConditionalAccumulator", dtype, shape, reduction, shared_name, name or "sparse_accumulator"
        )

    def apply_grad(self, grad: IndexedSlices, local_step: TensorLike = 0, *, name: str | None = None) -> Operation:
        """Add the rows of a gradient, or drop it if it comes too late.

        Args:
          grad: the rows; their indices may repeat, and come in any order.
          local_step: int64 scalar, the step whose values it was computed from.
          name: the operation's name.
        Returns:
          The operation to run.
        Raises:
          ShapeError: the rows have another shape; here, or in the step.
          InvalidArgumentError: in the step: an index is out of range.
        """
        if not isinstance(grad, IndexedSlices):
            raise InvalidArgumentError(
                "a sparse accumulator takes rows",
                expected="hr.IndexedSlices",
                got=repr(grad),
                hint="hr.ConditionalAccumulator takes dense gradients; hr.gather has sparse ones",
            )
        added: Operation = apply_op(
            "SparseAccumulatorApplyGradient",
            self.handle,
            convert_to_tensor(local_step, int64),
            _as_int64(grad.indices),
            convert_to_tensor(grad.values, self.spec.dtype),
            _as_int64(grad.dense_shape),
            has_known_shape=True,
            name=name or "apply_grad",
        )
        return added

    def take_grad(self, num_required: TensorLike, *, name: str | None = None) -> IndexedSlices:
        """Wait until enough gradients are there, and take the mean or sum of each row that is; they are gone then.

        Args:
          num_required: int32 scalar, at least 1.
          name: the operation's name.
        Returns:
          The rows, in ascending order of their indices, which are int64; -1 stands for an unknown size of the whole.
        Raises:
          InvalidArgumentError: in the step: num_required is not positive.
        """
        indices, values, shape = apply_op(
            "SparseAccumulatorTakeGradient",
            self.handle,
            num_required,
            dtype=self.spec.dtype,
            name=name or "take_grad",
        )
        return IndexedSlices(values, indices, shape)


def _as_int64(value: TensorLike) -> Tensor:
    return astype(convert_to_tensor(value), int64)
