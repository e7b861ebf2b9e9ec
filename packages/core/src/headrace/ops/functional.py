"""Operations that call functions of the graph: calls, branches and loops in structured form.

Their attributes and semantics are TensorFlow's. The user functions on top are `hr.cond` and its kin in `ops.branching`,
`hr.while_loop` in `ops.looping`, `hr.scan` and its kin in `ops.mapping`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.errors import AttrError, DTypeError, HeadraceError
from headrace.graph import attr
from headrace.graph.functions import Body
from headrace.graph.op_def import InferenceContext, register_op
from headrace.types import DType, Shape

__all__: list[str] = []

_TYPES = attr.list_of(attr.type())
_SHAPES = attr.list_of(attr.shape(), default=())


def _bodies(op: InferenceContext) -> Sequence[Body]:
    """The functions that are called; none if one of them cannot be read here, which matters only if a step needs it."""
    try:
        return op.bodies
    except HeadraceError:
        return ()


def _merged(op: InferenceContext, found: Sequence[Shape], count: int) -> list[Shape]:
    """The shapes found, and what the attr `output_shapes` says beside them."""
    stated: Sequence[Shape] = op.attr("output_shapes")
    if not stated:
        return list(found)
    if len(stated) != count:
        raise AttrError(
            "attr 'output_shapes' does not fit the outputs",
            expected=f"a shape for each of {count} outputs, or none at all",
            got=f"{len(stated)} shapes",
            hint="leave it out: the functions tell the shapes",
        )
    return [
        mine.merge(given) if mine.is_compatible_with(given) else mine for mine, given in zip(found, stated, strict=True)
    ]


def _check_interface(
    op: InferenceContext, body: Body, arguments: Sequence[DType], results: Sequence[DType] | None
) -> None:
    """Refuse a function of other arguments, or other results, than the operation passes and gives; None: one bool."""
    taken = [body.arguments[index].dtype for index in range(len(body.arguments))]
    given = [result.dtype for result in body.results]
    if taken != list(arguments) or (given != list(results) if results is not None else len(given) != 1):
        raise DTypeError(
            f"function '{body.name}' does not fit {op.type}",
            expected=f"arguments {_listed(arguments)} and results {'bool' if results is None else _listed(results)}",
            got=f"arguments {_listed(taken)} and results {_listed(given)}",
            hint="let the function take every input and give every output, also those that it does not use",
        )


def _listed(dtypes: Sequence[DType]) -> str:
    return f"({', '.join(map(str, dtypes))})"


def _branch_shapes(op: InferenceContext) -> list[Shape]:
    """What all branches give, as far as they agree."""
    arguments = [spec.shape for spec in op.inputs[1:]]
    count = len(op.attr("Tout"))
    found: list[Shape] | None = None
    for body in _bodies(op):
        _check_interface(op, body, op.attr("Tin"), op.attr("Tout"))
        shapes = body.result_shapes(arguments)
        found = shapes if found is None else [old.relax(new) for old, new in zip(found, shapes, strict=True)]
    return _merged(op, [Shape()] * count if found is None else found, count)


_IF: dict[str, Any] = {
    "inputs": {"cond": "Tcond", "input": "Tin"},
    "outputs": {"output": "Tout"},
    "attrs": {
        "Tcond": attr.any_type,
        "Tin": _TYPES,
        "Tout": _TYPES,
        "then_branch": attr.function(),
        "else_branch": attr.function(),
        "output_shapes": _SHAPES,
    },
}


@register_op("If", **_IF, stateful=True)
def _if_shape(op: InferenceContext) -> list[Shape]:
    """What `then_branch` gives for the inputs if `cond` is true, else what `else_branch` gives; only that one runs.

    A scalar is true unless it is zero or empty text, another tensor if it has elements.
    """
    return _branch_shapes(op)


@register_op("StatelessIf", **_IF)
def _stateless_if_shape(op: InferenceContext) -> list[Shape]:
    """`If` whose branches are without state, so that it may be left out, merged or moved."""
    return _branch_shapes(op)


_CASE: dict[str, Any] = {
    "inputs": {"branch_index": "int32", "input": "Tin"},
    "outputs": {"output": "Tout"},
    "attrs": {
        "Tin": _TYPES,
        "Tout": _TYPES,
        "branches": attr.list_of(attr.function(), minimum=1),
        "output_shapes": _SHAPES,
    },
}


def _case_shapes(op: InferenceContext) -> list[Shape]:
    op.inputs[0].shape.with_rank(0)
    return _branch_shapes(op)


@register_op("Case", **_CASE, stateful=True)
def _case_shape(op: InferenceContext) -> list[Shape]:
    """What branch number `branch_index` gives for the inputs, or the last one if there is no such number."""
    return _case_shapes(op)


@register_op("StatelessCase", **_CASE)
def _stateless_case_shape(op: InferenceContext) -> list[Shape]:
    """`Case` whose branches are without state, so that it may be left out, merged or moved."""
    return _case_shapes(op)


_WHILE: dict[str, Any] = {
    "inputs": {"input": "T"},
    "outputs": {"output": "T"},
    "attrs": {
        "T": _TYPES,
        "cond": attr.function(),
        "body": attr.function(),
        "output_shapes": _SHAPES,
        "parallel_iterations": attr.int(10),
    },
}

_MOST_ROUNDS = 32
"""A shape has not many more dimensions that a loop may lose one after the other."""


def _while_shapes(op: InferenceContext) -> list[Shape]:
    """What stays true of the shapes of the loop variables however often the body runs."""
    shapes = [spec.shape for spec in op.inputs]
    bodies = _bodies(op)
    if not bodies:
        return _merged(op, [Shape()] * len(shapes), len(shapes))
    condition, body = bodies
    _check_interface(op, condition, op.attr("T"), None)
    _check_interface(op, body, op.attr("T"), op.attr("T"))
    for _ in range(_MOST_ROUNDS):
        given = body.result_shapes(shapes)
        relaxed = [old.relax(new) for old, new in zip(shapes, given, strict=True)]
        if relaxed == shapes:
            return shapes
        shapes = relaxed
    return _merged(op, [Shape()] * len(shapes), len(shapes))


@register_op("While", **_WHILE, stateful=True)
def _while_shape(op: InferenceContext) -> list[Shape]:
    """The inputs, put through `body` again and again as long as `cond` of them is true."""
    return _while_shapes(op)


@register_op("StatelessWhile", **_WHILE)
def _stateless_while_shape(op: InferenceContext) -> list[Shape]:
    """`While` whose functions are without state, so that it may be left out, merged or moved."""
    return _while_shapes(op)


_CALL: dict[str, Any] = {
    "inputs": {"args": "Tin"},
    "outputs": {"output": "Tout"},
    "attrs": {
        "Tin": _TYPES,
        "Tout": _TYPES,
        "f": attr.function(),
        "config": attr.string(""),
        "config_proto": attr.string(""),
        "executor_type": attr.string(""),
    },
}


def _call_shapes(op: InferenceContext) -> list[Shape]:
    count = len(op.attr("Tout"))
    for body in _bodies(op):
        _check_interface(op, body, op.attr("Tin"), op.attr("Tout"))
        return body.result_shapes([spec.shape for spec in op.inputs])
    return [Shape()] * count


@register_op("PartitionedCall", **_CALL)
def _call_shape(op: InferenceContext) -> list[Shape]:
    """What function `f` gives for the inputs."""
    return _call_shapes(op)


@register_op("StatefulPartitionedCall", **_CALL, stateful=True)
def _stateful_call_shape(op: InferenceContext) -> list[Shape]:
    """What function `f`, which may have state, gives for the inputs."""
    return _call_shapes(op)
