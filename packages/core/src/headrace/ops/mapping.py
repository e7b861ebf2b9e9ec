"""Loops over the first axis of tensors: scan, map_fn, foldl and foldr, as while loops over lists of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph.apply import apply_op, convert_to_tensor, graph_of
from headrace.graph.operation import Tensor
from headrace.graph.scopes import Scope, enter, name_scope
from headrace.ops.branching import check_callable, traced_leaves
from headrace.ops.looping import LoopBuilder, next_values
from headrace.ops.structure import check_same_structure, flatten
from headrace.types import Shape, int32

__all__ = ["foldl", "foldr", "map_fn", "scan"]


def map_fn(function: Callable[[Any], Any], elements: Any, *, name: str | None = None) -> Any:
    """What `function` gives for each row, stacked.

    Args:
      function: from a row of each tensor, in the structure of `elements`, to a nested structure of tensors.
      elements: tensors `[n, ...]`, or a nested structure of them.
      name: the name scope.
    Returns:
      For each tensor that `function` gives one with a first axis more, `[n, ...]`.
    Raises:
      ShapeError: a tensor has no rows, or not as many as another.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     squares = hr.map_fn(lambda x: x * x, hr.constant([1.0, 2.0, 3.0]))
      >>> print(hr.Session(graph).run(squares))
      [1. 4. 9.]
    """
    check_callable(function, "the function of map_fn", "a row")
    results, _ = _loop(lambda carry, row: (function(row), ()), elements, (), name or "map_fn")
    return results


def scan(
    function: Callable[[Any, Any], tuple[Any, Any]],
    elements: Any,
    init: Any,
    *,
    reverse: bool = False,
    recompute: bool = False,
    swap_to_host: bool = False,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Carry a value through the rows one after the other, and give something at each.

    Args:
      function: from the carried value and a row of each tensor to a pair: what to give here, and the next carried
        value.
      elements: tensors `[n, ...]`, or a nested structure of them.
      init: the first carried value, a nested structure of tensors.
      reverse: go from the last row to the first; what is given stands where its row does.
      recompute: see `while_loop`.
      swap_to_host: see `while_loop`.
      name: the name scope.
    Returns:
      What `function` gave at each row, stacked, `[n, ...]`, and the last carried value.
    Raises:
      ShapeError: a tensor has no rows, or not as many as another; or the carried value changes its shape.
      InvalidArgumentError: `function` gives no pair, or carries another structure.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     xs = hr.constant([1.0, 2.0, 3.0])
      ...     ys, carry = hr.scan(lambda carry, x: (x + carry, x + carry), xs, init=hr.zeros([]))
      >>> print(*hr.Session(graph).run([ys, carry]))
      [1. 3. 6.] 6.0
    """
    check_callable(function, "the function of scan", "carry, row")
    name = name or "scan"
    return _loop(function, elements, init, name, reverse=reverse, recompute=recompute, swap_to_host=swap_to_host)


_FIRST = object()
"""No first value was given: the first row is it."""


def foldl(function: Callable[[Any, Any], Any], elements: Any, init: Any = _FIRST, *, name: str | None = None) -> Any:
    """`function(... function(function(init, row 0), row 1) ..., row n-1)`.

    Args:
      function: from the value so far and a row of each tensor to the next value.
      elements: tensors `[n, ...]`, or a nested structure of them.
      init: the first value, a nested structure of tensors; by default the first row, of which there must be one then.
      name: the name scope.
    Returns:
      The last value.
    Raises:
      ShapeError: a tensor has no rows, or not as many as another; or the value changes its shape.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     product = hr.foldl(lambda so_far, x: so_far * x, hr.constant([2.0, 3.0, 4.0]))
      >>> print(hr.Session(graph).run(product))
      24.0
    """
    return _fold(function, elements, init, name or "foldl", reverse=False)


def foldr(function: Callable[[Any, Any], Any], elements: Any, init: Any = _FIRST, *, name: str | None = None) -> Any:
    """`foldl` from the last row to the first; see there.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     last = hr.foldr(lambda so_far, x: so_far - x, hr.constant([2.0, 3.0, 10.0]))
      >>> print(hr.Session(graph).run(last))
      5.0
    """
    return _fold(function, elements, init, name or "foldr", reverse=True)


def _fold(function: Callable[[Any, Any], Any], elements: Any, init: Any, name: str, *, reverse: bool) -> Any:
    check_callable(function, "the function of a fold", "so_far, row")

    def step(carry: Any, row: Any) -> tuple[Any, Any]:
        return (), function(carry, row)

    if init is not _FIRST:
        return _loop(step, elements, init, name, reverse=reverse)[1]
    leaves, rebuild = flatten(elements)
    with graph_of(leaves), name_scope(name):
        tensors = [convert_to_tensor(leaf) for leaf in leaves]
        _row_count(tensors)
        firsts = [tensor[-1] if reverse else tensor[0] for tensor in tensors]
        rest = [tensor[:-1] if reverse else tensor[1:] for tensor in tensors]
        return _loop(step, rebuild(rest), rebuild(firsts), "loop", reverse=reverse)[1]


