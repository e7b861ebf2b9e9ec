"""Reverse-mode differentiation: a walk over the graph that knows no operation.

Source: section 4.1 of the TensorFlow paper (OSDI 2016): walk back from the targets to the sources and add, for each
operation on a path between them, the operations its gradient rule asks for; sum where paths join.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from headrace.errors import GradientError, GraphError
from headrace.grad.control_flow import differentiable_form
from headrace.grad.registry import GradientRule, find_gradient, gradient_of_type
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor
from headrace.graph.extensions import in_order
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation, Tensor
from headrace.graph.scopes import Scope, current_graph, current_scope, enter, has_graph, name_scope
from headrace.ops.indexed_slices import IndexedSlices, concatenate_slices
from headrace.types import variant

__all__ = ["Gradient", "explain_gradient", "gradient_source", "gradients", "is_wanted"]

Gradient = Tensor | IndexedSlices

_wanted: ContextVar[Callable[[Tensor], bool]] = ContextVar("headrace_wanted", default=lambda tensor: True)
"""Tells whether a tensor depends on a source of the differentiation that is under way."""

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
    stopped = [_symbolic(item) for item in stop_gradients]
    if not targets:
        return [None] * len(sources)
    graph = _common_graph(targets[0], (*targets, *sources, *stopped))
    targets, sources, stopped = ([graph.own(item) for item in items] for items in (targets, sources, stopped))
    inside = has_graph() and current_graph().is_inside(graph)
    with (
        enter(current_scope() if inside else Scope(graph=graph)),
        name_scope(name) as prefix,
        _running_as(prefix, graph),
    ):
        differentiable_form(graph, targets)
        walk = _Walk(graph, stopped)
        arriving = _initial_gradients(targets, grad_ys)
        between, reached = walk.operations_between(targets, sources)
        collected = _Collected(walk, arriving)
        token = _wanted.set(lambda tensor: walk.tensor(tensor) in reached)
        try:
            for op in reversed(between):
                _differentiate(op, collected, walk)
        finally:
            _wanted.reset(token)
        totals = [collected.total(source) for source in sources]
        return [_in_place_of(x, total) for x, total in zip(_as_list(xs), totals, strict=True)]


@contextmanager
def _running_as(prefix: str, graph: Graph) -> Iterator[None]:
    """Let rules know in which call of `gradients` they run; one that a rule makes for a loop's body is part of it.

    A graph that was read from a file may have a call of that name: no scope is known of it.
    """
    source = _source.get()
    if not source:
        taken = {op.attrs.get("source") for op in graph.operations if op.type.startswith("TensorArrayGrad")}
        source = prefix.removesuffix("/")
        while source in taken:
            source = graph.unique_name(source)
    token = _source.set(source)
    try:
        yield
    finally:
        _source.reset(token)


def gradient_source() -> str:
    """A name for the call of `gradients` that is running: no other call in the same graph has it."""
    return _source.get()


def is_wanted(tensor: Tensor) -> bool:
    """True if the differentiation that is under way can use a gradient of `tensor`, an input of the operation."""
    return _wanted.get()(tensor)


def _common_graph(first: Tensor, items: Iterable[Tensor]) -> Graph:
    """The graph that all tensors belong to, or the innermost one where functions are being built around each other."""
    graph = first.graph
    for item in items:
        if item.graph.is_inside(graph):
            graph = item.graph
        elif not graph.is_inside(item.graph):
            raise GraphError(
                f"'{item.name}' belongs to another graph than '{first.name}'",
                where=item.op.location,
                expected="gradients within one graph",
                got="two graphs",
                hint="build both in one graph, or feed the value through a placeholder",
            )
    return graph


def _as_list(items: TensorLike | Sequence[TensorLike]) -> Sequence[TensorLike]:
    return items if isinstance(items, (list, tuple)) else [items]


def _symbolic(item: TensorLike) -> Tensor:
    """The tensor that stands for `item`; a Variable is differentiated by its handle."""
    if isinstance(item, Tensor):
        return item  # as it is: where functions are being built it may belong to a graph around the innermost one
    handle = getattr(item, "handle", None)
    return handle if isinstance(handle, Tensor) else convert_to_tensor(item)


def _in_place_of(x: TensorLike, gradient: Gradient | None) -> Any:
    """A gradient as what it is the gradient of: that of an array is an array."""
    like = getattr(x, "__headrace_gradient__", None)
    return gradient if like is None or gradient is None else like(gradient)


class _Walk:
    """The part of a graph that is walked: an operation with an extension is looked at as that extension.

    Gradient rules add extensions while the walk is under way; those that it started with count.

    Attributes:
      stops: the tensors that are taken as constants.
      unseen: operations that may take what depends on some x out of something where no edge shows it.
    """

    def __init__(self, graph: Graph, stops: Iterable[Tensor]) -> None:
        self._extensions: Mapping[Operation, Operation] = dict(graph.extensions)
        self.stops = frozenset(self.tensor(item) for item in stops)
        self.unseen: set[Operation] = set()

    def tensor(self, tensor: Tensor) -> Tensor:
        """What stands for a tensor."""
        op = tensor.op
        while op in self._extensions:
            op = self._extensions[op]
        return tensor if op is tensor.op else op.outputs[tensor.index]

    def operations_between(
        self, ys: Iterable[Tensor], xs: Iterable[Tensor]
    ) -> tuple[list[Operation], frozenset[Tensor]]:
        """The operations on a path from some x to some y, in order, and the tensors that depend on some x.

        Nothing is followed back through a stopped tensor.
        """
        ancestors: set[Operation] = set()
        stack = [self.tensor(y).op for y in ys]
        while stack:
            op = stack.pop()
            if op not in ancestors:
                ancestors.add(op)
                stack.extend(tensor.op for tensor in self.inputs(op) if tensor not in self.stops)
        reached = {self.tensor(x) for x in xs}
        hiding: set[Tensor] = set()
        between: list[Operation] = []
        for op in self._in_order(ancestors):
            inputs = self.inputs(op)
            if not hiding.isdisjoint(inputs):
                self.unseen.add(op)
            if op in self.unseen or any(tensor in reached for tensor in inputs):
                between.append(op)
                reached.update(output for output in op.outputs if output not in self.stops)
                hiding.update(tensor for tensor in inputs if _hides(tensor.op))
        return between, frozenset(reached)

    def inputs(self, op: Operation) -> list[Tensor]:
        """What stands for the inputs of an operation."""
        return [self.tensor(tensor) for tensor in op.inputs] if self._extensions else list(op.inputs)

    def _in_order(self, operations: set[Operation]) -> list[Operation]:
        if not self._extensions:
            return sorted(operations, key=lambda item: item.index)
        replaced = {op: self.tensor(op.outputs[0]).op for op in self._extensions if op.outputs}
        return in_order(operations, (), replaced)


class _Collected:
    """The gradients that have arrived at each tensor so far. Mutable, used within one call of `gradients`."""

    def __init__(self, walk: _Walk, arriving: Iterable[tuple[Tensor, Gradient]]) -> None:
        self._walk = walk
        self._parts: dict[Tensor, list[Gradient]] = defaultdict(list)
        for tensor, gradient in arriving:
            self.add(tensor, gradient)

    def add(self, tensor: Tensor, gradient: Gradient) -> None:
        self._parts[self._walk.tensor(tensor)].append(gradient)

    def total(self, tensor: Tensor) -> Gradient | None:
        """The sum of what has arrived; it replaces the parts, so that it is added up once."""
        tensor = self._walk.tensor(tensor)
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


def _differentiate(op: Operation, collected: _Collected, walk: _Walk) -> None:
    """Add the operations of one gradient rule and hand on what it gives."""
    arrived = [None if output in walk.stops else collected.total(output) for output in op.outputs]
    if all(gradient is None for gradient in arrived):
        return
    if op in walk.unseen:
        raise GradientError(
            f"{op.type} '{op.name}' may take values from a stack, through which no gradient is followed",
            where=op.location,
            expected="values that depend on xs by the edges of the graph",
            got="a stack on which an operation that depends on xs may put values",
            hint="differentiate the loop itself with hr.gradients, not the gradient that came with it",
        )
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


def _hides(op: Operation) -> bool:
    rule = gradient_of_type(op.type)
    return rule is not None and rule.hides


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
    if gradient is None and not rule.partial and op.outputs[index].dtype.is_differentiable:
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
    return GradientError(
        f"the gradient rule of {op.type} gave {what}",
        where=op.location,
        expected=expected,
        got=got,
        hint=f"correct the function that hr.register_gradient('{op.type}') or hr.gradient_override was given",
    )


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
    walk = _Walk(target.graph, ())
    target, source = walk.tensor(target), walk.tensor(source)
    between = set(walk.operations_between([target], [source])[0])
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
