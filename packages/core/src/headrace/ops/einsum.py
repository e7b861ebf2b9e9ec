"""Einstein sums: products of tensors along named axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.errors import InvalidArgumentError, ShapeError
from headrace.graph import attr
from headrace.graph.apply import TensorLike, apply_op
from headrace.graph.op_def import InferenceContext, register_op
from headrace.graph.operation import Tensor
from headrace.ops.promotion import promoted
from headrace.types import Shape, broadcast_shapes

__all__ = ["ELLIPSIS", "Equation", "Subscript", "contract", "einsum", "ellipsis_rank", "merge_size", "tensordot"]

_INPUTS_HINT = "write one subscript for each operand, with commas between, as in 'ij,jk->ik'"

ELLIPSIS = "..."
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

Subscript = tuple[str, ...]
"""Labels of the axes of one tensor, in order; `...` stands for any number of axes."""


@dataclass(frozen=True, slots=True)
class Equation:
    """A parsed equation.

    Attributes:
      inputs: the labels of each input.
      output: the labels of the output.
    """

    inputs: tuple[Subscript, ...]
    output: Subscript

    @classmethod
    def parse(cls, text: str) -> Equation:
        """Read an equation with an explicit output, such as `ij,jk->ik`.

        Raises:
          InvalidArgumentError: it is not well formed.
        """
        left, arrow, right = text.replace(" ", "").partition("->")
        if not arrow or "->" in right:
            raise _malformed(text, "exactly one '->'")
        equation = cls(tuple(_subscript(part, text) for part in left.split(",")), _subscript(right, text))
        known = {label for subscript in equation.inputs for label in subscript} | {ELLIPSIS}
        if not known.issuperset(equation.output):
            raise _malformed(text, "output labels that occur in an input")
        return equation

    def __str__(self) -> str:
        return ",".join("".join(subscript) for subscript in self.inputs) + "->" + "".join(self.output)


def _subscript(text: str, equation: str) -> Subscript:
    before, dots, after = text.partition(ELLIPSIS)
    labels = (*before, *([ELLIPSIS] if dots else []), *after)
    if any(label != ELLIPSIS and label not in _LETTERS for label in labels):
        raise _malformed(equation, "letters and at most one '...' for each tensor")
    return labels


def _malformed(equation: str, expected: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "the equation of an Einstein sum is malformed",
        expected=expected,
        got=repr(equation),
        hint="'ij,jk->ik' multiplies two matrices",
    )


def ellipsis_rank(subscript: Subscript, rank: int) -> int:
    """How many axes the ellipsis of a subscript stands for.

    Raises:
      ShapeError: the subscript does not fit the rank.
    """
    named = len(subscript) - (ELLIPSIS in subscript)
    if rank < named or (ELLIPSIS not in subscript and rank != named):
        raise ShapeError(
            "the equation does not fit the rank of an input",
            expected=f"rank {'>= ' if ELLIPSIS in subscript else ''}{named} for '{''.join(subscript)}'",
            got=f"rank {rank}",
            hint="write ... for axes without a label, or hr.squeeze axes of size 1",
        )
    return rank - named


@register_op(
    "Einsum",
    inputs={"inputs": "N*T"},
    outputs={"output": "T"},
    attrs={"equation": attr.string(), "N": attr.int(minimum=1), "T": attr.numeric},
)
def _einsum_shape(op: InferenceContext) -> list[Shape]:
    """The products of elements with equal labels, summed over labels that the output lacks; `...` axes broadcast.

    TensorFlow takes one or two inputs, this any number.
    """
    equation = Equation.parse(op.attr("equation"))
    if len(equation.inputs) != len(op.inputs):
        raise InvalidArgumentError(
            "the equation has another number of inputs",
            expected=str(len(op.inputs)),
            got=str(equation),
            hint=_INPUTS_HINT,
        )
    sizes: dict[str, int | None] = {}
    batch = Shape([])
    for subscript, spec in zip(equation.inputs, op.inputs, strict=True):
        if spec.shape.dims is None:
            batch = Shape() if ELLIPSIS in subscript else batch
            continue
        hidden = ellipsis_rank(subscript, len(spec.shape))
        start = subscript.index(ELLIPSIS) if hidden else 0
        batch = broadcast_shapes(batch, Shape(spec.shape.dims[start : start + hidden]))
        dims = spec.shape.dims[:start] + spec.shape.dims[start + hidden :]
        for label, size in zip((label for label in subscript if label != ELLIPSIS), dims, strict=True):
            sizes[label] = merge_size(label, sizes.get(label), size)
    shape = Shape([])
    for label in equation.output:
        shape = shape + (batch if label == ELLIPSIS else Shape([sizes.get(label)]))
    return [shape]


def merge_size(label: str, known: int | None, size: int | None) -> int | None:
    """The size of a label that has been met before; raises ShapeError if it differs."""
    if known is not None and size is not None and known != size:
        raise ShapeError(
            f"label '{label}' has two sizes",
            expected=str(known),
            got=str(size),
            hint="give one of the axes another letter, or slice or hr.reshape its input",
        )
    return size if known is None else known


def einsum(equation: str, *operands: TensorLike, name: str | None = None) -> Tensor:
    """Multiply tensors along named axes and sum over those that the result lacks.

    Args:
      equation: for each operand the labels of its axes, letters, `...` for axes that broadcast; then `->` and
        those of the result. Without `->` the result has the labels that occur once, in alphabetical order, as in NumPy.
      *operands: numeric tensors, one per term of the equation.
      name: the operation's name.
    Returns:
      The promoted dtype. More than two operands are multiplied from left to right.
    Raises:
      InvalidArgumentError: the equation is malformed, or has another number of terms.
      ShapeError: a label has two sizes.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.einsum("ij,jk->ik", [[1.0, 2.0]], [[3.0], [4.0]])
      >>> print(hr.Session(graph).run(y))
      [[11.]]
    """
    parsed = Equation.parse(equation if "->" in equation else _with_output(equation))
    tensors = promoted(*operands) if operands else []
    if len(tensors) != len(parsed.inputs):
        raise InvalidArgumentError(
            "the equation has another number of operands",
            expected=str(parsed),
            got=f"{len(tensors)} operands",
            hint=_INPUTS_HINT,
        )
    return contract(tensors, parsed, name=name)


def _with_output(equation: str) -> str:
    terms = equation.replace(" ", "")
    labels = terms.replace(ELLIPSIS, "").replace(",", "")
    once = sorted(label for label in set(labels) if labels.count(label) == 1)
    return f"{terms}->{ELLIPSIS if ELLIPSIS in terms else ''}{''.join(once)}"


def contract(tensors: Sequence[Tensor], equation: Equation, name: str | None = None) -> Tensor:
    """Apply an equation two tensors at a time, from left to right, as TensorFlow's operation demands."""
    current, subscript = tensors[0], equation.inputs[0]
    if len(tensors) == 1:
        return _einsum([current], equation, name)
    for index in range(1, len(tensors)):
        other = equation.inputs[index]
        last = index == len(tensors) - 1
        later = {label for item in (*equation.inputs[index + 1 :], equation.output) for label in item}
        result = equation.output if last else tuple(dict.fromkeys(x for x in (*subscript, *other) if x in later))
        step = Equation((subscript, other), result)
        current, subscript = _einsum([current, tensors[index]], step, name if last else None), result
    return current