def _loop(
    function: Callable[[Any, Any], tuple[Any, Any]],
    elements: Any,
    init: Any,
    name: str,
    *,
    reverse: bool = False,
    recompute: bool = False,
    swap_to_host: bool = False,
) -> tuple[Any, Any]:
    """What `function` gave at each row, stacked, and the last carried value; see `scan`."""
    leaves, rebuild_row = flatten(elements)
    starts, rebuild_carry = flatten(init)
    with graph_of([*leaves, *starts]) as graph, name_scope(name):
        tensors = [convert_to_tensor(leaf) for leaf in leaves]
        count = _row_count(tensors)
        first = [convert_to_tensor(start) for start in starts]
        lists = [_rows_of(tensor) for tensor in tensors]
        loop = LoopBuilder(graph, first, [tensor.shape for tensor in first], "loop")
        counter = loop.count()
        with enter(Scope(graph=loop.condition)):
            predicate = apply_op("Less", counter.in_condition, count)
        with loop.body.as_default():
            index = counter.in_body
            if reverse:
                index = apply_op("Sub", apply_op("Sub", count, 1), index)
            rows = [_row(tensor, items, index) for tensor, items in zip(tensors, lists, strict=True)]
            pair = function(rebuild_carry(loop.body_arguments), rebuild_row(rows))
            _check_pair(pair)
            given, carried = pair
        check_same_structure(init, carried, "the carried value", "carry a value of the structure of init")
        results = next_values(loop, flatten(carried)[0])
        outs, rebuild_given = flatten(given)
        written = traced_leaves(loop.body, outs, [None] * len(outs))
        stacks = [_written(loop, tensor) for tensor in written]
        outputs = loop.finish(predicate, results, recompute=recompute, swap_to_host=swap_to_host)
        stacked = [
            _stacked(outputs[carry.number], tensor, tensors, reverse=reverse)
            for carry, tensor in zip(stacks, written, strict=True)
        ]
        return rebuild_given(stacked), rebuild_carry(outputs[: len(first)])


def _check_pair(pair: Any) -> None:
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise InvalidArgumentError(
            "the function of scan returns no pair",
            expected="(what to give at this row, the next carried value)",
            got=repr(pair),
            hint="return y, carry",
        )


def _row_count(tensors: Sequence[Tensor]) -> Tensor:
    """How many rows the tensors have, the same for all; a constant where it is known."""
    if not tensors:
        raise InvalidArgumentError(
            "there is nothing to loop over",
            expected="at least one tensor",
            got="an empty structure",
            hint="hr.range(n) gives n rows that are numbers",
        )
    shape = Shape([None])
    for tensor in tensors:
        if tensor.shape.rank == 0:
            raise ShapeError(
                f"'{tensor.name}' has no rows to loop over",
                where=tensor.op.location,
                expected="rank >= 1",
                got=str(tensor.spec),
                hint="hr.expand_dims(x, 0) makes it one row",
            )
        rows = Shape([None if tensor.shape.dims is None else tensor.shape.dims[0]])
        if not shape.is_compatible_with(rows):
            raise ShapeError(
                "the tensors to loop over have different numbers of rows",
                where=tensor.op.location,
                expected=f"{shape} rows, as the ones before",
                got=str(tensor.spec),
                hint="slice them to one length first",
            )
        shape = shape.merge(rows)
    if shape.is_fully_defined:
        return convert_to_tensor(shape.as_tuple()[0], int32)
    sizes = [apply_op("Shape", tensor)[0] for tensor in tensors]
    count = sizes[0]
    for size in sizes[1:]:
        count = apply_op("Minimum", count, size)
    result: Tensor = count
    return result


def _rows_of(tensor: Tensor) -> Tensor:
    """The rows of a tensor as a list."""
    rows: Tensor = apply_op("TensorListFromTensor", tensor, _sizes(_row_shape(tensor)))
    return rows


def _row_shape(tensor: Tensor) -> Shape:
    return Shape() if tensor.shape.dims is None else Shape(tensor.shape.dims[1:])


def _sizes(shape: Shape) -> Tensor:
    """A static shape as the operations on lists take it."""
    if shape.dims is None:
        return convert_to_tensor(-1, int32)
    return convert_to_tensor(np.array([-1 if size is None else size for size in shape.dims], np.int32))


def _row(tensor: Tensor, items: Tensor, index: Tensor) -> Tensor:
    shape = _row_shape(tensor)
    row: Tensor = apply_op("TensorListGetItem", items, index, _sizes(shape), element_dtype=tensor.dtype)
    row.set_shape(shape)
    return row


def _written(loop: LoopBuilder, tensor: Tensor) -> Any:
    """A list that takes `tensor` in each iteration."""
    with loop.around():
        empty = apply_op("EmptyTensorList", _sizes(tensor.shape), -1, element_dtype=tensor.dtype)
    carried = loop.carry(empty)
    with enter(Scope(graph=loop.body)):
        carried.result = apply_op("TensorListPushBack", carried.in_body, tensor)
    return carried


def _stacked(items: Tensor, element: Tensor, tensors: Sequence[Tensor], *, reverse: bool) -> Tensor:
    counts = [tensor.shape.dims[0] for tensor in tensors if tensor.shape.dims is not None]
    known = next((count for count in counts if count is not None), -1)
    stacked: Tensor = apply_op(
        "TensorListStack", items, _sizes(element.shape), element_dtype=element.dtype, num_elements=known
    )
    return apply_op("ReverseV2", stacked, [0]) if reverse else stacked
