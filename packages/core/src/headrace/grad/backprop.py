"""Reverse-mode differentiation: a walk over the graph that knows no operation.

Source: section 4.1 of the TensorFlow paper (OSDI 2016): walk back from the targets to the sources and add, for each
operation on a path between them, the operations its gradient rule asks for; sum where paths join.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from headrace.errors import GradientError, GraphError
from headrace.grad.registry import GradientRule, find_gradient
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.operation import Operation, Tensor
from headrace.graph.scopes import Scope, current_scope, enter, has_graph, name_scope
from headrace.ops.indexed_slices import IndexedSlices, concatenate_slices
from headrace.types import variant

__all__ = ["explain_gradient", "gradient_source", "gradients"]

Gradient = Tensor | IndexedSlices

_source: ContextVar[str] = ContextVar("headrace_gradient_source", default="")


def gradients(
    ys: TensorLike | Sequence[TensorLike],
    xs: TensorLike | Sequence[TensorLike],
    grad_ys: Sequence[TensorLike | None] | None = None,
    stop_gradients: Sequence[TensorLike] = (),
    *,
    name: str = "gradients",
) -> list[Any]:
    """Add operations that compute d(sum of ys)/dx for each x.

    Args:
      ys: one or several tensors of floating or complex dtype.
      xs: tensors or Variables to differentiate by.
      grad_ys: for each y the gradient that arrives there, of y's shape; ones by default.
      stop_gradients: tensors taken as constants: what they are computed from is not looked at. One that is also among
        `xs` gets its partial derivative.
      name: the name scope of the new operations.
    Returns:
      For each x a Tensor of its shape, a `TensorArray` for a `TensorArray`, `IndexedSlices` where only some rows of a
      variable get a gradient, or None where y does not depend on x differentiably: `explain_gradient(y, x)` says why.
    Raises:
      GraphError: a tensor belongs to another graph than the first y.
      GradientError: a y is not differentiable by its dtype, or an operation on the way has neither a gradient rule nor
        a stated reason for none.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.constant(3.0)
      ...     (dx,) = hr.gradients(x * x, [x])
      >>> print(hr.Session(graph).run(dx))
      6.0
    """
    targets = [_symbolic(item) for item in _as_list(ys)]
    sources = [_symbolic(item) for item in _as_list(xs)]
    stops = frozenset(_symbolic(item) for item in stop_gradients)
    if not targets:
        return [None] * len(sources)
    graph = targets[0].graph
    for item in (*targets, *sources, *stops):
        if item.graph is not graph:
            raise GraphError(
                f"'{item.name}' belongs to another graph than '{targets[0].name}'",
                where=item.op.location,
                expected="gradients within one graph",
                got="two graphs",
                hint="build both in one graph, or feed the value through a placeholder",
            )
    with (
        enter(current_scope() if has_graph() and current_scope().graph is graph else Scope(graph=graph)),
        name_scope(name) as prefix,
        _running_as(prefix),
    ):
        arriving = _initial_gradients(targets, grad_ys)
        between = _operations_between(targets, sources, stops)
        collected = _Collected(arriving)
        for op in sorted(between, key=lambda item: item.index, reverse=True):
            _differentiate(op, collected, stops)
        totals = [collected.total(source) for source in sources]
        return [_in_place_of(x, total) for x, total in zip(_as_list(xs), totals, strict=True)]


@contextmanager
def _running_as(prefix: str) -> Iterator[None]:
    """Let rules know in which call of `gradients` they run; one that a rule makes for a loop's body is part of it."""
    token = _source.set(_source.get() or prefix.removesuffix("/"))
    try:
        yield
    finally:
        _source.reset(token)


def gradient_source() -> str:
    """A name for the call of `gradients` that is running: no other call in the same graph has it."""
    return _source.get()


def _as_list(items: TensorLike | Sequence[TensorLike]) -> Sequence[TensorLike]:
    return items if isinstance(items, (list, tuple)) else [items]


def _symbolic(item: TensorLike) -> Tensor:
    """The tensor that stands for `item`; a Variable is differentiated by its handle."""
    handle = getattr(item, "handle", None)
    return handle if isinstance(handle, Tensor) else convert_to_tensor(item)