def _einsum(tensors: Sequence[Tensor], equation: Equation, name: str | None = None) -> Tensor:
    result: Tensor = apply_op("Einsum", tensors, equation=str(equation), name=name)
    return result


def tensordot(
    a: TensorLike, b: TensorLike, axes: int | Sequence[Sequence[int]] = 2, *, name: str | None = None
) -> Tensor:
    """The sum of products of a and b over some axes of each.

    Args:
      a: numeric, known rank.
      b: numeric, known rank.
      axes: how many last axes of `a` and first axes of `b` are summed over, or the axes of `a` and those of `b`.
      name: the operation's name.
    Returns:
      The promoted dtype; the other axes of `a`, then those of `b`.

    Example:
      >>> import headrace as hr
      >>> with hr.Graph().as_default() as graph:
      ...     y = hr.tensordot([[1.0, 2.0], [3.0, 4.0]], [10.0, 1.0], axes=1)
      >>> print(hr.Session(graph).run(y))
      [12. 34.]
    """
    left, right = promoted(a, b)
    ranks = len(left.shape), len(right.shape)
    pairs = (
        [list(range(ranks[0] - axes, ranks[0])), list(range(axes))]
        if isinstance(axes, int)
        else [list(x) for x in axes]
    )
    letters = iter(_LETTERS)
    first: list[str] = [next(letters) for _ in range(ranks[0])]
    second: list[str] = [next(letters) for _ in range(ranks[1])]
    for x, y in zip(*pairs, strict=True):
        second[y] = first[x]
    output = [label for label in (*first, *second) if first.count(label) + second.count(label) == 1]
    return _einsum([left, right], Equation((tuple(first), tuple(second)), tuple(output)), name)
