"""NumPy kernels of optionals, and the value of an optional."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.errors import DTypeError, InvalidArgumentError, ShapeError
from headrace.interfaces import OpContext
from headrace.kernels.registry import register_kernel
from headrace.types import Array, DType, Shape

__all__ = ["OptionalValue", "as_optional"]


@dataclass(frozen=True, slots=True, eq=False)
class OptionalValue:
    """Tensors, or nothing.

    Attributes:
      components: the tensors, which nobody may write to; None if there are none.
      dtypes: their dtypes.
    """

    components: tuple[Any, ...] | None
    dtypes: tuple[DType, ...] = ()


def as_optional(value: Any) -> OptionalValue:
    """The optional that a scalar of dtype variant holds.

    Raises:
      InvalidArgumentError: it holds something else.
    """
    inner = value[()] if isinstance(value, np.ndarray) and not value.ndim else value
    if isinstance(inner, OptionalValue):
        return inner
    raise InvalidArgumentError(
        "the value is no optional",
        expected="what OptionalFromValue or OptionalNone gives",
        got=type(inner).__name__,
        hint="use each kind of variant with its own operations",
    )


@register_kernel("OptionalNone")
def _none(op: OpContext) -> OptionalValue:
    return OptionalValue(None)


@register_kernel("OptionalFromValue")
def _from_value(op: OpContext, components: Sequence[Any]) -> OptionalValue:
    """What is put in is copied: the arrays that kernels see live in memory that the plan uses again."""
    kept = tuple(item.copy() if isinstance(item, np.ndarray) else item for item in components)
    return OptionalValue(kept, op.attr("Toutput_types"))


@register_kernel("OptionalHasValue")
def _has_value(op: OpContext, optional: Any) -> Array:
    return np.array(as_optional(optional).components is not None)


@register_kernel("OptionalGetValue", aliases=[0])
def _get_value(op: OpContext, optional: Any) -> Sequence[Any]:
    found = as_optional(optional)
    if found.components is None:
        raise InvalidArgumentError(
            "the optional holds nothing",
            expected="one that OptionalFromValue gave",
            got="OptionalNone",
            hint="ask OptionalHasValue first",
        )
    if found.dtypes != op.attr("output_types"):
        raise DTypeError(
            "the optional holds tensors of other dtypes",
            expected=", ".join(map(str, op.attr("output_types"))),
            got=", ".join(map(str, found.dtypes)),
            hint="give output_types as they were put in",
        )
    for component, shape in zip(found.components, op.attr("output_shapes"), strict=True):
        if isinstance(component, (np.ndarray, np.generic)) and not shape.is_compatible_with(Shape(component.shape)):
            raise ShapeError(
                "a component of the optional has another shape",
                expected=str(shape),
                got=str(list(component.shape)),
                hint="leave sizes that differ open in output_shapes",
            )
    return list(found.components)
