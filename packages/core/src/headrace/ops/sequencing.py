"""Operations that guard or order others: assertions, triggers, and identities of several tensors at once."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Operation, Tensor
from headrace.types import Shape

__all__ = ["assert_true", "identity_n"]


@register_op(
    "Assert",
    inputs={"condition": "bool", "data": "T"},
    attrs={"T": attr.list_of(attr.any_type, minimum=1), "summarize": attr.int(3)},
    stateful=True,
)
def _assert_shape(op: InferenceContext) -> list[Shape]:
    """Ends the step with an error that shows the data, unless the condition is true."""
    if op.inputs[0].shape.rank not in (None, 0):
        raise ShapeError(
            "the condition must be a scalar",
            expected="shape []",
            got=str(op.inputs[0].shape),
            hint="hr.all(condition) is true if every element is",
        )
    return []


@register_op("ControlTrigger")
def _control_trigger_shape(op: InferenceContext) -> list[Shape]:
    """Nothing; it serves as an end point of control edges."""
    return []


@register_op(
    "IdentityN",
    inputs={"input": "T"},
    outputs={"output": "T"},
    attrs={"T": attr.list_of(attr.any_type, minimum=1)},
)
def _identity_n_shape(op: InferenceContext) -> list[Shape]:
    """The inputs, unchanged, as one operation: none is there before all are."""
    return [spec.shape for spec in op.inputs]


def assert_true(
    condition: TensorLike, data: Sequence[TensorLike], *, summarize: int = 3, name: str | None = None
) -> Operation:
    """Add a check that ends the step with an InvalidArgumentError unless a condition is true.

    Args:
      condition: bool scalar.
      data: tensors that the error shows.
      summarize: how many elements of each it shows; all if negative.
      name: the operation's name.
    Returns:
      The operation; run others after it by `hr.control_dependencies`. Inside `@hr.function` it runs without that.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.placeholder(hr.float32, [])
      ...     with hr.control_dependencies([hr.assert_true(x > 0, ["x is", x])]):
      ...         y = hr.identity(x)
      >>> print(hr.Session(graph).run(y, feeds={x: 2.0}))
      2.0
    """
    items = [convert_to_tensor(item) for item in data]
    operation: Operation = apply_op("Assert", condition, items, summarize=summarize, name=name)
    return operation


def identity_n(tensors: Sequence[TensorLike], *, name: str | None = None) -> tuple[Tensor, ...]:
    """The tensors, unchanged, as the outputs of one operation: none is there before all are.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x, y = hr.identity_n([1, [2.0, 3.0]])
      >>> print(*hr.Session(graph).run([x, y]))
      1 [2. 3.]
    """
    result: tuple[Tensor, ...] = apply_op("IdentityN", [convert_to_tensor(item) for item in tensors], name=name)
    return result
