"""Cases of the operations that call functions: branches, loops and calls, and what is built with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.graph.attr import FunctionName
from headrace.graph.functions import Body, Captures
from headrace.graph.operation import Tensor
from headrace.graph.scopes import control_dependencies, current_graph
from headrace.ops.branching import cond, switch_case
from headrace.ops.looping import while_loop
from headrace.ops.mapping import foldl, map_fn, scan
from headrace.testing.op_case import OpCase

Apply = Callable[..., Any]

_X = np.array([0.5, -1.25, 2.0], np.float32)
_ROWS = np.array([[0.5, -1.0], [0.25, 0.75], [-0.5, 1.5]], np.float32)
_TRUE, _FALSE = np.array(True), np.array(False)


def _case(what: str, op: str, build: Callable[..., Any], inputs: list[Any], expected: Any, **more: Any) -> OpCase:
    return OpCase(f"{op}/{what}", op, inputs, expected=expected, build=build, **more)


def _branches(apply: Apply, p: Tensor, x: Tensor) -> Any:
    return cond(p, lambda: (apply("Sin", x) * x, x), lambda: (x * 0.5, apply("Square", x)))


def _branches_expected(p: Any, x: Any) -> Any:
    x = x.astype(np.float64)
    return (np.sin(x) * x, x) if p else (x * 0.5, x * x)


def _nested_branches(apply: Apply, p: Tensor, q: Tensor, x: Tensor) -> Any:
    return cond(p, lambda: cond(q, lambda: x * 2.0, lambda: x * x), lambda: cond(q, lambda: -x, lambda: x * 3.0))


def _nested_expected(p: Any, q: Any, x: Any) -> Any:
    return ((2 * x if q else x * x) if p else (-x if q else 3 * x)).astype(np.float64)


def _asserting(apply: Apply, x: Tensor) -> Tensor:
    """`x`, in an operation with an effect."""
    checked = apply("Assert", apply("All", apply("Less", x, 100.0), 0), [x])
    with control_dependencies([checked]):
        result: Tensor = apply("Identity", x)
    return result


def _asserting_branches(apply: Apply, p: Tensor, x: Tensor) -> Any:
    return cond(p, lambda: _asserting(apply, x) * 2.0, lambda: x * x)


def _numbered(apply: Apply, index: Tensor, x: Tensor) -> Any:
    return switch_case(index, [lambda: x * 2.0, lambda: x * x, lambda: apply("Exp", x)])


def _asserting_numbered(apply: Apply, index: Tensor, x: Tensor) -> Any:
    return switch_case(index, [lambda: _asserting(apply, x) * 2.0, lambda: x * x, lambda: apply("Exp", x)])


def _numbered_expected(index: Any, x: Any) -> Any:
    x = x.astype(np.float64)
    return [x * 2, x * x, np.exp(x)][index if 0 <= index < 3 else 2]


def _repeated(apply: Apply, n: Tensor, x: Tensor) -> Any:
    return while_loop(lambda i, s: i < n, lambda i, s: (i + 1, apply("Sin", s) + s * x), (0, x))


def _repeated_expected(n: Any, x: Any) -> Any:
    s = x = x.astype(np.float64)
    for _ in range(int(n)):
        s = np.sin(s) + s * x
    return max(n, 0), s


def _asserting_loop(apply: Apply, n: Tensor, x: Tensor) -> Any:
    return while_loop(lambda i, s: i < n, lambda i, s: (i + 1, _asserting(apply, s) * x), (0, x))


def _branch_in_loop(apply: Apply, n: Tensor, x: Tensor) -> Any:
    def body(i: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        even = apply("Equal", apply("FloorMod", i, 2), 0)
        return i + 1, cond(even, lambda: apply("Sin", s) * x, lambda: s * s + x)

    return while_loop(lambda i, s: i < n, body, (0, x))[1]


def _branch_in_loop_expected(n: Any, x: Any) -> Any:
    s = x = x.astype(np.float64)
    for i in range(int(n)):
        s = np.sin(s) * x if i % 2 == 0 else s * s + x
    return s


def _loop_in_loop(apply: Apply, n: Tensor, x: Tensor) -> Any:
    def inner(s: Tensor) -> Tensor:
        result: Tensor = while_loop(lambda j, u: j < n, lambda j, u: (j + 1, apply("Cos", u) * x), (0, s))[1]
        return result

    return while_loop(lambda i, s: i < n, lambda i, s: (i + 1, inner(s) + s), (0, x))[1]


def _loop_in_loop_expected(n: Any, x: Any) -> Any:
    s = x = x.astype(np.float64)
    for _ in range(int(n)):
        u = s
        for _ in range(int(n)):
            u = np.cos(u) * x
        s = u + s
    return s


def _scanned(apply: Apply, rows: Tensor, start: Tensor) -> Any:
    return scan(lambda carry, row: (carry * row, apply("Tanh", carry + row)), rows, start)


def _scanned_expected(rows: Any, start: Any) -> Any:
    carry, given = start.astype(np.float64), []
    for row in rows.astype(np.float64):
        given.append(carry * row)
        carry = np.tanh(carry + row)
    return np.array(given), carry


def _mapped(apply: Apply, rows: Tensor) -> Any:
    return map_fn(lambda row: apply("Sum", row * row, 0), rows)


def _folded(apply: Apply, rows: Tensor) -> Any:
    return foldl(lambda so_far, row: apply("Sin", so_far) * row, rows)


def _called(op: str) -> Callable[..., Any]:
    """A call of a function of two arguments and two results."""

    def build(apply: Apply, x: Tensor, y: Tensor) -> Any:
        graph = current_graph()
        body = Body(graph.functions.unique_name("called"), outer=graph, captures=Captures(2))
        a, b = (body.add_argument(index, tensor.spec, like=tensor) for index, tensor in enumerate((x, y)))
        with body.as_default():
            given = _asserting(apply, a) if op == "StatefulPartitionedCall" else a
            results = [apply("Sin", given) * b, given + b]
        body.complete(results)
        dtypes = tuple(result.dtype for result in results)
        attrs = {"Tin": (x.dtype, y.dtype), "Tout": dtypes, "f": FunctionName(body.name)}
        return graph.create_op(op, [x, y], attrs).outputs

    return build


def _called_expected(x: Any, y: Any) -> Any:
    x, y = x.astype(np.float64), y.astype(np.float64)
    return np.sin(x) * y, x + y


CASES = [
    _case("true", "StatelessIf", _branches, [_TRUE, _X], _branches_expected),
    _case("false", "StatelessIf", _branches, [_FALSE, _X], _branches_expected),
    *(
        _case(f"nested {p} {q}", "StatelessIf", _nested_branches, [np.array(p), np.array(q), _X], _nested_expected)
        for p in (True, False)
        for q in (True, False)
    ),
    _case("with an effect", "If", _asserting_branches, [_TRUE, _X], lambda p, x: x * 2.0),
    _case("effect in the other branch", "If", _asserting_branches, [_FALSE, _X * 1e3], lambda p, x: x * x),
    *(
        _case(f"branch {index}", "StatelessCase", _numbered, [np.int32(index), _X], _numbered_expected)
        for index in (-1, 0, 1, 2, 7)
    ),
    _case("with an effect", "Case", _asserting_numbered, [np.int32(0), _X], _numbered_expected),
    *(
        _case(f"{n} iterations", "StatelessWhile", _repeated, [np.int32(n), _X * 0.5], _repeated_expected)
        for n in (-1, 0, 1, 5)
    ),
    _case("branch inside", "StatelessWhile", _branch_in_loop, [np.int32(4), _X * 0.5], _branch_in_loop_expected),
    _case("loop inside", "StatelessWhile", _loop_in_loop, [np.int32(3), _X * 0.5], _loop_in_loop_expected),
    _case("scan", "StatelessWhile", _scanned, [_ROWS, np.array([0.25, 0.5], np.float32)], _scanned_expected),
    _case("map", "StatelessWhile", _mapped, [_ROWS], lambda rows: (rows.astype(np.float64) ** 2).sum(axis=1)),
    _case(
        "fold",
        "StatelessWhile",
        _folded,
        [_ROWS],
        lambda rows: np.sin(np.sin(rows[0].astype(np.float64)) * rows[1]) * rows[2],
    ),
    _case("with an effect", "While", _asserting_loop, [np.int32(3), _X], lambda n, x: (3, x.astype(np.float64) ** 4)),
    *(
        _case("two arguments, two results", op, _called(op), [_X, _X + 1], _called_expected)
        for op in ("PartitionedCall", "StatefulPartitionedCall")
    ),
]