def _in_place_of(x: TensorLike, gradient: Gradient | None) -> Any:
    """A gradient as what it is the gradient of: that of an array is an array."""
    like = getattr(x, "__headrace_gradient__", None)
    return gradient if like is None or gradient is None else like(gradient)


class _Collected:
    """The gradients that have arrived at each tensor so far. Mutable, used within one call of `gradients`."""

    def __init__(self, arriving: Iterable[tuple[Tensor, Gradient]]) -> None:
        self._parts: dict[Tensor, list[Gradient]] = defaultdict(list)
        for tensor, gradient in arriving:
            self._parts[tensor].append(gradient)

    def add(self, tensor: Tensor, gradient: Gradient) -> None:
        self._parts[tensor].append(gradient)

    def total(self, tensor: Tensor) -> Gradient | None:
        """The sum of what has arrived; it replaces the parts, so that it is added up once."""
        parts = self._parts.get(tensor)
        if not parts:
            return None
        total = _sum(parts)
        self._parts[tensor] = [total]
        return total


def _sum(parts: Sequence[Gradient]) -> Gradient:
    if len(parts) == 1:
        return parts[0]
    sparse = [part for part in parts if isinstance(part, IndexedSlices)]
    if len(sparse) == len(parts):
        return concatenate_slices(sparse)
    dense = [part.to_dense() if isinstance(part, IndexedSlices) else part for part in parts]
    total: Tensor = apply_op("AddN", dense)
    return total


def _initial_gradients(
    ys: Sequence[Tensor], grad_ys: Sequence[TensorLike | None] | None
) -> list[tuple[Tensor, Gradient]]:
    given = list(grad_ys) if grad_ys is not None else [None] * len(ys)
    if len(given) != len(ys):
        raise GradientError(
            "grad_ys does not fit ys",
            expected=f"{len(ys)} gradients",
            got=str(len(given)),
            hint="give None for each y whose gradient is 1",
        )
    result: list[tuple[Tensor, Gradient]] = []
    for y, gradient in zip(ys, given, strict=True):
        if not y.dtype.is_differentiable and y.dtype is not variant:
            raise GradientError(
                f"'{y.name}' cannot be differentiated",
                where=y.op.location,
                expected="a floating or complex dtype",
                got=str(y.spec),
                hint="hr.astype(y, hr.float32) if its value depends smoothly on the inputs",
            )
        if isinstance(gradient, IndexedSlices):
            result.append((y, gradient))
            continue
        seed: Tensor = apply_op("OnesLike", y) if gradient is None else convert_to_tensor(gradient, y.dtype)
        if not seed.shape.is_compatible_with(y.shape):
            raise GradientError(
                f"the gradient given for '{y.name}' has another shape",
                expected=str(y.shape),
                got=str(seed.shape),
                hint="hr.broadcast_to or hr.reshape it",
            )
        result.append((y, seed))
    return result


def _operations_between(ys: Sequence[Tensor], xs: Sequence[Tensor], stops: frozenset[Tensor]) -> set[Operation]:
    """The operations on a path from some x to some y; nothing is followed back through a stopped tensor."""
    ancestors: set[Operation] = set()
    stack = [y.op for y in ys]
    while stack:
        op = stack.pop()
        if op not in ancestors:
            ancestors.add(op)
            stack.extend(tensor.op for tensor in op.inputs if tensor not in stops)
    reached = set(xs)
    between: set[Operation] = set()
    for op in sorted(ancestors, key=lambda item: item.index):
        if any(tensor in reached for tensor in op.inputs):
            between.add(op)
            reached.update(output for output in op.outputs if output not in stops)
    return between


def _differentiate(op: Operation, collected: _Collected, stops: frozenset[Tensor]) -> None:
    """Add the operations of one gradient rule and hand on what it gives."""
    arrived = [None if output in stops else collected.total(output) for output in op.outputs]
    if all(gradient is None for gradient in arrived):
        return
    rule = _rule_of(op)
    if rule.function is None:
        return
    outputs = [_output_gradient(op, index, gradient, rule) for index, gradient in enumerate(arrived)]
    try:
        results = rule.function(op, *outputs)
    except Exception as error:
        error.add_note(f"in the gradient rule of {op.location}")
        raise
    if not isinstance(results, (list, tuple)):
        raise _faulty_rule(op, "no sequence", f"{len(op.inputs)} gradients", repr(results))
    if len(results) != len(op.inputs):
        raise _faulty_rule(
            op,
            f"{len(results)} gradients for {len(op.inputs)} inputs",
            "a gradient, or None, for each input",
            str(results),
        )
    for tensor, gradient in zip(op.inputs, results, strict=True):
        if gradient is not None:
            collected.add(tensor, _checked(op, tensor, gradient))


