"""The registry of loop rules: how an operation type is computed as scalar loops, for every backend that fuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.errors import AlreadyExistsError
from headrace.graph.frames import MAY_NOT_RUN
from headrace.graph.operation import Operation
from headrace.loops.value import Value
from headrace.types import Array

__all__ = ["LoopContext", "find_loops", "register_loops"]


@dataclass(frozen=True, slots=True)
class LoopContext:
    """What a loop rule sees of its operation.

    Attributes:
      op: the operation, with concrete shapes.
      constants: for each input its value where that is known when the plan is made, else None.
    """

    op: Operation
    constants: Sequence[Array | None]

    def attr(self, name: str) -> Any:
        """The value of an attribute."""
        return self.op.attrs[name]

    def integers(self, position: int) -> list[int] | None:
        """The integers of a constant input, such as axes, or None where they are not known yet."""
        array = self.constants[position]
        return None if array is None else [int(item) for item in np.asarray(array).reshape(-1)]

    def shape(self, position: int = 0) -> tuple[int, ...]:
        """The shape of an output."""
        return self.op.outputs[position].shape.as_tuple()


LoopRule = Callable[..., Any]
"""Called as `rule(op, *values)`; gives a Value or a tuple of them, or None where loops do not fit this operation."""

_registry: dict[str, LoopRule] = {}


def register_loops(op_type: str) -> Callable[[LoopRule], LoopRule]:
    """Register the decorated function as the loop rule of an operation type: backends that generate code fuse it.

    The rule gets the operation and one value for each input, and returns one for each output, made with the functions
    of `hr.loops`. It may return None: then this operation runs by its kernel.

    Args:
      op_type: the operation type.
    Raises:
      AlreadyExistsError: the type has a rule.

    Example:
      >>> import headrace as hr
      >>> @hr.register_op("DocTwice", inputs=dict(x="T"), outputs=dict(y="T"), attrs=dict(T=hr.attr.floating))
      ... def twice_shape(op):
      ...     '''2 x.'''
      ...     return [op.inputs[0].shape]
      >>> @hr.register_loops("DocTwice")
      ... def twice_loops(op, x):
      ...     return x * 2.0
    """

    def decorate(rule: LoopRule) -> LoopRule:
        if op_type in _registry:
            raise AlreadyExistsError(
                f"{op_type} has loops already",
                expected="one loop rule for each operation type",
                got=op_type,
                hint="register the operation under another name",
            )
        _registry[op_type] = rule
        return rule

    return decorate


def find_loops(context: LoopContext, inputs: Sequence[Value]) -> tuple[Value, ...] | None:
    """The outputs of an operation as values, or None if it has no loops or they do not fit it."""
    rule = None if MAY_NOT_RUN in context.op.attrs else _registry.get(context.op.type)
    result = None if rule is None else rule(context, *inputs)
    if result is None:
        return None
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)
