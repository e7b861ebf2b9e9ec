"""Branches: a predicate or an index chooses which function of several runs, in each step anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from headrace.errors import DTypeError, InvalidArgumentError, ShapeError
from headrace.graph.apply import TensorLike, apply_op, convert_to_tensor, graph_of
from headrace.graph.attr import AttrValue, FunctionName
from headrace.graph.functions import Body, Captures, outside_effect
from headrace.graph.graph import Graph
from headrace.graph.handle_spec import handle_attrs
from headrace.graph.operation import Operation, Tensor
from headrace.graph.scopes import Scope, current_scope, enter
from headrace.ops.structure import check_same_structure, flatten
from headrace.types import DType, Shape, as_dtype, int32
from headrace.types import bool as bool_dtype

__all__ = [
    "as_scalar",
    "build_branches",
    "case",
    "check_callable",
    "cond",
    "function_name",
    "switch_case",
    "traced_leaves",
]

Branch = Callable[[], Any]


def cond(pred: TensorLike, true_fn: Branch, false_fn: Branch, *, name: str | None = None) -> Any:
    """What `true_fn()` returns if `pred` is true, else what `false_fn()` returns; only one of the two runs in a step.

    Both functions run once in Python, to build their graphs. What they make, assignments included, happens only if
    their branch is taken; tensors of the graph around them are captured, and are computed in any case.

    Args:
      pred: bool scalar.
      true_fn: a function of no arguments that returns a nested structure of tensors, operations or None.
      false_fn: the same, of the same structure and dtypes.
      name: the operation's name.
    Returns:
      Tensors in the structure that the functions return; the operation itself where they return no tensor.
    Raises:
      DTypeError: `pred` is no bool, or the branches give different dtypes.
      ShapeError: `pred` is no scalar.
      InvalidArgumentError: the branches give different structures.
      GraphError: an operation with an effect was made outside and is asked for in a branch.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.placeholder(hr.float32, [], name="x")
      ...     y = hr.cond(x > 0.0, lambda: hr.log(x), lambda: x * 10.0)
      >>> print(hr.Session(graph).run(y, feeds={x: -1.5}))
      -15.0
    """
    check_callable(true_fn, "true_fn")
    check_callable(false_fn, "false_fn")
    with graph_of([pred]) as graph:
        predicate = convert_to_tensor(pred)
        if predicate.dtype is not bool_dtype:
            raise DTypeError(
                "the predicate of cond is no bool",
                where=predicate.op.location,
                expected="bool[]",
                got=str(predicate.spec),
                hint="compare it first, e.g. x > 0 or hr.not_equal(x, 0)",
            )
        hint = "hr.all(pred) or hr.any(pred); hr.where chooses per element"
        predicate = as_scalar(predicate, "the predicate of cond", hint)
        return build_branches(graph, predicate, [true_fn, false_fn], ["true", "false"], name or "cond")


def switch_case(
    index: TensorLike,
    branches: Sequence[Branch] | Mapping[int, Branch],
    default: Branch | None = None,
    *,
    name: str | None = None,
) -> Any:
    """What function number `index` returns; only that one runs in a step.

    Args:
      index: int32 scalar.
      branches: functions as for `cond`, in order, or by their number.
      default: the function for other numbers; by default the one of the highest number.
      name: the operation's name.
    Returns:
      As `cond`.
    Raises:
      InvalidArgumentError: there are no functions, a number is negative, or the functions give different structures.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     i = hr.placeholder(hr.int32, [], name="i")
      ...     y = hr.switch_case(i, [lambda: 10.0, lambda: 20.0], default=lambda: -1.0)
      >>> print([float(hr.Session(graph).run(y, feeds={i: number})) for number in (0, 1, 2)])
      [10.0, 20.0, -1.0]
    """
    numbered = dict(branches) if isinstance(branches, Mapping) else dict(enumerate(branches))
    if not numbered or any(type(number) is not int or number < 0 for number in numbered):
        raise InvalidArgumentError(
            "the branches of switch_case are wrong",
            expected="at least one function, by numbers from 0",
            got=f"numbers {sorted(numbered, key=str)}" if numbered else "no function",
            hint="switch_case(i, [f, g]) or switch_case(i, {0: f, 3: g}, default=h)",
        )
    for number, function in numbered.items():
        check_callable(function, f"branch {number}")
    last = numbered[max(numbered)] if default is None else default
    check_callable(last, "default")
    with graph_of([index]) as graph:
        hint = "index a single number, e.g. index[0]"
        number_tensor = as_scalar(convert_to_tensor(index), "the index of switch_case", hint)
        if not number_tensor.dtype.is_integer:
            raise DTypeError(
                "the index of switch_case is no integer",
                where=number_tensor.op.location,
                expected="int32[]",
                got=str(number_tensor.spec),
                hint="hr.astype(index, hr.int32)",
            )
        if number_tensor.dtype is not int32:
            number_tensor = apply_op("Cast", number_tensor, DstT=int32)
        functions = [numbered.get(number, last) for number in range(max(numbered) + 1)]
        if default is not None:
            functions.append(default)
        names = [f"branch{number}" for number in range(len(functions))]
        return build_branches(graph, number_tensor, functions, names, name or "switch_case")


def case(
    pairs: Sequence[tuple[TensorLike, Branch]],
    default: Branch | None = None,
    *,
    exclusive: bool = False,
    name: str | None = None,
) -> Any:
    """What the function of the first true predicate returns; only that one runs in a step.

    Args:
      pairs: predicates, bool scalars, each with a function as for `cond`.
      default: the function where no predicate is true; without one the last function of `pairs` runs then.
      exclusive: promise that at most one predicate is true; a step in which several are is an error.
      name: the operation's name.
    Returns:
      As `cond`.
    Raises:
      InvalidArgumentError: there are no pairs, or the functions give different structures.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     x = hr.placeholder(hr.float32, [], name="x")
      ...     sign = hr.case([(x > 0.0, lambda: 1), (x < 0.0, lambda: -1)], default=lambda: 0)
      >>> print([int(hr.Session(graph).run(sign, feeds={x: value})) for value in (5.0, -2.0, 0.0)])
      [1, -1, 0]
    """
    if not pairs:
        raise InvalidArgumentError(
            "case was given no predicates",
            expected="at least one (predicate, function)",
            got="none",
            hint="call the function itself where there is nothing to choose",
        )
    predicates, functions = [pred for pred, _ in pairs], [function for _, function in pairs]
    with graph_of(predicates):
        scalars = [
            as_scalar(convert_to_tensor(pred, bool_dtype), "a predicate of case", "hr.all(pred) or hr.any(pred)")
            for pred in predicates
        ]
        flags = apply_op("Pack", scalars)
        if exclusive:
            flags = _exclusive(flags)
        first = apply_op("ArgMax", apply_op("Cast", flags, DstT=int32), 0, output_type=int32)
        none = apply_op("LogicalNot", apply_op("Any", flags, [0]))
        index = apply_op("SelectV2", none, len(functions), first)
        return switch_case(index, functions, default, name=name or "case")


def _exclusive(flags: Tensor) -> Tensor:
    """The flags, once it is known in the step that at most one is set."""
    count = apply_op("Sum", apply_op("Cast", flags, DstT=int32), [0])
    fine = apply_op("LessEqual", count, 1)
    check = apply_op("Assert", fine, ["case: more than one predicate is true:", flags], summarize=16)
    graph = flags.graph
    result: Tensor = graph.create_op("Identity", [flags], {"T": flags.dtype}, control_inputs=[check]).outputs[0]
    return result


def build_branches(graph: Graph, selector: Tensor, functions: Sequence[Branch], names: Sequence[str], name: str) -> Any:
    """Build an `If` (bool selector) or `Case` (int32 selector) of Python functions, and return what it gives.

    Args:
      graph: the graph being built.
      selector: scalar; the predicate or the number of the branch.
      functions: one for each branch; for `If` the true one first.
      names: what to call each.
      name: the name of the operation.
    """
    captures = Captures(0)
    bodies: list[Body] = []
    structures: list[Any] = []
    for function, suffix in zip(functions, names, strict=True):
        body = Body(function_name(graph, f"{name}_{suffix}"), outer=graph, captures=captures)
        with body.as_default():
            structures.append(_without_operations(function(), body))
        bodies.append(body)
    for suffix, structure in zip(names, structures, strict=True):
        hint = f"return as many tensors, nested alike, from every branch; '{names[0]}' is compared with"
        check_same_structure(structures[0], structure, f"branch '{suffix}' of '{name}'", hint)
    leaves = [flatten(structure)[0] for structure in structures]
    rows = [_one_dtype([branch[index] for branch in leaves], bodies, names) for index in range(len(leaves[0]))]
    for number, body in enumerate(bodies):
        _check_effects_outside(graph, body, bodies, captures)
        body.complete([row[number] for row in rows])
    operation = _branch_operation(graph, selector, bodies, captures, name)
    return flatten(structures[0])[1](operation.outputs) if operation.outputs else operation


def _without_operations(structure: Any, body: Body) -> Any:
    """What a branch returned with None in the place of operations, which run when the branch does."""
    leaves, rebuild = flatten(structure)
    for leaf in leaves:
        if isinstance(leaf, Operation) and leaf.graph is not body:
            raise outside_effect(leaf, body.name)
    return rebuild([None if isinstance(leaf, Operation) else leaf for leaf in leaves])


def function_name(graph: Graph, name: str) -> str:
    """A name for a function of the graph that is being built, after the scope in which it is used."""
    prefix = current_scope().prefix if current_scope().graph is graph else ""
    outer = getattr(graph, "name", "")
    return graph.functions.unique_name("_".join(filter(None, [outer, *f"{prefix}{name}".split("/")])))


def traced_leaves(body: Body, leaves: Sequence[Any], dtypes: Sequence[DType | None]) -> list[Tensor]:
    """The tensors that a function returned, as tensors of its body.

    Args:
      body: the body that was built.
      leaves: what the function returned, flat.
      dtypes: the dtype that each Python value is to take, or None.
    """
    with enter(Scope(graph=body)):
        return [
            convert_to_tensor(leaf, None if hasattr(leaf, "dtype") else dtype)
            for leaf, dtype in zip(leaves, dtypes, strict=True)
        ]


def _one_dtype(leaves: Sequence[Any], bodies: Sequence[Body], names: Sequence[str]) -> list[Tensor]:
    """One result of all branches as tensors of one dtype; Python numbers take that of the tensors beside them."""
    wanted = next((as_dtype(leaf.dtype) for leaf in leaves if hasattr(leaf, "dtype")), None)
    tensors = [traced_leaves(body, [leaf], [wanted])[0] for body, leaf in zip(bodies, leaves, strict=True)]
    if len({tensor.dtype for tensor in tensors}) > 1:
        raise DTypeError(
            "the branches give different dtypes",
            expected="the same dtype from every branch",
            got=", ".join(f"'{name}': {tensor.spec}" for name, tensor in zip(names, tensors, strict=True)),
            hint="hr.astype the result of one branch",
        )
    return tensors


def _check_effects_outside(graph: Graph, body: Body, bodies: Sequence[Body], captures: Captures) -> None:
    """Refuse an effect that only one branch asks for but that happens whether or not the branch is taken.

    In a function that is traced it happens in any case, in the order of the program. An extension is what a gradient
    asks for: it runs in the place of an operation that was there before.
    """
    if graph.effect_order is not None or current_scope().effect_order is not None:
        return
    extensions = set(graph.extensions.values())
    for number, tensor in enumerate(captures.tensors):
        mine = number in body.arguments
        if not mine or not tensor.op.has_effect or tensor.op in extensions:
            continue
        if all(number in other.arguments for other in bodies):
            continue
        read = any(tensor.op is item.op for op in graph.operations for item in op.inputs)
        if not read:
            raise outside_effect(tensor.op, body.name)


def _branch_operation(
    graph: Graph, selector: Tensor, bodies: Sequence[Body], captures: Captures, name: str
) -> Operation:
    is_if = selector.dtype is bool_dtype
    names = tuple(FunctionName(body.name) for body in bodies)
    shapes = [result.shape for result in bodies[0].results]
    for body in bodies[1:]:
        shapes = [old.relax(new.shape) for old, new in zip(shapes, body.results, strict=True)]
    attrs: dict[str, AttrValue] = {
        "Tin": tuple(tensor.dtype for tensor in captures.tensors),
        "Tout": tuple(result.dtype for result in bodies[0].results),
        "output_shapes": tuple(shapes),
        **({"Tcond": bool_dtype, "then_branch": names[0], "else_branch": names[1]} if is_if else {"branches": names}),
        **handle_attrs(bodies[0].results),
    }
    kind = "If" if is_if else "Case"
    stateless = not any(body.effects.stateful for body in bodies)
    return graph.create_op(f"Stateless{kind}" if stateless else kind, [selector, *captures.tensors], attrs, name=name)


def check_callable(function: Any, what: str, arguments: str = "") -> None:
    """Refuse what is no function, before anything is added to a graph; `arguments` is what a function would take.

    Raises:
      InvalidArgumentError: it cannot be called.
    """
    if not callable(function):
        raise InvalidArgumentError(
            f"{what} is no function",
            expected=f"a function of {arguments or 'no arguments'}",
            got=repr(function),
            hint=f"lambda{arguments and ' '}{arguments}: value",
        )


def as_scalar(tensor: Tensor, what: str, hint: str) -> Tensor:
    """The tensor, known to be a scalar: where its rank is not known yet, the step checks it.

    The operations themselves take any shape, as TensorFlow's do, and ask whether there is any element: that a user who
    gives a vector means this is less likely than that he forgot `hr.all`.

    Raises:
      ShapeError: it has another rank.
    """
    if tensor.shape.rank is None:
        return cast(Tensor, apply_op("EnsureShape", tensor, shape=Shape([])))
    if tensor.shape.rank != 0:
        raise ShapeError(
            f"{what} is no scalar", where=tensor.op.location, expected="shape []", got=str(tensor.spec), hint=hint
        )
    return tensor
