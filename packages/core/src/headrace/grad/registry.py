"""The gradient registry: one rule per operation type, or a stated reason why there is none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from headrace.errors import AlreadyExistsError, NotFoundError, known_names
from headrace.graph.op_def import find_op_def
from headrace.graph.operation import Operation
from headrace.graph.scopes import current_scope, enter

__all__ = ["GradientRule", "find_gradient", "gradient_of_type", "gradient_override", "no_gradient", "register_gradient"]

GradientFunction = Callable[..., Sequence[Any]]
"""Called as `rule(op, *output_gradients)`, gives one gradient (a Tensor, IndexedSlices or None) per flat input."""

Function = TypeVar("Function", bound=GradientFunction)


@dataclass(frozen=True, slots=True)
class GradientRule:
    """How an operation type is differentiated.

    Attributes:
      function: the rule, or None if the type has no derivative.
      reason: why there is none.
      sparse: the rule accepts `IndexedSlices` as an output gradient; others get them as dense tensors.
      partial: the rule accepts None for an output to which no gradient came; others get zeros.
      hides: values go through what its output stands for, where no edge shows them.
    """

    function: GradientFunction | None
    reason: str = ""
    sparse: bool = False
    partial: bool = False
    hides: bool = False


_registry: dict[str, GradientRule] = {}
_lock = threading.Lock()


def register_gradient(op_type: str, *, sparse: bool = False, partial: bool = False) -> Callable[[Function], Function]:
    """Register the decorated function as the gradient rule of an operation type.

    Args:
      op_type: the type, or any new name to be used with `gradient_override`.
      sparse: see `GradientRule`.
      partial: see `GradientRule`.
    Raises:
      AlreadyExistsError: the name has a rule.

    Example:
      >>> import headrace as hr
      >>> @hr.register_gradient("DocStraightThrough")
      ... def straight_through(op, grad):
      ...     return [grad]
    """

    def decorate(function: Function) -> Function:
        _add(op_type, GradientRule(function, sparse=sparse, partial=partial))
        return function

    return decorate


def no_gradient(op_type: str, reason: str, *, hides: bool = False) -> None:
    """State that an operation type has no derivative, and why; for `hides` see `GradientRule`."""
    _add(op_type, GradientRule(None, reason, hides=hides))


def _add(op_type: str, rule: GradientRule) -> None:
    with _lock:
        if op_type in _registry:
            raise AlreadyExistsError(
                f"{op_type} has a gradient already",
                expected="a type without one",
                got="a second one",
                hint="use hr.gradient_override to replace it inside a scope",
            )
        _registry[op_type] = rule


def find_gradient(op: Operation) -> GradientRule | None:
    """The rule of an operation: that of the override it was created under, else that of its type; None if unknown."""
    find_op_def(op.type)  # loads the package that adds the operation
    name = op.attrs.get("_gradient_op_type", op.type)
    own: GradientRule | None = op.graph.gradient_rules.get(name)
    return own or _registry.get(name)


def gradient_of_type(op_type: str) -> GradientRule | None:
    """The rule of an operation type, or None if none was stated."""
    return _registry.get(op_type)


@contextmanager
def gradient_override(rules: Mapping[str, str | GradientFunction]) -> Iterator[None]:
    """Differentiate operations of some types, where created inside, by other rules.

    Args:
      rules: for each operation type the name of a registered rule, or the rule itself.
    Raises:
      NotFoundError: no rule of that name is registered.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     x = hr.constant(0.6)
      ...     with hr.gradient_override({"Rint": lambda op, grad: [grad]}):
      ...         y = hr.round(x)
      ...     (dx,) = hr.gradients(y, [x])
    """
    chosen: dict[str, str | GradientRule] = {}
    for op_type, rule in rules.items():
        if isinstance(rule, str) and rule not in _registry:
            raise NotFoundError(
                f"there is no gradient rule '{rule}'",
                expected=known_names(rule, _registry),
                got=rule,
                hint="register it first with hr.register_gradient, or give the function itself",
            )
        chosen[op_type] = rule if isinstance(rule, str) else GradientRule(rule)
    scope = current_scope()
    with enter(replace(scope, gradient_override={**scope.gradient_override, **chosen})):
        yield