def _rule_of(op: Operation) -> GradientRule:
    rule = find_gradient(op)
    if rule is None:
        raise GradientError(
            f"{op.type} '{op.name}' has no gradient rule",
            where=op.location,
            expected=f"a rule registered with hr.register_gradient('{op.type}') or hr.no_gradient",
            got="none",
            hint="register one, or cut the path with hr.stop_gradient",
        )
    return rule


def _output_gradient(op: Operation, index: int, gradient: Gradient | None, rule: GradientRule) -> Gradient | None:
    """Zeros where nothing arrived at a differentiable output, so that rules need not ask."""
    if isinstance(gradient, IndexedSlices) and not rule.sparse:
        return gradient.to_dense()
    if gradient is None and op.outputs[index].dtype.is_differentiable:
        zeros: Tensor = apply_op("ZerosLike", op.outputs[index])
        return zeros
    return gradient


def _checked(op: Operation, tensor: Tensor, gradient: Gradient) -> Gradient:
    """Catch a faulty rule where it is written, not three operations later."""
    if isinstance(gradient, IndexedSlices):
        return gradient
    if not isinstance(gradient, Tensor):
        raise _faulty_rule(op, "something else than a tensor", f"a gradient of '{tensor.name}'", repr(gradient))
    handle = tensor.dtype.kind in ("resource", "variant")
    if not handle and gradient.dtype is not tensor.dtype:
        raise _faulty_rule(op, "the wrong dtype", f"{tensor.dtype} for input '{tensor.name}'", str(gradient.spec))
    if not handle and not gradient.shape.is_compatible_with(tensor.shape):
        raise _faulty_rule(op, "the wrong shape", f"{tensor.shape} for input '{tensor.name}'", str(gradient.spec))
    if not handle and not gradient.shape.is_fully_defined:
        gradient.set_shape(tensor.shape)
    return gradient


def _faulty_rule(op: Operation, what: str, expected: str, got: str) -> GradientError:
    return GradientError(f"the gradient rule of {op.type} gave {what}", where=op.location, expected=expected, got=got)


def explain_gradient(y: TensorLike, x: TensorLike) -> str:
    """Say in words why `gradients(y, [x])` is None: not connected, or which operation on the way stops it.

    Args:
      y: the tensor to differentiate.
      x: the tensor or Variable to differentiate by.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default():
      ...     x = hr.constant([1.0, 2.0])
      ...     text = hr.explain_gradient(hr.astype(hr.argmax(x, axis=0), hr.float32), x)
      >>> "ArgMax" in text
      True
    """
    target, source = _symbolic(y), _symbolic(x)
    between = _operations_between([target], [source], frozenset())
    if target is not source and target.op not in between:
        return f"'{target.name}' does not depend on '{source.name}': no path of operations connects them"
    blocked = _blocking(target, between)
    if not blocked:
        return f"'{target.name}' depends on '{source.name}' differentiably"
    reasons = "; ".join(f"{op.location}: {reason}" for op, reason in blocked)
    return f"every path from '{target.name}' to '{source.name}' is stopped by {reasons}"


def _blocking(target: Tensor, between: set[Operation]) -> list[tuple[Operation, str]]:
    """The operations nearest to the target that stop every path; empty if some path is open to the end."""
    blocked: dict[Operation, str] = {}
    stack, seen = [target.op], {target.op}
    while stack:
        op = stack.pop()
        rule = find_gradient(op)
        if rule is None or rule.function is None:
            blocked[op] = rule.reason if rule is not None else "no gradient rule is registered"
            continue
        inner = {tensor.op for tensor in op.inputs} & between
        if not inner:
            return []
        stack.extend(inner - seen)
        seen |= inner
    return list(blocked.items())
