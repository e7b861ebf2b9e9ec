"""while_loop: a function that runs again and again inside the graph, and what loops of other kinds are built with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from headrace.errors import DTypeError, InvalidArgumentError, ShapeError
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor, graph_of
from headrace.graph.attr import AttrValue, FunctionName
from headrace.graph.extensions import needed_operations
from headrace.graph.functions import Body, Captures
from headrace.graph.graph import Graph
from headrace.graph.handle_spec import handle_attrs
from headrace.graph.operation import Operation, Tensor
from headrace.graph.scopes import Scope, current_scope, enter
from headrace.ops.branching import as_scalar, check_callable, function_name, traced_leaves
from headrace.ops.structure import check_same_structure, flatten, ordered_keys
from headrace.types import Shape, ShapeLike, TensorSpec, as_shape, int32
from headrace.types import bool as bool_dtype

__all__ = ["RECOMPUTE", "SWAP_TO_HOST", "Carried", "LoopBuilder", "next_values", "while_loop"]

RECOMPUTE = "_recompute"
"""The annotation of a loop whose backward pass computes again what it needs, from the loop variables."""

SWAP_TO_HOST = "_swap_to_host"
"""The annotation of a loop, and of what it pushes for its backward pass, that may wait in the memory of the host."""


def while_loop(
    condition: Callable[..., TensorLike],
    body: Callable[..., Any],
    loop_vars: Any,
    *,
    shape_invariants: Any = None,
    maximum_iterations: TensorLike | None = None,
    parallel_iterations: int = 10,
    recompute: bool = False,
    swap_to_host: bool = False,
    name: str | None = None,
) -> Any:
    """The loop variables after `body` was applied to them as long as `condition` of them is true.

    Both functions run once in Python, to build their graphs; tensors of the graph around them are captured and do not
    change in the loop. The loop is differentiable: its backward pass keeps, for each iteration, what it reads.

    Args:
      condition: a function of the loop variables that gives a bool scalar.
      body: a function of the loop variables that gives their next values, in the same structure.
      loop_vars: a list or tuple, passed as separate arguments, or another structure, passed as one; its leaves are the
        first values.
      shape_invariants: where shapes change from iteration to iteration, in the structure of `loop_vars` the shape that
        each satisfies always, e.g. `[None, 3]`; None for those that keep their shape.
      maximum_iterations: an int scalar, after which the loop ends in any case, or None.
      parallel_iterations: how many iterations may overlap where the loop runs on several devices.
      recompute: let the backward pass keep the loop variables alone and compute the rest of each iteration again, which
        takes less memory and more time.
      swap_to_host: let what the backward pass reads wait in the memory of the host, where a device has one of its own;
        values and gradients are the same. On a CPU that is where it is anyway, so nothing changes there.
      name: the operation's name.
    Returns:
      The last values, in the structure of `loop_vars`.
    Raises:
      InvalidArgumentError: there are no loop variables, `body` gives another structure, or the loop could never end.
      DTypeError: `body` gives another dtype, or `condition` gives no bool.
      ShapeError: a loop variable changes its shape and `shape_invariants` does not say so.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     n = hr.placeholder(hr.int32, [], name="n")
      ...     _, total = hr.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s + i * i), (0, 0))
      >>> print(hr.Session(graph).run(total, feeds={n: 4}))
      14
    """
    check_callable(condition, "the condition of while_loop", "*loop_vars")
    check_callable(body, "the body of while_loop", "*loop_vars")
    _check_parallel_iterations(parallel_iterations)
    leaves, rebuild = flatten(loop_vars)
    if not leaves:
        raise InvalidArgumentError(
            "while_loop has no loop variables",
            expected="at least one value that changes from iteration to iteration",
            got=repr(loop_vars),
            hint="a loop that ends needs a variable that its condition looks at",
        )
    with graph_of(leaves) as graph:
        first = [convert_to_tensor(leaf) for leaf in leaves]
        loop = LoopBuilder(graph, first, _invariants(first, shape_invariants, loop_vars), name or "while")
        counter = None if maximum_iterations is None else loop.count()
        star = isinstance(loop_vars, (list, tuple))

        def call(function: Callable[..., Any], arguments: Sequence[Tensor]) -> Any:
            values = rebuild(arguments)
            return function(*values) if star else function(values)

        with loop.condition.as_default():
            goes_on = call(condition, loop.condition_arguments)
            with enter(Scope(graph=loop.condition)):
                predicate = _predicate(goes_on)
                if counter is not None:
                    limit = convert_to_tensor(maximum_iterations, int32)
                    predicate = apply_op("LogicalAnd", apply_op("Less", counter.in_condition, limit), predicate)
        with loop.body.as_default():
            structure = call(body, loop.body_arguments)
        if star and len(loop_vars) == 1 and not isinstance(structure, (list, tuple, Mapping)):
            structure = [structure]  # a body of one variable may return it alone
        wanted = tuple(loop_vars) if isinstance(structure, tuple) and isinstance(loop_vars, list) else loop_vars
        wanted = list(loop_vars) if isinstance(structure, list) and isinstance(loop_vars, tuple) else wanted
        check_same_structure(
            wanted, structure, "the body of while_loop", "return the next value of each loop variable, in their order"
        )
        results = next_values(loop, flatten(structure)[0])
        outputs = loop.finish(
            predicate,
            results,
            parallel_iterations=parallel_iterations,
            recompute=recompute,
            swap_to_host=swap_to_host,
        )
        _check_may_end(outputs[0].op)
        return rebuild(outputs[: len(first)])


def _check_parallel_iterations(given: Any) -> None:
    if isinstance(given, int) and given < 1:  # the operation checks the rest, and takes any number from a graph file
        raise InvalidArgumentError(
            "while_loop may run no iteration",
            expected="parallel_iterations >= 1",
            got=str(given),
            hint="1 runs them one after the other; leave it out where there is no reason for another number",
        )


def _check_may_end(op: Operation) -> None:
    """Refuse a loop whose condition looks at nothing that changes; an effect may end one that has it, by an error."""
    condition, body = op.bodies
    if op.is_stateful:
        return
    looked_at = {item.attrs["index"] for item in needed_operations(condition.results, (), ())[0] if item.type == "_Arg"}
    if all(body.results[index] is body.arguments[index] for index in looked_at):
        raise InvalidArgumentError(
            "the loop never ends once it has begun",
            where=op.location,
            expected="a condition that looks at something that the body changes",
            got="one that looks at "
            + (f"loop variables {sorted(looked_at)} only" if looked_at else "no loop variable"),
            hint="count the iterations in a loop variable, or give maximum_iterations",
        )


def _invariants(first: Sequence[Tensor], given: Any, loop_vars: Any) -> list[Shape]:
    """The shape that each loop variable satisfies always."""
    if given is None:
        return [tensor.shape for tensor in first]
    shapes = [given] if not isinstance(loop_vars, (list, tuple, Mapping)) else _flat_shapes(given, loop_vars)
    if len(shapes) != len(first):
        raise InvalidArgumentError(
            "shape_invariants does not fit loop_vars",
            expected=f"a shape, or None, for each of {len(first)} loop variables",
            got=f"{len(shapes)}",
            hint="write it in the structure of loop_vars",
        )
    result: list[Shape] = []
    for tensor, shape in zip(first, shapes, strict=True):
        wanted = tensor.shape if shape is None else as_shape(shape)
        if wanted.relax(tensor.shape) != wanted:
            raise ShapeError(
                "a loop variable does not satisfy its shape invariant when the loop starts",
                where=tensor.op.location,
                expected=str(wanted),
                got=str(tensor.spec),
                hint="leave the sizes that change open with None",
            )
        result.append(wanted)
    return result


def _flat_shapes(given: Any, like: Any) -> list[ShapeLike | None]:
    """Shapes in the structure of the loop variables, flat: lists of sizes are leaves here."""
    if isinstance(like, Mapping) and isinstance(given, Mapping):
        return [shape for key in ordered_keys(like) for shape in _flat_shapes(given.get(key), like[key])]
    if isinstance(like, (list, tuple)) and isinstance(given, (list, tuple)) and len(like) == len(given):
        return [shape for item, part in zip(given, like, strict=True) for shape in _flat_shapes(item, part)]
    return [given] * len(flatten(like)[0]) if given is None else [given]


def _predicate(value: TensorLike) -> Tensor:
    if isinstance(value, Operation) or value is None:
        raise DTypeError(
            "the condition of while_loop gives no value",
            expected="bool[]",
            got=repr(value),
            hint="return a comparison, such as i < n",
        )
    predicate = convert_to_tensor(value)
    if predicate.dtype is not bool_dtype:
        raise DTypeError(
            "the condition of while_loop gives no bool",
            where=predicate.op.location,
            expected="bool[]",
            got=str(predicate.spec),
            hint="return a comparison, such as i < n",
        )
    return as_scalar(predicate, "what the condition of while_loop gives", "hr.all(x) or hr.any(x)")


def next_values(loop: LoopBuilder, leaves: Sequence[Any]) -> list[Tensor]:
    """What the body returned as tensors, each of the dtype and shape of its loop variable."""
    for number, leaf in enumerate(leaves):
        if isinstance(leaf, Operation):
            raise DTypeError(
                f"loop variable {number} becomes an operation",
                where=leaf.location,
                expected=f"the next value, {loop.body_arguments[number].spec}",
                got="an operation that gives no value",
                hint="return a tensor; operations made in the body run without being returned",
            )
    results = traced_leaves(loop.body, leaves, [variable.dtype for variable in loop.body_arguments])
    for number, (result, variable) in enumerate(zip(results, loop.body_arguments, strict=True)):
        if result.dtype is not variable.dtype:
            raise DTypeError(
                f"loop variable {number} changes its dtype",
                where=result.op.location,
                expected=f"{variable.dtype}, as it starts with",
                got=str(result.spec),
                hint=f"hr.astype(x, hr.{variable.dtype}) at the end of the body",
            )
        if variable.shape.relax(result.shape) != variable.shape:
            raise ShapeError(
                f"loop variable {number} changes its shape",
                where=result.op.location,
                expected=f"{variable.shape}, as it starts with",
                got=f"{result.shape} after one iteration",
                hint=f"shape_invariants=[..., {variable.shape.relax(result.shape)}, ...] leaves open what changes",
            )
    return results


class Carried:
    """A variable that a builder adds to a loop. Mutable while the loop is built.

    Attributes:
      initial: its first value, in the graph around the loop.
      result: its next value, in the body.
    """

    def __init__(self, loop: LoopBuilder, initial: Tensor) -> None:
        self._loop = loop
        self.initial = initial
        self.result: Tensor | None = None

    @property
    def in_condition(self) -> Tensor:
        """It, in the condition."""
        return self._loop.condition.own(self.initial)

    @property
    def in_body(self) -> Tensor:
        """It, in the body."""
        return self._loop.body.own(self.initial)

    @property
    def number(self) -> int:
        """Its position among the inputs and outputs of the loop."""
        return self._loop.captures.number_of(self.initial)


class LoopBuilder:
    """The two functions of a loop while they are built. Mutable, used once.

    Captured tensors become loop variables that do not change. A variable may also be added while the body is being
    built, when it is known what it has to hold (`carry`).

    Args:
      graph: the graph around the loop.
      first: the first values of the loop variables.
      shapes: the static shapes that the loop variables have always.
      name: the name of the operation.

    Attributes:
      condition, body: the graphs of the two functions.
      condition_arguments, body_arguments: the loop variables in each.
      captures: what the two functions capture, in common.
    """

    def __init__(self, graph: Graph, first: Sequence[Tensor], shapes: Sequence[Shape], name: str) -> None:
        self.graph = graph
        self.first = tuple(first)
        self.name = name
        self.captures = Captures(len(first))
        self.condition = Body(function_name(graph, f"{name}_cond"), outer=graph, captures=self.captures)
        self.body = Body(function_name(graph, f"{name}_body"), outer=graph, captures=self.captures)
        self._around = current_scope() if current_scope().graph is graph else Scope(graph=graph)
        self._carried: list[Carried] = []
        self.condition_arguments = self._arguments(self.condition, shapes)
        self.body_arguments = self._arguments(self.body, shapes)

    def _arguments(self, function: Body, shapes: Sequence[Shape]) -> list[Tensor]:
        return [
            function.add_argument(index, TensorSpec(tensor.dtype, shape), like=tensor)
            for index, (tensor, shape) in enumerate(zip(self.first, shapes, strict=True))
        ]

    def around(self) -> AbstractContextManager[None]:
        """Build in the graph around the loop, in the scope in which the loop is made."""
        return enter(self._around)

    def carry(self, initial: Tensor) -> Carried:
        """Add a variable with the first value `initial`, a tensor of the graph around the loop that is no constant."""
        carried = Carried(self, self.graph.own(initial))
        self._carried.append(carried)
        return carried

    def count(self) -> Carried:
        """Add a variable that counts the iterations, int32 from 0."""
        with self.around():
            zero = apply_op("Identity", convert_to_tensor(0, int32))
        counter = self.carry(zero)
        with enter(Scope(graph=self.body)):
            counter.result = apply_op("AddV2", counter.in_body, 1)
        return counter

    def finish(
        self,
        predicate: Tensor,
        results: Sequence[Tensor],
        *,
        parallel_iterations: int = 10,
        recompute: bool = False,
        swap_to_host: bool = False,
        annotations: Mapping[str, AttrValue] | None = None,
    ) -> tuple[Tensor, ...]:
        """Make the operation.

        Args:
          predicate: what the condition gives.
          results: the next values of the loop variables.
          parallel_iterations: see `while_loop`.
          recompute: see `while_loop`.
          swap_to_host: see `while_loop`.
          annotations: further attributes of the operation.
        Returns:
          Its outputs: the loop variables, then what was captured and carried.
        """
        changed = {carried.number: carried.result for carried in self._carried if carried.result is not None}
        for tensor in self.captures.tensors:
            self.body.own(tensor)
        self.condition.complete([predicate])
        inputs = (*self.first, *self.captures.tensors)
        for tensor in self.captures.tensors:
            self.body.own(tensor)
        final = {**self.body.arguments, **changed, **dict(enumerate(results))}
        self.body.complete([final[index] for index in range(len(inputs))])
        attrs: dict[str, AttrValue] = {
            "T": tuple(tensor.dtype for tensor in inputs),
            "cond": FunctionName(self.condition.name),
            "body": FunctionName(self.body.name),
            "output_shapes": tuple(self.body.arguments[index].shape for index in range(len(inputs))),
            "parallel_iterations": parallel_iterations,
            **({RECOMPUTE: True} if recompute else {}),
            **({SWAP_TO_HOST: True} if swap_to_host else {}),
            **handle_attrs(inputs),
            **(annotations or {}),
        }
        stateful = self.condition.effects.stateful or self.body.effects.stateful
        operation = self.graph.create_op("While" if stateful else "StatelessWhile", inputs, attrs, name=self.name)
        return operation.outputs
