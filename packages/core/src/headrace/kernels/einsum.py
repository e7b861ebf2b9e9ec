"""The NumPy kernel of Einstein sums: every product of two tensors becomes one batched matrix product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.interfaces import OpContext
from headrace.kernels.reduction import blocked_sum
from headrace.kernels.registry import register_kernel
from headrace.ops.einsum import ELLIPSIS, Equation, Subscript, ellipsis_rank, merge_size
from headrace.types import Array, bfloat16, float16

_NARROW = (float16.array_type, bfloat16.array_type)


@register_kernel("Einsum")
def _einsum(op: OpContext, inputs: Sequence[Array]) -> Array:
    equation = Equation.parse(op.attr("equation"))
    dtype = inputs[0].dtype
    wide = [np.asarray(x, np.float32 if dtype in _NARROW else dtype, order="C") for x in inputs]
    hidden = [ellipsis_rank(subscript, x.ndim) for subscript, x in zip(equation.inputs, wide, strict=True)]
    subscripts = [_expanded(item, count) for item, count in zip(equation.inputs, hidden, strict=True)]
    output = _expanded(equation.output, max(hidden))
    _check_sizes(wide, subscripts)
    current, labels = _diagonal(wide[0], subscripts[0])
    for index in range(1, len(wide)):
        needed = {label for item in (*subscripts[index + 1 :], output) for label in item}
        current, labels = _product(current, labels, *_diagonal(wide[index], subscripts[index]), needed)
    current, labels = _sum_out(current, labels, set(output))
    return _arranged(current, labels, output).astype(dtype)


def _expanded(subscript: Subscript, hidden: int) -> Subscript:
    """Give each axis of the ellipsis a label of its own, counted from the last, since they broadcast from there."""
    axes = tuple(str(number) for number in reversed(range(hidden)))
    return tuple(part for label in subscript for part in (axes if label == ELLIPSIS else (label,)))


def _check_sizes(arrays: Sequence[Array], subscripts: Sequence[Subscript]) -> None:
    sizes: dict[str, int | None] = {}
    for array, subscript in zip(arrays, subscripts, strict=True):
        for label, size in zip(subscript, array.shape, strict=True):
            if not label.isdecimal():
                sizes[label] = merge_size(label, sizes.get(label), size)


def _diagonal(x: Array, labels: Subscript) -> tuple[Array, Subscript]:
    """A label that stands twice means the diagonal."""
    unique = tuple(dict.fromkeys(labels))
    if unique == labels:
        return x, labels
    numbers = {label: number for number, label in enumerate(unique)}
    view = np.einsum(x, [numbers[label] for label in labels], list(range(len(unique))))
    return np.ascontiguousarray(view), unique


def _sum_out(x: Array, labels: Subscript, needed: set[str]) -> tuple[Array, Subscript]:
    axes = tuple(axis for axis, label in enumerate(labels) if label not in needed)
    if not axes:
        return x, labels
    return np.asarray(blocked_sum(x, axes, False)), tuple(label for label in labels if label in needed)


def _product(a: Array, left: Subscript, b: Array, right: Subscript, needed: set[str]) -> tuple[Array, Subscript]:
    """Labels of both that are needed later become batch axes; the matrix product sums over the others of both."""
    a, left = _sum_out(a, left, needed | set(right))
    b, right = _sum_out(b, right, needed | set(left))
    batch = [label for label in left if label in right and label in needed]
    summed = [label for label in left if label in right and label not in needed]
    rows = [label for label in left if label not in right]
    columns = [label for label in right if label not in left]
    if any(a.shape[left.index(label)] != b.shape[right.index(label)] for label in summed):
        a, b = (_repeated(x, labels, summed, a, left, b, right) for x, labels in ((a, left), (b, right)))
    first, first_sizes = _matrices(a, left, batch, rows, summed)
    second, _ = _matrices(b, right, batch, summed, columns)
    second_sizes = [b.shape[right.index(label)] for label in columns]
    product: Any = np.matmul(first, second)
    sizes = product.shape[: len(batch)]
    return product.reshape((*sizes, *first_sizes, *second_sizes)), (*batch, *rows, *columns)


def _repeated(
    x: Array, labels: Subscript, summed: Sequence[str], a: Array, left: Subscript, b: Array, right: Subscript
) -> Array:
    """An axis of the ellipsis that is summed over and broadcasts must be repeated first."""
    shape = list(x.shape)
    for label in summed:
        shape[labels.index(label)] = max(a.shape[left.index(label)], b.shape[right.index(label)])
    return np.ascontiguousarray(np.broadcast_to(x, shape))


def _matrices(
    x: Array, labels: Subscript, batch: Sequence[str], rows: Sequence[str], columns: Sequence[str]
) -> tuple[Array, list[int]]:
    """`[batch..., rows, columns]` with several labels joined to one axis, and the sizes of the rows."""
    moved = x.transpose([labels.index(label) for label in (*batch, *rows, *columns)])
    sizes = moved.shape
    split = len(batch) + len(rows)
    count = [int(np.prod(part, dtype=np.int64)) for part in (sizes[len(batch) : split], sizes[split:])]
    return np.ascontiguousarray(moved.reshape((*sizes[: len(batch)], *count))), list(sizes[len(batch) : split])


def _arranged(x: Array, labels: Subscript, output: Subscript) -> Array:
    """Bring the axes into the output's order; a label that stands twice there puts the values on a diagonal."""
    unique = tuple(dict.fromkeys(output))
    ordered = x.transpose([labels.index(label) for label in unique])
    sizes = {label: ordered.shape[axis] for axis, label in enumerate(unique)}
    if unique == output:
        return ordered
    result = np.zeros([sizes[label] for label in output], x.dtype)
    numbers = {label: number for number, label in enumerate(unique)}
    diagonal = np.einsum(result, [numbers[label] for label in output], list(range(len(unique))))
    diagonal[...] = ordered
    return result
